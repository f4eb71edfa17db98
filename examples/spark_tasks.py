"""Spark tasks that commit by themselves: no driver in the way, and tasks that run twice count once.

Run with `python -m examples.spark_tasks`; it needs Java 17. It works in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.spark import compact, load, save, verify
from examples.spark_session import quiet_session

TASKS = 12


def main() -> None:
    """Commit from tasks, twice; upsert from tasks; tidy up on Spark."""
    with tempfile.TemporaryDirectory() as folder, quiet_session("tasks") as spark:
        lake = Catalog(folder, upkeep=False)  # no task tidies the log
        events = spark.range(0, 24_000, 1, TASKS).selectExpr("id", "id % 7 as kind")

        # Each task commits its own version from its worker the moment it is done.
        versions = save(events, lake, "events", commit="task", query="load-1")
        print(f"{len(versions)} versions, {sum(version.rows for version in versions):,} rows")

        # The same write again, as after a crash: its keys are (query, partition), so nothing is added.
        save(events, lake, "events", commit="task", query="load-1")
        head = lake.table("events").head()
        print(f"run again: {head.row_count:,} rows, {len(head.void)} commits do not count")

        # No format needed: a catalog pickles, and commits from any function that runs in a worker.
        def refine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = pa.Table.from_batches(batches)
            kept = rows.filter(pa.compute.equal(rows["kind"], 3))
            version = lake.commit("threes", kept, key=f"threes/{rows['id'][0]}")
            yield pa.record_batch({"rows": [version.rows]})

        lake.create_table("threes", pa.schema([("id", pa.int64()), ("kind", pa.int64())]))
        counts = events.mapInArrow(refine, "rows long").collect()
        print(f"threes: {sum(row.rows for row in counts):,} rows by {len(counts)} tasks")

        # A table with a key takes upserts: the last writer of each cell wins, no task waits for another.
        save(events.selectExpr("id % 100 as id", "kind"), lake, "last", key=["id"], commit="task")
        print(f"last: {load(spark, lake, 'last').count()} keys")

        # Upkeep in tasks as well: nobody's rows change, nobody's commit fails.
        print(compact(spark, lake, "events"))
        print(verify(spark, lake, "events", "content"))


if __name__ == "__main__":
    main()
