"""Both sides of a conflict, row by row: what was there, what mine wrote, what theirs wrote.

Conflicts are found from row ids, without data. Values are read only when somebody asks for them: a resolver,
or whoever handles the error. Mine is read from its own staged rows, as if it had been committed on what its
author saw.
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.cas.changes import LogChange
from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.types import no_rows
from crdtcat.clock import VersionId
from crdtcat.conflicts import Kind, Overlap
from crdtcat.conflicts.keys import exactly
from crdtcat.conflicts.resolve import row_ids
from crdtcat.conflicts.write_set import Numbering
from crdtcat.errors import Expired
from crdtcat.format.ops import ColumnId
from crdtcat.format.row_ids import END, RowIds
from crdtcat.format.sections import Array
from crdtcat.head import Head
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, expand
from crdtcat.log import Log, select
from crdtcat.scan import Scan
from crdtcat.scan.changed import ChangedEntries
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.masks import filter_schema
from crdtcat.scan.plan import make_plan
from crdtcat.scan.shown import as_shown
from crdtcat.support.cached import cached_property
from crdtcat.writing.fit import Known, known_from_head

if TYPE_CHECKING:
    from crdtcat.session import Session

_MINE_SETS: Final = frozenset(
    {Kind.UPDATE_UPDATE, Kind.UPDATE_DELETE, Kind.UPDATE_OVERWRITE, Kind.UPSERT_UPSERT, Kind.UPSERT_DELETE}
)
_THEIRS_SETS: Final = frozenset(
    {
        Kind.UPDATE_UPDATE, Kind.DELETE_UPDATE, Kind.OVERWRITE_UPDATE, Kind.OVERWRITE_APPEND,
        Kind.UPSERT_UPSERT, Kind.DELETE_UPSERT,
    }
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sides:
    """The rows that mine and theirs both touched, as each has them. Values are read when asked for.

    The tables have the same rows in the same order, and the columns that both touched, by the names that mine
    has for them, or all columns. Of a keyed table they have the rows with the keys in question that are
    there, with all columns, by rising key; where only a range of keys is known, or there are too many to
    name, none is looked up. What theirs added to what mine overwrites is in `theirs` alone.

    Attributes:
        overlap: what was found: kind, rows, columns, partitions, properties, and whose commit.
        session: reads them.
        change: mine.
        seen: what mine was made from.
    """

    overlap: Overlap
    session: Session
    change: LogChange
    seen: Head | None

    def __repr__(self) -> str:
        return f"Sides({self.overlap})"

    @property
    def kind(self) -> str:
        """What both did."""
        return self.overlap.kind.value

    @property
    def theirs_id(self) -> VersionId:
        """The version that is in the way."""
        return self.overlap.theirs

    def __str__(self) -> str:
        return str(self.overlap)

    @cached_property
    def rows(self) -> RowIds:
        """The rows, by id."""
        rows = self.overlap.rows
        if self.overlap.kind is Kind.OVERWRITE_APPEND and not len(rows):  # whole chunks, of any length
            count = len(self.overlap.tags)
            rows = RowSet(np.arange(count), np.zeros(count, np.int64), np.full(count, END, np.int64))
        return row_ids(rows, Numbering(self.overlap.tags))

    @cached_property
    def base(self) -> pa.Table | None:
        """The rows right before theirs; `None` for a conflict that is not about rows, and where mine read
        nothing. Costs a refresh if that was not read yet. Raises as `theirs`."""
        if self.overlap.kind is Kind.OVERWRITE_APPEND or self.seen is None:
            return None
        return self._values(Head(self.session.table, self._before, self.session.settings))

    @property
    def asked_first(self) -> VersionId:
        """The version that is in the way, or, where others were before, which were answered to, the first."""
        return self.overlap.first or self.overlap.theirs

    @cached_property
    def mine(self) -> pa.Table | None:
        """The rows as mine makes them of `base`, or, of a transaction, as the change does that met theirs;
        `None` if it deletes them, or sets none. Costs and raises as `base`."""
        return self._values(self.mine_head) if self.overlap.kind in _MINE_SETS else None

    @cached_property
    def theirs(self) -> pa.Table | None:
        """The rows as the transaction left them that theirs is of, or, if that deleted some of them later, as
        theirs did; `None` if it deleted them itself. Costs a refresh if it was not read yet.

        Raises `Expired` where theirs was folded into a base since."""
        if self.overlap.kind not in _THEIRS_SETS:
            return None
        found = self._values(self._left_by(self.overlap.theirs))
        if found is None or self.overlap.key_values or found.num_rows >= self.overlap.rows.total:
            return found
        log = self._log_with(self.overlap.theirs)
        before, together = _around(log, self.overlap.theirs)
        together &= np.arange(len(log)) <= log.index_of(self.overlap.theirs)
        return self._values(Head(self.session.table, select(log, before | together), self.session.settings))

    def _left_by(self, id: VersionId) -> Head:
        """The table as a version left it, or all that came at once with it."""
        log = self._log_with(id)
        before, together = _around(log, id)
        return Head(self.session.table, select(log, before | together), self.session.settings)

    def _log_with(self, id: VersionId) -> Log:
        if self.session.state.log.index_of(id) < 0:
            self.session.refresh()
        log = self.session.state.log
        if (at := log.index_of(id)) >= 0 and log.is_folded[at]:
            raise Expired(
                f"{id} was expired meanwhile: what it left cannot be read any more; read the table again, "
                "and repeat the change"
            )
        return log

    @cached_property
    def mine_head(self) -> Head | None:
        """The table right before theirs with mine on top; of a transaction, with the change that met theirs
        and those before it."""
        if self.seen is None and not self.overlap.key_values:
            return None
        log = self.change.upto(self.overlap.part).log_on(self._before)
        return Head(self.session.table, log, self.session.settings)

    @cached_property
    def _before(self) -> Log:
        """What was there right before theirs: what mine was made from, and all that it was moved past. Of a
        merge, which stands as it is, only the first."""
        if self.seen is not None and not self.change.patchable:
            return self.seen.log
        log = self._log_with(self.asked_first)
        there, _ = _around(log, self.asked_first)
        if self.seen is not None:
            there |= self.seen.log.find(log.ids) >= 0
        return select(log, there)

    def _values(self, head: Head | None) -> pa.Table | None:
        if head is not None and self.overlap.key_values:
            return self._renamed(self._by_key(head), head)
        if head is None or head.keyed is not None or not (self.overlap.rows.total or self.overlap.tags):
            return None
        if not self.overlap.called:
            return self._renamed(cells(self.session, head, self.rows, list(head.schema.names)), head)
        names = self.names_in(head)
        if not names:  # it was added since
            return None
        found = cells(self.session, head, self.rows, [*names])
        return found.rename_columns([names[name] for name in found.column_names])

    @property
    def known(self) -> Known:
        """All columns as theirs left them, by the names that mine has for them: what rows to be added are
        checked against. Costs a refresh if theirs was not read yet."""
        head = self._left_by(self.overlap.theirs)
        names, known = self._names(head), known_from_head(head.columns) or {}
        return {names[name]: column for name, column in known.items()}

    def _renamed(self, rows: pa.Table, head: Head) -> pa.Table:
        names = self._names(head)
        return rows.rename_columns([names[name] for name in rows.column_names])

    def _names(self, head: Head) -> dict[str, str]:
        """What mine calls the columns of a head; those that it does not know have their own names. So have
        all of them where two would be called the same."""
        own = names_of(self.session, self.seen)
        names = {
            column.name: next((own[id] for id in sorted(column.instances) if id in own), column.name)
            for column in head.columns.all
        }
        return names if len({*names.values()}) == len(names) else {name: name for name in names}

    @property
    def types(self) -> dict[str, pa.DataType]:
        """What the columns in question hold since theirs, by the names that mine has for them. Costs a
        refresh if theirs was not read yet."""
        head = self._left_by(self.overlap.theirs)
        return {mine: head.schema.field(name).type for name, mine in self.names_in(head).items()}

    def names_in(self, head: Head) -> dict[str, str]:
        """The columns in question: what a head calls them, and what mine does."""
        found: dict[str, str] = {}
        for id, name in sorted(self.overlap.called, key=operator.itemgetter(1)):
            shown = [column for column in head.columns.all if id in column.instances] or [
                column
                for column in head.columns.all
                if any(instance.name == id.name for instance in column.instances)
            ]
            found |= {column.name: name for column in shown[:1]}
        return found

    def _by_key(self, head: Head) -> pa.Table:
        """Rows with the keys in question."""
        schema = filter_schema(head.schema)
        wanted, key = [], [schema.field(name) for name in head.settings.key]
        for values in self.overlap.key_values:
            pairs = zip(key, values, strict=True)
            same = (pc.field(field.name) == exactly(value, field.type) for field, value in pairs)
            wanted.append(functools.reduce(operator.and_, same))
        while len(wanted) > 1:  # as a tree, which is less deep than a chain: Arrow walks it recursively
            wanted = [functools.reduce(operator.or_, wanted[at : at + 2]) for at in range(0, len(wanted), 2)]
        verify = self.session.options.verify
        return Scan(
            head, self.session.store, columns=None, filter=wanted[0], verify=verify, footers=FooterCache()
        ).to_table()


def _around(log: Log, id: VersionId) -> tuple[Array, Array]:
    """What was there before a version, and what came at once with it: all versions of its transaction."""
    at, wanted = log.index_of(id), np.array([id.to_bytes()], log.ids.dtype)[0]
    together = log.ids == wanted
    if at >= 0 and log.transaction.is_valid()[at].as_py():
        together = log.id_fields["writer"] == log.id_fields["writer"][at]
    return (log.ids < wanted) & ~together, together


def names_of(session: Session, seen: Head | None) -> dict[ColumnId, str]:
    """What a change calls columns: as it saw them, or, where it read nothing, as its handle knows them."""
    if seen is None:
        return {column.id: name for name, column in (session.known or {}).items()}
    return {id: column.name for column in seen.columns.all for id in column.instances}


def cells(session: Session, head: Head, rows: RowIds, names: list[str]) -> pa.Table:
    """Columns of some rows of a head, in the order of the rows. Reads the chunks they are in."""
    plan = make_plan(head, names, None)
    reader = ChunkReader(plan, session.store, FooterCache(), verify=session.options.verify)
    entries = ChangedEntries(plan, reader)
    entry, place = _places(head, rows)
    parts, order = [], []
    for each in np.unique(entry).tolist():
        mine = np.flatnonzero(entry == each)
        parts.append(entries.read(each, plan.columns).take(pa.array(place[mine])))
        order.append(mine)
    if not parts:
        return no_rows(plan.schema)
    stored = pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(order), kind="stable")))
    return as_shown(plan.columns, stored.combine_chunks(), plan.schema)


def _places(head: Head, rows: RowIds) -> tuple[Integers, Integers]:
    """Where each row is read from: its entry and the place there. Rows that the head lacks are left out."""
    birth, start, stop = head.rows.tags.rows(rows)
    owner, along = expand(stop - start)
    wanted, offset = birth[owner], start[owner] + along
    pieces = head.rows.pieces
    order = np.lexsort((pieces.start, pieces.birth))
    pieces = pieces.take(order)
    at = np.searchsorted(pieces.birth << 32 | pieces.start, wanted << 32 | offset, side="right") - 1
    known = at >= 0
    at, wanted, offset = at[known], wanted[known], offset[known]
    inside = (pieces.birth[at] == wanted) & (offset < pieces.stop[at])
    at, offset = at[inside], offset[inside]
    return pieces.entry[at], pieces.at[at] + offset - pieces.start[at]
