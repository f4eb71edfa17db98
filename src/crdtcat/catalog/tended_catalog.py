"""What tends a catalog as a whole: collecting what no table refers to, exchange
with others, import of whole folders, queries over several."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

from crdtcat.catalog.importing import ImportResult, import_here, plan_import
from crdtcat.catalog.sql import query as answer
from crdtcat.clock import HybridClock
from crdtcat.errors import NotFound
from crdtcat.format.settings import dropped_name, parse_log_folder
from crdtcat.lifecycle.incarnations import MAIN, exists
from crdtcat.maintenance import (
    GarbageResult,
    Progress,
    SyncResult,
    collect_garbage,
    sync,
)
from crdtcat.maintenance.beside import EXIT_SECONDS_MAX, settled
from crdtcat.maintenance.progress import teller
from crdtcat.maintenance.transactions import TransactionsResult, collect_transactions, is_needed
from crdtcat.options import COLLECT_GRACE_SECONDS, Options
from crdtcat.session import Session
from crdtcat.store import Store
from crdtcat.support.arguments import require_flag
from crdtcat.table import Table
from crdtcat.verbs.branches import Life, open_life
from crdtcat.verbs.travel import At

_T = TypeVar("_T")


class TendedCatalog(ABC):
    """The verbs of a `Catalog` that look after all its tables at once, over the few that it must have."""

    store: Store
    options: Options
    _clock: HybridClock

    @abstractmethod
    def __init__(self, url: Any, storage_options: Mapping[str, Any] | None = None, **options: Any) -> None:
        """Open a catalog."""

    @abstractmethod
    def _check_format(self, *, create: bool = False) -> bool:
        """Look at the format of what is there, once; whether a catalog was there."""

    @abstractmethod
    def _again(self, work: Callable[[], _T]) -> _T:
        """Do something; once more where it met a table that was dropped since it was opened."""

    @abstractmethod
    def tables(self) -> list[str]:
        """The names of all tables."""

    @abstractmethod
    def table(self, name: str, branch: str = MAIN) -> Table:
        """A handle on a table."""

    @abstractmethod
    def create_table(
        self,
        name: str,
        schema: Any = None,
        *,
        partition_by: Sequence[str] = (),
        key: Sequence[str] = (),
        exist_ok: bool = False,
    ) -> Table:
        """Create a table."""

    def settle(self, seconds: float | None = None) -> bool:
        """Wait until the upkeep that commits of this process have begun is done, at most so many seconds.

        Nothing needs it but what ends a catalog behind its back: removing its folder, say. The end of
        `with Catalog(url) as catalog:` does it. No request. False: some is still under way.
        """
        return settled(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """`settle`, for as long as the end of a program would wait. The catalog can be used on."""
        self.settle(EXIT_SECONDS_MAX)

    def collect_transactions(self) -> TransactionsResult:
        """Delete files of transactions that every table they touch has had in a bundle for a grace period.

        Tables that lack one are bundled now, and their transactions wait for the next time.
        """
        self._check_format()
        return collect_transactions(self.store, self.options, self._open_log)

    def _open_log(self, folder: str) -> Session | None:
        """A session on the log in a folder; `None` where nobody reads it: its table was dropped, or its
        branch deleted and no other starts from it.

        Raises:
            NotFound: it is the log of no table and no branch there is.
        """
        name, branch, _, life = parse_log_folder(folder)
        over = exists(self.store, dropped_name(folder))
        if over and not is_needed(self.store, folder):
            return None
        session = self.table(name, MAIN if over else branch)._session
        if over:
            session = open_life(session, Life(branch, life))
        if session.folder != folder:
            raise NotFound(f"{folder} is not the log of a table or a branch")
        return session

    def collect(
        self,
        *,
        grace: float = COLLECT_GRACE_SECONDS,
        dry_run: bool = False,
        progress: bool | Callable[[Progress], object] | None = None,
    ) -> GarbageResult:
        """Delete segments that no table refers to, and what dropped tables left behind, in two runs.

        What is found is condemned, and deleted by a run that comes at least `grace` seconds later, if still
        nothing refers to it. Safe beside any number of writers and collectors, as long as no commit takes
        longer than `grace`. Requests: one LIST per folder of `data/` and page of it, and a cold refresh of
        every log; again before something is deleted. Memory: some 60 bytes per segment, and one log.

        Args:
            grace: seconds; a day. Shorter than a commit takes from its first segment to its end loses rows.
            dry_run: only say what would be done.
            progress: `True` prints to standard error; a function is called with `Progress` values.

        Raises:
            Corrupt, UnsupportedFormat: some table cannot be read; nothing was deleted.
            InvalidArgument: a grace period that is no time.
        """
        self._check_format()
        return collect_garbage(
            self.store, self.options, grace_seconds=grace, dry_run=dry_run, progress=progress
        )

    def import_parquet(
        self,
        table: str,
        folder: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, Any] | None = None,
        branch: str = MAIN,
        commit: str = "job",
        partition_by: Sequence[str] = (),
        key: Sequence[str] = (),
        evolve: bool = False,
        as_they_are: bool = True,
        query: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        progress: bool | Callable[[Progress], object] | None = None,
    ) -> ImportResult:
        """Append all rows of a folder of Parquet files to a table, which is made if it is not there.

        Row groups that are fit to be chunks are taken as they are encoded; the rest is cut and encoded anew.
        Importing the same folder again adds nothing, and one that has grown adds its new files only. A file
        that was rewritten is a new one: its rows are added, and those of before stay. Two imports at once of
        what is not the same list of files may both add a file, unless `commit="file"`. Requests: a listing,
        one or two GETs per file before anything begins, a head; then one or two GETs per row group or run of
        them, 1 PUT per 128 MiB, and 1 for the version. Memory: up to four units of 128 MiB of Arrow content,
        about three times each.

        Args:
            table: the table's name.
            folder: a path or URL; files in folders below it count, those that begin with `_` or `.` do not.
                Folders named `column=value` give their files that column. Or one file: it counts as one of
                the folder that it lies in.
            storage_options: for the folder's file system.
            branch: the branch, which must be there.
            commit: `job`: one version, all or nothing, with rows in the order of files' names. `file`: one
                for each file, the moment it is stored: cut off, the import goes on where it was.
            partition_by: how a table made here is partitioned.
            key: the key of a table made here. In a table with a key, rows replace those with theirs.
            evolve: whether columns that the table, or the first file, does not have are added.
            as_they_are: whether encoded bytes are taken over; else all rows are cut and encoded anew.
            query: a name that stands for the folder where it is told whether files were imported before:
                the path where it was, for a folder that was moved; another name to import it once more.
            metadata: attached to every version.
            progress: `True` prints to standard error; a function is called with `Progress` values.

        Raises:
            UserError: a file that is no Parquet or does not fit, by name; nothing was written.
            Corrupt: a file that cannot be decoded, by name; nothing is visible (`job`).
            CommitError, StoreError: as any commit.
        """
        tell = teller(progress)
        self._check_format(create=True)
        plan = partial(
            plan_import,
            self,
            table,
            folder,
            storage_options=storage_options,
            branch=branch,
            commit=commit,
            partition_by=partition_by,
            key=key,
            evolve=evolve,
            as_they_are=as_they_are,
            query=query,
            metadata=metadata,
            tell=tell,
        )
        return import_here(self._again(plan), tell)

    def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        at: At | None = None,
        connection: Any = None,
    ) -> Any:
        """A query over tables of this catalog by their names, as a DuckDB relation. Needs `crdtcat[sql]`.

        All tables are read at one snapshot, taken now: a transaction is in each of them or in none, and the
        relation gives the same rows whenever it is run. Rows are read when they are wanted, as a stream: only
        columns the query uses, only chunks that can meet the conditions which DuckDB hands over (comparisons
        of columns with constants, `in`, `is null`, joined by `and` and `or`). Where `isolation` is
        "serializable" it counts as a read of every row of these tables, by the thread that calls this.

        Requests: a refresh of each table, and one more of all but one; then what scans make. Names that are
        not plain words stand in double quotes, as in `select * from "my-table"`; a branch of a table is
        `"my-table@branch"`, and may stand beside the table itself. Errors while rows are
        fetched are DuckDB's, with ours in their text, and so is a Ctrl-C that comes while it takes rows from
        us: then the text has "KeyboardInterrupt". `show tables` gives the names of all tables, and
        `describe t` or `show t` the columns of one.

        Args:
            query: one query.
            parameters: values for `?`, or for `$name`.
            at: a moment in the past, or what else `at` may be that every table has; now by default.
            connection: a DuckDB connection to ask in, to join with what it holds, none of which is hidden
                from others. Every call leaves a view of each table in it, under a name of its own, until it
                is closed; with `connection.cursor()` they are gone when the cursor is.

        Raises:
            InvalidArgument: no DuckDB, not a query, or one that is wrong.
            NotFound: a table that is not there.
            UnsupportedType: a column that DuckDB cannot hold.
        """
        return self._again(lambda: answer(self, query, parameters, at=at, connection=connection))

    def sync(
        self,
        other: str | os.PathLike[str] | Self,
        tables: Sequence[str] | None = None,
        *,
        create: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        progress: bool | Callable[[Progress], object] | None = None,
    ) -> SyncResult:
        """Exchange versions with another catalog, both ways: afterwards both have the same tables.

        Writers who were apart (a laptop without network, another region) converge: each side gets the
        versions it lacks, under their own ids, and concurrent changes merge as always. Doing it again, from
        either side, or by two at once, changes nothing; cut off, it goes on where it was. Only main is
        exchanged, not branches and tags. What cannot be carried is refused, by table, in the result.

        Requests: the settings of all tables on both sides, a cold refresh of each log, 1 GET and 1 PUT per
        segment that a side lacks, 1 PUT per 256 MiB of them, and 1 LIST.

        Args:
            other: the other catalog, or its URL.
            tables: names; all by default.
            create: whether a catalog is made where there is none; the result says so then. False where the
                other one must be there, so that no mistyped URL becomes a replica.
            storage_options: for the other catalog's file system.
            progress: `True` prints to standard error; a function is called with `Progress` values.

        Raises:
            NotFound: there is no catalog, and `create` is false; nothing was written.
            Corrupt, StoreUnavailable, AccessDenied: as reading and writing do; what was carried stays.
        """
        require_flag("create", create)
        if not isinstance(other, TendedCatalog):
            other = type(self)(other, storage_options, **self.options.model_dump())
        missing = [side for side in (self, other) if not side._check_format(create=create)]
        if missing and not create:
            raise NotFound(f"there is no catalog in {missing[-1].store.url}; create=True would make one")
        done = sync(
            self.store,
            other.store,
            tables=tables,
            options=self.options,
            clock=self._clock,
            tell=teller(progress),
        )
        return replace(done, created=tuple(side.store.url for side in missing))
