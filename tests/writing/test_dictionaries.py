"""Dictionary columns: index types round-trip, whatever is done to the rows, and never stand in the way."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.chunks.narrow import combinable, in_pieces, restored
from crdtcat.chunks.storage_types import from_storage, to_storage
from crdtcat.chunks.type_parts import roomy, without_encodings
from crdtcat.chunks.widen import INDEX_TYPES, index_capacity
from crdtcat.errors import LimitExceeded
from crdtcat.testing.strategies import arrow_arrays
from tests.bounds import bounded

_numbers = itertools.count()
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
VALUES = [
    pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.int8(), pa.uint64(),
    pa.float16(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("ns"),
    pa.decimal128(9, 2), pa.time64("us"), pa.duration("ms"), pa.binary(3), pa.struct([("a", pa.int8())]),
    pa.list_(pa.string()),
]  # fmt: skip
NARROW = pa.dictionary(pa.int8(), pa.string())


def lake(**options: Any) -> Catalog:
    return Catalog(f"memory://dictionaries-{next(_numbers)}", upkeep=False, **options)


def words(start: int, stop: int, t: pa.DataType = NARROW) -> pa.ChunkedArray:
    """Different words in a dictionary column; so many arrays that its indices can number each one's."""
    return restored([pa.array([f"w{n:04}" for n in range(start, stop)])], t, "c")


def same_rows(read: pa.ChunkedArray, wanted: pa.ChunkedArray) -> bool:
    a, b = to_storage(read), to_storage(wanted)
    return bool(a.equals(b) or repr(a.to_pylist()) == repr(b.to_pylist()))


@pytest.mark.parametrize("index", INDEX_TYPES, ids=str)
@given(data=st.data())
@settings(parent=relaxed, max_examples=bounded(160, 8))
def test_every_index_type_and_value_type_round_trips(index: pa.DataType, data: st.DataObject) -> None:
    t = pa.dictionary(index, data.draw(st.sampled_from(VALUES)))
    kind = data.draw(st.sampled_from([t, pa.list_(t), pa.struct([("d", t)]), pa.map_(pa.string(), t)]))
    rows = data.draw(arrow_arrays(kind))
    options = data.draw(st.sampled_from([{}, {"inline_bytes": 0, "chunk_rows": 2}]))
    catalog = lake(**options)
    catalog.commit("t", pa.table({"c": rows}))
    table = catalog.table("t")
    assert table.schema.field("c").type == kind
    for read in (table.read(), table.scan().to_reader().read_all()):
        assert read.schema.field("c").type == kind
        assert same_rows(read["c"], pa.chunked_array([rows]))


def appended(table: Table) -> None:
    for at in range(3):
        table.append(
            pa.table({"n": list(range(at * 100, at * 100 + 100)), "c": words(at * 100, at * 100 + 100)})
        )


def filled(**options: Any) -> Table:
    """300 rows with as many different words, in a column whose indices number 128."""
    table = lake(**options).create_table("t", pa.schema([("n", pa.int64()), ("c", NARROW)]))
    appended(table)
    return table


@pytest.mark.parametrize("options", [{}, {"inline_bytes": 0}], ids=str)
def test_more_values_than_indices_can_number(options: dict[str, Any]) -> None:
    table = filled(**options)
    table.compact()
    wanted = [f"w{n:04}" for n in range(300)]
    assert table.schema.field("c").type == NARROW
    streamed = table.scan(["c"]).to_reader().read_all()
    assert streamed.schema.field("c").type == NARROW
    assert streamed["c"].to_pylist() == wanted
    read = table.read(["c"])
    assert read.schema.field("c").type == pa.dictionary(pa.int16(), pa.string())
    assert read.combine_chunks()["c"].to_pylist() == wanted
    assert read.take([299, 0])["c"].to_pylist() == ["w0299", "w0000"]
    assert table.read(["c"], "n < 100").schema.field("c").type == NARROW
    assert list(table.scan(["c"]).to_pandas()["c"]) == wanted
    assert table.scan(["c"]).to_polars()["c"].to_list() == wanted
    assert table.scan(["c"]).to_duckdb().fetchall() == [(word,) for word in wanted]


def test_updates_overlays_and_the_change_feed() -> None:
    table = filled()
    before = table.head().snapshot
    table.update("n < 200", {"c": lambda rows: pa.array([f"new{n}" for n in rows["n"].to_pylist()])})
    table.delete("n >= 250")
    wanted = [f"new{n}" if n < 200 else f"w{n:04}" for n in range(250)]
    for _ in range(2):
        assert table.scan(["c"]).to_reader().read_all()["c"].to_pylist() == wanted
        table.compact()
    feed = table.changes(before)
    assert feed.to_reader().schema.field("c").type == NARROW
    assert feed.to_table().combine_chunks().num_rows == 2 * 200 + 50


def test_rows_of_every_form_go_in_whatever_their_number() -> None:
    table = filled()
    many = [f"m{n}" for n in range(500)]
    table.append([{"n": 0, "c": word} for word in many])
    table.append({"n": [0] * 500, "c": many})
    table.append([pa.table({"n": [0], "c": ["x"]}), pa.table({"n": [0] * 500, "c": many})])
    table.append(pa.table({"n": [0] * 500, "c": pa.array(many).dictionary_encode()}))
    table.append(pd.DataFrame({"n": [0] * 500, "c": pd.Categorical(many)}))
    table.append(pl.DataFrame({"n": [0] * 500, "c": pl.Series(many, dtype=pl.Categorical)}))
    assert table.schema.field("c").type == NARROW
    assert table.scan(filter="n = 0 and c <> 'w0000'").count() == 6 * 500 + 1
    table.write(pa.table({"n": list(range(500)), "c": many}))
    assert table.scan(["c"]).to_reader().read_all()["c"].to_pylist() == many


