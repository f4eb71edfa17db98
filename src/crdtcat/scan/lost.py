"""Values that lost: what an update wrote to cells that show something else, or to rows that are gone.

Cells of keyed tables are found by their keys, all others by row ids. They are given as the column shows all
its values: under its name, in its type of today. A column that was dropped since has neither any more, but a
drop takes nothing out of the log: what was written to it is given in the type that it was written in.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa

from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.type_codes import decode_type
from crdtcat.chunks.widen import widen
from crdtcat.errors import InvalidArgument, NotFound
from crdtcat.format.ops import ColumnId
from crdtcat.format.schema_code import StoredField
from crdtcat.head import Conflict, Head
from crdtcat.head.columns import Column
from crdtcat.head.patches import let_go
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers, Runs, expand, touched
from crdtcat.scan.chunk_reader import ChunkReader
from crdtcat.scan.key_conflicts import LostCell
from crdtcat.scan.plan import make_plan
from crdtcat.scan.shown import as_shown, shown_column, stored_column
from crdtcat.store import Store
from crdtcat.support.showing import shown


def lost_value(head: Head, cell: LostCell, store: Store, footers: FooterCache) -> pa.Table:
    """What the loser wrote for one key, as one row of that column. Reads keys and cells of its chunks.

    Raises `NotFound`: its version is not in this head, or an expiry let its rows go.
    """
    version, gone = head.log.index_of(cell.loser), let_go(head.log)
    column = _column(head, cell.column, cell.instance, version)
    reader = ChunkReader(make_plan(head, None, None), store, footers, verify=True)
    names = list(head.settings.key)
    for chunk in reversed(_chunks_of(head, version)):  # of several rows of one key the last counts
        if column is None or gone[chunk] or _field_of(head, column, cell.instance, chunk) is None:
            continue
        keys = reader.one(chunk, names).select(names).to_pylist()
        places = [place for place, key in enumerate(keys) if tuple(key.values()) == cell.key]
        values = _values(head, column, cell.instance, chunk, reader) if places else None
        if values is not None:
            return _shown(column, values.slice(places[-1], 1))
    raise NotFound(f"table {head.table!r} no longer has {cell.column!r} of {cell.key} by {cell.loser}")


def lost_values(head: Head, conflict: Conflict, store: Store, footers: FooterCache) -> pa.Table:
    """The losing values of a conflict about cells, in the order of its rows. Reads the chunks they are in.

    Of a misfit, what its version wrote into the column, in the type that it wrote.

    Raises:
        InvalidArgument: a conflict that is not about cells.
        NotFound: its loser is not in this head, or an expiry let its values go.
    """
    if not isinstance(conflict, Conflict):
        raise InvalidArgument(f"{shown(conflict)} is no conflict: pass one of table.conflicts()")
    if conflict.kind not in ("cell", "deleted", "misfit") or conflict.loser is None:
        raise InvalidArgument(
            f"{conflict.kind!r} conflicts are not about cells: conflict.message says what lost, and "
            "history() has the loser's version"
        )
    instance, version = conflict.column, head.log.index_of(conflict.loser)
    column = _column(head, conflict.subject, instance, version)
    if column is None or version < 0:
        raise NotFound(f"table {head.table!r} no longer has {conflict.subject!r} or version {conflict.loser}")
    reader = ChunkReader(make_plan(head, None, None), store, footers, verify=True)
    if conflict.kind == "misfit":
        return _misfits(head, column, instance, version, reader)
    chunk, place, row = _cells(head, conflict, version)
    if let_go(head.log)[chunk].any():
        raise _expired(head, conflict.subject, version)
    parts, rows = [], []
    for source in np.unique(chunk).tolist():
        mine = chunk == source
        values = _values(head, column, instance, source, reader)
        if values is not None:
            parts.append(values.take(pa.array(place[mine])))
            rows.append(row[mine])
    stored = pa.concat_arrays(parts) if parts else pa.array([], column.type)
    if rows:
        stored = stored.take(pa.array(np.argsort(np.concatenate(rows), kind="stable")))
    return _shown(column, stored)


def _misfits(
    head: Head, column: Column, instance: ColumnId | None, version: int, reader: ChunkReader
) -> pa.Table:
    """What a version stored of a column in a type that does not fit it; of several such types, the first."""
    log, columns = head.log, head.columns
    gone, is_there = let_go(log), column in columns.all
    parts: list[pa.Array] = []
    types: list[pa.DataType] = []
    for chunk in _chunks_of(head, version):
        field = _field_of(head, column, instance, chunk)
        if field is None or (is_there and columns.fits(field, column)):
            continue
        if gone[chunk]:
            raise _expired(head, column.name, version)
        types.append(decode_type(field.type))
        if types[-1] == types[0]:
            written = replace(column, type=types[0], order=())
            parts += shown_column(written, field, reader.one(chunk, [field.name])).chunks
    if not types:
        raise NotFound(
            f"table {head.table!r} no longer has what {log.id_at(version)} wrote to {column.name!r}"
        )
    return pa.table({column.name: pa.chunked_array(parts, types[0])})


def _expired(head: Head, column: str, version: int) -> NotFound:
    id = head.log.id_at(version)
    return NotFound(f"table {head.table!r}: what {id} wrote to {column!r} was let go by an expiry")


def _cells(head: Head, conflict: Conflict, version: int) -> tuple[Integers, Integers, Integers]:
    """Per cell: the overlay chunk, its place there, and the number of its row among the conflict's."""
    wanted = _rows(head, conflict)
    overlaid = head.rows.overlaid
    mine = np.flatnonzero(overlaid.version == version)
    runs = Runs(overlaid.birth[mine], overlaid.start[mine], overlaid.stop[mine])
    theirs = Runs(wanted.groups, wanted.starts, wanted.stops)
    before = np.cumsum(theirs.stop - theirs.start) - (theirs.stop - theirs.start)
    first, last = touched(runs, theirs)
    owner, offset = expand(last - first)
    other = first[owner] + offset
    start = np.maximum(runs.start[owner], theirs.start[other])
    stop = np.minimum(runs.stop[owner], theirs.stop[other])
    cell, along = expand(stop - start)
    at = overlaid.at[mine][owner] + start - runs.start[owner]
    number = before[other] + start - theirs.start[other]
    return overlaid.chunk[mine][owner][cell], at[cell] + along, number[cell] + along


