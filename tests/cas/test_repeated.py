"""Repetitions under an idempotency key in CAS mode: they count for nothing, so they meet nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitConflict, CommitUnknown, StoreUnavailable
from crdtcat.store.memory import MemoryStore
from crdtcat.table import Table
from crdtcat.testing.faulty import FaultyStore, Plan
from tests.cas import test_keyed as keyed
from tests.cas.scenes import SCHEMA, lake, meanwhile, rows, two, values

Verb = Callable[[Table], Any]
PLAIN: dict[str, Verb] = {
    "update": lambda t: t.update("n = 0", {"x": 5}, key="k"),
    "delete": lambda t: t.delete("n = 0", key="k"),
    "overwrite": lambda t: t.overwrite(rows("mo", 20), key="k"),
    "overwrite mo": lambda t: t.overwrite(rows("mo", 20), where="day = 'mo'", key="k"),
}
KEYED: dict[str, Verb] = {
    "upsert": lambda t: t.upsert(keyed.some(1, x=5), key="k"),
    "delete by key": lambda t: t.delete(keys=keyed.keys(1), key="k"),
    "update": lambda t: t.update("n = 1", {"x": 5}, key="k"),
    "overwrite": lambda t: t.overwrite([keyed.row(1)], key="k"),
}


@pytest.mark.parametrize("verb", PLAIN)
def test_the_same_task_run_twice_at_once_is_no_conflict(verb: str) -> None:
    here, there = two()
    meanwhile(here, lambda: PLAIN[verb](there))
    assert PLAIN[verb](here).number == 3
    assert here.head().version == 2, "one of them counts"
    assert values(here) == values(there)


@pytest.mark.parametrize("verb", KEYED)
def test_nor_is_it_in_a_keyed_table(verb: str) -> None:
    here, there = keyed.two()
    meanwhile(here, lambda: KEYED[verb](there))
    assert KEYED[verb](here).number == 3
    assert here.head().version == 2
    assert keyed.cells(here) == keyed.cells(there)


def test_what_changed_the_same_after_the_first_of_them_is_not_in_its_way_and_stays() -> None:
    here, there = two()
    meanwhile(here, lambda: PLAIN["update"](there), lambda: there.update("n = 0", {"x": 9}))
    assert PLAIN["update"](here).number == 4
    assert values(here)[0] == (0, 9)


def test_a_second_one_of_theirs_is_in_nobodys_way() -> None:
    here, there = two()
    meanwhile(here, lambda: there.append(rows("fr", 70), key="k"), lambda: PLAIN["update"](there))
    here.update("n = 0", {"x": 1})
    assert values(here)[0] == (0, 1)


@pytest.mark.parametrize("verb", PLAIN)
def test_nor_is_one_of_which_the_first_was_read_before(verb: str) -> None:
    here, there = two()
    PLAIN[verb](there)
    here.head()
    meanwhile(here, lambda: PLAIN[verb](there))
    here.update("n >= 0", {"x": 1})
    assert {x for _, x in values(here)} == {1}


def test_what_repeats_one_that_was_read_before_meets_nothing() -> None:
    here, there = two()
    PLAIN["update"](here)
    meanwhile(here, lambda: there.update("n = 0", {"x": 9}))
    PLAIN["update"](here)
    assert values(here)[0] == values(there)[0] == (0, 9)


def test_the_first_one_of_theirs_is_in_the_way() -> None:
    here, there = two()
    meanwhile(here, lambda: PLAIN["update"](there))
    with pytest.raises(CommitConflict):
        here.update("n = 0", {"x": 1}, key="another")


def test_what_was_read_for_it_does_not_count() -> None:
    here, there = two(isolation="serializable")
    here.read()
    meanwhile(here, lambda: PLAIN["update"](there))
    assert PLAIN["update"](here).number == 3


def test_in_a_transaction_only_what_is_repeated_meets_nothing() -> None:
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0, 1))
    theirs = Catalog(url, upkeep=False).table("t")
    with catalog.transaction() as tx:
        tx.update("t", "n = 0", {"x": 5}, key="k")
        PLAIN["update"](theirs)
    assert values(table) == [(0, 5), (1, 0)]
    tx = catalog.transaction()
    tx.update("t", "n = 0", {"x": 6}, key="l")
    tx.update("t", "n = 1", {"x": 6})
    theirs.update("n = 0", {"x": 6}, key="l")
    theirs.update("n = 1", {"x": 7})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    assert [item.columns for item in caught.value.conflicts] == [("x",)]
    assert [item.theirs for item in caught.value.conflicts] == [theirs.history()[-1].id]


def test_a_transaction_knows_what_its_tables_had_before_it() -> None:
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0, 1))
    theirs = Catalog(url, upkeep=False).table("t")
    PLAIN["update"](theirs)
    with catalog.transaction() as tx:
        tx.update("t", "n = 0", {"x": 1})
        PLAIN["update"](theirs)
    assert values(table) == [(0, 1), (1, 0)]


def blind() -> tuple[Table, Table]:
    """One that has read nothing and knows the newest claim, and one that has done "upsert" of `KEYED`."""
    catalog, url = lake()
    theirs = catalog.create_table("t", keyed.SCHEMA, mode="cas", key=["place", "n"])
    KEYED["upsert"](theirs)
    theirs.checkpoint()
    mine = Catalog(url, upkeep=False).table("t")
    mine.upsert(keyed.some(9, x=1))
    assert not len(mine._session.state.log), "by the hint alone"
    return mine, theirs


def test_a_blind_one_of_which_the_first_was_never_read_is_in_nobodys_way() -> None:
    mine, theirs = blind()
    KEYED["upsert"](theirs)
    assert mine.upsert(keyed.some(1, x=8)).number == 4
    assert keyed.cells(theirs)[1][0] == 8


def test_nor_is_anything_in_its_own() -> None:
    mine, theirs = blind()
    theirs.upsert(keyed.some(1, x=7))
    assert KEYED["upsert"](mine).number == 4
    assert keyed.cells(theirs)[1][0] == 7


def test_a_blind_one_that_is_the_first_is_in_the_way() -> None:
    mine, theirs = blind()
    theirs.upsert(keyed.some(1, x=7), key="another")
    with pytest.raises(CommitConflict):
        mine.upsert(keyed.some(1, x=8), key="mine")
    assert keyed.cells(mine)[1][0] == 7


def test_a_fork_that_repeats_what_is_there_meets_nothing() -> None:
    catalog, _ = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0, 1))
    PLAIN["update"](table)
    tx = catalog.transaction(["t"])
    tx.update("t", "n = 1", {"x": 6}, key="staged")
    forks = [tx.fork() for _ in range(3)]
    forks[0].update("t", "n = 0", {"x": 5}, key="k")
    forks[1].update("t", "n >= 0", {"x": 7})
    forks[2].update("t", "n = 1", {"x": 6}, key="staged")
    tx.join(*forks)
    tx.commit()
    assert values(table) == [(0, 7), (1, 7)]


def lost(put: str) -> Plan:
    """Creations go as `put` says, and nobody can look afterwards."""
    tried: list[str] = []

    def plan(call: Any) -> Any:
        if call.kind == "put":
            tried.append(call.name)
            return put
        return "error" if call.name in tried else None

    return plan


def with_rows() -> tuple[FaultyStore, Table]:
    store = FaultyStore(MemoryStore(f"{lake()[1]}-lost"))
    table = Catalog(store, upkeep=False).create_table("t", keyed.SCHEMA, mode="cas", key=["place", "n"])
    table.upsert([keyed.row(n) for n in range(6)])
    return store, table


@pytest.mark.parametrize("put", ["lost_answer", "transient_lost_answer", "error"])
@pytest.mark.parametrize("verb", KEYED)
def test_a_commit_that_may_be_stored_and_cannot_be_looked_for_is_unknown_and_repeated(
    verb: str, put: str
) -> None:
    """Not `StoreUnavailable`, which says that nothing became visible. Whoever repeats it under its key, as
    the error says, does not meet itself."""
    store, table = with_rows()
    table.head()
    store.plan = lost(put)
    with pytest.raises(CommitUnknown, match="same idempotency key"):
        KEYED[verb](table)
    store.plan = None
    KEYED[verb](table)
    assert table.head().version == 2
    assert [version.key for version in table.history()] == [None, "k"]


def test_a_commit_that_was_not_tried_yet_is_not_unknown() -> None:
    store, table = with_rows()
    store.plan = lambda call: "error" if call.kind != "put" else None
    with pytest.raises(StoreUnavailable):
        table.update("n = 1", {"x": 5})
    store.plan = None
    assert table.head().version == 1
