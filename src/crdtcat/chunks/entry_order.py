"""The order of entries in an ordered dictionary: "low" before "middle" before "high".

Values are stored without their dictionary, so an order is kept beside them: in the type code of a version's
field, as the list of entries its writer had, used or not. Entries of one column by several writers are merged
(`merged`): whoever knows more entries adds to the others' order. Orders that contradict each other have no
merge, and the column is unordered then.

An order is kept for texts, bytes, numbers but decimals and half floats, booleans and times, in a column that
is a dictionary itself. Other ordered dictionaries, of other values or within lists or structs, are refused.
Entries are MessagePack values: texts and bytes as they are, everything else as the integer of its bits.
No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgpack
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from crdtcat.chunks.type_codes import TypeCode, decode_type, keeps_order
from crdtcat.chunks.widen import INDEX_TYPES, index_capacity
from crdtcat.errors import LimitExceeded, SchemaMismatch, UnsupportedFormat
from crdtcat.limits import ENTRY_ORDER_BYTES_MAX

Entries = Sequence[Any]
"""Entries in their order, each as MessagePack holds it."""


def merged(first: Entries, second: Entries) -> list[Any] | None:
    """Both orders in one, what only the second has before what follows it there; `None`: they differ.

    Not commutative: where neither says what comes first, entries of the first order do. Theorems:
    `entry_order_keeps_both`, `entry_order_found`, `entry_order_again`, `entry_order_by_version`.
    """
    place = {entry: at for at, entry in enumerate(first)}
    common = [place[entry] for entry in second if entry in place]
    if common != sorted(common):
        return None
    result: list[Any] = []
    waiting: list[Any] = []
    taken = 0
    for entry in second:
        if entry in place:
            result += [*first[taken : place[entry]], *waiting, entry]
            taken, waiting = place[entry] + 1, []
        else:
            waiting.append(entry)
    return [*result, *first[taken:], *waiting]


def take_orders(orders: dict[str, list[Any]], rows: pa.RecordBatch | pa.Table) -> None:
    """Add what some rows say of the order of their columns' entries.

    Raises:
        SchemaMismatch: they contradict what earlier rows of this commit said.
        LimitExceeded: an order takes more than `limits.ENTRY_ORDER_BYTES_MAX`.
    """
    for field in rows.schema:
        if not keeps_order(field.type):
            continue
        column = rows.column(field.name)
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            add_order(orders, field.name, _entries_of(chunk.dictionary))


def add_order(orders: dict[str, list[Any]], name: str, entries: list[Any]) -> None:
    """Add one order of a column's entries. Raises as `take_orders`."""
    known = orders.setdefault(name, entries)
    if known != entries:
        both = merged(known, entries)
        if both is None:
            raise SchemaMismatch(
                f"column {name!r} is an ordered dictionary, and its arrays order their entries differently: "
                "give all of them one dictionary, or make it unordered"
            )
        orders[name] = both
    size = len(msgpack.packb(orders[name]))
    if size > ENTRY_ORDER_BYTES_MAX:
        raise LimitExceeded(
            f"column {name!r}: the order of its {len(orders[name]):,} entries takes {size:,} bytes, and "
            f"every commit keeps it; at most {ENTRY_ORDER_BYTES_MAX:,}: make the dictionary unordered"
        )


def _entries_of(dictionary: pa.Array) -> list[Any]:
    from crdtcat.chunks.storage_types import to_storage  # noqa: PLC0415 (which encodes by an order, below)

    stored = _plain(to_storage(dictionary))
    return list(dict.fromkeys(entry for entry in stored.to_pylist() if entry is not None))


def order_in(code: TypeCode) -> Entries | None:
    """The order in the type code of an ordered dictionary, empty where its writer had none; else `None`."""
    return code[3] if isinstance(code, list | tuple) and code[0] == "dictionary" and len(code) == 4 else None


def with_order(code: TypeCode, entries: Entries) -> TypeCode:
    """The code of an ordered dictionary with another order; any other code as it is."""
    return [*code[:3], list(entries)] if order_in(code) is not None else code


def ordered_type(t: pa.DataType, codes: Iterable[TypeCode]) -> tuple[pa.DataType, tuple[Any, ...]]:
    """A column's type and, if it is an ordered dictionary, the entries of all who wrote to it.

    Args:
        t: the type that follows from definitions and use.
        codes: type codes of the fields written, by rising version.

    Writers who contradict each other make it unordered; indices are wide enough for all entries.
    """
    if not pt.is_dictionary(t) or not t.ordered:
        return t, ()
    order, contradicting = order_of_all(t, codes)
    if contradicting is not None:
        return pa.dictionary(t.index_type, t.value_type), ()
    wide = [index for index in INDEX_TYPES if index_capacity(index) >= len(order)]
    index = t.index_type if t.index_type in wide else wide[0]
    return pa.dictionary(index, t.value_type, ordered=True), tuple(order)


def order_of_all(t: pa.DataType, codes: Iterable[TypeCode]) -> tuple[list[Any], int | None]:
    """The entries of those who wrote values of a dictionary type, and the number of the first code whose
    order contradicts those before it. Raises `UnsupportedFormat` for entries that are none of the type.

    One after another: what earlier ones left open is decided by who was first, and contradicted by a later
    one who says otherwise. Theorems: `entry_order_keeps_all`, `entry_order_one_by_one`.
    """
    order: list[Any] = []
    for at, code in enumerate(codes):
        entries = order_in(code)
        if not entries or decode_type(code).value_type != t.value_type:
            continue
        _check(entries, t)
        both = merged(order, entries)
        if both is None:
            return order, at
        order = both
    return order, None


def _check(entries: Entries, t: pa.DataType) -> None:
    from crdtcat.chunks.storage_types import storage_type  # noqa: PLC0415 (as in _entries_of)

    plain = _plain(pa.nulls(0, storage_type(t.value_type))).type
    try:
        found = pa.array(entries, plain).unique().drop_null().to_pylist()
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UnsupportedFormat(f"{t} has entries that are no such values: upgrade crdtcat") from error
    if found != list(entries):
        raise UnsupportedFormat(f"{t} has entries that are null, twice, or no such values: upgrade crdtcat")


def encode_ordered(
    stored: pa.Array,
    t: pa.DataType,
    entries: Entries,
    restore: Callable[[pa.Array], pa.Array],
    path: str,
) -> pa.Array:
    """Storage values as ordered dictionary type `t`: entries in their order, then all others by value.

    Raises `LimitExceeded` where more entries occur than the indices can number.
    """
    plain = _plain(stored)
    found = plain.unique().drop_null()
    given = pa.array(entries, plain.type)
    more = found.filter(pc.invert(pc.is_in(found, value_set=given)))
    every = pa.concat_arrays([given, more.take(pc.sort_indices(more.view(stored.type)))])
    if len(every) > index_capacity(t.index_type):
        every = every.filter(pc.is_in(every, value_set=found))
    if len(every) > index_capacity(t.index_type):
        raise LimitExceeded(f"column {path}: {len(every)} distinct values do not fit {t}")
    indices = pc.index_in(plain, value_set=every).cast(t.index_type)
    return pa.DictionaryArray.from_arrays(indices, restore(every.view(stored.type)), ordered=True)


def _plain(stored: pa.Array) -> pa.Array:
    """Storage values as MessagePack can hold them, and as they are compared: bits, so that all differ."""
    t = stored.type
    if pt.is_floating(t) or pt.is_temporal(t):
        return stored.view(pa.int32() if t.bit_width == 32 else pa.int64())
    return stored
