"""One commit staged by many processes: plan it, let them stage, publish what they staged.

Nothing of it is visible before the one version at the end, and all of it is then. An overwrite replaces what
was there when it was planned: rows that others add while workers stage survive it, as they survive any
overwrite that had not seen them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from crdtcat.chunks.partitions import parse_partitioning
from crdtcat.errors import InvalidArgument, SchemaMismatch
from crdtcat.format.ops import Ops
from crdtcat.head import Version
from crdtcat.options import Options
from crdtcat.session import Session
from crdtcat.store import Store
from crdtcat.support.interrupts import carried_through
from crdtcat.verbs.rows import append, check_commit, check_no_column, learn, plan_rows, removals, staging_of
from crdtcat.verbs.settings import new_settings, require_creatable
from crdtcat.verbs.travel import head_at
from crdtcat.writing.fit import fit
from crdtcat.writing.incoming import Incoming
from crdtcat.writing.part import Part, Staging, join_parts


def plan_parts(
    session: Session, incoming: pa.Schema, *, evolve: bool = False, overwrite: bool = False
) -> Staging:
    """How rows of one schema are staged for one commit to a table.

    Loads a fresh head (its cost), so that what does not fit is refused here, before workers start.

    Raises:
        SchemaMismatch, UnsupportedType, InvalidName: the rows do not go into the table.
    """
    head = session.head()
    _require_key(incoming, session.settings.key, f"the key of table {session.table!r}")
    plan = plan_rows(session, incoming, evolve=evolve)
    return staging_of(session, plan, replaces=head.snapshot if overwrite else None)


def plan_new(
    store: Store,
    options: Options,
    incoming: pa.Schema,
    partition_by: Sequence[str],
    key: Sequence[str] = (),
) -> Staging:
    """As `plan_parts`, for a table that is created only when its first rows are committed. No request."""
    partitioning = parse_partitioning(partition_by)
    missing = [item.column for item in partitioning.fields if item.column not in incoming.names]
    if missing:
        raise SchemaMismatch(f"the rows lack {missing}, by which the table shall be partitioned")
    _require_key(incoming, key, "which shall be the table's key")
    # As `create_table` declares them: a null in a key is refused where rows are staged.
    plan = fit(
        pa.schema([item.with_nullable(item.nullable and item.name not in key) for item in incoming]),
        None,
        evolve=False,
    )
    partitioning.validate(plan.schema)
    time_column = next((item.name for item in plan.schema if pa.types.is_timestamp(item.type)), None)
    by = tuple(map(str, partitioning.fields))
    return Staging(store, plan, by, options, time_column, key=tuple(key))


def plan_declared(
    store: Store,
    options: Options,
    incoming: pa.Schema,
    partition_by: Sequence[str],
    key: Sequence[str] = (),
) -> Staging:
    """As `plan_new`, for a table that is created with the columns of the rows: what `create_table` would
    refuse of columns, key and partitions is refused here, before rows are staged. No request."""
    staging = plan_new(store, options, incoming, partition_by, key)
    require_creatable(new_settings(incoming, partition_by, None, key=key))
    return staging


def _require_key(incoming: pa.Schema, key: Sequence[str], what: str) -> None:
    missing = [name for name in key if name not in incoming.names]
    if missing:
        raise SchemaMismatch(f"the rows lack {missing}, {what}")


def append_first(
    store: Store,
    options: Options,
    create: Callable[[], Session],
    data: Any,
    *,
    metadata: Mapping[str, Any] | None = None,
    key: str | None = None,
) -> Version:
    """Append to a table that is not there: all rows are read and stored first, then `create` makes it.

    So rows that fail while they are read create nothing, and a Ctrl-C leaves either no table or the rows in
    it. (Killed between the two, a process leaves an empty table, as `create_table` makes.) If somebody else
    made the table meanwhile, with a key or partitions, the rows are appended to it as to any other, if they
    can be read again. Costs and raises as `append`, and as `create`.
    """
    check_commit(metadata, key)
    incoming = Incoming.of(data)
    reader = incoming.reader(None)
    check_no_column(key, reader.schema)
    staging = plan_new(store, options, reader.schema, ())
    part = staging.stage(incoming.batches(reader))

    def made_and_filled() -> Version:
        session = create()
        made = session.settings
        if (made.key or made.partition_by) and incoming.can_be_read_again:
            return append(session, incoming, metadata=metadata, key=key)
        return commit_parts(session, staging, [part], metadata=metadata, key=key)

    return carried_through(made_and_filled)


def commit_parts(
    session: Session,
    staging: Staging,
    parts: Sequence[Part],
    *,
    metadata: Mapping[str, Any] | None = None,
    key: str | None = None,
    files: bytes = b"",
) -> Version:
    """Publish everything that was staged as one version, chunks in the order of `parts`.

    `files`: of an import, what the files are known by (`crdtcat.verbs.imported_files`).
    1 PUT, or 2 where inlined rows are too many together; an overwrite loads the head it was planned with.

    Raises:
        InvalidArgument: parts of another staging, or a table partitioned in another way.
        Expired, NotFound: the snapshot an overwrite replaces is gone.
        CommitError, StoreError: as any commit.
    """
    check_commit(metadata, key)
    if staging.partition_by != session.settings.partition_by:
        raise InvalidArgument(
            f"the rows were staged for a table partitioned by {list(staging.partition_by)}, and "
            f"{session.table!r} is partitioned by {list(session.settings.partition_by)}"
        )
    if staging.key != session.settings.key:
        raise InvalidArgument(
            f"the rows were staged for a table with the key {list(staging.key)}, and the key of "
            f"{session.table!r} is {list(session.settings.key)}"
        )
    joined = join_parts(staging, parts)
    added = "upsert" if session.settings.key else "append"
    ops = Ops(definitions=staging.fit.definitions, files=files)
    seen = None
    if staging.replaces is not None:
        seen = head_at(session, staging.replaces)
        ops = Ops(
            definitions=staging.fit.definitions,
            is_overwrite=True,
            scope=None,
            **removals(seen, seen.live),
        )
    version = session.commit(
        added if seen is None else "overwrite",
        body={**joined.body, "x": ops.encode()},
        puts=joined.puts,
        metadata=metadata,
        key=key,
        seen=seen,
    )
    learn(session, staging.fit, version)
    return version
