"""What is known already is no race that was lost: with `retries=0` whoever tries again gets through."""

from __future__ import annotations

import secrets
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.cas import claiming
from crdtcat.cas.reading import claimed_above
from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import CommitConflict, CommitContended, LimitExceeded
from crdtcat.limits import TRANSACTION_SECONDS_MAX
from crdtcat.log import Log
from crdtcat.protocol.claimer import Parent
from tests.cas.scenes import meanwhile, rows, two, values
from tests.cost.places import asked

KEYED = pa.schema([("n", pa.int64()), ("x", pa.int64())])


def keyed(**options: Any) -> tuple[Table, Table]:
    """Mine and theirs, on a table with a key that mine has just written to."""
    url = f"memory://retries-{secrets.token_hex(6)}"
    mine = Catalog(url, upkeep=False, base_delay=0, **options).create_table("t", KEYED, mode="cas", key=["n"])
    mine.upsert([{"n": 1, "x": 1}])
    return mine, Catalog(url, upkeep=False).table("t")


def tables(**options: Any) -> tuple[Catalog, Catalog]:
    """Mine and theirs, on tables a and b."""
    url = f"memory://retries-{secrets.token_hex(6)}"
    mine = Catalog(url, upkeep=False, base_delay=0, **options)
    for name in ("a", "b"):
        mine.create_table(name, KEYED, mode="cas").append([{"n": n, "x": 0} for n in range(3)])
    return mine, Catalog(url, upkeep=False)


def test_a_blind_commit_that_was_contended_is_repeated() -> None:
    mine, theirs = two(retries=0, base_delay=0)
    theirs.append(rows("mo", 50))
    with pytest.raises(CommitContended):
        mine.append(rows("mo", 60))
    done = mine.append(rows("mo", 60))
    assert (done.number, done.rebases, len(values(mine))) == (3, 1, 11)


def test_a_change_in_conflict_is_tried_again() -> None:
    mine, theirs = two(retries=0, base_delay=0)
    meanwhile(mine, lambda: theirs.update("n = 0", {"x": 2}), lambda: theirs.append(rows("mo", 50)))
    with pytest.raises(CommitConflict) as caught:
        mine.update("n = 0", {"x": 9})
    with pytest.raises(CommitConflict) as again:  # still in the way, and no race
        caught.value.retry()
    done = again.value.retry("ours")
    assert (done.number, done.rebases, dict(values(mine))[0]) == (4, 1, 9)


def test_a_retry_that_loses_a_race_is_tried_again() -> None:
    mine, theirs = two(retries=0, base_delay=0)
    meanwhile(mine, lambda: theirs.update("n = 0", {"x": 2}))
    with pytest.raises(CommitConflict) as caught:
        mine.update("n = 0", {"x": 9})
    store = mine._session.store
    create = store.create

    def late(name: str, data: Any) -> bool:
        store.create = create  # type: ignore[method-assign]
        theirs.append(rows("mo", 50))
        return create(name, data)

    store.create = late  # type: ignore[method-assign]
    with pytest.raises(CommitContended):
        caught.value.retry("ours")
    assert (caught.value.retry("ours").number, dict(values(mine))[0]) == (4, 9)


def test_what_is_known_is_judged_without_a_request() -> None:
    mine, theirs = two()
    meanwhile(mine, lambda: theirs.update("n = 0", {"x": 2}), lambda: theirs.append(rows("mo", 50)))
    with pytest.raises(CommitConflict) as caught:
        mine.update("n = 0", {"x": 9})
    counted = asked(Catalog(mine._session.store, upkeep=False), lambda: caught.value.retry("ours"))
    assert counted == {"put": 1}


