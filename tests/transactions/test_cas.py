"""Transactions over tables in CAS mode: prepared claims and one decision, crashes at every step, leases."""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.cas.decisions import decide, read_decision
from crdtcat.errors import (
    CommitConflict,
    CommitContended,
    CommitUnknown,
    InvalidArgument,
    InvalidName,
    StoreUnavailable,
)
from crdtcat.protocol import is_claim
from crdtcat.protocol.names import is_decision
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.faulty import FaultyStore, from_nth
from crdtcat.testing.invariants import check_claims
from crdtcat.transaction import Transaction
from tests.cost.places import asked

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])


def lake(**options: Any) -> tuple[Catalog, str]:
    url = f"memory://cas-transactions-{secrets.token_hex(6)}"
    catalog = Catalog(url, **{"upkeep": False, "base_delay": 0.001, **options})
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode="cas").append([{"n": n, "x": 0} for n in range(4)])
    return catalog, url


def values(reader: Catalog | Transaction, table: str) -> list[int]:
    rows = sorted((row["n"], row["x"]) for row in reader.read(table).to_pylist())
    return [x for _, x in rows]


def numbers(catalog: Catalog, table: str) -> list[int]:
    head = catalog.table(table).head()
    check_claims(head.log, "a reader")
    return [version.number for version in head.history if version.number]


def both(catalog: Catalog, n: int, x: int) -> Transaction:
    with catalog.transaction() as tx:
        tx.update("a", f"n = {n}", {"x": x})
        tx.update("b", f"n = {n}", {"x": x})
    return tx


def test_all_tables_change_or_none_for_one_put_each_and_one_for_the_decision() -> None:
    catalog, url = lake()
    for name in ("a", "b"):
        catalog.table(name).head()
    cost = asked(catalog, lambda: both(catalog, 1, 7))
    assert cost == {"list": 2, "put": 3}
    for reader in (catalog, Catalog(url)):
        assert (values(reader, "a"), values(reader, "b")) == ([0, 7, 0, 0], [0, 7, 0, 0])
        assert numbers(reader, "a") == numbers(reader, "b") == [1, 2]
    assert catalog.table("a").append([{"n": 9, "x": 9}]).number == 3


def test_a_pinned_table_is_listed_again_only_if_a_later_one_has_something_new_above_it() -> None:
    """Whatever a table was read without is stamped above its newest claim, and so is what rests on it."""
    catalog, url = lake()
    for name in ("a", "b"):
        catalog.table(name).head()
    other = Catalog(url, upkeep=False)

    def read(*names: str) -> dict[str, int]:
        tx = catalog.transaction()
        return asked(catalog, lambda: [tx.table(name).head() for name in names])

    assert read("a", "b") == read("b", "a") == {"list": 2}
    other.table("a").append([{"n": 9, "x": 9}])
    assert read("a", "b") == {"list": 2, "get": 1}  # the new one is in the table that is read first
    other.table("b").append([{"n": 9, "x": 9}])
    assert read("a", "b") == {"list": 3, "get": 1}, "it may rest on what came into the first meanwhile"
    assert read("a", "b") == {"list": 2}, "it was known when this one began"
    other.table("b").append([{"n": 9, "x": 9}])
    assert asked(catalog, lambda: catalog.transaction(["a", "b"])) == {"list": 3, "get": 1}
    assert asked(catalog, lambda: catalog.transaction(["b", "a"])) == {"list": 2}


def test_a_table_that_was_switched_is_listed_again_whatever_its_newest_claim_is() -> None:
    """A straggler has no number, and may have any stamp."""
    url = f"memory://switched-{secrets.token_hex(6)}"
    catalog, other = (Catalog(url, upkeep=False, max_commit_delay_seconds=0.1) for _ in range(2))
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA).append([{"n": 1, "x": 0}])
        catalog.table(name).switch_mode("cas")
    other.table("b").append([{"n": 9, "x": 9}])
    other.table("a").append([{"n": 9, "x": 9}])  # above everything in b
    tx = catalog.transaction()
    assert asked(catalog, lambda: [tx.table(name).head() for name in ("a", "b")]) == {"list": 3, "get": 4}


def test_a_number_that_waits_for_a_decision_is_fetched_once() -> None:
    catalog, url = lake()
    patient = Catalog(url, upkeep=False, lease_seconds=0, base_delay=0)
    table = patient.table("a")
    table.head()
    prepared(catalog)
    # The number is refused, looked at, its decision asked for and made; then the next number.
    assert asked(patient, lambda: table.append([{"n": 9, "x": 9}])) == {"put": 3, "get": 2}


