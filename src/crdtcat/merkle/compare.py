"""What differs between two trees, found by looking only where they differ.

Two nodes of one digest hold the same leaves, so neither is opened. What is left is a few short lists of
members, one for each place where the trees part; they are aligned, and the unmatched stretches are opened
one level further down. Node boundaries are content-defined, so a changed leaf leaves about one node per
level unmatched: O(changes * log n) in all. Where leaves were moved, they count as removed and inserted.

Alignment is a longest common subsequence over members that are unique on both sides. What lies between
those is aligned by pairing equal members at the same distance, then the k-th of equal members with the k-th.
So many equal leaves (the same batch, appended again and again) cost no more than different ones. The result
is always right, in that the runs turn one tree's leaves into the other's, and not always the least.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from crdtcat.merkle.node import Node, rows_of
from crdtcat.merkle.tree import Tree

Gap = tuple[int, int, int, int]
"""Start and stop in the old list, start and stop in the new one, of a stretch that does not match."""


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of leaves that differs. Between two runs the trees are the same.

    Attributes:
        old_start, old_stop: its leaves in the old tree; none if they were inserted.
        new_start, new_stop: its leaves in the new tree; none if they were removed.
        old_rows, new_rows: live rows of these leaves.
    """

    old_start: int
    old_stop: int
    new_start: int
    new_stop: int
    old_rows: int
    new_rows: int

    @property
    def kind(self) -> Literal["inserted", "removed", "changed"]:
        """What happened there."""
        if self.old_start == self.old_stop:
            return "inserted"
        return "removed" if self.new_start == self.new_stop else "changed"


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two trees.

    Attributes:
        runs: in rising order, never touching.
        visited: how many nodes were opened to find out.
    """

    runs: tuple[Run, ...]
    visited: int

    def __bool__(self) -> bool:
        return bool(self.runs)


def diff(old: Tree, new: Tree) -> Difference:
    """The runs that turn the leaves of `old` into those of `new`. O(changes * log n)."""
    walk = _Walk()
    olds, news = [old.root], [new.root]
    while olds[0].height > news[0].height:
        olds = walk.opened(olds)
    while news[0].height > olds[0].height:
        news = walk.opened(news)
    return Difference(tuple(walk.runs(olds, news, 0, 0)), walk.visited)


class _Walk:
    """Counts the nodes that one comparison opens."""

    def __init__(self) -> None:
        self.visited = 0

    def opened(self, nodes: Sequence[Node]) -> list[Node]:
        self.visited += len(nodes)
        return [child for node in nodes for child in node.children]

    def runs(self, olds: Sequence[Node], news: Sequence[Node], old_at: int, new_at: int) -> Iterator[Run]:
        """The runs between two lists of nodes of one height, which begin at these leaves."""
        old_ends, new_ends = _ends(olds, old_at), _ends(news, new_at)
        digests = [node.digest for node in olds], [node.digest for node in news]
        for a, b, c, d in gaps(*digests, old_ends, new_ends):
            gone, come = olds[a:b], news[c:d]
            old_start, new_start = old_ends[a], new_ends[c]
            if not gone or not come:
                rows = sum(node.rows for node in gone), sum(node.rows for node in come)
                yield Run(old_start, old_ends[b], new_start, new_ends[d], *rows)
            elif gone[0].height:
                yield from self.runs(self.opened(gone), self.opened(come), old_start, new_start)
            else:
                yield from self._leaf_runs(gone, come, old_start, new_start)

    def _leaf_runs(
        self, gone: Sequence[Node], come: Sequence[Node], old_at: int, new_at: int
    ) -> Iterator[Run]:
        self.visited += len(gone) + len(come)
        olds, news = (list(chain.from_iterable(node.split() for node in side)) for side in (gone, come))
        for a, b, c, d in gaps(olds, news, range(len(olds)), range(len(news))):
            rows = rows_of(b"".join(olds[a:b])), rows_of(b"".join(news[c:d]))
            yield Run(old_at + a, old_at + b, new_at + c, new_at + d, *rows)


def _ends(nodes: Sequence[Node], at: int) -> list[int]:
    """Where each node begins, and where the last one ends."""
    ends = [at]
    for node in nodes:
        ends.append(ends[-1] + node.leaves)
    return ends


@dataclass(frozen=True, slots=True)
class _Sides:
    """Two lists to align, and at which leaf each member of them begins."""

    old: Sequence[bytes]
    new: Sequence[bytes]
    old_at: Sequence[int]
    new_at: Sequence[int]


def gaps(
    old: Sequence[bytes], new: Sequence[bytes], old_at: Sequence[int], new_at: Sequence[int]
) -> list[Gap]:
    """The stretches in which two lists do not match, in order. O(n log n).

    `old_at` and `new_at` say at which leaf each member begins.
    """
    sides = _Sides(old, new, old_at, new_at)
    found = [(0, len(old), 0, len(new))]
    for match in (_unique, _level, _paired):
        found = [inner for outer in found for inner in _between(sides, outer, match)]
    return found


Pairs = list[tuple[int, int]]
Matcher = Callable[[_Sides, Gap], Pairs]


def _between(sides: _Sides, gap: Gap, match: Matcher) -> Iterator[Gap]:
    """What is left of a gap once equal ends, and the pairs that `match` finds, are taken out of it."""
    a, b, c, d = gap = _trimmed(sides, gap)
    pairs = _rising(match(sides, gap)) if a < b and c < d else []
    for x, y in [*pairs, (b, d)]:
        left = _trimmed(sides, (a, x, c, y))
        if left[0] < left[1] or left[2] < left[3]:
            yield left
        a, c = x + 1, y + 1


def _trimmed(sides: _Sides, gap: Gap) -> Gap:
    old, new = sides.old, sides.new
    a, b, c, d = gap
    while a < b and c < d and old[a] == new[c]:
        a, c = a + 1, c + 1
    while a < b and c < d and old[b - 1] == new[d - 1]:
        b, d = b - 1, d - 1
    return a, b, c, d


def _unique(sides: _Sides, gap: Gap) -> Pairs:
    """Members that each side has once."""
    old, new = sides.old, sides.new
    a, b, c, d = gap
    often = Counter(old[a:b]), Counter(new[c:d])
    where = {new[at]: at for at in range(c, d)}
    return [(at, where[old[at]]) for at in range(a, b) if often[0][old[at]] == often[1][old[at]] == 1]


def _level(sides: _Sides, gap: Gap) -> Pairs:
    """Equal members as many leaves from where the gap begins: right where one took another's place."""
    a, b, c, d = gap
    where = {sides.new_at[at] - sides.new_at[c]: at for at in range(c, d)}
    pairs = ((at, where.get(sides.old_at[at] - sides.old_at[a], -1)) for at in range(a, b))
    return [(at, other) for at, other in pairs if other >= 0 and sides.old[at] == sides.new[other]]


def _paired(sides: _Sides, gap: Gap) -> Pairs:
    """The k-th of equal members with the k-th."""
    old, new = sides.old, sides.new
    a, b, c, d = gap
    where: dict[bytes, list[int]] = {}
    for at in range(d - 1, c - 1, -1):
        where.setdefault(new[at], []).append(at)
    return [(at, where[old[at]].pop()) for at in range(a, b) if where.get(old[at])]


def _rising(pairs: Pairs) -> Pairs:
    """The longest of the rising parts of pairs that rise in their first numbers. O(k log k)."""
    tails: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for place, (_, value) in enumerate(pairs):
        length = bisect_left(tails, value)
        before.append(places[length - 1] if length else -1)
        tails[length : length + 1] = [value]
        places[length : length + 1] = [place]
    chosen: Pairs = []
    place = places[-1] if places else -1
    while place >= 0:
        chosen.append(pairs[place])
        place = before[place]
    return chosen[::-1]
