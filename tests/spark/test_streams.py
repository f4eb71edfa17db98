"""Streams: the sink counts every batch once, the source shows every change once, whatever is stopped when."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 (everybody's name for it)

from crdtcat import Catalog
from crdtcat.clock import HybridClock
from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import InvalidArgument
from crdtcat.spark import foreach_batch
from tests.spark.rows import LosingSource


def feed(folder: Path, number: int, count: int = 10) -> None:
    """One more file for a stream to read, after the others: it goes by their times, which may be the same."""
    folder.mkdir(exist_ok=True)
    rows = pa.table({"id": pa.array(range(number * count, number * count + count), pa.int64())})
    pq.write_table(rows, folder / f"{number:04}.parquet")
    os.utime(folder / f"{number:04}.parquet", (1_700_000_000 + number,) * 2)


def files(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(folder))


def finish(writer: Any, check: Path) -> None:
    """Run a stream over all there is, and wait for it."""
    query = writer.option("checkpointLocation", str(check)).trigger(availableNow=True).start()
    query.awaitTermination()


@pytest.mark.parametrize("commit", ["job", "task"])
@pytest.mark.parametrize("key", ["", "id"])
def test_the_sink_counts_every_batch_once(spark: Any, tmp_path: Path, commit: str, key: str) -> None:
    """Every batch is committed and then said to have failed; the query is restarted until it is through.

    In a table with a key rows are upserted: the second batch has every key of the first."""
    spark.dataSource.register(LosingSource)
    metadata = json.dumps({"lose": str(tmp_path / "lost")})
    restarts = 0
    for number in range(2):
        feed(tmp_path / "in", number)
        for _ in range(3):
            rows = files(spark, tmp_path / "in").selectExpr("id % 7 as id" if key else "id", "id as n")
            writer = rows.writeStream.format("crdtcat_losing").options(commit=commit, key=key)
            writer = writer.options(catalog=str(tmp_path), table="t", metadata=metadata)
            try:
                finish(writer, tmp_path / "check")
                break
            except PySparkException as error:
                assert "the answer was lost" in str(error)  # noqa: PT017
                restarts += 1
    table = Catalog(tmp_path).table("t")
    wanted = dict(sorted((n % 7 if key else n, n) for n in range(20)))  # of each key the last
    assert sorted((row["id"], row["n"]) for row in table.read().to_pylist()) == list(wanted.items())
    assert table.key == ((key,) if key else ())
    assert restarts == 2
    assert len(table.head().void) == 2  # each batch came twice, and counted once
    assert table.head().version == 2


@pytest.fixture
def half_offsets(spark: Any) -> Iterator[None]:
    """Spark refuses to go on where it was stopped while it wrote its first offset, unless told not to."""
    name = "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart"
    spark.conf.set(name, "false")
    yield
    spark.conf.unset(name)


@pytest.mark.usefixtures("half_offsets")
@pytest.mark.parametrize(
    ("how", "commit", "key"), [("format", "task", ""), ("format", "job", "id"), ("batches", "task", "id")]
)
def test_a_query_that_is_stopped_again_and_again_counts_every_row_once(
    spark: Any, tmp_path: Path, how: str, commit: str, key: str
) -> None:
    """Stopped in the middle of whatever it does, by the clock; in a table with a key rows are upserted."""
    files_in = 8
    for number in range(files_in):
        feed(tmp_path / "in", number)

    def writer() -> Any:
        stream = files(spark, tmp_path / "in").writeStream
        if how == "batches":
            return stream.foreachBatch(foreach_batch(tmp_path, "t", commit=commit, key=[key]))
        return stream.format("crdtcat").options(catalog=str(tmp_path), table="t", commit=commit, key=key)

    for wait in (0.05, 0.2, 0.4, 0.1, 0.3, 0.6):
        query = writer().option("checkpointLocation", str(tmp_path / "check")).start()
        time.sleep(wait)
        query.stop()
    finish(writer(), tmp_path / "check")
    table = Catalog(tmp_path).table("t")
    assert sorted(table.read().column("id").to_pylist()) == list(range(10 * files_in))
    standing = [version for version in table.history() if version.stands]
    assert sum(version.rows for version in standing) == 10 * files_in  # what was committed twice is void
    assert (how, commit) != ("format", "task") or len(standing) == files_in  # a batch may have two files


def test_foreach_batch_counts_every_batch_once(spark: Any, tmp_path: Path) -> None:
    """Appended and upserted, both committed by tasks and by jobs; one batch is saved and fails. Its jobs have
    a group that the function gives them, the same in every run."""
    for number in range(3):
        feed(tmp_path / "in", number)
    halves = [foreach_batch(tmp_path, "t", commit="task", part=f"{half}") for half in range(2)]
    append = foreach_batch(tmp_path, "j")
    upsert, by_tasks = (
        foreach_batch(tmp_path, name, key=["id"], commit=commit)
        for name, commit in (("k", "job"), ("m", "task"))
    )
    failed: list[int] = []

    def batch_and_fail(df: Any, batch: int) -> None:
        df.sparkSession.sparkContext.setJobGroup("mine", "of the function's own")
        for half, save_batch in enumerate(halves):
            save_batch(df.where(f"id % 2 = {half}"), batch)
        append(df, batch)
        for save_batch in (upsert, by_tasks):
            save_batch(df.selectExpr("id % 7 as id", "id as n").orderBy("n").coalesce(1), batch)
        with pytest.raises(InvalidArgument, match=f"batch {batch} was saved to 'k' already.*part="):
            upsert(df, batch)
        if batch == 1 and not failed:
            failed.append(batch)
            raise RuntimeError("stopped after it was saved")

    for _ in range(2):
        try:
            finish(files(spark, tmp_path / "in").writeStream.foreachBatch(batch_and_fail), tmp_path / "check")
        except PySparkException as error:
            assert "stopped after" in str(error)  # noqa: PT017
    lake = Catalog(tmp_path)
    assert failed == [1]
    for name in "tj":
        assert sorted(lake.read(name).column("id").to_pylist()) == list(range(30))
    for name in "km":
        read = lake.read(name).to_pylist()
        assert {row["id"]: row["n"] for row in read} == {n % 7: n for n in range(30)}
        assert len(read) == 7
    heads = {name: lake.table(name).head() for name in "tjk"}
    counts = {name: (head.version, len(head.void)) for name, head in heads.items()}
    assert counts == {"t": (6, 2), "j": (3, 1), "k": (3, 1)}
    assert len(lake.table("m").head().void) == lake.table("m").head().version / 3  # one batch of three


def test_results_that_are_complete_or_updated(spark: Any, tmp_path: Path) -> None:
    """Spark lets a Python sink append only; by batches a table is overwritten, or rows of it are."""
    ways: dict[str, dict[str, Any]] = {"complete": {"mode": "overwrite"}, "update": {"key": ["id"]}}
    for number in range(2):
        feed(tmp_path / "in", number)
        for output, options in ways.items():
            counted = files(spark, tmp_path / "in").groupBy((F.col("id") % 3).alias("id")).count()
            save_batch = foreach_batch(tmp_path / "lake", output, **options)
            writer = counted.writeStream.outputMode(output).foreachBatch(save_batch)
            finish(writer, tmp_path / output)
            rows = Catalog(tmp_path / "lake").read(output).to_pylist()
            ids = range(10 * number + 10)
            assert {row["id"]: row["count"] for row in rows} == dict(Counter(n % 3 for n in ids))
            assert len(rows) == 3


class Gathered:
    """A stream's rows, batch by batch, taken exactly once by batch id."""

    def __init__(self, spark: Any, check: Path, **options: str) -> None:
        self.spark, self.check, self.options = spark, check, options
        self.batches: dict[int, list[Any]] = {}

    def run(self, during: Callable[[], object] = lambda: None) -> None:
        """Read all there is, and do something while that is done."""

        def take(df: Any, batch: int) -> None:
            during()
            self.batches[batch] = df.collect()

        stream = self.spark.readStream.format("crdtcat").options(**self.options).load()
        finish(stream.writeStream.foreachBatch(take), self.check)

    @property
    def rows(self) -> list[Any]:
        return [row for batch in sorted(self.batches) for row in self.batches[batch]]


