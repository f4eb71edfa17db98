"""Parquet files of others: what they hold, their rows, and their row groups as they are.

A segment is a Parquet file with a block of ours before its footer (`crdtcat.chunks.footer`), so a file made
by somebody else is none, whatever is in it. But its row groups may be those of a segment: encoded bytes that
our reader decodes to storage types. Then they are taken as they are, laid end to end, under a footer that
says where they lie now. Nothing is encoded again; what is decoded, once, is what the content hashes and
statistics need, and it is decoded from the bytes that will be stored, by the footer that will be stored with
them: what cannot be read back is never taken.

What a file's writer says of values is not believed. Timestamps of 96 bits, an old form whose type does not
say so, are moments in UTC at any depth, as Spark writes them. Reads only, and knows nothing of tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from crdtcat.chunks.footer import MAGIC, TAIL_BYTES
from crdtcat.chunks.other_calendar import is_noted, require_none_older
from crdtcat.chunks.parquet_footer import picked_footer
from crdtcat.chunks.storage_types import storage_type
from crdtcat.chunks.stretch import bytes_of
from crdtcat.chunks.type_parts import around, parts
from crdtcat.errors import Corrupt, CrdtcatError, InvalidArgument, Missing
from crdtcat.store import Store
from crdtcat.support.object_bytes import ObjectBytes

TAIL_GUESS_BYTES: Final = 64 * 1024  # most footers are shorter; a longer one takes another GET
BATCH_ROWS: Final = 64 * 1024
_MOMENT: Final = pa.timestamp("us", "UTC")


class ForeignGroup(NamedTuple):
    """A row group: how many rows, where its bytes lie, how many its pages decode to, and whether its columns
    lie end to end there, in order, with nothing between."""

    rows: int
    start: int
    stop: int
    nbytes: int
    is_whole: bool


@dataclass(frozen=True, eq=False)
class ForeignFile:
    """What the footer of a file says.

    Attributes:
        url: the file, as errors name it.
        name: within its store.
        size: in bytes.
        digest: of size and footer: another file of that name has another one.
        schema: its columns, as its writer meant them.
        stored: its columns, as Parquet's own types.
        groups: its row groups.
    """

    url: str
    name: str
    size: int
    digest: bytes
    schema: pa.Schema
    stored: pa.Schema
    groups: tuple[ForeignGroup, ...]
    _footer: bytes
    _metadata: Any

    def holds_storage(self, schema: pa.Schema) -> bool:
        """Whether its row groups are what chunks of these columns are stored as, and mean the same."""
        if is_noted(self._metadata.metadata):
            return False
        return self.schema.names == schema.names and all(
            mine == wanted and storage_type(wanted) == held
            for mine, wanted, held in zip(self.schema.types, schema.types, self.stored.types, strict=True)
        )

    def tables(self, store: Store, groups: Sequence[int]) -> Iterator[pa.Table]:
        """The rows of some row groups, as the file's writer meant them, a few at a time.

        One GET for each. Memory: its encoded bytes, and a batch. Raises `Corrupt`, `StoreUnavailable`;
        `InvalidArgument` for days of another calendar.
        """
        for group in groups:
            source = _in_place(self.groups[group].start, self._bytes(store, group, group))
            try:
                opened = pq.ParquetFile(
                    pa.BufferReader(source),
                    metadata=self._metadata,
                    pre_buffer=False,
                    coerce_int96_timestamp_unit="us",
                )
                for batch in opened.iter_batches(BATCH_ROWS, row_groups=[group], use_threads=False):
                    yield self._typed(pa.Table.from_batches([batch]))
            except (pa.ArrowException, OSError, ValueError) as error:
                if isinstance(error, CrdtcatError):
                    raise
                raise Corrupt(self.url, f"row group {group} cannot be decoded: {error}") from error

    def taken(self, store: Store, groups: Sequence[int]) -> Taken:
        """Some neighbouring row groups, all whole, as a Parquet file of their own. One GET.

        Memory: their encoded bytes, twice. Raises `Corrupt`, `StoreUnavailable`.
        """
        picks, held = [], len(MAGIC)
        for group in groups:
            picks.append((group, held - self.groups[group].start))
            held += self.groups[group].stop - self.groups[group].start
        body = self._bytes(store, groups[0], groups[-1])
        footer = picked_footer(self._footer, picks)
        tail = footer + len(footer).to_bytes(4, "little") + MAGIC
        data = memoryview(b"".join((MAGIC, body, tail)))
        return Taken(self.url, data, pq.read_metadata(pa.BufferReader(pa.py_buffer(tail))), len(groups))

    def _bytes(self, store: Store, first: int, last: int) -> ObjectBytes:
        start, stop = self.groups[first].start, self.groups[last].stop
        data = _fetched(store, self.url, self.name, start, stop)
        if len(data) != stop - start:
            raise Corrupt(self.url, f"truncated: {len(data)} of {stop - start} bytes from {start} on")
        return data

    def _typed(self, table: pa.Table) -> pa.Table:
        typed = table.cast(self.schema) if not table.schema.equals(self.schema) else table
        if is_noted(self._metadata.metadata):
            require_none_older(typed, self.url)
        return typed


@dataclass(frozen=True, eq=False)
class Taken:
    """Row groups of a file, as they are: a Parquet file of them alone.

    Attributes:
        url: the file they come from.
        data: the Parquet file.
        metadata: its footer.
        count: how many row groups.
    """

    url: str
    data: memoryview
    metadata: Any
    count: int

    def tables(self) -> Iterator[pa.Table]:
        """The rows of each, in storage types. Raises `Corrupt`."""
        try:
            opened = pq.ParquetFile(
                pa.BufferReader(pa.py_buffer(self.data)), metadata=self.metadata, pre_buffer=False
            )
            for group in range(self.count):
                yield opened.read_row_group(group)
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, CrdtcatError):
                raise
            raise Corrupt(self.url, f"cannot be decoded: {error}") from error


def read_foreign(store: Store, name: str, size: int) -> ForeignFile:
    """What a file holds. One GET, two where the footer is long.

    Raises:
        InvalidArgument: no Parquet file, or one that cannot be read.
        StoreUnavailable, AccessDenied: it could not be asked for.
    """
    url = f"{store.url.rstrip('/')}/{name}"
    tail = _fetched(store, url, name, max(0, size - TAIL_GUESS_BYTES), size)
    if len(tail) < TAIL_BYTES or tail[-4:] not in (MAGIC, b"PARE"):
        raise InvalidArgument(f"{url} is not a Parquet file: it does not end as one does")
    if tail[-4:] != MAGIC:
        raise InvalidArgument(f"{url} is encrypted: import it as plain Parquet")
    length = int.from_bytes(tail[-8:-4], "little") + TAIL_BYTES
    if length > size:
        raise InvalidArgument(f"{url} is not a Parquet file: its footer would be longer than it is")
    if length > len(tail):
        tail = _fetched(store, url, name, size - length, size)
    try:
        return _understood(url, name, size, bytes(tail[len(tail) - length :]))
    except (pa.ArrowException, OSError, ValueError, IndexError, KeyError) as error:
        if isinstance(error, CrdtcatError):
            raise
        raise InvalidArgument(f"{url} is not a Parquet file that can be read: {error}") from error


def _understood(url: str, name: str, size: int, tail: bytes) -> ForeignFile:
    metadata = pq.read_metadata(pa.BufferReader(pa.py_buffer(tail)))
    _require_all_there(url, metadata)
    footer = tail[:-TAIL_BYTES]
    plain = picked_footer(footer, [])
    bare = pq.read_metadata(pa.BufferReader(pa.py_buffer(plain + len(plain).to_bytes(4, "little") + MAGIC)))
    schema = metadata.schema.to_arrow_schema().remove_metadata()
    leaves = (metadata.schema.column(leaf) for leaf in range(metadata.num_columns))
    fields = [pa.field(field.name, _with_moments(field.type, leaves)) for field in schema]
    return ForeignFile(
        url,
        name,
        size,
        blake3(size.to_bytes(8, "little") + tail).digest(),
        pa.schema(fields),
        bare.schema.to_arrow_schema().remove_metadata(),
        tuple(_group(metadata.row_group(group)) for group in range(metadata.num_row_groups)),
        footer,
        metadata,
    )


def _require_all_there(url: str, metadata: Any) -> None:
    """A file has columns, and all that its frame had. Raises `InvalidArgument`.

    Of an index that counts up pandas notes name and range beside the columns, and stores no values: whoever
    named it would miss them.
    """
    if not metadata.num_columns:
        raise InvalidArgument(f"{url} has no columns")
    try:
        noted = json.loads((metadata.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
        names = [item["name"] for item in noted if isinstance(item, dict) and item["name"] is not None]
    except (ValueError, KeyError, TypeError):  # another's notes, or none
        return
    if names:
        raise InvalidArgument(
            f"{url} lacks the values of {names[0]!r}, the index of its pandas frame: write it anew with "
            "to_parquet(..., index=True), or from reset_index(drop=True) if they are not wanted"
        )


def _with_moments(t: pa.DataType, leaves: Iterator[Any]) -> pa.DataType:
    """A type with moments in the place of timestamps of 96 bits, at any depth. Takes from `leaves` those that
    Parquet has of it, which are in the order of the types within it."""
    if isinstance(t, pa.DictionaryType) or not parts(t):
        return _MOMENT if next(leaves).physical_type == "INT96" else t
    if isinstance(t, pa.BaseExtensionType):
        _with_moments(t.storage_type, leaves)
        return t
    return around(t, [_with_moments(part, leaves) for part in parts(t)])


def _group(group: Any) -> ForeignGroup:
    places = [bytes_of(group.column(leaf)) for leaf in range(group.num_columns)]
    elsewhere = any(group.column(leaf).file_path for leaf in range(group.num_columns))
    follow = all(before[1] == after[0] for before, after in pairwise(places))
    start, stop = min(start for start, _ in places), max(stop for _, stop in places)
    return ForeignGroup(group.num_rows, start, stop, group.total_byte_size, follow and not elsewhere)


def _in_place(start: int, data: ObjectBytes) -> pa.Buffer:
    """A buffer in which bytes lie where they do in the file; what is before costs address space only."""
    sparse = np.empty(start + len(data), np.uint8)
    sparse[start:] = np.frombuffer(data, np.uint8)
    return pa.py_buffer(sparse)


def _fetched(store: Store, url: str, name: str, start: int, stop: int) -> ObjectBytes:
    try:
        return store.get(name, start, stop)
    except Missing as error:
        raise Corrupt(url, "vanished while it was imported") from error
