"""Adding rows: append, overwrite, and the stream writer.

An append is blind: it checks rows against what the handle knows, stores at most one segment and one version,
reads nothing, waits for nobody. An overwrite names every chunk it saw and removes exactly those, so a
concurrent append survives it; of two concurrent overwrites of one scope the greater id wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from crdtcat import limits
from crdtcat.chunks import ingest
from crdtcat.chunks.partitions import Partitioning, parse_partitioning
from crdtcat.errors import InvalidArgument, LimitExceeded, SchemaMismatch
from crdtcat.format.ops import KeyedTag, Ops
from crdtcat.format.sections import Array
from crdtcat.format.version import pack
from crdtcat.head import Head, Version
from crdtcat.protocol import Put
from crdtcat.session import Session
from crdtcat.verbs.scope import partition_scope
from crdtcat.writing.fit import Fit, fit
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

    With `evolve=True` the handle's head is used, and loaded if it has none.
    """
    check_commit(metadata, key)
    reader = ingest.reader(data, hint(session))
    plan = plan_rows(session, reader.schema, evolve=evolve)
    stager = new_stager(session, plan).add_all(reader)
    body = {**stager.finish(), "x": Ops(definitions=plan.definitions).encode()}
    version = session.commit("append", body=body, puts=stager.puts, metadata=metadata, key=key)
    learn(session, plan)
    return version


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

    Uses a fresh head (its cost), then 1 or 2 PUTs. Rows that others add meanwhile survive.
    """
    check_commit(metadata, key)
    head = session.head()
    reader = ingest.reader(data, hint(session))
    plan = plan_rows(session, reader.schema, evolve=evolve)
    stager = new_stager(session, plan)
    if where is None:
        stager.add_all(reader)
        body, scope, doomed = stager.finish(), None, head.live
    else:
        rows = reader.read_all()
        selected = partition_scope(session.settings, head, where, rows)
        stager.add(rows)
        body = stager.finish()
        scope = selected.scope | frozenset(stager.staged.partitions)
        doomed = selected.chunks
    ops = Ops(definitions=plan.definitions, is_overwrite=True, scope=scope, **removals(head, doomed))
    version = session.commit(
        "overwrite",
        body={**body, "x": ops.encode()},
        puts=stager.puts,
        metadata=metadata,
        key=key,
        seen=head,
    )
    learn(session, plan)
    return version


class StreamWriter:
    """Writes rows in one pass with bounded memory; they become visible together, on `commit`.

    A context manager: leaving it commits, leaving it by an error aborts. Nothing is visible before the
    commit; `abort`, or `close` without commit, leaves nothing visible, and what was staged is garbage that
    the collector finds. Not for use by several threads at once.
    """

    def __init__(self, session: Session, *, metadata: Mapping[str, Any] | None, key: str | None) -> None:
        check_commit(metadata, key)
        self._session, self._metadata, self._key = session, metadata, key
        self._stager: Stager | None = None
        self._plan: Fit | None = None
        self._open = True
        self.version: Version | None = None

    def write(self, data: Any) -> None:
        """Take in rows; PUTs a segment whenever enough have gathered. The first batch decides the columns.

        Raises `InvalidArgument` once closed, and everything `append` raises about rows.
        """
        self._check_open()
        reader = ingest.reader(data, hint(self._session))
        if self._stager is None or self._plan is None:
            self._plan = plan_rows(self._session, reader.schema, evolve=False)
            self._stager = new_stager(self._session, self._plan, put=self._put)
        elif reader.schema.names != self._plan.schema.names:
            raise SchemaMismatch(
                f"this stream writes {self._plan.schema.names}, and the batch has {reader.schema.names}"
            )
        self._stager.add_all(reader)

    def _put(self, put: Put) -> None:
        self._session.store.put(put.name, put.data)

    def commit(self) -> Version:
        """Make everything written visible, as one version. Raises as `append` does."""
        self._check_open()
        self._open = False
        if self._stager is None:
            raise InvalidArgument("nothing was written to this stream: write at least one batch, or abort()")
        body = self._stager.finish()
        self.version = self._session.commit("append", body=body, metadata=self._metadata, key=self._key)
        assert self._plan is not None
        learn(self._session, self._plan)
        return self.version

    def abort(self) -> None:
        """Let go of everything written. No request."""
        self._open = False
        self._stager = None

    close = abort

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidArgument("this stream is closed: open another with table.stream()")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._open:
            return
        if kind is not None or self._stager is None:
            self.abort()
        else:
            self.commit()


def plan_rows(session: Session, incoming: pa.Schema, *, evolve: bool) -> Fit:
    """How rows go in. What looks wrong by old knowledge is looked at again with a fresh head before it is
    refused: the error path may read, the good path never does."""
    if evolve and session.known is None:
        session.head()
    known = session.known
    last = session.last_fit
    if last is not None and last[0] is known and last[1].equals(incoming):
        return last[2]  # the same rows as last time, checked against the same columns
    try:
        plan = fit(incoming, known, evolve=evolve)
    except SchemaMismatch:
        session.head()
        if session.known == known:
            raise
        plan = fit(incoming, session.known, evolve=evolve)
    if not plan.definitions:
        session.last_fit = (session.known, incoming, plan)
    return plan


def new_stager(session: Session, plan: Fit, put: Any = None) -> Stager:
    """A stager for one commit."""
    partitioning = partitioning_of(session)
    missing = [field.column for field in partitioning.fields if field.column not in plan.schema.names]
    if missing:
        raise SchemaMismatch(f"the rows lack {missing}, by which table {session.table!r} is partitioned")
    partitioning.validate(plan.schema)
    column = session.settings.time_column or first_time_column(plan.schema)
    return Stager(plan, partitioning, session.options, time_column=column, put=put)


def partitioning_of(session: Session) -> Partitioning:
    """The table's partitioning."""
    return parse_partitioning(session.settings.partition_by)


