"""Upkeep of logs and of whole catalogs in Spark's tasks: bundling a very large log, collecting garbage.

The local verbs' own steps, with the parts that read much dealt out: version files are read and bundled block
by block; folders of segments are listed, and logs read for what they refer to, one for each task at a time.
What is decided is decided on the driver, from what came back."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from crdtcat import Catalog
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.maintenance import CheckpointResult, GarbageResult, collect_garbage
from crdtcat.maintenance import checkpoint as checkpoint_here
from crdtcat.maintenance.checkpoint import bundle_files, unbundled
from crdtcat.maintenance.progress import Tell, teller
from crdtcat.options import COLLECT_GRACE_SECONDS
from crdtcat.spark.saving import as_catalog, for_tasks, require_session
from crdtcat.spark.tasks import in_tasks

Item = TypeVar("Item")
Found = TypeVar("Found")


def checkpoint(
    spark: Any,
    catalog: Catalog | str | os.PathLike[str],
    table: str,
    *,
    branch: str = MAIN,
    progress: bool | Tell | None = None,
) -> CheckpointResult:
    """As `Table.checkpoint`, with version files read and bundled in Spark's tasks, block by block.

    Tasks publish bundles of up to 4,096 versions, which are good by themselves; the driver then reads those,
    and takes them into one, as the local checkpoint does. So it never reads a version file by itself, and a
    job that is cut off has lost nothing. A log in CAS mode is one line, and a log of one block is quicker
    here: both are done on the driver. Raises as `Table.checkpoint`.
    """
    tell = teller(progress)
    require_session(spark)
    handle = for_tasks(as_catalog(catalog))
    session = handle.table(table, branch)._session
    blocks = [] if session.settings.mode == "cas" else unbundled(session)
    if len(blocks) < 2:
        return checkpoint_here(session)

    def bundle(share: Sequence[Sequence[str]]) -> list[CheckpointResult]:
        own = handle.table(table, branch)._session
        return [bundle_files(own, names) for names in share]

    sizes = [len(names) for names in blocks]
    made = in_tasks(spark, bundle, blocks, sizes, what="bundling", tell=tell if progress else None)
    result = checkpoint_here(session, made=[one.name for one in made if one.versions])
    return replace(result, segments=result.segments + sum(one.segments for one in made))


def collect(
    spark: Any,
    catalog: Catalog | str | os.PathLike[str],
    *,
    grace: float = COLLECT_GRACE_SECONDS,
    dry_run: bool = False,
    progress: bool | Tell | None = None,
) -> GarbageResult:
    """As `Catalog.collect`, with segments listed and logs read in Spark's tasks.

    What is garbage is decided on the driver, from 60 bytes per segment; what is condemned and deleted is
    written and deleted there, too. A task holds one log. Raises as `Catalog.collect`.
    """
    require_session(spark)
    handle = for_tasks(as_catalog(catalog))
    handle._check_format()
    tell = teller(progress) if progress else None

    def each(what: str, work: Callable[[Item], Found], items: Sequence[Item]) -> Iterable[Found]:
        run = functools.partial(_each, work)
        return in_tasks(spark, run, items, [1] * len(items), what=what, tell=tell)

    return collect_garbage(
        handle.store, handle.options, grace_seconds=grace, dry_run=dry_run, progress=progress, each=each
    )


def _each(work: Callable[[Item], Found], items: Sequence[Item]) -> list[Found]:
    return [work(item) for item in items]
