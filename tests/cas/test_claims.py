"""CAS tables end to end: lost answers, old parents, hints, who may use it at all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import (
    AlreadyExists,
    CapabilityMissing,
    CommitContended,
    CommitUnknown,
    Corrupt,
    InvalidArgument,
    NoSnapshots,
    NotFound,
)
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.format.version import decode_version
from crdtcat.protocol import bundle_number, claim_name, is_bundle, is_claim
from crdtcat.protocol.names import hint_name
from crdtcat.store.memory import MemoryStore
from crdtcat.table import Table
from crdtcat.testing.faulty import Fault, FaultyStore, Plan
from crdtcat.testing.invariants import check_claims
from tests.cas.scenes import SCHEMA, in_threads, lake, rows, two, values
from tests.clocks import HandClock
from tests.cost.places import asked

FOLDER = "tables/t/main/"


def numbers(table: Table) -> list[int]:
    return [version.number for version in table.history()]


def names(table: Table) -> list[str]:
    return [item.name.removeprefix(FOLDER) for item in table._session.store.list(FOLDER)]


def failing_puts(fault: Fault) -> Plan:
    return lambda call: fault if call.kind == "put" else None


def test_a_conditional_put_repeated_by_the_store_does_not_lose_to_itself() -> None:
    """Trap: the first try is stored, its answer is lost, the second is refused by the first (hudi#14373)."""
    inner = MemoryStore("memory://lost-to-itself")
    Catalog(inner).create_table("t", SCHEMA, mode="cas")
    faults: tuple[Fault, ...] = ("transient_lost_answer", "lost_answer")
    for fault in faults:
        store = FaultyStore(inner)
        table = Catalog(store, upkeep=False).table("t")
        before = len(table.history())
        store.plan = failing_puts(fault)
        done = table.append(rows("mo", before))
        assert (done.rebases, done.number) == (0, before + 1)
        store.plan = None
        assert len(table.history()) == before + 1


def test_no_answer_at_all_is_unknown_and_the_writer_starts_anew() -> None:
    store = FaultyStore(MemoryStore("memory://no-answer"))
    table = Catalog(store, upkeep=False).create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 1))
    writer = table._session.writer.id
    store.plan = failing_puts("error")
    with pytest.raises(CommitUnknown, match="history"):
        table.append(rows("mo", 2))
    store.plan = None
    assert table.append(rows("mo", 3)).number == 2
    assert table._session.writer.id != writer
    assert values(table) == [(1, 0), (3, 0)]


def collected(other: Table) -> None:
    """Bundle everything and delete what is covered, at once."""
    other.checkpoint()
    other.collect()


def test_a_handle_that_slept_does_not_take_a_number_again_that_was_collected(clock: HandClock) -> None:
    """Trap: create-if-absent forgets a name once it is collected (slatedb RFC 0026)."""
    catalog, url = lake()
    sleeper = catalog.create_table("t", SCHEMA, mode="cas")
    sleeper.append(rows("mo", 1))
    other = Catalog(url, upkeep=False, grace_seconds=0).table("t")
    for n in range(3):
        other.append(rows("mo", 2 + n))
    collected(other)
    assert [name for name in names(other) if is_claim(name)] == [], "the name is free again"
    clock.now += 301
    done = sleeper.append(rows("mo", 9))
    assert done.number == 5
    assert [n for n, _ in values(other)] == [1, 2, 3, 4, 9]
    check_claims(other.head().log, "other")


def test_a_put_that_took_half_a_grace_period_is_looked_up_and_begins_again_if_void(clock: HandClock) -> None:
    catalog, url = lake()
    sleeper = catalog.create_table("t", SCHEMA, mode="cas")
    sleeper.append(rows("mo", 1))
    other = Catalog(url, upkeep=False, grace_seconds=0).table("t")
    store, create = catalog.store, catalog.store.create
    taken: list[str] = []

    def slow(name: str, data: Any) -> bool:
        if not taken:
            other.append(rows("mo", 2))
            collected(other)
            clock.now += 301
        taken.append(name)
        return create(name, data)

    store.create = slow  # type: ignore[method-assign]
    done = sleeper.append(rows("mo", 9))
    assert taken == [claim_name(FOLDER, 2), claim_name(FOLDER, 3)]
    assert done.number == 3
    for table in (sleeper, other, Catalog(url).table("t")):
        assert [n for n, _ in values(table)] == [1, 2, 9]
        check_claims(table.head().log, "a reader")
    collected(other)
    assert [n for n, _ in values(Catalog(url).table("t"))] == [1, 2, 9], "the void claim was never bundled"


