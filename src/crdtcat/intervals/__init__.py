"""Sets of rows and of values as intervals: overlap, union, difference and intersection.

The detector compares rows as `RowSet`s, and ranges of keys by an `IntervalIndex`. `IntervalSet`, over
integers, and `ValueSet`, over any ordered values, are for users of the library: nothing else in it needs
them, since what was read is held against the statistics of chunks, and keys are compared as arrays.
"""

from crdtcat.intervals.index import IntervalIndex
from crdtcat.intervals.interval import Interval
from crdtcat.intervals.interval_set import IntervalSet
from crdtcat.intervals.row_set import RowSet
from crdtcat.intervals.value_set import ValueSet

__all__ = ["Interval", "IntervalIndex", "IntervalSet", "RowSet", "ValueSet"]
