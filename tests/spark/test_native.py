"""`load` over names and values that are Spark's own, or that Spark cannot take: the local reader's rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog
from crdtcat.spark import load
from crdtcat.spark.conditions import MEMBERS_MAX
from tests.spark.rows import values

TAKEN = [
    "_metadata",
    "_METADATA",
    "crdtcat_place",
    "crdtcat_file",
    "c1",
    "file",
    "row",
    "of",
    "start",
    "stop",
]


def lake_of(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake", inline_bytes=0, chunk_rows=10, upkeep=False)


def test_names_that_are_taken(spark: Any, tmp_path: Path) -> None:
    """In files with dead row groups, where rows are chosen by their numbers."""
    lake = lake_of(tmp_path)
    table = lake.create_table(
        "t", pa.schema([("k", pa.int64()), *((name, pa.int64()) for name in TAKEN)]), partition_by=["k"]
    )
    table.append([{"k": n % 4, **{name: n + at for at, name in enumerate(TAKEN)}} for n in range(60)])
    table.overwrite([], where="k = 1")
    assert values(load(spark, lake, "t", filter="file > 20")) == values(table.read(filter="file > 20"))
    plain = [name for name in table.schema.names if name.lower() != "_metadata"]
    frame = load(spark, lake, "t", columns=plain)
    assert "MapInArrow" not in frame._jdf.queryExecution().toString()
    assert values(frame) == values(table.read(plain))


def test_columns_that_are_not_used_are_not_read(spark: Any, tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    lake.commit("t", {"k": [1, 2, 3], "v": ["a", "b", "c"], "w": [1.0, 2.0, 3.0]})
    frame = load(spark, lake, "t")
    for used, read in (
        (frame.groupBy().sum("k"), "k:bigint"),
        (frame.where("w > 1").select("k"), "k:bigint,w:double"),
    ):
        assert f"ReadSchema: struct<{read}>" in used._jdf.queryExecution().toString()


def test_names_that_differ_by_case(spark: Any, tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    lake.commit("t", {"a": [1, 2, 3]})
    table = lake.table("t")
    table.add_column("A", pa.int64())
    table.append([{"a": 4, "A": 5}])
    for filter in ("a > 1", "A is null", "A = 5 or a = 1"):
        for columns in (None, ["A"]):
            frame = load(spark, lake, "t", filter=filter, columns=columns)
            assert sorted(map(repr, map(tuple, frame.collect()))) == sorted(
                repr(tuple(row.values())) for row in table.read(columns, filter=filter).to_pylist()
            )
    lake.commit("nested", {"s": [{"a": 1, "A": 2}], "l": [[{"Ä": 1, "ä": 2}]]})
    assert [(tuple(row.s), tuple(row.l[0])) for row in load(spark, lake, "nested").collect()] == [
        ((1, 2), (1, 2))
    ]


@pytest.mark.parametrize(
    "filter",
    ["u > 9223372036854775808", "u in (18446744073709551615, 1)", "u != 18446744073709551615 or u < 2"],
)
def test_numbers_beyond_a_long(spark: Any, tmp_path: Path, filter: str) -> None:
    lake = lake_of(tmp_path)
    lake.commit("t", pa.table({"u": pa.array([1, 2**63, 2**64 - 1, None], pa.uint64())}))
    frame = load(spark, lake, "t", filter=filter)
    assert "MapInArrow" not in frame._jdf.queryExecution().toString()
    assert (
        sorted(int(row.u) for row in frame.collect()) == lake.read("t", filter=filter).column("u").to_pylist()
    )


def test_filters_that_are_not_for_spark(spark: Any, tmp_path: Path) -> None:
    """Days beyond those of Python, and lists that a plan should not hold."""
    lake = lake_of(tmp_path)
    lake.commit(
        "t", pa.table({"id": range(40), "d": pa.array([3_000_000, 1, None, -800_000] * 10, pa.date32())})
    )
    many = [str(number) for number in range(0, 2 * MEMBERS_MAX + 2, 2)]
    for filter, native in (
        (pc.field("d") < pa.scalar(2_999_999, pa.date32()), False),
        (f"id in ({', '.join(many[:MEMBERS_MAX])})", True),
        (f"id in ({', '.join(many)})", False),
    ):
        frame = load(spark, lake, "t", filter=filter, columns=["id"])
        assert ("MapInArrow" not in frame._jdf.queryExecution().toString()) == native
        assert (
            sorted(row.id for row in frame.collect())
            == lake.read("t", ["id"], filter=filter)["id"].to_pylist()
        )


def test_deleted_rows_are_left_out_by_their_numbers(spark: Any, tmp_path: Path) -> None:
    """Natively while they leave few gaps; updated cells, and very many gaps, are for our reader."""
    lake = lake_of(tmp_path)
    table = lake.create_table("t", pa.schema([("id", pa.int64()), ("n", pa.int64())]))
    table.append([{"id": id, "n": id % 3} for id in range(400)])
    table.delete("id in (0, 3, 4, 17, 399) or id between 30 and 49")
    compared(spark, table, native=True)
    older = table.head().snapshot
    table.compact(rows=25)
    table.delete("id = 100")
    compared(spark, table, native=True)
    assert values(load(spark, lake, "t", at=older)) == values(table.read(at=older))
    table.update("id = 101", {"n": 7})
    compared(spark, table, native=False)
    table.delete("id % 2 = 0")
    compared(spark, table, native=False)


def compared(spark: Any, table: Any, *, native: bool) -> None:
    for filter in (None, "n = 1 and id > 16"):
        frame = load(spark, table._session.store.url, table.name, filter=filter)
        assert ("MapInArrow" not in frame._jdf.queryExecution().toString()) == native
        assert values(frame) == values(table.read(filter=filter))


@contextmanager
def setting(spark: Any, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_days_of_long_ago_are_what_they_are(spark: Any, tmp_path: Path, mode: str) -> None:
    """Whatever calendar the session takes other files' old days to be of."""
    lake = lake_of(tmp_path)
    old = [datetime(1, 1, 1), datetime(1500, 3, 1, 0, 0, 0, 1), datetime(1582, 10, 10)]  # noqa: DTZ001
    lake.commit(
        "t", pa.table({"d": pa.array([date(1, 1, 1), date(1500, 2, 28), date(1582, 10, 10)]), "n": old})
    )
    with setting(spark, "spark.sql.parquet.datetimeRebaseModeInRead", mode):
        frame = load(spark, lake, "t")
        assert "MapInArrow" not in frame._jdf.queryExecution().toString()
        assert values(frame) == values(lake.read("t"))


