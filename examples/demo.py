"""The demo: a Spark pipeline on a local catalog. Many tasks commit at once, a stream follows, readers agree.

Run it with `make demo`; it needs Java 17. It works in a temporary folder, prints what it does, and takes
about a minute. To look at the files afterwards, name a new folder: `.venv/bin/python -m examples.demo
./demo-lake`."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa

from crdtcat import Catalog, Table
from crdtcat.spark import compact, load, save, verify
from examples.spark_session import quiet_session

TASKS, EVENTS = 60, 600_000
USERS = 5_000
LATE_FILES, LATE_EVENTS = 6, 5_000


def say(title: str, *lines: str) -> None:
    """One step of the story."""
    print(f"\n\033[1m{title}\033[0m")
    for line in lines:
        print(f"  {line}", flush=True)


def events(spark: Any, start: int, count: int, tasks: int) -> Any:
    """Generated events: the same rows for the same numbers, whoever makes them, however often."""
    return spark.range(start, start + count, 1, tasks).selectExpr(
        "id",
        "date_add(date'2026-11-10', cast(id % 7 as int)) as day",
        "concat('user-', pmod(hash(id), 5000)) as user",
        "element_at(array('view', 'click', 'buy'), cast(1 + pmod(hash(id, 'kind'), 3) as int)) as kind",
        "round(pmod(hash(id, 'amount'), 10000) / 100, 2) as amount",
    )


def ingest(spark: Any, lake: Catalog) -> None:
    """Many tasks, each of which commits its own version from its worker."""
    say(
        f"1. {TASKS} tasks commit {EVENTS:,} events to one table, each by itself, the moment it is done",
        "No driver in the way, no lock, no pointer to swap: every commit is one new file of its own.",
    )
    began = time.monotonic()
    versions = save(events(spark, 0, EVENTS, TASKS), lake, "events", commit="task", query="backfill")
    writers = {version.id.writer for version in versions}
    print(
        f"  {len(versions)} versions by {len(writers)} worker processes in {time.monotonic() - began:.1f} s, "
        f"{lake.table('events').head().row_count:,} rows"
    )
    again = save(events(spark, 0, EVENTS // 10, 4), lake, "retries", commit="task", query="same")
    save(events(spark, 0, EVENTS // 10, 4), lake, "retries", commit="task", query="same")
    head = lake.table("retries").head()
    print(
        f"  the same query run twice: {len(again)} + {len(again)} commits, {head.version} count, "
        f"{head.row_count:,} rows"
    )


def killed_workers(spark: Any, lake: Catalog) -> None:
    """A worker is killed after it has committed; Spark runs its task again; the rows count once."""
    say("2. Two worker processes are killed with SIGKILL right after they committed")
    lake.create_table("survivors", pa.schema([("id", pa.int64())]))

    def commit_and_die(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext  # noqa: PLC0415 (runs in a worker)

        task = TaskContext.get()
        lake.commit("survivors", pa.Table.from_batches(batches), key=f"survivors/{task.partitionId()}")
        if task.attemptNumber() == 0 and task.partitionId() in (1, 3):
            os.kill(os.getpid(), signal.SIGKILL)
        yield pa.record_batch({"pid": [os.getpid()]})

    spark.range(0, 4_000, 1, 4).mapInArrow(commit_and_die, "pid long").collect()
    head = lake.table("survivors").head()
    print(
        f"  {head.row_count:,} rows of 4,000; {len(head.void)} commits are void: their keys were used before"
    )


def upserts(spark: Any, lake: Catalog) -> None:
    """Late data replaces rows by key, column by column; nothing is read for it."""
    say(
        "3. Late data is upserted: tasks commit what they have, and rows are merged by key when they are read"
    )
    users = spark.range(0, USERS, 1, 4).selectExpr("concat('user-', id) as user", "id as n", "'new' as state")
    save(users, lake, "users", key=["user"], commit="task")
    late = users.where("n % 5 = 0").selectExpr("user", "'corrected' as state")
    for _ in range(2):  # who knows whether it was sent before
        save(late, lake, "users", commit="task")
    rows = lake.read("users")
    corrected = rows.column("state").to_pylist().count("corrected")
    kept = sum(rows.column("n").to_pylist()) == sum(range(USERS))
    print(
        f"  {rows.num_rows:,} users, {corrected:,} of them corrected; columns that were not sent stay: {kept}"
    )


def stream_and_read(spark: Any, lake: Catalog, folder: Path) -> None:
    """A streaming query appends late events while readers read; each reader sees one snapshot."""
    say(
        "4. A streaming query appends late events, and is stopped and started again,",
        "while the table is compacted by Spark tasks and readers go on; nobody waits for anybody",
    )
    late = folder / "late"
    events(spark, EVENTS, LATE_FILES * LATE_EVENTS, LATE_FILES).write.parquet(str(late))
    schema = events(spark, 0, 1, 1).schema
    seen, compacted = [], None
    for _ in range(2):
        source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(late))
        query = (
            source.writeStream.format("crdtcat")
            .options(catalog=lake.url, table="events")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        while query.isActive:
            compacted = compacted or compact(spark, lake, "events")
            frame = load(spark, lake, "events")
            seen.append((frame.count(), frame.where("kind = 'buy'").count(), frame.count()))
            if len(seen) == 2:
                query.stop()
        query.awaitTermination()
    total = lake.table("events").head().row_count
    print(f"  {compacted}")
    print(
        f"  {len(seen)} readers in between saw {', '.join(f'{count:,}' for count, _, _ in seen[:6])} ... rows"
    )
    print(f"  each the same number twice: {all(one == two for one, _, two in seen)}")
    print(f"  at the end {total:,} rows, {EVENTS + LATE_FILES * LATE_EVENTS:,} expected: batches count once")
    if total != EVENTS + LATE_FILES * LATE_EVENTS:
        raise SystemExit("rows are missing or counted twice")


def read_back(spark: Any, lake: Catalog) -> None:
    """The merged table, by SQL, at the speed of Spark's own Parquet reader."""
    say("5. All of it read back, merged, by SQL over Spark's own Parquet reader")
    load(spark, lake, "events").createOrReplaceTempView("events")
    rows = spark.sql(
        "select kind, count(*) n, count(distinct user) users, round(sum(amount), 2) amount "
        "from events group by kind order by kind"
    ).collect()
    for row in rows:
        print(f"  {row.kind:<6} {row.n:>9,} events  {row.users:>6,} users  {row.amount:>16,.2f}")


