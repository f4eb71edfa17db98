"""Sets of rows and of values as intervals: overlap, union, difference and intersection."""

from crdtcat.intervals.index import IntervalIndex
from crdtcat.intervals.interval import Interval
from crdtcat.intervals.interval_set import IntervalSet
from crdtcat.intervals.row_set import RowSet

__all__ = ["Interval", "IntervalIndex", "IntervalSet", "RowSet"]
