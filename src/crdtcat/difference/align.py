"""Alignment of two sequences by keys: runs that are in both, in the same order.

As patience does it, for all places at once: what begins and ends alike is taken first; then elements whose
key occurs once on either side are anchors, of which the most that do not cross are kept; then the same in
each gap between anchors, where more keys are unique and more begins and ends alike. So the work after the
first steps is proportional to what differs.

An element is an index; its key is a 64-bit number, chosen by the caller anew for every step: a row's hash,
the hash of a row without one cell. Equal keys are equal elements, except that anchors, which are found among
all pairs and not among a few, are shown to `confirm` first.

Pure: arrays in, arrays out. No loop over elements.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from crdtcat.difference.increasing import heaviest_increasing

Keys = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Confirm = Callable[[Numbers, Numbers], Flags]

_LONG = 4096
"""Gaps at least this long are compared one by one, in place; shorter ones all together."""
_STRIDE = 1 << 16
_GAP_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_COUNT_FACTOR = np.uint64(0xD6E8FEB86659FD93)


def everything(_: Numbers, __: Numbers) -> Flags:
    """Confirms every pair: for keys that are too many bits to collide."""
    return np.ones(len(_), np.bool_)


class Alignment:
    """Runs found so far, and the gaps between them.

    Args:
        old: how many elements the first sequence has.
        new: how many the second.
        gaps: where elements may be paired, as rows of (old start, old stop, new start, new stop), rising;
            anywhere by default.
    """

    def __init__(self, old: int, new: int, gaps: Numbers | None = None) -> None:
        self.sizes = old, new
        self.runs: Numbers = np.zeros((0, 3), np.int64)
        """Rows of (old start, new start, length), rising."""
        whole = np.array([[0, old, 0, new]], np.int64) if gaps is None else gaps
        self.gaps: Numbers = whole[(whole[:, 1] > whole[:, 0]) & (whole[:, 3] > whole[:, 2])]
        """As given, without those that have nothing on one side."""

    @property
    def pairs(self) -> tuple[Numbers, Numbers]:
        """All pairs of elements found, rising on both sides."""
        return spread(self.runs[:, 0], self.runs[:, 2]), spread(self.runs[:, 1], self.runs[:, 2])

    def sides(self) -> tuple[Numbers, Numbers]:
        """All elements in gaps, on either side."""
        old, new = self.gaps[:, :2], self.gaps[:, 2:]
        return spread(old[:, 0], old[:, 1] - old[:, 0]), spread(new[:, 0], new[:, 1] - new[:, 0])

    def trim(self, old: Keys, new: Keys) -> None:
        """Pair what begins and ends alike in each gap. Cost: O(elements in gaps)."""
        if not len(self.gaps):
            return
        a, a_stop, b, b_stop = self.gaps.T
        ahead = _alike(old, new, a, b, np.minimum(a_stop - a, b_stop - b))
        left = np.minimum(a_stop - a, b_stop - b) - ahead
        behind = _alike(old[::-1], new[::-1], len(old) - a_stop, len(new) - b_stop, left)
        runs = np.concatenate(
            (np.stack((a, b, ahead), 1), np.stack((a_stop - behind, b_stop - behind, behind), 1))
        )
        rest = np.stack((a + ahead, a_stop - behind, b + ahead, b_stop - behind), 1)
        self._add(runs, rest)

    def anchor(
        self,
        old: Keys,
        new: Keys,
        *,
        confirm: Confirm = everything,
        sample: int = 1,
        window: int = 1,
        count: bool = False,
    ) -> None:
        """Pair elements whose key occurs once in their gap on either side, as many as do not cross.

        Cost: a sort of the elements in gaps, or of one in `sample` of them, by their keys.

        Args:
            old: keys of the first sequence.
            new: keys of the second.
            confirm: says of pairs with equal keys whether they are equal.
            sample: only elements whose key is a multiple of this, a power of two.
            window: an element's key is made of its own and of those of the next ones in its gap.
            count: the n-th of equal elements in a gap is paired with the n-th of the other side.
        """
        if not len(self.gaps):
            return
        sides = (
            _Side.of(old, self.gaps[:, :2], sample, window, count=count),
            _Side.of(new, self.gaps[:, 2:], sample, window, count=count),
        )
        at_old, at_new = matches(*(side.keys for side in sides))
        first, second = sides[0].index[at_old], sides[1].index[at_new]
        good = (sides[0].gap[at_old] == sides[1].gap[at_new]) & (old[first] == new[second])
        first, second = first[good], second[good]
        order = np.argsort(first)
        first, second = first[order], second[order]
        good = confirm(first, second)
        first, second = first[good], second[good]
        stay = heaviest_increasing(first, second)
        self.pair(first[stay], second[stay])

    def pair(self, first: Numbers, second: Numbers) -> None:
        """Pair elements that lie in gaps; both rise."""
        if len(first):
            gap = np.searchsorted(self.gaps[:, 0], first, "right") - 1
            cuts = np.stack((first, first + 1, second, second + 1), 1)
            firsts, lasts = self.gaps[:, ::2].copy(), self.gaps[:, 1::2].copy()
            # Every pair ends one piece of its gap and begins the next.
            starts = np.insert(firsts, gap + 1, cuts[:, 1::2], axis=0)
            stops = np.insert(lasts, gap, cuts[:, ::2], axis=0)
            rest = np.stack((starts[:, 0], stops[:, 0], starts[:, 1], stops[:, 1]), 1)
            self._add(np.stack((first, second, np.ones_like(first)), 1), rest)

    def _add(self, runs: Numbers, rest: Numbers) -> None:
        self.runs = joined(np.concatenate((self.runs, runs)))
        self.gaps = rest[(rest[:, 1] > rest[:, 0]) & (rest[:, 3] > rest[:, 2])]


def joined(runs: Numbers) -> Numbers:
    """Runs in rising order, those that continue each other as one."""
    runs = runs[runs[:, 2] > 0]
    runs = runs[np.argsort(runs[:, 0], kind="stable")]
    if len(runs) < 2:
        return runs
    ends = runs[:, :2] + runs[:, 2:]
    begins = np.flatnonzero(np.r_[True, (runs[1:, :2] != ends[:-1]).any(axis=1)])
    lengths = np.add.reduceat(runs[:, 2], begins)
    return np.column_stack((runs[begins, :2], lengths))


def spread(starts: Numbers, lengths: Numbers) -> Numbers:
    """All numbers of ranges, one range after the other."""
    total = int(lengths.sum())
    before = np.cumsum(lengths) - lengths
    numbers: Numbers = np.arange(total, dtype=np.int64) + np.repeat(starts - before, lengths)
    return numbers


class _Side:
    """The elements of one sequence that lie in gaps, with their keys and gaps."""

    def __init__(self, index: Numbers, keys: Keys, gap: Numbers) -> None:
        self.index, self.keys, self.gap = index, keys, gap

    @classmethod
    def of(cls, keys: Keys, ranges: Numbers, sample: int, window: int, *, count: bool) -> _Side:
        starts, stops = ranges[:, 0], ranges[:, 1]
        if window > 1:
            stops = np.maximum(starts, stops - (window - 1))
        lengths = stops - starts
        if len(ranges) == 1:  # without copies of long sequences
            start, stop = int(starts[0]), int(stops[0])
            index: Numbers = np.arange(start, stop)
            chosen = keys[start:stop]
        else:
            index = spread(starts, lengths)
            chosen = keys[index]
        gap = np.repeat(np.arange(len(ranges)), lengths)
        if sample > 1:
            few = np.flatnonzero((chosen & np.uint64(sample - 1)) == 0)
            index, chosen, gap = index[few], chosen[few], gap[few]
        mixed = chosen ^ (gap.astype(np.uint64) * _GAP_FACTOR)
        for step in range(1, window):
            mixed = (mixed ^ (mixed >> np.uint64(29))) * _COUNT_FACTOR + keys[index + step]
        if count:
            mixed = mixed + _occurrences(mixed) * _COUNT_FACTOR
        return cls(index, mixed, gap)


def _occurrences(keys: Keys) -> Keys:
    """For each key how many equal ones are before it."""
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    begins = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]]) if len(keys) else np.zeros(0, np.int64)
    found = np.empty(len(keys), np.uint64)
    found[order] = np.arange(len(keys)) - np.repeat(begins, np.diff(np.r_[begins, len(keys)]))
    return found


def matches(old: Keys, new: Keys) -> tuple[Numbers, Numbers]:
    """Where the keys are that occur once on either side."""
    (old_keys, old_at), (new_keys, new_at) = _once(old), _once(new)
    if not len(new_keys):
        return old_at[:0], new_at
    where = np.minimum(np.searchsorted(new_keys, old_keys), len(new_keys) - 1)
    same = new_keys[where] == old_keys
    return old_at[same], new_at[where[same]]


def _once(keys: Keys) -> tuple[Keys, Numbers]:
    """Keys that occur once, rising, and where."""
    order = np.argsort(keys)
    ranked = keys[order]
    other = np.r_[True, ranked[1:] != ranked[:-1], True] if len(keys) else np.ones(1, np.bool_)
    alone = other[1:] & other[:-1]
    return ranked[alone], order[alone]


def _alike(old: Keys, new: Keys, a: Numbers, b: Numbers, lengths: Numbers) -> Numbers:
    """How many elements from `a` and `b` on are equal, of at most `lengths`, for many pairs of places."""
    found = np.zeros_like(lengths)
    long = lengths >= _LONG
    for gap in np.flatnonzero(long).tolist():
        found[gap] = _alike_long(old, new, int(a[gap]), int(b[gap]), int(lengths[gap]))
    short = np.flatnonzero(~long & (lengths > 0))
    if len(short):
        sizes = lengths[short]
        starts = np.cumsum(sizes) - sizes
        different = np.flatnonzero(old[spread(a[short], sizes)] != new[spread(b[short], sizes)])
        after = np.r_[different, starts[-1] + sizes[-1]][np.searchsorted(different, starts)]
        found[short] = np.minimum(after - starts, sizes)
    return found


def _alike_long(old: Keys, new: Keys, a: int, b: int, length: int) -> int:
    for start in range(0, length, _STRIDE):
        size = min(_STRIDE, length - start)
        different = old[a + start : a + start + size] != new[b + start : b + start + size]
        if different.any():
            return start + int(different.argmax())
    return length
