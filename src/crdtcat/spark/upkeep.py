"""Upkeep at scale: the local engine's work, dealt out to Spark's tasks, with the same results.

The local engine remains the default: starting tasks costs about a second, and one machine verifies and
compacts hundreds of megabytes in that time. From a few gigabytes, or a few thousand small chunks on a store
that is far away, Spark is the quicker one. Tasks hold one segment piece, or one group of small chunks, in
memory at a time."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from crdtcat import Catalog
from crdtcat.chunks.check import check_segment
from crdtcat.lifecycle.incarnations import MAIN
from crdtcat.maintenance import verify as verify_here
from crdtcat.maintenance.cluster import Clusterer, check_columns
from crdtcat.maintenance.compact import Compactor, CompactResult, chunk_sizes, keyed_result
from crdtcat.maintenance.compact_keyed import Done, KeyedCompactor, keyed_groups
from crdtcat.maintenance.compact_plan import groups
from crdtcat.maintenance.progress import Tell, teller
from crdtcat.maintenance.rewrite import Counts
from crdtcat.maintenance.verify_report import Depth, VerifyReport
from crdtcat.maintenance.verify_segments import SegmentCheck
from crdtcat.scan.merge_plan import Group
from crdtcat.spark.clustering import TaskEngine
from crdtcat.spark.pinned import pinned_head
from crdtcat.spark.saving import as_catalog, for_tasks, require_session
from crdtcat.spark.tasks import in_tasks


def verify(
    spark: Any,
    catalog: Catalog | str | os.PathLike[str],
    table: str,
    depth: Depth = "bytes",
    *,
    branch: str = MAIN,
    progress: bool | Tell | None = None,
) -> VerifyReport:
    """As `Table.verify`, with segments looked at in Spark's tasks. The same report, for the same damage.

    The log is checked on the driver. Raises as `Table.verify` does.
    """
    require_session(spark)
    handle = for_tasks(as_catalog(catalog))
    engine = functools.partial(_SparkCheck, spark, handle, teller(progress) if progress else None)
    return verify_here(handle.table(table, branch)._session, depth, None, engine)


class _SparkCheck(SegmentCheck):
    """Looks into segments in tasks."""

    def __init__(
        self, spark: Any, catalog: Catalog, told: Tell | None, *arguments: Any, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._spark, self._catalog, self._told = spark, catalog, told

    def check_bytes(self, *, content: bool) -> None:
        todo = [(number, *self.expected(number)) for number in self.readable()]
        store = self._catalog.store

        def look(items: Sequence[Any]) -> list[Any]:
            found = []
            for number, ref, expected in items:
                sizes: list[int] = []
                damage = check_segment(store, ref, expected, content=content, looked_at=sizes.append)
                found.append((number, damage, sum(sizes)))
            return found

        sizes = [ref.size for _, ref, _ in todo]
        for found in in_tasks(self._spark, look, todo, sizes, what="verifying", tell=self._told):
            self.note(*found)


def compact(
    spark: Any,
    catalog: Catalog | str | os.PathLike[str],
    table: str,
    *,
    rows: int | None = None,
    cluster_by: Sequence[str] | None = None,
    branch: str = MAIN,
    progress: bool | Tell | None = None,
) -> CompactResult:
    """As `Table.compact`, with groups of small and changed chunks written anew in Spark's tasks.

    Every task publishes its own: compactions of different chunks do not touch each other, and nobody's rows
    change. A task that runs twice leaves a copy that the next compaction takes in. With `cluster_by`, tasks
    sort and store, and the driver publishes, since rows stand in the order of versions; whether rows are in
    order already is found out on the driver. Raises as `Table.compact`.

    Theorems: `compaction_invisible`, of keyed tables `keyed_compaction_invisible`.
    """
    began = time.monotonic()
    tell = teller(progress) if progress else None
    require_session(spark)
    handle = for_tasks(as_catalog(catalog))
    session = handle.table(table, branch)._session
    sizes = chunk_sizes(session, rows)
    head = session.head()
    clustered, by = Counts(), tuple[str, ...]()
    if cluster_by is not None:
        by = check_columns(head, cluster_by)
        engine = TaskEngine(spark, handle, session, tell)
        sorter = Clusterer(session, by, sizes.target, teller(None), engine)
        sorter.run(head)
        clustered = sorter.counts
        head = session.head() if clustered.versions else head
    pinned = pinned_head(handle, head, branch)
    if head.keyed is not None:
        todo = list(keyed_groups(head, head.keyed, least=sizes.least, target=sizes.target))

        def merge(share: Sequence[Group]) -> list[Done]:
            there = pinned.head()
            assert there.keyed is not None
            work = KeyedCompactor(pinned.session(), there, there.keyed, sizes.target)
            return [work.write(group) for group in share]

        weights = [int(head.log.nbytes[list(group.chunks)].sum()) for group in todo]
        merged = in_tasks(spark, merge, todo, weights, what="compacting", tell=tell)
        return keyed_result(merged, time.monotonic() - began)
    plain = [list(group) for group in groups(head, least=sizes.least, target=sizes.target)]

    def write(share: Sequence[list[int]]) -> list[Counts]:
        work = Compactor(pinned.session(), pinned.head(), sizes.most)
        for group in share:
            work.add(group)
        work.publish()
        return [work.counts]

    weights = [int(head.log.nbytes[group].sum()) for group in plain]
    done = in_tasks(spark, write, plain, weights, what="compacting", tell=tell)
    counts = asdict(sum(done, clustered))
    return CompactResult(**counts, cluster_by=by, seconds=time.monotonic() - began)
