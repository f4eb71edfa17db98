"""Forks of one transaction that touched the same: told when they are joined, in both modes, and answered."""

from __future__ import annotations

import pickle
import random
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.conflicts import Answer, Kind
from crdtcat.errors import CommitConflict, InvalidArgument
from crdtcat.transaction import Transaction
from tests.cas import scenes
from tests.cas.test_matrix import FOUND, VERBS
from tests.transactions.test_resolvers import shown

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
MODES = pytest.mark.parametrize("mode", ["merge", "cas"])
STRICT = ("snapshot", "serializable")


def lake(mode: str = "cas", **options: Any) -> Catalog:
    catalog = Catalog(f"memory://joins-{secrets.token_hex(6)}", upkeep=False, **options)
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode=mode).append([{"n": n, "x": 0, "y": 0} for n in range(6)])
    return catalog


def cells(reader: Catalog | Transaction, table: str = "a", column: str = "x") -> list[int]:
    rows = reader.read(table).to_pylist()
    return [row[column] for row in sorted(rows, key=lambda row: row["n"])]


def raised(fork: Transaction, by: int, n: int = 0) -> None:
    """Add to one cell."""
    before = fork.read("a", ["x"], f"n = {n}")["x"][0].as_py()
    fork.update("a", f"n = {n}", {"x": before + by})


def kinds(error: CommitConflict) -> set[Kind]:
    return {item.kind for item in error.conflicts}


@pytest.mark.parametrize(("mode", "isolation"), [("merge", "snapshot"), *(("cas", each) for each in STRICT)])
def test_two_forks_that_raise_one_cell_are_told(mode: str, isolation: str) -> None:
    catalog = lake(mode)
    tx = catalog.transaction(["a"], isolation=isolation)
    one, other = tx.fork(), tx.fork()
    raised(one, 1)
    raised(other, 10)
    with pytest.raises(CommitConflict, match="update-update") as caught:
        tx.join(one, other)
    assert (list(caught.value.by_table), caught.value.complete) == (["a"], True)
    sides = caught.value.sides[0]
    assert sides.base is not None
    assert sides.mine is not None
    assert sides.theirs is not None
    assert [each["x"].to_pylist() for each in (sides.base, sides.mine, sides.theirs)] == [[0], [10], [1]]
    assert (cells(tx), tx.status, one.status) == ([0] * 6, "open", "forked"), "all of them, or none"
    tx.join(one)
    again = tx.fork()
    raised(again, 10)
    tx.join(again)
    assert cells(tx)[0] == 11
    tx.commit()
    assert cells(catalog)[0] == 11
    with pytest.raises(InvalidArgument, match="committed"):
        caught.value.retry("ours")


@MODES
def test_what_the_transaction_staged_since_counts_as_well(mode: str) -> None:
    catalog = lake(mode)
    tx = catalog.transaction(["a"])
    raised(tx, 1)
    fork = tx.fork()
    raised(tx, 1, 1)
    raised(fork, 5)
    raised(fork, 5, 2)
    tx.join(fork)  # what it had seen, and others' rows
    late = tx.fork()
    raised(tx, 1, 3)
    raised(late, 1, 3)
    with pytest.raises(CommitConflict):
        tx.join(late)
    tx.commit()
    assert cells(catalog) == [6, 1, 5, 1, 0, 0]


@MODES
def test_the_fork_prevails_or_yields_as_it_is_answered(mode: str) -> None:
    for answer, left in (("ours", 10), ("theirs", 1)):
        catalog = lake(mode)
        with catalog.transaction(["a"]) as tx:
            late, early = tx.fork(), tx.fork()
            early.update("a", "n <= 1", {"x": 10})  # staged first, joined last
            late.update("a", "n = 0", {"x": 1})
            tx.join(late)
            with pytest.raises(CommitConflict) as caught:
                tx.join(pickle.loads(pickle.dumps(early)))
            with pytest.raises(CommitConflict):
                caught.value.retry()
            caught.value.retry(answer)
            inside = cells(tx)
        assert inside == cells(catalog) == [left, 10, 0, 0, 0, 0], "what was read inside is committed"
        assert catalog.table("a").conflicts() == ()
        assert catalog.table("a").verify("content").ok


