"""Writers for model tests: they know a state, and make the versions a real handle would make of it.

An author keeps what it has seen in `seen`; `learn` merges more into it. Every verb returns the new version,
which the author itself has seen from then on. Times are small integers, so that histories read well.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from crdtcat.clock import VectorClock, VersionId
from tests.model.compaction import Keep, compact, keep_every_row
from tests.model.rows import LiveRow, entries, live_rows
from tests.model.standing import View, view
from tests.model.versions import (
    ALL,
    Chunk,
    Instance,
    Position,
    RowId,
    Scope,
    State,
    Tag,
    Version,
    column,
    rows_of,
    state_of,
)

Record = Mapping[str, Hashable]
TYPES = {int: "int64", float: "float64", str: "string", bool: "bool", type(None): "null"}


def columns_of(records: Iterable[Record]) -> tuple[tuple[Instance, str], ...]:
    """(instance, type) per column, by the first value that is not null."""
    types: dict[str, str] = {}
    for record in records:
        for name, value in record.items():
            if types.get(name, "null") == "null":
                types[name] = TYPES[type(value)]
    return tuple((column(name), type_) for name, type_ in types.items())


class Author:
    """One writer. `number` is its id; ids of equal time are ordered by it."""

    def __init__(self, number: int, seen: State | None = None) -> None:
        self.number = number
        self.seq = 0
        self.last = 0
        self.seen = seen or State()

    def learn(self, *what: Version | State) -> Author:
        for item in what:
            self.seen = self.seen.join(item if isinstance(item, State) else state_of(item))
        return self

    @property
    def view(self) -> View:
        return view(self.seen)

    def rows(self) -> list[LiveRow]:
        return live_rows(self.view)

    def find(self, name: str, value: Any) -> RowId:
        """The row that shows `value` in a column."""
        found: list[RowId] = [row.row for row in self.rows() if row.cells[column(name)].value == value]
        (row,) = found
        return row

    def position(self, row: RowId) -> Position:
        (found,) = [live.position for live in self.rows() if live.row == row]
        return found

    def next_id(self, time: int | None = None) -> VersionId:
        """The next id, above everything seen; `time` asks for at least that time."""
        known = max((version.id.hlc for version in self.seen.versions), default=0)
        self.last = max(self.last + 1, known + 1, time or 0)
        self.seq += 1
        return VersionId(self.last, self.number, self.seq, bytes(16))

    def commit(self, *, time: int | None = None, blind: bool = False, **delta: Any) -> Version:
        """Any delta at all. A blind commit claims to have seen nothing but its own writer."""
        made = self.next_id(time)
        clock = VectorClock() if blind else self.view.clock
        version = Version(made, clock.merge(VectorClock({self.number: self.seq})), **delta)
        self.learn(version)
        return version

    def append(
        self, *records: Record, partition: Any = None, after: Position | None = None, **more: Any
    ) -> Version:
        """Rows as one chunk; `after` makes it an insertion."""
        chunk = Chunk(rows_of(records), partition, after)
        return self.commit(adds=(chunk,), columns=columns_of(records), **more)

    def update(self, *cells: tuple[RowId, str, Hashable], **more: Any) -> Version:
        """One overlay that rewrites (row, column name, value)."""
        overlay = tuple(((row, column(name)), value) for row, name, value in cells)
        used = columns_of([{name: value} for _, name, value in cells])
        return self.commit(overlays=(overlay,), columns=used, **more)

    def delete(self, *gone: RowId, **more: Any) -> Version:
        return self.commit(deletes=frozenset(gone), **more)

    def overwrite(self, *records: Record, partition: Any = None, scope: Scope = ALL, **more: Any) -> Version:
        """Delete what is seen in scope and add rows; they all go into `partition`."""
        gone = frozenset(row.row for row in self.rows() if scope == ALL or row.partition in scope)
        return self.append(*records, partition=partition, deletes=gone, overwrite=scope, **more)

    def compact(self, *tags: Tag, keep: Keep = keep_every_row, time: int | None = None) -> Version:
        """Replace the named live entries, or all of them."""
        before = self.seen
        version = compact(before, self.next_id(time), tags or tuple(entries(view(before))), keep=keep)
        self.learn(version)
        return version
