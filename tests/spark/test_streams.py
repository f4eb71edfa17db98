"""Streams: the source shows every change once, whatever is stopped when."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from crdtcat import Catalog
from crdtcat.clock import HybridClock
from crdtcat.clock.hlc import wall_ms


def feed(folder: Path, number: int, count: int = 10) -> None:
    """One more file for a stream to read, after the others: it goes by their times, which may be the same."""
    folder.mkdir(exist_ok=True)
    rows = pa.table({"id": pa.array(range(number * count, number * count + count), pa.int64())})
    pq.write_table(rows, folder / f"{number:04}.parquet")
    os.utime(folder / f"{number:04}.parquet", (1_700_000_000 + number,) * 2)


def files(spark: Any, folder: Path, at_once: int = 1) -> Any:
    """Files as a stream: so many are a batch, each the rows of one task."""
    return spark.readStream.schema("id long").option("maxFilesPerTrigger", at_once).parquet(str(folder))


def finish(writer: Any, check: Path) -> None:
    """Run a stream over all there is, and wait for it."""
    query = writer.option("checkpointLocation", str(check)).trigger(availableNow=True).start()
    query.awaitTermination()


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

    for n in (20, 21, 22):
        table.append([{"id": n}])
    stream.run(during=lambda: table.append([{"id": 30}]))  # in both of its batches
    assert [row.id for row in stream.rows[count:]] == [20, 21, 22]  # nothing twice, nothing since it began
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
