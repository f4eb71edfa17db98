"""What recorded transactions say about isolation: Adya's dependency graph, from values that are written once.

Every value names the transaction that wrote it. The versions of a cell stand in the order in which their
writers took their numbers. Edges:

- ww: a transaction wrote the version of a cell that follows another's;
- wr: a transaction read another's version;
- rw: a transaction read a version that another's version follows: it must have come before it.

Serializable: no cycle at all. Snapshot isolation: no cycle with less than two rw edges, which rules out lost
updates (two that read one version and both replaced it) and read skew (half of another's writes), and lets
write skew through. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Cell = str
Value = int
Edge = tuple[int, int, str]


@dataclass(frozen=True)
class Done:
    """A transaction that was committed. Transaction 0 wrote what was there in the beginning.

    Attributes:
        id: its number, from 1, in no order.
        reads: the values it found.
        writes: the values it left; no other writes the same.
    """

    id: int
    reads: Mapping[Cell, Value] = field(default_factory=dict)
    writes: Mapping[Cell, Value] = field(default_factory=dict)


def edges(done: Sequence[Done], orders: Mapping[Cell, Sequence[Value]]) -> Iterator[Edge]:
    """The dependencies. `orders`: all versions of each cell, the first one first."""
    author = {value: item.id for item in done for value in item.writes.values()}
    writer = {(cell, value): author.get(value, 0) for cell, order in orders.items() for value in order}
    for cell, order in orders.items():
        for before, after in pairwise(order):
            yield writer[cell, before], writer[cell, after], f"ww {cell}"
    for item in done:
        for cell, value in item.reads.items():
            assert (cell, value) in writer, f"{item.id} read {value} from {cell}, which nobody committed"
            yield writer[cell, value], item.id, f"wr {cell}"
            at = list(orders[cell]).index(value) + 1
            if at < len(orders[cell]):
                yield item.id, writer[cell, orders[cell][at]], f"rw {cell}"


def cycle(found: Sequence[Edge], *, rw_max: int | None = None) -> list[Edge] | None:
    """A cycle, with at most so many rw edges; `None` if there is none."""
    steps = [edge for edge in dict.fromkeys(found) if edge[0] != edge[1]]
    for first in steps:
        path = _back(steps, first, rw_max)
        if path is not None:
            return path
    return None


def _back(steps: Sequence[Edge], first: Edge, rw_max: int | None) -> list[Edge] | None:
    """The way from where an edge ends to where it begins, with the edge before it."""
    used = first[2].startswith("rw")
    waiting: list[tuple[int, int, list[Edge]]] = [(first[1], int(used), [first])]
    seen: set[tuple[int, int]] = set()
    while waiting:
        at, count, path = waiting.pop()
        if rw_max is not None and count > rw_max:
            continue
        if at == first[0]:
            return path
        place = (at, count if rw_max is not None else 0)
        if place in seen:
            continue
        seen.add(place)
        waiting += [
            (edge[1], count + edge[2].startswith("rw"), [*path, edge]) for edge in steps if edge[0] == at
        ]
    return None


def check(done: Sequence[Done], orders: Mapping[Cell, Sequence[Value]], isolation: str) -> None:
    """Raises `AssertionError` with the cycle, if the history is not what the isolation promises."""
    found = cycle(list(edges(done, orders)), rw_max=None if isolation == "serializable" else 1)
    assert found is None, f"{isolation}: {found}"
    for cell, order in orders.items():
        written = [item.writes[cell] for item in done if cell in item.writes]
        assert sorted(order[1:]) == sorted(written), f"{cell}: what was acknowledged is not what is there"
