"""Keyed tables as users meet them: create, upsert, delete, read, wrong input."""

from __future__ import annotations

import datetime as dt
import pickle
import secrets
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table, check_proof
from crdtcat.errors import InvalidArgument, SchemaMismatch, UserError

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("score", pa.float64())])


def lake(folder: Path, **options: Any) -> Catalog:
    return Catalog(folder, **{"upkeep": False, **options})


def people(catalog: Catalog, **settings: Any) -> Table:
    return catalog.create_table("people", SCHEMA, key=["id"], **settings)


def test_one_row_for_each_key_in_the_order_of_keys(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    table.upsert([{"id": 3, "name": "c"}, {"id": 1, "name": "a"}, {"id": 3, "name": "C"}])
    table.upsert([{"id": 2, "name": "b"}, {"id": 1, "name": "A"}])
    assert table.read(["id", "name"]).to_pydict() == {"id": [1, 2, 3], "name": ["A", "b", "C"]}
    assert [version.operation for version in table.history()] == ["upsert", "upsert"]
    assert table.key == ("id",)


def test_columns_that_the_data_lacks_stay_as_they_are_and_null_is_a_value(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    table.upsert([{"id": 1, "name": "a", "score": 1.0}])
    table.upsert([{"id": 1, "score": 2.0}])
    assert table.read().to_pylist() == [{"id": 1, "name": "a", "score": 2.0}]
    table.upsert([{"id": 1, "name": None}])
    assert table.read().to_pylist() == [{"id": 1, "name": None, "score": 2.0}]


def test_append_commit_and_streams_upsert_too(tmp_path: Path) -> None:
    catalog = lake(tmp_path, segment_bytes=2**20, inline_bytes=0)
    table = people(catalog)
    catalog.commit("people", [{"id": 1, "name": "a"}])
    with table.stream() as stream:
        for start in (60_000, 0, 30_000):
            stream.write(pa.table({"id": range(start, start + 60_000), "score": [float(start)] * 60_000}))
    assert table.append([{"id": 0, "name": "zero"}]).operation == "upsert"
    found = table.read()
    assert found["id"].to_pylist() == list(range(120_000))
    assert found["score"].to_pylist() == [0.0] * 30_000 + [30_000.0] * 60_000 + [60_000.0] * 30_000
    assert found.slice(0, 2).to_pylist() == [
        {"id": 0, "name": "zero", "score": 0.0},
        {"id": 1, "name": "a", "score": 0.0},
    ]


def test_concurrent_inserts_of_one_key_leave_one_row(tmp_path: Path) -> None:
    people(lake(tmp_path))
    for writer in range(8):
        lake(tmp_path).table("people").upsert([{"id": 1, "name": f"writer {writer}"}])
    table = lake(tmp_path).table("people")
    assert table.read(["id", "name"]).to_pylist() == [{"id": 1, "name": "writer 7"}]
    assert table.scan().count() == 1


def test_delete_by_key_and_by_filter(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    table.upsert([{"id": at, "name": str(at), "score": at / 2} for at in range(10)])
    table.delete(keys=[1, 2, 99])
    assert table.delete("score > 3 and id < 9").operation == "delete"
    assert table.read(["id"])["id"].to_pylist() == [0, 3, 4, 5, 6, 9]
    table.upsert([{"id": 2, "score": 1.5}])
    assert table.read(filter="id = 2").to_pylist() == [{"id": 2, "name": None, "score": 1.5}]
    before = table.head().snapshot
    table.delete("true")
    assert table.read().num_rows == table.scan().count() == 0
    assert table.read(["id"], at=before).num_rows == 7


@pytest.mark.parametrize(
    "keys",
    [
        [1, 2],
        [(1,), (2,)],
        (1, 2),
        {1, 2},
        range(1, 3),
        pa.array([1, 2]),
        [{"id": 1}, {"id": 2}],
        {"id": [1, 2]},
        pa.table({"id": [1, 2], "name": ["ignored", "too"]}),
    ],
)
def test_forms_of_keys(tmp_path: Path, keys: Any) -> None:
    table = people(lake(tmp_path))
    table.upsert([{"id": at} for at in range(4)])
    assert table.delete(keys=keys).rows == 2
    assert table.read(["id"])["id"].to_pylist() == [0, 3]


def test_keys_of_several_columns(tmp_path: Path) -> None:
    schema = pa.schema([("region", pa.string()), ("n", pa.int32()), ("v", pa.int64())])
    table = lake(tmp_path, inline_bytes=0, chunk_rows=2).create_table("t", schema, key=["region", "n"])
    table.upsert([{"region": r, "n": n, "v": 1} for r in ("eu", "us", "e") for n in (3, -1, 2)])
    table.delete(keys=[("eu", 2), ("us", 5)])
    table.upsert([{"region": "eu", "n": 3, "v": 2}])
    assert [tuple(row.values()) for row in table.read().to_pylist()] == [
        ("e", -1, 1),
        ("e", 2, 1),
        ("e", 3, 1),
        ("eu", -1, 1),
        ("eu", 3, 2),
        ("us", -1, 1),
        ("us", 2, 1),
        ("us", 3, 1),
    ]
    assert table.read(filter="region = 'eu' and n > 0").num_rows == 1


def test_partitions_are_of_key_columns(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    schema = pa.schema([("day", pa.date32()), ("id", pa.int64()), ("v", pa.int64())])
    table = catalog.create_table("t", schema, key=["id", "day"], partition_by=["day"])
    days = [dt.date(2026, 1, day) for day in (1, 2)]
    table.upsert([{"day": day, "id": at, "v": 1} for day in days for at in range(3)])
    table.overwrite([{"day": days[0], "id": 7, "v": 2}], where="day = '2026-01-01'")
    assert [(row["id"], row["day"].day) for row in table.read().to_pylist()] == [
        (0, 2),
        (1, 2),
        (2, 2),
        (7, 1),
    ]
    with pytest.raises(InvalidArgument, match=r"'v' is not in the key"):
        catalog.create_table("u", schema, key=["id"], partition_by=["v"])


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [False, True]),
    "int8": (pa.int8(), [-5, 0, 7]),
    "uint64": (pa.uint64(), [0, 2**63, 2**64 - 1]),
    "decimal": (pa.decimal128(30, 4), [Decimal("-10.5"), Decimal("0.0001"), Decimal(10) ** 20]),
    "date": (pa.date32(), [dt.date(1969, 1, 1), dt.date(2026, 1, 1)]),
    "time": (pa.time64("us"), [dt.time(1), dt.time(2)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(y, 1, 1, tzinfo=dt.UTC) for y in (1960, 2026)],
    ),
    "duration": (pa.duration("s"), [dt.timedelta(seconds=s) for s in (-1, 5)]),
    "string": (pa.string(), ["", "a", "a\0", "a\0b", "ab", "x" * 100, "x" * 100 + "y", "é"]),
    "large_string": (pa.large_string(), ["a", "b"]),
    "string_view": (pa.string_view(), ["a", "b"]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\xff", b"\xff" * 80]),
    "fixed": (pa.binary(2), [b"aa", b"ab"]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    "uuid": (pa.uuid(), [b"\0" * 16, b"\x7f" * 16]),
}


@pytest.mark.parametrize("name", TYPES)
def test_every_type_that_has_an_order_can_be_a_key(tmp_path: Path, name: str) -> None:
    type, values = TYPES[name]
    schema = pa.schema([("k", type), ("v", pa.int64())])
    table = lake(tmp_path, inline_bytes=0, chunk_rows=1).create_table("t", schema, key=["k"])
    expected = table_of(type, values, 1)
    table.upsert(table_of(type, values[::-1], 0))
    table.upsert(table_of(type, values, 1))
    assert table.read().to_pylist() == expected.to_pylist()
    assert table.scan().count() == len(values)
    table.delete(keys=expected.slice(0, 1))
    assert table.read().to_pylist() == expected.slice(1).to_pylist()


def table_of(type: pa.DataType, values: list[Any], v: int) -> pa.Table:
    storage = pa.array(values, pa.binary(16)) if type == pa.uuid() else pa.array(values, type)
    array = storage.cast(type) if storage.type != type else storage
    return pa.table({"k": array, "v": pa.array([v] * len(values), pa.int64())})


def test_values_of_every_kind_are_merged(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("k", pa.int64()),
            ("words", pa.list_(pa.string())),
            ("point", pa.struct([("x", pa.int32()), ("y", pa.float32())])),
            ("map", pa.map_(pa.string(), pa.int64())),
            ("kind", pa.dictionary(pa.int32(), pa.string())),
            ("view", pa.string_view()),
            ("runs", pa.run_end_encoded(pa.int32(), pa.int64())),
            ("id", pa.uuid()),
        ]
    )
    table = lake(tmp_path).create_table("t", schema, key=["k"])
    old = {
        "words": ["a"],
        "point": {"x": 1, "y": 2.0},
        "map": [("m", 1)],
        "kind": "red",
        "view": "v",
        "runs": 5,
    }
    table.upsert(
        pa.Table.from_pylist([{"k": at, **old} for at in range(3)], schema=without(schema, "runs", "id"))
    )
    new = {"words": None, "point": {"x": None, "y": 9.0}, "kind": "blue"}
    table.upsert(
        pa.Table.from_pylist([{"k": 1, **new}], schema=pa.schema([schema.field(n) for n in ("k", *new)]))
    )
    found = table.read(["k", "words", "point", "map", "kind", "view"]).to_pylist()
    kept = {name: value for name, value in old.items() if name != "runs"}
    assert found == [{"k": 0, **kept}, {"k": 1, **kept, **new}, {"k": 2, **kept}]
    assert table.read().schema.field("runs").type == schema.field("runs").type
    assert table.read(["runs"])["runs"].to_pylist() == [None] * 3


def without(schema: pa.Schema, *names: str) -> pa.Schema:
    return pa.schema([item for item in schema if item.name not in names])


def test_an_overwrite_takes_what_it_saw(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    table.upsert([{"id": 1, "name": "a", "score": 1.0}, {"id": 2, "name": "b"}])
    table.overwrite([{"id": 1, "name": "new"}])
    assert table.read().to_pylist() == [{"id": 1, "name": "new", "score": None}]


@pytest.mark.parametrize("deleting", [False, True])
def test_restore_brings_back_rows_and_deletes(tmp_path: Path, deleting: bool) -> None:
    table = people(lake(tmp_path))
    table.upsert([{"id": at, "name": "old", "score": 0.0} for at in range(5)])
    table.upsert([{"id": 3, "name": "new"}])
    if deleting:
        table.delete(keys=[1])
    then, rows = table.head().snapshot, table.read().to_pylist()
    table.upsert([{"id": 1, "name": "later"}, {"id": 9}])
    table.delete(keys=[3])
    table.restore(then)
    assert table.read().to_pylist() == rows
    table.upsert([{"id": 3, "score": 7.0}])
    assert table.read(filter="id = 3").to_pylist() == [{"id": 3, "name": "new", "score": 7.0}]


def test_a_key_column_is_fixed(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    with pytest.raises(InvalidArgument, match="in the key"):
        table.drop_column("id")
    with pytest.raises(InvalidArgument, match="in the key"):
        table.rename_column("id", "key")
    with pytest.raises(InvalidArgument, match="in the key"):
        table.widen_column("id", pa.decimal128(38, 0))
    assert not table.schema.field("id").nullable


def test_columns_change_under_a_keyed_table(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    table.upsert([{"id": 1, "name": "a", "score": 1.0}, {"id": 2, "name": "b", "score": 2.0}])
    table.rename_column("name", "title")
    table.add_column("extra", pa.int32())
    table.upsert([{"id": 1, "extra": 5}, {"id": 3, "extra": 6}])
    table.widen_column("extra", pa.int64())
    table.upsert([{"id": 1, "extra": 2**40}])
    table.drop_column("score")
    assert table.read().to_pylist() == [
        {"id": 1, "title": "a", "extra": 2**40},
        {"id": 2, "title": "b", "extra": None},
        {"id": 3, "title": None, "extra": 6},
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key": "id"}, "pass a list"),
        ({"key": ["nope"]}, "'nope' is not a column"),
        ({"key": ["id", "id"]}, "twice"),
        ({"key": ["score"]}, "no order"),
        ({"key": 5}, "pass a list"),
    ],
)
def test_wrong_keys_create_nothing(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    catalog = lake(tmp_path)
    with pytest.raises(InvalidArgument, match=message):
        catalog.create_table("people", SCHEMA, **settings)
    with pytest.raises(InvalidArgument, match="declare the columns"):
        catalog.create_table("people", key=["id"])
    assert catalog.tables() == []


def test_wrong_rows_and_keys_write_nothing(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    table, plain = people(catalog), catalog.create_table("plain", SCHEMA)
    for wrong in ([{"id": None}], [{"name": "no key"}], [{"id": "text"}], [{"id": 1, "unknown": 2}]):
        with pytest.raises(SchemaMismatch):
            table.upsert(wrong)
    for keys in ([None], ["text"], [{"name": "a"}], [(1, 2)], [1, (1, 2)], [()]):
        with pytest.raises(UserError):
            table.delete(keys=keys)
    with pytest.raises(InvalidArgument, match="delete what"):
        table.delete()
    with pytest.raises(InvalidArgument, match="delete what"):
        table.delete("id = 1", keys=[1])
    with pytest.raises(InvalidArgument, match="has none"):
        plain.upsert([{"id": 1}])
    with pytest.raises(InvalidArgument, match="has none"):
        plain.delete(keys=[1])
    assert len(table.history()) == len(plain.history()) == 0


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (pa.list_(pa.int64()), [9]),
        (pa.list_(pa.int64(), 2), [9, 8]),
        (pa.map_(pa.string(), pa.int64()), [("a", 1)]),
        (pa.struct([("x", pa.int64())]), {"x": 1}),
    ],
)
def test_constants_of_any_type_where_a_chunk_has_no_row_that_matches(
    type: pa.DataType, value: Any, tmp_path: Path
) -> None:
    table = lake(tmp_path).create_table("t", pa.schema([("k", pa.int64()), ("v", type)]), key=["k"])
    table.upsert([{"k": 1}, {"k": 3}])
    assert table.update("k = 2", {"v": value}).rows == 0
    table.upsert([{"k": 5}, {"k": 7}])
    assert table.update("k = 2 or k = 7", {"v": value}).rows == 1
    assert table.read()["v"].to_pylist() == [None, None, None, value]


def test_idempotency_keys_and_metadata(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    for _ in range(2):
        table.upsert([{"id": 1, "score": 1.0}], key="task 1", metadata={"from": "a"})
        table.upsert([{"id": 1, "score": 2.0}])
        table.delete(keys=[2], key="task 2")
        table.upsert([{"id": 2}])
    assert table.read(["id", "score"]).to_pylist() == [{"id": 1, "score": 2.0}, {"id": 2, "score": None}]
    assert table.head().version == 6
    assert table.history()[0].metadata == {"from": "a"}


def test_a_pickled_handle_knows_the_key(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    copy = pickle.loads(pickle.dumps(table))
    copy.upsert([{"id": 2}, {"id": 1}])
    assert table.read(["id"])["id"].to_pylist() == [1, 2]


def test_settings_of_tables_without_a_key_are_what_they_were(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    catalog.create_table("plain", SCHEMA)
    people(catalog)
    assert b'"key"' not in catalog.store.get("tables/plain/settings.json")
    assert b'"key":["id"]' in catalog.store.get("tables/people/settings.json")
    with pytest.raises(InvalidArgument, match="needs a table with a key"):
        catalog.table("plain").upsert([{"id": 1}])


def test_the_root_hash_covers_deletes_and_chunks_can_be_proven(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    table.upsert([{"id": at} for at in range(5)])
    table.upsert([{"id": at} for at in range(10, 15)])
    first = table.head()
    table.delete(keys=[3])
    second = table.head()
    assert first.root_hash != second.root_hash
    assert table.diff(first.snapshot, second.snapshot).runs
    for head in (first, second):
        assert head.root_hash == lake(tmp_path).table("people").head(head.snapshot).root_hash
        for chunk in head.chunks:
            assert check_proof(head.root_hash, chunk, table.proof(chunk, at=head.snapshot))


def test_cells_that_lost_unseen_are_listed_and_blind_ones_on_request(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    others = [lake(tmp_path).table("people") for _ in range(2)]
    for number, other in enumerate(others):
        other.upsert([{"id": 1, "name": f"writer {number}"}, {"id": 2 + number}])
    assert table.lost_cells() == []
    assert [(cell.key, cell.column) for cell in table.lost_cells(blind=True)] == [((1,), "name")]
    table.read()
    for other in others:
        other.update("id = 1", {"score": 1.0})
    assert table.lost_cells() == []  # the second had seen the first
    with pytest.raises(InvalidArgument, match="no key"):
        lake(tmp_path).create_table("plain", SCHEMA).lost_cells()


def test_lost_cells_of_a_merged_branch_can_be_read(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    table.upsert([{"id": at, "name": "first", "score": 0.0} for at in range(3)])
    branch = table.branch("b")
    branch.update("id = 1", {"name": "theirs"})
    table.update("id = 1", {"name": "mine"})
    result = table.merge("b")
    assert "lost_cells()" in str(result)
    (cell,) = table.lost_cells()
    assert (cell.key, cell.column) == ((1,), "name")
    shown, lost = table.read(filter="id = 1")["name"].to_pylist(), table.lost_values(cell)
    assert {*shown, *lost["name"].to_pylist()} == {"mine", "theirs"}
    table.rename_column("name", "called")
    table.compact()
    assert table.lost_values(cell).to_pydict() == {"called": lost["name"].to_pylist()}
    table.drop_column("called")
    assert table.lost_values(cell) == lost  # as it was written
    assert [table.lost_values(again) for again in table.lost_cells()] == [lost]


def test_lost_cells_of_two_columns_born_under_one_name(tmp_path: Path) -> None:
    table = people(lake(tmp_path))
    table.rename_column("name", "old")
    table.add_column("name", pa.string())
    table.upsert([{"id": 1, "old": "", "name": ""}])
    branch = table.branch("b")
    table.update("id = 1", {"old": "lost", "name": "too"})
    branch.update("id = 1", {"old": "x", "name": "y"})
    table.merge("b")
    values = [table.lost_values(cell).to_pydict() for cell in table.lost_cells()]
    assert sorted(values, key=str) == [{"name": ["too"]}, {"old": ["lost"]}]


@pytest.mark.parametrize("mode", ["merge", "cas"])
@pytest.mark.parametrize("filled", [True, False])
def test_a_write_keeps_the_type_of_the_key(mode: Any, filled: bool) -> None:
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    table = Catalog(f"memory://{secrets.token_hex(6)}").create_table("t", schema, key=["id"], mode=mode)
    if filled:
        table.upsert([{"id": 1, "name": "a"}])
    for keys in ([1, 2**40], ["1", "2"], [1.5, 2.5]):
        with pytest.raises(InvalidArgument, match="in its key 'id', which keeps its name and type"):
            table.write(pa.table({"id": keys, "name": ["x", "y"]}))
    table.write(pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["x", "y"]}))  # values that fit
    assert table.read().to_pylist() == [{"id": 1, "name": "x"}, {"id": 2, "name": "y"}]
    assert table.schema.field("id").type == pa.int32()
