"""Expiry in the model: what a base admits counts, what it did not admit is dead, sync loses nothing."""

from __future__ import annotations

import pytest

from crdtcat.clock import VectorClock
from crdtcat.errors import Expired
from tests.model.authors import Author
from tests.model.expiry import at, expire, resolve, sync
from tests.model.head import head
from tests.model.versions import state_of


def test_a_version_below_the_horizon_that_the_base_did_not_admit_is_dead_as_a_whole() -> None:
    admitted = Author(1).append({"a": 1}, time=2)
    base = expire(state_of(admitted), 5)
    straggler = Author(2).append({"a": 2}, time=3, properties=(("p", 1),))
    merged = head(base.join(state_of(straggler)))
    assert (merged.values("a"), merged.properties, merged.version) == ([1], {}, 1)
    assert straggler.id not in merged.snapshot


def test_what_one_base_admitted_no_other_base_makes_dead() -> None:
    one, two = Author(1).append({"a": 1}, time=2), Author(2).append({"a": 2}, time=3)
    merged = expire(state_of(one), 5).join(expire(state_of(one, two), 5))
    assert head(merged).values("a") == [1, 2]
    assert head(merged.join(expire(state_of(one), 5))).values("a") == [1, 2]


def test_a_dead_version_holds_no_key() -> None:
    key = frozenset({"task"})
    base = expire(state_of(Author(1).append({"a": 1}, time=2)), 5)
    dead = Author(2).append({"a": 2}, keys=key, time=3)
    retry = Author(3).append({"a": 3}, keys=key, time=7)
    assert head(base.join(state_of(dead, retry))).values("a") == [1, 3]


def test_keys_outlive_the_horizon_until_they_are_forgotten() -> None:
    key = frozenset({"task"})
    first = state_of(Author(1).append({"a": 1}, keys=key, time=2))
    retry = state_of(Author(2).append({"a": 2}, keys=key, time=7))
    assert head(expire(first, 5).join(retry)).values("a") == [1]
    assert head(expire(first, 5, keys_forgotten_below=5).join(retry)).values("a") == [1, 2]


def test_an_equal_retry_of_a_forgotten_key_adds_the_same_rows_not_more() -> None:
    key = frozenset({"task"})
    first = state_of(Author(1).append({"a": 1}, keys=key, time=2))
    retry = state_of(Author(2).append({"a": 1}, keys=key, time=7))
    merged = head(expire(first, 5, keys_forgotten_below=5).join(retry))
    assert (merged.values("a"), merged.version) == ([1], 2)


def test_a_streams_last_batch_is_never_forgotten() -> None:
    author = Author(1)
    batches = [author.append({"a": batch}, stream=("query", batch)) for batch in (1, 2)]
    base = expire(state_of(*batches), 5, keys_forgotten_below=5)
    replayed = Author(2).append({"a": 1}, stream=("query", 1), time=8)
    following = Author(2).append({"a": 3}, stream=("query", 3), time=9)
    assert head(base.join(state_of(replayed, following))).values("a") == [1, 2, 3]


def test_a_snapshot_below_the_horizon_is_expired_and_a_moment_is_resolved_once() -> None:
    author = Author(1)
    first, second = author.append({"a": 1}, time=2), author.append({"a": 2}, time=4)
    state = state_of(first, second)
    token = resolve(state, 3)
    assert token == VectorClock({1: 1})
    late = state_of(Author(2).append({"a": 9}, time=3))
    assert head(at(state.join(late), token)).values("a") == [1]
    with pytest.raises(Expired):
        at(expire(state, 5), token)


def test_sync_re_issues_what_the_other_sides_horizon_has_passed() -> None:
    ours = expire(state_of(Author(1).append({"a": 1}, time=2)), 5)
    offline = Author(2)
    added = offline.append({"a": 2}, {"a": 3}, time=3)
    gone = offline.delete(offline.find("a", 2), time=8)
    clerk = Author(3)
    merged = sync(ours, offline.seen, lambda: clerk.next_id(20))
    assert head(merged).values("a") == [1, 3], "the row ids were kept, so the delete found its row"
    again = sync(merged, state_of(added, gone), lambda: clerk.next_id(30))
    assert head(again).rows == head(merged).rows
