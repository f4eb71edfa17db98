"""Expiry in CAS mode: history goes, numbers stay taken, and no claim is ever passed by."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.cas.modes import announcement
from crdtcat.errors import CommitConflict, CommitUnknown, Expired, StoreUnavailable
from crdtcat.lifecycle.horizons import proposals, propose
from crdtcat.protocol import boundary_name, claim_name, is_base, is_boundary, is_claim
from crdtcat.table import Table
from crdtcat.testing.faulty import Fault, FaultyStore, from_nth
from crdtcat.testing.invariants import check_claims
from tests.cas.scenes import meanwhile
from tests.clocks import HandClock
from tests.cost.places import asked

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
QUICK: dict[str, Any] = {"upkeep": False, "max_commit_delay_seconds": 0, "grace_seconds": 0}
FOLDER = "tables/t/main/"
NOW = timedelta(0)


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"n": n, "x": 0} for n in numbers]


def started(count: int, **options: Any) -> tuple[Catalog, Table]:
    """A strict table with so many commits, a row each."""
    catalog = Catalog(f"memory://strict-{secrets.token_hex(6)}", **{**QUICK, **options})
    table = catalog.create_table("t", SCHEMA, mode="cas")
    for n in range(1, count + 1):
        table.append(rows(n))
    return catalog, table


def other(catalog: Catalog, **options: Any) -> Table:
    return Catalog(catalog.store.url, **{**QUICK, **options}).table("t")


def found(table: Table) -> list[int]:
    numbers: list[int] = table.read(["n"]).column("n").to_pylist()
    return numbers


def names(table: Table) -> list[str]:
    return [item.name.removeprefix(FOLDER) for item in table._session.store.list(FOLDER)]


def history(table: Table) -> list[int]:
    return [version.number for version in table.history()]


def test_history_goes_the_table_stays_and_counting_goes_on() -> None:
    catalog, table = started(6)
    before = table.head()
    assert table.expire(keep_last=2).versions == 4
    for handle in (table, other(catalog)):
        head = handle.head()
        assert (head.version, head.snapshot, head.root_hash) == (6, before.snapshot, before.root_hash)
        assert history(handle) == [5, 6]
        assert found(handle) == [1, 2, 3, 4, 5, 6]
    assert table.append(rows(7)).number == 7
    assert other(catalog).append(rows(8)).number == 8
    with pytest.raises(Expired):
        table.read(at=before.history[1].id)


def test_the_newest_commit_stays_in_history_whatever_is_asked_for() -> None:
    catalog, table = started(3)
    assert table.expire(older_than=NOW).versions == 2
    assert str(table.expire(older_than=NOW)) == "expire: nothing to fold"
    assert history(other(catalog)) == [3]


def test_an_expiry_with_claims_stores_a_boundary_and_deletes_the_one_before() -> None:
    catalog, table = started(4)
    cost = asked(catalog, lambda: table.expire(keep_last=1))
    assert cost["put"] == 4, "a proposal, a segment for inlined rows, the base, the boundary"
    assert boundary_name("", 3) in names(table)
    table.append(rows(5))
    cost = asked(catalog, lambda: table.expire(keep_last=1))
    assert (cost["put"], cost["delete"]) == (4, 2), "an older proposal, an older boundary"
    assert [name for name in names(table) if is_boundary(name)] == [boundary_name("", 4)]


def collected(table: Table) -> None:
    table.expire(keep_last=1)
    table.collect()
    assert sum(map(is_claim, names(table))) <= 1, "the names of the others are free again"


def test_a_handle_that_slept_does_not_take_a_number_again_that_was_folded(clock: HandClock) -> None:
    catalog, table = started(1)
    sleeper = other(catalog, grace_seconds=600)
    sleeper.append(rows(2))
    for n in range(3, 7):
        table.append(rows(n))
    collected(table)
    clock.now += 301
    assert sleeper.append(rows(9)).number == 7
    assert found(other(catalog)) == [1, 2, 3, 4, 5, 6, 9]
    check_claims(other(catalog).head().log, "a reader")


def test_a_slow_claim_of_a_number_that_was_folded_meanwhile_is_void_and_made_again(clock: HandClock) -> None:
    catalog, table = started(1)
    sleeper = other(catalog, grace_seconds=600)
    sleeper.head()
    create = sleeper._session.store.create
    taken: list[str] = []

    def slow(name: str, data: Any) -> bool:
        if not taken:
            table.append(rows(2))
            table.append(rows(3))
            collected(table)
            clock.now += 301
        taken.append(name)
        return create(name, data)

    sleeper._session.store.create = slow  # type: ignore[method-assign]
    assert sleeper.append(rows(9)).number == 4
    assert taken == [claim_name(FOLDER, 2), claim_name(FOLDER, 4)]
    for handle in (sleeper, table, other(catalog)):
        assert found(handle) == [1, 2, 3, 9]
        check_claims(handle.head().log, "a reader")
    table.checkpoint()
    collected(table)
    assert found(other(catalog)) == [1, 2, 3, 9], "the void claim was never bundled"


def test_upkeep_does_not_bundle_a_void_claim_below_the_boundary(clock: HandClock) -> None:
    """No bundle tells that its number is taken: only the boundary does."""
    catalog, table = started(3)
    collected(table)
    stray = other(catalog)._session.store
    stray.put(claim_name(FOLDER, 2), b"nobody's")
    tended = other(catalog, upkeep="synchronous", bundle_every=2)
    for n in range(4, 20):
        tended.append(rows(n))
    stray.delete([claim_name(FOLDER, 2)])
    assert found(other(catalog)) == list(range(1, 20))


def test_a_slow_claim_that_cannot_look_is_unknown(clock: HandClock) -> None:
    """It is stored: nobody may be told that nothing became visible."""
    catalog, _ = started(1)
    store = FaultyStore(catalog.store)
    late = Catalog(store, **{**QUICK, "grace_seconds": 600}).table("t")
    late.head()
    create = store.create

    def slow(name: str, data: Any) -> bool:
        clock.now += 301
        store.plan = lambda call: "error" if call.kind == "list" else None
        return create(name, data)

    store.create = slow  # type: ignore[method-assign]
    with pytest.raises(CommitUnknown, match="is stored"):
        late.append(rows(2))
    assert found(other(catalog)) == [1, 2]


def test_a_slow_claim_is_above_every_horizon() -> None:
    """Its stamp is later than the newest claim's, and no horizon is."""
    catalog, table = started(2)
    late = other(catalog)
    late.head()
    create = late._session.store.create

    def slow(name: str, data: Any) -> bool:
        table.expire(older_than=NOW)
        return create(name, data)

    late._session.store.create = slow  # type: ignore[method-assign]
    assert late.append(rows(3)).number == 3
    assert found(other(catalog)) == [1, 2, 3]


