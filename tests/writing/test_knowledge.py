"""A handle knows its columns from its newest head and from its own commits, and the two never disagree."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.clock import VersionId
from crdtcat.errors import SchemaMismatch, StoreUnavailable
from crdtcat.writing.fit import known_from_head
from crdtcat.writing.knowledge import Knowledge
from tests.catalog.lakes import another, lake, refused
from tests.cost.places import asked

SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int32()), ("s", pa.string())])
ROW = {"k": 1, "a": 1, "s": "x"}

VERBS: dict[str, Callable[[Table], object]] = {
    "add": lambda table: table.add_column("new", pa.int64()),
    "drop": lambda table: table.drop_column("s"),
    "rename": lambda table: table.rename_column("s", "t"),
    "widen": lambda table: table.widen_column("a", pa.int64()),
    "reorder": lambda table: table.reorder_columns(["s"]),
    "write": lambda table: table.write(pa.table({"k": [1], "a": [1.5], "new": ["y"]})),
    "write in another order": lambda table: table.write(pa.table({"a": [2], "s": ["y"], "k": [1]})),
    "restore": lambda table: table.restore(table.history()[-1]),
}


def created(catalog: Catalog, *, keyed: bool = False) -> Table:
    table = catalog.create_table("t", SCHEMA, key=["k"] if keyed else ())
    table.append([ROW])
    table.add_column("later", pa.string())
    return table


def as_others_see_it(catalog: Catalog) -> object:
    return known_from_head(another(catalog).table("t").head().columns)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("verb", VERBS)
def test_after_a_slow_commit_the_handle_knows_its_columns(verb: str, keyed: bool) -> None:
    """With no delay allowed every commit is slow, and looks at the log before its verb goes on."""
    catalog = lake(max_commit_delay_seconds=0)
    table = created(catalog, keyed=keyed)
    VERBS[verb](table)
    assert table._session.known == as_others_see_it(catalog)
    with refused(catalog, SchemaMismatch, "'zz'"):
        table.append([{"k": 2, "zz": 9}])
    table.update("k = 1", {"a": 9})
    if keyed:
        table.delete(keys=[1])
        assert table.read().num_rows == 0
    else:
        assert table.read()["a"].to_pylist() == [9]


@pytest.mark.parametrize("verb", VERBS)
def test_its_own_commit_is_known_though_it_could_not_be_looked_at(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = lake()
    table = created(catalog)
    session, real = table._session, table._session.store.put
    listing = session.store.list

    def put(name: str, data: Any) -> None:
        real(name, data)
        if name.endswith(".v"):
            monkeypatch.setattr(session.store, "list", fail)

    def fail(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("not now")

    monkeypatch.setattr(session.store, "put", put)
    VERBS[verb](table)
    monkeypatch.setattr(session.store, "put", real)
    monkeypatch.setattr(session.store, "list", listing)
    assert session.known == as_others_see_it(catalog)
    row = {"k": 2, "s": "x"}
    if "s" in (session.known or ()):
        assert asked(catalog, lambda: table.append([row])) == {"put": 1}
    else:
        with refused(catalog, SchemaMismatch, "'s'"):
            table.append([row])


def test_what_others_did_meanwhile_is_known_after_a_look() -> None:
    catalog = lake(max_commit_delay_seconds=0)
    table, other = created(catalog), another(catalog).table("t")
    real = table._session.store.put

    def put(name: str, data: Any) -> None:
        table._session.store.put = real  # type: ignore[method-assign]
        other.add_column("theirs", pa.int64())
        real(name, data)

    table._session.store.put = put  # type: ignore[method-assign]
    table.write(pa.table({"k": [1], "a": [2], "s": ["y"]}))
    table.append([{"k": 2, "theirs": 5}])
    assert table.read(["k", "theirs"]).to_pylist() == [{"k": 1, "theirs": None}, {"k": 2, "theirs": 5}]


def test_a_head_from_before_a_commit_does_not_count() -> None:
    table = created(lake(max_commit_delay_seconds=0))
    early = table.head()
    table.append([{"k": 2, "more": 1}], evolve=True)
    known = table._session._knowledge
    assert known.author is not None
    assert known.looked_at(early) is known
    assert known.looked_at(table.head()) == Knowledge(table._session.known)
    assert "more" in (table._session.known or ())
    expired = VersionId(0, 1, 1, bytes(16))  # below every horizon, and so in every head
    table.expire(keep_last=1)
    assert Knowledge({}, expired).looked_at(table.head()).author is None


def test_a_copy_takes_along_what_is_known() -> None:
    table = created(lake())
    table.rename_column("s", "t")
    copy = pickle.loads(pickle.dumps(table))
    assert copy._session.known == table._session.known


@pytest.mark.parametrize("evolve", [False, True])
def test_columns_are_known_after_savepoints_and_forks(evolve: bool) -> None:
    """What was staged there is gone, or has come: the columns are those of what is staged now."""
    catalog = lake()
    created(catalog).drop_column("s")
    with catalog.transaction() as tx:
        fork = tx.fork()
        fork.append("t", [{"k": 5, "forked": 1}], evolve=True)
        tx.join(fork)
        with pytest.raises(SchemaMismatch, match="'zz'"):
            tx.append("t", [{"k": 2, "zz": 9}])
        tx.append("t", [{"k": 6, "forked": 2}])
        with suppress(KeyError), tx.savepoint():
            tx.append("t", [{"k": 7, "more": 1}], evolve=True)
            raise KeyError
        with pytest.raises(SchemaMismatch, match="'s'"):
            tx.append("t", [{"k": 2, "s": "x"}])
        if evolve:
            tx.append("t", [{"k": 8, "more": 1}], evolve=True)
    found = catalog.read("t")
    assert found.column_names == ["k", "a", "later", "forked", *(["more"] if evolve else [])]
    assert found["forked"].to_pylist() == [None, 1, 2, *([None] if evolve else [])]
