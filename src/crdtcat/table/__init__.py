"""The public face of one table: verbs, each in a line or two over the layers below."""

from crdtcat.table.table import Table

__all__ = ["Table"]
