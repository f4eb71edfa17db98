"""Collection: deleting log files that durable bundles cover, after a grace period by the store's clock."""

from __future__ import annotations

import time
from dataclasses import dataclass

from crdtcat.drive import run
from crdtcat.protocol import Collector, is_bundle
from crdtcat.session import Session


@dataclass(frozen=True)
class CollectResult:
    """What a collection did.

    Attributes:
        versions: version files deleted.
        bundles: bundle files deleted.
        kept: files left in the log.
        seconds: how long it took.
    """

    versions: int = 0
    bundles: int = 0
    kept: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"collect: {self.versions:,} version files and {self.bundles:,} bundles deleted, "
            f"{self.kept:,} files left, in {self.seconds:.2f} s"
        )


def collect_log(session: Session) -> CollectResult:
    """Delete what bundles older than the grace period cover.

    Costs a refresh, one GET per old bundle, one GET per file deleted (it is merged before it goes), and one
    DELETE per 256. Safe beside any number of readers, writers, bundlers and collectors.
    """
    began = time.monotonic()
    reader = session.refresh()
    grace_ms = int(session.options.grace_seconds * 1000)
    step = run(Collector(reader.state, reader.listing, reader.now_ms, grace_ms), session.store)
    bundles = sum(map(is_bundle, step.deleted))
    in_log = sum(item.name.startswith(session.folder) for item in reader.listing)
    return CollectResult(
        versions=len(step.deleted) - bundles,
        bundles=bundles,
        kept=in_log - len(step.deleted),
        seconds=time.monotonic() - began,
    )
