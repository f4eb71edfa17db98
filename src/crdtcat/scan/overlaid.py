"""Statistics of rows with newer cells over them: an entry's bounds, joined with those of all that is over it.

Theory. What a row shows in a column is its own cell or one of those over it, whichever is newest. So bounds
that hold for all of them hold for what is shown; they may be too wide, never too narrow. A part without any
value bounds nothing, and does not matter to the join. Nulls are known only where every part has none, or
every part has nothing else: which of their cells are shown, statistics do not say.

An entry is judged with everything over it, so no row is left out because the entry alone has no match; and
rows that several entries hold are read from one of them only, with the others over it where those know more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crdtcat.format.sections import Array
from crdtcat.scan.filters.bounds import Bits, ColumnBounds


class Part(NamedTuple):
    """Bounds of one column over some chunks, and how many rows those have."""

    bounds: ColumnBounds
    rows: npt.NDArray[np.int64]

    @property
    def is_empty(self) -> Bits:
        """Where there is no value at all, only nulls."""
        empty: Bits = self.bounds.nulls == self.rows
        return empty


def joined(entries: Part, sources: Part, owner: Array, source: Array) -> ColumnBounds:
    """Bounds of entries with what lies over them.

    O(entries + pairs) in arrays; for text and bytes O(pairs) in Python.

    Args:
        entries: of the entries themselves.
        sources: of the chunks that lie over some of them.
        owner: per pair of an entry and a chunk over it, the entry's place in `entries`.
        source: and the chunk's place in `sources`.
    """
    mine, theirs = entries.bounds, sources.bounds
    touched = np.zeros(len(entries.rows), bool)
    touched[owner] = True

    def throughout(of_entry: Bits, of_source: Bits) -> Bits:
        """Per entry, whether something holds for it and for all over it."""
        found = of_entry.copy()
        found[owner[~of_source[source]]] = False
        return found

    bounded = throughout(mine.known_min | entries.is_empty, theirs.known_min | sources.is_empty)
    empty = throughout(entries.is_empty, sources.is_empty)
    without_nulls = throughout(mine.nulls == 0, theirs.nulls == 0)
    known = np.where(touched, bounded & ~empty, mine.known_min)
    nulls = np.where(touched, np.where(without_nulls, 0, np.where(empty, entries.rows, -1)), mine.nulls)
    counts = theirs.known_min[source]
    low, high = _extremes(mine, theirs, owner[counts], source[counts])
    return ColumnBounds(low, high, known, known, nulls)


def _extremes(mine: ColumnBounds, theirs: ColumnBounds, owner: Array, source: Array) -> tuple[Any, Any]:
    """Least lower and greatest upper bounds, of those that are known."""
    if isinstance(mine.minimum, pa.LargeBinaryArray):
        return _extreme_bytes(mine, theirs, owner, source)
    kind = mine.minimum.dtype
    top = np.inf if kind.kind == "f" else np.iinfo(kind).max
    bottom = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    low, high = np.where(mine.known_min, mine.minimum, top), np.where(mine.known_max, mine.maximum, bottom)
    np.minimum.at(low, owner, theirs.minimum[source])
    np.maximum.at(high, owner, theirs.maximum[source])
    return low, high


def _extreme_bytes(mine: ColumnBounds, theirs: ColumnBounds, owner: Array, source: Array) -> tuple[Any, Any]:
    if not len(owner):
        return mine.minimum, mine.maximum
    low, high = mine.minimum.to_pylist(), mine.maximum.to_pylist()
    known = mine.known_min.tolist()
    pairs = zip(
        owner.tolist(),
        theirs.minimum.take(pa.array(source)).to_pylist(),
        theirs.maximum.take(pa.array(source)).to_pylist(),
        strict=True,
    )
    for entry, least, greatest in pairs:
        low[entry] = min(low[entry], least) if known[entry] else least
        high[entry] = max(high[entry], greatest) if known[entry] else greatest
        known[entry] = True
    return pa.array(low, pa.large_binary()), pa.array(high, pa.large_binary())