def test_a_slow_put_that_stands_is_not_repeated(clock: HandClock) -> None:
    catalog, _ = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 1))
    create = catalog.store.create

    def slow(name: str, data: Any) -> bool:
        clock.now += 301
        return create(name, data)

    catalog.store.create = slow  # type: ignore[method-assign]
    cost = asked(catalog, lambda: table.append(rows("mo", 2)))
    assert cost == {"put": 1, "list": 1}
    assert numbers(table) == [1, 2]


def test_bundles_say_which_numbers_are_taken_and_a_cold_reader_agrees() -> None:
    catalog, url = lake(grace_seconds=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    for n in range(5):
        table.append(rows("mo", n))
    collected(table)
    (bundle,) = [name for name in names(table) if is_bundle(name)]
    assert bundle_number(bundle) == 5
    cold = Catalog(url).table("t")
    assert numbers(cold) == [1, 2, 3, 4, 5]
    assert cold.head().snapshot == table.head().snapshot
    assert cold.append(rows("mo", 5)).number == 6


OTHERS = "0000000000000001-0000000000000001-00000001-" + "00" * 16
"""The id of a version of somewhere else, and a bundle that has it."""
OTHER_BUNDLE = f"z00000001-{'00' * 16}-{3:016d}.b"


@pytest.mark.parametrize("came_since", [0, 2])
@pytest.mark.parametrize("is_collected", [False, True])
@pytest.mark.parametrize(
    "said",
    [
        b"", b"nonsense", b'{"format":1,"number":99,"id":"x"}\n', b"[1]",
        {}, {"number": 3, "id": 5}, {"number": "3"}, {"number": 3.0}, {"number": [3]}, {"number": 0},
        {"number": -3}, {"number": 2}, {"number": 99}, {"number": 10**30}, {"number": float("inf")},
        {"number": 4, "id": OTHERS}, {"id": OTHERS, "bundle": OTHER_BUNDLE}, {"id": OTHERS, "bundle": ""},
        {"id": "nobody's"}, {"bundle": 7},
    ],
    ids=str,
)  # fmt: skip
def test_a_hint_is_advice_and_never_proof(said: Any, came_since: int, *, is_collected: bool) -> None:
    """Damaged, or whole and wrong: it is passed over, and the commit follows what the log has."""
    catalog, url = lake(grace_seconds=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    for n in range(3):
        table.append(rows("mo", n))
    collected(table) if is_collected else table.checkpoint()
    hint = unseal_json(catalog.store.get(hint_name(FOLDER)), "hint")
    catalog.store.put(hint_name(FOLDER), said if isinstance(said, bytes) else seal_json({**hint, **said}))
    for n in range(came_since):
        table.append(rows("mo", 3 + n))
    done = Catalog(url, upkeep=False).table("t").append(rows("mo", 9))
    assert done.number == 4 + came_since
    cold = Catalog(url, upkeep=False).table("t")
    assert [n for n, _ in values(cold)] == [*range(3 + came_since), 9]
    check_claims(cold.head().log, "a reader")


def test_a_hint_from_the_future_is_passed_over() -> None:
    """Of a log that was put back to an earlier state without it: its number is taken again, by another."""
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    for n in range(4):
        table.append(rows("mo", n))
    table.checkpoint()
    hint = catalog.store.get(hint_name(FOLDER))
    bundles = [FOLDER + name for name in names(table) if is_bundle(name)]
    catalog.store.delete([claim_name(FOLDER, 4), *bundles])
    for n in (4, 5):
        assert catalog.store.get(hint_name(FOLDER)) == hint
        assert Catalog(url, upkeep=False).table("t").append(rows("mo", n + 5)).number == n
    Catalog(url, upkeep=False).table("t").checkpoint()
    catalog.store.put(hint_name(FOLDER), hint)
    assert Catalog(url, upkeep=False).table("t").append(rows("mo", 11)).number == 6
    assert [n for n, _ in values(Catalog(url, upkeep=False).table("t"))] == [0, 1, 2, 9, 10, 11]


def test_by_the_hint_no_number_is_taken_that_a_bundle_has() -> None:
    """The collector has deleted the last ones of a bundle's claims, and not yet the first."""
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    table.checkpoint()
    hint = catalog.store.get(hint_name(FOLDER))
    for n in (1, 2, 3):
        table.append(rows("mo", n))
    table.checkpoint()
    catalog.store.put(hint_name(FOLDER), hint)
    catalog.store.delete([claim_name(FOLDER, n) for n in (3, 4)])
    assert Catalog(url, upkeep=False).table("t").append(rows("mo", 4)).number == 5
    assert numbers(Catalog(url, upkeep=False).table("t")) == [1, 2, 3, 4, 5]


def test_by_the_hint_nothing_is_claimed_above_a_gap() -> None:
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    table.checkpoint()
    for n in (1, 2, 3):
        table.append(rows("mo", n))
    catalog.store.delete([claim_name(FOLDER, 3)])
    with pytest.raises(Corrupt):
        Catalog(url, upkeep=False).table("t").append(rows("mo", 4))


@pytest.mark.parametrize("decision", ["open", "committed", "aborted"])
def test_by_the_hint_nothing_is_claimed_above_what_waits_for_a_decision(decision: str) -> None:
    """The newest claim is a transaction's: what it means, and which id is to be followed, is in the log."""
    catalog, url = lake(lease_seconds=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    table.checkpoint()
    other = Catalog(
        FaultyStore(MemoryStore(url), _no_decision if decision != "committed" else None), upkeep=False
    )
    transaction = other.transaction()
    transaction.append("t", rows("mo", 1))
    if decision == "committed":
        transaction.commit()
    else:
        with pytest.raises(CommitUnknown):
            transaction.commit()
    if decision == "aborted":
        table.append(rows("mo", 2))
        catalog.store.delete([claim_name(FOLDER, 3)])
    before = [0, 1] if decision == "committed" else [0]
    assert Catalog(url, upkeep=False, lease_seconds=0).table("t").append(rows("mo", 9)).number == 3
    assert [n for n, _ in values(Catalog(url, upkeep=False).table("t"))] == [*before, 9]


def test_by_the_hint_an_aborted_claim_is_not_followed() -> None:
    """It took its number; what the next one follows is the claim before it."""
    catalog, url = lake(lease_seconds=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    first = table.append(rows("mo", 0))
    other = Catalog(FaultyStore(MemoryStore(url), _no_decision), upkeep=False)
    transaction = other.transaction()
    transaction.append("t", rows("mo", 1))
    with pytest.raises(CommitUnknown):
        transaction.commit()
    with pytest.raises(CommitUnknown):  # it is decided, and nothing is claimed above it
        Catalog(FaultyStore(MemoryStore(url), _no_claim), upkeep=False, lease_seconds=0).table("t").append([])
    table.checkpoint()
    assert Catalog(url, upkeep=False).table("t").append(rows("mo", 2)).number == 3
    _, body = decode_version(catalog.store.get(claim_name(FOLDER, 3)), "claim 3")
    assert body["p"] == first.id.to_bytes()


def _no_claim(call: Any) -> Fault | None:
    return "error" if call.name.endswith("3.c") and call.kind == "put" else None


def _no_decision(call: Any) -> Fault | None:
    return "error" if call.name.endswith(".decision") else None


def test_upkeep_bundles_and_collects_claims_and_leaves_a_hint() -> None:
    catalog, url = lake(upkeep="synchronous", bundle_every=2, grace_seconds=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    for n in range(60):
        table.append(rows("mo", n))
    table.collect()  # how long ago it last did so by itself is chance: bring it up to date
    assert len(names(table)) < 40
    assert "hint" in names(table)
    cold = Catalog(url).table("t")
    assert numbers(cold) == list(range(1, 61))
    assert [n for n, _ in values(cold)] == list(range(60))


def test_many_threads_on_disjoint_rows_all_commit() -> None:
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", *range(16)))

    def work(n: int) -> None:
        handle = Catalog(url).table("t")
        for turn in range(3):
            handle.update(f"n = {n}", {"x": 10 * n + turn})

    in_threads(work, 16)
    assert values(table) == [(n, 10 * n + 2) for n in range(16)]
    assert numbers(table) == list(range(1, 50))
    check_claims(table.head().log, "everybody")


def test_retries_are_bounded() -> None:
    catalog, url = lake(retries=2, base_delay=0)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    other = Catalog(url, upkeep=False).table("t")
    create = catalog.store.create

    def always_late(name: str, data: Any) -> bool:
        other.append(rows("mo", 1))
        return create(name, data)

    catalog.store.create = always_late  # type: ignore[method-assign]
    with pytest.raises(CommitContended, match="retries"):
        table.append(rows("mo", 2))
    catalog.store.create = create  # type: ignore[method-assign]
    assert 2 not in [n for n, _ in values(table)]
    assert table.append(rows("mo", 3)).rebases == 0


def test_a_store_that_cannot_create_exclusively_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, url = lake()
    catalog.create_table("t", SCHEMA, mode="cas")
    monkeypatch.setattr(MemoryStore, "can_create_exclusively", False)
    with pytest.raises(CapabilityMissing, match="exclusively"):
        catalog.create_table("other", SCHEMA, mode="cas")
    with pytest.raises(CapabilityMissing, match="merge mode"):
        Catalog(url).table("t")
    assert "other" not in Catalog(url)
    plain = catalog.create_table("plain", SCHEMA)
    with pytest.raises(CapabilityMissing, match="exclusively"):
        plain.switch_mode("cas")
    plain.append(rows("mo", 1))
    assert [version.operation for version in Catalog(url).table("plain").history()] == ["append"]


def test_modes_are_named_and_part_of_the_settings() -> None:
    catalog, _ = lake()
    with pytest.raises(InvalidArgument, match="mode"):
        catalog.create_table("t", SCHEMA, mode="optimistic")
    catalog.create_table("t", SCHEMA, mode="cas")
    with pytest.raises(AlreadyExists):
        catalog.create_table("t", SCHEMA, exist_ok=True)
    assert catalog.create_table("t", SCHEMA, mode="cas", exist_ok=True).name == "t"


def test_an_empty_table_and_a_dropped_one_answer_as_in_merge_mode() -> None:
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    with pytest.raises(NoSnapshots):
        table.head()
    assert list(table.history()) == []
    table.append(rows("mo", 1))
    Catalog(url).drop_table("t")
    with pytest.raises(NotFound):
        table.update("n = 1", {"x": 1})


def test_a_dropped_table_created_again_begins_with_number_one() -> None:
    catalog, _ = lake()
    catalog.create_table("t", SCHEMA, mode="cas").append(rows("mo", 1))
    catalog.drop_table("t")
    again = catalog.create_table("t", SCHEMA, mode="cas")
    assert again.append(rows("mo", 2)).number == 1


def test_idempotency_keys_hold_in_cas_mode() -> None:
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 1), key="once")
    Catalog(url).table("t").append(rows("mo", 1), key="once")
    assert values(table) == [(1, 0)]
    assert [version.number for version in table.head().void] == [2]


def test_branches_of_a_cas_table_go_on_counting() -> None:
    mine, _ = two()
    branch = mine.branch("b")
    assert branch.append(rows("mo", 10)).number == 2
    assert mine.append(rows("mo", 11)).number == 2
    assert [n for n, _ in values(branch)][-1] == 10
    branch.checkpoint()
    assert branch.append(rows("mo", 12)).number == 3


def test_the_same_reader_reads_both_modes() -> None:
    catalog, _ = lake()
    for mode in ("merge", "cas"):
        table = catalog.create_table(f"in-{mode}", SCHEMA, mode=mode)
        table.append(rows("mo", 1, 2))
        table.update("n = 1", {"x": 5})
        table.add_column("y", pa.int64())
        table.tag("now")
        table.delete("n = 2")
        assert table.read(at="now").num_rows == 2
        assert table.read().to_pylist() == [{"day": "mo", "n": 1, "x": 5, "y": None}]
        assert table.verify().ok
