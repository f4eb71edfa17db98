"""The third of the catalogs that every later release must read: columns of every type that a code can say.

`tests.compat.write` writes the first one, and keeps all.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from crdtcat import Catalog
from crdtcat.chunks.type_codes import PLAIN
from crdtcat.chunks.widen import INDEX_TYPES

OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 0}
UNITS = ("s", "ms", "us", "ns")
NEVER_NULL = pa.field("item", pa.int16(), nullable=False)
WORD = pa.dictionary(pa.int8(), pa.string())
RUNS = pa.run_end_encoded(pa.int16(), pa.int8())
LEAVES = [
    *PLAIN.values(),
    *(pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC", "Europe/Paris")),
    *(pa.time32(unit) for unit in ("s", "ms")),
    *(pa.time64(unit) for unit in ("us", "ns")),
    *(pa.duration(unit) for unit in UNITS),
    *(make(9, scale) for make in (pa.decimal32, pa.decimal64, pa.decimal128) for scale in (2, 0, -3)),
    *(pa.decimal256(60, scale) for scale in (5, 0, -3)),
    pa.binary(0),
    pa.binary(5),
]
LISTS = (pa.list_, pa.large_list, pa.list_view, pa.large_list_view, partial(pa.list_, list_size=2))
NESTED = [
    *(
        make(item)
        for make in (
            pa.list_,
            pa.large_list,
            pa.list_view,
            pa.large_list_view,
            partial(pa.list_, list_size=2),
        )
        for item in (pa.int16(), NEVER_NULL)
    ),
    pa.struct([]),
    pa.struct([pa.field("a", pa.string_view()), pa.field("b", pa.duration("us"), nullable=False)]),
    pa.map_(pa.string(), pa.float32()),
    pa.map_(pa.int8(), pa.field("value", pa.date64(), nullable=False), keys_sorted=True),
    pa.list_(pa.struct([("deep", pa.map_(pa.string(), pa.list_(pa.decimal256(50, 1))))])),
    pa.list_(WORD),
    pa.struct([("word", WORD)]),
]
ENCODED = [
    *(pa.dictionary(index, value) for index in INDEX_TYPES for value in (pa.string(), pa.int64())),
    pa.dictionary(pa.int32(), pa.list_(pa.int8())),
    *(
        pa.run_end_encoded(ends, value)
        for ends in (pa.int16(), pa.int32(), pa.int64())
        for value in (pa.string(), pa.float64())
    ),
    pa.uuid(),
    pa.json_(),
    pa.fixed_shape_tensor(pa.int32(), [2]),
]
ORDERED = [
    *(pa.dictionary(index, pa.string(), ordered=True) for index in INDEX_TYPES),
    *(
        pa.dictionary(pa.int32(), value, ordered=True)
        for value in (pa.binary(), pa.bool_(), pa.int64(), pa.uint64(), pa.float32(), pa.float64())
    ),
    *(
        pa.dictionary(pa.int32(), value, ordered=True)
        for value in (pa.date32(), pa.date64(), pa.time64("ns"), pa.timestamp("s", "UTC"), pa.duration("ms"))
    ),
    pa.dictionary(pa.int32(), pa.binary(5), ordered=True),
]
TYPES = [*LEAVES, *NESTED, *ENCODED, *ORDERED]
SCHEMA = pa.schema([(f"c{at:03}", t) for at, t in enumerate(TYPES)])


def rows() -> pa.Table:
    """Two values of each type and a null."""
    return pa.table([_array(field.type) for field in SCHEMA], schema=SCHEMA)


def _array(t: pa.DataType) -> pa.Array:
    if isinstance(t, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(t, _array(t.storage_type))
    if pa.types.is_run_end_encoded(t):
        return pc.run_end_encode(_array(t.value_type), t.run_end_type)
    if pa.types.is_dictionary(t):  # entries fall, where values have an order: nothing but the file says so
        indices = pa.array([1, 0, None], t.index_type)
        return pa.DictionaryArray.from_arrays(indices, _array(t.value_type)[:2], ordered=t.ordered)
    return pa.array([*_two(t), None], t)


def _two(t: pa.DataType) -> list[Any]:
    """Two different values, where there are."""
    if pa.types.is_struct(t):
        return [{field.name: _two(field.type)[at] for field in t} for at in (0, 1)]
    if pa.types.is_map(t):
        pairs = list(zip(sorted(_two(t.key_type)), _two(t.item_type), strict=True))
        return [pairs, []]
    if t.num_fields:
        return [_two(t.value_type), _two(t.value_type)[::-1]]
    if pa.types.is_decimal(t):
        return [Decimal(-1234567).scaleb(-t.scale), Decimal(89).scaleb(-t.scale)]
    if pa.types.is_fixed_size_binary(t):
        return [b"\xff" * t.byte_width, bytes(t.byte_width)]
    if pa.types.is_dictionary(t):
        return _two(t.value_type)
    return _two_of(t)


def _two_of(t: pa.DataType) -> list[Any]:
    if pa.types.is_integer(t):
        signed = pa.types.is_signed_integer(t)
        return [2 ** (t.bit_width - signed) - 1, -(2 ** (t.bit_width - 1)) if signed else 0]
    if t == pa.month_day_nano_interval():
        return [pa.MonthDayNano([7, -8, 9]), pa.MonthDayNano([0, 1, -2])]
    if pa.types.is_timestamp(t):
        moment = datetime(2024, 2, 29, 1, 2, 3)  # noqa: DTZ001 (the type has the zone)
        return [moment, moment - timedelta(days=30_000)]
    by_name: dict[str, list[Any]] = {
        "null": [None, None],
        "bool": [True, False],
        "float": [2.5, -0.0],
        "text": ["täxt", "a"],
        "bytes": [b"\xff\x00", b"\x00"],
        "date": [date(2024, 2, 29), date(1900, 3, 1)],
        "time": [time(23, 59, 58), time(0, 0, 1)],
        "duration": [timedelta(days=3, seconds=2), timedelta(seconds=-1)],
    }
    return by_name[_kind(t)]


def _kind(t: pa.DataType) -> str:
    recognized = {
        "null": pa.types.is_null(t),
        "bool": pa.types.is_boolean(t),
        "float": pa.types.is_floating(t),
        "text": pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t),
        "bytes": pa.types.is_binary(t) or pa.types.is_large_binary(t) or pa.types.is_binary_view(t),
        "date": pa.types.is_date(t),
        "time": pa.types.is_time(t),
        "duration": pa.types.is_duration(t),
    }
    return next(kind for kind, yes in recognized.items() if yes)


def write_types(root: Path) -> None:
    """Every type in settings and without, in version files and in segments, bundled and not."""
    catalog = Catalog(str(root), **OPTIONS)
    declared = catalog.create_table("declared", SCHEMA)
    declared.append(rows())
    Catalog(str(root), **OPTIONS, inline_bytes=0).table("declared").append(rows())
    declared.checkpoint()
    declared.append(rows())
    catalog.commit("given", rows())
    catalog.table("given").overwrite(rows().slice(0, 1))
    _orders(catalog)
    _defined(catalog)
    _of_several_schemas(catalog)


def _orders(catalog: Catalog) -> None:
    """Writers who know some of the entries each; and two who contradict each other."""
    for name, orders in (("merged", ["ac", "abc", "cd"]), ("contradicting", ["ab", "ba"])):
        for entries in orders:
            each = pa.DictionaryArray.from_arrays(
                pa.array([0, 1], pa.int8()), pa.array(list(entries)), ordered=True
            )
            catalog.commit(name, pa.table({"size": each}))


def _defined(catalog: Catalog) -> None:
    """Types that definitions in versions say, rather than settings or rows."""
    table = catalog.create_table("defined", pa.schema([("id", pa.int64())]))
    for at, t in enumerate(
        (LEAVES[-1], NESTED[-3], WORD, pa.run_end_encoded(pa.int16(), pa.int8()), ORDERED[0])
    ):
        table.add_column(f"c{at}", t)
    table.append([{"id": 1}])


def _of_several_schemas(catalog: Catalog) -> None:
    """A version whose chunks have different columns: other cells of other rows, and a row."""
    table = catalog.create_table("several", pa.schema([("a", pa.int64()), ("b", WORD), ("c", pa.date64())]))
    before = [{"a": n, "b": f"w{n}", "c": date(2024, 1, 1 + n)} for n in range(6)]
    table.append(before)
    table.write([before[0] | {"b": "other"}, before[1] | {"c": None}, *before[2:], before[0] | {"a": 9}])
