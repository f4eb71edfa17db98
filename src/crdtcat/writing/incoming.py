"""What a user handed in, until it is known how it goes into the table.

Rows without types of their own (dicts) take the types of the columns the handle knows, and only the columns
they name: a key nobody has heard of is inferred, and left for `fit` to refuse or add. Everything else carries
its types with it. Data that can be read twice may be planned again when the handle turns out to have known
too little; a stream may be planned again until its first row was taken.

No I/O; never touches a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import pyarrow as pa

from crdtcat.chunks import ingest
from crdtcat.writing.fit import Known


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

    def reader(self, known: Known | None) -> pa.RecordBatchReader:
        """The rows as a stream. Its schema is there before the first row is taken.

        Raises as `crdtcat.chunks.ingest.reader` does; nothing has been read from a stream by then.
        """
        if self._dicts:
            return _typed(self._data, known)
        if self._stream is None or self._taken:
            self._stream, self._taken = ingest.reader(self._data), False
        return self._stream

    def batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """The rows of a reader made here, noting that they are being taken."""
        self._taken = True
        yield from reader


def _settled(data: Any) -> Any:
    """A generator of dicts becomes a list: its columns are known only when all its rows are."""
    if not isinstance(data, Iterator) or isinstance(data, pa.RecordBatchReader):
        return data
    first = list(zip(range(1), data, strict=False))
    if first and isinstance(first[0][1], Mapping):
        return [first[0][1], *data]
    return chain((item for _, item in first), data)


def _is_dicts(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return all(isinstance(row, Mapping) for row in data)
    return isinstance(data, Mapping)


def _typed(data: Any, known: Known | None) -> pa.RecordBatchReader:
    if known is None:
        return ingest.reader(data)
    if not isinstance(data, Mapping) and not data:
        return ingest.reader(data, pa.schema([(name, column.type) for name, column in known.items()]))
    rows = [data] if isinstance(data, Mapping) else data
    names = list(dict.fromkeys(chain.from_iterable(rows)))
    new = [name for name in names if name not in known]
    types = {name: known[name].type for name in names if name in known}
    if new:
        parts = [{name: row[name] for name in new if name in row} for row in rows]
        inferred = ingest.reader(parts[0] if isinstance(data, Mapping) else parts).schema
        types.update(zip(inferred.names, inferred.types, strict=True))
    if not names:
        return ingest.reader(data)  # says what is wrong with rows that have no columns
    return ingest.reader(data, pa.schema([(name, types[name]) for name in names]))
