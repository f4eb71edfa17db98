"""From places in a head back to names in version files: the inverse of `crdtcat.head.tags`.

Whoever changes rows finds them by entry and offset; what a version says about them must hold whatever becomes
of those entries, so it names the rows as they were born.
"""

from __future__ import annotations

import numpy as np

from crdtcat.format.row_ids import KeyedTag, RowIds, Tags
from crdtcat.format.sections import Array
from crdtcat.head.head import Head
from crdtcat.intervals.runs import Integers
from crdtcat.log.log import Log


def tags_of(log: Log, chunks: Array) -> tuple[Tags, Integers]:
    """Names of chunks, and for each chunk which name is its: under a key, names go by key and content."""
    version = log.chunk_version[chunks].astype(np.int64)
    ordinal = chunks - log.chunk_start[version]
    has_key = np.asarray(log.key.is_valid()) if len(log) else np.empty(0, bool)
    keyed = has_key[version] if len(chunks) else np.empty(0, bool)
    named = tuple(
        KeyedTag(log.key[int(at)].as_py().decode(), log.hash[chunk].tobytes(), int(place))
        for chunk, at, place in zip(chunks[keyed], version[keyed], ordinal[keyed], strict=True)
    )
    number = np.empty(len(chunks), np.int64)
    plain = int((~keyed).sum())
    number[~keyed] = np.arange(plain)
    number[keyed] = plain + np.arange(len(chunks) - plain)
    return Tags(log.ids[version[~keyed]], ordinal[~keyed].astype(np.uint32), named), number


def births(head: Head, entry: Integers, offset: Integers) -> tuple[Integers, Integers]:
    """The chunk each row was born in, and its offset there. O(rows log pieces)."""
    if head.rows.is_plain or not head.rows.copies:
        return entry, offset
    pieces = head.rows.pieces
    order = np.lexsort((pieces.at, pieces.entry))
    starts = (pieces.entry[order] << 32) | pieces.at[order]
    at = order[np.searchsorted(starts, (entry << 32) | offset, side="right") - 1]
    return pieces.birth[at], pieces.start[at] + offset - pieces.at[at]


def row_ids(head: Head, entry: Integers, offset: Integers) -> RowIds:
    """Rows, in the order given, as a version file names them. O(rows log rows)."""
    birth, place = births(head, entry, offset)
    fresh = np.ones(len(birth), bool)
    fresh[1:] = (birth[1:] != birth[:-1]) | (place[1:] != place[:-1] + 1)
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(birth))[: len(first)] - 1
    chunks, which = np.unique(birth[first], return_inverse=True)
    tags, number = tags_of(head.log, chunks)
    start, stop = place[first].astype(np.uint32), (place[last] + 1).astype(np.uint32)
    return RowIds(tags, number[which].astype(np.uint32), start, stop)
