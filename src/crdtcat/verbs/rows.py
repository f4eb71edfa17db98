"""Adding rows: append and overwrite.

An append is blind: it checks rows against what the handle knows, stores at most one segment and one version,
reads nothing, waits for nobody. An overwrite names every chunk it saw and removes exactly those, so a
concurrent append survives it; of two concurrent overwrites of one scope the greater id wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from crdtcat import limits
from crdtcat.cas.reading import Read
from crdtcat.cas.standing_back import head_to_change
from crdtcat.chunks.entry_order import take_orders
from crdtcat.chunks.partitions import Partitioning, parse_partitioning
from crdtcat.errors import Corrupt, InvalidArgument, LimitExceeded, SchemaMismatch
from crdtcat.format.kinds import ROWS
from crdtcat.format.ops import ColumnId, Ops, require_register_value
from crdtcat.format.row_ids import RowIds, joined_row_ids
from crdtcat.format.row_ops import RowOps
from crdtcat.format.sections import Array
from crdtcat.format.version import pack, unpack
from crdtcat.head import Head, Snapshot, Version
from crdtcat.head.naming import row_ids, tags_of
from crdtcat.scan.located import all_rows_of
from crdtcat.session import Session
from crdtcat.support.arguments import require_flag
from crdtcat.support.showing import shown
from crdtcat.verbs.moved import require_nothing_else
from crdtcat.verbs.scope import partition_scope
from crdtcat.writing.fit import Fit, conform, fit
from crdtcat.writing.incoming import Incoming
from crdtcat.writing.part import Staging
from crdtcat.writing.reuse import Lookup, nowhere, places_in
from crdtcat.writing.stage import Stager


def append(
    session: Session,
    data: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    key: str | None = None,
    evolve: bool = False,
) -> Version:
    """Add rows. 1 PUT if they are few enough to be inlined, else 2; no read, no list.

    In a keyed table this is an upsert: a row takes the place of the one with its key, column by column, and
    columns that the rows do not have stay as they are.

    With `evolve=True` the handle's head is used, and loaded if it has none. What looks wrong by old knowledge
    is looked at again with a fresh head before it is refused: the error path may read, the good path never
    does.
    """
    check_commit(metadata, key)
    require_flag("evolve", evolve)
    if evolve and session.known is None:
        session.head()
    incoming, known = Incoming.of(data), session.known
    try:
        plan, stager = _staged(session, incoming, key, evolve=evolve)
    except SchemaMismatch:
        session.head()
        if session.known == known or not incoming.can_be_read_again:
            raise
        plan, stager = _staged(session, incoming, key, evolve=evolve)
    body = {**stager.finish(), "x": Ops(definitions=plan.definitions).encode()}
    operation = "upsert" if session.settings.key else "append"
    version = session.commit(operation, body=body, puts=stager.puts, metadata=metadata, key=key)
    learn(session, plan, version)
    return version


def _staged(session: Session, incoming: Incoming, key: str | None, *, evolve: bool) -> tuple[Fit, Stager]:
    reader = incoming.reader(session.known)
    check_no_column(key, reader.schema)
    plan = plan_rows(session, reader.schema, evolve=evolve)
    stager = new_stager(session, plan, full=incoming.full)
    return plan, stager.add_all(incoming.batches(reader))


def overwrite(
    session: Session,
    data: Any,
    *,
    where: Any = None,
    metadata: Mapping[str, Any] | None = None,
    key: str | None = None,
    evolve: bool = False,
) -> Version:
    """Replace all rows, or those of the partitions that `where` selects, by `data`.

    Uses a fresh head (its cost), then 1 or 2 PUTs. Chunks that are in the table already are not stored again.
    Rows that others add meanwhile survive. With `where`, rows are in the partition that their values put them
    in now: the partition columns of chunks that an update of them lies over are read.
    """
    check_commit(metadata, key)
    require_flag("evolve", evolve)
    head = head_to_change(session)
    incoming = Incoming.of(data)
    reader = incoming.reader(session.known)
    plan = plan_rows(session, reader.schema, evolve=evolve)
    stager = new_stager(session, plan, places_in(head.log, head.live), full=incoming.full)
    if where is None:
        stager.add_all(reader)
        body, scope, removed = stager.finish(), None, removals(head, head.live)
    else:
        given = reader.read_all()
        take_orders(stager.staged.orders, given)
        rows = conform(given, plan.schema)
        selected = partition_scope(session, head, where, rows)
        session.looked(head, Read((), where))
        stager.add(rows)
        body = stager.finish()
        scope = selected.scope | frozenset(stager.staged.partitions)
        require_nothing_else(head, scope, selected.chunks, selected.rows)
        removed = with_deletes(removals(head, selected.chunks, scope), row_ids(head, *selected.rows))
    ops = Ops(definitions=plan.definitions, is_overwrite=True, scope=scope, **removed)
    version = session.commit(
        "overwrite",
        body={**body, "x": ops.encode()},
        puts=stager.puts,
        metadata=metadata,
        key=key,
        seen=head,
    )
    learn(session, plan, version)
    return version


def plan_rows(session: Session, incoming: pa.Schema, *, evolve: bool) -> Fit:
    """How rows go in, by what the handle knows. Raises as `crdtcat.writing.fit.fit` does."""
    known, last = session.known, session.last_fit
    if last is not None and last[0] is known and last[1].equals(incoming):
        return last[2]  # the same rows as last time, checked against the same columns
    plan = fit(incoming, known, evolve=evolve)
    if not plan.definitions:
        session.last_fit = (known, incoming, plan)
    return plan


def new_stager(
    session: Session,
    plan: Fit,
    reuse: Lookup = nowhere,
    *,
    kind: int = ROWS,
    segment_bytes: int | None = None,
    full: frozenset[str] = frozenset(),
) -> Stager:
    """A stager for one commit, whose chunks are of one kind.

    `reuse` says where chunks lie that need not be stored again, `full` which columns have no nulls.
    """
    return staging_of(session, plan).stager(reuse, kind, segment_bytes=segment_bytes, full=full)


def staging_of(session: Session, plan: Fit, *, replaces: Snapshot | None = None) -> Staging:
    """How rows of one commit are staged, here or elsewhere."""
    partitioning = partitioning_of(session)
    missing = [field.column for field in partitioning.fields if field.column not in plan.schema.names]
    if missing:
        raise SchemaMismatch(f"the rows lack {missing}, by which table {session.table!r} is partitioned")
    partitioning.validate(plan.schema)
    time_column = _time_column(session, plan)
    settings = session.settings
    return Staging(
        session.store, plan, settings.partition_by, session.options, time_column, replaces, settings.key
    )


def partitioning_of(session: Session) -> Partitioning:
    """The table's partitioning."""
    return parse_partitioning(session.settings.partition_by)


