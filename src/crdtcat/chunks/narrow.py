"""Narrow encodings: dictionaries whose indices, and runs whose ends, have few bits.

A column's type says how wide they are; how many different values a table will hold it cannot say, since
writers do not ask each other. Every array has a dictionary of its own, so the width a column was given goes
on holding as long as arrays are short enough: rows with more different values than indices can number become
several arrays (`restored`, `in_pieces`), down to one row. Whoever wants all rows as one table wants to
combine its arrays, which takes one dictionary: there a column gets wider indices for as long as that table
lives (`combinable`). Values never change here. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from crdtcat.chunks.entry_order import Entries
from crdtcat.chunks.storage_types import from_storage, to_storage
from crdtcat.chunks.type_parts import around, parts
from crdtcat.chunks.widen import INDEX_TYPES, index_capacity
from crdtcat.errors import LimitExceeded

Path = tuple[int, ...]
"""Which child of which child; of a dictionary, run or extension the only one is 0."""


def restored(
    arrays: Iterable[pa.Array], logical: pa.DataType, column: str, order: Entries = ()
) -> pa.ChunkedArray:
    """Storage arrays as their logical type; more arrays than were given where an encoding is too narrow.

    `order` as for `from_storage`. Raises as that does; `LimitExceeded` only where a single row has too many
    different values.
    """
    pieces = [
        piece
        for array in arrays
        for piece in in_pieces(array, lambda part: from_storage(part, logical, column, order))
    ]
    return pa.chunked_array(pieces, logical)


def in_pieces(array: pa.Array, make: Callable[[pa.Array], pa.Array]) -> list[pa.Array]:
    """What `make` gives for an array, or for its halves where that raises `LimitExceeded`, and so on.

    Cost: one call, and O(rows * log rows) more where it has to be halved.
    """
    try:
        return [make(array)]
    except LimitExceeded:
        if len(array) < 2:
            raise
    half = len(array) // 2
    return [*in_pieces(array.slice(0, half), make), *in_pieces(array.slice(half), make)]


def combinable(table: pa.Table) -> pa.Table:
    """The table, with wider indices where its arrays have more different values than theirs can number.

    So `combine_chunks`, `take` and `unify_dictionaries` work on it. Cost: nothing where the arrays of each
    column have few entries in all; else O(entries), and O(rows) for columns that are widened.
    """
    for number, field in enumerate(table.schema):
        column = table.column(number)
        if column.num_chunks < 2 or not _is_narrow(field.type):
            continue
        wider = _widened(field.type, _needed(column.chunks))
        if wider != field.type:
            arrays = [_with_type(chunk, wider, field.name) for chunk in column.chunks]
            table = table.set_column(number, field.with_type(wider), pa.chunked_array(arrays, wider))
    return table


def _with_type(array: pa.Array, wider: pa.DataType, name: str) -> pa.Array:
    if pa.types.is_dictionary(wider):  # entries and their order stay
        indices = array.indices.cast(wider.index_type)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=wider.ordered)
    return from_storage(to_storage(array, name), wider, name)


def _is_narrow(t: pa.DataType) -> bool:
    """Whether there is a dictionary in it that a table may outgrow; 31 bits number all it can hold."""
    own = pa.types.is_dictionary(t) and index_capacity(t.index_type) < 2**31
    return own or any(_is_narrow(child) for child in parts(t))


def _needed(chunks: Sequence[pa.Array]) -> dict[Path, int]:
    """Per dictionary within the arrays, how many different entries they have together."""
    found: dict[Path, list[pa.Array]] = {}
    for chunk in chunks:
        for path, array in _dictionaries(chunk, ()):
            found.setdefault(path, []).append(array)
    return {path: _different(arrays) for path, arrays in found.items()}


def _different(arrays: Sequence[Any]) -> int:
    """How many entries several dictionaries have together, or that they are few enough."""
    entries = [array.dictionary for array in arrays]
    total = sum(map(len, entries))
    if total <= index_capacity(arrays[0].type.index_type):
        return total
    try:
        return len(pa.chunked_array(entries).unique())
    except pa.ArrowNotImplementedError:  # nested entries: nobody can unify those, however wide
        return 0


def _dictionaries(array: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if pa.types.is_dictionary(array.type):
        yield path, array
    for at, child in enumerate(_children(array)):
        yield from _dictionaries(child, (*path, at))


def _children(array: Any) -> list[Any]:
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        return [array.storage]
    if pa.types.is_dictionary(t):
        return [array.dictionary]
    if pa.types.is_struct(t):
        return [array.field(at) for at in range(t.num_fields)]
    if pa.types.is_map(t):
        return [array.keys, array.items]
    return [array.values] if t.num_fields else []


def _widened(t: pa.DataType, needed: dict[Path, int], path: Path = ()) -> pa.DataType:
    """The type with indices wide enough for so many entries."""
    wider = around(t, [_widened(part, needed, (*path, at)) for at, part in enumerate(parts(t))])
    if not pa.types.is_dictionary(t) or index_capacity(t.index_type) >= needed.get(path, 0):
        return wider
    index = next(index for index in INDEX_TYPES if index_capacity(index) >= needed[path])
    return pa.dictionary(index, wider.value_type, ordered=t.ordered)
