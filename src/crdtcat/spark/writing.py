"""Writing a DataFrame: planned on the driver, staged or committed in tasks.

Two ways to commit. `job`: tasks store segments, the driver publishes one version from what they report: all
or nothing. `task`: each task publishes a version of its own the moment it is done; no driver in the way, and
an idempotency key (`crdtcat.spark.keys`) makes a task that runs twice count once. Tasks never do upkeep; the
driver does, after the last of them.

What is wrong with options, schema or table is raised while planning, before a task starts."""

from __future__ import annotations

import logging
import pickle
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from crdtcat import Catalog, Version
from crdtcat.errors import AlreadyExists, InvalidArgument, NotFound
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.maintenance import checkpoint, upkeep
from crdtcat.session import Session
from crdtcat.spark.keys import TASKS_MAX, WriteName, job_key, saved, task_key
from crdtcat.spark.types import table_schema
from crdtcat.spark.worker import arrived_in_task, pages_kept, task_begins
from crdtcat.support.arguments import require_flag, require_names
from crdtcat.support.interrupts import carried_through
from crdtcat.table import Table
from crdtcat.verbs.parts import commit_parts, plan_declared, plan_parts
from crdtcat.verbs.rows import check_commit
from crdtcat.writing.part import Part, Staging

logger = logging.getLogger("crdtcat")

PLANS_KEPT: Final = 4  # per process


