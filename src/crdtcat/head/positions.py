"""Where rows stand: the order of a table whose rows were not only appended.

Appended chunks stand in the order of their versions. An inserted run follows the row it names: directly
behind it, before what stood next, and of several runs behind one row the one of the greater version comes
first, because its author saw the others and still wanted to be next to that row. So the table is a forest:
chunks that were appended are roots, runs hang on rows, and rows are read depth first. A clustered chunk is a
root too: the rows it lists stand in it instead of where they were born, and what hangs on them goes along.

Positions are of (chunk, offset) for life, whatever is compacted or deleted meanwhile. Roots that nothing
hangs on need no work at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from crdtcat.format.row_ids import END, RowIds
from crdtcat.format.row_ops import Insertion
from crdtcat.head.pieces import Pieces, joined
from crdtcat.head.places import Placed, Places
from crdtcat.head.tags import TagIndex
from crdtcat.intervals.runs import Integers, Runs, expand, touched
from crdtcat.log.log import Log

START = -1
"""The chunk that stands before all others: what is inserted at the beginning hangs on its row 0."""


class Run(NamedTuple):
    """Rows of one chunk that hang together on one row."""

    chunk: int
    start: int
    stop: int


class Spans(NamedTuple):
    """Rows of some chunks in the order in which they stand: parallel arrays, in that order.

    Attributes:
        chunk, start, stop: which rows.
        root: the chunk under which they stand; roots stand in rising order.
    """

    chunk: Integers
    start: Integers
    stop: Integers
    root: Integers


class Forest:
    """What hangs on what. Theorem: `insertion_follows`.

    Args:
        log: the log.
        inserted: per chunk of inserted rows, what is said of it.
        tags: resolves tags.
        places: where clusterings put rows.
    """

    def __init__(self, log: Log, inserted: Mapping[int, Insertion], tags: TagIndex, places: Places) -> None:
        self._children: dict[int, dict[int, list[Run]]] = {}
        self.inserted = frozenset(inserted)
        for chunk, insertion in inserted.items():
            rows = int(log.rows[chunk])
            starts = insertion.starts.astype(np.int64)
            stops = np.append(starts[1:], rows)
            for start, stop, anchor in zip(
                starts.tolist(), stops.tolist(), _anchors(insertion.after, tags, places), strict=True
            ):
                if start < stop <= rows:
                    under = self._children.setdefault(anchor[0], {})
                    under.setdefault(anchor[1], []).append(Run(chunk, start, stop))
        for under in self._children.values():
            for runs in under.values():
                runs.sort(key=lambda run: (-int(log.chunk_version[run.chunk]), run.chunk, run.start))
        self._offsets = {chunk: sorted(under) for chunk, under in self._children.items()}

    def spans(self) -> Spans:
        """Every root that something hangs on, and all that does, in order. O(runs) in Python."""
        roots = sorted(chunk for chunk in self._children if chunk not in self.inserted)
        found = [(*run, root) for root in roots for run in self._below(root)]
        columns = np.array(found, np.int64).reshape(-1, 4).T
        return Spans(*columns)

    def _below(self, root: int) -> Iterator[Run]:
        """Depth first, without recursion: people insert behind what they inserted, again and again."""
        waiting = [Run(root, 0, 1 if root == START else END)]
        while waiting:
            run = waiting.pop()
            under = self._children.get(run.chunk, {})
            offsets = self._offsets.get(run.chunk, ())
            at = bisect_left(offsets, run.start)
            if at == len(offsets) or offsets[at] >= run.stop:
                yield run
                continue
            anchor = offsets[at]
            yield Run(run.chunk, run.start, anchor + 1)
            if anchor + 1 < run.stop:
                waiting.append(Run(run.chunk, anchor + 1, run.stop))
            waiting += reversed(under[anchor])


def in_row_order(pieces: Pieces, forest: Forest, places: Places) -> Pieces:
    """Pieces, sorted by birth, in the order in which their rows stand; cut where something was inserted.

    Theorem: `split_pieces_in_order`.
    """
    if not forest.inserted and not places:
        return joined(pieces)
    placed = places.of_pieces(pieces)
    if not forest.inserted:
        return joined(placed.pieces.take(np.lexsort((placed.at, placed.chunk))))
    spans = forest.spans()
    order = np.lexsort((spans.start, spans.chunk))
    runs = Runs(spans.chunk[order], spans.start[order], spans.stop[order])
    within = np.isin(placed.chunk, spans.chunk)
    inside, run = _split(placed.take(within), runs)
    rest = placed.take(~within)
    both = Pieces(*(np.concatenate(column) for column in zip(rest.pieces, inside.pieces, strict=True)))
    root = np.concatenate((rest.chunk, spans.root[order][run]))
    place = np.concatenate((np.zeros(rest.pieces.size, np.int64), order[run]))
    at = np.concatenate((rest.at, inside.at))
    return joined(both.take(np.lexsort((at, place, root))))


def _split(placed: Placed, runs: Runs) -> tuple[Placed, Integers]:
    """Pieces cut where runs of the chunks they stand in begin and end, and for each the run it lies in."""
    size = placed.pieces.stop - placed.pieces.start
    first, last = touched(Runs(placed.chunk, placed.at, placed.at + size), runs)
    owner, offset = expand(last - first)
    run = first[owner] + offset
    whole = placed.take(owner)
    start = np.maximum(whole.at, runs.start[run])
    stop = np.minimum(whole.at + size[owner], runs.stop[run])
    skipped, born = start - whole.at, whole.pieces.start
    pieces = whole.pieces._replace(
        start=born + skipped, stop=born + stop - whole.at, at=whole.pieces.at + skipped
    )
    return Placed(pieces, whole.chunk, start), run


def _anchors(after: RowIds, tags: TagIndex, places: Places) -> Sequence[tuple[int, int]]:
    """Per run the (chunk, offset) it follows; what is not there any more is the beginning of the table."""
    chunk = tags.chunks(after.tags)[after.tag]
    counts = after.stop.astype(np.int64) - after.start.astype(np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    offset = after.start.astype(np.int64)[owner] + np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    found = chunk[owner]
    stands, at = places.of_rows(found, np.where(found < 0, 0, offset))
    return list(zip(stands.tolist(), at.tolist(), strict=True))
