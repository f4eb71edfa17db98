"""The model agrees with the promises it is the oracle for, on random histories."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.expiry import at, expire
from tests.model.head import head
from tests.model.histories import history, shuffled_subsets, without_compactions
from tests.model.versions import State, state_of

seeds = st.integers(0, 2**32)


@given(seeds, seeds)
def test_join_order_grouping_and_duplication_change_nothing(seed: int, order: int) -> None:
    versions = history(seed, steps=8)
    choose = random.Random(order)
    parts = (
        [state_of(version) for version in [*versions, *choose.choices(versions, k=3)]]
        if versions
        else [State()]
    )
    choose.shuffle(parts)
    while len(parts) > 1:
        left, right = parts.pop(choose.randrange(len(parts))), parts.pop()
        parts.append(left.join(right))
    assert head(parts[0]) == head(state_of(*versions))


@settings(max_examples=200)
@given(seeds)
def test_compaction_is_invisible(seed: int) -> None:
    versions = history(seed)
    assert head(state_of(*versions)) == head(state_of(*without_compactions(versions)))


@settings(max_examples=200)
@given(seeds, seeds)
def test_compaction_is_invisible_in_any_part_of_a_history(seed: int, part: int) -> None:
    """Not only in causally closed states: listings race with writers, so readers may see any subset."""
    some = shuffled_subsets(history(seed), part)
    assert head(state_of(*some)) == head(state_of(*without_compactions(some)))


@given(seeds, st.integers(0, 30))
def test_expiry_changes_no_row_only_what_is_listed(seed: int, horizon: int) -> None:
    state = state_of(*history(seed))
    before, after = head(state), head(expire(state, horizon))
    assert after.rows == before.rows
    assert after.row_ids == before.row_ids
    assert (after.schema, after.properties, after.counters) == (
        before.schema,
        before.properties,
        before.counters,
    )
    assert (after.version, after.snapshot, after.clock) == (before.version, before.snapshot, before.clock)
    assert after.history == tuple(version for version in before.history if version.hlc >= horizon)
    assert set(after.conflicts) <= set(before.conflicts)


@given(seeds, st.integers(0, 14))
def test_a_snapshot_reads_the_same_whatever_arrives_later(seed: int, cut: int) -> None:
    versions = history(seed)
    early = head(state_of(*versions[:cut]))
    assert head(at(state_of(*versions), early.clock)) == early


@given(seeds)
def test_expiring_twice_or_on_two_machines_gives_one_head(seed: int) -> None:
    state = state_of(*history(seed))
    low, high = expire(state, 5), expire(state, 12)
    assert head(low.join(high)) == head(expire(low, 12)) == head(high)
