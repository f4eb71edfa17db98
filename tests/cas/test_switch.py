"""Switching a table between merge mode and CAS mode, beside writers that do not know of it yet."""

from __future__ import annotations

import pickle
import random
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.cas.switching import claim_switch, settle_switch
from crdtcat.errors import (
    CommitConflict,
    CommitContended,
    CommitUnknown,
    InvalidArgument,
    NotFound,
    StoreUnavailable,
)
from crdtcat.store import Store
from crdtcat.store.memory import MemoryStore
from crdtcat.table import Table
from crdtcat.testing.faulty import FaultyStore, from_nth
from tests.apart import processes_apart
from tests.bounds import bounded
from tests.cas.scenes import SCHEMA, meanwhile, rows, values
from tests.catalog.test_races import Stage, StagedStore

DELAY = 0.05


def lake(**options: Any) -> tuple[Catalog, str]:
    url = f"memory://switch-{secrets.token_hex(6)}"
    return another(url, **options), url


def another(url: str | Store, **options: Any) -> Catalog:
    return Catalog(url, **{"upkeep": False, "max_commit_delay_seconds": DELAY, **options})


def merged() -> tuple[Table, str]:
    """A table in merge mode with rows 0 to 2, and where it is."""
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA)
    table.append(rows("mo", 0, 1, 2))
    return table, url


def operations(table: Table) -> list[str]:
    return [version.operation for version in table.history()]


def test_there_and_back() -> None:
    table, url = merged()
    made = table.switch_mode("cas")
    assert made is not None
    assert made.number == 1
    assert table.mode == "cas"
    assert table.update("n = 1", {"x": 7}).number == 2
    assert table.append(rows("tu", 3)).number == 3
    assert table.switch_mode("cas") is None
    assert table.switch_mode("merge") is not None
    assert table.mode == "merge"
    assert table.append(rows("tu", 4)).number == 0
    again = table.switch_mode("cas")
    assert again is not None
    assert again.number == 5, "numbers go on: none is ever free again"
    assert values(another(url).table("t")) == [(0, 0), (1, 7), (2, 0), (3, 0), (4, 0)]
    assert operations(table) == ["append", "cas mode", "update", "append", "merge mode", "append", "cas mode"]
    assert table.verify("content").ok


def test_handles_opened_later_know_at_once() -> None:
    table, url = merged()
    table.switch_mode("cas")
    assert another(url).table("t").mode == "cas"
    assert another(url).table("t").append(rows("tu", 3)).number == 2
    table.switch_mode("merge")
    assert another(url).table("t").mode == "merge"
    assert another(url).table("t").append(rows("tu", 4)).number == 0


def test_a_copy_carries_the_mode() -> None:
    table, _ = merged()
    table.switch_mode("cas")
    assert pickle.loads(pickle.dumps(table)).append(rows("tu", 3)).number == 2


def test_blind_appends_of_handles_that_do_not_know_are_not_lost() -> None:
    table, url = merged()
    stale = another(url).table("t")
    stale.append(rows("tu", 3))
    table.switch_mode("cas")
    before = stale._session.store.requests.snapshot()
    stale.append(rows("tu", 4))
    used = stale._session.store.requests.since(before)
    assert (used.put, used.list, used.get) == (1, 0, 0), "an append in merge mode looks at nothing, as ever"
    assert values(table) == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0)]
    assert table.conflicts() == ()
    table.update("n = 4", {"x": 9})
    assert stale.mode == "merge"
    assert values(stale)[-1] == (4, 9)
    assert stale.mode == "cas", "learned from the listing"


def test_what_was_seen_without_a_number_is_nothing_that_a_claim_meets() -> None:
    """A claim's clock has the versions that it saw beside the claims: else a drop would not end a column that
    it saw, and a property that it replaces would be one that was set at the same time."""
    table, url = merged()
    stale = another(url).table("t")
    stale.append(rows("tu", 3))
    table.switch_mode("cas")
    stale.append([{**rows("tu", 4)[0], "z": 1}], evolve=True)
    assert "z" in table.schema.names
    table.drop_column("z")
    for handle in (table, another(url).table("t")):
        assert "z" not in handle.schema.names
        assert handle.conflicts() == ()


