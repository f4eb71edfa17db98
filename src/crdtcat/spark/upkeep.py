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
from crdtcat.incarnations import MAIN
from crdtcat.maintenance import verify as verify_here
from crdtcat.maintenance.compact import Compactor, CompactResult, chunk_sizes, keyed_result
from crdtcat.maintenance.compact_keyed import Done, KeyedCompactor, keyed_groups
from crdtcat.maintenance.compact_plan import groups
from crdtcat.maintenance.rewrite import Counts
from crdtcat.maintenance.verify_report import Depth, VerifyReport
from crdtcat.maintenance.verify_segments import SegmentCheck
from crdtcat.scan.merge_plan import Group
from crdtcat.session import Session
from crdtcat.spark.pinned import Pinned, pinned_head
from crdtcat.spark.saving import as_catalog, for_tasks
from crdtcat.spark.tasks import in_tasks


def verify(
    spark: Any,
    catalog: Catalog | str | os.PathLike[str],
    table: str,
    depth: Depth = "bytes",
    *,
    branch: str = MAIN,
) -> VerifyReport:
    """As `Table.verify`, with segments looked at in Spark's tasks. The same report, for the same damage.

    The log is checked on the driver. Raises as `Table.verify` does.
    """
    handle = for_tasks(as_catalog(catalog))
    engine = functools.partial(_SparkCheck, spark, handle)
    return verify_here(handle.table(table, branch)._session, depth, None, engine)


class _SparkCheck(SegmentCheck):
    """Looks into segments in tasks."""

    def __init__(self, spark: Any, catalog: Catalog, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._spark, self._catalog = spark, catalog

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

        for found in in_tasks(self._spark, look, todo, [ref.size for _, ref, _ in todo]):
            self.note(*found)


def compact(
    spark: Any,
    catalog: Catalog | str | os.PathLike[str],
    table: str,
    *,
    rows: int | None = None,
    branch: str = MAIN,
) -> CompactResult:
    """As `Table.compact`, with groups of small and changed chunks written anew in Spark's tasks.

    Every task publishes its own: compactions of different chunks do not touch each other, and nobody's rows
    change. A task that runs twice leaves a copy that the next compaction takes in. Raises as `Table.compact`.
    """
    began = time.monotonic()
    handle = for_tasks(as_catalog(catalog))
    session = handle.table(table, branch)._session
    sizes = chunk_sizes(session, rows)
    head = session.head()
    pinned = pinned_head(handle, head, branch)
    if head.keyed is not None:
        todo = list(keyed_groups(head, head.keyed, least=sizes.least, target=sizes.target))

        def merge(share: Sequence[Group]) -> list[Done]:
            there = pinned.head()
            assert there.keyed is not None
            work = KeyedCompactor(_session(pinned), there, there.keyed, sizes.target)
            return [work.write(group) for group in share]

        weights = [int(head.log.nbytes[list(group.chunks)].sum()) for group in todo]
        return keyed_result(in_tasks(spark, merge, todo, weights), time.monotonic() - began)
    plain = [list(group) for group in groups(head, least=sizes.least, target=sizes.target)]

    def write(share: Sequence[list[int]]) -> list[Counts]:
        work = Compactor(_session(pinned), pinned.head(), sizes.most)
        for group in share:
            work.add(group)
        work.publish()
        return [work.counts]

    weights = [int(head.log.nbytes[group].sum()) for group in plain]
    done: list[Counts] = in_tasks(spark, write, plain, weights)
    return CompactResult(**asdict(sum(done, Counts())), seconds=time.monotonic() - began)


def _session(pinned: Pinned) -> Session:
    return pinned.catalog.table(pinned.table, pinned.branch)._session
