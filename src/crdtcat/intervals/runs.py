"""The arithmetic of half-open runs `[start, stop)` of integers, in flat arrays: what both kinds of set share.

Theory. A set of integers has exactly one form as runs that are not empty, sorted, and neither overlap nor
touch. Everything here takes that form and gives it back, so equal sets have equal arrays. Runs of several
groups (rows of several chunks) stand in the same three arrays, sorted by group first: one call works on all
groups at once, and no Python loop runs over runs or groups.

Overlap compares ends only, which is exact (theorem: `overlap_exact`). Two lists of runs are compared by
looking up each run of the shorter list in the longer one, by two bisections: what lies between the two places
is what it overlaps (theorem: `touched_exact`). No I/O, no Arrow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Runs(NamedTuple):
    """Runs in canonical form: sorted by (group, start); within a group each ends before the next begins."""

    group: Integers
    start: Integers
    stop: Integers


def canonical(group: Integers, start: Integers, stop: Integers) -> Runs:
    """The canonical form of any runs: empty ones left out, overlapping and touching ones joined.

    Theorem: `interval_form_unique`.

    O(n log n); O(n) where they are in canonical form already.
    """
    filled = start < stop
    if not filled.all():
        group, start, stop = group[filled], start[filled], stop[filled]
    same = group[1:] == group[:-1]
    if bool(np.all((group[1:] > group[:-1]) | (same & (start[1:] > stop[:-1])))):
        return Runs(group, start, stop)
    order = np.lexsort((start, group))
    group, start, stop = group[order], start[order], stop[order]
    reach = _furthest(group, stop)
    begins = np.ones(len(group), bool)
    begins[1:] = (group[1:] != group[:-1]) | (start[1:] > reach[:-1])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(group))[: len(first)] - 1
    return Runs(group[first], start[first], reach[last])


def of_points(group: Integers, position: Integers) -> Runs:
    """The runs that hold exactly these (group, position) pairs, in any order, repeated or not. O(n log n)."""
    ahead = (group[1:] > group[:-1]) | ((group[1:] == group[:-1]) & (position[1:] >= position[:-1]))
    if not bool(np.all(ahead)):
        order = np.lexsort((position, group))
        group, position = group[order], position[order]
    begins = np.ones(len(group), bool)
    # Sorted, so a step down cannot overflow where a difference could.
    begins[1:] = (group[1:] != group[:-1]) | (position[1:] - 1 > position[:-1])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(group))[: len(first)] - 1
    return Runs(group[first], position[first], position[last] + 1)


def expand(counts: Integers) -> tuple[Integers, Integers]:
    """For every i, `counts[i]` times: the pair (i, 0 .. counts[i] - 1), in order. O(sum of counts)."""
    owner = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return owner, np.arange(len(owner)) - before[owner]


def touched(mine: Runs, theirs: Runs) -> tuple[Integers, Integers]:
    """For each run of `mine`, the runs of `theirs` it overlaps: positions first to last, last excluded.

    Theorem: `touched_exact`.

    O(m log t) for m runs of mine, t of theirs; what is not looked up is not read.
    """
    low = np.searchsorted(theirs.group, mine.group, side="left")
    high = np.searchsorted(theirs.group, mine.group, side="right")
    first = _bisect(theirs.stop, low, high, mine.start, after=True)
    last = _bisect(theirs.start, low, high, mine.stop, after=False)
    return first, np.maximum(first, last)


def intersection(mine: Runs, theirs: Runs) -> Runs:
    """What is in both. O(s log l + k) for s runs of the shorter, l of the longer, k of the result.

    Theorem: `interval_intersection_exact`.
    """
    if len(mine.group) > len(theirs.group):
        mine, theirs = theirs, mine
    first, last = touched(mine, theirs)
    owner, offset = expand(last - first)
    other = first[owner] + offset
    return Runs(
        mine.group[owner],
        np.maximum(mine.start[owner], theirs.start[other]),
        np.minimum(mine.stop[owner], theirs.stop[other]),
    )


def difference(mine: Runs, theirs: Runs) -> Runs:
    """What is in `mine` only. O(m log t + k). Theorem: `interval_difference_exact`."""
    first, last = touched(mine, theirs)
    if not bool(np.any(first < last)):
        return mine
    owner, offset = expand(last - first + 1)
    # Between the holes: each piece begins where the hole before it ends, and ends where the next begins.
    start, stop = mine.start[owner], mine.stop[owner]
    after, before = offset > 0, offset < (last - first)[owner]
    start[after] = theirs.stop[(first[owner] + offset - 1)[after]]
    stop[before] = theirs.start[(first[owner] + offset)[before]]
    filled = start < stop
    return Runs(mine.group[owner][filled], start[filled], stop[filled])


def overlap(mine: Runs, theirs: Runs) -> bool:
    """Whether a row is in both. O(s log l). Theorem: `overlap_any_exact`."""
    if len(mine.group) > len(theirs.group):
        mine, theirs = theirs, mine
    first, last = touched(mine, theirs)
    return bool(np.any(first < last))


def contains(runs: Runs, group: Integers, position: Integers) -> NDArray[np.bool_]:
    """For each (group, position), whether a run holds it. O(p log n)."""
    low = np.searchsorted(runs.group, group, side="left")
    high = np.searchsorted(runs.group, group, side="right")
    at = _bisect(runs.stop, low, high, position, after=True)
    inside = at < high
    inside[inside] = runs.start[at[inside]] <= position[inside]
    return inside


def _furthest(group: Integers, stop: Integers) -> Integers:
    """The greatest stop so far within each group: ranks rise from group to group, so one maximum does."""
    if len(group) == 0 or group[0] == group[-1]:
        return np.maximum.accumulate(stop)
    order = np.lexsort((stop, group))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return stop[order[np.maximum.accumulate(rank)]]


def _bisect(keys: Integers, low: Integers, high: Integers, wanted: Integers, *, after: bool) -> Integers:
    """For each i the first position in low[i]..high[i] whose key is >= wanted[i], or > if `after` is set.

    Theorem: `search_finds_first`.
    """
    if len(low) and low.min() == low.max() and high.min() == high.max():
        at, end = int(low[0]), int(high[0])
        return at + np.searchsorted(keys[at:end], wanted, side="right" if after else "left")
    low, high = low.copy(), high.copy()
    active = low < high
    while active.any():
        middle = (low + high) >> 1
        key = keys[np.where(active, middle, 0)]
        right = active & ((key <= wanted) if after else (key < wanted))
        low = np.where(right, middle + 1, low)
        high = np.where(active & ~right, middle, high)
        active = low < high
    return low
