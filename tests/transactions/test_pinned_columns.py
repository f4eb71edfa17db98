"""Inside a transaction rows are checked against the columns that its tables have there, also by whoever has
only opened them: what is pinned was read."""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import SchemaMismatch, UserError
from crdtcat.transaction import Transaction
from crdtcat.writing.fit import known_from_head
from tests.cost.places import asked

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
MODES = pytest.mark.parametrize("mode", ["cas", "merge"])


def begun(mode: str) -> tuple[Catalog, Transaction]:
    """A table two of whose columns have exchanged their names, and a transaction of somebody who is new."""
    url = f"memory://columns-{secrets.token_hex(6)}"
    catalog = Catalog(url, upkeep=False)
    table = catalog.create_table("t", SCHEMA, mode=mode)
    for name, to in (("x", "z"), ("y", "x"), ("z", "y")):
        table.rename_column(name, to)
    return catalog, Catalog(url, upkeep=False).transaction(["t"])


@MODES
@pytest.mark.parametrize("forked", [False, True])
def test_rows_go_to_the_columns_of_these_names(mode: str, *, forked: bool) -> None:
    catalog, tx = begun(mode)
    row = {"n": 1, "x": 2, "y": 3}
    if forked:
        fork = tx.fork()
        fork.append("t", [row])
        tx.join(fork)
    else:
        tx.append("t", [row])
    assert tx.read("t").to_pylist() == [row]
    tx.commit()
    assert catalog.read("t").to_pylist() == [{"n": 1, "y": 3, "x": 2}]
    assert not catalog.table("t").conflicts()


@MODES
def test_rows_with_others_are_refused(mode: str) -> None:
    _, tx = begun(mode)
    with pytest.raises(SchemaMismatch, match="'z' is not in the table"):
        tx.append("t", [{"n": 1, "z": 2}])
    tx.commit()


def row(x: object, **more: object) -> list[dict[str, object]]:
    return [{"n": 1, "x": x, "y": 3, **more}]


CHANGES: tuple[Callable[[Table], Any], ...] = (
    lambda table: table.append(row(2)),
    lambda table: table.append(row(2)),
    lambda table: table.append([{"n": 1, "q": 2}]),  # refused where columns were declared
    lambda table: table.rename_column("x", "v"),
    lambda table: table.rename_column("v", "x"),
    lambda table: table.append([{"n": 1, "y": 2}]),
    lambda table: table.append(row(2, z=1.5), evolve=True),
    lambda table: table.rename_column("x", "w"),
    lambda table: table.append([{"n": 1, "w": 2, "y": 3}]),
    lambda table: table.drop_column("y"),
    lambda table: table.update("true", {"w": 7}),
    lambda table: table.write(pa.table({"n": [1], "w": ["text"]})),
    lambda table: table.checkpoint(),
)


@MODES
@pytest.mark.parametrize("declared", [True, False])
def test_what_is_known_without_looking_is_what_looking_says(mode: str, *, declared: bool) -> None:
    """Transactions of one handle, one after the other, beside whatever others do to the columns."""
    url = f"memory://columns-{secrets.token_hex(6)}"
    Catalog(url, upkeep=False).create_table("t", SCHEMA if declared else None, mode=mode)
    catalog, kept = Catalog(url, upkeep=False), 0
    for change in CHANGES:
        with suppress(UserError):
            change(Catalog(url, upkeep=False).table("t"))
        known = []
        for _ in range(2):
            tx = catalog.transaction(["t"])
            session = tx.table("t")._session
            known.append(session.known)
            kept += session._shown is None
            assert known[-1] == (known_from_head(session.head().columns) or catalog.table("t")._session.known)
            tx.abort()
        assert known[0] == known[1]
    assert kept >= 2, "sometimes it was not looked at"


@MODES
@pytest.mark.parametrize("forked", [False, True])
def test_a_handle_knows_the_columns_that_its_transactions_made(mode: str, *, forked: bool) -> None:
    """As after the same verbs outside of one: by their names, and without looking."""
    catalog = Catalog(f"memory://columns-{secrets.token_hex(6)}", upkeep=False)
    catalog.create_table("t", SCHEMA, mode=mode).append([{"n": 1, "x": 2, "y": 3}])
    catalog.read("t")
    with catalog.transaction(["t"]) as tx:
        part = tx.fork() if forked else tx
        part.table("t").drop_column("y")
        part.table("t").rename_column("x", "z")
        part.table("t").add_column("x", pa.string())
        part.append("t", [{"n": 2, "x": "a", "z": 4}])
        if forked:
            tx.join(part)
    assert asked(catalog, lambda: catalog.commit("t", [{"n": 3, "x": "b", "z": 5}])) == {"put": 1}
    expected = [{"n": 1, "z": 2, "x": None}, {"n": 2, "z": 4, "x": "a"}, {"n": 3, "z": 5, "x": "b"}]
    assert catalog.read("t").to_pylist() == expected
    with catalog.transaction(["t"]) as tx:
        tx.table("t").drop_column("z")
    for wrong in ({"n": 4, "y": 1}, {"n": 4, "z": 1}, {"n": 4, "x": 1}):
        with pytest.raises(SchemaMismatch):
            catalog.commit("t", [wrong])
    assert catalog.read("t").column_names == ["n", "x"]
    assert not catalog.table("t").conflicts()


def by_transaction(catalog: Catalog) -> None:
    with catalog.transaction() as tx:
        tx.read("t")


def by_query(catalog: Catalog) -> None:
    catalog.sql("select * from t").fetchall()


@MODES
@pytest.mark.parametrize("shown", [by_transaction, by_query])
def test_what_a_transaction_or_a_query_has_shown_is_known(
    mode: str, shown: Callable[[Catalog], None]
) -> None:
    """By its handles, and by copies of them, without another look."""
    url = f"memory://columns-{secrets.token_hex(6)}"
    others = Catalog(url, upkeep=False)
    others.create_table("t", SCHEMA, mode=mode).append([{"n": 1, "x": 2, "y": 3}])
    catalog = Catalog(url, upkeep=False)
    catalog.table("t")
    for name, to in (("x", "z"), ("y", "x"), ("z", "y")):
        others.table("t").rename_column(name, to)
    shown(catalog)
    copy: Catalog = pickle.loads(pickle.dumps(catalog))
    assert asked(catalog, lambda: catalog.commit("t", [{"n": 2, "x": 3, "y": 2}])) == {"put": 1}
    if mode == "merge":  # in CAS mode it would be told of the other's columns
        assert asked(copy, lambda: copy.commit("t", [{"n": 3, "x": 3, "y": 2}])) == {"put": 1}
    found = catalog.read("t")
    assert set(found["x"].to_pylist()) == {3}
    assert set(found["y"].to_pylist()) == {2}


def test_an_append_is_not_told_of_a_damaged_log() -> None:
    catalog = Catalog(f"memory://columns-{secrets.token_hex(6)}", upkeep=False)
    catalog.create_table("t", SCHEMA).append([{"n": 1, "x": 2, "y": 3}])
    with catalog.transaction() as tx:
        tx.table("t")
    session = catalog.table("t")._session
    session._state = replace(
        session.state, log=session.state.log.with_(ops=pa.array([b"?"], pa.large_binary()))
    )
    catalog.commit("t", [{"n": 2, "x": 2, "y": 3}])
    pickle.dumps(catalog)
    assert Catalog(catalog.store, upkeep=False).read("t").num_rows == 2
