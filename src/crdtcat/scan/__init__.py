"""Reading: filters, pruning, plans, and carrying them out."""

from crdtcat.scan.scan import Scan

__all__ = ["Scan"]