@MODES
def test_the_catalogs_answers_hold(mode: str) -> None:
    catalog = lake(mode, on_conflict={"update-update": lambda sides: sides.mine})
    with catalog.transaction(["a"]) as tx:
        forks = [tx.fork() for _ in range(3)]
        for at, fork in enumerate(forks):
            raised(fork, 10**at)
        tx.join(*forks)
    assert cells(catalog)[0] == 100


@MODES
def test_a_function_makes_one_of_both(mode: str) -> None:
    """What counting in parallel needs: the sum of what all have added."""

    def both(sides: Any) -> dict[str, Any]:
        added = zip(sides.base["x"].to_pylist(), sides.mine["x"].to_pylist(), strict=True)
        theirs = sides.theirs["x"].to_pylist()
        return {"x": [there + mine - base for there, (base, mine) in zip(theirs, added, strict=True)]}

    catalog = lake(mode)
    with catalog.transaction(["a"]) as tx:
        forks = [tx.fork() for _ in range(3)]
        for at, fork in enumerate(forks):
            raised(fork, 10**at)
            raised(fork, 10**at)
            raised(fork, at, 1)
        tx.join(*forks, on_conflict={"update-update": both})
    assert cells(catalog) == [222, 3, 0, 0, 0, 0]


@MODES
def test_a_function_is_told_the_table(mode: str) -> None:
    catalog = lake(mode)
    with catalog.transaction(["a"]) as tx:
        one, other = tx.fork(), tx.fork()
        raised(one, 1)
        raised(other, 10)
        tx.join(one, other, on_conflict=lambda sides: "ours" if sides.overlap.table == "a" else "theirs")
    assert cells(catalog)[0] == 10


@MODES
def test_a_function_that_stages_itself_is_told_and_nothing_is_lost(mode: str) -> None:
    catalog = lake(mode)
    with catalog.transaction(["a", "b"]) as tx:
        one, other, third = tx.fork(), tx.fork(), tx.fork()
        raised(one, 1)
        raised(other, 10)
        raised(third, 5, 3)

        def meddling(_: Any) -> str:
            tx.update("b", "n = 1", {"x": 7})
            tx.join(third)
            return "ours"

        tx.join(one)
        with pytest.raises(InvalidArgument, match="staged or joined something itself"):
            tx.join(other, on_conflict=meddling)
        assert (other.status, third.status) == ("forked", "joined")
        assert (cells(tx)[0], cells(tx)[3], cells(tx, "b")[1]) == (1, 5, 7)
        tx.join(other, on_conflict="ours")
    assert (cells(catalog)[0], cells(catalog)[3], cells(catalog, "b")[1]) == (10, 5, 7)


@MODES
def test_what_touches_nothing_of_the_other_is_joined(mode: str) -> None:
    catalog = lake(mode)
    with catalog.transaction(["a", "b"]) as tx:
        forks = [tx.fork() for _ in range(6)]
        for at, fork in enumerate(forks):
            fork.append("a", [{"n": 10 + at, "x": at, "y": 0}])
            fork.update("a", f"n = {at}", {"x": at})
            fork.update("a", f"n = {(at + 1) % 6}", {"y": at})
        forks[0].delete("b", "n <= 3")
        forks[1].delete("b", "n >= 2")
        tx.join(*forks)
    assert cells(catalog) == [*range(6), *range(6)]
    assert cells(catalog, column="y")[:6] == [5, 0, 1, 2, 3, 4]
    assert cells(catalog, "b") == []


def every_pair() -> Iterator[tuple[str, str]]:
    yield from ((mine, theirs) for mine in VERBS for theirs in VERBS)


def days(mode: str) -> Catalog:
    catalog, _ = scenes.lake()
    table = catalog.create_table("t", scenes.SCHEMA, mode=mode, partition_by=["day"])
    table.append(
        [row for at, day in enumerate(scenes.DAYS) for row in scenes.rows(day, *range(3 * at, 3 * at + 3))]
    )
    return catalog


def forked(catalog: Catalog, mine: str, theirs: str) -> tuple[Transaction, Transaction]:
    tx = catalog.transaction(["t"])
    first, second = tx.fork(), tx.fork()
    VERBS[mine](second.table("t"))  # type: ignore[arg-type]
    VERBS[theirs](first.table("t"))  # type: ignore[arg-type]
    tx.join(first)
    return tx, second