def test_several_changes_of_one_table_share_one_number() -> None:
    catalog, url = lake()
    with catalog.transaction() as tx:
        tx.append("a", [{"n": 50, "x": 1}])
        tx.update("a", "n = 50", {"x": 2})
        tx.delete("a", "n = 0")
        tx.table("a").add_column("y", pa.string())
        tx.update("a", "n = 50", {"y": "new"})
        assert values(tx, "a") == [0, 0, 0, 2]
    assert [version.number for version in tx.versions["a"]] == [0, 0, 0, 0, 2]
    assert Catalog(url).read("a", filter="n = 50").to_pylist() == [{"n": 50, "x": 2, "y": "new"}]
    assert catalog.table("a").verify("content").ok


def test_a_conflict_in_one_table_leaves_nothing_in_any() -> None:
    catalog, url = lake()
    tx = catalog.transaction()
    tx.update("a", "n = 1", {"x": 5})
    tx.update("b", "n = 1", {"x": 5})
    Catalog(url).table("b").update("n = 1", {"x": 9})
    with pytest.raises(CommitConflict, match="update-update"):
        tx.commit()
    cold = Catalog(url)
    assert (values(cold, "a"), values(cold, "b")) == ([0, 0, 0, 0], [0, 9, 0, 0])
    assert [version.operation for version in cold.table("a").history()] == ["append"]
    assert cold.table("a").append([{"n": 9, "x": 9}]).number == 3, "number 2 is taken for nothing"
    assert cold.table("a").verify().ok
    assert both(catalog, 2, 3).committed


def test_disjoint_commits_and_transactions_pass_each_other() -> None:
    catalog, url = lake()
    tx = catalog.transaction()
    tx.update("a", "n = 1", {"x": 5})
    tx.update("b", "n = 1", {"x": 5})
    both(Catalog(url, upkeep=False), 2, 6)
    Catalog(url).table("a").append([{"n": 9, "x": 9}])
    tx.commit()
    assert tx.versions["a"][-1].number == 4
    assert tx.versions["a"][-1].rebases > 0
    assert (values(catalog, "a"), values(catalog, "b")) == ([0, 5, 6, 0, 9], [0, 5, 6, 0])


def prepared(catalog: Catalog, n: int = 1, x: int = 5) -> int:
    """A transaction whose coordinator died before its decision; its name."""
    store = catalog.store
    create = store.put_if_absent
    names: list[str] = []

    def dies(name: str, data: Any) -> bool:
        if is_decision(name):
            names.append(name)
            raise SystemExit("killed before the decision")
        return create(name, data)

    store.put_if_absent = dies  # type: ignore[method-assign]
    try:
        with pytest.raises(SystemExit):
            both(catalog, n, x)
    finally:
        store.put_if_absent = create  # type: ignore[method-assign]
    return int(names[0].removeprefix("transactions/").removesuffix(".decision"), 16)


def test_a_prepared_transaction_is_seen_by_nobody_and_decided_by_whoever_waited_long_enough() -> None:
    catalog, url = lake()
    dead = prepared(catalog)
    patient = Catalog(url, upkeep=False, lease_seconds=0, base_delay=0)
    assert (values(patient, "a"), values(patient, "b")) == ([0] * 4, [0] * 4)
    assert read_decision(patient.store, dead) is None
    assert patient.table("a").update("n = 1", {"x": 8}).number == 3
    assert read_decision(patient.store, dead) is False
    assert patient.table("b").update("n = 1", {"x": 8}).number == 3
    for reader in (patient, Catalog(url)):
        assert (values(reader, "a"), values(reader, "b")) == ([0, 8, 0, 0], [0, 8, 0, 0])


def test_tables_are_claimed_in_one_order_whatever_order_they_were_used_in() -> None:
    """So that two transactions meet in the first table that they share, and not each in the other's last."""
    catalog, _ = lake()
    created: list[str] = []
    create = catalog.store.create

    def noted(name: str, data: Any) -> bool:
        created.append(name)
        return create(name, data)

    catalog.store.create = noted  # type: ignore[method-assign]
    with catalog.transaction() as tx:
        for name in ("b", "a"):
            tx.update(name, "n = 1", {"x": 7})
    assert [name.split("/")[1] for name in created if is_claim(name)] == ["a", "b"]