@dataclass(frozen=True, eq=False)
class WritePlan:
    """One write of one DataFrame, as tasks and the driver need it. Pickles; credentials travel with it.

    The tasks of one process that carry out one plan share it, and with it what its handle has learnt: where a
    branch starts, which claim is the newest.

    Attributes:
        catalog: where it goes; does no upkeep.
        table: the table's name.
        branch: its branch.
        schema: the rows' columns.
        staging: how rows are staged; for `task`, how each task's are.
        create: whether the table is made when the rows are committed.
        exclusive: whether it must not be there by then.
        by_task: whether each task commits.
        name: what makes idempotency keys; a repeated write of one name counts once.
        metadata: attached to every version.
    """

    catalog: Catalog = field(repr=False)
    table: str
    branch: str
    schema: pa.Schema
    staging: Staging = field(repr=False)
    create: bool
    exclusive: bool
    by_task: bool
    name: WriteName
    metadata: Mapping[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (pickle.dumps((type(self), self.__dict__)),)

    def named(self, name: WriteName) -> WritePlan:
        """The same under another name: a batch of a stream, say."""
        return replace(self, name=name)

    def run(self, batches: Iterator[pa.RecordBatch], partition: int) -> Report:
        """What a task does with its share. Nothing is stored for a share without rows.

        `job`: one PUT per segment. `task`: as a stream writer, at most one version. Raises as those do.
        """
        task_begins()
        with pages_kept():  # of the batches, too: the first is read within
            part = self.staging.stage(batch for batch in batches if batch.num_rows)
        if not self.by_task:
            return Report(partition, part.rows, part=part)
        if not part.rows:
            return Report(partition, 0)
        session = self.catalog.table(self.table, self.branch)._session
        key = task_key(self.name, partition)
        version = commit_parts(session, self.staging, [part], metadata=self.metadata, key=key)
        return Report(partition, part.rows, version=version)

    def finish(self, reports: Sequence[Report | None], *, tidy: bool = True) -> tuple[Version, ...]:
        """What the driver does once every task is done: publish what was staged, tidy the log.

        Ctrl-C leaves a table that was to be made either not there, or with the rows in it.
        """
        found = sorted((report for report in reports if report is not None), key=lambda item: item.partition)
        if self.by_task:
            versions = tuple(report.version for report in found if report.version is not None)
            table = self.catalog.table(self.table, self.branch)
        else:
            parts = [report.part for report in found if report.part is not None]
            table, versions = carried_through(lambda: self._published(parts))
        if tidy and versions:
            tend(table._session, versions)
        return versions

    def _published(self, parts: Sequence[Part]) -> tuple[Table, tuple[Version, ...]]:
        """The table, made if need be, and a version of what was staged, if that is not nothing."""
        table = self._target()
        if self.staging.replaces is None and not any(part.rows for part in parts):
            return table, ()
        session = table._session
        return table, (
            commit_parts(session, self.staging, parts, metadata=self.metadata, key=job_key(self.name)),
        )

    def _target(self) -> Table:
        if not self.create:
            return self.catalog.table(self.table, self.branch)
        return self.catalog.create_table(
            self.table,
            self.schema,
            partition_by=self.staging.partition_by,
            key=self.staging.key,
            exist_ok=not self.exclusive,
        )


def _arrived(packed: bytes) -> WritePlan:
    """A plan where it was sent: in a task, the one that an earlier task of this process was sent, if any."""
    return _kept(packed) if arrived_in_task() else _unpacked(packed)


def _unpacked(packed: bytes) -> WritePlan:
    kind, state = pickle.loads(packed)  # noqa: S301 (made by `__reduce__`)
    plan: WritePlan = object.__new__(kind)
    plan.__dict__.update(state)
    return plan


_kept = lru_cache(PLANS_KEPT)(_unpacked)


@dataclass(frozen=True, eq=False)
class Report:
    """What a task tells the driver: its partition, and what it staged or committed. Pickles."""

    partition: int
    rows: int
    part: Part | None = None
    version: Version | None = None


def plan_write(
    catalog: Catalog,
    table: str,
    schema: Any,
    *,
    branch: str = MAIN,
    mode: str = "append",
    commit: str | None = None,
    partition_by: Sequence[str] = (),
    key: Sequence[str] = (),
    evolve: bool = False,
    name: WriteName | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> WritePlan:
    """Plan a write of rows of a Spark schema. Costs a head, or less for a table that is not there yet.

    With `commit="task"` a missing table is made here, because any task may be the first to commit; otherwise
    it is made together with its rows.

    Raises:
        UserError: options, schema or table that do not go together.
        AlreadyExists: `mode="errorifexists"`, and the table is there.
        StoreError, DataError: the catalog cannot be read.
    """
    require_names("partition_by", partition_by)
    require_names("key", key)
    require_flag("evolve", evolve)
    name = name or saved(secrets.token_hex(16))
    check_commit(metadata, task_key(name, TASKS_MAX))
    overwrite = mode == "overwrite"
    by_task = (commit or "job") == "task"
    if by_task and mode != "append":
        raise InvalidArgument(f"commit='task' appends; mode={mode!r} is committed by the job: leave it out")
    columns = table_schema(schema)
    try:
        found: Table | None = catalog.table(table, branch)
    except NotFound:
        if branch != MAIN:
            raise
        found = None
    if found is not None and mode == "errorifexists":
        raise AlreadyExists(f"table {table!r} is already in {catalog.url}: append to it or overwrite it")
    if found is None and by_task:
        found = catalog.create_table(table, columns, partition_by=partition_by, key=key, exist_ok=True)
    if found is None:
        staging = plan_declared(catalog.store, catalog.options, columns, partition_by, key)
    else:
        _check_settings(found, partition_by, key)
        staging = plan_parts(found._session, columns, evolve=evolve, overwrite=overwrite)
    return WritePlan(
        catalog,
        table,
        branch,
        columns,
        staging,
        create=found is None,
        exclusive=mode == "errorifexists",
        by_task=by_task,
        name=name,
        metadata=dict(metadata or {}),
    )


def tend(session: Session, versions: Sequence[Version]) -> None:
    """Upkeep for versions whose writers did none. Never fails the write before it."""
    session.options = session.options.model_copy(update={"upkeep": "synchronous"})
    upkeep(session, versions[-1].id)
    if len(versions) < session.options.bundle_every:
        return
    try:
        checkpoint(session)
    except Exception as error:  # noqa: BLE001 (whatever it is, the commits before it stand)
        logger.warning("upkeep of %s is put off to another commit: %s", session.folder, error)


def _check_settings(table: Table, partition_by: Sequence[str], key: Sequence[str]) -> None:
    held = table._session.settings.key
    if key and tuple(key) != held:
        raise InvalidArgument(f"key={list(key)}: table {table.name!r} is there, and its key is {list(held)}")
    if partition_by and tuple(partition_by) != table.partition_by:
        raise InvalidArgument(
            f"partition_by={list(partition_by)}: table {table.name!r} is there, and partitioned by "
            f"{list(table.partition_by)}; leave the option out"
        )
