"""A scan and the ways to have it: columns, filters in three forms, every output, what it fetches."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, Table
from crdtcat.chunks.types import cast_lossless
from crdtcat.errors import Corrupt, InvalidArgument, InvalidFilter, UnsupportedType
from crdtcat.format.ops import ColumnId
from crdtcat.head import Head
from crdtcat.scan.plan import make_plan
from crdtcat.scan.units import units
from tests.catalog.lakes import another, lake, objects, rows

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("amount", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)
START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
DATA = pa.table(
    {
        "id": range(1000),
        "name": [None if n % 10 == 0 else f"user {n % 7}" for n in range(1000)],
        "amount": [n / 4 for n in range(1000)],
        "at": [START + dt.timedelta(minutes=n) for n in range(1000)],
        "tags": [["even"] if n % 2 == 0 else [] for n in range(1000)],
    },
    schema=SCHEMA,
)


@pytest.fixture(params=["inlined", "segments", "one segment", "bundled"])
def table(request: pytest.FixtureRequest) -> Table:
    options = {"inlined": {}, "segments": {"inline_bytes": 0}, "one segment": {"inline_bytes": 0}}
    catalog = lake(chunk_rows=100, **options.get(request.param, {}))
    made = catalog.create_table("t", SCHEMA)
    step = 1000 if request.param == "one segment" else 250
    for at in range(0, 1000, step):
        made.append(DATA.slice(at, step))
    if request.param == "bundled":
        made.checkpoint()
        made.collect()
        return another(catalog).table("t")
    return made


def test_everything_in_order(table: Table) -> None:
    assert table.read() == DATA
    assert table.scan().schema == SCHEMA
    assert table.scan().count() == table.head().row_count == 1000


def test_columns_in_the_order_asked_for(table: Table) -> None:
    for names in (["at", "id"], ["tags"], SCHEMA.names[::-1]):
        assert table.read(names) == DATA.select(names)
        assert table.scan(names).schema.names == names
        assert table.read(names, "amount >= 100.0") == DATA.filter(pc.field("amount") >= 100).select(names)
        for given in (tuple(names), pd.Index(names)):
            assert table.read(given) == DATA.select(names)


SAME_FILTERS: list[tuple[Any, ...]] = [
    ("id = 500", [("id", "=", 500)], pc.field("id") == 500),
    (
        "id >= 990 or id < 3",
        [[("id", ">=", 990)], [("id", "<", 3)]],
        (pc.field("id") >= 990) | (pc.field("id") < 3),
    ),
    ("id in (1, 999, 5000)", [("id", "in", [1, 999, 5000])], pc.field("id").isin([1, 999, 5000])),
    (
        "name = 'user 3' and amount > 200",
        [("name", "==", "user 3"), ("amount", ">", 200)],
        (pc.field("name") == "user 3") & (pc.field("amount") > 200),
    ),
    ("name is null", None, pc.field("name").is_null()),
    (
        "at < '2024-01-01 01:00:00Z'",
        [("at", "<", START + dt.timedelta(hours=1))],
        pc.field("at") < pa.scalar(START + dt.timedelta(hours=1), pa.timestamp("us", "UTC")),
    ),
]


@pytest.mark.parametrize("forms", SAME_FILTERS, ids=[forms[0] for forms in SAME_FILTERS])
def test_filters_in_three_forms(table: Table, forms: tuple[Any, ...]) -> None:
    expected = DATA.filter(forms[2])
    assert 0 < expected.num_rows < 1000
    for form in forms:
        if form is None:
            continue
        assert table.read(filter=form) == expected
        assert table.scan(["name"], form).to_table() == expected.select(["name"])
        assert table.scan(filter=form).count() == expected.num_rows


def test_every_output(table: Table) -> None:
    scan = table.scan(["id", "name"], "id < 150")
    expected = DATA.slice(0, 150).select(["id", "name"])
    assert scan.to_table() == expected
    assert scan.to_reader().read_all() == expected
    assert pa.RecordBatchReader.from_stream(scan).read_all() == expected
    assert pa.concat_tables(scan.tables()) == expected
    pd.testing.assert_frame_equal(scan.to_pandas(), expected.to_pandas())
    assert scan.to_pandas(types_mapper=pd.ArrowDtype)["id"].dtype == pd.ArrowDtype(pa.int64())
    assert scan.to_polars().equals(pl.from_arrow(expected))
    assert pl.DataFrame(scan).equals(pl.DataFrame(expected))
    assert scan.to_duckdb().aggregate("sum(id), count(*)").fetchall() == [(149 * 150 // 2, 150)]
    with duckdb.connect() as connection:
        relation = scan.to_duckdb(connection)
        assert relation.filter("id = 3").fetchall() == [(3, "user 3")]
    for _ in range(2):  # a scan can be run again
        assert scan.to_table() == expected
        assert scan.count() == 150


def test_verify_is_yes_or_no(table: Table) -> None:
    with pytest.raises(InvalidArgument, match="verify='content'"):
        table.scan(verify="content")  # type: ignore[arg-type]


def test_no_rows_match(table: Table) -> None:
    scan = table.scan(["id", "tags"], "id = -1")
    assert scan.to_table() == SCHEMA.empty_table().select(["id", "tags"])
    assert scan.count() == 0
    assert scan.to_reader().read_all().num_rows == 0
    assert list(scan.to_pandas().columns) == ["id", "tags"]
    assert scan.to_polars().shape == (0, 2)
    assert scan.to_duckdb().fetchall() == []
    assert "0 of" in scan.explain()


def test_pandas_keeps_large_numbers_beside_nulls_where_it_is_asked_to() -> None:
    table = lake().create_table("t", pa.schema([("n", pa.int64())]))
    table.append([{"n": 2**60 + 1}, {"n": None}])
    table.write(table.scan().to_pandas(types_mapper=pd.ArrowDtype))
    assert table.read()["n"].to_pylist() == [2**60 + 1, None]
    table.write(table.scan().to_pandas())
    assert table.read()["n"].to_pylist() == [2**60, None]
    table.overwrite(pd.DataFrame({"n": [1.0, np.nan]}))
    assert table.read()["n"].to_pylist() == [1, None]


def test_a_scan_is_pinned() -> None:
    table = lake().create_table("t", SCHEMA)
    table.append(DATA)
    scan, reader = table.scan(), table.scan().to_reader()
    table.overwrite(DATA.slice(0, 1))
    table.drop_column("tags")
    assert scan.to_table() == reader.read_all() == DATA
    assert scan.snapshot != table.head().snapshot


def test_pruning_reads_only_what_may_match() -> None:
    catalog = lake(inline_bytes=0, chunk_rows=100)
    table = catalog.create_table("t", SCHEMA)
    for at in range(0, 1000, 250):
        table.append(DATA.slice(at, 250))
    scan = table.scan(["id"], "id = 500")
    assert (len(scan.plan.chunks), scan.plan.pruned) == (1, 11)
    scan.to_table()  # footers are kept by the handle: the second time only data is fetched
    before = catalog.store.requests.snapshot()
    assert rows(scan.to_table()) == [{"id": 500}]
    used = catalog.store.requests.snapshot() - before
    assert (used.get, used.put, used.list) == (1, 0, 0)
    whole = sum(size for name, size in objects(catalog).items() if name.startswith("data/"))
    assert used.bytes_in < whole / 20


def test_count_reads_no_data_where_statistics_decide() -> None:
    catalog = lake(inline_bytes=0, chunk_rows=100)
    table = catalog.create_table("t", SCHEMA)
    table.append(DATA)
    for filter, expected in ((None, 1000), ("id >= 300", 700), ("id < 0", 0), ("amount is not null", 1000)):
        scan = table.scan(filter=filter)
        before = catalog.store.requests.snapshot()
        assert scan.count() == expected
        assert (catalog.store.requests.snapshot() - before).get == 0
    scan = table.scan(filter="id >= 350")  # cuts one chunk in two: that one is read, and of it one column
    before = catalog.store.requests.snapshot()
    assert scan.count() == 650
    assert (catalog.store.requests.snapshot() - before).get <= 2


def test_explain_says_what_happens(table: Table) -> None:
    before = table._session.store.requests.snapshot()
    scan = table.scan(["name"], "id >= 900 and id < 950")
    text = scan.explain()
    assert [line for line in repr(scan).splitlines() if line not in text.splitlines()] == [
        line for line in repr(scan).splitlines() if "fetch:" in line
    ]
    assert "columns: name, and id for the filter (2 of 5 read)" in text
    assert scan.snapshot.id[:12] in text
    assert "pruned" in text
    assert "id" in text
    assert f"{len(scan.plan.chunks)} of {len(table.head().chunks)} kept" in text
    assert (table._session.store.requests.snapshot() - before).get <= 1 + len(table.history())
    assert "filter:  (none)" in table.scan().explain()


def test_damage_is_reported_by_name() -> None:
    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t", SCHEMA)
    table.append(DATA)
    (name,) = (name for name in objects(catalog) if name.startswith("data/"))
    data = bytearray(catalog.store.get(name))
    data[len(data) // 3] ^= 1
    catalog.store.put(name, bytes(data))
    with pytest.raises(Corrupt, match=name):
        another(catalog).read("t")
    with pytest.raises(Corrupt, match=name):
        for _ in another(catalog).table("t").scan().to_reader():
            pass
    catalog.store.delete([name])
    with pytest.raises(Corrupt, match=name):
        another(catalog).read("t")
    assert another(catalog).table("t").scan().count() == 1000  # needs no data


VIEWS: dict[str, pa.DataType] = {
    "string view": pa.string_view(),
    "run ends": pa.run_end_encoded(pa.int32(), pa.string()),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "large string": pa.large_string(),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("partitioned", [False, True])
def test_text_in_every_encoding_is_filtered_and_pruned(name: str, partitioned: bool) -> None:
    texts = ["a", "b", None, "c", "b", "d"]
    data = pa.table({"s": cast_lossless(pa.array(texts), VIEWS[name]), "n": range(6)})
    catalog = lake(chunk_rows=2)
    table = catalog.create_table("t", data.schema, partition_by=["s"] if partitioned else [])
    table.append(data)
    for form in ("s = 'b'", [("s", "=", "b")], pc.field("s") == "b"):
        assert sorted(table.read(["n"], form)["n"].to_pylist()) == [1, 4]
        assert table.scan(filter=form).count() == 2
        assert table.scan(filter=form).to_table().schema == data.schema
    assert table.read(["n"], "n > 4")["n"].to_pylist() == [5]
    assert table.scan(filter="s = 'd'").plan.pruned >= 2
    assert rows(table.read(["n"], "s is null")) == [{"n": 2}]
    if partitioned:
        table.overwrite(data.slice(1, 1), where="s = 'b'")
        assert table.scan(filter="s = 'b'").count() == 1


def test_text_from_polars_is_filtered() -> None:
    catalog = lake()
    catalog.commit("t", pl.DataFrame({"s": ["x", "y", None], "n": [1, 2, 3]}))
    assert rows(catalog.read("t", ["n"], "s = 'y'")) == [{"n": 2}]
    assert rows(catalog.read("t", ["n"], pc.field("s").isin(["x"]))) == [{"n": 1}]


@pytest.mark.parametrize(
    ("filter", "count"), [("1 = 1", 2), ("1 = 2", 0), (pc.scalar(True), 2), (pc.scalar(False), 0)]
)
def test_filters_that_look_at_no_column(filter: Any, count: int) -> None:
    catalog = lake()
    catalog.commit("t", {"a": [1, 2]})
    assert catalog.table("t").scan(filter=filter).count() == count
    assert catalog.read("t", filter=filter).num_rows == count


def test_a_filter_on_what_has_no_order() -> None:
    catalog = lake()
    catalog.commit("t", {"x": [[1], [2]], "s": [{"a": 1}, {"a": 2}]})
    assert catalog.table("t").scan(filter="x is null").count() == 0
    with pytest.raises(InvalidFilter, match="x"):
        catalog.read("t", filter="x = 1")


def test_readers_can_be_left_half_read() -> None:
    catalog = lake(inline_bytes=0, chunk_rows=100)
    catalog.commit("t", {"x": np.arange(10_000)})
    for _ in range(20):
        reader = catalog.table("t").scan().to_reader()
        assert reader.read_next_batch().num_rows == 100
        del reader


def test_planning_a_wide_table_looks_at_each_field_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake().create_table("t", pa.schema([(f"c{at}", pa.int8()) for at in range(1000)]))
    table.append({f"c{at}": pa.array([at % 100], pa.int8()) for at in range(1000)})
    plan = make_plan(table.head(), None, None)
    looked, original = [0], ColumnId.__hash__

    def counted(self: ColumnId) -> int:
        looked[0] += 1
        return original(self)

    monkeypatch.setattr(ColumnId, "__hash__", counted)
    (unit,) = units(plan)
    assert [field and field.name for _, field in unit.sources] == [f"c{at}" for at in range(1000)]
    assert 0 < looked[0] <= 10 * 1000


def test_names_of_segments_are_taken_from_the_log_once() -> None:
    class Names(np.ndarray):
        copies = 0

        def tobytes(self, order: Any = "C") -> bytes:
            Names.copies += 1
            return super().tobytes(order)

    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t", SCHEMA)
    for at in range(20):
        table.append(DATA.slice(at, 1))
    head = table.head()
    log = head.log.with_(segment_name=head.log.segment_name.view(Names))
    plan = make_plan(Head("t", log, head.settings), None, None)
    named = [plan.segment_file(unit.segment) for unit in units(plan) if unit.segment is not None]
    assert len(set(named)) == 20
    assert all(any(name.endswith(one) for name in objects(catalog)) for one in named)
    assert Names.copies == 1


@pytest.mark.parametrize(
    ("to", "library", "column"),
    [
        ("to_polars", "polars", pa.array([(1, 2, 3)], pa.month_day_nano_interval())),
        ("to_polars", "polars", pa.array([None], pa.decimal256(50, 2))),
        ("to_duckdb", "DuckDB", pa.array([None], pa.decimal256(50, 2))),
        ("to_pandas", "pandas", pa.array([5], pa.time64("ns"))),
    ],
)
def test_what_a_library_cannot_hold_is_said(
    tmp_path: Path, to: str, library: str, column: pa.Array, capfd: pytest.CaptureFixture[str]
) -> None:
    table = Catalog(tmp_path).create_table("t")
    table.append(pa.table({"v": column}))
    with pytest.raises(UnsupportedType, match=f"{library} cannot hold these values"):
        getattr(table.scan(), to)()
    capfd.readouterr()  # polars tells of its panic on standard error
