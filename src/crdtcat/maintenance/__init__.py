"""Upkeep and checks: bundling, collecting, verifying. Never fails a writer, never changes a value."""

from crdtcat.maintenance.bundling import CheckpointResult
from crdtcat.maintenance.checkpoint import checkpoint
from crdtcat.maintenance.collect import CollectResult, collect_log
from crdtcat.maintenance.compact import CompactResult, compact
from crdtcat.maintenance.expire import ExpireResult, expire
from crdtcat.maintenance.garbage import collect_garbage
from crdtcat.maintenance.garbage_report import Garbage, GarbageResult
from crdtcat.maintenance.merge import merge
from crdtcat.maintenance.merge_result import MergeResult
from crdtcat.maintenance.progress import Progress
from crdtcat.maintenance.stats import CatalogStats, TableStats, stats
from crdtcat.maintenance.sync import SyncResult, Transfer, sync
from crdtcat.maintenance.upkeep import upkeep
from crdtcat.maintenance.verify import verify
from crdtcat.maintenance.verify_report import Depth, Problem, VerifyReport

__all__ = [
    "CatalogStats",
    "CheckpointResult",
    "CollectResult",
    "CompactResult",
    "Depth",
    "ExpireResult",
    "Garbage",
    "GarbageResult",
    "MergeResult",
    "Problem",
    "Progress",
    "SyncResult",
    "TableStats",
    "Transfer",
    "VerifyReport",
    "checkpoint",
    "collect_garbage",
    "collect_log",
    "compact",
    "expire",
    "merge",
    "stats",
    "sync",
    "upkeep",
    "verify",
]
