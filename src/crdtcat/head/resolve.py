"""Resolving columns: from definitions, drops and use to what everybody sees.

Theory. A column instance is `(name at birth, version that added it)`. Definitions of an instance form a
multi-value register: each names the definitions its author had seen, which it ends; the ones left over are
concurrent. What a table shows is one column per *display name*, made of every live instance of that name, so
two people who add a column of the same name at the same time get one column with both their values.

- type: the greatest definition left over, widened by the others in falling order where a lossless type
  exists; the rest are listed as conflicts;
- columns nobody defined, only used (blind commits into a table without a declared schema), take the type of
  the smallest version that used them, widened by later ones in rising order. Use never redefines a defined
  column: a writer that could not know its type cannot change it for everybody;
- a drop ends the definitions and the values its author had seen; values of versions it had not seen go on
  being shown;
- values whose type does not fit are kept, listed, and read as null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from crdtcat.chunks.entry_order import order_of_all, ordered_type
from crdtcat.chunks.type_codes import decode_type
from crdtcat.chunks.widen import widen
from crdtcat.clock import ROOT, VersionId
from crdtcat.errors import LimitExceeded, UnsupportedFormat
from crdtcat.format.kinds import ROWS
from crdtcat.format.ops import ColumnId, Definition, DefinitionId
from crdtcat.format.schema_code import StoredField
from crdtcat.format.sections import Array
from crdtcat.format.settings import Settings
from crdtcat.head.clocks import Clocks, Members
from crdtcat.head.columns import Column, Columns
from crdtcat.head.conflicts import Conflict
from crdtcat.head.renames import Renames, renamers_of
from crdtcat.head.stored_types import naming_the_file, schema_users, stored_fields
from crdtcat.log.log import Log

Live = Mapping[ColumnId, list[DefinitionId]]
"""Per column its definitions that nobody replaced or dropped, falling."""


class Use(NamedTuple):
    """A column used by versions that share a schema: the first of them, the field, its place, and all."""

    version: int
    place: int
    field: StoredField
    versions: Array


def resolve_columns(
    log: Log,
    settings: Settings,
    *,
    standing: Array,
    definitions: Mapping[DefinitionId, Definition],
    drops: Sequence[tuple[int, ColumnId]],
    clocks: Clocks,
) -> Columns:
    """Resolve the columns of a set of versions. Theorem: `column_type_converges`. Raises `UnsupportedFormat`.

    Args:
        log: the versions.
        settings: the table's settings; their columns are definitions by `ROOT`.
        standing: per version, whether it counts, and is more than copies of what others wrote.
        definitions: every definition in a standing version.
        drops: (index of the dropping version, column) for every drop in a standing version.
        clocks: who had seen what.
    """
    try:
        return _Resolution(log, settings, standing, definitions, drops=drops, clocks=clocks).columns()
    except (UnsupportedFormat, LimitExceeded) as error:
        raise naming_the_file(error, log, settings, definitions) from error


class _Resolution:
    def __init__(
        self,
        log: Log,
        settings: Settings,
        standing: Array,
        definitions: Mapping[DefinitionId, Definition],
        *,
        drops: Sequence[tuple[int, ColumnId]],
        clocks: Clocks,
    ) -> None:
        self.log, self.clocks, self.drops, self.standing = log, clocks, drops, standing
        declared = {
            DefinitionId(ROOT, at): Definition(ColumnId(c.name), c.name, c.type, c.nullable, float(at))
            for at, c in enumerate(settings.columns or ())
        }
        self.defined = {**declared, **definitions}
        self.hidden = self._hidden()
        self._schema_users = tuple(schema_users(log, standing))
        self.uses = self._uses()

    def _hidden(self) -> dict[ColumnId, Array]:
        hidden: dict[ColumnId, Array] = {}
        if not self.drops:
            return hidden
        members = Members(self.log)
        for at, column in self.drops:
            seen = members.seen_by(self.clocks.of(at)) & self.standing  # of copies it is the rows' birth
            hidden[column] = hidden[column] | seen if column in hidden else seen
        return hidden

    def _uses(self) -> dict[ColumnId, list[Use]]:
        """Per column its uses, rising by first version, without those that a drop had seen."""
        uses: dict[ColumnId, list[Use]] = {}
        for schema, versions in self._schema_users:
            for place, field in enumerate(stored_fields(self.log, schema)):
                shown = versions
                if field.column in self.hidden:
                    shown = versions[~self.hidden[field.column][versions]]
                if len(shown):
                    uses.setdefault(field.column, []).append(Use(int(shown[0]), place, field, shown))
        return {column: sorted(found, key=lambda use: use[:2]) for column, found in uses.items()}

    def _live_definitions(self) -> dict[ColumnId, list[DefinitionId]]:
        ended = {old for definition in self.defined.values() for old in definition.replaces}
        ended |= self._dropped()
        live: dict[ColumnId, list[DefinitionId]] = {}
        for id in sorted(self.defined.keys() - ended, reverse=True):
            live.setdefault(self.defined[id].column, []).append(id)
        return live

    def _dropped(self) -> set[DefinitionId]:
        """Definitions that a drop of their column had seen."""
        if not self.drops:
            return set()
        of_column: dict[ColumnId, list[DefinitionId]] = {}
        for id, definition in self.defined.items():
            of_column.setdefault(definition.column, []).append(id)
        dropped = set()
        for at, column in self.drops:
            clock = self.clocks.of(at)
            for id in of_column.get(column, ()):
                if id.version == ROOT or clock.saw(id.version.writer, id.version.seq):
                    dropped.add(id)
        return dropped

    def columns(self) -> Columns:
        live = self._live_definitions()
        named: dict[str, set[ColumnId]] = {}
        for column in live.keys() | self.uses.keys():
            name = self.defined[live[column][0]].name if column in live else column.name
            named.setdefault(name, set()).add(column)
        built = [self._column(name, instances, live) for name, instances in named.items()]
        built = _with_positions(built, self.uses)
        resolved = Columns(self.log, built, self.hidden, tuple)
        if not all(column.nullable for column in built):
            built = self._nullable_where_absent(resolved)

        def conflicts() -> list[Conflict]:
            renames = Renames(self.log, resolved, renamers_of(self.defined, live), self.clocks)
            return [
                *self._survivors(named, live),
                *self._lost_definitions(named, live),
                *self._misfits(resolved),
                *self._contradictions(resolved),
                *renames.conflicts(self._schema_users),
            ]

        return Columns(self.log, built, self.hidden, conflicts)

    def _nullable_where_absent(self, columns: Columns) -> list[Column]:
        """A column may be null, whatever was declared, once a version stored rows without values for it."""
        counting = self.standing[self.log.chunk_version] & (self.log.kind == ROWS)
        stored = np.unique(self.log.chunk_schema[counting]).tolist()

        def is_always_there(column: Column) -> bool:
            fields = [columns.source(column, schema, 0) for schema in stored]
            return not column.instances & self.hidden.keys() and all(
                field is not None and not field.nullable and columns.fits(field, column) for field in fields
            )

        return [
            column if column.nullable or is_always_there(column) else replace(column, nullable=True)
            for column in columns.all
        ]

    def _column(self, name: str, instances: set[ColumnId], live: Live) -> Column:
        ids = _falling(instances, live)
        if not ids:
            return self._used_column(name, instances)
        type = decode_type(self.defined[ids[0]].type)
        for _, wider in self._widenings(ids):
            type = type if wider is None else wider
        nullable = any(self.defined[id].nullable for id in ids)
        position = self.defined[ids[0]].position
        type, order = ordered_type(type, (use.field.type for use in self._uses_of(instances)))
        return Column(name, type, nullable, frozenset(instances), tuple(sorted(ids)), position, order)

    def _widenings(self, ids: Sequence[DefinitionId]) -> Iterator[tuple[DefinitionId, pa.DataType | None]]:
        """Each definition but the first, with the type so far widened by it; `None` where it does not fit."""
        type = decode_type(self.defined[ids[0]].type)
        for id in ids[1:]:
            wider = widen(type, decode_type(self.defined[id].type))
            yield id, wider
            type = type if wider is None else wider

    def _lost_definitions(self, named: Mapping[str, set[ColumnId]], live: Live) -> Iterator[Conflict]:
        for name, instances in named.items():
            ids = _falling(instances, live)
            for id, wider in self._widenings(ids) if ids else ():
                other = self.defined[id]
                if wider is not None and (other.name == name or other.column not in instances):
                    continue
                what = f"as {decode_type(other.type)}" if wider is None else f"to {other.name!r}"
                message = f"column {name!r} was also defined {what} by {id.version}; {ids[0].version} counts"
                yield Conflict("column", name, _author(ids[0]), _author(id), message)

    def _used_column(self, name: str, instances: set[ColumnId]) -> Column:
        uses = self._uses_of(instances)
        field = uses[0].field
        type, nullable = decode_type(field.type), field.nullable
        for use in uses[1:]:
            wider = widen(type, decode_type(use.field.type))
            type = type if wider is None else wider
            nullable = nullable or use.field.nullable
        type, order = ordered_type(type, (use.field.type for use in uses))
        return Column(name, type, nullable, frozenset(instances), (), 0.0, order)

    def _uses_of(self, instances: Iterable[ColumnId]) -> list[Use]:
        """Uses of some columns, rising by first version."""
        uses = (use for column in instances for use in self.uses.get(column, ()))
        return sorted(uses, key=lambda use: use[:2])

    def _survivors(self, named: Mapping[str, set[ColumnId]], live: Live) -> Iterator[Conflict]:
        dropped_at: dict[ColumnId, int] = {}
        for at, column in self.drops:
            dropped_at[column] = max(at, dropped_at.get(column, at))
        for name, instances in named.items():
            for column in instances & dropped_at.keys():
                at = dropped_at[column]
                users = sorted(at for use in self.uses.get(column, ()) for at in use.versions.tolist())
                definers = (self.log.index_of(id.version) for id in live.get(column, ()))
                if any(by >= 0 and self.clocks.saw(by, at) for by in definers):
                    continue  # brought back knowingly, by a restore: it is there for later writers, too
                unaware = next((version for version in users if not self.clocks.saw(version, at)), None)
                if unaware is not None:
                    dropper, writer = self.log.id_at(at), self.log.id_at(unaware)
                    message = f"column {name!r}, dropped by {dropper}, goes on showing what {writer} wrote"
                    yield Conflict("drop", name, writer, dropper, message)

    def _contradictions(self, columns: Columns) -> Iterator[Conflict]:
        for column in (column for column in columns.all if pa.types.is_dictionary(column.type)):
            uses = self._uses_of(column.instances)
            _, at = order_of_all(column.type, (use.field.type for use in uses))
            if at is not None:
                id = self.log.id_at(uses[at].version)
                message = f"column {column.name!r}: {id} orders its entries otherwise; it is unordered now"
                yield Conflict("column", column.name, None, id, message)

    def _misfits(self, columns: Columns) -> Iterator[Conflict]:
        for column in columns.all:
            for use in (use for instance in column.instances for use in self.uses.get(instance, ())):
                if columns.fits(use.field, column):
                    continue
                stored = decode_type(use.field.type)
                winner = _author(column.definitions[-1]) if column.definitions else None
                chunks = np.diff(self.log.chunk_start)[use.versions]  # none: an update of no row, say
                for id in map(self.log.id_at, use.versions[chunks > 0].tolist()):
                    message = f"column {column.name!r} holds {column.type}; {id} wrote {stored}, read as null"
                    yield Conflict("misfit", column.name, winner, id, message, column=use.field.column)


def _falling(instances: set[ColumnId], live: Live) -> list[DefinitionId]:
    return sorted((id for column in instances for id in live.get(column, ())), reverse=True)


def _with_positions(columns: Sequence[Column], uses: Mapping[ColumnId, Sequence[Use]]) -> list[Column]:
    """Columns nobody defined stand as their first user had them, later-used ones after earlier ones."""

    def first_use(column: Column) -> tuple[int, int]:
        return min(use[:2] for instance in column.instances for use in uses.get(instance, ()))

    placed = [column for column in columns if column.definitions]
    last = -1.0
    for column in sorted((column for column in columns if not column.definitions), key=first_use):
        last = max(float(first_use(column)[1]), last + 1.0)
        placed.append(replace(column, position=last))
    return placed


def _author(id: DefinitionId) -> VersionId | None:
    return None if id.version == ROOT else id.version
