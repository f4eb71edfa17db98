"""The head: the linearized view of a table, a pure function of the state."""

from crdtcat.head.conflicts import Conflict
from crdtcat.head.head import Chunk, Head
from crdtcat.head.proving import check_proof, check_rows, prove_chunk
from crdtcat.head.snapshot import Snapshot
from crdtcat.head.version import History, Version

__all__ = [
    "Chunk",
    "Conflict",
    "Head",
    "History",
    "Snapshot",
    "Version",
    "check_proof",
    "check_rows",
    "prove_chunk",
]
