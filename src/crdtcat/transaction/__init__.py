"""Several tables, one commit: all of it is visible, or nothing."""

from crdtcat.transaction.transaction import Transaction

__all__ = ["Transaction"]
