"""Import of a folder of Parquet files in Spark's tasks: the local import's plan and units, its result."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from crdtcat import Catalog
from crdtcat.catalog.importing import Imported, ImportResult, plan_import
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.maintenance.progress import Tell, teller
from crdtcat.spark.saving import as_catalog, for_tasks, require_session
from crdtcat.spark.tasks import in_tasks
from crdtcat.spark.writing import tend
from crdtcat.writing.imported import ImportUnit


def import_parquet(
    spark: Any,
    catalog: Catalog | str | os.PathLike[str],
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
    progress: bool | Tell | None = None,
) -> ImportResult:
    """As `Catalog.import_parquet`, with files read and stored in Spark's tasks.

    Footers are read on the driver, before a task starts, and what does not fit is told there, by file. Tasks
    need no cluster jars for S3: they read with crdtcat's own store. A task holds one unit, 128 MiB of Arrow
    content, about three times. Raises as `Catalog.import_parquet`, and what Spark raises for failed tasks.
    """
    tell = teller(progress)
    require_session(spark)
    handle = as_catalog(catalog)
    plan = plan_import(
        for_tasks(handle),
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

    def stage(units: Sequence[ImportUnit]) -> list[Imported]:
        return [plan.run(unit) for unit in units]

    weights = [unit.nbytes for unit in plan.units]
    done = in_tasks(spark, stage, plan.units, weights, what="importing", tell=tell if progress else None)
    result = plan.finish(done)
    if handle.options.upkeep and result.versions:
        tend(plan.catalog.table(table, branch)._session, result.versions)
    return result