def test_keyed_tables_and_partitions() -> None:
    schema = pa.schema([("k", NARROW), ("c", NARROW)])
    layouts: list[dict[str, Any]]
    layouts = [{"key": ["k"]}, {"partition_by": ["bucket(3, k)"]}, {"partition_by": ["truncate(3, k)"]}]
    for options in layouts:
        table = lake(inline_bytes=0).create_table("t", schema, **options)
        for at in range(3):
            rows = pa.table({"k": words(at * 100, at * 100 + 150), "c": words(at * 100, at * 100 + 150)})
            (table.upsert if table.key else table.append)(rows)
        other = pa.table({"k": words(0, 9, pa.dictionary(pa.uint16(), pa.string())), "c": ["z"] * 9})
        (table.upsert if table.key else table.append)(other)
        table.compact()
        count = 350 if table.key else 459
        assert table.scan().to_reader().read_all().num_rows == count
        assert table.scan(filter="k = 'w0005'").count() == (1 if table.key else 2)
        assert table.scan(filter="k = 'w0005' and c = 'z'").count() == 1


def test_widths_that_meet_are_no_conflict() -> None:
    catalog = lake()
    table = catalog.create_table("declared", pa.schema([("n", pa.int64())]))
    others = [Catalog(catalog.url, upkeep=False).table("declared") for _ in range(3)]
    for other, index in zip(others, (pa.int8(), pa.uint16(), pa.int16()), strict=True):
        other.append(pa.table({"n": [1], "c": words(0, 1, pa.dictionary(index, pa.string()))}), evolve=True)
    assert table.schema.field("c").type == pa.dictionary(pa.uint16(), pa.string())
    assert table.read(["c"])["c"].to_pylist() == ["w0000"] * 3
    assert table.conflicts() == ()
    for index in (pa.uint8(), pa.int64(), pa.int8()):  # blind: nobody declared anything
        rows = pa.table({"c": words(0, 2, pa.dictionary(index, pa.string()))})
        Catalog(catalog.url, upkeep=False).commit("blind", rows)
    assert catalog.table("blind").schema.field("c").type == pa.dictionary(pa.int64(), pa.string())
    assert catalog.table("blind").conflicts() == ()


def test_indices_can_be_widened_and_narrowed_by_definition() -> None:
    table = filled()
    table.widen_column("c", pa.dictionary(pa.uint32(), pa.string()))
    assert table.read().schema.field("c").type == pa.dictionary(pa.uint32(), pa.string())
    table.widen_column("c", NARROW)
    assert table.scan().to_reader().schema.field("c").type == NARROW


def test_equal_rows_hash_equally_whatever_the_indices() -> None:
    roots = set()
    for index in INDEX_TYPES:
        catalog = lake()
        catalog.commit("t", pa.table({"c": words(0, 20, pa.dictionary(index, pa.string()))}))
        roots.add(catalog.table("t").head().chunks[0].hash)
    assert len(roots) == 1


@pytest.mark.parametrize(
    "t", [NARROW, pa.list_(NARROW), pa.struct([("a", pa.struct([("b", NARROW)]))])], ids=str
)
def test_too_many_values_become_several_arrays(t: pa.DataType) -> None:
    stored = to_storage(from_storage_of(t, 1000))
    pieces = restored([stored], t, "c")
    assert pieces.type == t
    assert pieces.num_chunks >= 1000 // index_capacity(pa.int8())
    assert to_storage(pieces).equals(stored)
    whole = combinable(pa.table({"c": pieces}))
    assert without_encodings(whole.schema.field("c").type) == without_encodings(t)
    assert to_storage(whole.combine_chunks()["c"]).equals(stored)


def from_storage_of(t: pa.DataType, rows: int) -> pa.Array:
    values = pa.array([f"w{n}" for n in range(rows)])
    if pa.types.is_list(t):
        stored = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), values)
        return from_storage(stored.cast(to_storage(pa.nulls(0, t)).type), roomy(t))
    if pa.types.is_struct(t):
        inner = pa.StructArray.from_arrays([values], ["b"])
        return from_storage(pa.StructArray.from_arrays([inner], ["a"]), roomy(t))
    return from_storage(values, roomy(t))


def test_runs_with_short_ends() -> None:
    t = pa.run_end_encoded(pa.int16(), pa.int64())
    table = lake().create_table("t", pa.schema([("c", t)]))
    table.append(pa.table({"c": list(range(100_000))}))
    streamed = table.scan().to_reader().read_all()
    assert streamed.schema.field("c").type == t
    assert to_storage(streamed["c"]).to_pylist() == list(range(100_000))


def test_one_row_with_too_many_values_says_what_it_is() -> None:
    stored = pa.array([["a"], [f"w{n}" for n in range(200)]], pa.list_(pa.field("element", pa.string())))
    with pytest.raises(LimitExceeded, match=r"column c.*200 distinct values.*int8"):
        restored([stored], pa.list_(NARROW), "c")
    assert len(in_pieces(pa.array([1, 2, 3]), lambda part: part)) == 1
