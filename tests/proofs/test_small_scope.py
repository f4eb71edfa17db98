"""The real merges on every triple of every state of a small scope, not on a sample of them.

Every pair of states is merged once by the library; results are recognized by their canonical bytes, so that
the laws on triples are comparisons of numbers, and all of them are looked at.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from crdtcat.clock import VectorClock
from crdtcat.format.frame import digest
from crdtcat.head import Head
from crdtcat.lattice import GCounter, LatticeMap, LWWRegister, ORSet
from crdtcat.log import Log, State, encode_bundle, join
from crdtcat.protocol import bundle_name
from crdtcat.testing.invariants import head_value, log_value
from crdtcat.testing.strategies_log import FOLDER, History, Step, play
from crdtcat.writing.inlined import moved_to_segments

FULL = os.environ.get("CRDTCAT_SLOW") == "full"
REMOVED = "removed"


def check_every_triple(
    values: Sequence[Any], merge: Callable[[Any, Any], Any], key: Callable[[Any], Any]
) -> int:
    """Associative, commutative, idempotent, and closed. Returns how many triples that was."""
    number = {key(value): at for at, value in enumerate(values)}
    assert len(number) == len(values), "different states, different bytes"
    table = np.array([[number[key(merge(a, b))] for b in values] for a in values], np.intp)
    everything = np.arange(len(values))
    assert (table == table.T).all(), "commutative"
    assert (table[everything, everything] == everything).all(), "idempotent"
    narrow = table.astype(np.int16)  # a quarter of the memory to go through, for every first
    for first in everything:
        left = np.take(narrow, table[first], axis=0)  # (first, second), then third
        right = np.take(narrow[first], table)  # first, then (second, third)
        assert (left == right).all(), "associative"
    return len(values) ** 3


PLACES = ((None, "x", "y", REMOVED), (None, "x", REMOVED), (None, "y", REMOVED))
"""What may have become of each dot. The first may be of either element, which never happens while dots are
used once, and which merge must order all the same; and one element may live under several dots."""
HELD = ((None, (1, 0), (1, 1)), (None, (1, 1), (2, 0)))
"""(stamp, value) that each register may hold: the first under one stamp with two values, the other under two
stamps, the greater of which has the smaller value."""


def sets(places: Sequence[Sequence[str | None]]) -> list[ORSet[int, str]]:
    """Every set over these dots: each unseen, live with an element, or removed."""
    return [
        ORSet(
            {dot: at for dot, at in enumerate(chosen) if at not in (None, REMOVED)},
            [dot for dot, at in enumerate(chosen) if at == REMOVED],
        )
        for chosen in itertools.product(*places)
    ]


def counters(writers: int, most: int) -> list[GCounter[int]]:
    """Every counter of some writers that counted up to `most` each."""
    return [
        GCounter({writer: count for writer, count in enumerate(counts) if count})
        for counts in itertools.product(range(most + 1), repeat=writers)
    ]


def registers(held: Sequence[Sequence[tuple[int, int] | None]]) -> list[dict[str, LWWRegister[int]]]:
    """Every map of these registers: each absent, or with one of its stamps and values."""
    return [
        {f"register {at}": LWWRegister(*one) for at, one in enumerate(chosen) if one is not None}
        for chosen in itertools.product(*held)
    ]


def states(dot_count: int, register_count: int) -> list[LatticeMap[str, Any]]:
    """The product: a set of dots, the counts of two writers, registers."""
    return [
        LatticeMap({"dots": chosen, "writers": counted, **held})
        for chosen in sets(PLACES[:dot_count])
        for counted in counters(2, 1)
        for held in registers(HELD[:register_count])
    ]


def contents(state: LatticeMap[str, Any]) -> tuple[frozenset[Any], ...]:
    """Everything a state holds: what its canonical bytes say, at a tenth of their cost."""
    chosen, counted = state["dots"], state["writers"]
    held = [(name, one.stamp, one.value) for name, one in state.items() if name.startswith("register")]
    assert len(held) + 2 == len(state)
    return frozenset(chosen.live.items()), chosen.removed, frozenset(counted.counts.items()), frozenset(held)


def test_every_triple_of_sets_over_three_dots() -> None:
    """Each unseen, live with one of two elements, or removed."""
    found = sets([(None, "x", "y", REMOVED)] * 3)
    assert check_every_triple(found, ORSet.merge, ORSet.to_bytes) == 64**3


def test_every_triple_of_two_registers_of_two_stamps_and_two_values() -> None:
    found = [LatticeMap(held) for held in registers([(None, *itertools.product((1, 2), (0, 1)))] * 2)]
    assert check_every_triple(found, LatticeMap.merge, LatticeMap.to_bytes) == 25**3


def test_every_triple_of_clocks_of_two_writers() -> None:
    clocks = [VectorClock({1: a, 2: b}) for a in range(4) for b in range(4)]
    assert check_every_triple(clocks, VectorClock.merge, lambda clock: tuple(sorted(clock.items()))) == 16**3


def test_every_triple_of_states_of_two_dots_two_writers_and_one_register() -> None:
    """By their canonical bytes: 144 states."""
    found = states(2, 1)
    assert len(found) == 12 * 4 * 3
    assert check_every_triple(found, LatticeMap.merge, LatticeMap.to_bytes) == 144**3


@pytest.mark.skipif(not FULL, reason="half a minute; CRDTCAT_SLOW=full, and in `make proofs`")
def test_every_triple_of_states_of_three_dots_two_writers_and_two_registers() -> None:
    """1,296 states, 1,679,616 merges, 2,176,782,336 triples. Told apart by what they hold, as bytes do."""
    found = states(3, 2)
    assert len(found) == 36 * 4 * 9
    assert len({state.to_bytes() for state in found}) == len(found)
    assert check_every_triple(found, LatticeMap.merge, contents) == 1296**3


STEPS = (
    Step(0, None, "append"),
    Step(0, None, "overwrite", more=1),
    Step(1, None, "properties", more=1),
    Step(1, None, "append"),
    Step(0, 1, "properties", pick=1, more=2),
)
"""Two writers, rows of three versions, two properties: what the library's own state is made of."""


