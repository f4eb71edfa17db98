"""Traps that others fell into, each as a test of CAS mode. More of them are in test_traps_of_upkeep, and
beside what they are about; all are listed in docs/guarantees.md."""

from __future__ import annotations

import pytest

from crdtcat import Catalog
from crdtcat.clock import HybridClock
from crdtcat.errors import CommitConflict, Corrupt, CrdtcatError
from crdtcat.protocol import is_claim
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.faulty import FaultyStore, from_nth
from tests.cas.scenes import SCHEMA, meanwhile, rows, two, values


@pytest.mark.parametrize("answer", ["fail", "theirs"])
def test_an_update_beside_a_delete_never_leaves_the_deleted_row_alive(answer: str) -> None:
    """Vanlightly's model of Iceberg, merge on read: the update writes the row anew, and it is back."""
    mine, theirs = two(on_conflict={"update-delete": answer})
    meanwhile(mine, lambda: theirs.delete("n = 1"))
    try:
        mine.update("n <= 2", {"x": 5})
    except CommitConflict:
        assert answer == "fail"
    expected = 5 if answer == "theirs" else 0
    assert values(mine)[:2] == values(theirs)[:2] == [(0, expected), (2, expected)]
    theirs.compact()
    assert values(Catalog(mine._session.store).table("t"))[:2] == [(0, expected), (2, expected)]


def test_nothing_points_to_a_commit_before_it_is_whole() -> None:
    """Lode: the pointer is swapped before the manifest exists. Here the claim is the commit, and is put last;
    whoever dies at any request has committed all of it or nothing."""
    for n in range(1, 30):
        inner = MemoryStore(f"memory://whole-{n}")
        Catalog(inner).create_table("t", SCHEMA, mode="cas").append(rows("mo", 0))
        store = FaultyStore(inner, from_nth(n, "error"))
        done = False
        try:
            Catalog(store, upkeep=False, inline_bytes=0).table("t").append(rows("mo", 1))
            done = True
        except CrdtcatError:
            done = False
        puts = [call.name for call in store.calls if call.kind == "put"]
        assert not any(map(is_claim, puts[:-1])), "the claim is the last thing that is put"
        assert [n for n, _ in values(Catalog(inner).table("t"))] == ([0, 1] if done else [0])
        if done:
            break
    assert done


def test_reading_changes_nothing() -> None:
    """Lode: a read that "heals" rewinds a commit in progress."""
    mine, _ = two()
    store = FaultyStore(MemoryStore(mine._session.store.url))
    reader = Catalog(store).table("t")
    before = {item.name for item in store.inner.list("tables/t/main/")}
    meanwhile(mine, lambda: (reader.head(), reader.read(), reader.history(), reader.verify()))
    assert mine.append(rows("mo", 9)).number == 2
    assert {call.kind for call in store.calls} <= {"get", "list"}
    assert before < {item.name for item in store.inner.list("tables/t/main/")}


def test_a_clock_that_runs_behind_does_not_reorder_history() -> None:
    """Lode: wall-clock ids used as order. Ids rise with numbers, whatever a machine takes the time to be."""
    mine, theirs = two()
    theirs._session.clock = HybridClock(lambda: 1_000)
    theirs._session.refresh()
    done = [mine.append(rows("mo", 20)), theirs.append(rows("mo", 21)), mine.append(rows("mo", 22))]
    assert [version.number for version in done] == [2, 3, 4]
    assert sorted(done, key=lambda version: version.id) == done
    assert [version.number for version in mine.history()] == [1, 2, 3, 4]


def test_a_torn_claim_is_reported_by_name_and_never_counts() -> None:
    """Lode: a torn file in its final path counts as committed."""
    mine, theirs = two()
    theirs.append(rows("mo", 9))
    store = mine._session.store
    name = "tables/t/main/0000000000000002.c"
    store.put(name, store.get(name)[:-7])
    with pytest.raises(Corrupt) as caught:
        Catalog(store).table("t").read()
    assert caught.value.name == name


def test_what_a_dead_writer_staged_is_in_nobodys_way() -> None:
    """Lode: a leftover staged block makes staging it again fail."""
    inner = MemoryStore("memory://leftover")
    Catalog(inner).create_table("t", SCHEMA, mode="cas")
    store = FaultyStore(inner, lambda call: "error" if is_claim(call.name) and call.kind == "put" else None)
    with pytest.raises(CrdtcatError):
        Catalog(store, upkeep=False, inline_bytes=0).table("t").append(rows("mo", 1))
    again = Catalog(inner, upkeep=False, inline_bytes=0).table("t")
    assert again.append(rows("mo", 1)).number == 1
    assert values(again) == [(1, 0)]
