"""Rows that a function answered with, and when it has to be asked again.

Where one side has the rows of a conflict no longer, a function may answer with rows that mine shall add
besides. Such an answer is about the rows as theirs left them. If somebody changes these once more before mine
is committed, it is out of date: to add what is answered next beside it would have them twice, and to keep it
would bring back rows that are gone. So the function is asked again, about all that it was asked about and
what was met now, and what it says takes the place of what it had said. Of rows that are gone it is asked
nothing. In a keyed table rows are upserted, and the last answer prevails by itself. Pure; no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from crdtcat.clock import VersionId
from crdtcat.conflicts.kinds import Kind
from crdtcat.conflicts.overlap import Overlap
from crdtcat.conflicts.resolve import row_ids
from crdtcat.conflicts.tagged_rows import TaggedRows
from crdtcat.conflicts.write_set import Numbering, WriteSet

_KINDS = (Kind.DELETE_UPDATE, Kind.OVERWRITE_UPDATE, Kind.OVERWRITE_APPEND)
"""Those that are about rows which theirs has, and mine takes away."""
Taken = Callable[[TaggedRows], TaggedRows]
"""Of some rows, those that theirs takes away."""


@dataclass(frozen=True, eq=False)
class Answered:
    """An answer that is rows.

    Attributes:
        overlap: what was asked about.
        body: the rows, staged; empty where it was not asked yet.
        first: the version that the question began with: its base is what was there right before that.
    """

    overlap: Overlap
    body: Mapping[str, Any]
    first: VersionId

    @cached_property
    def rows(self) -> TaggedRows:
        """Those that were asked about."""
        return rows_of(self.overlap)


def may_change(overlap: Overlap) -> bool:
    """Whether what is answered about a conflict is out of date once its rows are changed again."""
    return overlap.kind in _KINDS and not overlap.by_key and bool(overlap.tags)


def rows_of(overlap: Overlap) -> TaggedRows:
    """The rows of a conflict; of one about chunks, all that these have, unless it says which."""
    if overlap.kind is Kind.OVERWRITE_APPEND and not len(overlap.rows):
        return TaggedRows.whole(overlap.tags)
    return TaggedRows([row_ids(overlap.rows, Numbering(overlap.tags))])


def asked_again(
    answered: Sequence[Answered], theirs: WriteSet, met: Sequence[Overlap], taken: Taken
) -> list[Overlap]:
    """What mine and theirs both touched, with what has to be asked again because of it. O(rows answered for).

    Each of these names the conflicts that it takes the place of (`Overlap.instead`).
    """
    hit: dict[tuple[int, Kind], list[Answered]] = {}
    for item in answered:
        if len(item.rows & theirs.touched) or len(taken(item.rows)):
            hit.setdefault((item.overlap.part, item.overlap.kind), []).append(item)
    found = list(met)
    for (part, kind), items in hit.items():
        first, held = items[0].overlap, [item.rows - taken(item.rows) for item in items]
        if kind is not Kind.OVERWRITE_APPEND:  # of which what is new is other rows
            held += [rows_of(item) for item in found if (item.part, item.kind) == (part, kind)]
            found = [item for item in found if (item.part, item.kind) != (part, kind)]
        rows = TaggedRows(row_ids(each.rows, Numbering(each.tags)) for each in held)
        found = [left for item in found if (left := _without(item, part, rows)) is not None]
        instead = tuple(item.overlap for item in items)
        asked = replace(first, theirs=theirs.id, number=theirs.number, rows=rows.rows, tags=rows.tags)
        found.append(replace(asked, instead=instead, first=items[0].first))
    return found


def _without(overlap: Overlap, part: int, rows: TaggedRows) -> Overlap | None:
    """A conflict about rows without those that are asked about by another one; `None`: none is left."""
    if overlap.part != part or overlap.kind not in (Kind.DELETE_UPDATE, Kind.OVERWRITE_UPDATE):
        return overlap
    left = rows_of(overlap) - rows
    return replace(overlap, rows=left.rows, tags=left.tags) if len(left) else None
