"""A piece of a table made ready to be a chunk: in storage types, hashed, measured.

Pure, and safe to run in threads: nearly all of it is outside the interpreter lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.keys import KEY_BOUNDS, key_bounds
from crdtcat.chunks.statistics import ColumnStatistics, domain, statistics
from crdtcat.chunks.storage_types import to_storage
from crdtcat.log.statistics import DOMAINS

_CODES: Final = {domain: code for code, domain in DOMAINS.items()}


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
        table: the rows, in storage types.
        rows: how many.
        nbytes: of Arrow content.
        hash: the chunk's hash.
        column_hashes: of its columns, in order.
        statistics: for each column its name, the code of its domain, and what is known of its values.
    """

    partition: bytes | None
    table: pa.Table
    rows: int
    nbytes: int
    hash: bytes
    column_hashes: Sequence[bytes]
    statistics: tuple[tuple[str, str, Any], ...]

    def without_rows(self) -> Prepared:
        """All that is left to know once the rows are stored."""
        return replace(self, table=self.table.schema.empty_table())


def prepare(piece: Piece) -> Prepared:
    """Raises `UnsupportedType`, `SchemaMismatch`, `InvalidArgument`, `LimitExceeded`, by `to_storage`."""
    names, columns = piece.table.column_names, piece.table.columns
    arrays = [to_storage(column, name) for name, column in zip(names, columns, strict=True)]
    table = pa.Table.from_arrays(arrays, names=names)
    hash, column_hashes = hash_table(table)

    def known() -> Iterator[tuple[str, str, Any]]:
        for name, column in zip(names, columns, strict=True):
            yield name, _CODES[domain(column.type)], statistics(column)
        if piece.key and table.num_rows:
            low, high = key_bounds([arrays[names.index(name)] for name in piece.key])
            yield KEY_BOUNDS, _CODES["bytes"], ColumnStatistics(low, high, 0)

    return Prepared(piece.partition, table, table.num_rows, table.nbytes, hash, column_hashes, tuple(known()))