def history_and_conflicts(table: Table, other: Table) -> None:
    """One order that everybody agrees on; what loses is listed."""
    say("6. History: one order that everybody agrees on (the last three), and conflicts, none of them silent")
    for version in table.history()[-3:]:
        print(f"  {version}")
    table.head(), other.head()
    table.append([{"id": -1, "day": date(2026, 11, 16), "note": "a text"}], evolve=True)
    other.append([{"id": -2, "day": date(2026, 11, 16), "note": 5}], evolve=True)
    for conflict in table.conflicts():
        print(f"  {conflict}")


def storage(spark: Any, lake: Catalog, folder: Path) -> None:
    """What it takes, and that every byte is what it was."""
    table = lake.table("events")
    say("7. Storage and verification")
    print(f"  {table.checkpoint()}")
    plain = folder / "plain"
    load(spark, lake, "events").drop("note").write.parquet(str(plain))
    parquet = sum(path.stat().st_size for path in plain.glob("*.parquet"))
    stats, history = table.stats(), table.history()
    now = stats.stored_bytes - stats.past_bytes
    rows = list(accumulate(version.rows_added for version in history))
    copies = sum(parquet * count // rows[-1] for count in rows)
    print(f"  the events as they are now: {now:,} bytes in segments; the same as plain Parquet: {parquet:,}")
    print(
        f"  all {len(history)} snapshots of them can still be read, and what was compacted is still there: "
        f"{stats.stored_bytes:,} bytes; a full copy for each would be about {copies:,}"
    )
    print(f"  {verify(spark, lake, 'events', 'content')}")


def main() -> None:
    """Tell the story, in the folder named on the command line or in a temporary one."""
    with ExitStack() as stack:
        if len(sys.argv) > 1:
            folder = Path(sys.argv[1]).resolve()  # the format runs in processes with other directories
            if folder.exists():
                raise SystemExit(f"{folder} is there already: name a new folder")
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crdtcat-demo-")))
        began = time.monotonic()
        spark = stack.enter_context(quiet_session("crdtcat demo"))
        say(f"Spark {spark.version} is up after {time.monotonic() - began:.0f} s")
        lake = stack.enter_context(Catalog(folder / "lake"))
        ingest(spark, lake)
        killed_workers(spark, lake)
        upserts(spark, lake)
        stream_and_read(spark, lake, folder)
        read_back(spark, lake)
        history_and_conflicts(lake.table("events"), Catalog(folder / "lake").table("events"))
        storage(spark, lake, folder)
        say(
            f"Done, in {time.monotonic() - began:.0f} s.",
            "Every reader, everywhere, that lists these files sees these tables.",
        )


if __name__ == "__main__":
    main()