@MODES
def test_every_cell_of_the_matrix_is_found(mode: str) -> None:
    catalog = days(mode)
    for mine, theirs in every_pair():
        tx, fork = forked(catalog, mine, theirs)
        met = FOUND.get((mine, theirs), set())
        if met:
            with pytest.raises(CommitConflict) as caught:
                tx.join(fork, on_conflict="fail")
            assert kinds(caught.value) == met, (mine, theirs)
        expected = {kind for kind in met if kind.rule.default is not Answer.BOTH}
        if not expected:
            tx.join(fork)
            continue
        with pytest.raises(CommitConflict) as caught:
            tx.join(fork)
        assert kinds(caught.value) == expected, (mine, theirs)


@pytest.mark.parametrize("answer", ["ours", "theirs"])
def test_answers_make_what_a_single_commit_would_be(answer: str) -> None:
    for mine, theirs in FOUND:
        failing = [kind for kind in FOUND[mine, theirs] if kind.rule.default is Answer.FAIL]
        if not failing or not all(Answer(answer) in kind.rule.allowed for kind in failing):
            continue
        alone, beside = scenes.two(on_conflict=answer)
        scenes.meanwhile(alone, partial(VERBS[theirs], beside))
        try:
            VERBS[mine](alone)
        except CommitConflict:
            continue
        for mode in ("merge", "cas"):
            catalog = days(mode)
            tx, fork = forked(catalog, mine, theirs)
            tx.join(fork, on_conflict=answer)
            inside = tx.read("t")
            tx.commit()
            assert shown(catalog.table("t")) == shown(beside), (mode, mine, theirs)
            assert catalog.read("t") == inside, (mode, mine, theirs)


@MODES
def test_random_forks_lose_nothing_in_silence(mode: str) -> None:
    """Against a model: a conflict exactly where cells or rows are the same, and then what was answered."""
    for seed in range(25):
        drawn = random.Random(seed)
        catalog = lake(mode)
        model: dict[int, list[int]] = {n: [0, 0] for n in range(6)}
        told: set[tuple[int, int]] = set()  # cells set since the forks were made; (n, 2): deleted
        with catalog.transaction(["a"]) as tx:
            for value in range(1, 6):
                fork = tx.fork()
                if value == 1:
                    forks = []
                n, at = drawn.randrange(6), drawn.randrange(3)
                if at == 2:
                    fork.delete("a", f"n = {n}")
                else:
                    fork.update("a", f"n = {n}", {"xy"[at]: value})
                forks.append((fork, n, at, value))
            drawn.shuffle(forks)
            for fork, n, at, value in forks:
                met = {(n, 0), (n, 1)} if at == 2 else {(n, at), (n, 2)}
                conflict = bool(met & told)
                answer = drawn.choice(["ours", "theirs"])
                if conflict:
                    with pytest.raises(CommitConflict):
                        tx.join(fork)
                if conflict and at != 2 and (n, 2) in told:
                    answer = "theirs"
                tx.join(fork, on_conflict=answer if conflict else None)
                if conflict and answer == "theirs":
                    continue
                told.add((n, at))
                if at == 2:
                    model.pop(n, None)
                elif n in model:
                    model[n][at] = value
            inside = tx.read("a")
        assert catalog.read("a") == inside, seed
        found = {row["n"]: [row["x"], row["y"]] for row in catalog.read("a").to_pylist()}
        assert found == model, seed
        assert {item.kind for item in catalog.table("a").conflicts()} <= {"deleted"}, "set, and not there"


def test_many_forks_that_append_are_joined_without_a_request() -> None:
    catalog = lake(inline_bytes=1 << 16)
    with catalog.transaction(["a"]) as tx:
        forks = [tx.fork() for _ in range(50)]
        for at, fork in enumerate(forks):
            fork.append("a", {"n": np.arange(2) + 100 * at, "x": [at, at], "y": [at, at]})
        before = catalog.store.requests.snapshot()
        tx.join(*forks)
        assert catalog.store.requests.since(before).total == 0
    assert catalog.read("a").num_rows == 106
