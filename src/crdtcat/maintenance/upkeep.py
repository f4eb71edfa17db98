"""Upkeep without talking: who bundles what is decided by the version ids themselves.

After its commit a writer looks at the digest in its new version's id. One in `bundle_every` is *chosen*.
Chosen versions cut the log, in id order, into blocks: a chosen writer bundles the versions after the chosen
one before it, up to its own. Everybody can tell the blocks apart by names alone, so writers chosen at the
same time do different work, and none needs to know more of the log than a listing and the summaries of
bundles: what upkeep costs follows what is new, not how large the table is.

Blocks whose writer died, or does no upkeep, are picked up by a later one once they are old. Versions that
arrive late into a block that was bundled already are found by `checkpoint` and by collection.

It is done beside the commits, by a thread of the process, at a quiet moment or a second later: no commit
waits for it, it takes few connections, and blocks that one handle was chosen for meanwhile are one bundle.
Where time must not depend on threads (simulations), the commit itself does it. Tasks of Spark do none.
"""

from __future__ import annotations

import itertools
import logging
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from crdtcat.cas.cold_claims import write_hint
from crdtcat.clock import VersionId
from crdtcat.drive import Unclear, elapsed_clock, run_aging, store_now_ms
from crdtcat.errors import NotFound
from crdtcat.log import Summary
from crdtcat.log.files import ids_of
from crdtcat.maintenance.beside import committed, do_beside, in_task_of_spark
from crdtcat.maintenance.bundling import (
    INLINE_BYTES_AT_ONCE,
    CheckpointResult,
    FilesPlan,
    result_of,
)
from crdtcat.maintenance.collect import collect_log
from crdtcat.maintenance.summaries import summaries_of
from crdtcat.protocol import (
    bundle_number,
    claim_name,
    claim_number,
    is_bundle,
    is_claim,
    is_version,
    version_name,
)
from crdtcat.protocol.bundler import Bundler, live_bundles, taken_in
from crdtcat.session import Session
from crdtcat.store import ObjectInfo

ABANDONED_MS: Final = 60_000  # a block this old is nobody's any more
COLLECT_EVERY: Final = 8  # bundlings to a collection
GETS_AT_ONCE: Final = 8
BLOCKS_AT_ONCE: Final = 8  # few are longer, and a pass that sees everything finds what seven others left

logger = logging.getLogger("crdtcat")


def upkeep(session: Session, id: VersionId) -> None:
    """Bundle its block, and now and then collect, if this version is chosen. Never fails the commit."""
    how = session.options.upkeep
    if how is True:
        committed()
    if how is False or not _chosen(id.digest, session.options.bundle_every) or in_task_of_spark():
        return
    if how == "synchronous":
        _keep_up(session, [id])
    elif not do_beside(session, partial(_keep_up, session), id):
        logger.info("upkeep of %s is left to another commit: much is waiting", session.folder)


def _keep_up(session: Session, ids: Sequence[VersionId]) -> None:
    collects = any(int.from_bytes(id.digest[8:], "big") % COLLECT_EVERY == 0 for id in ids)
    try:
        bundle_blocks(session, ids, everything=collects)
        if collects:
            collect_log(session)
    except NotFound:  # nothing to tidy; but whoever goes on appending should know
        logger.warning("%s was dropped: nobody sees what is appended to it", session.folder)
    except Exception as error:  # noqa: BLE001 (whatever it is, the commits before it stand)
        logger.warning("upkeep of %s is put off to another commit: %s", session.folder, error)


def _chosen(digest: bytes, every: int) -> bool:
    return int.from_bytes(digest[:8], "big") % every == 0


def bundle_blocks(session: Session, ids: Sequence[VersionId], *, everything: bool = True) -> CheckpointResult:
    """Bundle the blocks that end with these chosen versions, in one, with what smaller bundles there are.

    Costs one LIST page per 1,000 files, one small GET per bundle not seen before, one GET per bundle taken in
    and per version of the blocks, but for those that this handle stored lately and has at hand, and 1 PUT, or
    2 where rows were inlined, for each 64 MiB of them. Unless `everything` is to be seen, files below this
    handle's last block are not listed: under heavy load they are nearly all, bundled long ago and waiting for
    their grace period to end. Raises `NotFound`: dropped.
    """
    began, listed_at = time.monotonic(), elapsed_clock()
    is_strict, done = session.settings.mode == "cas", session.bundled_to
    own = [version_name(session.folder, id) for id in ids]
    follows = (
        is_claim(done) if is_strict else not is_claim(done) and done < min(own)
    )  # threads may swap two blocks
    listed = list(session.store.list(session.folder, done if follows and not everything else ""))
    session.check_not_dropped([item.name for item in listed])
    summaries = summaries_of(session, [item.name for item in listed if is_bundle(item.name)])
    every = session.options.bundle_every
    if is_strict:
        block = claims_block(listed, every)
    else:
        block = versions_blocks(listed, ids, every, summaries.values(), store_now_ms(session.store))
        session.bundled_to = max(own)
    if len(block) < every // 4:
        return CheckpointResult(seconds=time.monotonic() - began)
    result = _bundled(session, [item.name for item in listed], block, listed_at)
    return replace(result, seconds=time.monotonic() - began)


