"""crdtcat: a coordination-free table catalog on object storage.

    from crdtcat import Catalog

    cat = Catalog("./lake")
    cat.commit("events", [{"user": 1, "action": "login"}])
    cat.read("events")

Every commit is one uniquely named, immutable file; every reader that has merged the same files holds the
same table. See `Catalog` and `Table`, and `crdtcat.errors` for everything that can go wrong; the errors that
programs catch first are here, too.
"""

from crdtcat.catalog import Catalog
from crdtcat.clock import VersionId
from crdtcat.errors import (
    AlreadyExists,
    CommitConflict,
    CommitUnknown,
    CrdtcatError,
    NotFound,
    SchemaMismatch,
)
from crdtcat.head import Chunk, Conflict, Head, Snapshot, Version, check_proof, check_rows
from crdtcat.merkle import Proof
from crdtcat.scan import Scan
from crdtcat.scan.difference import Diff
from crdtcat.table import Table

__version__ = "0.1.0"

__all__ = [
    "AlreadyExists",
    "Catalog",
    "Chunk",
    "CommitConflict",
    "CommitUnknown",
    "Conflict",
    "CrdtcatError",
    "Diff",
    "Head",
    "NotFound",
    "Proof",
    "Scan",
    "SchemaMismatch",
    "Snapshot",
    "Table",
    "Version",
    "VersionId",
    "__version__",
    "check_proof",
    "check_rows",
]
