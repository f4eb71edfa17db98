"""Row filters for scans: SQL text, tuples or Arrow expressions in; rows kept and chunks pruned out."""

from crdtcat.scan.filters.bounds import BoundsSource, ColumnBounds
from crdtcat.scan.filters.predicate import Predicate
from crdtcat.scan.filters.prune import Pruned, prune
from crdtcat.scan.filters.row_filter import RowFilter, parse_filter

__all__ = ["BoundsSource", "ColumnBounds", "Predicate", "Pruned", "RowFilter", "parse_filter", "prune"]
