"""What differs between two heads: columns, chunks and, for whoever asks, rows.

Chunks are found by comparing Merkle trees, so the work follows what changed and not how large the table is
(once the trees are there). A chunk of which only some rows changed is a chunk removed and one added at one
place; which rows those are, the change feed tells, which reads them. A column is the one it was, by whatever
name and type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow as pa

from crdtcat.head import Chunk, Head
from crdtcat.head.columns import Column
from crdtcat.head.head import Chunks
from crdtcat.merkle import Run, diff
from crdtcat.scan.feed import Feed
from crdtcat.scan.shown import matching

SHOWN: Final = 20  # runs that `str` lists


@dataclass(frozen=True)
class ColumnChange:
    """What became of a column.

    Attributes:
        kind: "added", "dropped"; "changed": it has another name or type, or may be null now; "moved": nothing
            of that, but its place among those that stayed is another.
        old: as it was, `None` if it is new.
        new: as it is, `None` if it is gone.
    """

    kind: Literal["added", "dropped", "changed", "moved"]
    old: pa.Field | None
    new: pa.Field | None

    def __str__(self) -> str:
        if self.kind == "changed":
            return f"~ column {_text(self.old)}  is now  {_text(self.new)}"
        sign = {"added": "+", "dropped": "-", "moved": "~"}[self.kind]
        moved = "  has another place" if self.kind == "moved" else ""
        return f"{sign} column {_text(self.new or self.old)}{moved}"


@dataclass(frozen=True, eq=False)
class Diff:
    """What turns one head into another. Made by `Table.diff`.

    Attributes:
        old, new: the heads.
        runs: where they differ, in row order: ranges of `old.chunks` and of `new.chunks`. Between two runs
            the chunks are the same.
        visited: Merkle nodes that were looked into.
        columns: those that came, went, or have another name, type or place: by their place now, gone ones
            last.
    """

    old: Head
    new: Head
    runs: tuple[Run, ...]
    visited: int
    columns: tuple[ColumnChange, ...]
    _feed: Callable[[], Feed] = field(repr=False)

    def rows(self) -> Feed:
        """The rows that differ, inserted, updated (before and after) and deleted, as `Table.changes` tells
        them: nothing is read until they are asked for. Raises `InvalidArgument` where that does."""
        return self._feed()

    @property
    def added(self) -> list[Chunk]:
        """Chunks that only the new head has there, in row order."""
        return [chunk for run in self.runs for chunk in self._new(run)]

    @property
    def removed(self) -> list[Chunk]:
        """Chunks that only the old head has there, in row order."""
        return [chunk for run in self.runs for chunk in self._old(run)]

    @property
    def rows_added(self) -> int:
        """Rows in the chunks added."""
        return sum(run.new_rows for run in self.runs)

    @property
    def rows_removed(self) -> int:
        """Rows in the chunks removed."""
        return sum(run.old_rows for run in self.runs)

    def __bool__(self) -> bool:
        return bool(self.runs or self.columns)

    def __str__(self) -> str:
        added = sum(run.new_stop - run.new_start for run in self.runs)
        removed = sum(run.old_stop - run.old_start for run in self.runs)
        first = (
            f"{self.new.table}, {self.old.snapshot.id[:12]} to {self.new.snapshot.id[:12]}: "
            f"{added:,} chunks added ({self.rows_added:,} rows), "
            f"{removed:,} removed ({self.rows_removed:,} rows), "
            f"{len(self.new.chunks) - added:,} the same"
        )
        lines = [
            first,
            *(f"  {column}" for column in self.columns),
            *(line for run in self.runs[:SHOWN] for line in self._lines(run)),
        ]
        more = len(self.runs) - SHOWN
        return "\n".join([*lines, *([f"  ... and {more:,} more places"] if more > 0 else [])])

    __repr__ = __str__

    def _lines(self, run: Run) -> Iterator[str]:
        new = {chunk.hash for chunk in self._new(run)}
        both = {chunk.hash for chunk in self._old(run) if chunk.hash in new}
        for sign, chunks, start in (
            ("-", self._old(run), run.old_start),
            ("+", self._new(run), run.new_start),
        ):
            for place, chunk in enumerate(chunks[:3]):
                what = "  some of them changed or gone" if sign == "+" and chunk.hash in both else ""
                yield f"  {sign} chunk {start + place:,}  {chunk.hash[:12]}…  {chunk.rows:>10,} rows{what}"
            if len(chunks) > 3:
                yield f"  {sign} ... and {len(chunks) - 3:,} more up to chunk {start + len(chunks):,}"

    def _old(self, run: Run) -> Chunks:
        return self.old.chunks[run.old_start : run.old_stop]

    def _new(self, run: Run) -> Chunks:
        return self.new.chunks[run.new_start : run.new_stop]


def diff_heads(old: Head, new: Head, feed: Callable[[], Feed]) -> Diff:
    """What turns `old` into `new`; `feed` gives the rows. O(changes * log chunks) once both trees are there.

    The old one is made from the new, by comparing leaves and hashing as many nodes.
    """
    old.follow(new.tree)
    found = diff(old.tree, new.tree)
    return Diff(old, new, found.runs, found.visited, tuple(_columns(old, new)), feed)


def _columns(old: Head, new: Head) -> Iterator[ColumnChange]:
    there = _once(matching(old.columns.all, new.columns.all))
    stayed = iter([column for column in old.columns.all if column in there])
    for before, column in zip(there, new.columns.all, strict=True):
        was, now = None if before is None else _field(before), _field(column)
        if was is None:
            yield ColumnChange("added", was, now)
        elif next(stayed) is not before or not was.equals(now):
            yield ColumnChange("moved" if was.equals(now) else "changed", was, now)
    for column in old.columns.all:
        if column not in there:
            yield ColumnChange("dropped", _field(column), None)


def _once(there: list[Column | None]) -> list[Column | None]:
    """Each column once: of two that were one, under one name by two renamings, say, the second came."""
    return [None if column in there[:place] else column for place, column in enumerate(there)]


def _field(column: Column) -> pa.Field:
    return pa.field(column.name, column.type, column.nullable)


def _text(field: pa.Field | None) -> str:
    return "" if field is None else f"{field.name}: {field.type}{'' if field.nullable else ' not null'}"
