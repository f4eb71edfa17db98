"""Upkeep: bundling and collecting the log. Never fails a writer, never changes a value, needs no lock."""

from crdtcat.maintenance.bundling import CheckpointResult
from crdtcat.maintenance.checkpoint import checkpoint
from crdtcat.maintenance.collect import CollectResult, collect_log
from crdtcat.maintenance.merge import MergeResult, merge
from crdtcat.maintenance.upkeep import upkeep

__all__ = [
    "CheckpointResult",
    "CollectResult",
    "MergeResult",
    "checkpoint",
    "collect_log",
    "merge",
    "upkeep",
]
