"""`save` and `foreach_batch`: writing a DataFrame with everything that Spark does not let a format do.

Spark refuses the modes `errorifexists` and `ignore` before a Python source is asked, and tells nobody what
was committed. `save` has all four modes and returns the versions. It runs the same write plan as the format
does, as an Arrow function over the DataFrame's partitions."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

from crdtcat import Catalog, Version
from crdtcat.errors import InvalidArgument
from crdtcat.incarnations import MAIN
from crdtcat.spark.options import TASK_SEGMENT_BYTES
from crdtcat.spark.sink import QUERY_PROPERTY, batch_key
from crdtcat.spark.writing import Report, plan_write

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
    query: str | None = None,
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
        query: a name for this write; repeated under the same name it counts once.
        metadata: attached to every version.

    Returns:
        The versions, in partition order: one for `job`, one for each task with rows for `task`; none if there
        was nothing to append, or with `ignore` and a table that was there.

    Raises:
        UserError, AlreadyExists: before any task starts.
        CommitError, StoreError: nothing is visible (`job`), or what some tasks committed is (`task`).
        pyspark.errors.PySparkException: a task failed for good; the same holds.
    """
    if mode not in MODES:
        raise InvalidArgument(f"mode={mode!r}: pass one of {', '.join(MODES)}")
    if commit not in ("job", "task"):
        raise InvalidArgument(f"commit={commit!r}: pass 'job' or 'task'")
    handle = as_catalog(catalog)
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
        query=query,
        metadata=metadata,
    )

    names = df.columns

    def staged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        named = (batch.rename_columns(names) for batch in batches)
        report = plan.run(named, TaskContext.get().partitionId())
        yield pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})

    plain = df.toDF(*[f"c{at}" for at in range(len(names))])  # Spark would parse a name with a dot
    if plan.staging.key:
        plain = plain.repartition(*[f"c{names.index(name)}" for name in plan.staging.key])
    rows = plain.mapInArrow(staged, "report binary").collect()
    reports: list[Report] = [pickle.loads(row.report) for row in rows]  # noqa: S301 (made above)
    return plan.finish(reports, tidy=bool(handle.options.upkeep))


def foreach_batch(
    catalog: Catalog | str | os.PathLike[str], table: str, **options: Any
) -> Callable[[Any, int], None]:
    """A function for `writeStream.foreachBatch` that saves each batch exactly once; `options` are `save`'s.

    The idempotency key is (query id, batch id), both of which survive restarts from the checkpoint.
    """
    handle = as_catalog(catalog)
    if "query" in options:
        raise InvalidArgument("query is the stream's own: leave it out")

    def save_batch(df: Any, batch: int) -> None:
        query = df.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
        save(df, handle, table, query=batch_key(query, batch), **options)

    return save_batch


def as_catalog(catalog: Catalog | str | os.PathLike[str]) -> Catalog:
    """The handle itself, or one on a URL."""
    return catalog if isinstance(catalog, Catalog) else Catalog(catalog)


def for_tasks(catalog: Catalog) -> Catalog:
    """A handle as tasks use it: no upkeep, segments that several tasks can hold in memory at once."""
    options = catalog.options
    segment_bytes = min(options.segment_bytes, TASK_SEGMENT_BYTES)
    return Catalog(catalog.store, **{**dict(options), "upkeep": False, "segment_bytes": segment_bytes})
