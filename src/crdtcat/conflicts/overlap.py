"""What two commits both touched, as it is told: one kind of conflict, with its rows, columns, keys or names.

A plain value that pickles. Finding it is `crdtcat.conflicts.detect`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from crdtcat.clock import VersionId
from crdtcat.conflicts.keys import KeyValues
from crdtcat.conflicts.kinds import Kind
from crdtcat.conflicts.tagged_rows import Tag
from crdtcat.format.ops import ColumnId, DefinitionId
from crdtcat.format.version import unpack
from crdtcat.intervals import RowSet

SHOWN_MAX: Final = 20  # names or keys that a text has; the values have them all
SHOWN_CHARACTERS_MAX: Final = 100  # of each


@dataclass(frozen=True, eq=False)
class Overlap:
    """One kind of conflict between two commits.

    Attributes:
        kind: what mine did and theirs did.
        theirs: the version that is in the way, and its number.
        number: its number.
        rows: the rows both touched, by number of tag.
        tags: the tags those numbers stand for: (version id, ordinal), or (key, hash, ordinal).
        columns: names of the columns both touched, as mine calls them once an error tells it.
        births: the names that these were born with.
        called: those of mine among them, by id, each with what mine calls it.
        partitions: packed values of the partitions both touched; `None` in it: an unpartitioned table.
        properties: names both set.
        keys: what of the keys overlaps, in words; not more than `crdtcat.conflicts.keys.KEYS_NAMED_MAX`.
        key_values: those keys, if all of them are known and named. Arrow scalars where Python has no such
            value, as of times in nanoseconds.
        doubt: why there may be no key in common: ranges of keys overlap, and the keys of one side could not
            be read, or were too many. Empty: it is exact.
        by_key: whether it is about rows of a keyed table beside an overwrite. Then mine cannot leave out what
            theirs touched: its rows would be there by halves, or theirs be gone.
        definitions: theirs, of the columns both changed.
        covers: chunks of theirs that mine takes away where it prevails, and does not name.
        table: where, once an error tells it; a branch as "table@branch".
        part: which of mine's versions it is about, where mine has several.
        instead: conflicts with those before theirs that this one takes the place of: rows were answered to
            them, and theirs changed what these were about (`crdtcat.conflicts.answered`).
        first: where it does, the version that the first of them was about.
    """

    kind: Kind
    theirs: VersionId
    number: int
    rows: RowSet = field(default_factory=RowSet)
    tags: tuple[Tag, ...] = ()
    columns: tuple[str, ...] = ()
    births: tuple[str, ...] = ()
    called: tuple[tuple[ColumnId, str], ...] = ()
    partitions: tuple[bytes | None, ...] = ()
    properties: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    key_values: tuple[KeyValues, ...] = ()
    doubt: str = ""
    by_key: bool = False
    definitions: tuple[tuple[ColumnId, DefinitionId], ...] = ()
    covers: tuple[Tag, ...] = ()
    table: str = ""
    part: int = 0
    instead: tuple[Overlap, ...] = ()
    first: VersionId | None = None

    def __repr__(self) -> str:
        return f"Overlap({self})"

    def __str__(self) -> str:
        parts = [f"{self.kind.value} with {self.theirs} (number {self.number}): {self.kind.rule.meaning}"]
        if self.rows.total and self.kind is not Kind.OVERWRITE_APPEND:  # those are of chunks of any length
            listed = ", ".join(f"{self._tag(at)}[{start}:{stop}]" for at, start, stop in list(self.rows)[:4])
            more = ", ..." if len(self.rows) > 4 else ""
            parts.append(f"{self.rows.total:,} rows: {listed}{more}")
        for words, values in (
            ("columns", self.columns),
            ("properties", self.properties),
            ("keys", self.keys),
        ):
            if values:
                more = ", ..." if len(values) > SHOWN_MAX else ""
                parts.append(f"{words} {', '.join(map(_cut, values[:SHOWN_MAX]))}{more}")
        if self.partition_values:
            listed = ", ".join(_cut(repr(values)) for values in self.partition_values[:4])
            more = ", ..." if len(self.partition_values) > 4 else ""
            parts.append(f"{len(self.partition_values):,} partitions: {listed}{more}")
        if self.doubt:
            parts.append(f"not exact, there may be none ({self.doubt})")
        return "; ".join(parts)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to be asked: theirs took away what an earlier one was about."""
        return bool(self.instead) and not self.tags

    @property
    def exact(self) -> bool:
        """Whether both touched the same for certain."""
        return not self.doubt

    def told(self, table: str, names: Mapping[ColumnId, str]) -> Overlap:
        """The same as an error tells it: where it is, and what mine calls the columns."""
        called = tuple((id, names.get(id, id.name)) for id, _ in self.called)
        others = set(self.births) - {id.name for id, _ in called}  # names that nobody has a column of here
        return replace(
            self, table=table, called=called, columns=tuple(sorted({name for _, name in called} | others))
        )

    @property
    def what(self) -> tuple[Any, ...]:
        """What is in conflict with whom: equal where two of mine's versions met the same. O(intervals)."""
        rows = frozenset((self.tags[at], start, stop) for at, start, stop in self.rows)
        tags = frozenset() if rows else frozenset(self.tags)
        named = self.columns, self.partitions, self.properties, self.keys
        return self.table, self.kind, self.theirs, rows, tags, *named

    @property
    def partition_values(self) -> tuple[tuple[Any, ...], ...]:
        """The partitions both touched, as `partition_by` makes them; empty for an unpartitioned table."""
        known = (values for values in self.partitions if values is not None)
        return tuple(tuple(unpack(values, "partition values")) for values in known)

    def _tag(self, number: int) -> str:
        tag = self.tags[number]
        if isinstance(tag[0], bytes):
            return f"{VersionId.from_bytes(tag[0])}/{tag[1]}"
        return f"{tag[0]!r}/{tag[-1]}"


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}..."
