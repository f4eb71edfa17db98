"""Collection of a catalog's garbage: segments that nothing refers to, and what dropped tables left behind.

A segment is garbage when no version within anybody's reach names it: a stream was aborted, a commit failed,
two bundlers raced, a table was dropped, a branch deleted, history expired. It may be deleted only if nobody
can *begin* to need it, and two kinds of writers could:

- one that stored it and has not committed yet. So a segment younger than the grace period is left alone, and
  a commit that takes longer than `TRANSACTION_SECONDS_MAX`, which is shorter, is refused by its own writer;
- one that uses a chunk again (restore, merge, write) by a head it read when something still referred to it.
  So nothing is deleted when it is first found. It is *condemned*: a list of names is stored. Only when that
  list is older than the grace period, and everything is read again and still nothing refers to the segment,
  is it deleted. Whoever had the old head has committed by then, and is seen, or is too late, and refused.
  Who lets a segment go says so in a list of its own (`crdtcat.lifecycle.letting_go`), for it may be used
  again and let go again between two runs: what is older than the latest of those lists does not count.

Names are unique and never used twice, so nobody can make a condemned segment anew. Collectors need no lock:
two that race condemn and delete the same things. What cannot be read ends it, before anything is deleted.

Models: `proofs/tla/Segments.tla` and `proofs/tla/Reuse.tla`.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from crdtcat.drive import store_now_ms
from crdtcat.errors import DataError
from crdtcat.format.condemned import (
    FOLDER,
    TITLES_MAX,
    condemned_name,
    decode_titles,
    encode_condemned,
    is_let_go,
)
from crdtcat.format.sections import Array
from crdtcat.format.settings import dropped_name
from crdtcat.maintenance.each import Each
from crdtcat.maintenance.garbage_report import Fate, Garbage, GarbageResult
from crdtcat.maintenance.progress import Progress, Tell, teller
from crdtcat.maintenance.references import Survey, survey
from crdtcat.maintenance.segment_listing import SegmentListing, list_segments
from crdtcat.options import SECONDS_MAX, Options
from crdtcat.store import Store
from crdtcat.support.arguments import require_flag, require_seconds

FORGET_MS: Final = 30 * 86_400_000  # a list nobody has acted on for so long says nothing any more
DELETE_AT_ONCE: Final = 1_000
NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True)
class _List:
    """A list of segments: its name, when it was stored, and where its segments are listed; `None`: it
    cannot be read, and may be of any."""

    name: str
    modified_ms: int
    members: Array | None


def collect_garbage(
    store: Store,
    options: Options,
    *,
    grace_seconds: float,
    dry_run: bool,
    progress: bool | Tell | None,
    each: Each | None = None,
) -> GarbageResult:
    """Condemn what nothing refers to, and delete what was condemned long enough ago.

    Costs one LIST per folder of `data/` and page of it, one GET per list of condemned segments, and what
    `survey` costs, twice where something is deleted; then 1 PUT for new lists and 1 DELETE per 1,000 objects.
    `each` lists folders and reads logs, if not this process.

    Raises:
        InvalidArgument: a grace period that is no time.
        Corrupt, UnsupportedFormat: something cannot be read, by name. Nothing was deleted.
        StoreUnavailable, AccessDenied: the store cannot be asked.
    """
    require_flag("dry_run", dry_run)
    require_seconds("grace", grace_seconds, SECONDS_MAX)
    work = _Collection(store, options, int(grace_seconds * 1000), dry_run, teller(progress), each)
    return work.run()


class _Collection:
    def __init__(  # noqa: PLR0917 (made above, and nowhere else)
        self,
        store: Store,
        options: Options,
        grace_ms: int,
        dry_run: bool,
        tell: Tell,
        each: Each | None,
    ) -> None:
        self._store, self._options, self._tell, self._each = store, options, tell, each
        self._grace_ms, self._dry_run = grace_ms, dry_run

    def run(self) -> GarbageResult:
        began = time.monotonic()
        # In this order: whatever was condemned or stored before is known before references are read.
        found = list(self._store.list(FOLDER))
        listing = list_segments(self._store, self._told("folders of segments"), self._each)
        lists = list(self._lists([(item.name, item.modified_ms) for item in found], listing))
        survey, referenced = self._survey(listing)
        now_ms = store_now_ms(self._store)
        old = listing.modified_ms <= now_ms - self._grace_ms
        garbage = old & ~referenced
        since = self._condemned_since(lists, listing, referenced, now_ms)
        fresh = garbage & (since == NEVER)
        since[fresh] = now_ms
        doomed = garbage & (since <= now_ms - self._grace_ms)
        left_behind = list(self._left_behind(survey, now_ms))
        if not self._dry_run:
            self._condemn(listing, fresh & ~doomed)
            if doomed.any():
                doomed &= ~self._survey(listing)[1]
            self._delete([listing.name(at) for at in np.flatnonzero(doomed).tolist()])
            self._delete([item.name for item in left_behind])
            self._delete(self._finished(lists, referenced, doomed, now_ms))
        items = [*left_behind, *_described(listing, garbage, since, fresh, doomed)]
        return GarbageResult(
            garbage=tuple(items),
            referenced=int(referenced.sum()),
            young=int((~old & ~referenced).sum()),
            strangers=listing.strangers,
            tables=survey.tables,
            logs=survey.logs,
            dry_run=self._dry_run,
            seconds=time.monotonic() - began,
        )

    def _told(self, unit: str) -> Callable[[int, int], object]:
        return lambda done, total: self._tell(Progress("collect", done, total, unit))

    def _lists(self, items: list[tuple[str, int]], listing: SegmentListing) -> Iterator[_List]:
        answers = self._store.get_many([(name, 0, None) for name, _ in items])
        for (name, modified_ms), data in zip(items, answers, strict=True):
            if data is None:
                continue
            try:
                yield _List(name, modified_ms, listing.find(b"".join(decode_titles(data, name))))
            except DataError:
                yield _List(name, modified_ms, None)

    def _survey(self, listing: SegmentListing) -> tuple[Survey, Array]:
        """What the catalog's tables refer to, as a mask over the listing."""
        referenced = np.zeros(len(listing), bool)

        def found(titles: bytes) -> None:
            referenced[listing.find(titles)] = True

        return survey(self._store, self._options, found, self._told("tables"), self._each), referenced

    def _condemned_since(
        self, lists: list[_List], listing: SegmentListing, referenced: Array, now_ms: int
    ) -> Array:
        """Since when each segment is known to be garbage. A list of which anything was used again counts for
        nothing: what it says of the others may be as old. Nor does what was said before one was let go; where
        that list cannot be read, before any was."""
        since = np.full(len(listing), NEVER, np.int64)
        counting = [each for each in lists if self._counts(each, referenced, now_ms)]
        anything = max((each.modified_ms for each in counting if each.members is None), default=0)
        counting = [each for each in counting if each.members is not None and each.modified_ms >= anything]
        for each in counting:
            if not is_let_go(each.name):
                since[each.members] = np.minimum(since[each.members], each.modified_ms)
        for each in sorted(counting, key=lambda each: each.modified_ms):
            if is_let_go(each.name):
                since[each.members] = each.modified_ms
        return since

    def _counts(self, each: _List, referenced: Array, now_ms: int) -> bool:
        if each.modified_ms <= now_ms - self._grace_ms - FORGET_MS:
            return False
        if is_let_go(each.name):
            return True
        return each.members is not None and not referenced[each.members].any()

    def _finished(self, lists: list[_List], referenced: Array, doomed: Array, now_ms: int) -> list[str]:
        """Lists that have done their work, or count no more."""
        return [
            each.name
            for each in lists
            if not self._counts(each, referenced, now_ms)
            or (each.members is not None and doomed[each.members].all())
        ]

    def _condemn(self, listing: SegmentListing, fresh: Array) -> None:
        places = np.flatnonzero(fresh).tolist()
        for at in range(0, len(places), TITLES_MAX):
            titles = [listing.title(place) for place in places[at : at + TITLES_MAX]]
            self._store.put(condemned_name(secrets.token_bytes(8)), encode_condemned(titles))

    def _left_behind(self, survey: Survey, now_ms: int) -> Iterator[Garbage]:
        """Files in folders that nobody reads, once their table has been dropped for a grace period.

        The marks stay: they tell handles that are still open. Where a drop was cut off before its mark, the
        mark is made up for, and the rest waits for it.
        """
        marks: dict[str, int] = {}
        for folder, log in sorted(survey.dead, key=lambda each: each[0] != each[1]):  # logs first, then refs
            listed = list(self._store.list(folder))
            marks.update((item.name, item.modified_ms) for item in listed if item.name == dropped_name(log))
            if dropped_name(log) not in marks and not self._dry_run:
                self._store.put(dropped_name(log), b"")
                marks[dropped_name(log)] = now_ms
            if marks.get(dropped_name(log), now_ms) > now_ms - self._grace_ms:
                continue
            for item in listed:
                if item.name != dropped_name(folder) and item.modified_ms <= now_ms - self._grace_ms:
                    yield Garbage(item.name, item.size, "deleted", "of a dropped table or a deleted branch")

    def _delete(self, names: list[str]) -> None:
        for at in range(0, len(names), DELETE_AT_ONCE):
            self._store.delete(names[at : at + DELETE_AT_ONCE])
            done = min(at + DELETE_AT_ONCE, len(names))
            self._tell(Progress("collect", done, len(names), "objects deleted"))


def _described(
    listing: SegmentListing, garbage: Array, since: Array, fresh: Array, doomed: Array
) -> Iterator[Garbage]:
    for at in np.flatnonzero(garbage).tolist():
        fate: Fate = "deleted" if doomed[at] else "condemned" if fresh[at] else "waiting"
        stored, known = _moment(int(listing.modified_ms[at])), _moment(int(since[at]))
        why = f"stored {stored}, and no table refers to it, as known since {known}"
        yield Garbage(listing.name(at), int(listing.sizes[at]), fate, why)


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
