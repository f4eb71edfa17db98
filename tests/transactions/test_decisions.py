"""Decisions are collected when nobody asks for them any more, and not before."""

from __future__ import annotations

import secrets
import sys
from typing import Any

import pytest

import crdtcat.cas.claiming
from crdtcat import Catalog, drive
from crdtcat.cas import preparing
from crdtcat.cas.decisions import decide, read_decision
from crdtcat.drive import answers
from crdtcat.errors import CommitConflict, CommitContended, CommitUnknown, NotFound, StoreUnavailable
from crdtcat.format.decision import encode_decision
from crdtcat.maintenance.upkeep import bundle_blocks
from crdtcat.protocol import Got
from crdtcat.protocol.names import decision_name, is_decision
from crdtcat.protocol.reader import Reader
from crdtcat.testing.faulty import Call, FaultyStore
from tests.transactions.test_cas import SCHEMA, both, lake, prepared, values

UPKEEP = sys.modules[bundle_blocks.__module__]


def decisions(catalog: Catalog) -> list[str]:
    return [item.name for item in catalog.store.list("transactions/") if is_decision(item.name)]


def collector(url: str, **options: Any) -> Catalog:
    return Catalog(url, upkeep=False, grace_seconds=0, **options)


def test_a_decision_goes_when_every_table_has_it_in_an_old_bundle() -> None:
    catalog, url = lake()
    done = both(catalog, 1, 7)
    assert len(decisions(catalog)) == 1
    collector(url).table("a").checkpoint()
    assert Catalog(url, upkeep=False).collect_transactions().decisions == 0, "too young"
    first = collector(url).collect_transactions()
    assert (first.decisions, first.bundled) == (0, 1), "the other table has none: it is made now"
    assert collector(url).collect_transactions().decisions == 1
    assert decisions(catalog) == []
    for name in ("a", "b"):
        collector(url).table(name).collect()  # the claims go, too
    for reader in (catalog, Catalog(url)):
        assert (values(reader, "a"), values(reader, "b")) == ([0, 7, 0, 0], [0, 7, 0, 0])
        assert reader.transaction_status(str(done.id)) == "committed"
    assert Catalog(url).table("a").append([{"n": 9, "x": 9}]).number == 3
    assert both(Catalog(url), 2, 8).committed
    with pytest.raises(NotFound):
        catalog.transaction_status("0123")


def gave_up(catalog: Catalog, url: str) -> str:
    """The id of a transaction that claims a, and then meets a conflict in b."""
    tx = catalog.transaction(["a", "b"])
    for name in ("a", "b"):
        tx.update(name, "n = 1", {"x": 5})
    Catalog(url, upkeep=False).table("b").update("n = 1", {"x": 6})
    with pytest.raises(CommitConflict):
        tx.commit()
    return str(tx.id)


def test_the_decision_of_one_that_gave_up_goes_too() -> None:
    catalog, url = lake()
    id = gave_up(catalog, url)
    assert len(decisions(catalog)) == 1
    assert Catalog(url, upkeep=False).table("a").append([{"n": 9, "x": 9}]).number == 3
    assert collector(url).collect_transactions().decisions == 0, "no bundle has its claim yet: one is made"
    assert collector(url).collect_transactions().decisions == 1
    assert decisions(catalog) == []
    for reader in (catalog, Catalog(url)):
        assert (values(reader, "a"), values(reader, "b")) == ([0, 0, 0, 0, 9], [0, 6, 0, 0])
        assert reader.transaction_status(id) == "aborted", "it took a number, and nothing else"
    collector(url).table("a").collect()
    assert Catalog(url).table("a").append([{"n": 8, "x": 8}]).number == 4
    assert both(Catalog(url), 2, 8).committed
    collector(url).table("a").expire(keep_last=1)
    assert Catalog(url).transaction_status(id) == "aborted"


def test_one_that_only_read_the_first_of_its_tables_was_committed() -> None:
    """It took a number there, and nothing else, as one that was aborted did."""
    catalog, url = lake()
    with catalog.transaction(isolation="serializable") as done:
        done.read("a")
        done.update("b", "n = 1", {"x": 5})
    while decisions(catalog):
        collector(url).collect_transactions()
    assert Catalog(url).transaction_status(str(done.id)) == "committed"