def test_a_change_that_was_slow_finds_out_and_is_made_again_as_a_claim() -> None:
    table, url = merged()
    stale = another(url).table("t")
    meanwhile(stale, lambda: table.switch_mode("cas"), lambda: table.update("n = 0", {"x": 1}))
    version = stale.update("n = 2", {"x": 5})
    assert version.number == 3
    assert values(table) == [(0, 1), (1, 0), (2, 5)]
    (listed,) = table.conflicts()
    assert listed.kind == "straggler", "what was stored first is void, and listed"


def test_a_change_that_was_slow_and_met_another_is_a_conflict() -> None:
    table, url = merged()
    stale = another(url).table("t")
    meanwhile(stale, lambda: table.switch_mode("cas"), lambda: table.update("n = 2", {"x": 1}))
    with pytest.raises(CommitConflict, match="update-update"):
        stale.update("n = 2", {"x": 5})
    assert values(table) == [(0, 0), (1, 0), (2, 1)]


def test_a_change_that_was_slow_and_missed_both_ways_is_told_that_it_does_not_count() -> None:
    """In merge mode again nothing would judge it: it was acknowledged once, and void."""
    table, url = merged()
    stale = another(url).table("t")
    meanwhile(stale, lambda: table.switch_mode("cas"), lambda: table.switch_mode("merge"))
    with pytest.raises(CommitContended, match="and back"):
        stale.update("n = 2", {"x": 5})
    assert values(table) == [(0, 0), (1, 0), (2, 0)]
    assert [item.kind for item in table.conflicts()] == ["straggler"]
    stale.update("n = 2", {"x": 5})
    assert values(table) == [(0, 0), (1, 0), (2, 5)]


def test_a_delete_that_met_a_switch_and_lost_takes_nothing_away() -> None:
    table, url = merged()
    stale = another(url).table("t")
    meanwhile(stale, lambda: table.switch_mode("cas"), lambda: table.update("n = 2", {"x": 1}))
    with pytest.raises(CommitConflict):
        stale.delete("n = 2")
    assert values(table) == [(0, 0), (1, 0), (2, 1)]


def test_what_was_committed_in_merge_mode_before_the_switch_is_judged_too() -> None:
    table, url = merged()
    stale = another(url).table("t")
    meanwhile(
        stale,
        lambda: table.update("n = 2", {"x": 1}),
        lambda: table.switch_mode("cas"),
        stale._session.refresh,
    )
    with pytest.raises(CommitConflict, match="update-update"):
        stale.update("n = 2", {"x": 5})
    meanwhile(
        stale, lambda: table.switch_mode("merge"), lambda: table.switch_mode("cas"), stale._session.refresh
    )
    assert stale.update("n = 1", {"x": 5}).number == 4


def test_a_claim_that_meets_the_end_of_cas_mode_is_merged() -> None:
    table, url = merged()
    table.switch_mode("cas")
    stale = another(url).table("t")
    meanwhile(stale, lambda: table.switch_mode("merge"), lambda: table.update("n = 2", {"x": 1}))
    version = stale.update("n = 2", {"x": 5})
    assert version.number == 0
    assert values(table) == [(0, 0), (1, 0), (2, 5)]
    assert [item.kind for item in table.conflicts()] == ["cell"], "as always in merge mode"
    stale = pickle.loads(pickle.dumps(stale))
    assert stale.append(rows("tu", 3)).number == 0


def test_cold_appends_do_not_claim_above_the_end_of_cas_mode() -> None:
    table, url = merged()
    table.switch_mode("cas")
    table.append(rows("tu", 3))
    table.checkpoint()
    stale = [another(url).table("t") for _ in range(3)]
    table.switch_mode("merge")
    for number, handle in enumerate(stale, start=4):
        assert handle.mode == "cas"
        assert handle.append(rows("tu", number)).number == 0
    assert [n for n, _ in values(table)] == [0, 1, 2, 3, 4, 5, 6]


def test_whoever_dies_after_the_announcement_stops_nobody() -> None:
    table, url = merged()
    table._session.store.put("tables/t/main/switching-0000000000000001", b"")
    other = another(url).table("t")
    other.update("n = 0", {"x": 1})
    assert other.mode == "merge"
    assert values(other) == [(0, 1), (1, 0), (2, 0)]
    before = other._session.store.requests.snapshot()
    other.update("n = 0", {"x": 2})
    other.update("n = 0", {"x": 3})
    assert other._session.store.requests.since(before).put == 2, "the number is taken: nobody looks again"
    table.switch_mode("cas")
    assert other.update("n = 0", {"x": 4}).number == 3