def _rows(head: Head, conflict: Conflict) -> RowSet:
    log = head.log
    births, starts, stops = [], [], []
    for author, ordinal, start, stop in conflict.rows:
        version = log.index_of(author)
        if version >= 0:
            births.append(int(log.chunk_start[version]) + ordinal)
            starts.append(start)
            stops.append(stop)
    return RowSet(births, starts, stops)


def _chunks_of(head: Head, version: int) -> range:
    """The chunks that a version added; none, if it is not there."""
    start = head.log.chunk_start
    return range(int(start[version]), int(start[version + 1])) if version >= 0 else range(0)


def _column(head: Head, name: str, instance: ColumnId | None, version: int) -> Column | None:
    """The column that a version wrote to: as it is shown, or, where it was dropped, as the version wrote it.
    `None`: it wrote to none."""
    columns = head.columns
    if instance is None:
        return columns.by_name.get(name)
    shown = next((column for column in columns.all if instance in column.instances), None)
    if shown is not None:
        return shown
    schemas = np.unique(head.log.chunk_schema[list(_chunks_of(head, version))]).tolist()
    fields = (columns.field(instance, schema) for schema in schemas)
    types = [decode_type(field.type) for field in fields if field is not None]
    if not types:
        return None
    wide = reduce(lambda held, more: widen(held, more) or held, types)
    return Column(name, wide, True, frozenset({instance}), (), 0.0)


def _values(
    head: Head, column: Column, instance: ColumnId | None, chunk: int, reader: ChunkReader
) -> pa.Array | None:
    """What a chunk holds of a column, of one instance of it where that is known, ended by a drop or not."""
    field = _field_of(head, column, instance, chunk)
    if field is None:
        return None
    fitting = field if head.columns.fits(field, column) else None
    return stored_column(column, fitting, reader.one(chunk, [field.name]))


def _field_of(head: Head, column: Column, instance: ColumnId | None, chunk: int) -> StoredField | None:
    columns, log = head.columns, head.log
    schema, version = int(log.chunk_schema[chunk]), int(log.chunk_version[chunk])
    return columns.source(column, schema, version) if instance is None else columns.field(instance, schema)


def _shown(column: Column, stored: pa.Array) -> pa.Table:
    schema = pa.schema([pa.field(column.name, column.type, column.nullable)])
    return as_shown((column,), pa.table({column.name: stored}), schema)
