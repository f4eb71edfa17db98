"""Reader, publisher, bundler, collector and claimer as sans-I/O steps.

A step is a frozen value: `wants` names the store requests it would like, `take(answers)` is the next step,
and a step that wants nothing is finished. Nothing here imports a store, reads a clock or draws a random
number, so the same code runs on a real store, on a faulty simulated one, and under a scheduler that tries
every interleaving.
"""

from crdtcat.protocol.collector import Collector
from crdtcat.protocol.names import (
    base_name,
    base_number,
    boundary_name,
    bundle_name,
    bundle_number,
    bundle_rank,
    claim_name,
    claim_number,
    is_base,
    is_boundary,
    is_bundle,
    is_claim,
    is_commit,
    is_version,
    mark_name,
    version_name,
)
from crdtcat.protocol.publish import Outcome, Publish
from crdtcat.protocol.reader import Reader
from crdtcat.protocol.requests import (
    Answer,
    Created,
    Delete,
    Deleted,
    Get,
    Got,
    Listed,
    ListPage,
    Object,
    Put,
    PutIfAbsent,
    Request,
    Stored,
)

__all__ = [
    "Answer",
    "Collector",
    "Created",
    "Delete",
    "Deleted",
    "Get",
    "Got",
    "ListPage",
    "Listed",
    "Object",
    "Outcome",
    "Publish",
    "Put",
    "PutIfAbsent",
    "Reader",
    "Request",
    "Stored",
    "base_name",
    "base_number",
    "boundary_name",
    "bundle_name",
    "bundle_number",
    "bundle_rank",
    "claim_name",
    "claim_number",
    "is_base",
    "is_boundary",
    "is_bundle",
    "is_claim",
    "is_commit",
    "is_version",
    "mark_name",
    "version_name",
]