def test_the_source_shows_every_change_once(spark: Any, tmp_path: Path) -> None:
    began = wall_ms()
    lake = Catalog(tmp_path / "lake", upkeep=False)
    table = lake.create_table("t", pa.schema([("id", pa.int64())]))
    stream = Gathered(
        spark, tmp_path / "check", catalog=lake.url, table="t", changes="true", max_versions="2"
    )
    for n in range(5):
        table.append([{"id": n}])
    stream.run()
    assert [row.id for row in stream.rows] == [0, 1, 2, 3, 4]
    assert [len(batch) for batch in stream.batches.values()] == [2, 2, 1]
    assert {row._change_type for row in stream.rows} == {"insert"}
    assert [row._version for row in stream.rows] == [str(version.id) for version in table.history()]

    late = Catalog(lake.url, upkeep=False).table("t")  # a writer whose clock is a minute behind, or more
    late._session.writer._clock = HybridClock(lambda: began - 60_000)
    late.append([{"id": 100}])
    assert table.history()[0].rows == 1
    assert table.read().column("id").to_pylist()[0] == 100  # it sorts before everything that was read
    table.append([{"id": 5}])
    table.checkpoint()
    stream.run()
    assert sorted(row.id for row in stream.rows) == [0, 1, 2, 3, 4, 5, 100]

    before = len(stream.rows)
    replaced = table.overwrite([{"id": 7}])
    stream.run()
    changed = sorted((row._change_type, row.id) for row in stream.rows[before:])
    assert changed == [("delete", n) for n in (0, 1, 2, 3, 4, 5, 100)] + [("insert", 7)]
    assert {row._version for row in stream.rows[before:]} == {str(replaced.id)}
    count = len(stream.rows)
    stream.run()
    assert len(stream.rows) == count  # nothing new, nothing twice

    for n in (20, 21, 22):
        table.append([{"id": n}])
    stream.run(during=lambda: table.append([{"id": 30}]))  # in both of its batches
    assert [row.id for row in stream.rows[count:]] == [20, 21, 22]  # what came after its start is not in it
    stream.run()
    assert [row.id for row in stream.rows[count:]] == [20, 21, 22, 30, 30]