def first_time_column(schema: pa.Schema) -> str | None:
    """The column whose range history shows, where none was named: the first timestamp."""
    return next((item.name for item in schema if pt.is_timestamp(item.type)), None)


def learn(session: Session, plan: Fit) -> None:
    """After a blind commit the handle knows the columns it wrote, if it knew nothing before."""
    if session.known is None:
        session.known = plan.known()


def hint(session: Session) -> pa.Schema | None:
    """The types rows without types of their own (lists of dicts) should take."""
    if session.known is None:
        return None
    return pa.schema([pa.field(name, column.type, column.nullable) for name, column in session.known.items()])


def removals(head: Head, chunks: Array) -> dict[str, Any]:
    """Ops that remove chunks: by tag, or by (key, hash, ordinal) where a retry may have a twin."""
    log = head.log
    versions = log.chunk_version[chunks]
    ordinals = (chunks - log.chunk_start[versions]).astype(np.uint32)
    keyed = np.asarray(log.key.is_valid())[versions] if len(chunks) else np.empty(0, bool)
    tags = tuple(
        KeyedTag(log.key[int(version)].as_py().decode(), log.hash[chunk].tobytes(), int(ordinal))
        for chunk, version, ordinal in zip(chunks[keyed], versions[keyed], ordinals[keyed], strict=True)
    )
    return {
        "removed_versions": log.ids[versions[~keyed]],
        "removed_ordinals": ordinals[~keyed],
        "removed_keyed": tags,
    }


def check_commit(metadata: Mapping[str, Any] | None, key: str | None) -> None:
    """Refuse metadata and keys that no version file could hold. Raises `InvalidArgument`, `LimitExceeded`."""
    if key == "":
        raise InvalidArgument("an idempotency key may not be empty")
    if key is not None and len(key.encode()) > limits.IDEMPOTENCY_KEY_BYTES_MAX:
        raise LimitExceeded(f"an idempotency key has at most {limits.IDEMPOTENCY_KEY_BYTES_MAX} bytes")
    if metadata is None:
        return
    given: Any = metadata
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidArgument("metadata is a map from text to values")
    try:
        size = len(pack(dict(metadata)))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"metadata holds a value that cannot be stored: {error}") from error
    if size > limits.COMMIT_METADATA_BYTES_MAX:
        raise LimitExceeded(f"metadata of {size:,} bytes; at most {limits.COMMIT_METADATA_BYTES_MAX:,}")
