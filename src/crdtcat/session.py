"""A session: one handle's view of one table, and its way of committing to it.

It holds the store, the settings, the state merged so far, and the writer. Verbs are functions over a
session; nothing else in the library keeps mutable state about a table. Thread-safe; picklable (a copy
carries the settings and what is known of the columns: see `crdtcat.writing.copies`). Reads are monotonic: a
refresh only ever adds versions. A handle reads its own writes: it lists after them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from crdtcat.cas.claim_reads import ClaimReads
from crdtcat.cas.claimed import commit_claimed
from crdtcat.cas.cold_claims import Chain, newest
from crdtcat.cas.modes import ModeSwitched, is_switching, with_mode_of
from crdtcat.cas.reading import Notes, Read, require_no_more_than_snapshot
from crdtcat.cas.switching import require_merged
from crdtcat.chunks.read import FooterCache
from crdtcat.clock import HybridClock, VersionId
from crdtcat.clock.hlc import wall_ms
from crdtcat.drive import elapsed_clock, run
from crdtcat.errors import Corrupt, CrdtcatError, NotFound
from crdtcat.first_page import FirstPage, first_reader
from crdtcat.format.refs import deleted_name
from crdtcat.format.settings import Settings, dropped_name, log_folder
from crdtcat.head import Head, Snapshot, Version
from crdtcat.head.head import NOTHING_AT_HAND
from crdtcat.head.snapshot import versions_of
from crdtcat.lifecycle.closing import require_settled, settled
from crdtcat.lifecycle.horizons import is_dead
from crdtcat.lifecycle.incarnations import current_settings, exists
from crdtcat.limits import TRANSACTION_SECONDS_MAX
from crdtcat.log import Log, State, Summary, empty_log
from crdtcat.options import Options
from crdtcat.protocol import Put, Reader
from crdtcat.store import Store
from crdtcat.support.locks import ForkSafeLock
from crdtcat.writing.copies import new_origin, shared_writer
from crdtcat.writing.fit import Fit, Known, known_from_settings
from crdtcat.writing.knowledge import Knowledge
from crdtcat.writing.own_commits import with_own
from crdtcat.writing.version_keys import seen_clock, version_body, version_of
from crdtcat.writing.writer import Writer

START_MS_MAX: Final = 1000 * TRANSACTION_SECONDS_MAX // 4  # how long what a branch read of its source counts

_OF_STATE: Final = "_lock _state _head _before start summaries last_fit last_known listed_at shown"
_OF_HANDLE: Final = "clock writer chain notes footers switching bundled_to first_page"
_NOT_COPIED: Final = frozenset(f"{_OF_STATE} {_OF_HANDLE}".split())


class Session:
    """One handle on one table.

    Args:
        store: the catalog's store.
        table: the table's name.
        branch: the branch's name.
        settings: the table's settings.
        options: the handle's options.
        clock: the process's hybrid clock.
        origin: names the catalog handle this one comes from; copies of one origin share a writer.
        copied: whether that catalog handle is a copy itself.
        life: which life of the branch's name.
        source: for a branch, its source and the snapshot of it that it starts with.
        kept: whether the log is read although its branch was deleted, because others start from it.
        after: the time that all commits are stamped above, blind ones too: when a branch began, say.
    """

    def __init__(
        self,
        store: Store,
        table: str,
        *,
        branch: str,
        settings: Settings,
        options: Options,
        clock: HybridClock,
        origin: bytes | None = None,
        copied: bool = False,
        life: int = 1,
        source: tuple[Session, Snapshot] | None = None,
        kept: bool = False,
        after: int = 0,
    ) -> None:
        self.store, self.table, self.branch, self.life = store, table, branch, life
        self.settings, self.opened_with, self.options = settings, settings, options
        self.origin = origin or new_origin()
        self.folder = log_folder(table, branch, settings.incarnation, life)
        self.source, self.kept, self.after = source, kept, max(after, clock.last)
        self._knowledge = Knowledge(known_from_settings(settings))
        self.dropped, self.is_settled, self.marked, self.mark_asked = False, True, False, False
        self._start(None if copied else clock)

    def _start(self, clock: HybridClock | None) -> None:
        """Without a clock it is a copy, and takes the clock and writer that this process has for such."""
        self.copied = clock is None
        max_skew_ms = self.options.max_clock_skew_seconds * 1000
        if clock is None:
            self.clock, self.writer = shared_writer(self.origin, self.folder, max_skew_ms)
        else:
            self.clock, self.writer = clock, Writer(self.folder, clock, max_skew_ms)
        self.clock.observe(self.after)
        self._lock, self._state, self._before = ForkSafeLock(), State(self.folder), NOTHING_AT_HAND
        self.start: Log | None = None if self.source else empty_log()
        self._head: Head | None = None
        self.first_page: FirstPage | None = None
        self.summaries: dict[str, Summary] = {}
        self.chain, self.notes, self.footers, self.shown = Chain(), Notes(), FooterCache(), False
        self._start_ms, self.listed_at, self.switching, self.bundled_to = 0, -np.inf, False, ""
        self.last_fit: tuple[Known | None, pa.Schema, Fit] | None = None
        self.last_known: tuple[Settings, bytes, Known | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        self.known  # noqa: B018 (of the copy's, too)
        own = {name: value for name, value in self.__dict__.items() if name not in _NOT_COPIED}
        return {**own, "after": self.clock.last}  # a copy's commits sort after what this one saw

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start(None)

    @property
    def state(self) -> State:
        """What has been merged so far."""
        return self._state

    @property
    def known(self) -> Known | None:
        """The columns that rows are checked against; `None` where none are known. No request."""
        if self.shown:
            with suppress(CrdtcatError):  # of a damaged log whoever reads it is told: appends do not
                self.head(refresh=False)
        return self._knowledge.columns

    def learn(self, columns: Known, author: VersionId) -> None:
        """What a commit of this handle made of the columns. Holds until a head has that commit."""
        with self._lock():
            self._knowledge = Knowledge(columns, author)

    def refresh(self, *, described: bool = False) -> Reader[State]:
        """Merge what is new. One LIST page per 1,000 files of the log, and one GET per new file that no
        bundle covers; the first time a GET more, if the mark was not asked for (`marks`). A table that took
        part in a transaction: as many more pages for `transactions/`. A branch: the first time, and every
        `START_MS_MAX`, a refresh of the one it starts from. `described`: the listing tells sizes and times.

        Raises:
            NotFound: the table was dropped.
            Corrupt, UnsupportedFormat, StoreUnavailable: as reading does, and where own commits are gone.
        """
        with self._lock():
            page, self.first_page = self.first_page, None
            began = elapsed_clock() if page is None else page.began
            if self.start is None or (self.source and wall_ms() - self._start_ms > START_MS_MAX):
                self._begin()
            pages = [] if page is None else [page]
            reader, ours = settled(self.store, lambda: self._read(pages, described=described))
            self.is_settled = self.is_settled and ours
            self.check_not_dropped(reader.names)
            self.marked = reader.marked
            self._advance(reader.state)
            self.settings = with_mode_of(self, reader.state.log)
            self.listed_at, self.switching = began, is_switching(reader)
            if self.settings.mode == "cas":
                self.chain.saw(newest(reader.state.log), began)
                self.chain.crowded = False
            return reader

    def _read(self, pages: list[FirstPage], *, described: bool) -> Reader[State]:
        """Read what is new; `pages` has the first page, if that was listed ahead, and is emptied."""
        own, reader = self.writer.last, partial(first_reader, self, pages, described=described)
        at_hand = {**self.writer.recent.taken(), **self.chain.at_hand(self.options.grace_seconds / 2)}
        claims = ClaimReads(self.chain, cold=not len(self._state.log))
        try:
            return claims.kept(with_own(lambda: run(reader(), self.store, at_hand, ask=claims.answers), own))
        except Corrupt:  # a straggler in the log of a dropped table has lost its predecessors
            self.check_not_dropped([item.name for item in self.store.list(self.folder)])
            raise

    def _begin(self) -> None:
        """A branch's start, from its source's log: what every refresh adds to. Read anew now and then: it may
        have been expired since, and whoever restores or writes must not refer to segments let go then."""
        assert self.source is not None
        source, snapshot = self.source
        self._start_ms = wall_ms()
        start = versions_of(source.refresh().state.log, snapshot, self.table)
        self._advance(State(self.folder, start))
        self.start = start

    def _advance(self, state: State) -> None:
        if state is self._state:
            return
        self.clock.observe(state.latest)  # first: whatever interrupts us, no commit sorts before what it saw
        if self._head is not None:
            self._before = self._head.at_hand
        self._state, self._head = state, None

    def check_not_dropped(self, listed: Sequence[str]) -> None:
        """For everybody who has listed the log's folder: what it tells of a drop is remembered.

        Raises `NotFound` if the listing says so, or if all that was there is gone and the settings do. No
        request, except in that second case.
        """
        if self.kept:
            return
        gone = not any(name.startswith(self.folder) for name in listed)
        if dropped_name(self.folder) in listed:
            self.dropped = True
        elif gone and len(self._state.log) > len(self.start or ()):
            now = current_settings(self.store, self.table)
            self.dropped = now is None or now.dropped or now.incarnation != self.settings.incarnation
            if self.source is not None and not self.dropped:
                over = deleted_name(self.table, self.settings.incarnation, self.branch, self.life)
                self.dropped = exists(self.store, over)
        self.require_not_dropped()

    def require_not_dropped(self) -> None:
        """Raises `NotFound` if this handle knows that its table was dropped. No request."""
        if self.dropped and self.source is not None:
            raise NotFound(
                f"branch {self.branch!r} of table {self.table!r} was deleted, or its table dropped"
            )
        if self.dropped:
            raise NotFound(
                f"table {self.table!r} was dropped: get another handle from catalog.table() if it was "
                "created again, or create it"
            )

    def head(self, *, refresh: bool = True) -> Head:
        """The head, after a refresh; with `refresh=False` the last one, if there is one."""
        if refresh or self.start is None or not len(self._state.log):
            self.refresh()
        with self._lock():
            is_new, self.shown = self._head is None, False
            if self._head is None:
                self._head = Head(self.table, self._state.log, self.settings, before=self._before)
            if is_new or self._knowledge.author is not None:
                self._knowledge = self._knowledge.looked_at(self._head)
            return self._head

    def looked(self, head: Head, read: Read) -> None:
        """Remember what was read, if that counts. No request."""
        if self.options.isolation == "serializable":
            self.notes.add(read, newest(head.log))

    def commit(
        self,
        operation: str,
        *,
        body: Mapping[str, Any],
        puts: Sequence[Put] = (),
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        seen: Head | None = None,
        writer: Writer | None = None,
    ) -> Version:
        """Publish one version. `seen` is the head it was made from; a blind commit has none.

        Upkeep has a `writer` of its own: it is no part of history, and so of nobody's count, and it takes no
        number in CAS mode. Raises as `crdtcat.writing.writer.Writer.commit` does; in CAS mode as
        `crdtcat.cas.claiming.commit_claim`.
        """
        self.require_not_dropped()
        if seen is not None:
            require_settled(self)
        whole = version_body(operation, body, metadata, key)
        while True:
            try:
                if self.settings.mode == "cas" and writer is None:
                    return commit_claimed(self, operation, whole, puts, seen)
                if writer is None:
                    require_no_more_than_snapshot(self)
                id = self._commit_merged(whole, puts, seen, writer)
                return version_of(id, operation, whole, self._state.log)
            except ModeSwitched:  # met before anything was committed, and after the rows were stored
                puts = ()
                self.refresh()

    def _commit_merged(
        self, whole: Mapping[str, Any], puts: Sequence[Put], seen: Head | None, writer: Writer | None
    ) -> VersionId:
        clock = {} if seen is None else seen_clock(seen)
        whole, chosen = {**whole, **clock}, writer or self.writer
        id = chosen.commit(self.store, whole, puts)
        while self.source is None and is_dead(self, id):
            id = chosen.commit(self.store, whole)  # for good: the same commit under a younger id
        if seen is not None and writer is None:
            require_merged(self, id, seen)
        return id

    def upkeep_writer(self) -> Writer:
        """A writer for one piece of upkeep."""
        return Writer(self.folder, self.clock, self.options.max_clock_skew_seconds * 1000)
