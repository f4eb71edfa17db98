"""What verbs say, in the terms of the reference model: from what their author had seen, to a version.

The real catalog says what a commit's id is. Everything else about it follows from the verb and from the set
of versions that its author had merged; what a table is then follows from the set of all of them, by
`tests.model.head`. There is no file, no bundle, no chunk of a certain size and no compaction here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from crdtcat.chunks.type_codes import encode_type
from crdtcat.clock import VectorClock, VersionId
from tests.model import keyed
from tests.model.columns import Schema, VisibleColumn, definitions, schema
from tests.model.head import Head, head
from tests.model.rows import LiveRow, live_rows
from tests.model.standing import View, view
from tests.model.versions import (
    ALL,
    Chunk,
    Definition,
    Instance,
    Row,
    Settings,
    State,
    Version,
)

INT32, INT64 = str(encode_type(pa.int32())), str(encode_type(pa.int64()))
DECLARED: Final = (("n", INT64), ("p", INT32), ("a", INT32), ("b", INT32))
WIDER: Final = {(INT32, INT64): INT64}
SETTINGS: Final = {
    "rows": Settings(DECLARED, lossless=WIDER),
    "parted": Settings(DECLARED, lossless=WIDER),
    "keyed": Settings(DECLARED, key=("n",), lossless=WIDER),
}
"""The tables: of rows that have ids, the same partitioned by p, and one with the key n."""

Record = Mapping[str, int | None]


@dataclass(frozen=True)
class Seen:
    """A table as somebody sees it who has merged `state`."""

    table: str
    state: State

    @property
    def settings(self) -> Settings:
        return SETTINGS[self.table]

    @cached_property
    def view(self) -> View:
        return view(self.state)

    @cached_property
    def schema(self) -> Schema:
        return schema(self.view, self.settings)

    @cached_property
    def head(self) -> Head:
        return head(self.state, self.settings)

    @cached_property
    def rows(self) -> list[tuple[LiveRow, dict[str, Any]]]:
        """The rows in order: what the model knows of each, and what it shows."""
        found = keyed.live_rows(self.view, self.settings) if self.settings.key else live_rows(self.view)
        return [(row, self.schema.read(row.cells)) for row in found]

    def shown(self) -> list[dict[str, Any]]:
        return [record for _, record in self.rows]

    @property
    def columns(self) -> dict[str, VisibleColumn]:
        return {item.name: item for item in self.schema.columns}

    def known(self) -> dict[str, tuple[Instance, str]]:
        """The columns that new rows go to: of several of one name, the latest born."""
        return {
            name: (max(item.instances, key=lambda one: (one[1], one[0])), item.type)
            for name, item in self.columns.items()
        }

    def is_as_declared(self) -> bool:
        """Whether nobody has changed a column yet."""
        return not any(version.defines or version.drops for version in self.view.standing)

    # What a commit says. `id` is the one that it got; `seen` are all that it rests on.

    def appended(self, id: VersionId, records: Sequence[Record], **more: Any) -> Version:
        """Blind: only what columns are called was seen."""
        return Version(id, _alone(id), **self._added(records), **more)

    def upserted(self, id: VersionId, cells: Record) -> Version:
        """Blind, one row of some columns."""
        return Version(id, _alone(id), **self._added([cells], tuple(cells)))

    def overwritten(self, id: VersionId, records: Sequence[Record], p: int | None = None) -> Version:
        gone = [row for row, record in self.rows if p is None or record["p"] == p]
        scope = ALL if p is None else frozenset({p})
        removed = {} if self.settings.key else self._removed(gone)  # with a key: whatever the clock has seen
        return Version(id, self._clock(id), overwrite=scope, **removed, **self._added(records))

    def restored(self, id: VersionId, records: Sequence[Record]) -> Version:
        """All of them, in their order, whatever their partitions."""
        gone, more = [row for row, _ in self.rows], [self._added([record]) for record in records]
        adds = tuple(chunk for each in more for chunk in each["adds"])
        columns = self._added(records)["columns"]
        return Version(id, self._clock(id), overwrite=ALL, **self._removed(gone), adds=adds, columns=columns)

    def updated(self, id: VersionId, among: Collection[int], name: str, value: int) -> Version:
        """`value` in one column of the rows whose n is among some."""
        instance, type = self.known()[name]
        found = [row for row, record in self.rows if record["n"] in among]
        if self.settings.key:
            records = [{"n": row.row[0], name: value} for row in found]
            return Version(id, self._clock(id), **self._added(records, ("n", name)))
        overlay = tuple(((row.row, instance), value) for row in found)
        return Version(id, self._clock(id), overlays=(overlay,), columns=((instance, type),))

    def deleted(self, id: VersionId, among: Collection[int]) -> Version:
        gone = [row for row, record in self.rows if record["n"] in among]
        return Version(id, self._clock(id), **self._removed(gone))

    def keys_deleted(self, id: VersionId, keys: Collection[int]) -> Version:
        """Blind."""
        return Version(id, _alone(id), key_deletes=frozenset((key,) for key in keys))

    def written(
        self,
        id: VersionId,
        gone: Collection[int],
        changed: Mapping[int, int],
        name: str,
        new: Sequence[Record],
    ) -> Version:
        """The table made equal to what it was, without some rows, with one column changed in some others,
        and with new rows at its end."""
        removed = self._removed([row for row, record in self.rows if record["n"] in gone])
        instance, type = self.known()[name]
        if self.settings.key:
            cells = [{"n": n, name: value} for n, value in changed.items()]
            upserts = [*self._added(new)["adds"], *self._added(cells, ("n", name))["adds"]]
            used = tuple(item for at, item in self.known().items() if new or (changed and at in ("n", name)))
            return Version(id, self._clock(id), adds=tuple(upserts), columns=used, **removed)
        overlay = tuple(
            ((row.row, instance), changed[record["n"]]) for row, record in self.rows if record["n"] in changed
        )
        added = self._added(new)
        if not new:
            added["columns"] = ((instance, type),) if overlay else ()
        return Version(id, self._clock(id), overlays=(overlay,), **added, **removed)

    def set(self, id: VersionId, name: str, value: int | None) -> Version:
        return Version(id, self._clock(id), properties=((name, value),))

    def column_added(self, id: VersionId, name: str) -> Version:
        return Version(id, self._clock(id), defines=(Definition((name, id), name, INT32),))

    def column_dropped(self, id: VersionId, name: str) -> Version:
        return Version(id, self._clock(id), drops=self.columns[name].instances)

    def column_changed(
        self, id: VersionId, name: str, to: str | None = None, type: str | None = None
    ) -> Version:
        """Another name or another type, in the place of what is known."""
        item, known = self.columns[name], definitions(self.view, self.settings)
        replaces = frozenset(at for at, made in known.items() if made.instance in item.instances)
        defines = tuple(
            Definition(instance, to or name, type or item.type, replaces)
            for instance in sorted(item.instances, key=lambda one: (one[1], one[0]))
        )
        return Version(id, self._clock(id), defines=defines)

    def clustered(self, id: VersionId) -> Version:
        """Put into the order of n."""
        order = sorted(self.rows, key=lambda item: item[1]["n"])
        return Version(id, self._clock(id), cluster=tuple(row.row for row, _ in order))

    def _clock(self, id: VersionId) -> VectorClock:
        return self.view.clock.merge(_alone(id))

    def _added(self, records: Sequence[Record], names: Sequence[str] | None = None) -> dict[str, Any]:
        """Rows, those of each partition together, and the columns they use."""
        known = {name: item for name, item in self.known().items() if names is None or name in names}
        parts: dict[int | None, list[Row]] = {}
        for record in records:
            row = tuple((instance, record[name]) for name, (instance, _) in known.items())
            parts.setdefault(record["p"] if self.table == "parted" else None, []).append(row)
        chunks = (Chunk(tuple(parts[p]), p, None, None, tuple(known)) for p in sorted(parts, key=str))
        return {"adds": tuple(chunks), "columns": tuple(known.values()) if records else ()}

    def _removed(self, rows: Sequence[LiveRow]) -> dict[str, Any]:
        gone = frozenset(row.row for row in rows)
        return {"key_deletes": gone} if self.settings.key else {"deletes": gone}


def _alone(id: VersionId) -> VectorClock:
    return VectorClock({id.writer: id.seq})
