"""Inserted chunks, and which of them are one.

Two writers who replace a table's content by the same new content insert the same rows in the same places,
without knowing of each other. That is one insertion: the smaller version's rows are in the table, the other's
are known as those, and what is done to either is done to both. Values are the same only in the same columns:
under the name of one that was dropped and made anew, equal rows are other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from crdtcat.format.kinds import ROWS
from crdtcat.format.row_ops import Insertion, RowOps
from crdtcat.format.version import pack
from crdtcat.head.clocks import Clocks
from crdtcat.head.stored_types import stored_fields
from crdtcat.log.log import Log


def insertions(log: Log, changes: Mapping[int, RowOps]) -> dict[int, Insertion]:
    """Per chunk of inserted rows of a standing version, what is said of it. O(insertions)."""
    found: dict[int, Insertion] = {}
    for version in sorted(version for version, change in changes.items() if change.insertions):
        first, end = (int(at) for at in log.chunk_start[version : version + 2])
        for item in changes[version].insertions:
            chunk = first + item.ordinal
            if chunk < end and log.kind[chunk] == ROWS and int(item.starts[-1]) < int(log.rows[chunk]):
                found[chunk] = item
    return found


def twins(log: Log, inserted: Mapping[int, Insertion], clocks: Clocks) -> dict[int, int]:
    """For each chunk that repeats an earlier insertion unknowingly, the chunk of the first.

    Theorem: `equal_insertions_are_one`. O(insertions), times those of one place that knew of each other.
    """
    columns = cache(lambda at: frozenset(item.column for item in stored_fields(log, at)))
    firsts: dict[tuple[object, ...], list[int]] = {}
    found: dict[int, int] = {}
    seen: dict[tuple[object, ...], int] = {}
    for chunk in sorted(inserted):
        version = int(log.chunk_version[chunk])
        item = inserted[chunk]
        where = pack([item.after.packed(), item.starts.tobytes()])
        place = where, log.hash[chunk].tobytes(), columns(int(log.chunk_schema[chunk]))
        occurrence = seen[version, *place] = seen.get((version, *place), 0) + 1
        group = firsts.setdefault((*place, occurrence), [])
        for first in group:
            other = int(log.chunk_version[first])
            if not clocks.saw(version, other) and not clocks.saw(other, version):
                found[chunk] = first
                break
        else:
            group.append(chunk)
    return found