def test_where_the_rest_was_not_told_it_looks_first(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = two(retries=0, base_delay=0)
    meanwhile(mine, lambda: theirs.update("n = 0", {"x": 2}))
    with monkeypatch.context() as patched:
        patched.setattr("crdtcat.cas.claimed.tell_rest", lambda *_: None)  # as where the store fails
        with pytest.raises(CommitConflict) as caught:
            mine.update("n = 0", {"x": 9})
    assert caught.value.retry("ours").number == 3


def test_a_blind_change_in_conflict_is_held_against_the_same_again() -> None:
    mine, theirs = keyed(retries=0)
    theirs.upsert([{"n": 1, "x": 2}])
    with pytest.raises(CommitConflict) as caught:
        mine.upsert([{"n": 1, "x": 3}])
    with pytest.raises(CommitConflict) as again:  # the error was told after a refresh: that settles nothing
        caught.value.retry()
    assert mine.read()["x"].to_pylist() == [2]
    again.value.retry("ours")
    assert mine.read()["x"].to_pylist() == [3]


def test_a_transaction_does_not_lose_to_its_own_claims() -> None:
    mine, theirs = tables(retries=0)
    tx = mine.transaction(["a", "b"])
    for name in ("a", "b"):
        tx.update(name, "n = 1", {"x": 5})
    theirs.table("b").update("n = 1", {"x": 1})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    with pytest.raises(CommitConflict) as again:
        caught.value.retry()
    again.value.retry("ours")
    assert tx.committed
    assert theirs.read("a")["x"].to_pylist() == theirs.read("b")["x"].to_pylist() == [0, 5, 0]


def test_a_transaction_that_was_contended_is_committed_again() -> None:
    mine, theirs = tables(retries=0)
    tx = mine.transaction(["a", "b"])
    for name in ("a", "b"):
        tx.update(name, "n = 1", {"x": 5})
    theirs.table("b").append([{"n": 9, "x": 9}])
    with pytest.raises(CommitContended):
        tx.commit()
    tx.commit()
    assert theirs.read("b", filter="n = 1")["x"].to_pylist() == [5]


def test_one_that_others_aborted_is_committed_again() -> None:
    mine, theirs = tables(retries=0)
    create = mine.store.put_if_absent

    def late(name: str, data: Any) -> bool:
        if name.endswith(".decision"):
            mine.store.put_if_absent = create  # type: ignore[method-assign]
            hasty = Catalog(theirs.url, upkeep=False, lease_seconds=0, base_delay=0)
            hasty.table("a").append([{"n": 9, "x": 9}])
        return create(name, data)

    mine.store.put_if_absent = late  # type: ignore[method-assign]
    tx = mine.transaction(["a", "b"])
    for name in ("a", "b"):
        tx.update(name, "n = 1", {"x": 5})
    with pytest.raises(CommitContended, match="lease"):
        tx.commit()
    tx.commit()
    assert theirs.read("b", filter="n = 1")["x"].to_pylist() == [5]


def test_a_change_of_before_a_switch_is_not_tried_again() -> None:
    mine, _ = keyed()
    theirs = Catalog(mine._session.store.url, upkeep=False, max_commit_delay_seconds=0).table("t")
    theirs.upsert([{"n": 1, "x": 2}])
    with pytest.raises(CommitConflict) as caught:
        mine.upsert([{"n": 1, "x": 3}])
    theirs.switch_mode("merge")
    theirs.switch_mode("cas")
    with pytest.raises((CommitConflict, CommitContended)):
        caught.value.retry()
    with pytest.raises(CommitContended, match="another mode"):
        caught.value.retry("ours")
    assert mine.read()["x"].to_pylist() == [2]


def test_a_handle_that_is_refreshed_meanwhile_judges_all_that_it_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread of the same handle reads on while this one goes by what was read before."""
    mine, theirs = two()
    head = mine.head()
    theirs.append(rows("mo", 50))
    mine.head()

    def then_refreshed(log: Log, parent: Parent) -> Any:
        monkeypatch.setattr(claiming, "claimed_above", claimed_above)
        found = claimed_above(log, parent)
        theirs.update("n = 0", {"x": 2})
        mine._session.refresh()
        return found

    with monkeypatch.context() as pinned:
        pinned.setattr(mine._session, "head", lambda **_: head)
        meanwhile(mine, lambda: monkeypatch.setattr(claiming, "claimed_above", then_refreshed))
        with pytest.raises(CommitConflict):
            mine.update("n = 0", {"x": 9})


def test_answers_that_are_not_given_anew_stay() -> None:
    mine, theirs = two(on_conflict={"update-delete": "theirs"})
    meanwhile(mine, lambda: theirs.delete("n = 1"), lambda: theirs.update("n = 0", {"x": 2}))
    with pytest.raises(CommitConflict) as caught:
        mine.update("n <= 2", {"x": 9})
    assert [item.kind.value for item in caught.value.conflicts] == ["update-update"]
    with pytest.raises(CommitConflict) as again:
        caught.value.retry({"property-property": "ours"})
    again.value.retry({"update-update": "ours"})  # and the first one as the catalog says
    assert values(mine)[:3] == [(0, 9), (2, 9), (3, 0)]


def test_answers_of_an_earlier_try_stay() -> None:
    mine, theirs = tables()
    tx = mine.transaction(["a", "b"])
    tx.update("a", "n <= 1", {"x": 5})
    tx.update("b", "n <= 1", {"x": 5})
    theirs.table("a").delete("n = 1")
    theirs.table("b").update("n = 1", {"x": 1})
    with pytest.raises(CommitConflict) as caught:
        tx.commit()
    with pytest.raises(CommitConflict, match="update-update") as again:
        caught.value.retry({"update-delete": "theirs"})
    assert list(again.value.by_table) == ["b"]
    again.value.retry({"update-update": "ours"})
    assert (theirs.read("a")["x"].to_pylist(), theirs.read("b")["x"].to_pylist()) == ([5, 0], [5, 5, 0])


def test_answers_to_forks_stay() -> None:
    mine, _ = tables(on_conflict={"update-delete": "theirs"})
    tx = mine.transaction(["a"])
    one, two = tx.fork(), tx.fork()
    one.update("a", "n = 0", {"x": 1})
    one.delete("a", "n = 1")
    two.update("a", "n <= 1", {"x": 2})
    with pytest.raises(CommitConflict) as caught:
        tx.join(one, two)
    caught.value.retry({"update-update": "ours"})
    tx.commit()
    assert sorted(mine.read("a")["x"].to_pylist()) == [0, 2]


@pytest.mark.parametrize("then", ["goes on", "is deleted"])
def test_a_merge_tried_again_merges_the_branch_as_it_was(then: str) -> None:
    mine, theirs = two(retries=0, base_delay=0)
    side = mine.branch("b")
    side.update("n = 0", {"x": 9})
    side.append(rows("mo", 50))
    theirs.update("n = 0", {"x": 2})
    with pytest.raises(CommitConflict) as caught:
        mine.merge("b")
    if then == "goes on":
        side.append(rows("mo", 51))
    else:
        mine.delete_branch("b")
    with pytest.raises(CommitConflict) as again:
        caught.value.retry()
    assert again.value.retry({"update-update": "ours"}).versions == 2
    assert (values(mine)[0], values(mine)[-1]) == ((0, 9), (50, 0))
    assert mine.verify("content").ok
    if then == "goes on":
        assert mine.merge("b").versions == 1


def test_a_merge_that_waited_too_long_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = two()
    mine.branch("b").update("n = 0", {"x": 9})
    theirs.update("n = 0", {"x": 2})
    with pytest.raises(CommitConflict) as caught:
        mine.merge("b")
    for module in ("writing.staged", "maintenance.merge_strict"):
        late_ms = wall_ms() + 1000 * (TRANSACTION_SECONDS_MAX + 1)
        monkeypatch.setattr(f"crdtcat.{module}.wall_ms", lambda late_ms=late_ms: late_ms)
    with pytest.raises(LimitExceeded):
        caught.value.retry("ours")
    assert values(mine)[0] == (0, 2)


def test_what_was_read_for_a_merge_counts_when_it_is_tried_again() -> None:
    mine, theirs = two(isolation="serializable")
    mine.branch("b").append(rows("mo", 50))
    mine.read(filter="n = 0")
    theirs.update("n = 0", {"x": 1})
    with pytest.raises(CommitConflict, match="read-write") as caught:
        mine.merge("b")
    assert "on_conflict" not in str(caught.value).splitlines()[0], "no word answers for what was read"
    with pytest.raises(CommitConflict, match="read-write"):
        caught.value.retry("ours")
