"""Clustering in Spark's tasks: they read, sort and store; the driver publishes, in the order of the units.

Rows of a clustered table stand in the order in which its versions were published, so tasks cannot publish by
themselves, as those of a compaction do. What a task stores and nobody publishes is garbage for the collector.
What comes back to the driver is what version files say: where each row was, some bytes for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.clock.hlc import wall_ms
from crdtcat.head import Head
from crdtcat.maintenance.cluster_work import Done, Rewriting, Sample, size_of
from crdtcat.maintenance.progress import Tell
from crdtcat.maintenance.rewrite import Counts, Rewriter, Rewritten, published
from crdtcat.session import Session
from crdtcat.spark.pinned import pinned_head
from crdtcat.spark.tasks import in_tasks
from crdtcat.writing.staged import require_in_time


class TaskEngine:
    """Carries out the units of a clustering in tasks.

    Args:
        spark: the session.
        catalog: where the table is; does no upkeep.
        session: of the table, for the driver.
        tell: told how many tasks are done, if anybody asks.
    """

    def __init__(self, spark: Any, catalog: Catalog, session: Session, tell: Tell | None) -> None:
        self._spark, self._catalog, self._session, self._tell = spark, catalog, session, tell

    def sampled(self, head: Head, units: Sequence[Sample]) -> list[pa.Table]:
        """The keys of each."""
        pinned = pinned_head(self._catalog, head, self._session.branch)

        def read(share: Sequence[Sample]) -> list[pa.Table]:
            return [unit.read(pinned.session(), pinned.head()) for unit in share]

        sizes = [size_of(head, unit.entries) for unit in units]
        return in_tasks(self._spark, read, units, sizes, what="sampling", tell=self._tell)

    def rewritten(self, head: Head, rises_by: tuple[str, ...], units: Sequence[Rewriting]) -> Iterator[Done]:
        """Every unit stored in a task, then published here, one after the other.

        Raises `LimitExceeded` if that took longer than a commit may: what was published before stands.
        """
        since_ms = wall_ms()
        pinned = pinned_head(self._catalog, head, self._session.branch)

        def write(share: Sequence[Rewriting]) -> list[tuple[list[int], Rewritten | None, Counts]]:
            found: list[tuple[list[int], Rewritten | None, Counts]] = []
            for unit in share:
                work = Rewriter(pinned.session(), pinned.head(), rises_by)
                told, staged = unit.write(work), work.staged()
                for put in () if staged is None else staged.puts:
                    pinned.catalog.store.put(put.name, put.data)
                found.append((told, None if staged is None else replace(staged, puts=()), work.counts))
            return found

        sizes = [size_of(head, [entry for group in unit.groups for entry in group]) for unit in units]
        done = in_tasks(self._spark, write, units, sizes, what="clustering", tell=self._tell)
        for told, staged, counts in done:
            if staged is None:
                yield Done(told, None, counts)
                continue
            require_in_time(since_ms)
            version = published(self._session, head, staged)
            yield Done(told, version, counts + Counts(versions=1))
