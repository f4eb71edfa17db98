"""The head: the linearized view of a table, a pure function of the state."""

from crdtcat.head.conflicts import Conflict
from crdtcat.head.difference import Diff, diff_heads
from crdtcat.head.head import Chunk, Head
from crdtcat.head.proving import check_proof, check_rows, prove_chunk
from crdtcat.head.snapshot import Snapshot
from crdtcat.head.version import History, Version

__all__ = [
    "Chunk",
    "Conflict",
    "Diff",
    "Head",
    "History",
    "Snapshot",
    "Version",
    "check_proof",
    "check_rows",
    "diff_heads",
    "prove_chunk",
]
