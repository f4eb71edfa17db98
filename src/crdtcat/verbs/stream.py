"""The stream writer: more rows than fit in memory, in one pass, visible all at once.

Rows gather until a segment is full; segments are stored as they fill, and nobody can see them before the
one version that names them. If that never comes they are garbage for the collector.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from crdtcat.chunks.type_codes import decode_type
from crdtcat.errors import InvalidArgument, SchemaMismatch
from crdtcat.head import Version
from crdtcat.session import Session
from crdtcat.verbs.rows import check_commit, learn, new_stager, plan_rows
from crdtcat.writing.fit import Fit, Known, KnownColumn, fit
from crdtcat.writing.incoming import Incoming
from crdtcat.writing.stage import Stager

SEGMENT_BYTES: Final = 2**27
"""Of Arrow content, at most: a stream holds less than an append does, and stores more often."""


class StreamWriter:
    """Writes rows in one pass with bounded memory; they become visible together, on `commit`.

    A context manager: leaving it commits, leaving it by an error aborts. Nothing is visible before the
    commit; `abort`, or `close` without commit, leaves nothing visible, and what was staged is garbage that
    the collector finds. Not for use by several threads at once. A forked child has no part in it: whatever it
    does with its copy, the stream is the parent's.

    Attributes:
        version: what was committed, once it was.
    """

    def __init__(
        self,
        session: Session,
        *,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        committed: Callable[[Version], object] | None = None,
    ) -> None:
        check_commit(metadata, key)
        self._session, self._metadata, self._key, self._committed = session, metadata, key, committed
        self._stager: Stager | None = None
        self._plan: Fit | None = None
        self._open, self._process = True, os.getpid()
        self._broken = False
        self.version: Version | None = None

    @property
    def rows(self) -> int:
        """Rows taken in so far."""
        return 0 if self._stager is None else self._stager.rows

    def write(self, data: Any) -> None:
        """Take in rows, as `append` does: a dict is columns. PUTs a segment whenever enough have gathered.

        The first batch decides the columns; later ones may have them in any order, and lack those that may
        be null. Raises `InvalidArgument` once closed, and everything `append` raises about rows; an error in
        the middle of a batch aborts the stream, and a `with` block that goes on after it raises at its end.
        """
        self._check_open()
        incoming = Incoming.of(data)
        if self._plan is None or self._stager is None:
            reader, self._plan = self._planned(incoming)
            full = min(SEGMENT_BYTES, self._session.options.segment_bytes)
            self._stager = new_stager(self._session, self._plan, segment_bytes=full)
        else:
            reader = incoming.reader(_known(self._plan))
            self._check_columns(reader.schema.names)
            fit(reader.schema, _known(self._plan), evolve=False)
        try:
            self._stager.add_all(incoming.batches(reader))
        except BaseException:
            self._broken = True
            self.abort()  # some of these rows were taken and some not: they must not be committed by mistake
            raise

    def _check_columns(self, names: Sequence[str]) -> None:
        """Raises `SchemaMismatch` for a column that the first batch did not have."""
        assert self._plan is not None
        first = self._plan.schema.names
        more = [name for name in names if name not in first]
        if more:
            raise SchemaMismatch(
                f"column {more[0]!r} was not in the first batch of this stream, which decides its columns "
                f"({', '.join(map(repr, first))}); give it in the first batch too, as nulls if need be"
            )

    def _planned(self, incoming: Incoming) -> tuple[pa.RecordBatchReader, Fit]:
        """As an append does: what looks wrong is looked at again with a fresh head before it is refused."""
        session = self._session
        try:
            reader = incoming.reader(session.known)
            return reader, plan_rows(session, reader.schema, evolve=False)
        except SchemaMismatch:
            session.head()
        reader = incoming.reader(session.known)
        return reader, plan_rows(session, reader.schema, evolve=False)

    def commit(self) -> Version:
        """Make everything written visible, as one version. Raises as `append` does."""
        self._check_open()
        if self._stager is None or self._plan is None:
            raise InvalidArgument("nothing was written to this stream: write at least one batch, or abort()")
        self._open = False
        body, puts = self._stager.finish(), self._stager.puts
        operation = "upsert" if self._session.settings.key else "append"
        self.version = self._session.commit(
            operation, body=body, puts=puts, metadata=self._metadata, key=self._key
        )
        learn(self._session, self._plan, self.version)
        if self._committed is not None:
            self._committed(self.version)
        return self.version

    def abort(self) -> None:
        """Let go of everything written. No request; segments that are being stored are waited for.

        What was committed stays, and stays told: then this does nothing, so `close` may always be called.
        """
        if self.version is not None:
            return
        self._open = False
        if self._stager is not None:
            self._stager.abort()
        self._stager = None

    close = abort

    def _check_open(self) -> None:
        if not self._open:
            raise InvalidArgument("this stream is closed: open another with table.stream()")
        if self._process != os.getpid():  # threads that stage are not here, and both would commit
            raise InvalidArgument(
                "this stream was opened before a fork, and is committed by the process that opened it: open "
                "one in this process"
            )

    def __repr__(self) -> str:
        state = (
            "open" if self._open else "aborted" if self.version is None else f"committed {self.version.id}"
        )
        return f"StreamWriter({self._session.table!r}, {self.rows:,} rows, {state})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._broken and kind is None:
            raise InvalidArgument(
                "a write to this stream failed halfway, which aborted it: nothing of it is visible. Let the "
                "error pass, or write everything again to another stream"
            )
        if not self._open:
            return
        if kind is not None or self._stager is None:
            self.abort()
        else:
            self.commit()


def _known(plan: Fit) -> Known:
    return {
        field.name: KnownColumn(field.column, decode_type(field.type), field.nullable)
        for field in plan.fields
    }
