"""Expiry of tables that took part in transactions in merge mode: a transaction counts in all or in none."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.errors import AccessDenied, CapabilityMissing, CommitUnknown, Expired, StoreUnavailable
from crdtcat.lifecycle.closing import close
from crdtcat.protocol import is_version
from crdtcat.protocol.names import TRANSACTIONS, closed_name, closing_name, closing_until, transaction_of
from crdtcat.store.memory import MemoryStore
from crdtcat.table import Table
from crdtcat.testing.faulty import Fault, FaultyStore, from_nth
from tests.bounds import bounded
from tests.catalog.lakes import another, lake
from tests.catalog.test_races import Stage
from tests.cost.places import asked
from tests.expiry.test_races import SlowStore

NOW = timedelta(0)
QUICK: dict[str, Any] = {"upkeep": False, "max_commit_delay_seconds": 0, "grace_seconds": 0}
FAR = 2**63


def two(**options: Any) -> Catalog:
    catalog = lake(**{**QUICK, **options})
    for name in ("a", "b"):
        catalog.create_table(name)
    return catalog


def both(catalog: Catalog, number: int) -> None:
    with catalog.transaction() as tx:
        tx.append("a", [{"n": number, "m": 0}])
        tx.append("b", [{"n": number, "m": 0}])


def numbers(catalog: Catalog, table: str, **options: Any) -> list[int]:
    found: list[int] = another(catalog, **QUICK).read(table, **options).column("n").to_pylist()
    return sorted(found)


def later(catalog: Catalog) -> None:
    """A commit that no horizon of before passes."""
    time.sleep(0.002)
    for name in ("a", "b"):
        catalog.commit(name, [{"n": -1, "m": 0}])


def transactions(catalog: Catalog) -> list[str]:
    return [item.name for item in catalog.store.list(TRANSACTIONS) if is_version(item.name)]


def test_history_goes_and_both_tables_stay() -> None:
    catalog = two()
    for number in range(4):
        both(catalog, number)
    assert catalog.table("a").expire(older_than=NOW).versions == 4
    assert numbers(catalog, "a") == numbers(catalog, "b") == [0, 1, 2, 3]
    assert [len(another(catalog).table(name).history()) for name in ("a", "b")] == [0, 4]
    both(catalog, 4)
    assert catalog.table("b").expire(keep_last=1).versions == 4
    assert numbers(catalog, "a") == numbers(catalog, "b") == [0, 1, 2, 3, 4]
    assert all(catalog.table(name).verify().ok for name in ("a", "b"))


def test_files_of_transactions_are_collected_behind_bases_and_bundles() -> None:
    catalog = two()
    for number in range(3):
        both(catalog, number)
    catalog.table("a").expire(older_than=NOW)
    catalog.collect_transactions()
    catalog.collect_transactions()
    assert transactions(catalog) == []
    for name in ("a", "b"):
        catalog.table(name).checkpoint()
        catalog.table(name).collect()
    assert numbers(catalog, "a") == numbers(catalog, "b") == [0, 1, 2]


def test_what_it_asks_of_the_store() -> None:
    """A transaction's time is closed by 2 PUTs, 2 LISTs, a GET and a DELETE; then the log is read again."""
    catalog = two()
    both(catalog, 0)
    catalog.read("a")
    plain = lake(**QUICK)
    plain.commit("t", [{"n": 0, "m": 0}])
    plain.read("t")
    closing = asked(catalog, lambda: catalog.table("a").expire(older_than=NOW))
    without = asked(plain, lambda: plain.table("t").expire(older_than=NOW))
    more = {kind: closing.get(kind, 0) - without.get(kind, 0) for kind in ("put", "get", "list", "delete")}
    # Each of three refreshes lists `transactions/`, too; one more lists both, and reads what was settled.
    assert more == {"put": 2, "get": 2, "list": 2 + 3 + 2, "delete": 1}


class Held(MemoryStore):
    """A store on which the next transaction's PUT is not answered before something else was done."""

    meanwhile: Callable[[], object] | None = None
    dies = False

    def _put(self, name: str, data: Any) -> None:
        if name.startswith(TRANSACTIONS) and is_version(name) and self.meanwhile is not None:
            do, self.meanwhile = self.meanwhile, None
            time.sleep(0.002)
            do()
            super()._put(name, data)
            if self.dies:
                raise RuntimeError("killed")
            return
        super()._put(name, data)


