"""The tables of a catalog by their names: handles on them, what there is, dropping, and looking again.

A handle is kept for each name. It learns that its table was dropped when it lists; whoever asked by name then
gets the table that has the name now (`_again`), without having to know about handles.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from crdtcat.cas.decisions import read_decision, status_in
from crdtcat.catalog.tended_catalog import TendedCatalog
from crdtcat.errors import Corrupt, InvalidArgument, InvalidName, NotFound
from crdtcat.first_page import with_first_page
from crdtcat.format.settings import MARKER, MARKER_NAME, Settings, check_marker, log_folder, settings_name
from crdtcat.lifecycle.ending import end_log
from crdtcat.lifecycle.incarnations import MAIN, Found, all_settings, current_settings, drop, table_folders
from crdtcat.lifecycle.lost_settings import drop_likely, is_there, known_or_likely, require_none
from crdtcat.maintenance import CatalogStats, Depth, Progress, TableStats, VerifyReport
from crdtcat.marks import with_mark
from crdtcat.names import validate_table_name
from crdtcat.session import Session
from crdtcat.support.arguments import require_branch_name
from crdtcat.support.locks import ForkSafeLock
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.support.showing import shown
from crdtcat.table import Table
from crdtcat.verbs.branches import end_all
from crdtcat.verbs.settings import require_exclusion

_T = TypeVar("_T")


class NamedTables(TendedCatalog):
    """The verbs of a `Catalog` about tables as a whole."""

    _tables: dict[str, Table]
    _checked: bool
    _origin: bytes
    _copied: bool
    _lock: ForkSafeLock

    @property
    def url(self) -> str:
        """The root, without credentials."""
        return self.store.url

    def table(self, name: str, branch: str = MAIN) -> Table:
        """A handle on a table; the same one each time, until it learns that its table was dropped.

        Two GETs at once the first time, the settings and whether it took part in transactions (`marks`); two
        more if the table was dropped and created again. A branch costs two more, and two for each branch that
        it starts from in turn. Where there is none, a LIST more, and one more if it was dropped.

        Raises:
            NotFound: there is no such table, or no such branch.
            Corrupt: its settings are damaged, or gone although its log is there; it can be dropped.
        """
        require_branch_name(branch)
        found = self._there(name, self._find(name, looking=True))
        return found if branch == MAIN else found._on(branch)

    def _to_append(self, name: str, branch: str) -> Table | None:
        """`table`, for one who need not read it: nothing is asked but the settings. `None`: not there."""
        if branch == MAIN:
            return self._find(name, closely=False)
        return self._there(name, self._find(name))._on(branch)

    def _to_read(self, name: str) -> Table:
        """`table`, for one who is about to read it, and no other: see `first_page`."""
        return self._there(name, self._find(name, looking=True, at_once=True))

    def _there(self, name: str, found: Table | None) -> Table:
        if found is None:
            raise NotFound(f"no table {name!r} in {self.url}; create_table() or commit() makes one")
        return found

    def _find(
        self, name: str, *, closely: bool = True, looking: bool = False, at_once: bool = False
    ) -> Table | None:
        """A handle on a table, if there is one. Not `closely`: a log whose settings were never there, as it
        seems, is not looked for, which saves a LIST before `create_table` looks for it. `looking`: a new
        handle may be read, and is told of a mark in its log. `at_once`: it is about to be, and gets the first
        page of its log if that can be had at the same time."""
        validate_table_name(name)
        with self._lock():
            if name not in self._tables or self._tables[name].dropped:
                page, marked, ask = None, False, looking
                if at_once and self.store.is_remote:
                    ask = False  # the page tells
                    settings, page = with_first_page(self.store, name, lambda: self._settings(name)[0])
                else:
                    settings, marked = self._settings(name, looking=ask)
                if (settings is None and closely) or (settings is not None and settings.dropped):
                    settings = require_none(self.store, name, settings)
                if settings is None:
                    return None
                made = self._tables[name] = self._handle(name, settings)
                made._session.first_page = page
                if ask and settings.incarnation == 1:
                    made._session.marked, made._session.mark_asked = marked, True
            return self._tables[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is a table of that name. As `table`."""
        try:
            return isinstance(name, str) and self.table(name) is not None
        except (NotFound, InvalidName):
            return False

    def tables(self) -> list[str]:
        """The names of all tables. One LIST, and one GET for each folder; two more where one was dropped, and
        two LISTs where a folder has no settings.

        A table whose settings are damaged, or gone while its log is there, is listed: opening it says what is
        wrong, and `drop_table` drops it. But for one that was dropped before and made again, and lost the
        settings of its last life alone: it looks like a dropped one here, and only `table` looks closer.
        """
        self._check_format()
        found = all_settings(self.store, table_folders(self.store))
        return [name for name, item in found.items() if self._is_listed(name, item)]

    def _is_listed(self, name: str, found: Found) -> bool:
        if found is None:
            return is_there(self.store, name)
        return not (isinstance(found, Settings) and found.dropped)

    def drop_table(self, name: str) -> None:
        """Drop a table for everybody: commits still under way to it are dropped with it.

        This catalog's own handle on it raises `NotFound` from then on, others once they list its log, in CAS
        mode with any commit; commits made blindly in merge mode before that are lost with the table. Two
        PUTs, in CAS mode three, then its log is deleted (one LIST page and DELETE per 1,000 files), and those
        of its branches, with one more LIST to find them and a PUT for each. Segments and claims are garbage
        from then on.

        A table whose settings are damaged or missing is dropped, too, with every earlier one of its name: a
        few LISTs more, and a PUT for each log that is there. Raises `NotFound`, and `UnsupportedFormat` for
        settings of a later release.
        """
        validate_table_name(name)
        with self._lock():
            self._check_format()
            settings, known = known_or_likely(self.store, name)
            if settings is None or settings.dropped:
                raise NotFound(f"no table {name!r} in {self.url}")
            logs = [settings.incarnation]
            if known:
                drop(self.store, name, settings)
            else:
                logs = drop_likely(self.store, name, settings)
            if (handle := self._tables.pop(name, None)) is not None:
                handle._ended()
        for number in logs:
            end_all(self.store, name, number)
            end_log(self.store, log_folder(name, MAIN, number), strict=settings.mode == "cas")

    def verify(
        self,
        table: str,
        depth: Depth = "bytes",
        *,
        progress: bool | Callable[[Progress], object] | None = None,
    ) -> VerifyReport:
        """`Table.verify` of a table by its name, also where it cannot be opened: damaged settings are one of
        the problems then, and the rest is looked at as far as it can be without them.

        What is counted of a keyed table is then chunks before merging. Requests: as `Table.verify`; for
        damaged settings three LISTs and two GETs more. Raises `NotFound`, and as `Table.verify` does.
        """
        validate_table_name(table)
        try:
            return self._again(lambda: self.table(table).verify(depth, progress=progress))
        except (NotFound, Corrupt):
            likely, known = known_or_likely(self.store, table)
            if likely is None or known:
                raise
        return self._handle(table, likely).verify(depth, progress=progress)

    def stats(self) -> CatalogStats:
        """`Table.stats` of every table, and their sums. Requests: what `tables` makes, and each `stats`."""
        found = [self._again(partial(self._stats_of, name)) for name in self.tables()]
        return CatalogStats(tuple(found))

    def _stats_of(self, name: str) -> TableStats:
        return self.table(name).stats()

    def transaction_status(self, id: str) -> str:
        """What became of a transaction over tables in CAS mode: "committed" or "aborted", for ever; or
        "prepared": its claims are there, and nobody has decided it.

        One GET; where there is no decision, because it is not made or was collected, a refresh of every table
        and branch: one that took numbers there, and nothing else, was aborted (or it was serializable, only
        read these, and what it wrote to was dropped). Raises `NotFound` where no table knows it, and
        `InvalidArgument` for what is no `Transaction.id`.
        """
        try:
            writer = int(id, 16)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(
                f"{shown(id)} is not the id of a transaction: it has one once it was prepared, in CAS mode"
            ) from error
        found = read_decision(self.store, writer)
        if found is not None:
            return "committed" if found else "aborted"
        return self._again(lambda: self._status_by_tables(writer, id))

    def _status_by_tables(self, writer: int, id: str) -> str:
        passed = False
        for name in self.tables():
            for branch in (MAIN, *self.table(name).branches()):
                status = status_in(self.table(name, branch)._session, writer)
                if status in ("prepared", "committed"):
                    return status
                passed |= status is not None
        if passed:  # what is committed is in some table; what was aborted only took numbers
            return "aborted"
        raise NotFound(f"no table of {self.store.url} knows a transaction {id}")

    def _again(self, work: Callable[[], _T], *, can: Callable[[], bool] = lambda: True) -> _T:
        """Do something that goes by names of tables; once more where it met a table that somebody else had
        dropped: the name may stand for another one by now.

        Costs what `work` does, twice at most. `can` says, after it failed, whether it may be done again.
        """
        try:
            return work()
        except NotFound:
            if not can() or not self._has_lost_one():
                raise
        return work()

    def _has_lost_one(self) -> bool:
        """Whether a handle has learnt that its table or branch is gone. A refresh for each lost branch, whose
        table may be gone with it."""
        lost = False
        for table in list(self._tables.values()):
            if any(branch.dropped for branch in list(table._branches.values())):
                lost = True
                with suppress(NotFound):
                    table._session.refresh()
            lost = lost or table.dropped
        return lost

    def _settings(self, name: str, *, looking: bool = False) -> tuple[Settings | None, bool]:
        """A table's settings and, if it is looked for, whether the log of its first incarnation is marked."""
        # All at once: whoever opens a table for one read has one round trip less to wait for.
        names, marked = [settings_name(name)], False
        if not self._checked:
            names.insert(0, MARKER_NAME)
        if looking:
            answers, marked = with_mark(self.store, names, name)
        else:
            answers = self.store.get_many([(item, 0, None) for item in names])
        if not self._checked:
            self._checked = self._is_marker(answers[0])
        return current_settings(self.store, name, answers[-1:]), marked

    def _check_format(self, *, create: bool = False) -> bool:
        if self._checked:
            return True
        (marker,) = self.store.get_many([(MARKER_NAME, 0, None)])
        there = self._is_marker(marker)
        if create and not there:
            self.store.put(MARKER_NAME, MARKER)
        self._checked = there or create
        return there

    @staticmethod
    def _is_marker(data: ObjectBytes | None) -> bool:
        """Whether there is one. Raises `Corrupt`, `UnsupportedFormat`."""
        if data is not None:
            check_marker(data)
        return data is not None

    def _handle(self, name: str, settings: Settings) -> Table:
        if settings.mode == "cas":
            require_exclusion(self.store, name)
        session = Session(
            self.store,
            name,
            branch=MAIN,
            settings=settings,
            options=self.options,
            clock=self._clock,
            origin=self._origin,
            copied=self._copied,
        )
        return Table(session)
