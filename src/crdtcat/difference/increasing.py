"""The heaviest increasing subsequence: which of the rows found again stay, and which were moved.

Matches between two sequences, in the order of the first, give positions in the second. Those that rise can
all stay where they are; the others have moved. The most rows stay if the rising ones are chosen to weigh the
most.

Theory. A match that is greater than all before it and less than all behind it crosses none, so it is in
every maximal choice. Two passes find those, all of them where nothing moved. The rest is patience sorting
with weights: for every possible last position the greatest weight that ends there or earlier, kept as a
front that rises in both. Matches that follow each other directly in both sequences count as one block, so a
run of any length that moved is one step. Cost: O(matches) in numpy, and about a microsecond for each block
that crosses another.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

CROSSING_BLOCKS_MAX = 1 << 20
"""Beyond this the lightest blocks that cross others count as moved: a shuffled table keeps hardly any."""


def heaviest_increasing(first: Numbers, second: Numbers) -> Flags:
    """Which of the matches `first[i], second[i]` stay; `first` rises, and no `second` comes twice."""
    stay = _crosses_none(second)
    crossing = np.flatnonzero(~stay)
    if not len(crossing):
        return stay
    first, second = first[crossing], second[crossing]
    begins = np.flatnonzero(np.r_[True, (np.diff(first) != 1) | (np.diff(second) != 1)])
    weights = np.diff(np.r_[begins, len(first)])
    blocks = np.arange(len(begins))
    if len(blocks) > CROSSING_BLOCKS_MAX:
        heaviest = np.argpartition(weights, len(blocks) - CROSSING_BLOCKS_MAX)[-CROSSING_BLOCKS_MAX:]
        blocks = np.sort(heaviest)
    chosen = np.zeros(len(begins), np.bool_)
    chosen[blocks[_heaviest(second[begins[blocks]].tolist(), weights[blocks].tolist())]] = True
    stay[crossing] = np.repeat(chosen, weights)
    return stay


def _crosses_none(values: Numbers) -> Flags:
    if not len(values):
        return np.zeros(0, np.bool_)
    before = np.maximum.accumulate(values)
    behind = np.minimum.accumulate(values[::-1])[::-1]
    above = np.r_[True, values[1:] > before[:-1]]
    below = np.r_[values[:-1] < behind[1:], True]
    none: Flags = above & below
    return none


def _heaviest(starts: list[int], weights: list[int]) -> list[int]:
    """Indices of blocks `starts[i]` to `starts[i] + weights[i] - 1` that rise and weigh the most together."""
    ends: list[int] = []
    totals: list[int] = []
    last: list[int] = []
    before = [-1] * len(starts)
    for block, (start, weight) in enumerate(zip(starts, weights, strict=True)):
        at = bisect_left(ends, start)
        total = weight + (totals[at - 1] if at else 0)
        before[block] = last[at - 1] if at else -1
        end = start + weight - 1
        low = bisect_left(ends, end)
        if low and totals[low - 1] >= total:
            continue
        high = low
        while high < len(ends) and totals[high] <= total:
            high += 1
        ends[low:high], totals[low:high], last[low:high] = [end], [total], [block]
    found = []
    block = last[-1] if last else -1
    while block >= 0:
        found.append(block)
        block = before[block]
    return found[::-1]