def held(meanwhile: Callable[[Catalog], object], *, dies: bool = False) -> Catalog:
    """A catalog on which a slow transaction with the number 7 was committed."""
    url = f"memory://closing-{secrets.token_hex(6)}"
    catalog = Catalog(Held(url), **QUICK)
    for name in ("a", "b"):
        catalog.create_table(name)
    both(catalog, 1)
    other = Catalog(url, **QUICK)
    store = catalog.store
    assert isinstance(store, Held)
    store.meanwhile, store.dies = (lambda: meanwhile(other)), dies
    with suppress(CommitUnknown):
        both(catalog, 7)
    return other


def expired(other: Catalog) -> None:
    later(other)
    other.table("a").expire(older_than=NOW)


def test_a_slow_transaction_that_was_passed_by_is_made_again() -> None:
    other = held(expired)
    assert numbers(other, "a") == numbers(other, "b") == [-1, 1, 7]
    assert len(transactions(other)) == 3  # the file that was passed by counts for nothing
    other.collect_transactions()
    assert len(transactions(other)) <= 2
    assert numbers(other, "a") == numbers(other, "b") == [-1, 1, 7]


def test_one_that_was_passed_by_and_whose_author_died_is_in_no_table() -> None:
    other = held(expired, dies=True)
    assert len(transactions(other)) == 2
    assert numbers(other, "a") == numbers(other, "b") == [-1, 1]
    for name in ("a", "b"):
        other.table(name).checkpoint()
        assert other.table(name).verify().ok
    other.table("b").expire(older_than=NOW)
    other.collect_transactions()
    assert numbers(other, "a") == numbers(other, "b") == [-1, 1]
    assert transactions(other) == []


def test_a_reader_that_had_taken_it_in_lets_it_go() -> None:
    """It listed the closing, and may not write; somebody else settles it."""
    other = held(
        lambda other: other.store.put(closing_name(FAR, bytes(8)), b""), dies=True
    )  # an expirer that said so and died; the transaction came later
    reader = Catalog(Reading(other.store.url), **QUICK)
    assert numbers_of(reader.table("b")) == [1, 7]
    with pytest.raises(AccessDenied, match="settled"):
        reader.table("b").tag("mine")
    with pytest.raises(AccessDenied, match="settled"):
        reader.table("b").checkpoint()
    hidden = transactions(other)[-1]
    data = other.store.get(hidden)
    other.store.delete([hidden])  # as if it were stored only after somebody closed it
    close(other.store, FAR)
    other.store.put(hidden, data)
    assert numbers_of(reader.table("b")) == [1] == numbers(other, "a")
    assert reader.table("b").verify().ok


class Reading(MemoryStore):
    """A store to which this handle may not write."""

    def _put(self, name: str, data: Any) -> None:
        raise AccessDenied(f"{name}: read only, {len(data)} bytes")


def numbers_of(table: Table) -> list[int]:
    found: list[int] = table.read().column("n").to_pylist()
    return sorted(found)


def test_whoever_reads_what_a_dead_expirer_was_closing_settles_it() -> None:
    other = held(lambda other: other.store.put(closing_name(FAR, bytes(8)), b""), dies=True)
    assert numbers(other, "b") == [1, 7]
    names = [item.name for item in other.store.list(TRANSACTIONS)]
    assert names[-1] == closed_name(1)
    assert not any(closing_until(name) for name in names)
    assert numbers(other, "a") == [1, 7]


def test_a_closing_is_no_matter_to_tables_that_have_no_such_transaction() -> None:
    catalog = two()
    both(catalog, 1)
    catalog.store.put(closing_name(1, bytes(8)), b"")  # below all of them
    assert numbers(catalog, "a") == [1]
    assert any(closing_until(item.name) for item in catalog.store.list(TRANSACTIONS))


def test_a_file_has_the_least_time_of_its_versions() -> None:
    catalog = two()
    with catalog.transaction() as tx:
        for number in range(3):
            tx.append("a", [{"n": number, "m": 0}])
        tx.append("b", [{"n": 0, "m": 0}])
    (name,) = transactions(catalog)
    times = [version.id.hlc for made in tx.versions.values() for version in made]
    assert transaction_of(name)[0] == min(times)


def test_closing_twice_changes_nothing_and_times_rise() -> None:
    catalog = two()
    both(catalog, 1)
    close(catalog.store, FAR)
    close(catalog.store, FAR - 1)
    assert [item.name for item in catalog.store.list(TRANSACTIONS)][1:] == [closed_name(1)]
    close(catalog.store, FAR + 1)
    assert [item.name for item in catalog.store.list(TRANSACTIONS)][1:] == [closed_name(2)]
    assert numbers(catalog, "a") == numbers(catalog, "b") == [1]


def test_a_store_that_lists_in_no_order_is_refused() -> None:
    catalog = two()
    both(catalog, 1)
    catalog.store.lists_in_order = False
    with pytest.raises(CapabilityMissing, match="in order"):
        catalog.table("a").expire(older_than=NOW)


