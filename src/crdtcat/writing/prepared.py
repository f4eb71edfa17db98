"""A piece of a table made ready to be a chunk: in storage types, hashed, measured.

Pure, and safe to run in threads: nearly all of it is outside the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.keys import KEY_BOUNDS, key_bounds
from crdtcat.chunks.statistics import ColumnStatistics, bytes_statistics, domain, statistics
from crdtcat.chunks.storage_types import to_storage
from crdtcat.log.statistics import DOMAINS

_CODES: Final = {domain: code for code, domain in DOMAINS.items()}
_NO_ROWS: Final = pa.table({})


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Rows that will be one chunk.

    Attributes:
        partition: its partition's encoded values; None in a table without partitions.
        table: the rows, in their logical types.
        key: the table's key columns, by which the rows rise.
    """

    partition: bytes | None
    table: pa.Table
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A chunk that is not stored yet.

    Attributes:
        partition: as in `Piece`.
        table: the rows, in storage types; of a settled chunk none.
        rows: how many.
        nbytes: of Arrow content.
        hash: the chunk's hash.
        column_hashes: of its columns, in order.
        statistics: for each column its name, the code of its domain, and what is known of its values; None
            for texts and binaries until `settled`, since Parquet's writer finds their bounds on its way.
    """

    partition: bytes | None
    table: pa.Table
    rows: int
    nbytes: int
    hash: bytes
    column_hashes: Sequence[bytes]
    statistics: tuple[tuple[str, str, ColumnStatistics | None], ...]

    def settled(self, bounds: Mapping[str, tuple[bytes, bytes]]) -> Prepared:
        """All there is to say once the rows are stored, without the rows; missing bounds are looked for."""

        def known(name: str, found: ColumnStatistics | None) -> ColumnStatistics:
            if found is not None:
                return found
            column = self.table.column(name)
            return (
                bytes_statistics(*bounds[name], column.null_count) if name in bounds else statistics(column)
            )

        every = tuple((name, code, known(name, found)) for name, code, found in self.statistics)
        return Prepared(
            self.partition, _NO_ROWS, self.rows, self.nbytes, self.hash, self.column_hashes, every
        )


def prepare(piece: Piece) -> Prepared:
    """Raises `UnsupportedType`, `SchemaMismatch`, `InvalidArgument`, `LimitExceeded`, by `to_storage`."""
    names, columns = piece.table.column_names, piece.table.columns
    arrays = [to_storage(column, name) for name, column in zip(names, columns, strict=True)]
    table = pa.Table.from_arrays(arrays, names=names)
    hash, column_hashes = hash_table(table)

    def known() -> Iterator[tuple[str, str, ColumnStatistics | None]]:
        for name, column, array in zip(names, columns, arrays, strict=True):
            later = array.type in (pa.string(), pa.binary())
            yield name, _CODES[domain(column.type)], None if later else statistics(column)
        if piece.key and table.num_rows:
            low, high = key_bounds([arrays[names.index(name)] for name in piece.key])
            yield KEY_BOUNDS, _CODES["bytes"], ColumnStatistics(low, high, 0)

    return Prepared(piece.partition, table, table.num_rows, table.nbytes, hash, column_hashes, tuple(known()))