def logs(count: int) -> tuple[list[Log], History]:
    """Every log that the first `count` of those versions can make, the first with its rows inlined, in one
    segment, in another, or in both."""
    history = play(STEPS[:count])
    files = history.files
    first = State(FOLDER).joined(files[:1]).log
    moved = [moved_to_segments(first).log for _ in range(2)]  # segment names are random
    bundled = [_read_back(log) for log in moved]
    firsts = [None, first, bundled[0], bundled[1], join(bundled[0], bundled[1])]
    found = []
    for wanted in itertools.product((False, True), repeat=count - 1):
        rest = [file for file, is_wanted in zip(files[1:], wanted, strict=True) if is_wanted]
        log = State(FOLDER).joined(rest).log
        found += [log if start is None else join(log, start) for start in firsts]
    return found, history


def _read_back(log: Log) -> Log:
    data = encode_bundle(log, FOLDER)
    return State(FOLDER).joined([(bundle_name(FOLDER, 1, digest(data)), data)]).log


def _text(log: Log) -> str:
    value = log_value(log)
    return repr(value | {"inline": sorted(value["inline"].items())})


def test_every_triple_of_logs_of_four_versions_and_their_places() -> None:
    """The library's own state: 40 logs, 1,600 joins."""
    assert check_every_triple(logs(4)[0], join, _text) == 40**3


@pytest.mark.skipif(not FULL, reason="some seconds; CRDTCAT_SLOW=full, and in `make proofs`")
def test_every_triple_of_logs_of_five_versions_and_their_places() -> None:
    """80 logs, 6,400 joins, 512,000 triples."""
    assert check_every_triple(logs(5)[0], join, _text) == 80**3


@pytest.mark.parametrize("count", [3, pytest.param(4, marks=pytest.mark.skipif(not FULL, reason="seconds"))])
def test_every_pair_of_logs_has_the_head_of_their_versions(count: int) -> None:
    """Whatever two readers had joined before, and wherever its rows are: one head for one set of versions."""
    found, history = logs(count)
    heads: dict[bytes, dict[str, Any]] = {}
    for a, b in itertools.product(found, repeat=2):
        log = join(a, b)
        value = head_value(Head("t", log, history.settings))
        assert heads.setdefault(log.id_bytes, value) == value
    assert len(heads) == 2**count
    assert len({value["token"] for value in heads.values()}) == 2**count


WRONG: dict[str, tuple[Sequence[Any], Callable[[Any, Any], Any]]] = {
    "keeps the first": ([LWWRegister(1, 1), LWWRegister(2, 2)], lambda a, b: a),
    "skips what looks older": (
        sets(PLACES[:2]),
        lambda a, b: a if len(a.context) >= len(b.context) else a.merge(b),
    ),
    "nothing wins over the least": (
        [LWWRegister(stamp, 0) for stamp in (1, 2, 3)],
        lambda a, b: min(a, b, key=lambda one: one.stamp) if 1 in (a.stamp, b.stamp) and a != b else b,
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_merge_is_noticed(wrong: str) -> None:
    """The check itself: merges that break a law do not pass."""
    values, merge = WRONG[wrong]
    with pytest.raises(AssertionError, match=r"commutative|idempotent|associative"):
        check_every_triple(values, merge, lambda value: value.to_bytes())


def test_a_register_that_keeps_its_own_value_in_a_tie_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two values under one stamp: which is kept may not depend on who merges."""
    monkeypatch.setattr(LWWRegister, "merge", lambda a, b: b if a.stamp < b.stamp else a)
    for found in (states(2, 1), [LatticeMap(held) for held in registers(HELD)]):
        with pytest.raises(AssertionError, match="commutative"):
            check_every_triple(found, LatticeMap.merge, LatticeMap.to_bytes)


def test_a_set_that_keeps_its_own_element_of_a_dot_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def merged(a: ORSet[int, str], b: ORSet[int, str]) -> ORSet[int, str]:
        return ORSet({**b.live, **a.live}, a.removed | b.removed)

    monkeypatch.setattr(ORSet, "merge", merged)
    with pytest.raises(AssertionError, match="commutative"):
        check_every_triple(states(2, 1), LatticeMap.merge, LatticeMap.to_bytes)