def _bundled(
    session: Session, listed: Sequence[str], block: Sequence[ObjectInfo], listed_at: float
) -> CheckpointResult:
    """Bundle a block, as much at a time as memory is to hold; each bundle takes in those before it as any
    other. Ends where one must wait: claims are bundled without a gap."""
    young = session.options.grace_seconds / 2
    total, last = CheckpointResult(), None
    for names in in_pieces(block):
        summaries = summaries_of(session, [name for name in listed if is_bundle(name)])
        plan = block_plan(session.folder, listed, names, summaries)
        unclear: Unclear = {}
        step = run_aging(
            Bundler.begin(plan),
            session.store,
            lambda: elapsed_clock() - listed_at > young,
            unclear,
            session.writer.recent.kept,
        )
        one = result_of(step, unclear)
        if step.bundle is None:
            break
        last = step.bundle
        if session.settings.mode == "cas":
            session.bundled_to = claim_name(session.folder, bundle_number(last.name))
        total = total.then(one)
        listed = [*listed, last.name]
    if last is not None:
        write_hint(session, last.newest, last.name)
    return total


def block_plan(
    folder: str, listed: Sequence[str], block: Sequence[str], summaries: Mapping[str, Summary]
) -> FilesPlan:
    """A block with what smaller bundles there are. Few files at a time: nobody waits for them, and
    connections are not free."""
    live = live_bundles(summaries)
    taken = taken_in(live, len(block))
    return FilesPlan(folder, tuple(block), tuple(taken), tuple(live.items()), tuple(listed), GETS_AT_ONCE)


def in_pieces(block: Sequence[ObjectInfo]) -> Iterator[list[str]]:
    """The names of files, as many at a time as memory is to hold: rows may be inlined."""
    piece: list[str] = []
    size = 0
    for item in block:
        if piece and size + item.size > INLINE_BYTES_AT_ONCE:
            yield piece
            piece, size = [], 0
        piece.append(item.name)
        size += item.size
    if piece:
        yield piece


def _in_one_pass(block: Sequence[ObjectInfo], every: int) -> list[ObjectInfo]:
    """The first files of a block: as many as are read at once, or `BLOCKS_AT_ONCE` blocks of usual length, if
    that is more, so that passes keep up with large commits, too. What is left is for later ones."""
    ends = itertools.accumulate(item.size for item in block)
    return [
        item
        for place, (item, end) in enumerate(zip(block, ends, strict=True))
        if place < BLOCKS_AT_ONCE * every or end <= INLINE_BYTES_AT_ONCE
    ]


def claims_block(listed: Sequence[ObjectInfo], every: int) -> list[ObjectInfo]:
    """Claims to bundle: all above the highest number that a bundle has, without a gap. A number that a bundle
    has may be under its name again, put there by a writer that slept too long: such a claim is nobody's."""
    covered = max((bundle_number(item.name) for item in listed), default=0)
    claims = [item for item in listed if is_claim(item.name) and claim_number(item.name) > covered]
    block: list[ObjectInfo] = []
    for place, item in enumerate(claims):
        first = covered + 1 if covered else claim_number(claims[0].name)
        if claim_number(item.name) != first + place:
            break
        block.append(item)
    return _in_one_pass(block, every)


def versions_blocks(
    listed: Sequence[ObjectInfo],
    chosen: Iterable[VersionId],
    every: int,
    summaries: Iterable[Summary],
    now_ms: int,
) -> list[ObjectInfo]:
    """Version files to bundle: the blocks that end with these, and older ones that were left behind."""
    versions = [item for item in listed if is_version(item.name)]
    ids = [bytes(row) for row in ids_of([item.name for item in versions]).view("V36")]
    ends = {id.to_bytes() for id in chosen}
    every_end = sorted(ends.union(id for id in ids if _chosen(id[20:], every)))
    newest = max(ends)
    ranges = [(summary.first, summary.last) for summary in summaries]
    block: list[ObjectInfo] = []
    for item, id in zip(versions, ids, strict=True):
        if id > newest:
            continue
        left_behind = now_ms - item.modified_ms > ABANDONED_MS and not any(a <= id <= b for a, b in ranges)
        if every_end[bisect_left(every_end, id)] in ends or left_behind:
            block.append(item)
    return _in_one_pass(block, every)
