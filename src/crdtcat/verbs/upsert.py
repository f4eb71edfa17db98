"""Changing rows of keyed tables: upsert, delete by key, and update and delete by filter.

An upsert is blind, as an append is: it reads nothing, and who wins is settled by whoever reads, cell by cell,
by version id. So is a delete by key: it takes away what is older, whether it is there or not. An update
or delete by filter looks which keys match, and upserts or deletes those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, time, timedelta
from numbers import Number
from typing import Any
from uuid import UUID

import pyarrow as pa

from crdtcat.cas.reading import Read
from crdtcat.cas.standing_back import head_to_change
from crdtcat.chunks.types import from_storage, storage_type
from crdtcat.errors import InvalidArgument, SchemaMismatch
from crdtcat.format.kinds import GONE
from crdtcat.head import Head, Version
from crdtcat.scan import Scan
from crdtcat.session import Session
from crdtcat.support.showing import shown
from crdtcat.verbs.rows import append, check_commit, new_stager
from crdtcat.verbs.values import given_values
from crdtcat.writing.fit import Fit, Known, fit, fit_some
from crdtcat.writing.incoming import Incoming
from crdtcat.writing.knowledge import known_with


def upsert(
    session: Session,
    data: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    key: str | None = None,
    evolve: bool = False,
) -> Version:
    """Insert rows, or update those whose keys are there; columns that `data` lacks stay as they are.

    1 PUT if they are few enough to be inlined, else 2; no read, no list.
    """
    require_key(session, "upsert")
    return append(session, data, metadata=metadata, key=key, evolve=evolve)


def delete_keys(
    session: Session, keys: Any, *, metadata: Mapping[str, Any] | None = None, key: str | None = None
) -> Version:
    """Delete the rows with some keys, whether they are there or not. 1 PUT, 2 for many; no read, no list."""
    require_key(session, "delete(keys=...)")
    check_commit(metadata, key)
    known = _known(session)
    incoming = Incoming.of(_as_columns(keys, session.settings.key))
    reader = incoming.reader(known)
    missing = [name for name in session.settings.key if name not in reader.schema.names]
    if missing:
        raise SchemaMismatch(f"the keys lack {missing}; the key of {session.table!r} is {list(known)}")
    names = list(session.settings.key)
    tables = (batch.select(names) for batch in incoming.batches(reader))
    schema = pa.schema([reader.schema.field(name) for name in names])
    return _delete(session, fit(schema, known, evolve=False), tables, metadata=metadata, key=key, seen=None)


def delete_where(
    session: Session, where: Any, *, metadata: Mapping[str, Any] | None = None, key: str | None = None
) -> Version:
    """Delete the rows that match a filter now.

    A refresh and a read of the columns that the filter looks at, then 1 or 2 PUTs.
    """
    require_key(session, "this delete")
    check_commit(metadata, key)
    head = head_to_change(session)
    names = list(session.settings.key)
    scan = _scan(session, head, names, where)
    session.looked(head, Read((), where))
    plan = fit(scan.schema, _known(session), evolve=False)
    return _delete(session, plan, scan.tables(), metadata=metadata, key=key, seen=head)


def update_where(
    session: Session,
    where: Any,
    values: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> Version:
    """Give the rows that match a filter new values, as an upsert of just those cells.

    A refresh and a read of the key and of what the filter and the values look at, then 1 or 2 PUTs.
    """
    check_commit(metadata, key)
    head = head_to_change(session)
    new = given_values(values, head.schema, known_with(head, session.known))
    names = list(session.settings.key)
    given = new.by_column if new.table is None else new.table.column_names
    fixed = [name for name in given if name in names]
    if fixed:
        raise InvalidArgument(f"{fixed[0]!r} is in the key of {session.table!r}, and a key is not updated")
    read = None if new.needs is None else list(dict.fromkeys((*names, *new.needs)))
    found = list(_scan(session, head, read, where).tables())
    session.looked(head, Read(new.looks_at, where))
    keys = [table.select(names) for table in found]
    changed = new.gathered([new.computed(table) for table in found], sum(table.num_rows for table in found))
    for name in reversed(names):
        column = pa.concat_tables(keys)[name] if keys else _no_values(head, name)
        changed = changed.add_column(0, name, column)
    stager = new_stager(session, fit_some(changed.schema, known_with(head, session.known)))
    stager.add(changed)
    return session.commit(
        "update", body=stager.finish(), puts=stager.puts, metadata=metadata, key=key, seen=head
    )


def _no_values(head: Head, name: str) -> pa.ChunkedArray:
    type = head.schema.field(name).type
    return pa.chunked_array([from_storage(pa.nulls(0, storage_type(type)), type, name)])


def _scan(session: Session, head: Head, columns: list[str] | None, where: Any) -> Scan:
    verify = session.options.verify
    return Scan(head, session.store, columns=columns, filter=where, verify=verify, footers=session.footers)


def require_key(session: Session, verb: str) -> None:
    """Raises `InvalidArgument` for a table without a key."""
    if not session.settings.key:
        raise InvalidArgument(
            f"{verb} needs a table with a key, and {session.table!r} has none: it is given at creation, "
            'as in create_table(name, schema, key=["id"])'
        )


def _known(session: Session) -> Known:
    """What the handle knows of the key columns: what was declared, for good."""
    assert session.known is not None
    return {name: session.known[name] for name in session.settings.key}


def _delete(
    session: Session,
    plan: Fit,
    tables: Iterable[pa.Table | pa.RecordBatch],
    *,
    metadata: Mapping[str, Any] | None,
    key: str | None,
    seen: Head | None,
) -> Version:
    stager = new_stager(session, plan, kind=GONE)
    for table in tables:
        stager.add(table)
    return session.commit(
        "delete", body=stager.finish(), puts=stager.puts, metadata=metadata, key=key, seen=seen
    )


def _as_columns(keys: Any, names: tuple[str, ...]) -> Any:
    """Keys in any form: bare values where the key is one column, tuples where it is several, or rows."""
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        return pa.table({names[0]: keys}) if len(names) == 1 else keys
    if isinstance(keys, str | bytes | Number | date | time | timedelta | UUID) or keys is None:
        raise InvalidArgument(f"keys={shown(keys)}: pass a list of keys, or rows that have them")
    if not isinstance(keys, list | tuple | set | frozenset | range):
        return keys
    values = list(keys)
    if not values:
        return {name: [] for name in names}
    if any(isinstance(value, Mapping) or hasattr(value, "__arrow_c_stream__") for value in values):
        return values
    one = len(names) == 1
    wrong = [value for value in values if (len(value) != len(names) if isinstance(value, tuple) else not one)]
    if wrong:
        raise InvalidArgument(
            f"keys: {shown(wrong[0])} is no key of {list(names)}; pass "
            + ("a value for each row" if one else "a tuple for each row")
        )
    if one:
        return {names[0]: [value[0] if isinstance(value, tuple) else value for value in values]}
    return {name: [value[at] for value in values] for at, name in enumerate(names)}
