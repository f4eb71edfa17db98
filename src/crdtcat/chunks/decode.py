"""From the fetched bytes of a segment to Arrow tables, checked on both sides of Parquet's decoder.

The decoder gets a buffer in which the wanted columns lie at their places in the file, and the footer that
was checked before, so it never looks for anything itself. Row groups are decoded side by side in threads
that live as long as the call: no state outlasts it, so a fork between calls is harmless. No I/O here.

Texts with few different values are read as their dictionary and numbers into it, and gathered afterwards:
that takes two thirds of the time of Parquet's own way, which appends value by value. Whoever replaces values
asks for the dictionaries themselves, and gathers once, after replacing.

Other texts are read with wide offsets, which are made narrow afterwards: before every value that it appends
to a text with narrow ones, Parquet's reader looks whether the text is full, which takes longer than the rest.
They have a reader of their own: one that gives wide offsets takes no notice of dictionaries, and widens the
texts inside of lists and structs, too.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from crdtcat.chunks.footer import Footer, SegmentRef
from crdtcat.chunks.hashing import column_hash
from crdtcat.errors import Corrupt
from crdtcat.support.pools import ThreadPool

DICTIONARY_BYTES: Final = 16 * 1024
"""Encoded. Parquet's reader puts dictionaries into a hash table: a large one costs more than it saves."""
Verify = bool | Literal["bytes", "content"]
"""How much to check of what was read; see `crdtcat.chunks.read`."""
NARROW_MAX: Final = 2**31 - 1
"""Bytes of text that narrow offsets reach. A row group with more of it is read as several arrays."""
SMALL_ROWS: Final = 256
"""Row groups of up to so many rows are decoded together."""
WIDE_ROWS: Final = 8192
"""Of fewer rows, making offsets narrow costs more than it saves."""
_TEXTS: Final = ("string", "binary")
NARROW: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
THREAD_BYTES = 2**20
"""Below this many encoded bytes, starting threads costs more than they gain."""


class Decoder:
    """Decodes row groups of one fetched segment; one per thread, since Parquet's readers have state.

    Args:
        ref: which segment.
        footer: its footer.
        data: its bytes, as far as the columns need them.
        columns: numbers of the columns wanted.
        verify: how much to check.
        raw: leave text columns with small dictionaries in dictionary arrays, others with wide offsets.
    """

    def __init__(
        self,
        ref: SegmentRef,
        footer: Footer,
        data: pa.Buffer,
        columns: Sequence[int],
        *,
        verify: Verify,
        raw: bool = False,
    ) -> None:
        self.ref, self.footer, self.data, self.columns, self.verify = ref, footer, data, columns, verify
        self.raw = raw
        self._leaves = sorted({leaf for column in columns for leaf in footer.leaves[column]})
        self._texts = {
            footer.names[column]: footer.leaves[column][0]
            for column in sorted(set(columns))
            if footer.types[column] in _TEXTS and "." not in footer.names[column]
        }
        self._files: dict[tuple[tuple[str, ...], bool], pq.ParquetFile] = {}

    def fork(self) -> Decoder:
        """Another decoder of the same bytes, for another thread."""
        return Decoder(self.ref, self.footer, self.data, self.columns, verify=self.verify, raw=self.raw)

    def encoded_bytes(self, group: int) -> int:
        """How many bytes a row group's wanted columns have."""
        return sum(
            self.footer.places[group][c].stop - self.footer.places[group][c].start for c in self.columns
        )

    def decode(self, group: int) -> pa.Table:
        """The wanted columns of one row group. Raises `Corrupt` for damage of any kind."""
        self._check_bytes(group)
        table = self._parquet([group])
        self._check_content(group, table)
        return table

    def decode_small(self, groups: Sequence[int]) -> list[pa.Table]:
        """As `decode`, for each of some row groups, which are decoded together.

        Setting out to decode a row group costs as much as some hundred rows.
        """
        for group in groups:
            self._check_bytes(group)
        found: list[pa.Table] = []
        for _, run in itertools.groupby(groups, self._with_dictionaries):
            together = list(run)
            table = self._parquet(together)
            ends = itertools.accumulate(self.footer.rows[group] for group in together)
            for group, end in zip(together, ends, strict=True):
                rows = self.footer.rows[group]
                found.append(table.slice(end - rows, rows))
                self._check_content(group, found[-1])
        return found

    def _check_bytes(self, group: int) -> None:
        if self.verify:
            view = memoryview(self.data)
            for column in self.columns:
                place = self.footer.places[group][column]
                if blake3(view[place.start : place.stop]).digest() != place.encoded:
                    raise self._corrupt(group, column, "its bytes do not match their hash")

    def _check_content(self, group: int, table: pa.Table) -> None:
        if self.verify == "content":
            for column, array in zip(self.columns, table.columns, strict=True):
                if column_hash(array) != self.footer.places[group][column].content:
                    raise self._corrupt(group, column, "its values do not match their hash")

    def _parquet(self, groups: list[int]) -> pa.Table:
        """Row groups that are read with the same columns as dictionaries, as one table."""
        what = f"row group {', '.join(map(str, groups))}"
        rows = sum(self.footer.rows[group] for group in groups)
        try:
            table = self._read(groups, rows)
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            raise Corrupt(self.ref.name, f"{what} cannot be decoded: {error}") from error
        if table.num_rows != rows or table.num_columns != len(set(self.columns)):
            raise Corrupt(self.ref.name, f"{what} decodes to another shape than it was written with")
        if not all(field.nullable for field in table.schema):  # row groups of others: columns without levels
            table = pa.Table.from_arrays(table.columns, names=table.column_names)
        return table.select([self.footer.names[column] for column in self.columns]) if self.columns else table

    def _read(self, groups: list[int], rows: int) -> pa.Table:
        few = self._with_dictionaries(groups[0])
        many = [leaf for name, leaf in self._texts.items() if name not in few] if rows >= WIDE_ROWS else []
        if not many:
            return self._finished(self._columns(groups, few, self._leaves))
        texts = self._columns(groups, (), many, wide=True)
        if any(column.nbytes > NARROW_MAX for column in texts.columns):
            return self._finished(self._columns(groups, few, self._leaves))
        rest = [leaf for leaf in self._leaves if leaf not in many]
        if rest:
            table = self._columns(groups, few, rest)
            for field, column in zip(texts.schema, texts.columns, strict=True):
                table = table.append_column(field, column)
            texts = table
        return self._finished(texts)

    def _columns(
        self, groups: list[int], few: tuple[str, ...], leaves: list[int], *, wide: bool = False
    ) -> pa.Table:
        reader = self._file(few, wide=wide).reader
        return reader.read_row_groups(groups, column_indices=leaves, use_threads=False)

    def _finished(self, table: pa.Table) -> pa.Table:
        return table if self.raw else plain(table)

    def _with_dictionaries(self, group: int) -> tuple[str, ...]:
        """The text columns of a row group that are read as dictionaries."""
        if not self._texts:
            return ()
        metadata = self.footer.metadata.row_group(group)
        leaves = self._texts.items()
        return tuple(name for name, leaf in leaves if _has_small_dictionary(metadata.column(leaf)))

    def _file(self, names: tuple[str, ...], *, wide: bool) -> pq.ParquetFile:
        """A reader that gives these columns as dictionaries, others with wide offsets or not. Neighbours have
        the same ones, nearly always."""
        kind = (names, wide)
        if kind not in self._files:
            self._files[kind] = pq.ParquetFile(
                pa.BufferReader(self.data),
                metadata=self.footer.metadata,
                pre_buffer=False,
                read_dictionary=list(names),
                binary_type=pa.large_binary() if wide else None,
            )
        return self._files[kind]

    def _corrupt(self, group: int, column: int, why: str) -> Corrupt:
        return Corrupt(
            self.ref.name, f"damaged: row group {group}, column {self.footer.names[column]!r}: {why}"
        )