def test_a_collector_puts_the_boundary_that_a_dead_expirer_did_not() -> None:
    catalog, table = started(4)
    store = FaultyStore(catalog.store)
    store.plan = lambda call: "error" if call.kind == "put" and is_boundary(call.name) else None
    with pytest.raises(StoreUnavailable):
        Catalog(store, **QUICK).table("t").expire(keep_last=1)
    assert any(map(is_base, names(table)))
    assert table.collect().versions == 0, "nothing says yet which numbers are taken"
    assert boundary_name("", 3) in names(table)
    assert table.collect().versions == 4, "those of the base, and one that was bundled meanwhile"
    assert other(catalog).append(rows(5)).number == 5


def test_a_boundary_must_be_as_old_as_a_base() -> None:
    _, table = started(4, grace_seconds=600)
    table.expire(keep_last=1)
    assert table.collect().versions == 0
    assert sum(map(is_claim, names(table))) == 4


def test_a_cold_commit_finds_its_number_without_reading_the_log() -> None:
    catalog, table = started(5)
    table.checkpoint()
    collected(table)
    for n, gets in ((6, 1), (7, 2)):  # the hint, and where somebody came since, the newest
        fresh = Catalog(catalog.store.url, upkeep=False)
        cold = fresh.table("t")
        assert asked(fresh, partial(cold.append, rows(n))) == {"get": gets, "list": 1, "put": 1}
    assert found(other(catalog)) == [1, 2, 3, 4, 5, 6, 7]


