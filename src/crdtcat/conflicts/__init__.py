"""CAS mode: what two commits both touched, and what is to be done about it."""

from crdtcat.conflicts.detect import overlaps
from crdtcat.conflicts.kinds import Answer, Kind
from crdtcat.conflicts.overlap import Overlap
from crdtcat.conflicts.write_set import WriteSet, write_set

__all__ = ["Answer", "Kind", "Overlap", "WriteSet", "overlaps", "write_set"]
