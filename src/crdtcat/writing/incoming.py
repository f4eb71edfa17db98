"""What a user handed in, until it is known how it goes into the table.

Rows without types of their own (dicts) take the types of the columns the handle knows, with room for any
number of different values, and only the columns they name: a key nobody has heard of is inferred, and left
for `fit` to refuse or add. An iterable of frames or of lists of dicts takes its columns from its first item,
in the handle's types where that item fits them.
Everything else carries its types with it. Data that can be read twice may be planned again when the handle
turns out to have known too little; a stream may be planned again until its first row was taken.

No I/O; never touches a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa

from crdtcat.chunks import ingest
from crdtcat.chunks.frames import type_name
from crdtcat.chunks.python_values import require_near
from crdtcat.chunks.type_parts import is_plain, roomy
from crdtcat.writing.fit import Known, may_hold, stored_type


class Incoming:
    """Rows on their way in.

    Args:
        data: anything `crdtcat.chunks.ingest` takes.
    """

    def __init__(self, data: Any) -> None:
        self._data = _settled(data)
        self._dicts = _is_dicts(self._data)
        self._stream: pa.RecordBatchReader | None = None
        self._taken = False

    @classmethod
    def of(cls, data: Any) -> Incoming:
        """The data as it is, if it was opened before."""
        return data if isinstance(data, cls) else cls(data)

    @property
    def can_be_read_again(self) -> bool:
        """Whether another `reader` would give all the rows."""
        return not self._taken or self._dicts or isinstance(self._data, pa.Table | pa.RecordBatch)

    @property
    def name_no_columns(self) -> bool:
        """Whether they are dicts, and there is none of them."""
        return self._dicts and not self._data

    @property
    def full(self) -> frozenset[str]:
        """The columns of which it is known by now that no row is null: of rows that are in memory."""
        if not isinstance(self._data, pa.Table | pa.RecordBatch):
            return frozenset()
        return frozenset(
            field.name
            for field, column in zip(self._data.schema, self._data.columns, strict=True)
            if is_plain(field.type) and not column.null_count
        )

    def reader(self, known: Known | None) -> pa.RecordBatchReader:
        """The rows as a stream. Its schema is there before the first row is taken.

        Raises as `crdtcat.chunks.ingest.reader` does; nothing has been read from a stream by then.
        """
        if self._dicts:
            return _typed(self._data, known)
        if isinstance(self._data, _Items):
            return self._data.reader(known)
        if self._stream is None or self._taken:
            self._stream, self._taken = ingest.reader(self._data), False
        return self._stream

    def batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """The rows of a reader made here, noting that they are being taken."""
        self._taken = True
        yield from reader


class _Items:
    """An iterable of things that hold rows: its first item, to know the columns by, and the rest."""

    def __init__(self, first: Any, rest: Iterator[Any], container: str) -> None:
        self._first, self._rest, self._container = first, rest, container
        self._opened: Incoming | None = None

    def reader(self, known: Known | None) -> pa.RecordBatchReader:
        """All rows as one stream; may be asked for again until a row was taken."""
        if self._opened is None:
            ingest.check_item(self._first, self._container)
            self._opened = Incoming(self._first)
        first = self._opened.reader(known)
        fields = []
        for field in first.schema:
            column = None if known is None else known.get(field.name)
            held = field.type if column is None else roomy(stored_type(field.type, column))
            fields.append(field.with_type(held) if may_hold(field.type, held) else field)
        return ingest.continued(first, self._rest, pa.schema(fields))


def _settled(data: Any) -> Any:
    """A generator of dicts becomes a list: its columns are known only when all its rows are."""
    if not ingest.is_iterable_of_rows(data):
        return data
    require_near(data)
    rest = iter(data)
    first = list(zip(range(1), rest, strict=False))
    if not first:
        return []
    if isinstance(first[0][1], Mapping):
        return data if isinstance(data, list | tuple) else [first[0][1], *rest]
    return _Items(first[0][1], rest, type_name(data))


def _is_dicts(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return all(isinstance(row, Mapping) for row in data)
    return isinstance(data, Mapping)


def _typed(data: Any, known: Known | None) -> pa.RecordBatchReader:
    if known is None:
        return ingest.reader(data)
    if not isinstance(data, Mapping) and not data:
        return ingest.reader(data, pa.schema([(name, roomy(column.type)) for name, column in known.items()]))
    rows = [data] if isinstance(data, Mapping) else data
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    types = {name: roomy(known[name].type) for name in names if name in known}
    inferred = [name for name in names if name not in known or known[name].is_open]
    if inferred:
        parts = [{name: row[name] for name in inferred if name in row} for row in rows]
        for field in ingest.reader(parts[0] if isinstance(data, Mapping) else parts).schema:
            types[field.name] = (
                roomy(stored_type(field.type, known[field.name])) if field.name in known else field.type
            )
    if not names:
        return ingest.reader(data)  # says what is wrong with rows that have no columns
    return ingest.reader(data, pa.schema([(name, types[name]) for name in names]))
