"""Columns that two commits add at once in CAS mode: one column, whoever was first, whatever is done to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.conflicts import Kind
from crdtcat.errors import CommitConflict
from crdtcat.transaction import Transaction
from tests.cas.scenes import lake, meanwhile

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
TYPES = [pa.int32(), pa.string(), pa.list_(pa.int64()), pa.timestamp("us", "UTC")]


def two(**options: Any) -> tuple[Table, Table]:
    catalog, url = lake()
    mine = catalog.create_table("t", SCHEMA, mode="cas", **options)
    mine.append([{"n": 0, "x": 0}])
    theirs = Catalog(url, upkeep=False).table("t")
    theirs.head()
    return mine, theirs


def with_y(n: int, type: pa.DataType = TYPES[0], y: Any = None) -> pa.Table:
    return pa.table({"n": pa.array([n]), "x": pa.array([0]), "y": pa.array([y], type)})


def added_by_both(**options: Any) -> tuple[Table, Table]:
    """A table in which two have added y: theirs with row 1, mine with row 2."""
    mine, theirs = two(**options)
    verb = "upsert" if options else "append"
    meanwhile(mine, lambda: getattr(theirs, verb)(with_y(1, y=10), evolve=True))
    assert getattr(mine, verb)(with_y(2, y=20), evolve=True).rebases == 1
    return mine, theirs


def ys(table: Table) -> dict[int, Any]:
    return {row["n"]: row.get("y") for row in table.read().to_pylist()}


def kinds(call: Callable[[], Any]) -> set[Kind]:
    with pytest.raises(CommitConflict) as caught:
        call()
    return {item.kind for item in caught.value.conflicts}


@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("transaction", [False, True])
def test_appends_that_add_the_same_column_both_commit(type: pa.DataType, transaction: bool) -> None:
    mine, theirs = two()
    if transaction:
        with Catalog(mine._session.store.url, upkeep=False).transaction(["t"]) as tx:
            tx.append("t", with_y(2, type), evolve=True)
            theirs.append(with_y(1, type), evolve=True)
    else:
        meanwhile(mine, lambda: theirs.append(with_y(1, type), evolve=True))
        mine.append(with_y(2, type), evolve=True)
    assert mine.schema.field("y").type == type
    assert set(ys(mine)) == {0, 1, 2}
    assert not mine.conflicts()


@pytest.mark.parametrize("key", [(), ("n",)])
def test_a_column_that_two_have_added_is_one_to_all_verbs(key: tuple[str, ...]) -> None:
    for t in added_by_both(key=list(key)) if key else added_by_both():
        assert ys(t) == {0: None, 1: 10, 2: 20}
        assert t.schema.names == ["n", "x", "y"]
    t.update("n < 2", {"y": 7})
    assert ys(t) == {0: 7, 1: 7, 2: 20}
    t.update("n >= 1", {"y": 8})
    assert ys(t) == {0: 7, 1: 8, 2: 8}
    t.compact()
    assert ys(t) == {0: 7, 1: 8, 2: 8}
    t.widen_column("y", pa.int64())
    t.rename_column("y", "z")
    assert t.read(["z"], filter="z = 8").num_rows == 2
    t.drop_column("z")
    assert t.schema.names == ["n", "x"]
    assert not t.conflicts()


def seeing_one(change: Callable[[Transaction], Any]) -> tuple[Table, Transaction]:
    """A table in which two have added y, and a transaction with a change that saw one of them."""
    mine, theirs = two()
    tx: list[Transaction] = []

    def between() -> None:
        theirs.append(with_y(1, y=10), evolve=True)
        tx.append(Catalog(mine._session.store.url, upkeep=False).transaction(["t"]))
        change(tx[0])

    meanwhile(mine, between)
    mine.append(with_y(2, y=20), evolve=True)
    return mine, tx[0]


def test_cells_of_a_column_that_two_have_added_are_compared() -> None:
    """Who saw both writes to one of them, who saw the first alone to the other: the same cells."""
    t, tx = seeing_one(lambda tx: tx.update("t", "n = 1", {"y": 6}))
    t.update("n = 1", {"y": 5})
    assert kinds(tx.commit) == {Kind.UPDATE_UPDATE}
    assert ys(t) == {0: None, 1: 5, 2: 20}
    t, tx = seeing_one(lambda tx: tx.update("t", "n = 1", {"y": 6}))
    t.update("n = 2", {"y": 5})
    tx.commit()
    assert ys(t) == {0: None, 1: 6, 2: 5}


def test_a_drop_that_saw_one_of_two_additions_is_told() -> None:
    t, tx = seeing_one(lambda tx: tx.table("t").drop_column("y"))
    assert kinds(tx.commit) == {Kind.COLUMN_COLUMN, Kind.DROP_WRITE}
    t.drop_column("y")
    assert t.schema.names == ["n", "x"]


def test_a_column_that_is_dropped_and_added_anew_is_another() -> None:
    mine, theirs = two()
    mine.add_column("y", pa.int32())
    theirs.head()
    meanwhile(mine, lambda: theirs.drop_column("y"), lambda: theirs.add_column("y", pa.int64()))
    assert kinds(lambda: mine.widen_column("y", pa.int64())) == {Kind.COLUMN_COLUMN}


@pytest.mark.parametrize(
    ("mine_type", "their_type", "shown"),
    [
        (pa.int32(), pa.int64(), pa.int64()),
        (pa.int64(), pa.int32(), pa.int64()),
        (pa.int8(), pa.float64(), pa.float64()),
        (pa.int64(), pa.string(), None),
    ],
    ids=str,
)
def test_rows_under_a_column_that_theirs_defined_otherwise_are_never_left_without_it(
    mine_type: pa.DataType, their_type: pa.DataType, shown: pa.DataType | None
) -> None:
    """`theirs` would leave rows of mine with values of a column that nobody defines: it fails, and the change
    is kept. `ours` keeps the values of both where a type holds both; else theirs are listed."""
    catalog, url = lake(on_conflict={"column-column": "theirs"})
    t = catalog.create_table("t", SCHEMA, mode="cas")
    t.append([{"n": 0, "x": 0}])
    other = Catalog(url, upkeep=False).table("t")
    value = "text" if pa.types.is_string(their_type) else 10
    meanwhile(t, lambda: other.append(with_y(1, their_type, value), evolve=True))
    with pytest.raises(CommitConflict) as caught:
        t.append(with_y(2, mine_type, 20), evolve=True)
    assert [item.kind for item in caught.value.conflicts] == [Kind.COLUMN_COLUMN]
    assert ys(other) == {0: None, 1: value}
    caught.value.retry({"column-column": "ours"})
    assert other.schema.field("y").type == (shown or mine_type)
    assert ys(other) == {0: None, 1: value if shown else None, 2: 20}
    assert {item.kind for item in other.conflicts()} == (set() if shown else {"column", "misfit"})
    meanwhile(t, lambda: other.add_column("z", pa.string()))
    t.add_column("z", pa.int64())  # no rows: theirs it is
    assert t.schema.field("z").type == pa.string()


@pytest.mark.parametrize("verb", ["append", "overwrite", "write"])
def test_no_rows_bring_back_a_column_that_theirs_dropped_without_a_word(verb: str) -> None:
    """Rows say which columns they have, also where there are none: the column was there again, and nobody was
    told."""
    mine, theirs = two()
    nothing = SCHEMA.empty_table()
    meanwhile(mine, lambda: theirs.drop_column("x"))
    assert kinds(lambda: getattr(mine, verb)(nothing)) == {Kind.WRITE_DROP}
    assert theirs.schema.names == ["n"]
    mine, theirs = two()
    meanwhile(mine, lambda: getattr(theirs, verb)(nothing))
    mine.drop_column("x")
    assert theirs.schema.names == ["n"]