def plain(table: pa.Table) -> pa.Table:
    """The table with values in place of dictionaries, and narrow offsets in place of wide ones."""
    for number, field in enumerate(table.schema):
        column = table.column(number)
        if pa.types.is_dictionary(field.type):
            values = [part.dictionary.take(part.indices) for part in column.chunks]
            column = pa.chunked_array(values, field.type.value_type)
        elif field.type in NARROW:
            column = column.cast(NARROW[field.type])
        else:
            continue
        table = table.set_column(number, field.with_type(column.type), column)
    return table


def _has_small_dictionary(leaf: Any) -> bool:
    start = leaf.dictionary_page_offset
    return start is not None and 0 < leaf.data_page_offset - start <= DICTIONARY_BYTES


def decoded(decoder: Decoder, groups: Sequence[int]) -> Iterator[pa.Table]:
    """Row groups, in the order given, each decoded when it is asked for; small neighbours are together.

    Whoever is done with one before asking for the next finds its memory still in the processor's cache.
    Raises `Corrupt` at the first that is damaged.
    """
    for small, run in itertools.groupby(groups, lambda group: decoder.footer.rows[group] <= SMALL_ROWS):
        together = list(run)
        yield from decoder.decode_small(together) if small else map(decoder.decode, together)


def decode_groups(decoder: Decoder, groups: Sequence[int], threads: int | None) -> list[pa.Table]:
    """Decode row groups, in the order given, with `threads` threads (`None`: as many as are worth it).

    Raises `Corrupt` if any of them is damaged.
    """
    if threads is None:
        much = sum(decoder.encoded_bytes(group) for group in groups) >= THREAD_BYTES
        threads = os.cpu_count() or 1 if much else 1
    threads = min(threads, len(groups))
    if threads <= 1:
        return list(decoded(decoder, groups))
    tables: list[pa.Table | None] = [None] * len(groups)
    positions = itertools.count()

    def work(own: Decoder) -> None:
        while (position := next(positions)) < len(groups):
            tables[position] = own.decode(groups[position])

    with ThreadPool(threads, thread_name_prefix="crdtcat-decode") as pool:
        for done in [pool.submit(work, decoder.fork()) for _ in range(threads)]:
            done.result()
    return [table for table in tables if table is not None]
