"""Dictionary columns: index types and orders round-trip, whatever is done to the rows, and hinder nobody."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.chunks.entry_order import merged, order_of_all, ordered_type, take_orders
from crdtcat.chunks.narrow import combinable, in_pieces, restored
from crdtcat.chunks.storage_types import from_storage, to_storage
from crdtcat.chunks.type_codes import PLAIN, keeps_order
from crdtcat.chunks.type_parts import roomy, without_encodings
from crdtcat.chunks.widen import INDEX_TYPES, index_capacity, widen
from crdtcat.errors import LimitExceeded, SchemaMismatch, UnsupportedFormat, UnsupportedType
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
@settings(parent=relaxed, max_examples=bounded(160, 16))
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


# Ordered dictionaries ---------------------------------------------------------------------------------------

SIZES = pd.CategoricalDtype(["low", "middle", "high", "never"], ordered=True)


def orders_of(column: pa.ChunkedArray) -> dict[str, list[Any]]:
    orders: dict[str, list[Any]] = {}
    take_orders(orders, pa.table({"c": column}))
    return orders


def sizes(values: Sequence[str | None], dtype: pd.CategoricalDtype = SIZES) -> pd.DataFrame:
    return pd.DataFrame({"c": pd.Categorical(values, dtype=dtype)})


@pytest.mark.parametrize("options", [{}, {"inline_bytes": 0, "chunk_rows": 2}], ids=str)
def test_ordered_categories_come_back_in_their_order(options: dict[str, Any]) -> None:
    catalog = lake(max_commit_delay_seconds=0.1, **options)
    frame = sizes(["high", None, "low", "high", "middle"])
    catalog.commit("t", frame)
    table = catalog.table("t")
    for _ in range(2):
        pd.testing.assert_frame_equal(table.scan().to_pandas(), frame)
        pd.testing.assert_frame_equal(table.scan().to_reader().read_pandas(), frame)
        shown = table.scan().to_polars()["c"]
        assert shown.to_list() == ["high", None, "low", "high", "middle"]
        assert shown.dtype == pl.Enum(list(SIZES.categories))
        assert shown.sort().to_list() == [None, "low", "middle", "high", "high"]
        table.compact()
    again = Catalog(catalog.url, upkeep=False).table("t")
    again.head()
    again.append([{"c": "low"}])  # says nothing of the order
    again.append(sizes(["never"]))
    again.update("c = 'middle'", {"c": "never"})
    table.compact()
    wanted = pd.Categorical(["high", None, "low", "high", "never", "low", "never"], dtype=SIZES)
    pd.testing.assert_frame_equal(table.scan().to_pandas(), pd.DataFrame({"c": wanted}))
    assert (table.scan().to_pandas()["c"] < "high").sum() == 2
    assert table.scan(filter="c = 'never'").count() == 2
    table.checkpoint()
    table.expire(keep_last=1)
    table = Catalog(catalog.url).table("t")
    pd.testing.assert_frame_equal(table.scan().to_pandas(), pd.DataFrame({"c": wanted}))


@pytest.mark.parametrize("key", [[], ["n"]], ids=["rows", "keyed"])
def test_rows_that_have_no_order_say_nothing_of_it(key: list[str]) -> None:
    """Python values, plain texts, constants, rows that only pass through: none of them states an order."""
    schema = pa.schema([("n", pa.int64()), ("c", pa.dictionary(pa.int8(), pa.string(), ordered=True))])
    table = lake().create_table("t", schema, key=key)
    table.append([{"n": 1, "c": "high"}, {"n": 2, "c": "low"}])
    table.append(pa.table({"n": [3, 4], "c": ["middle", "high"]}))
    table.append(sizes(["high", "low"]).assign(n=[5, 6]))
    table.append([[{"n": 7, "c": "never"}, {"n": 8, "c": "low"}]])
    table.update("n = 1", {"c": "never"})
    table.update("n = 2", {"c": "low"})
    table.write(pa.table({"n": list(range(2, 10)), "c": ["never", *(["high", "low"] * 3), "middle"]}))
    table.compact()
    assert table.conflicts() == ()
    assert table.scan().to_pandas()["c"].dtype == SIZES
    table.write(
        sizes(["first", "low"], pd.CategoricalDtype(["first", *SIZES.categories], ordered=True)).assign(
            n=[1, 2]
        )
    )
    assert list(table.scan().to_pandas()["c"].cat.categories) == ["first", *SIZES.categories]
    assert table.conflicts() == ()


def test_orders_are_merged_and_those_that_contradict_each_other_end() -> None:
    catalog = lake()
    first = pd.CategoricalDtype(["low", "high"], ordered=True)
    catalog.commit("t", sizes(["high", "low"], first))
    Catalog(catalog.url).commit("t", sizes(["middle"], SIZES))
    assert catalog.table("t").scan().to_pandas()["c"].dtype == SIZES
    assert catalog.table("t").conflicts() == ()
    backward = pd.CategoricalDtype(["high", "low"], ordered=True)
    Catalog(catalog.url).commit("t", sizes(["low"], backward))
    read = catalog.read("t")
    assert not read.schema.field("c").type.ordered
    assert read["c"].to_pylist() == ["high", "low", "middle", "low"]
    (listed,) = catalog.table("t").conflicts()
    assert listed.kind == "column"
    assert listed.loser == catalog.table("t").history()[-1].id
    with pytest.raises(SchemaMismatch, match="order their entries differently"):
        catalog.commit("u", [sizes(["low"], first), sizes(["low"], backward)])
    many = pd.CategoricalDtype([f"{n:010}" for n in range(9000)], ordered=True)
    with pytest.raises(LimitExceeded, match="make the dictionary unordered"):
        catalog.commit("v", sizes(["0000000001"], many))


def test_ordered_entries_outgrow_their_indices() -> None:
    catalog = lake()
    names = [f"n{n:03}" for n in range(300)]
    catalog.commit("t", sizes(names[:100], pd.CategoricalDtype(names[:100], ordered=True)))
    Catalog(catalog.url).commit("t", sizes(names[::-1], pd.CategoricalDtype(names, ordered=True)))
    table = catalog.table("t")
    assert table.schema.field("c").type.index_type == pa.int16()
    assert list(table.scan().to_pandas()["c"].cat.categories) == names
    assert table.read().combine_chunks()["c"].to_pylist() == names[:100] + names[::-1]


LOST = [
    *(pa.dictionary(pa.int8(), kind, ordered=True) for kind in VALUES[-2:]),
    pa.dictionary(pa.int8(), pa.decimal128(9, 2), ordered=True),
    pa.dictionary(pa.int8(), pa.float16(), ordered=True),
    pa.list_(pa.dictionary(pa.int8(), pa.string(), ordered=True)),
    pa.struct([("s", pa.list_(pa.dictionary(pa.int8(), pa.string(), ordered=True)))]),
    pa.map_(pa.string(), pa.dictionary(pa.int8(), pa.string(), ordered=True)),
]


@pytest.mark.parametrize("t", LOST, ids=str)
def test_an_order_that_cannot_be_kept_is_refused_by_name(t: pa.DataType) -> None:
    """Never dropped in silence; what the message proposes is taken."""
    catalog = lake()
    with pytest.raises(UnsupportedType, match=r"column c.* is an ordered dictionary .*cast it to"):
        catalog.commit("t", pa.table({"c": pa.nulls(2, t)}))
    with pytest.raises(UnsupportedType, match="column c"):
        catalog.create_table("u", pa.schema([("c", t)]))
    table = catalog.create_table("v", pa.schema([("a", pa.int64())]))
    with pytest.raises(UnsupportedType, match="column c"):
        table.append(pa.table({"a": [1], "c": pa.nulls(1, t)}), evolve=True)
    with pytest.raises(UnsupportedType, match="column c"):
        table.add_column("c", t)
    table.add_column("c", roomy(t))  # unordered
    table.append(pa.table({"a": [1], "c": pa.nulls(1, t)}))
    assert table.schema.field("c").type == roomy(t)
    assert list(catalog.tables()) == ["v"]


def test_types_with_an_order_meet_in_types_with_one() -> None:
    """So no head ever has a column whose type could not be written down."""
    times = [pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.duration("s"), pa.binary(3)]
    every = [pa.dictionary(pa.int8(), kind, ordered=True) for kind in [*PLAIN.values(), *times]]
    kept = [t for t in every if keeps_order(t)]
    met = [widen(a, b) for a, b in itertools.combinations(kept, 2)]
    assert sum(t is not None for t in met) > 20
    assert all(keeps_order(t) for t in met if t is not None)


@given(data=st.data())
@settings(parent=relaxed, max_examples=bounded(200, 8))
def test_orders_of_every_kind_of_value_round_trip(data: st.DataObject) -> None:
    kinds = [kind for kind in VALUES if keeps_order(pa.dictionary(pa.int8(), kind, ordered=True))]
    assert len(kinds) >= 12
    t = pa.dictionary(
        data.draw(st.sampled_from(INDEX_TYPES)), data.draw(st.sampled_from(kinds)), ordered=True
    )
    rows = data.draw(arrow_arrays(t))
    catalog = lake()
    catalog.commit("t", pa.table({"c": rows}))
    read = catalog.read("t")["c"]
    assert read.type == t
    assert same_rows(read, pa.chunked_array([rows]))
    if len(rows):  # no rows bring no batch, and so say nothing
        assert orders_of(read) == orders_of(pa.chunked_array([rows]))


@given(st.lists(st.sampled_from("abcdefg"), unique=True), st.lists(st.sampled_from("abcdefg"), unique=True))
def test_merged_orders_hold_both_or_there_is_none(first: list[str], second: list[str]) -> None:
    both = merged(first, second)
    common = [entry for entry in first if entry in second]
    assert (both is None) == (common != [entry for entry in second if entry in first])
    if both is not None:
        assert [entry for entry in both if entry in first] == first
        assert [entry for entry in both if entry in second] == second
        assert merged(both, first) == merged(both, second) == both


@given(st.lists(st.lists(st.integers(0, 5), unique=True, max_size=4), max_size=4))
def test_all_orders_are_kept_up_to_the_first_that_contradicts(orders: list[list[int]]) -> None:
    t = pa.dictionary(pa.int8(), pa.int64(), ordered=True)
    found, contradicting = order_of_all(t, [["dictionary", "int64", "int8", each] for each in orders])
    kept = orders[:contradicting]
    assert sorted(found) == sorted({entry for each in kept for entry in each})
    for each in kept:
        assert [entry for entry in found if entry in each] == each
    if contradicting is not None:
        assert merged(found, orders[contradicting]) is None


def test_an_order_that_nobody_said_is_that_of_versions() -> None:
    """Of two entries that no version has both of; a later one that says otherwise contradicts it."""
    catalog = lake()
    for entry in ("low", "high"):
        catalog.commit("t", sizes([entry], pd.CategoricalDtype([entry], ordered=True)))
    assert list(catalog.read("t").to_pandas()["c"].cat.categories) == ["low", "high"]
    catalog.commit("t", sizes(["low"], pd.CategoricalDtype(["high", "low"], ordered=True)))
    assert not catalog.table("t").schema.field("c").type.ordered
    assert [listed.kind for listed in catalog.table("t").conflicts()] == ["column"]


@pytest.mark.parametrize("entries", [["a"], [[1]], [1, 1], [None], [2**70], [{}], [1.5]], ids=str)
def test_entries_that_are_none_are_refused(entries: list[Any]) -> None:
    t = pa.dictionary(pa.int8(), pa.int64(), ordered=True)
    with pytest.raises(UnsupportedFormat, match="upgrade"):
        ordered_type(t, [["dictionary", "int64", "int8", entries]])


def test_parts_of_one_commit_bring_their_orders_together() -> None:
    catalog = lake()
    with catalog.create_table(
        "t", pa.schema([("c", pa.dictionary(pa.int8(), pa.string(), ordered=True))])
    ).stream() as s:
        s.write(sizes(["low"], pd.CategoricalDtype(["low", "high"], ordered=True)))
        s.write(sizes(["middle"]))
    assert list(catalog.table("t").scan().to_pandas()["c"].cat.categories) == list(SIZES.categories)


def test_a_polars_enum_comes_back_as_one() -> None:
    catalog = lake()
    frame = pl.DataFrame({"c": pl.Series(["hi", None, "lo"], dtype=pl.Enum(["lo", "mid", "hi"]))})
    catalog.commit("t", frame)
    assert catalog.table("t").scan().to_polars().equals(frame)
    assert catalog.table("t").scan().to_polars().schema == frame.schema
    assert catalog.table("t").scan(filter="c = 'no'").to_polars().schema == frame.schema