def test_tags_and_branches_hold_the_horizon_of_their_own_table_only() -> None:
    catalog = two()
    both(catalog, 1)
    catalog.table("a").tag("one")
    branch = catalog.table("a").branch("side")
    both(catalog, 2)
    branch.append([{"n": 3, "m": 0}])
    assert catalog.table("a").expire(older_than=NOW).held_by == ("branch side", "tag one")
    assert catalog.table("b").expire(older_than=NOW).versions == 2
    assert numbers(catalog, "a", at="one") == [1]
    assert numbers(catalog, "a", branch="side") == [1, 3]
    assert numbers(catalog, "a") == numbers(catalog, "b") == [1, 2]


def test_transactions_over_branches_are_closed_with_the_others() -> None:
    catalog = two()
    catalog.commit("a", [{"n": 0, "m": 0}])
    catalog.table("a").branch("side")
    with catalog.transaction() as tx:
        tx.table("a", "side").append([{"n": 1, "m": 0}])
        tx.append("b", [{"n": 1, "m": 0}])
    later(catalog)
    catalog.table("b").expire(older_than=NOW)
    catalog.collect_transactions()
    catalog.collect_transactions()
    assert transactions(catalog) == []
    assert numbers(catalog, "a", branch="side") == [0, 1]
    assert numbers(catalog, "b") == [-1, 1]


STEPS = (
    "both",
    "both",
    "a",
    "b",
    "update",
    "expire a",
    "expire b",
    "compact",
    "bundle",
    "collect",
    "garbage",
)


@settings(max_examples=bounded(200, 20), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.booleans()), max_size=14))
def test_nothing_is_different_from_tables_that_are_never_expired(drawn: list[tuple[str, bool]]) -> None:
    tended, left = two(), two()
    for catalog in (tended, left):
        both(catalog, -5)
    for number, (step, fresh) in enumerate(drawn):
        for catalog in (tended, left):
            _do(another(catalog, **QUICK) if fresh else catalog, step, number, tend=catalog is tended)
        for name in ("a", "b"):
            assert _value(tended, name) == _value(left, name)


def _value(catalog: Catalog, name: str) -> tuple[Any, ...]:
    head = another(catalog, **QUICK).table(name).head()
    return head.row_count, head.version, numbers(catalog, name), dict(head.properties)


def _do(catalog: Catalog, step: str, number: int, *, tend: bool) -> None:
    match step.split():
        case ["both"]:
            both(catalog, number)
        case ["update"]:
            with catalog.transaction() as tx:
                tx.update("a", f"n % 2 = {number % 2}", {"n": number * 100})
                tx.delete("b", f"n % 3 = {number % 3}")
        case ["a" | "b" as name]:
            catalog.commit(name, [{"n": number, "m": 0}])
        case ["expire", name] if tend:
            catalog.table(name).expire(keep_last=1 + number % 2)
        case ["compact"] if tend:
            catalog.table("a").compact()
        case ["bundle"] if tend:
            catalog.table("b").checkpoint()
        case ["collect"] if tend:
            catalog.collect_transactions()
            catalog.table("a").collect()
            catalog.table("b").collect()
        case ["garbage"] if tend:
            catalog.collect(grace=0)


class Scene:
    """Two tables that several use at once, request by request, without any delay allowed for commits."""

    def __init__(self, seed: int) -> None:
        self.stage = Stage(seed)
        self.url = f"memory://closing-race-{secrets.token_hex(6)}"
        self.acknowledged: set[int] = set()
        self.unknown: set[int] = set()
        setup = self.catalog()
        for name in ("a", "b"):
            setup.create_table(name)
        both(setup, 0)
        self.acknowledged.add(0)

    def catalog(self) -> Catalog:
        store = SlowStore(self.url)
        store.stage = self.stage
        return Catalog(store, **QUICK)

    def writer(self, *values: int, change: bool = False) -> Callable[[], None]:
        def write() -> None:
            catalog = self.catalog()
            for number in values:
                try:
                    with catalog.transaction() as tx:
                        if change:  # rests on what was read
                            tx.update("a", "n >= 0", {"m": number})
                        tx.append("a", [{"n": number, "m": 0}])
                        tx.append("b", [{"n": number, "m": 0}])
                except CommitUnknown:
                    self.unknown.add(number)
                else:
                    self.acknowledged.add(number)

        return write

    def expirer(self, name: str) -> Callable[[], None]:
        def expire() -> None:
            with suppress(StoreUnavailable):
                self.catalog().table(name).expire(older_than=NOW)

        return expire

    def keeper(self) -> None:
        catalog = self.catalog()
        for name in ("b", "a"):
            catalog.table(name).checkpoint()
        with suppress(StoreUnavailable):  # files vanish without grace
            catalog.collect_transactions()

    def reader(self) -> None:
        """Whoever reads both at once sees a transaction in both or in neither."""
        with suppress(StoreUnavailable), self.catalog().transaction(["a", "b"]) as tx:
            seen = [set(tx.read(name).column("n").to_pylist()) for name in ("a", "b")]
            assert seen[0] == seen[1]

    def check(self) -> None:
        fresh = Catalog(self.url, **QUICK)
        found = [fresh.read(name).column("n").to_pylist() for name in ("a", "b")]
        assert sorted(found[0]) == sorted(found[1]), "half of a transaction"
        assert len(found[0]) == len(set(found[0])), "a transaction counts twice"
        assert self.acknowledged <= set(found[0]) <= self.acknowledged | self.unknown
        for name in ("a", "b"):
            assert fresh.table(name).verify().ok