def test_within_its_lease_a_decision_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever finds a claim that is not decided asks again and again before it decides by itself."""
    catalog, url = lake()
    slow, pauses = prepared(catalog), []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            assert decide(catalog.store, slow, committed=True)

    patient = Catalog(url, upkeep=False, lease_seconds=600)
    monkeypatch.setattr("crdtcat.cas.claiming.time.sleep", sleep)
    assert patient.table("a").append([{"n": 9, "x": 9}]).number == 3
    assert len(pauses) == 3
    assert catalog.transaction_status(f"{slow:016x}") == "committed"


def test_a_coordinator_that_comes_too_late_finds_its_transaction_aborted() -> None:
    catalog, url = lake()
    bystander = Catalog(url, upkeep=False, lease_seconds=0, base_delay=0)
    create = catalog.store.put_if_absent

    def slow(name: str, data: Any) -> bool:
        if is_decision(name):
            bystander.table("b").append([{"n": 9, "x": 9}])
        return create(name, data)

    catalog.store.put_if_absent = slow  # type: ignore[method-assign]
    with pytest.raises(CommitContended, match="lease"):
        both(catalog, 1, 5)
    assert (values(Catalog(url), "a"), values(Catalog(url), "b")) == ([0] * 4, [0, 0, 0, 0, 9])


def test_its_status_can_be_observed_by_anybody_at_any_time() -> None:
    catalog, url = lake()
    other, create = Catalog(url, upkeep=False), catalog.store.put_if_absent
    seen: list[Any] = []

    def watched(name: str, data: Any) -> bool:
        if is_decision(name):
            seen.append((tx.status, other.transaction_status(str(tx.id))))
        return create(name, data)

    catalog.store.put_if_absent = watched  # type: ignore[method-assign]
    with catalog.transaction() as tx:
        tx.update("a", "n = 1", {"x": 5})
        assert (tx.status, tx.id) == ("open", None)
    assert seen == [("prepared", "prepared")]
    assert (tx.status, other.transaction_status(str(tx.id))) == ("committed", "committed")

    def late(name: str, data: Any) -> bool:
        if is_decision(name):
            Catalog(url, upkeep=False, lease_seconds=0, base_delay=0).table("a").append([{"n": 9, "x": 9}])
        return create(name, data)

    catalog.store.put_if_absent = late  # type: ignore[method-assign]
    tx = catalog.transaction()
    tx.update("a", "n = 1", {"x": 6})
    with pytest.raises(CommitContended):
        tx.commit()
    assert (tx.status, other.transaction_status(str(tx.id))) == ("aborted", "aborted")
    with pytest.raises(InvalidArgument, match="not the id"):
        other.transaction_status("perhaps")


def test_who_finds_a_transaction_that_was_committed_meanwhile_judges_it() -> None:
    catalog, url = lake()
    transaction = prepared(catalog)
    other = Catalog(url, upkeep=False, base_delay=0.001)
    stale = other.transaction()
    stale.update("a", "n = 1", {"x": 2})
    fine = other.transaction()
    fine.update("a", "n = 2", {"x": 2})
    assert decide(catalog.store, transaction, committed=True)
    with pytest.raises(CommitConflict, match="update-update"):
        stale.commit()
    fine.commit()
    assert values(catalog, "a") == [0, 5, 2, 0]
    assert values(catalog, "b") == [0, 5, 0, 0]


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
def test_dying_at_any_request_leaves_all_or_nothing_and_others_go_on(fault: Any) -> None:
    seen = set()
    for n in range(1, 60):
        inner = MemoryStore(f"memory://dying-{secrets.token_hex(6)}")
        setup = Catalog(inner, upkeep=False)
        for name in ("a", "b"):
            setup.create_table(name, SCHEMA, mode="cas").append([{"n": m, "x": 0} for m in range(4)])
        done = False
        try:
            both(Catalog(FaultyStore(inner, from_nth(n, fault)), upkeep=False, inline_bytes=0), 1, 5)
            done = True
        except (StoreUnavailable, CommitUnknown):
            done = False
        before = (values(Catalog(inner), "a"), values(Catalog(inner), "b"))
        assert before in (([0] * 4, [0] * 4), ([0, 5, 0, 0], [0, 5, 0, 0]))
        assert not done or before[0][1] == 5
        seen.add(before[0][1])
        heir = Catalog(inner, upkeep=False, lease_seconds=0, base_delay=0)
        both(heir, 2, 6)
        after = (values(Catalog(inner), "a"), values(Catalog(inner), "b"))
        assert after == tuple([*table[:2], 6, 0] for table in before), (
            "what was visible stays, whatever was not"
        )
        for name in ("a", "b"):
            check_claims(Catalog(inner).table(name).head().log, "a reader")
        if done:
            break
    assert done
    assert n > 8
    assert seen == {0, 5}


def test_bundles_hold_committed_and_aborted_claims_and_nothing_undecided() -> None:
    catalog, url = lake(grace_seconds=0)
    both(catalog, 1, 5)
    dead = prepared(catalog, 2)
    table = catalog.table("a")
    table.checkpoint()
    table.collect()
    left = [item.name for item in catalog.store.list("tables/a/main/") if is_claim(item.name)]
    assert len(left) == 1, "the undecided one"
    assert decide(catalog.store, dead, committed=False) is False
    assert table.append([{"n": 9, "x": 9}]).number == 4
    table.checkpoint()
    table.collect()
    assert not [item.name for item in catalog.store.list("tables/a/main/") if is_claim(item.name)]
    cold = Catalog(url)
    assert values(cold, "a") == [0, 5, 0, 0, 9]
    assert cold.table("a").append([{"n": 10, "x": 1}]).number == 5
    assert cold.table("a").verify().ok


def test_money_moved_by_many_threads_is_all_there_at_any_moment() -> None:
    """No lost update, no read skew: every transfer reads, then writes; who loses begins again."""
    catalog, url = lake()
    for name in ("a", "b"):
        catalog.table(name).update("n >= 0", {"x": 100})
    stop, wrong, failures = threading.Event(), [], []

    def balance(tx: Transaction, table: str, n: int) -> int:
        return int(tx.read(table, filter=f"n = {n}")["x"][0].as_py())

    def move(seed: int) -> None:
        chance, mine = random.Random(seed), Catalog(url, upkeep=False, base_delay=0.001)
        done = 0
        while done < 6:
            n, m, amount = chance.randrange(4), chance.randrange(4), chance.randrange(1, 20)
            tx = mine.transaction(["a", "b"])
            tx.update("a", f"n = {n}", {"x": balance(tx, "a", n) - amount})
            tx.update("b", f"n = {m}", {"x": balance(tx, "b", m) + amount})
            try:
                tx.commit()
                done += 1
            except (CommitConflict, CommitContended):
                continue

    def audit() -> None:
        reader = Catalog(url, upkeep=False)
        while not stop.is_set():
            with reader.transaction() as tx:
                total = sum(values(tx, "a")) + sum(values(tx, "b"))
                if total != 800:
                    wrong.append(total)

    def guarded(work: Callable[..., None], *args: Any) -> Callable[[], None]:
        def run() -> None:
            try:
                work(*args)
            except BaseException as error:  # noqa: BLE001
                failures.append(error)

        return run

    movers = [threading.Thread(target=guarded(move, seed)) for seed in range(4)]
    auditor = threading.Thread(target=guarded(audit))
    for thread in (*movers, auditor):
        thread.start()
    for thread in movers:
        thread.join()
    stop.set()
    auditor.join()
    assert (failures, wrong) == ([], [])
    assert sum(values(catalog, "a")) + sum(values(catalog, "b")) == 800
    numbers(catalog, "a")


def test_tables_of_both_modes_are_refused_in_one_transaction() -> None:
    catalog, _ = lake()
    catalog.create_table("merged", SCHEMA)
    with pytest.raises(InvalidArgument, match="mode"):
        catalog.transaction(["a", "merged"])


def test_an_abort_of_a_cas_transaction_makes_no_request() -> None:
    catalog, _ = lake()
    tx = catalog.transaction()
    tx.update("a", "n = 1", {"x": 5})
    assert asked(catalog, tx.abort) == {}
    assert values(catalog, "a") == [0] * 4


@pytest.mark.parametrize("tables", [3, "t", None, [3], [["t"]], [None], [b"t"], [""]])
def test_tables_are_named_in_a_list(tables: Any) -> None:
    with pytest.raises((InvalidArgument, InvalidName)):
        Catalog(f"memory://named-{secrets.token_hex(6)}").transaction(tables)
