"""Alignment and the heaviest increasing subsequence, against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.difference import increasing
from crdtcat.difference.align import Alignment, joined, spread
from crdtcat.difference.increasing import heaviest_increasing


def longest(values: list[int]) -> int:
    best: list[int] = []
    for value in values:
        best.append(1 + max((b for b, v in zip(best, values, strict=False) if v < value), default=0))
    return max(best, default=0)


@given(st.permutations(range(12)), st.integers(0, 12))
def test_the_longest_rise(order: list[int], take: int) -> None:
    values = order[:take]
    stay = heaviest_increasing(np.arange(take), np.array(values, np.int64))
    chosen = [value for value, kept in zip(values, stay.tolist(), strict=True) if kept]
    assert chosen == sorted(chosen)
    assert len(chosen) == longest(values)


@given(st.lists(st.integers(1, 5), max_size=7), st.randoms())
def test_runs_move_as_one(lengths: list[int], chance: object) -> None:
    starts = np.cumsum([0, *lengths])
    blocks = [list(range(int(starts[n]), int(starts[n + 1]))) for n in range(len(lengths))]
    chance.shuffle(blocks)  # type: ignore[attr-defined]
    values = [value for block in blocks for value in block]
    stay = heaviest_increasing(np.arange(len(values)), np.array(values, np.int64))
    assert int(stay.sum()) == longest(values)


def test_nothing_moved_is_no_loop() -> None:
    rows = np.arange(1_000_000)
    assert heaviest_increasing(rows, rows * 2).all()


def test_too_many_blocks_keep_the_heaviest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(increasing, "CROSSING_BLOCKS_MAX", 3)
    values = np.r_[np.arange(50, 90), np.arange(20)[::-1], np.arange(100, 140), 45]
    stay = heaviest_increasing(np.arange(len(values)), values)
    assert int(stay.sum()) == 80


def keys(texts: str) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.frombuffer(texts.encode(), np.uint8).astype(np.uint64)


def full(old: str, new: str) -> Alignment:
    left, right = keys(old), keys(new)
    found = Alignment(len(left), len(right))
    found.trim(left, right)
    found.anchor(left, right)
    found.trim(left, right)
    found.anchor(left, right, window=3)
    found.trim(left, right)
    before = -1
    while len(found.pairs[0]) > before:
        before = len(found.pairs[0])
        found.anchor(left, right, count=True)
        found.trim(left, right)
    return found


@given(st.text("abcdef", max_size=30), st.text("abcdef", max_size=30))
def test_pairs_are_equal_and_rise_and_gaps_are_between_them(old: str, new: str) -> None:
    found = full(old, new)
    first, second = found.pairs
    assert [old[at] for at in first] == [new[at] for at in second]
    assert (np.diff(first) > 0).all()
    assert (np.diff(second) > 0).all()
    for a, a_stop, b, b_stop in found.gaps.tolist():
        assert a < a_stop
        assert b < b_stop
        assert not ((first >= a) & (first < a_stop)).any()
        assert not ((second >= b) & (second < b_stop)).any()
        assert ((first < a) == (second < b)).all()
        # Nothing is left that begins or ends alike, and nothing at all that both sides have, in any order.
        assert old[a] != new[b]
        assert old[a_stop - 1] != new[b_stop - 1]
        assert not {*old[a:a_stop]} & {*new[b:b_stop]}


@given(st.text("abcdefghijklmnop", max_size=16).map(lambda text: "".join(dict.fromkeys(text))), st.data())
def test_where_nothing_repeats_it_is_the_longest_common_subsequence(old: str, data: st.DataObject) -> None:
    new = "".join(data.draw(st.permutations(old)))[: data.draw(st.integers(0, 16))]
    assert len(full(old, new).pairs[0]) == longest([old.index(letter) for letter in new])


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5))))
def test_spread(ranges: list[tuple[int, int]]) -> None:
    starts, lengths = (np.array([pair[n] for pair in ranges], np.int64) for n in (0, 1))
    assert spread(starts, lengths).tolist() == [
        n for start, size in ranges for n in range(start, start + size)
    ]


def test_joined_runs() -> None:
    runs = np.array([[5, 6, 2], [0, 0, 3], [3, 3, 0], [3, 3, 2], [7, 8, 1]])
    assert joined(runs).tolist() == [[0, 0, 5], [5, 6, 3]]
    assert joined(runs[:0]).tolist() == []


def test_long_sequences_are_compared_in_strides() -> None:
    old = np.arange(300_000, dtype=np.uint64)
    for at in combinations((0, 4095, 65_536, 299_999), 2):
        new = old.copy()
        new[list(at)] += 1_000_000
        found = Alignment(len(old), len(new))
        found.trim(old, new)
        assert found.gaps.tolist() == [[at[0], at[1] + 1, at[0], at[1] + 1]]
