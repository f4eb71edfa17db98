"""`write` for keyed tables: rows are told apart by their keys, so only cells that differ are upserted.

New keys are inserted, keys that are gone are deleted, and of the others just the columns that changed travel.
The order of the data does not matter: a keyed table is in the order of its keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from crdtcat.cas.reading import EVERYTHING
from crdtcat.cas.standing_back import head_to_change
from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.keys import sorted_by_key, taken
from crdtcat.chunks.read import FooterCache
from crdtcat.chunks.types import no_rows, restored, storage_type, to_storage
from crdtcat.difference import EditScript, NewChunk, OldChunk, difference
from crdtcat.errors import SchemaMismatch
from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.ops import Ops
from crdtcat.head import Head, Version
from crdtcat.intervals.runs import Integers, expand
from crdtcat.protocol import Put
from crdtcat.scan import Scan
from crdtcat.scan.shown import retyped
from crdtcat.session import Session
from crdtcat.verbs.become import becoming
from crdtcat.verbs.rows import check_commit, new_stager
from crdtcat.verbs.write import change_sets
from crdtcat.writing.bodies import joined_bodies
from crdtcat.writing.fit import Fit, conform
from crdtcat.writing.incoming import Incoming
from crdtcat.writing.knowledge import known_after, known_with


def write_keyed(
    session: Session, data: Any, *, metadata: Mapping[str, Any] | None = None, key: str | None = None
) -> Version:
    """Make a keyed table equal `data`. A refresh, a read of the table, then 1 to 3 PUTs. Memory: both."""
    check_commit(metadata, key)
    head = head_to_change(session)
    session.looked(head, EVERYTHING)
    known = known_with(head, session.known)
    rows = Incoming.of(data).reader(known).read_all()
    names = list(session.settings.key)
    missing = [name for name in names if name not in rows.column_names]
    if missing:
        raise SchemaMismatch(f"the rows lack {missing}; the key of {session.table!r} is {names}")
    become = becoming(head, rows, known)
    new = sorted_by_key(conform(rows, become.fit.schema), names)
    old = _scanned(session, head, become.fit.schema)
    script = compared(old, new, names)
    parts, puts = _staged(session, become.fit, script, old, new)
    ops = Ops(definitions=become.definitions, drops=become.drops)
    version = session.commit(
        "write",
        body={**joined_bodies(parts), "x": ops.encode()},
        puts=puts,
        metadata=metadata,
        key=key,
        seen=head,
    )
    became = known_after(head.columns, ops, version.id)
    session.learn({**became, **become.fit.known(version.id)}, version.id)
    return version


def _scanned(session: Session, head: Head, wanted: pa.Schema) -> pa.Table:
    """The rows that are there, in the columns and types of those that shall be, as far as they have them."""
    columns = [column for column in head.columns.all if column.name in wanted.names]
    if not columns:
        return no_rows(wanted).select([])
    names, verify = [column.name for column in columns], session.options.verify
    scan = Scan(head, session.store, columns=names, filter=None, verify=verify, footers=FooterCache())
    rows = scan.to_table()
    stored = {name: pa.chunked_array([to_storage(rows.column(name), name)]) for name in names}
    arrays = [retyped(stored[column.name], column, wanted.field(column.name).type) for column in columns]
    return pa.Table.from_arrays(arrays, names=names)


def compared(old: pa.Table, new: pa.Table, key: Sequence[str]) -> EditScript:
    """What makes old rows new ones, by key. `old` are storage arrays, `new` the rows as users see them."""
    arrays = [to_storage(new.column(name), name) for name in new.column_names]
    stored = pa.Table.from_arrays(arrays, names=new.column_names)
    hash, columns = hash_table(stored)
    chunk = NewChunk(stored.num_rows, hash, dict(zip(stored.column_names, columns, strict=True)))
    schema = pa.schema([pa.field(name, storage_type(stored.field(name).type)) for name in old.column_names])
    there = [OldChunk(old.num_rows, lambda names: old.select(list(names)))] if old.num_rows else []
    return difference(there, schema, stored, [chunk] if new.num_rows else [], key=list(key))


def _staged(
    session: Session, fit: Fit, script: EditScript, old: pa.Table, new: pa.Table
) -> tuple[list[dict[str, Any]], list[Put]]:
    """Keys that are gone, new rows, and changed cells, each set of columns by itself."""
    names = list(session.settings.key)
    owner, along = expand(script.inserted[:, 2])
    inserted: Integers = script.inserted[owner, 1] + along
    gone = old.take(pa.array(script.deleted)).select(names) if len(script.deleted) else None
    work: list[tuple[list[str], int, pa.Table]] = []
    if gone is not None:
        work.append((names, GONE, _shown(gone, fit)))
    if len(inserted):
        work.append((list(fit.schema.names), ROWS, taken(new, pa.array(inserted))))
    for changed, which in change_sets(script):
        columns = [*names, *(name for name in changed if name not in names)]
        rows = taken(new.select(columns), pa.array(script.updated_new[which]))
        work.append((columns, ROWS, rows))
    bodies, puts = [], []
    for columns, kind, rows in work:
        stager = new_stager(session, _some(fit, columns), kind=kind)
        stager.add(rows)
        bodies.append(stager.finish())
        puts += stager.puts
    return bodies, puts


def _shown(rows: pa.Table, fit: Fit) -> pa.Table:
    arrays = []
    for name in rows.column_names:
        kind = fit.schema.field(name).type
        arrays.append(restored(rows.column(name).chunks, kind, name))
    return pa.Table.from_arrays(arrays, names=rows.column_names)


def _some(fit: Fit, names: Sequence[str]) -> Fit:
    """The fit of some of its columns; definitions go once, with the version."""
    fields = tuple(field for name in names for field in fit.fields if field.name == name)
    schema = pa.schema([fit.schema.field(name) for name in names])
    return replace(fit, fields=fields, schema=schema, definitions=())
