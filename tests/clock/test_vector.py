"""Vector clocks: merge laws, and agreement with the sets of versions they stand for."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from crdtcat.clock import VectorClock

clocks = st.dictionaries(st.integers(0, 3), st.integers(0, 4)).map(VectorClock)
Events = set[tuple[int, int]]


def events(clock: VectorClock) -> Events:
    """The slow model: the versions a clock stands for, one by one."""
    return {(writer, seq) for writer in clock for seq in range(1, clock[writer] + 1)}


@given(clocks, clocks, clocks)
def test_merge_is_a_semilattice(a: VectorClock, b: VectorClock, c: VectorClock) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(b) == b.merge(a)
    assert a.merge(a) == a
    assert a.merge(VectorClock()) == a


@given(clocks, clocks)
def test_clocks_mean_sets_of_versions(a: VectorClock, b: VectorClock) -> None:
    assert events(a.merge(b)) == events(a) | events(b)
    assert (a <= b) == (events(a) <= events(b))
    assert a.happened_before(b) == (events(a) < events(b))
    assert a.concurrent_with(b) == bool(events(a) - events(b) and events(b) - events(a))
    assert (a == b) == (events(a) == events(b))


@given(clocks, clocks)
def test_exactly_one_relation_holds(a: VectorClock, b: VectorClock) -> None:
    assert [a == b, a.happened_before(b), b.happened_before(a), a.concurrent_with(b)].count(True) == 1


@given(clocks, st.integers(0, 4), st.integers(-1, 6))
def test_saw_is_membership(clock: VectorClock, writer: int, seq: int) -> None:
    assert clock.saw(writer, seq) == ((writer, seq) in events(clock))


@given(clocks, st.integers(0, 4))
def test_increment_adds_exactly_one_version(clock: VectorClock, writer: int) -> None:
    after = clock.increment(writer)
    assert events(after) - events(clock) == {(writer, clock[writer] + 1)}
    assert clock.happened_before(after)


@given(clocks, clocks)
def test_beyond_is_what_has_to_be_sent(a: VectorClock, b: VectorClock) -> None:
    assert b.merge(a.beyond(b)) == b.merge(a)
    assert (len(a.beyond(b)) == 0) == (a <= b)


@given(clocks)
def test_equal_clocks_hash_alike_and_survive_pickling(clock: VectorClock) -> None:
    twin = VectorClock(dict(reversed(list(clock.items()))))
    assert twin == clock
    assert hash(twin) == hash(clock)
    assert pickle.loads(pickle.dumps(clock)) == clock


def test_zeros_are_never_stored_and_missing_writers_count_as_zero() -> None:
    clock = VectorClock({1: 0, 2: 3})
    assert dict(clock) == {2: 3}
    assert clock[1] == 0
    assert 1 not in clock
    assert clock != {2: 3}
    assert repr(clock) == "VectorClock({0000000000000002: 3})"