def test_starting_points_limits_and_removals(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake", upkeep=False)
    table = lake.create_table("t", pa.schema([("id", pa.int64())]))
    for n in range(4):
        table.append([{"id": 10 * n + m} for m in range(5)])
    middle = table.history()[1]
    where = {"catalog": lake.url, "table": "t"}
    late = Gathered(spark, tmp_path / "late", **where, start="latest")
    since = Gathered(spark, tmp_path / "since", **where, start=str(middle.id), max_rows="7")
    late.run()
    since.run()
    assert late.rows == []
    assert [len(batch) for batch in since.batches.values()] == [5, 5]
    assert sorted(row.id for row in since.rows) == [*range(20, 25), *range(30, 35)]
    table.append([{"id": 99}])
    late.run()
    assert [row.id for row in late.rows] == [99]

    table.overwrite([{"id": 1}])
    with pytest.raises(PySparkException, match="changes=true"):
        late.run()
    late.options["deletes"] = "ignore"
    late.run()
    assert [row.id for row in late.rows] == [99, 1]

    feed = spark.read.format("crdtcat").options(**where, changes="true", start=str(middle.id)).load()
    kinds = [(row._change_type, row.id) for row in feed.collect()]
    assert sorted(kinds) == [("delete", n) for n in (*range(5), *range(10, 15))] + [("insert", 1)]


def test_a_twin_that_takes_over_is_no_change(spark: Any, tmp_path: Path) -> None:
    """A retried task's version arrives late and sorts first: it stands instead, and the rows are the same."""
    lake = Catalog(tmp_path / "lake", upkeep=False)
    table = lake.create_table("t", pa.schema([("id", pa.int64())]))
    table.append([{"id": 1}], key="task-1")
    stream = Gathered(spark, tmp_path / "check", catalog=lake.url, table="t", changes="true")
    stream.run()
    twin = Catalog(lake.url, upkeep=False).table("t")
    twin._session.writer._clock = HybridClock(lambda: wall_ms() - 60_000)
    twin.append([{"id": 1}], key="task-1")
    assert len(table.head().void) == 1
    table.append([{"id": 2}])
    stream.run()
    assert [(row._change_type, row.id) for row in stream.rows] == [("insert", 1), ("insert", 2)]


def test_a_stream_from_table_to_table_restarted_many_times(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake", upkeep=False)
    source = lake.create_table("source", pa.schema([("id", pa.int64())]))
    for round in range(4):
        for n in range(3):
            source.append([{"id": 10 * round + n}])
        stream = spark.readStream.format("crdtcat").load(f"{lake.url}/source")
        writer = stream.writeStream.format("crdtcat").options(catalog=lake.url, table="copy")
        if round < 3:
            finish(writer, tmp_path / "check")
    query = writer.option("checkpointLocation", str(tmp_path / "check")).start()  # Spark's own trigger
    for n in range(3):
        query.processAllAvailable()
        assert sorted(lake.read("copy").column("id").to_pylist()) == sorted(
            source.read().column("id").to_pylist()
        )
        source.append([{"id": 100 + n}])
    query.processAllAvailable()
    query.stop()
    assert lake.read("copy").num_rows == 15
    assert lake.table("copy").head().version == 7