def _time_column(session: Session, plan: Fit) -> str | None:
    """The column whose range history shows: the one named at creation, whatever it is called now; where none
    was named, the first timestamp."""
    wanted = session.settings.time_column
    if wanted is None:
        return next((item.name for item in plan.schema if pt.is_timestamp(item.type)), None)
    return next((field.name for field in plan.fields if field.column == ColumnId(wanted)), None)


def learn(session: Session, plan: Fit, version: Version) -> None:
    """After a commit the handle knows the columns it wrote, if it knew none, added some or settled a type."""
    if session.known is None or plan.definitions or plan.settled:
        session.learn({**(session.known or {}), **plan.known(version.id)}, version.id)


def removals(head: Head, entries: Array, scope: frozenset[bytes] | None = None) -> dict[str, Any]:
    """Ops that remove all rows of some entries: chunk by chunk where they were born there, row by row where a
    compaction put them. `scope`: the partitions that are overwritten, if not all."""
    if head.keyed is not None:  # its rows have keys for ids: what is named are the chunks those were born in
        numbers = [at for at, packed in enumerate(head.log.partitions) if packed in (scope or ())]
        entries = head.keyed.seen_in(entries, None if scope is None else np.array(numbers, np.int64))
    copied = np.isin(entries, list(head.rows.copies)) if head.rows.copies else np.zeros(len(entries), bool)
    tags, _ = tags_of(head.log, entries[~copied])
    removed: dict[str, Any] = {
        "removed_versions": tags.versions,
        "removed_ordinals": tags.ordinals,
        "removed_keyed": tags.keyed,
    }
    if copied.any():
        rows = row_ids(head, *all_rows_of(head, entries[copied]))
        removed["rows"] = RowOps(deletes=rows if len(rows) else None)
    return removed


def with_deletes(removed: Mapping[str, Any], rows: RowIds) -> dict[str, Any]:
    """Ops that remove chunks, as `removals` gives them, and delete single rows as well."""
    if not len(rows):
        return dict(removed)
    known: RowOps = removed.get("rows") or RowOps()
    if known.deletes is not None:
        rows = joined_row_ids(known.deletes, rows)
    return {**removed, "rows": RowOps(deletes=rows)}


def check_commit(metadata: Mapping[str, Any] | None, key: str | None) -> None:
    """Refuse metadata and keys that no version file could hold. Raises `InvalidArgument`, `LimitExceeded`."""
    if key is not None:
        _check_key(key)
    if metadata is None:
        return
    given: Any = metadata
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidArgument(f"metadata={shown(given)}: pass a dict from text to values")
    size = packed_size(dict(metadata), "metadata")
    if size > limits.COMMIT_METADATA_BYTES_MAX:
        raise LimitExceeded(f"metadata of {size:,} bytes; at most {limits.COMMIT_METADATA_BYTES_MAX:,}")


def check_no_column(key: str | None, schema: pa.Schema) -> None:
    """Who passes the name of a column means the key of a table; every commit but the first would be left out
    as a repetition. Raises `InvalidArgument`."""
    if key is not None and key in schema.names:
        raise InvalidArgument(
            f"key={key!r} is the name of a column: here `key` names this one commit, and whatever repeats it "
            "adds nothing; columns that tell rows apart go to create_table(key=[...]), rows to upsert()"
        )


def packed_size(value: Any, what: str) -> int:
    """How many bytes a value takes in a version file, once it is sure that a reader gets it back.

    Raises `InvalidArgument`, naming `what`, for anything that MessagePack cannot hold and give back, or no
    head makes a register of (`require_register_value`).
    """
    try:
        packed = pack(value)
        require_register_value(unpack(packed, what))
    except (TypeError, ValueError, OverflowError, RecursionError, Corrupt) as error:
        raise InvalidArgument(f"{what} holds a value that cannot be stored: {error}") from error
    return len(packed)


def _check_key(key: object) -> None:
    if not isinstance(key, str) or not key:
        raise InvalidArgument(f"key={shown(key)}: an idempotency key is a text that is not empty")
    try:
        size = len(key.encode())
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"key={shown(key)}: not valid Unicode: {error.reason}") from error
    if size > limits.IDEMPOTENCY_KEY_BYTES_MAX:
        raise LimitExceeded(
            f"an idempotency key of {size:,} bytes; at most {limits.IDEMPOTENCY_KEY_BYTES_MAX}"
        )