def test_a_switch_that_was_cut_off_before_the_settings_can_be_repeated() -> None:
    table, url = merged()
    store = table._session.store
    kept = {name: store.get(name) for name in ("tables/t/settings.json",)}
    table.switch_mode("cas")
    store.delete(["tables/t/settings~2.json"])
    store.put("tables/t/settings.json", kept["tables/t/settings.json"])
    later = another(url).table("t")
    assert later.mode == "merge", "advice that is old"
    later.append(rows("tu", 3))
    assert later.update("n = 3", {"x": 1}).number == 2
    assert later.switch_mode("cas") is None
    assert another(url).table("t").mode == "cas"
    assert values(table) == [(0, 0), (1, 0), (2, 0), (3, 1)]


def test_dropped_and_created_again() -> None:
    table, url = merged()
    table.switch_mode("cas")
    catalog = another(url)
    catalog.drop_table("t")
    with pytest.raises(NotFound):
        another(url).table("t")
    with pytest.raises(NotFound):
        table.append(rows("tu", 9)), table.head()
    made = catalog.create_table("t", SCHEMA)
    assert made.mode == "merge"
    assert made.read().num_rows == 0
    made.append(rows("mo", 1))
    made.switch_mode("cas")
    assert values(another(url).table("t")) == [(1, 0)]


def test_transactions_of_before_the_switch_are_told() -> None:
    table, url = merged()
    catalog = another(url)
    merging = catalog.transaction()
    merging.update("t", "n = 1", {"x": 3})
    table.switch_mode("cas")
    with pytest.raises(CommitContended, match="another mode"):
        merging.commit()
    strict = another(url).transaction()
    strict.update("t", "n = 1", {"x": 4})
    table.switch_mode("merge")
    with pytest.raises(CommitContended, match="another mode"):
        strict.commit()
    assert values(table) == [(0, 0), (1, 0), (2, 0)]


def test_branches_keep_their_mode() -> None:
    table, url = merged()
    table.branch("b").append(rows("tu", 3))
    table.switch_mode("cas")
    branch = another(url).table("t", "b")
    branch.head()
    assert branch.mode == "merge"
    assert branch.update("n = 3", {"x": 1}).number == 0
    with pytest.raises(InvalidArgument, match="branch"):
        branch.switch_mode("cas")
    assert table.branch("c").append(rows("tu", 5)).number == 2
    with pytest.raises(InvalidArgument, match="one of"):
        table.switch_mode("strict")


def test_what_was_in_cas_mode_is_not_synced() -> None:
    table, url = merged()
    table.switch_mode("cas")
    table.switch_mode("merge")
    (refused,) = another(url).sync(lake()[0]).refused.values()
    assert "switched" in refused


def test_what_is_in_cas_mode_by_its_log_alone_is_not_synced() -> None:
    """Whoever switched it died before the settings said so, or is about to say so."""
    table, url = merged()
    settle_switch(table._session)
    claim_switch(table._session, "cas mode")
    (refused,) = another(url).sync(lake()[0]).refused.values()
    assert "switched" in refused


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
@pytest.mark.parametrize("mode", ["cas", "merge"])
def test_dying_at_any_request_leaves_a_table_in_one_mode_or_the_other(mode: str, fault: Any) -> None:
    seen = set()
    for n in range(1, 60):
        table, url = merged()
        if mode == "merge":
            table.switch_mode("cas")
        dying = another(FaultyStore(MemoryStore(url), from_nth(n, fault)))
        done = False
        try:
            dying.table("t").switch_mode(mode)
            done = True
        except (StoreUnavailable, CommitUnknown):
            done = False
        other = another(url).table("t")
        other.append(rows("tu", 3))
        other.update("n = 3", {"x": 1})
        assert values(table) == values(another(url).table("t")) == [(0, 0), (1, 0), (2, 0), (3, 1)]
        assert other.mode == table.mode
        seen.add(table.mode)
        another(url).table("t").switch_mode(mode)
        table.update("n = 0", {"x": 2})
        assert table.mode == mode
        assert values(other) == [(0, 2), (1, 0), (2, 0), (3, 1)]
        assert table.verify("metadata").ok
        if done:
            break
    assert done
    assert seen == {"cas", "merge"}


