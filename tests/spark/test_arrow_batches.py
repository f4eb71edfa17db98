"""Batches that Spark hands to Python while rows are written: bounded by rows where that is enough."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 (everybody's name for it)
from pyspark.sql.types import StructType

from crdtcat import Catalog
from crdtcat.spark import save
from crdtcat.spark.arrow_batches import BATCH_BYTES, BATCH_ROWS, bounded_by_rows, rows_enough

ROWS = 5_000
IN_TEXTS = [910, 2_045, 2_045]


def settings(spark: Any) -> tuple[str | None, str | None]:
    return spark.conf.get(BATCH_BYTES, None), spark.conf.get(BATCH_ROWS, None)


def properties(spark: Any) -> tuple[str | None, str | None]:
    """Of the jobs that this thread starts."""
    context = spark.sparkContext
    return context.getLocalProperty(BATCH_BYTES), context.getLocalProperty(BATCH_ROWS)


def while_written(df: Any) -> tuple[str | None, str | None]:
    """The properties of jobs while a frame is written."""
    with bounded_by_rows(df):
        return properties(df.sparkSession)


def lengths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.record_batch({"n": pa.array([batch.num_rows], pa.int64()), "t": pa.array(["x"])})


def of_batches(spark: Any) -> Any:
    """One row for each batch in which Spark handed over 5,000 rows: a function within what is written."""
    return spark.range(0, ROWS, 1, 1).mapInArrow(lengths, "n long, t string")


def stored(lake: Catalog) -> list[int]:
    return sorted(lake.read("t", ["n"]).column("n").to_pylist())


def test_rows_that_are_enough(spark: Any) -> None:
    cases = {
        "id long, x double, at timestamp, day date, b boolean": 2**26 // 81,
        "d decimal(38, 2), s struct<a: int, n: timestamp_ntz>, i interval day to second": 2**26 // 66,
        "t string": 2_046,
        "t string, u string, c char(3), s struct<v: varchar(10)>, id long": 2_042,
        "t string, b binary": None,
        "a array<int>": None,
        "s struct<m: map<string, int>>": None,
        "v variant": None,
    }
    found = {columns: rows_enough(StructType.fromDDL(columns)) for columns in cases}
    assert found == cases
    assert spark.range(1).select().schema == StructType()
    assert rows_enough(StructType()) == 2**26


def test_writes_by_the_format_and_by_save_are_bounded_by_rows(registered: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake")
    before = settings(registered)
    of_batches(registered).write.format("crdtcat").mode("append").save(f"{lake.url}/t")
    assert stored(lake) == IN_TEXTS
    of_batches(registered).write.save(f"{lake.url}/t", "crdtcat", "append")
    assert stored(lake) == sorted(2 * IN_TEXTS)
    save(of_batches(registered), lake, "t", mode="overwrite")
    assert stored(lake) == IN_TEXTS
    assert settings(registered) == before == (None, None) == properties(registered)


def test_other_formats_and_a_limit_that_was_set_are_left_alone(registered: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake")
    of_batches(registered).write.parquet(str(tmp_path / "files"))
    assert [row.n for row in registered.read.parquet(str(tmp_path / "files")).collect()] == [ROWS]
    registered.conf.set(BATCH_BYTES, "64m")
    try:
        of_batches(registered).write.format("crdtcat").mode("append").save(f"{lake.url}/t")
        assert registered.conf.get(BATCH_BYTES) == "64m"
    finally:
        registered.conf.unset(BATCH_BYTES)
    assert stored(lake) == [ROWS]


def test_the_session_and_other_threads_notice_nothing(registered: Any) -> None:
    texts, numbers = registered.range(1).select(F.lit("x")), registered.range(1)
    with ThreadPoolExecutor(1) as other, bounded_by_rows(texts):
        assert properties(registered) == ("2147483647", "2046")
        assert while_written(numbers) == ("2147483647", "10000")
        assert properties(registered) == ("2147483647", "2046")  # one runs still
        assert settings(registered) == other.submit(properties, registered).result() == (None, None)
    assert properties(registered) == (None, None)


def fail_if(what: bool) -> None:
    if what:
        raise RuntimeError


def test_a_write_that_fails_leaves_no_property(registered: Any) -> None:
    with pytest.raises(RuntimeError), bounded_by_rows(registered.range(1)):
        fail_if(properties(registered) == ("2147483647", "10000"))
    assert properties(registered) == (None, None)


def test_the_session_s_own_limit_of_rows_counts(registered: Any) -> None:
    texts, numbers = registered.range(1).select(F.lit("x")), registered.range(1)
    found = {}
    for limit in ("2000", "3000", "0"):  # 0: as many as come
        registered.conf.set(BATCH_ROWS, limit)
        try:
            found[limit] = while_written(texts), while_written(numbers)
        finally:
            registered.conf.unset(BATCH_ROWS)
    uncounted, counted = ("2147483647", None), (None, None)
    assert found == {"2000": (uncounted,) * 2, "3000": (counted, uncounted), "0": (counted,) * 2}


class Once:
    """A table of one row."""

    def eval(self) -> Iterator[tuple[int]]:
        yield (1,)


def test_what_functions_within_are_given_is_bounded_too(registered: Any) -> None:
    """Spark would hand pictures to them by the row, too: 400 MB at a time, where it had been 64."""
    blobs = registered.range(8).select("id", F.lit(b"x").alias("b"))
    sizes = blobs.mapInArrow(lengths, "n long, t string")
    same = F.pandas_udf(lambda column: column, "long")
    queried = registered.sql(
        "select id, (select max(n) from {sizes}) from {ids}", sizes=sizes, ids=blobs["id",]
    )
    uncounted = {
        "nothing": (registered.range(8), "10000"),
        "numbers": (registered.range(8).mapInArrow(lengths, "n long, t string").select("n"), "10000"),
        "texts": (blobs.select(F.lit("x")).mapInArrow(lengths, "n long, t string").select("n"), "2046"),
        "numbers, twice": (of_batches(registered).union(of_batches(registered)).select("n"), "10000"),
        "bytes that no function sees": (blobs.where("length(b) > 3").select("id"), "10000"),
    }
    counted = {
        "bytes": sizes,
        "bytes below": sizes.union(sizes).groupBy("n").count(),
        "bytes in a query within": queried.select("id"),
        "of values": blobs.select(same("id").alias("n")),
        "of groups": blobs.groupBy("id").applyInArrow(lambda table: table, "id long, b binary").select("id"),
        "of a table function": F.udtf(Once, returnType="n int")(),
        "behind an RDD": sizes.localCheckpoint(eager=False),
    }
    assert {what: while_written(df) for what, (df, _) in uncounted.items()} == {
        what: ("2147483647", rows) for what, (_, rows) in uncounted.items()
    }
    assert {what: while_written(df) for what, df in counted.items()} == dict.fromkeys(counted, (None, None))
