"""Collection: deleting log files that durable bundles cover, after a grace period by the store's clock."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crdtcat.drive import answers, store_now_ms
from crdtcat.log import State, Summary
from crdtcat.log.files import ids_of
from crdtcat.maintenance.checkpoint import checkpoint
from crdtcat.maintenance.progress import Progress, Tell, teller
from crdtcat.maintenance.summaries import summaries_of
from crdtcat.protocol import (
    Collector,
    Deleted,
    Get,
    Object,
    bundle_number,
    bundle_rank,
    claim_number,
    is_base,
    is_boundary,
    is_bundle,
    is_claim,
    is_commit,
    is_version,
)
from crdtcat.session import Session
from crdtcat.support.arguments import require_flag


@dataclass(frozen=True)
class CollectResult:
    """What a collection did.

    Attributes:
        versions: version files deleted.
        bundles: bundle files deleted.
        kept: files left in the log.
        seconds: how long it took.
        dry_run: whether nothing was deleted.
    """

    versions: int = 0
    bundles: int = 0
    kept: int = 0
    seconds: float = 0.0
    dry_run: bool = False

    def __str__(self) -> str:
        what = "would be deleted" if self.dry_run else "deleted"
        return (
            f"collect: {self.versions:,} version files and {self.bundles:,} bundles {what}, "
            f"{self.kept:,} files left, in {self.seconds:.2f} s"
        )


def collect_log(
    session: Session, *, dry_run: bool = False, progress: bool | Tell | None = None
) -> CollectResult:
    """Delete what bundles older than the grace period cover.

    Costs one LIST page per 1,000 files, one small GET per bundle not seen before, one GET per old bundle that
    covers something listed, one GET per file deleted (it is merged before it goes), and one DELETE per 256.
    Versions that slipped past every bundle are bundled first. Safe beside any number of readers, writers,
    bundlers and collectors. With `dry_run` all of that is read, and nothing written or deleted. Raises
    `NotFound`: the table was dropped.
    """
    require_flag("dry_run", dry_run)
    began, tell = time.monotonic(), teller(progress)
    listing = tuple(
        Object(item.name, item.size, item.modified_ms) for item in session.store.list(session.folder)
    )
    session.check_not_dropped([item.name for item in listing])
    now_ms = store_now_ms(session.store)
    grace_ms = int(session.options.grace_seconds * 1000)
    summaries = summaries_of(session, [item.name for item in listing if is_bundle(item.name)])
    useful = _useful(listing, summaries, now_ms - grace_ms)
    step = Collector(State(session.folder), listing, now_ms, grace_ms, bundles=useful)
    what, files = f"collect {session.table}", len(listing)
    tell(Progress(what, 0, files, "files"))
    while wants := step.wants:
        spared = dry_run and not all(isinstance(want, Get) for want in wants)
        step = step.take([Deleted()] if spared else answers(session.store, wants, {}))
        tell(Progress(what, len(step.deleted), files, "files", found=len(step.deleted)))
    tell(Progress(what, files, files, "files", found=len(step.deleted)))
    deleted = set(step.deleted)
    if not dry_run and any(
        is_commit(item.name) and item.name not in deleted and now_ms - item.modified_ms > 2 * grace_ms
        for item in listing
    ):
        checkpoint(session)
    bundles = sum(map(is_bundle, deleted))
    return CollectResult(
        versions=len(deleted) - bundles,
        bundles=bundles,
        kept=len(listing) - len(deleted),
        seconds=time.monotonic() - began,
        dry_run=dry_run,
    )


def _useful(listing: Sequence[Object], summaries: Mapping[str, Summary], old_ms: int) -> tuple[str, ...]:
    """Old bundles that may cover something still listed, the highest rank first.

    A summary only chooses what is worth a read; the collector reads each bundle back before it trusts it.
    """
    names = [item.name for item in listing]
    ids = sorted(bytes(row) for row in ids_of([name for name in names if is_version(name)]).view("V36"))
    least = min((claim_number(name) for name in names if is_claim(name)), default=2**63)
    ranks = [bundle_rank(name) for name in names if is_bundle(name)]
    bounded, bounded_ms = max(
        ((bundle_number(item.name), item.modified_ms) for item in listing if is_boundary(item.name)),
        default=(0, -1),
    )
    chosen = []
    for item in listing:
        if not is_bundle(item.name) or item.modified_ms > old_ms:
            continue
        summary = summaries.get(item.name)
        if (
            summary is None
            or any(summary.first <= id <= summary.last for id in ids)
            or least <= bundle_number(item.name)
            or (is_base(item.name) and (least <= bounded or bounded_ms < item.modified_ms) and least < 2**63)
            or min(ranks) < bundle_rank(item.name)
        ):
            chosen.append(item.name)
    return tuple(sorted(chosen, key=bundle_rank, reverse=True))