def test_one_that_gave_up_in_doubt_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer to its second claim is open: it may come later."""
    catalog, url = lake()
    create = catalog.store.create

    def doubtful(name: str, data: Any) -> bool:
        if name.startswith("tables/b/"):
            raise StoreUnavailable("no answer")
        return create(name, data)

    monkeypatch.setattr(catalog.store, "create", doubtful)
    with pytest.raises(StoreUnavailable, match="nothing was committed"):
        both(catalog, 1, 5)
    for _ in range(3):
        assert collector(url).collect_transactions().decisions == 0
    assert len(decisions(catalog)) == 1


def test_who_finds_that_a_decision_was_collected_under_its_hands_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Refused, and gone when it is looked at: what it was is in the bundles, nothing is concluded here."""
    catalog, _ = lake()
    monkeypatch.setattr(catalog.store, "put_if_absent", lambda *_: False)
    with pytest.raises(StoreUnavailable, match="collected"):
        decide(catalog.store, 7, committed=False)
    assert decide(catalog.store, 7, committed=True), "its own: nobody else's goes"


def test_decisions_to_abort_by_others_and_those_of_before_stay() -> None:
    catalog, url = lake()
    patient = Catalog(url, upkeep=False, lease_seconds=0, base_delay=0)
    dead = prepared(catalog)
    patient.table("a").append([{"n": 9, "x": 9}])
    assert read_decision(catalog.store, dead) is False
    patient.table("b").append([{"n": 9, "x": 9}])
    older = prepared(catalog, 2)
    catalog.store.put_if_absent(decision_name(older), encode_decision(committed=True))
    for _ in range(3):
        assert collector(url).collect_transactions().decisions == 0
    assert len(decisions(catalog)) == 2


@pytest.mark.parametrize(("table", "left"), [("a", 0), ("b", 1)])
def test_a_conflict_in_the_first_table_leaves_no_decision(table: str, left: int) -> None:
    """No claim waits for one there. In a later table the claims before it do."""
    catalog, url = lake()
    tx = catalog.transaction(["a", "b"])
    for name in ("a", "b"):
        tx.update(name, "n = 1", {"x": 5})
    Catalog(url, upkeep=False).table(table).update("n = 1", {"x": 6})
    with pytest.raises(CommitConflict):
        tx.commit()
    assert len(decisions(catalog)) == left
    for name in ("a", "b"):
        assert Catalog(url, upkeep=False, lease_seconds=600).table(name).append([{"n": 9, "x": 9}]).number


def test_a_dropped_table_keeps_no_decision() -> None:
    catalog, url = lake()
    both(catalog, 1, 7)
    catalog.drop_table("b")
    for _ in range(2):
        found = collector(url).collect_transactions()
    assert found.decisions == 1
    assert values(Catalog(url), "a") == [0, 7, 0, 0]


def test_a_writer_that_slept_over_the_collection_is_not_fooled_by_its_own_abort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It met the claim while it was not decided, slept, found no decision, and made one of its own."""
    catalog, url = lake()
    dead = prepared(catalog)
    sleeper = Catalog(url, upkeep=False, lease_seconds=0, base_delay=0)
    table, now = sleeper.table("a"), [1000.0]
    table.head()
    for module in ("crdtcat.cas.claiming", "crdtcat.session", "crdtcat.cas.cold_claims"):
        monkeypatch.setattr(f"{module}.elapsed_clock", lambda: now[0])
    slept: list[bool] = []

    def sleeps(store: Any, transaction: int, *, committed: bool) -> bool:
        if not slept:
            claims = {f"tables/{name}/main/": 2 for name in ("a", "b")}
            assert decide(store, transaction, committed=True, claims=claims)
            for _ in range(2):
                collector(url).collect_transactions()
            for name in ("a", "b"):
                collector(url).table(name).collect()
            assert decisions(catalog) == []
            now[0] += 3600
            slept.append(True)
        return decide(store, transaction, committed=committed)

    monkeypatch.setattr(crdtcat.cas.claiming, "decide", sleeps)
    table._session.chain.known_at = now[0]
    assert table.append([{"n": 9, "x": 9}]).number == 3
    assert slept
    assert read_decision(catalog.store, dead) is False, "it did decide"
    for reader in (sleeper, Catalog(url)):
        assert (values(reader, "a"), values(reader, "b")) == ([0, 5, 0, 0, 9], [0, 5, 0, 0])


def test_a_writer_that_took_long_to_ask_does_not_take_its_commit_for_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer to its decision was lost. It was copied and collected, and made again by one who slept."""
    catalog, url = lake()
    now = [1000.0]
    monkeypatch.setattr(preparing, "elapsed_clock", lambda: now[0])

    def slow(store: Any, transaction: int, **what: Any) -> bool:
        assert decide(store, transaction, **what)
        for _ in range(2):
            collector(url).collect_transactions()
        assert decisions(catalog) == []
        assert not decide(store, transaction, committed=False)
        now[0] += catalog.options.grace_seconds / 2 + 1
        return decide(store, transaction, **what)

    monkeypatch.setattr(preparing, "decide", slow)
    with pytest.raises(CommitUnknown, match="transaction_status"):
        both(catalog, 1, 7)
    assert (values(Catalog(url), "a"), values(Catalog(url), "b")) == ([0, 7, 0, 0], [0, 7, 0, 0])