@pytest.mark.parametrize("what", ["Corrupt", "Missing"])
def test_no_setting_of_the_session_hides_what_is_lost(spark: Any, tmp_path: Path, what: str) -> None:
    """A session may be told to leave out damaged and missing files: those of tables it does not."""
    lake = lake_of(tmp_path)
    for at in range(3):
        lake.commit("t", {"id": list(range(10 * at, 10 * at + 10))})
    with setting(spark, f"spark.sql.files.ignore{what}Files", "true"):
        frame = load(spark, lake, "t")
        assert frame.agg({"id": "sum"}).collect()[0][0] == 435
        lost = next(Path(lake.url).glob("data/*/*.parquet"))
        damaged = bytearray(lost.read_bytes())
        damaged[4:40] = bytes(36)
        lost.unlink()
        if what == "Corrupt":
            lost.write_bytes(damaged)
        with pytest.raises(Exception, match=lost.name):
            frame.agg({"id": "sum"}).collect()


@pytest.mark.parametrize("sources", ["", "csv, Parquet"])
def test_a_session_without_row_numbers(spark: Any, tmp_path: Path, sources: str) -> None:
    """Where Spark reads Parquet by its second interface, files with dead rows are for our reader."""
    lake = lake_of(tmp_path)
    lake.commit("t", {"id": list(range(40))})
    with setting(spark, "spark.sql.sources.useV1SourceList", sources):
        for deleted in (False, True):
            if deleted:
                lake.table("t").delete("id in (3, 17)")
            frame = load(spark, lake, "t")
            ours = deleted and not sources
            assert ("MapInArrow" in frame._jdf.queryExecution().toString()) == ours
            assert values(frame) == values(lake.read("t"))
            assert frame.where("id > 30").count() == 9


NAN = float("nan")
FLOATS = pa.schema(
    [
        ("id", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("zero", pa.float64()),
        ("s", pa.struct([("x", pa.float32()), ("deep", pa.struct([("y", pa.float64())]))])),
    ]
)


def test_conditions_on_floats_find_every_row(spark: Any, tmp_path: Path) -> None:
    """NaN is in no bounds of a Parquet file, and of two zeros its dictionary may have one."""
    lake = lake_of(tmp_path)
    table = lake.create_table("t", FLOATS)
    some = [1.0, 2.0, NAN, -1.0, None]
    table.append(
        [
            {
                "id": n,
                "x": some[n % 5],
                "f": some[n % 5],
                "zero": -0.0,
                "s": {"x": some[n % 5], "deep": {"y": -0.0}},
            }
            for n in range(30)
        ]
    )
    table.delete("id = 7")
    frame, other = load(spark, lake, "t"), spark.read.format("crdtcat").load(f"{lake.url}/t")
    assert "MapInArrow" not in frame._jdf.queryExecution().toString()
    assert values(frame) == values(other)
    asked = ["x > 1", "x = double('NaN')", "x in (0, double('NaN'))"]
    for column in ("x", "f", "zero", "s.x", "s.deep.y"):
        asked += [f"{column} = 0", f"{column} >= double('NaN')"]
    wanted = other.selectExpr("id", *asked).collect()  # no filter: nobody skips by it
    for at, condition in enumerate(asked, 1):
        found = sorted(row.id for row in frame.where(condition).select("id").collect())
        assert found == sorted(row.id for row in wanted if row[at]), condition


def test_floats_away_from_zero_are_left_to_parquet(spark: Any, tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    rows = {"id": range(10), "price": [n + 0.5 for n in range(10)], "x": [n + 0.5 for n in range(-2, 8)]}
    lake.commit("t", rows)
    frame = load(spark, lake, "t")
    for column, pushed in (("price", True), ("x", False)):
        plan = frame.where(f"{column} > 3")._jdf.queryExecution().toString()
        assert (f"GreaterThan({column},3.0)" in plan) == pushed
    assert values(frame) == values(lake.read("t"))