PROGRAMS = ("append", "update", "claimed update", "to cas", "to merge", "transaction")


@example(seed=443, programs=[["to cas"], ["to merge"], ["append", "update"], ["append", "update"]])
@given(
    seed=st.integers(0, 2**32),
    programs=st.lists(st.lists(st.sampled_from(PROGRAMS), min_size=1, max_size=3), min_size=2, max_size=4),
)
@settings(max_examples=bounded(2_000, 80), deadline=None)
def test_whatever_races_a_switch_every_acknowledged_commit_counts(
    seed: int, programs: list[list[str]]
) -> None:
    """Actors stop before every request; who goes next is drawn. Each adds to a cell of its own, from what it
    reads, so that one lost commit is one too few in the end."""
    stage = Stage(seed)
    setup, url = lake(max_commit_delay_seconds=0)
    setup.create_table("t", SCHEMA).append(rows("mo", *range(len(programs))))
    expected = [0] * len(programs)
    appended: list[int] = []

    def actor(me: int, program: list[str]) -> Callable[[], None]:
        store = StagedStore(url)
        store.stage = stage
        # No commit is fast by this clock, so each looks after itself; the wait itself is no part of the race.
        catalog = Catalog(store, upkeep=False, max_commit_delay_seconds=0, base_delay=0)

        def run() -> None:
            table = catalog.table("t")
            for number, verb in enumerate(program):
                if verb.startswith("to "):
                    table.switch_mode(verb.removeprefix("to "))
                elif verb == "append":
                    mark = 100 * (me + 1) + number
                    table.append(rows("tu", mark))
                    appended.append(mark)
                elif verb == "transaction":
                    try:
                        with catalog.transaction() as transaction:
                            transaction.update("t", f"n = {me}", {"x": expected[me] + 1})
                        expected[me] += 1
                    except CommitContended:
                        pass
                else:
                    handle = catalog.table("t") if verb == "update" else table
                    try:
                        handle.update(f"n = {me}", {"x": expected[me] + 1})
                        expected[me] += 1
                    except CommitContended:  # there and back meanwhile
                        pass

        return run

    stage.run([actor(me, program) for me, program in enumerate(programs)])
    found = another(url).table("t")
    assert values(found)[: len(programs)] == list(enumerate(expected))
    assert [n for n, _ in values(found)[len(programs) :]] == sorted(appended)
    assert found.verify("metadata").ok
    assert {item.kind for item in found.conflicts()} <= {"straggler"}


def test_processes_that_write_while_others_switch_and_are_killed(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "lake", upkeep=False, max_commit_delay_seconds=0.2)
    catalog.create_table("t", SCHEMA).append(rows("mo", 0, 1))
    context = processes_apart()
    counts = context.Array("q", 2)
    stop = context.Event()
    writers = [context.Process(target=add_up, args=(catalog, me, counts, stop)) for me in range(2)]
    for writer in writers:
        writer.start()
    while min(counts[:]) == 0:
        time.sleep(0.05)
    for turn in range(bounded(40, 4) // 10 * 3):
        mode = ("cas", "merge")[turn % 2]
        switcher = context.Process(target=switch, args=(catalog, mode))
        switcher.start()
        if turn % 3 == 2:
            time.sleep(random.Random(turn).uniform(0.3, 1.5))
            switcher.kill()
        switcher.join()
    stop.set()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    table = Catalog(tmp_path / "lake").table("t")
    assert values(table) == list(enumerate(counts[:])), "nobody's acknowledged update was lost"
    assert {item.kind for item in table.conflicts()} <= {"straggler"}
    assert table.verify("metadata").ok


def add_up(catalog: Catalog, me: int, counts: Any, stop: Any) -> None:
    """Add one to a cell of one's own, again and again."""
    table = catalog.table("t")
    while not stop.is_set():
        table.update(f"n = {me}", {"x": counts[me] + 1})
        counts[me] += 1


def switch(catalog: Catalog, mode: str) -> None:
    catalog.table("t").switch_mode(mode)
