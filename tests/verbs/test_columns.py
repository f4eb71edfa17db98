"""Schema evolution and properties, alone and at the same time as others."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Table, limits
from crdtcat.errors import (
    AlreadyExists,
    InvalidArgument,
    InvalidName,
    LimitExceeded,
    NotFound,
    SchemaMismatch,
    UserError,
)
from tests.catalog.lakes import another, lake, refused, rows

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string())])


def handles(count: int = 2, schema: pa.Schema | None = SCHEMA) -> list[Table]:
    catalog = lake()
    tables = [catalog.create_table("t", schema)]
    return tables + [another(catalog).table("t") for _ in range(count - 1)]


def at_once(*verbs: tuple[Table, Callable[[Table], Any]]) -> list[Any]:
    """Run each verb as if none had seen the others: all of them look before the first is published."""
    ready = []
    for table, verb in verbs:
        session = table._session
        head, original = session.head(), session.head
        session.head = lambda *, refresh=True, head=head: head  # type: ignore[method-assign, misc]
        ready.append((table, verb, session, original))
    done = []
    for table, verb, session, original in ready:
        try:
            done.append(verb(table))
        finally:
            session.head = original  # type: ignore[method-assign]
    return done


def test_add() -> None:
    table, other = handles()
    table.append([{"a": 1, "b": "x"}])
    version = table.add_column("c", pa.list_(pa.int8()))
    assert (version.operation, version.rows) == ("schema", 0)
    table.append([{"a": 2, "c": [1]}])
    assert other.schema == pa.schema([*SCHEMA, ("c", pa.list_(pa.int8()))])
    assert rows(other.read()) == [{"a": 1, "b": "x", "c": None}, {"a": 2, "b": None, "c": [1]}]
    assert table.scan(filter="c is null").count() == 1


def test_drop() -> None:
    table, other = handles()
    table.append([{"a": 1, "b": "x"}])
    table.drop_column("b")
    assert other.schema.names == ["a"]
    assert rows(other.read()) == [{"a": 1}]
    with pytest.raises(SchemaMismatch, match="'b'"):
        table.append([{"b": "y"}])
    table.add_column("b", pa.int64())  # another column of that name: the old values stay away
    table.append([{"a": 2, "b": 5}])
    assert rows(other.read()) == [{"a": 1, "b": None}, {"a": 2, "b": 5}]
    assert other.conflicts() == ()
    assert rows(other.read(at=table.history()[0].id)) == [{"a": 1, "b": "x"}]


def test_rename() -> None:
    table, other = handles()
    table.append([{"a": 1, "b": "x"}])
    table.rename_column("b", "text")
    table.append([{"a": 2, "text": "y"}])
    other.append([{"a": 3, "b": "by its old name"}])  # blind: it knows the old one
    assert rows(table.read(["text"])) == [{"text": "x"}, {"text": "y"}, {"text": "by its old name"}]
    assert table.scan(["a"], "text = 'x'").count() == 1
    assert table.conflicts() == ()
    table.add_column("b", pa.float64())
    table.append([{"b": 0.5}])
    assert rows(table.read())[-1] == {"a": None, "text": None, "b": 0.5}


def test_swap_names() -> None:
    table, other = handles()
    table.append([{"a": 1, "b": "x"}])
    table.rename_column("a", "x")
    table.rename_column("b", "a")
    table.rename_column("x", "b")
    assert rows(other.read(["a", "b"])) == [{"a": "x", "b": 1}]


def test_widen() -> None:
    table, other = handles()
    table.append([{"a": 1}])
    table.widen_column("a", pa.int64())
    other.append([{"a": 2**40}])  # what looks wrong by old knowledge is looked at again
    table.widen_column("a", pa.int64())  # no change is no error
    assert other.schema.field("a").type == pa.int64()
    assert [row["a"] for row in rows(other.read())] == [1, 2**40]
    assert table.scan(filter=f"a = {2**40}").count() == table.scan(filter="a = 1").count() == 1


def test_reorder() -> None:
    table, other = handles()
    table.append([{"a": 1, "b": "x"}])
    table.add_column("c", pa.int8())
    table.reorder_columns(["c", "b"])
    assert other.schema.names == other.read().column_names == ["c", "b", "a"]
    assert other.read(["a", "c"]).column_names == ["a", "c"]
    table.add_column("d", pa.int8())
    assert other.schema.names == ["c", "b", "a", "d"]


def test_columns_of_a_table_without_a_declared_schema_evolve_too() -> None:
    table, other = handles(schema=None)
    table.append({"a": [1], "b": ["x"], "c": [0.5]})
    table.rename_column("b", "text")
    table.reorder_columns(["c", "text"])
    table.widen_column("a", pa.int64())
    table.drop_column("c")
    other.append({"a": [2], "b": ["old name"]})
    assert rows(table.read()) == [{"text": "x", "a": 1}, {"text": "old name", "a": 2}]


def test_evolve() -> None:
    table, other = handles()
    table.append([{"a": 1, "c": 1.5}], evolve=True)
    table.append([{"a": 2, "c": 2.5, "d": "new"}], evolve=True)
    table.append([{"a": 3, "d": "known now"}])
    other.overwrite([{"a": 4, "e": True}], evolve=True)
    assert table.schema.names == ["a", "b", "c", "d", "e"]
    assert rows(table.read()) == [{"a": 4, "b": None, "c": None, "d": None, "e": True}]
    assert all(len(column.instances) == 1 for column in table.head().columns.all)
    assert table.conflicts() == ()
    fresh = pickle.loads(pickle.dumps(table))  # knows the columns, and nothing else
    fresh.append([{"a": 5, "c": 1.0, "f": 1}], evolve=True)
    assert fresh.schema.names == ["a", "b", "c", "d", "e", "f"]
    assert all(len(column.instances) == 1 for column in fresh.head().columns.all)


def test_columns_that_rows_bring_go_behind_the_last_whatever_was_dropped() -> None:
    table, other = handles()
    for name in ("z", "y", "x"):
        table.append([{"a": 1, name: 1}], evolve=True)
    table.drop_column("z")
    table.append([{"a": 2, "w": 1, "v": 1}], evolve=True)
    assert table.schema.names == ["a", "b", "y", "x", "w", "v"]
    table.drop_column("y")
    table.reorder_columns(["x", "v"])
    other.overwrite([{"u": 1, "a": 3}], evolve=True)
    assert other.schema.names == ["x", "v", "a", "b", "w", "u"]
    fresh = pickle.loads(pickle.dumps(other))  # knows the columns, and nothing else
    fresh.append([{"a": 4, "t": 1}], evolve=True)
    assert fresh.schema.names == ["x", "v", "a", "b", "w", "u", "t"]


def test_two_add_different_columns_at_once() -> None:
    one, two = handles()
    at_once((one, lambda t: t.add_column("x", pa.int64())), (two, lambda t: t.add_column("y", pa.string())))
    assert sorted(one.schema.names) == ["a", "b", "x", "y"]
    assert one.schema == two.schema
    assert one.conflicts() == ()


def test_two_add_one_column_at_once_with_types_that_widen() -> None:
    one, two = handles()
    at_once((one, lambda t: t.add_column("x", pa.int8())), (two, lambda t: t.add_column("x", pa.int64())))
    one.append([{"x": 1}])
    two.append([{"x": 2**40}])
    assert one.schema.field("x").type == two.schema.field("x").type == pa.int64()
    assert [row["x"] for row in rows(one.read())] == [1, 2**40]
    assert one.conflicts() == two.conflicts() == ()


def test_two_add_one_column_at_once_with_types_that_do_not_meet() -> None:
    one, two = handles()
    first, second = at_once(
        (one, lambda t: t.append([{"x": 5}], evolve=True)),
        (two, lambda t: t.append([{"x": "five"}], evolve=True)),
    )
    assert one.schema.field("x").type == two.schema.field("x").type == pa.string()  # the greater id
    assert [row["x"] for row in rows(one.read())] == [None, "five"]
    kinds = {conflict.kind: conflict for conflict in one.conflicts()}
    assert set(kinds) == {"column", "misfit"}
    assert (kinds["column"].winner, kinds["column"].loser) == (second.id, first.id)
    assert kinds["misfit"].loser == first.id
    assert one.conflicts() == two.conflicts()
    assert all("'x'" in str(conflict) for conflict in one.conflicts())
    two.widen_column("x", pa.large_string())  # somebody who has seen both settles it
    assert "column" not in {conflict.kind for conflict in one.conflicts()}


def test_two_widen_one_column_at_once() -> None:
    one, two = handles(schema=pa.schema([("a", pa.int16())]))
    one.append([{"a": 1}])
    at_once(
        (one, lambda t: t.widen_column("a", pa.float64())), (two, lambda t: t.widen_column("a", pa.int32()))
    )
    assert one.schema.field("a").type == two.schema.field("a").type == pa.float64()
    assert rows(one.read()) == [{"a": 1.0}]
    assert one.conflicts() == ()


def test_two_rename_one_column_at_once() -> None:
    one, two = handles()
    one.append([{"a": 1, "b": "x"}])
    first, second = at_once(
        (one, lambda t: t.rename_column("b", "left")), (two, lambda t: t.rename_column("b", "right"))
    )
    assert one.schema.names == two.schema.names == ["a", "right"]
    assert rows(one.read()) == [{"a": 1, "right": "x"}]
    (conflict,) = one.conflicts()
    assert (conflict.kind, conflict.winner, conflict.loser) == ("column", second.id, first.id)
    assert "'left'" in str(conflict)


def test_a_drop_at_the_same_time_as_rows() -> None:
    one, two = handles()
    one.append([{"a": 1, "b": "seen"}])
    one.head()
    two.append([{"a": 2, "b": "meanwhile"}])
    at_once((one, lambda t: t.drop_column("b")))
    two.append([{"a": 3, "b": "still blind"}])
    dropped = one.history()[-2]
    assert dropped.operation == "schema"
    shown = [row.get("b") for row in rows(one.read())]
    assert shown == [row.get("b") for row in rows(two.read())]
    assert shown[-1] == "still blind"
    assert shown[0] is None
    assert "drop" in {conflict.kind for conflict in one.conflicts()}


def test_a_rename_at_the_same_time_as_blind_rows() -> None:
    one, two = handles(schema=None)
    one.append({"a": [1]})
    one.head()
    two.append({"a": [2]})
    at_once((one, lambda t: t.rename_column("a", "z")))
    two.append({"a": [3]})
    assert rows(one.read()) == rows(two.read()) == [{"z": 1}, {"z": 2}, {"z": 3}]
    assert one.conflicts() == ()


def test_rows_by_somebody_who_does_not_know_that_names_were_exchanged() -> None:
    table, other = handles(schema=pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    before = other.append([{"a": 1, "b": 2}])
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        renamed = table.rename_column(old, new)
    to_a = table.history()[-2]
    assert table.conflicts() == ()
    blind = other.append([{"a": 10, "b": 20}])  # to the columns it knows by these names
    aware = table.append([{"a": 200, "b": 100}])
    shown = [{"b": 1, "a": 2}, {"b": 10, "a": 20}, {"b": 100, "a": 200}]
    assert rows(table.read()) == rows(other.read()) == shown
    assert other.conflicts() == table.conflicts()
    by_subject = {conflict.subject: conflict for conflict in table.conflicts()}
    assert len(table.conflicts()) == len(by_subject) == 2
    assert {conflict.kind for conflict in table.conflicts()} == {"rename"}
    assert (by_subject["b"].winner, by_subject["b"].loser) == (renamed.id, blind.id)
    assert (by_subject["a"].winner, by_subject["a"].loser) == (to_a.id, blind.id)
    for conflict in table.conflicts():
        assert "'a'" in str(conflict)
        assert "'b'" in str(conflict)
        assert conflict.loser not in {before.id, aware.id}


def test_two_columns_of_one_append_that_are_one_to_everybody_else() -> None:
    table, other = handles(schema=None)
    table.append([{"a": 1}])
    renamed = table.rename_column("a", "b")
    table.add_column("a", pa.int64())
    blind = other.append([{"a": 10, "b": 20}])
    assert rows(table.read(["a", "b"])) == [{"a": None, "b": 1}, {"a": None, "b": 20}]
    (conflict,) = table.conflicts()
    assert (conflict.kind, conflict.subject) == ("rename", "b")
    assert (conflict.winner, conflict.loser) == (renamed.id, blind.id)
    assert "what it wrote as 'a' is not shown" in str(conflict)
    table.append([{"a": 3, "b": 4}])
    assert table.conflicts() == (conflict,)


@pytest.mark.parametrize(
    ("verb", "kind", "part"),
    [
        (lambda t: t.add_column("a", pa.int8()), AlreadyExists, "'a'"),
        (lambda t: t.add_column("", pa.int8()), InvalidName, "empty"),
        (lambda t: t.add_column("a\x00", pa.int8()), InvalidName, "control"),
        (lambda t: t.add_column("x" * 256, pa.int8()), LimitExceeded, "255"),
        (lambda t: t.add_column("x", "int8"), InvalidArgument, "pyarrow type"),
        (lambda t: t.add_column("x", pa.dense_union([pa.field("u", pa.int8())])), UserError, "union"),
        (lambda t: t.drop_column("nope"), NotFound, "'nope'"),
        (lambda t: t.rename_column("nope", "x"), NotFound, "'nope'"),
        (lambda t: t.rename_column("a", "b"), AlreadyExists, "'b'"),
        (lambda t: t.rename_column("a", " x"), InvalidName, "space"),
        (lambda t: t.widen_column("a", pa.int8()), SchemaMismatch, "int32"),
        (lambda t: t.widen_column("a", pa.string()), SchemaMismatch, "'a'"),
        (lambda t: t.widen_column("a", int), InvalidArgument, "pyarrow type"),
        (lambda t: t.widen_column("nope", pa.int8()), NotFound, "'nope'"),
        (lambda t: t.reorder_columns(["nope"]), NotFound, "'nope'"),
        (lambda t: t.reorder_columns(["a", "a"]), InvalidArgument, "twice"),
        (lambda t: t.reorder_columns("a"), InvalidArgument, "list"),
        (lambda t: t.set_properties(), InvalidArgument, "at least one"),
        (lambda t: t.set_properties({}), InvalidArgument, "at least one"),
        (lambda t: t.set_properties("x"), InvalidArgument, "a map of names and values, not str"),
        (lambda t: t.set_properties({1: 2}), InvalidArgument, "not 1"),
        (lambda t: t.set_properties({"x": 1}, x=2), InvalidArgument, "['x'] are given twice"),
        (lambda t: t.set_properties(x=object()), InvalidArgument, "'x'"),
        (lambda t: t.set_properties(**{"": 1}), InvalidArgument, "empty"),
        (lambda t: t.set_properties(x="y" * 70_000), LimitExceeded, "'x'"),
        (lambda t: t.set_properties(**{"x" * 300: 1}), LimitExceeded, "255"),
    ],
)
def test_wrong_changes(verb: Callable[[Table], Any], kind: type[Exception], part: str) -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    with refused(catalog, kind, part):  # type: ignore[arg-type]
        verb(table)


def test_the_last_column_stays() -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("only", pa.int8())]))
    with refused(catalog, InvalidArgument, "'only'", "drop the table"):
        table.drop_column("only")


def test_properties() -> None:
    one, two = handles()
    one.set_properties({"owner": "ada"}, limits={"rows": [1, 2]})
    two.set_properties(owner="bob", note=None)
    assert one.properties == two.properties == {"owner": "bob", "limits": {"rows": [1, 2]}}
    one.set_properties(owner=None)
    assert two.properties == two.head().properties == {"limits": {"rows": [1, 2]}}
    assert one.conflicts() == ()
    assert one.head(at=one.history()[0].id).properties["owner"] == "ada"


def test_as_many_properties_as_a_head_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PROPERTIES_MAX", 3)
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("a", pa.int64())]))
    table.set_properties(a=1, b=2, c=3)
    table.set_properties(a=4)
    with refused(catalog, LimitExceeded, "at most 3 properties"):
        table.set_properties(d=1)
    assert table.properties == {"a": 4, "b": 2, "c": 3}


def test_two_set_one_property_at_once() -> None:
    one, two = handles()
    first, second = at_once(
        (one, lambda t: t.set_properties(x=1, mine=1)), (two, lambda t: t.set_properties(x=2, yours=2))
    )
    assert one.properties == two.properties == {"x": 2, "mine": 1, "yours": 2}
    (conflict,) = one.conflicts()
    assert (conflict.kind, conflict.subject) == ("property", "x")
    assert (conflict.winner, conflict.loser) == (second.id, first.id)