def test_conflicts_with_what_was_folded_are_found() -> None:
    catalog, table = started(3)
    mine = other(catalog)
    meanwhile(
        mine,
        lambda: table.update("n = 2", {"x": 1}),
        lambda: table.append(rows(4)),
        lambda: collected(table),
    )
    with pytest.raises(CommitConflict) as caught:
        mine.update("n = 2", {"x": 2})
    with pytest.raises(Expired, match="was expired meanwhile"):
        _ = caught.value.sides[0].theirs
    meanwhile(mine, lambda: table.update("n = 2", {"x": 3}), lambda: table.append(rows(5)))
    assert mine.update("n = 1", {"x": 2}).number == 8


def test_disjoint_changes_are_rebased_past_what_was_folded() -> None:
    catalog, table = started(3)
    mine = other(catalog)
    meanwhile(mine, lambda: table.update("n = 2", {"x": 1}), lambda: collected_with_more(table))
    assert mine.update("n = 1", {"x": 2}).number == 6
    assert sorted(other(catalog).read(["n", "x"]).to_pydict()["x"]) == [0, 0, 1, 2]


def collected_with_more(table: Table) -> None:
    table.append(rows(10))
    collected(table)


def test_a_serializable_commit_that_cannot_be_judged_is_refused() -> None:
    catalog, table = started(3)
    mine = other(catalog, isolation="serializable")
    mine.read(filter="x = 0")
    meanwhile(mine, lambda: table.append(rows(4)), lambda: table.append(rows(5)), lambda: collected(table))
    with pytest.raises(Expired, match="read again"):
        mine.append(rows(6))
    assert found(other(catalog)) == [1, 2, 3, 4, 5]
    mine.read(filter="x = 0")
    mine.append(rows(6))  # read again, and repeated
    assert found(other(catalog)) == [1, 2, 3, 4, 5, 6]


def test_a_keyed_table() -> None:
    catalog = Catalog(f"memory://strict-{secrets.token_hex(6)}", **QUICK)
    table = catalog.create_table("t", SCHEMA, mode="cas", key=["n"])
    for value in range(6):
        table.upsert([{"n": value % 3, "x": value}])
    late = other(catalog)
    late.head()
    table.delete(keys=[1])
    meanwhile(late, lambda: table.upsert([{"n": 7, "x": 7}]), lambda: collected(table))
    with pytest.raises(CommitConflict):
        late.upsert([{"n": 7, "x": 8}])
    late.upsert([{"n": 8, "x": 8}])
    assert other(catalog).read().to_pydict()["n"] == [0, 2, 7, 8]
    assert other(catalog).verify("content").ok


def test_transactions_over_strict_tables_are_expired_with_their_decisions() -> None:
    catalog, table = started(1)
    catalog.create_table("u", SCHEMA, mode="cas")
    for n in range(3):
        with catalog.transaction() as both:
            both.append("t", rows(10 + n))
            both.append("u", rows(20 + n))
    assert table.expire(keep_last=1).versions == 3
    assert catalog.table("u").expire(older_than=NOW).versions == 2
    for name in ("t", "u"):
        catalog.table(name).collect()
    assert catalog.collect_transactions().decisions == 3
    catalog.collect_transactions()
    fresh = Catalog(catalog.store.url, **QUICK)
    assert fresh.read("t", ["n"])["n"].to_pylist() == [1, 10, 11, 12]
    assert fresh.read("u", ["n"])["n"].to_pylist() == [20, 21, 22]
    with fresh.transaction() as both:
        both.append("t", rows(30))
        both.append("u", rows(31))
    assert fresh.read("u", ["n"])["n"].to_pylist() == [20, 21, 22, 31]


def test_an_undecided_transaction_is_above_the_horizon() -> None:
    """Its claims hold their numbers until it is decided, whatever is expired below them."""
    catalog, _ = started(3)
    catalog.create_table("u", SCHEMA, mode="cas").append(rows(1))

    def then() -> None:
        other(catalog).expire(older_than=NOW)
        other(catalog).collect()

    _before_decision(catalog, then)
    with catalog.transaction() as both:
        both.append("t", rows(4))
        both.append("u", rows(2))
    assert found(other(catalog)) == [1, 2, 3, 4]
    assert Catalog(catalog.store.url).read("u", ["n"])["n"].to_pylist() == [1, 2]


