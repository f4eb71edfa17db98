"""`save` and `foreach_batch`: writing a DataFrame with everything that Spark does not let a format do.

Spark refuses the modes `errorifexists` and `ignore` before a Python source is asked, and tells nobody what
was committed. `save` has all four modes and returns the versions. It runs the same write plan as the format
does, as an Arrow function over the DataFrame's partitions."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

from crdtcat import Catalog, Version
from crdtcat.chunks.frames import type_name
from crdtcat.errors import InvalidArgument, UserError
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.spark import keys
from crdtcat.spark.arrow_batches import bounded_by_rows
from crdtcat.spark.options import TASK_SEGMENT_BYTES, require_shared
from crdtcat.spark.sink import QUERY_PROPERTY
from crdtcat.spark.writing import Report, WritePlan, plan_write
from crdtcat.table import Table

ATTEMPT_PROPERTY: Final = "spark.sql.execution.id"  # of a batch: another one if the batch comes again
ATTEMPTS_KEPT: Final = 100
MODES: Final = ("append", "overwrite", "errorifexists", "ignore")


def save(
    df: Any,
    catalog: Catalog | str | os.PathLike[str],
    table: str,
    *,
    branch: str = MAIN,
    mode: str = "append",
    commit: str = "job",
    partition_by: Sequence[str] = (),
    key: Sequence[str] = (),
    evolve: bool = False,
    query: str | keys.WriteName | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> tuple[Version, ...]:
    """Write a DataFrame to a table, and tell what was committed.

    Args:
        df: the rows.
        catalog: a handle, or the catalog's URL.
        table: the table's name; made if it is not there, with the DataFrame's columns.
        branch: the branch, which must be there.
        mode: `append`, `overwrite` (what was there when the write began), `errorifexists`, `ignore`.
        commit: `job` (one version, all or nothing) or `task` (each task commits by itself; appends only).
        partition_by: how a table made here is partitioned.
        key: the key of a table made here. In a table with a key rows replace those with theirs, column by
            column (an upsert); rows of one key are brought to one task, where the last counts.
        evolve: whether columns that the table does not have are added.
        query: a name for this write; repeated under the same name it counts once, whatever rows it has.
        metadata: attached to every version.

    Returns:
        The versions, in partition order: one for `job`, one for each task with rows for `task`; none if there
        was nothing to append, or with `ignore` and a table that was there. Where a write may have come
        before, with `query` or `task`, the log is refreshed once more: a version that does not count, since
        an earlier one with its idempotency key does, has `stands` false.

    Raises:
        UserError, AlreadyExists, CapabilityMissing: before any task starts.
        SchemaMismatch: also from a task that meets a null where none may be, once all are done.
        CommitError, StoreError: nothing is visible (`job`), or what some tasks committed is (`task`).
        pyspark.errors.PySparkException: a task failed for good; the same holds.
    """
    _require_batch(df)
    if mode not in MODES:
        raise InvalidArgument(f"mode={mode!r}: pass one of {', '.join(MODES)}")
    if commit not in ("job", "task"):
        raise InvalidArgument(f"commit={commit!r}: pass 'job' or 'task'")
    handle = require_shared(as_catalog(catalog))
    if mode == "ignore" and table in handle:
        return ()
    plan = plan_write(
        for_tasks(handle),
        table,
        df.schema,
        branch=branch,
        mode="append" if mode == "ignore" else mode,
        commit=commit,
        partition_by=partition_by,
        key=key,
        evolve=evolve,
        name=query if query is None or isinstance(query, tuple) else keys.saved(query),
        metadata=metadata,
    )
    versions = plan.finish(_run(df, plan), tidy=bool(handle.options.upkeep))
    if query is None and not plan.by_task:
        return versions
    return _as_they_stand(handle.table(table, branch), versions)


def _require_batch(df: Any) -> None:
    """Raises `InvalidArgument` for what is no DataFrame, and for a stream."""
    if not hasattr(df, "mapInArrow"):
        raise InvalidArgument(
            f"save() takes a DataFrame of Spark's, not {type_name(df)}: spark.createDataFrame() makes one; "
            "Catalog.commit() takes other rows"
        )
    if df.isStreaming:
        raise InvalidArgument(
            "save() takes a batch, and this DataFrame is a stream: df.writeStream.format('crdtcat'), or "
            "writeStream.foreachBatch(crdtcat.spark.foreach_batch(...))"
        )


def _run(df: Any, plan: WritePlan) -> list[Report]:
    """What tasks report of a write. Raises the first `UserError` that one met, once all are done."""
    names = df.columns

    def staged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named = (batch.rename_columns(names) for batch in batches)
        report: Report | UserError
        try:
            report = plan.run(named, TaskContext.get().partitionId())
        except UserError as error:  # as it is, to be raised on the driver; another try would not help
            report = error
        yield pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})

    plain = df.toDF(*[f"c{at}" for at in range(len(names))])  # Spark would parse a name with a dot
    if plan.staging.key:
        plain = plain.repartition(*[f"c{names.index(name)}" for name in plan.staging.key])
    with bounded_by_rows(df):
        rows = plain.mapInArrow(staged, "report binary").collect()
    reports = [pickle.loads(row.report) for row in rows]  # noqa: S301 (made above)
    for report in reports:
        if isinstance(report, UserError):
            raise report
    return reports


def _as_they_stand(table: Table, versions: Sequence[Version]) -> tuple[Version, ...]:
    """The same versions; those in whose place another counts say so. One refresh, none for no versions."""
    if not versions:
        return ()
    head = table.head()
    places = [head.log.index_of(version.id) for version in versions]
    return tuple(
        replace(version, stands=at < 0 or bool(head.folded.standing[at]))
        for version, at in zip(versions, places, strict=True)
    )


def foreach_batch(
    catalog: Catalog | str | os.PathLike[str], table: str, *, part: str | None = None, **options: Any
) -> Callable[[Any, int], None]:
    """A function for `writeStream.foreachBatch` that saves each batch exactly once; `options` are `save`'s.

    The idempotency key is (query id, batch id, part); the first two survive restarts from the checkpoint.
    A function of yours that saves several frames of one batch to one table gives each a `part` of its own, a
    name that stays; a second frame under the same is refused with `InvalidArgument`.
    """
    handle = require_shared(as_catalog(catalog))
    if "query" in options:
        raise InvalidArgument("query is the stream's own: leave it out, and tell frames apart by part")
    place = (handle.url, table, options.get("branch", MAIN), part)

    def save_batch(df: Any, batch: int) -> None:
        context = df.sparkSession.sparkContext
        query, number = (context.getLocalProperty(name) for name in (QUERY_PROPERTY, ATTEMPT_PROPERTY))
        if query is None:
            raise InvalidArgument("foreach_batch saves batches of a streaming query: use save outside of one")
        attempt = (query, batch, number)
        saved = _SAVED.pop(attempt, set())  # the last one used is the last to be forgotten
        _SAVED[attempt] = saved
        _require_first(batch, place, saved)
        save(df, handle, table, query=keys.batch(query, batch, part), **options)
        saved.add(place)
        while len(_SAVED) > ATTEMPTS_KEPT:
            del _SAVED[next(iter(_SAVED))]

    return save_batch


_Place = tuple[str, str, str, str | None]
_SAVED: Final[dict[tuple[str, int, str | None], set[_Place]]] = {}
"""By query, batch and attempt, what was saved of it."""


def _require_first(batch: int, place: _Place, saved: set[_Place]) -> None:
    """A second frame under the key of the first would not count. Raises `InvalidArgument`."""
    if place in saved:
        raise InvalidArgument(
            f"batch {batch} was saved to {place[1]!r} already, and a second frame under the same name would "
            "not count: give each foreach_batch a part=, or save them together"
        )


def as_catalog(catalog: Catalog | str | os.PathLike[str]) -> Catalog:
    """The handle itself, or one on a URL."""
    return catalog if isinstance(catalog, Catalog) else Catalog(catalog)


def require_session(spark: Any) -> None:
    """Raises `InvalidArgument` for what is no Spark session."""
    if not hasattr(spark, "createDataFrame"):
        raise InvalidArgument(f"pass the Spark session first, not {type_name(spark)}")


def for_tasks(catalog: Catalog) -> Catalog:
    """A handle as tasks use it: no upkeep, segments that several tasks can hold in memory at once. Raises
    `CapabilityMissing` for a catalog that tasks cannot see."""
    options = require_shared(catalog).options
    segment_bytes = min(options.segment_bytes, TASK_SEGMENT_BYTES)
    return Catalog(catalog.store, **{**dict(options), "upkeep": False, "segment_bytes": segment_bytes})