def test_a_bundler_that_took_long_does_not_trust_a_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """It listed before the claim was bundled, and asked after the decision was collected and made again."""
    catalog, url = lake()
    dead = prepared(catalog)
    decide(catalog.store, dead, committed=False)
    table, now = Catalog(url, upkeep=False, bundle_every=2).table("a"), [1000.0]
    monkeypatch.setattr(UPKEEP, "elapsed_clock", lambda: now[0])

    def slow(*args: Any) -> Any:
        now[0] += 301
        return answers(*args)

    id = table.history()[-1].id
    with monkeypatch.context() as patch:
        patch.setattr(drive, "answers", slow)
        assert bundle_blocks(table._session, [id]).newly_covered == 0
    assert bundle_blocks(table._session, [id]).newly_covered == 2


def test_a_reader_that_took_long_does_not_trust_a_missing_decision() -> None:
    catalog, _ = lake()
    prepared(catalog)
    session = catalog.table("a")._session
    session.refresh()
    waiting = session.state.undecided()
    assert waiting
    step = Reader(
        session.folder, session.state, prefix="", began_ms=0, grace_ms=1000, fetching=tuple(waiting)
    )
    assert step.take([Got(None, 400)]).passes == step.passes
    assert step.take([Got(None, 600)]).passes == step.passes + 1, "it lists again"


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_transactions_and_decisions_are_collected_beside_commits_now_and_then(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtcat.transaction.tending.TEND_EVERY", 1)  # every one of them
    url = f"memory://tended-{secrets.token_hex(6)}"
    catalog = Catalog(url, upkeep="synchronous", grace_seconds=0)
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode=mode)
    for n in range(6):
        with catalog.transaction() as tx:
            tx.append("a", [{"n": n, "x": 0}])
            tx.append("b", [{"n": n, "x": 0}])
    assert len(list(catalog.store.list("transactions/"))) < 6, "nobody had to ask for it"
    reader = Catalog(url, upkeep=False)
    assert [reader.table(name).scan().count() for name in ("a", "b")] == [6, 6]


@pytest.mark.parametrize("faults", [("lost_answer",), ("error",), ("error", "lost_answer")])
def test_a_decision_whose_answer_was_lost_is_looked_up(faults: tuple[Any, ...]) -> None:
    """It is known whether it stands, so nobody is told otherwise."""
    catalog, url = lake()
    left = list(faults)

    def plan(call: Call) -> Any:
        return left.pop(0) if left and call.kind == "put" and is_decision(call.name) else None

    store = FaultyStore(catalog.store, plan)
    if len(faults) == 1:
        assert both(Catalog(store, upkeep=False), 1, 7).status == "committed"
        assert [call.kind for call in store.calls if is_decision(call.name)][:2] == ["put", "get"]
    else:
        with pytest.raises(CommitUnknown, match="no clear answer"):
            both(Catalog(store, upkeep=False), 1, 7)
    assert (values(Catalog(url), "a"), values(Catalog(url), "b")) == ([0, 7, 0, 0], [0, 7, 0, 0])


def test_a_decision_whose_answer_was_lost_may_have_been_made_by_others() -> None:
    catalog, url = lake()

    def plan(call: Call) -> Any:
        if call.kind == "put" and is_decision(call.name) and not aborted:
            aborted.append(catalog.store.put_if_absent(call.name, encode_decision(committed=False)))
            return "lost_answer"
        return None

    aborted: list[bool] = []
    with pytest.raises(CommitContended, match="aborted it"):
        both(Catalog(FaultyStore(catalog.store, plan), upkeep=False), 1, 7)
    assert aborted == [True]
    assert values(Catalog(url), "a") == [0, 0, 0, 0]