seeds = st.integers(0, 2**32)


@settings(max_examples=bounded(300, 40), deadline=None)
@given(seeds)
def test_no_half_of_a_transaction_whoever_expires_beside_it(seed: int) -> None:
    scene = Scene(seed)
    scene.stage.run(
        [scene.writer(10, 11), scene.writer(20, change=True), scene.expirer("a"), scene.expirer("b")]
    )
    scene.check()
    scene.expirer("a")()
    scene.keeper()
    scene.check()


@settings(max_examples=bounded(300, 40), deadline=None)
@given(seeds)
def test_beside_bundlers_collectors_and_readers_of_both(seed: int) -> None:
    scene = Scene(seed)
    scene.stage.run([scene.writer(10), scene.expirer("a"), scene.keeper, scene.reader, scene.expirer("b")])
    scene.check()
    scene.keeper()
    scene.check()


@settings(max_examples=bounded(150, 15), deadline=None)
@given(seeds)
def test_expirers_and_authors_that_are_killed_anywhere(seed: int) -> None:
    """Each is stopped before one of its requests, and never goes on; what is left is settled by others."""
    scene, chosen = Scene(seed), random.Random(seed)

    def killed(work: Callable[[Catalog], object], numbers: set[int]) -> Callable[[], None]:
        def run() -> None:
            store = Dying(scene.url)
            store.stage, store.left = scene.stage, chosen.randrange(30)
            with suppress(_Killed, StoreUnavailable):
                work(Catalog(store, **QUICK))
                return
            scene.unknown.update(numbers)

        return run

    scene.stage.run(
        [
            killed(lambda catalog: both(catalog, 30), {30}),
            killed(lambda catalog: catalog.table("a").expire(older_than=NOW), set()),
            killed(lambda catalog: catalog.table("b").expire(older_than=NOW), set()),
            scene.writer(10),
        ]
    )
    scene.unknown.add(30)
    scene.check()
    scene.expirer("b")()
    scene.check()


class _Killed(BaseException):
    """Nothing catches it on the way."""


class Dying(SlowStore):
    """A store whose user is gone after some requests."""

    left = 0

    def _attempt(self, kind: Any, name: str, call: Callable[[], Any]) -> Any:
        self.left -= 1
        if self.left < 0:
            raise _Killed
        return super()._attempt(kind, name, call)


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
def test_cut_off_at_any_request_it_changes_nothing_and_the_next_one_finishes(fault: Fault) -> None:
    done = False
    for n in range(1, 80):
        catalog = two()
        for number in range(3):
            both(catalog, number)
        with suppress(StoreUnavailable):
            cut = Catalog(FaultyStore(catalog.store, from_nth(n, fault)), **QUICK)
            cut.table("a").expire(older_than=NOW)
            done = True
        assert numbers(catalog, "a") == numbers(catalog, "b") == [0, 1, 2]
        both(catalog, 3)
        another(catalog, **QUICK).table("b").expire(older_than=NOW)
        another(catalog, **QUICK).table("a").expire(older_than=NOW)
        for _ in range(2):
            catalog.collect_transactions()
        assert numbers(catalog, "a") == numbers(catalog, "b") == [0, 1, 2, 3]
        listed = [item.name for item in catalog.store.list(TRANSACTIONS)]
        assert [name for name in listed if closing_until(name) or is_version(name)] == []
        if done:
            break
    assert done


def test_a_snapshot_of_before_the_horizon_is_expired() -> None:
    catalog = two()
    both(catalog, 1)
    token = str(catalog.table("a").head().snapshot)
    both(catalog, 2)
    catalog.table("a").expire(older_than=NOW)
    with pytest.raises(Expired):
        catalog.read("a", at=token)
