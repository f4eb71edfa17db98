"""Import of a folder of Parquet files into a table: planned once, staged anywhere, committed once.

Every footer is read and checked before a row is. Then units of work (`crdtcat.writing.imported`) are staged,
by threads here or by Spark's tasks, with the same result. Two ways to commit: `job`, one version for all
files, all or nothing; `file`, a version for each file, the moment it is staged, so that an import that was
cut off goes on where it was. Either way a folder that has grown is imported again for its new files only.

Files are known by their folder, their names and their footers (`crdtcat.verbs.imported_files`): what was
imported before, in either way, is not imported and not read again. Why files cannot be left where they are is
told in docs/design/012-import.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from crdtcat.errors import InvalidArgument, NotFound
from crdtcat.head import Version
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.maintenance.progress import Progress, Tell
from crdtcat.maintenance.upkeep import upkeep
from crdtcat.store import Store
from crdtcat.support.arguments import require_flag, require_names
from crdtcat.support.interrupts import carried_through
from crdtcat.support.pools import ThreadPool
from crdtcat.support.showing import shown
from crdtcat.verbs.imported_files import ids_of, key_of, not_yet
from crdtcat.verbs.parquet_files import open_source, read_files, units_of
from crdtcat.verbs.parts import commit_parts, plan_declared, plan_parts
from crdtcat.writing.imported import ImportUnit, StagedUnit, stage_unit
from crdtcat.writing.part import Staging
from crdtcat.writing.slabs import chunk_sizes

if TYPE_CHECKING:
    from crdtcat.catalog.tended_catalog import TendedCatalog
    from crdtcat.table import Table

COMMITS: Final = ("job", "file")
THREADS_MAX: Final = 4  # each holds a unit


@dataclass(frozen=True)
class ImportResult:
    """What an import did.

    Attributes:
        versions: what was committed.
        files: files whose rows were.
        skipped: files that were imported before.
        rows: rows committed.
        rows_as_they_were: those of them whose encoded bytes were taken as they were.
        seconds: how long it took.
    """

    versions: tuple[Version, ...] = ()
    files: int = 0
    skipped: int = 0
    rows: int = 0
    rows_as_they_were: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"import: {self.rows:,} rows of {self.files:,} files in {len(self.versions):,} versions, "
            f"{self.rows_as_they_were:,} of them as they were encoded; "
            f"{self.skipped:,} files were imported before; {self.seconds:.2f} s"
        )


@dataclass(frozen=True, eq=False)
class Imported:
    """A unit that is staged, and for `commit="file"` committed. Pickles."""

    staged: StagedUnit
    rows: int
    version: Version | None = None


@dataclass(frozen=True, eq=False)
class ImportPlan:
    """An import, as whoever stages and whoever commits need it. Pickles; credentials travel with it.

    Attributes:
        catalog: where the table is.
        table: its name.
        branch: its branch.
        source: the folder's store.
        staging: how rows are staged.
        units: the work.
        create: whether the table is made when the rows are committed.
        by_file: whether each file is a version.
        root: what files are known by beside names and footers.
        skipped: how many files were imported before.
        metadata: attached to every version.
        began: when planning began, by a monotonic clock of the planner.
    """

    catalog: TendedCatalog = field(repr=False)
    table: str
    branch: str
    source: Store = field(repr=False)
    staging: Staging = field(repr=False)
    units: tuple[ImportUnit, ...] = field(repr=False)
    create: bool
    by_file: bool
    root: str
    skipped: int
    metadata: Mapping[str, Any]
    began: float

    def run(self, unit: ImportUnit) -> Imported:
        """Stage a unit; with `commit="file"` commit it, too. Raises as `stage_unit` and any commit do."""
        staged = stage_unit(self.staging, self.source, unit)
        rows = sum(part.rows for part in staged.parts)
        if not self.by_file:
            return Imported(staged, rows)
        key = key_of(self.root, [unit.runs[0].file])
        return Imported(StagedUnit((), staged.rows_taken), rows, self._committed([staged], key))

    def finish(self, done: Sequence[Imported]) -> ImportResult:
        """Commit what was staged, unless that was done file by file. `done` is in the order of the units."""
        files = {run.file.name: run.file for unit in self.units for run in unit.runs}
        if self.create and not self.units:  # files, but no rows: a table with their columns
            self._target()
        if self.by_file or not self.units:
            versions = tuple(item.version for item in done if item.version is not None)
        else:
            key = key_of(self.root, list(files.values()))
            ids = ids_of(self.root, files.values())
            staged = [item.staged for item in done]
            versions = (carried_through(lambda: self._committed(staged, key, ids)),)
        return ImportResult(
            versions,
            len(files),
            self.skipped,
            sum(item.rows for item in done),
            sum(item.staged.rows_taken for item in done),
            time.monotonic() - self.began,
        )

    def _committed(self, staged: Iterable[StagedUnit], key: str, files: bytes = b"") -> Version:
        target = self._target()
        parts = [part for each in staged for part in each.parts]
        return commit_parts(
            target._session, self.staging, parts, metadata=self.metadata, key=key, files=files
        )

    def _target(self) -> Table:
        if not self.create:
            return self.catalog.table(self.table, self.branch)
        return self.catalog.create_table(
            self.table,
            self.staging.fit.schema,
            partition_by=self.staging.partition_by,
            key=self.staging.key,
            exist_ok=True,
        )


def plan_import(
    catalog: TendedCatalog,
    table: str,
    folder: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, Any] | None,
    branch: str,
    commit: str,
    partition_by: Sequence[str],
    key: Sequence[str],
    evolve: bool,
    as_they_are: bool,
    query: str | None,
    metadata: Mapping[str, Any] | None,
    tell: Tell,
) -> ImportPlan:
    """Look at all files, and say what is to be done. Costs a listing, one or two GETs per file, a head."""
    began = time.monotonic()
    if commit not in COMMITS:
        raise InvalidArgument(f"commit={shown(commit)}: pass 'job' or 'file'")
    require_names("partition_by", partition_by)
    require_names("key", key)
    require_flag("evolve", evolve)
    require_flag("as_they_are", as_they_are)
    source, listed = open_source(folder, storage_options)
    found = _there(catalog, table, branch)
    head = None if found is None else found._session.head()
    known = None if found is None else found._session.known
    files = read_files(
        source,
        listed,
        known,
        evolve=evolve,
        told=lambda done, total: tell(Progress("reading footers", done, total, "files")),
    )
    if found is None and commit == "file":
        found = catalog.create_table(table, files.schema, partition_by=partition_by, key=key, exist_ok=True)
    if found is None:
        staging = plan_declared(catalog.store, catalog.options, files.schema, partition_by, key)
    else:
        _check_settings(found, partition_by, key)
        staging = plan_parts(found._session, files.schema, evolve=evolve)
    root = query or source.place
    fresh = not_yet(head, root, [file for _, file in files.found])
    sizes = chunk_sizes(catalog.options)
    units = units_of(
        [file for file, is_fresh in zip(files.found, fresh, strict=True) if is_fresh],
        staging.fit.schema,
        rows_least=sizes.least,
        take=as_they_are and not staging.key,  # rows of a keyed table are sorted
        by_file=commit == "file",
    )
    return ImportPlan(
        catalog,
        table,
        branch,
        source,
        staging,
        tuple(unit for unit in units if unit.runs),
        create=found is None,
        by_file=commit == "file",
        root=root,
        skipped=len(fresh) - sum(fresh),
        metadata=dict(metadata or {}),
        began=began,
    )


def import_here(plan: ImportPlan, tell: Tell) -> ImportResult:
    """Carry a plan out, with a few threads. Raises as `ImportPlan.run` and `finish` do."""
    threads = max(1, min(THREADS_MAX, os.cpu_count() or 1, len(plan.units)))
    done: list[Imported] = []
    total, groups, nbytes = sum(unit.groups for unit in plan.units), 0, 0
    with ThreadPool(threads, "crdtcat-import") as pool:
        futures = [pool.submit(plan.run, unit) for unit in plan.units]
        try:
            for unit, future in zip(plan.units, futures, strict=True):
                done.append(future.result())
                groups, nbytes = groups + unit.groups, nbytes + unit.nbytes
                tell(Progress("importing", groups, total, "row groups", bytes=nbytes))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    result = plan.finish(done)
    for version in result.versions:
        upkeep(plan.catalog.table(plan.table, plan.branch)._session, version.id)
    return result


def _there(catalog: TendedCatalog, table: str, branch: str) -> Table | None:
    try:
        return catalog.table(table, branch)
    except NotFound:
        if branch != MAIN:
            raise
        return None


def _check_settings(table: Table, partition_by: Sequence[str], key: Sequence[str]) -> None:
    if key and tuple(key) != table.key:
        raise InvalidArgument(f"key={list(key)}: table {table.name!r} is there, and its key is {table.key}")
    if partition_by and tuple(partition_by) != table.partition_by:
        raise InvalidArgument(
            f"partition_by={list(partition_by)}: table {table.name!r} is there, and partitioned by "
            f"{list(table.partition_by)}; leave it out"
        )
