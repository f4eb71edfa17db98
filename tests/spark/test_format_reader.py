"""`spark.read.format("crdtcat").load()` in a registered session: the source's rows, planned by us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import InvalidArgument, InvalidFilter, NotFound
from crdtcat.spark import load
from crdtcat.spark.format_reader import READ_BY
from crdtcat.spark.python_frame import NUMBER_BYTES, STATED_MIN, numbers_each
from tests.spark.rows import values

MIB = 2**20


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().toString())


def by_us(frame: Any) -> bool:
    found = plan_of(frame)
    assert ("MapInArrow" in found) != ("BatchScan" in found or "RelationV2" in found)
    return "MapInArrow" in found


def some_lake(tmp_path: Path, rows: int = 30) -> Catalog:
    lake = Catalog(tmp_path / "lake", chunk_rows=10, inline_bytes=0, upkeep=False)
    lake.commit("t", {"k": [n % 3 for n in range(rows)], "v": [f"v{n}" for n in range(rows)]})
    return lake


def test_every_option_means_what_it_means_to_the_source(spark: Any, registered: Any, tmp_path: Path) -> None:
    lake = some_lake(tmp_path)
    table = lake.table("t")
    table.tag("before")
    table.update("k = 2", {"v": None})
    table.branch("b").append([{"k": 7, "v": "b"}])
    cases: list[dict[str, str]] = [
        {},
        {"columns": "v"},
        {"filter": "k = 1"},
        {"at": "before", "not_null": "true"},
        {"branch": "b", "verify": "false"},
        {"partition_bytes": "1"},
        {"Partition_Bytes": "200", "COLUMNS": "k", "not_null": "true"},
    ]
    for options in cases:
        source, ours = (
            session.read.format("crdtcat").options(**options).load(f"{lake.url}/t")
            for session in (spark, registered)
        )
        assert (by_us(source), by_us(ours)) == (False, True)
        assert ours.schema == source.schema
        assert values(ours) == values(source)
        assert ours.rdd.getNumPartitions() == source.rdd.getNumPartitions()


def test_every_way_to_say_it(registered: Any, tmp_path: Path) -> None:
    lake = some_lake(tmp_path)
    url = f"{lake.url}/t"
    expected = values(lake.read("t"))
    for frame in (
        registered.read.load(url, "crdtcat"),
        registered.read.load(format="CrdtCat", catalog=lake.url, table="t"),
        registered.read.format("crdtcat").option("path", url).load(),
        registered.read.format("parquet").format("crdtcat").options(catalog=lake.url, table="t").load(),
    ):
        assert by_us(frame)
        assert values(frame) == expected


def test_pinned_when_it_is_loaded(registered: Any, tmp_path: Path) -> None:
    lake = some_lake(tmp_path)
    frame = registered.read.format("crdtcat").load(f"{lake.url}/t")
    lake.commit("t", {"k": [9], "v": ["late"]})
    assert frame.count() == 30
    assert registered.read.format("crdtcat").load(f"{lake.url}/t").count() == 31


def test_any_mix_of_queries_over_one_frame(registered: Any, tmp_path: Path) -> None:
    lake = some_lake(tmp_path)
    frame = registered.read.format("crdtcat").load(f"{lake.url}/t")
    frame.createOrReplaceTempView("mixed")
    one, two = frame.where("k = 1"), frame.where("k = 2")
    assert [one.count(), frame.count(), two.union(one).count()] == [10, 30, 20]
    assert registered.sql("select sum(k) from mixed where v like 'v1%'").first()[0] == sum(
        n % 3 for n in range(30) if str(n).startswith("1")
    )
    assert frame.join(one.select("v"), "v").count() == 10
    assert frame.select("v").exceptAll(one.select("v")).count() == 20


def test_what_is_left_to_the_source(registered: Any, tmp_path: Path) -> None:
    lake = some_lake(tmp_path)
    url = f"{lake.url}/t"
    changes = registered.read.format("crdtcat").option("changes", "true").load(url)
    assert not by_us(changes)
    assert changes.count() == 30
    with pytest.raises(Exception, match="the table has its own schema"):
        registered.read.format("crdtcat").schema("k long").load(url).count()
    with pytest.raises(Exception, match="path"):
        registered.read.format("crdtcat").option("path", url).load(url)
    with pytest.raises(Exception, match="catalog"):
        registered.read.format("crdtcat").load([url, url])
    registered.conf.set(READ_BY, "source")
    try:
        frame = registered.read.format("crdtcat").load(url)
    finally:
        registered.conf.set(READ_BY, "function")
    assert not by_us(frame)
    assert frame.count() == 30
    frame.createOrReplaceTempView("inserted_into")
    registered.sql("insert into inserted_into select 5, 'inserted'")
    assert lake.read("t").num_rows == 31


def test_other_formats_are_read_as_ever(registered: Any, tmp_path: Path) -> None:
    registered.range(3).write.parquet(f"{tmp_path}/one")
    registered.range(3).write.parquet(f"{tmp_path}/two")
    one, two = f"{tmp_path}/one", f"{tmp_path}/two"
    assert registered.read.load(one).count() == 3
    assert registered.read.load([one, two], "parquet").count() == 6
    assert registered.read.load(one, format="parquet", schema="id long, x int").columns == ["id", "x"]
    assert registered.read.format("parquet").option("path", one).load().count() == 3


def test_errors_come_as_they_are(registered: Any, tmp_path: Path) -> None:
    lake = some_lake(tmp_path)
    url = f"{lake.url}/t"
    with pytest.raises(NotFound, match="'u'"):
        registered.read.format("crdtcat").load(f"{lake.url}/u")
    with pytest.raises(InvalidArgument, match="no option 'tables'"):
        registered.read.format("crdtcat").option("tables", "t").load(url)
    with pytest.raises(InvalidArgument, match="relative path"):
        registered.read.format("crdtcat").load("lake/t")
    with pytest.raises(InvalidArgument, match="is for writing"):
        registered.read.format("crdtcat").option("query", "q").load(url)
    with pytest.raises(InvalidFilter):
        registered.read.format("crdtcat").option("filter", "nothing = 1").load(url)


def test_large_tables_are_not_sent_to_all_workers(registered: Any, tmp_path: Path) -> None:
    """Spark takes the size of what goes into a function for that of what comes out of it."""
    lake = Catalog(tmp_path / "lake", upkeep=False)
    lake.commit("small", {"k": list(range(100))})
    lake.commit("large", {"k": list(range(200_000)), "v": ["x" * 100] * 200_000})
    other = registered.range(10**9).withColumnRenamed("id", "k")
    for frames in (
        {name: load(registered, lake, name, native=False) for name in ("small", "large")},
        {name: registered.read.format("crdtcat").load(f"{lake.url}/{name}") for name in ("small", "large")},
    ):
        assert "BroadcastHashJoin" in plan_of(frames["small"].join(other, "k"))
        joined = frames["large"].join(other, "k")
        assert "SortMergeJoin" in plan_of(joined)
        assert frames["large"].join(frames["small"], "k").count() == 100
        assert frames["large"].count() == 200_000


@pytest.mark.parametrize("threshold", [0, 10 * MIB, 1024 * MIB])
@pytest.mark.parametrize("shares", [1, 3, 8, 1000])
def test_sizes_that_spark_is_told(threshold: int, shares: int) -> None:
    for nbytes in (0, 1, 1000, 5 * MIB, 11 * MIB, 100 * MIB, 2**40):
        each = numbers_each(nbytes, shares, threshold)
        told = each * shares * NUMBER_BYTES
        assert each.bit_count() == 1
        assert told <= 2 * max(nbytes, shares * NUMBER_BYTES)
        assert told > min(nbytes, threshold)
        assert told <= 2 * max(2 * threshold, STATED_MIN, shares * NUMBER_BYTES)


@pytest.mark.parametrize("said", ["-1", "10485760b", "64m", "1GB", "100"])
def test_thresholds_as_sessions_say_them(registered: Any, tmp_path: Path, said: str) -> None:
    lake = some_lake(tmp_path)
    session = registered.newSession()
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", said)
    assert load(session, lake, "t", native=False).count() == 30