def _before_decision(catalog: Catalog, then: Callable[[], None]) -> None:
    store, create = catalog.store, catalog.store.create

    def slow(name: str, data: Any) -> bool:
        if name.endswith(".decision"):
            then()
        return create(name, data)

    store.create = slow  # type: ignore[method-assign]


def test_a_table_that_was_switched() -> None:
    catalog, table = started(3)
    table.switch_mode("merge")
    table.append(rows(4))
    table.append(rows(5))
    assert table.expire(older_than=NOW).versions == 6
    table.collect()
    assert not len(table.history())
    fresh = other(catalog)
    assert fresh.mode == "merge"
    fresh.append(rows(6))
    switched = fresh.switch_mode("cas")
    assert switched is not None
    assert switched.number == 5
    assert fresh.append(rows(7)).number == 6
    fresh.expire(older_than=NOW)
    fresh.collect()
    assert found(other(catalog)) == [1, 2, 3, 4, 5, 6, 7]
    assert other(catalog).append(rows(8)).number == 7


def test_a_switch_is_stamped_above_every_horizon_that_was_proposed() -> None:
    """Whoever proposed before the switch was announced has listed before it, and may pass what is older."""
    catalog = Catalog(f"memory://strict-{secrets.token_hex(6)}", **QUICK)
    table = catalog.create_table("t", SCHEMA)
    table.append(rows(1))
    ahead = table.history()[-1].id.hlc + (5_000 << 16)
    propose(catalog.store, "t", 1, ahead)
    made = table.switch_mode("cas")
    assert made is not None
    assert made.id.hlc > ahead


def test_nothing_is_expired_while_a_switch_is_announced() -> None:
    catalog = Catalog(f"memory://strict-{secrets.token_hex(6)}", **QUICK)
    table = catalog.create_table("t", SCHEMA)
    for n in range(3):
        table.append(rows(n))
    put = catalog.store.put

    def proposing(name: str, data: Any) -> None:
        put(name, data)
        if "/horizons/" in name:
            announced = announcement(FOLDER, 1)
            put(announced.name, b"")

    catalog.store.put = proposing  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="being switched"):
        table.expire(keep_last=1)
    catalog.store.put = put  # type: ignore[method-assign]
    assert proposals(catalog.store, "t", 1) == []
    assert other(catalog).expire(keep_last=1).versions == 3, "whoever announced it is dead: it is settled"
    assert found(other(catalog)) == [0, 1, 2]


def test_branches_and_tags_hold_the_horizon() -> None:
    catalog, table = started(2)
    table.tag("two")
    branch = table.branch("b")
    table.append(rows(3))
    table.append(rows(4))
    assert table.expire(older_than=NOW).held_by == ("branch b", "tag two")
    table.collect()
    assert branch.append(rows(9)).number == 3
    assert found(Catalog(catalog.store.url).table("t", "b")) == [1, 2, 9]
    assert table.read(["n"], at="two")["n"].to_pylist() == [1, 2]


def test_a_missing_boundary_is_found_by_verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtcat.maintenance.collect.checkpoint", lambda _: None)
    catalog, table = started(4)
    collected(table)
    assert table.verify().ok
    catalog.store.delete([boundary_name(FOLDER, 3)])
    report = other(catalog).verify()
    assert [problem.name for problem in report.problems] == [boundary_name(FOLDER, 3)]


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
def test_cut_off_at_any_request_it_changes_nothing_and_the_next_one_finishes(fault: Fault) -> None:
    for n in range(1, 60):
        catalog, table = started(4)
        store = FaultyStore(catalog.store, from_nth(n, fault))
        done = False
        try:
            Catalog(store, **QUICK).table("t").expire(keep_last=2)
            done = True
        except (CommitUnknown, StoreUnavailable):
            done = False
        fresh = other(catalog)
        assert found(fresh) == [1, 2, 3, 4]
        assert fresh.append(rows(5)).number == 5
        fresh.expire(keep_last=1)
        for _ in range(2):
            fresh.collect()
        assert other(catalog).append(rows(6)).number == 6
        assert (found(table), history(other(catalog))) == ([1, 2, 3, 4, 5, 6], [5, 6])
        if done:
            break
    assert done
