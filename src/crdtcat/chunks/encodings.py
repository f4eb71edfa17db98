"""Which Parquet encoding and codec each leaf column of a segment gets.

Chosen by what was measured (2,000,000 rows in row groups of 64k; size and speed against plain zstd):

- integers, dates, times, timestamps: delta-packed, which is smaller than plain zstd and decodes about four
  times as fast. zstd on top of that where a packed sample says that it is worth it: moments in whole seconds
  and repeated values shrink by a third, steps of few sizes by a fifth; in sequences, noise and random walks
  it finds nothing, and costs a quarter of the speed, so these get snappy.
- floats, decimals, fixed-width binary: byte-stream-split or plain, whichever a compressed sample says is
  smaller: full-precision floats want the split (6 % smaller), rounded ones plain (40 % smaller). What zstd
  hardly shrinks gets snappy.
- anything with few distinct values in a sample: a dictionary, which is smaller and faster there. Elsewhere
  it costs between a fifth and three quarters of the speed of writing.
- the rest: plain. zstd at level 1 throughout: level 3 was slower and no smaller.

A sample is a few runs of rows, so the choice costs at most about half a millisecond per column, whatever the
size. It may depend on the content but never changes it. No I/O here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crdtcat.chunks.hashing import value_type

SAMPLE_RUNS = 4
SAMPLE_RUN_ROWS = 1024
ZSTD_LEVEL = 1
_DISTINCT_MAX_TEXT = 0.75
"""Text gains from a dictionary up to this share of distinct values in the sample."""
_DISTINCT_MAX_FIXED = 0.125
"""Fixed widths gain only from much fewer: their other encodings are good."""
_WORTH_COMPRESSING = 0.85
"""Numbers that zstd makes no smaller than this go through snappy, which passes over noise quickly."""
_VALUES_OF_PACKED_BYTE = 4
"""Where a byte has more values than that, as in sequences, there is hardly anything left to compress."""


def writer_options(table: pa.Table) -> dict[str, Any]:
    """Options of `pyarrow.parquet.ParquetWriter` for tables like this one.

    Leaves that share one dotted path (a column "a.b" beside a struct "a" with a field "b") cannot be told
    apart in these options, and get the plain encoding, which every type has.
    """
    choices: dict[str, tuple[str, str]] = {}
    for column, name in zip(table.columns, table.column_names, strict=True):
        for path, leaf in _leaves(name, _sample(column)):
            choices[path] = ("PLAIN", "zstd") if path in choices else _choose(leaf)
    return {
        "use_dictionary": [path for path, (encoding, _) in choices.items() if encoding == "DICTIONARY"],
        "column_encoding": {
            path: encoding for path, (encoding, _) in choices.items() if encoding != "DICTIONARY"
        },
        "compression": {path: codec for path, (_, codec) in choices.items()},
        "compression_level": {path: ZSTD_LEVEL for path, (_, codec) in choices.items() if codec == "zstd"},
    }


def _sample(column: pa.ChunkedArray) -> pa.Array:
    rows = len(column)
    if rows > SAMPLE_RUNS * SAMPLE_RUN_ROWS:
        step = (rows - SAMPLE_RUN_ROWS) // (SAMPLE_RUNS - 1)
        runs = [column.slice(i * step, SAMPLE_RUN_ROWS).chunks for i in range(SAMPLE_RUNS)]
        column = pa.chunked_array([chunk for run in runs for chunk in run], column.type)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _leaves(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Parquet's leaf columns below an array, with their dotted paths."""
    t = array.type
    if isinstance(t, pa.StructType):
        for i, field in enumerate(t):
            yield from _leaves(f"{path}.{field.name}", array.field(i))
    elif isinstance(t, pa.MapType):
        yield from _leaves(f"{path}.key_value.key", array.keys)
        yield from _leaves(f"{path}.key_value.value", array.items)
    elif t.num_fields:
        yield from _leaves(f"{path}.list.element", array.values)
    else:
        yield path, array.slice(0, SAMPLE_RUNS * SAMPLE_RUN_ROWS)


def _choose(leaf: pa.Array) -> tuple[str, str]:
    """Encoding and codec of one leaf column."""
    t = leaf.type
    if pa.types.is_null(t) or pa.types.is_boolean(t):
        return "PLAIN", "zstd"
    values = leaf.drop_null()
    text = value_type(t) in ("string", "binary")
    share = len(pc.unique(values)) / max(len(values), 1)
    if share <= (_DISTINCT_MAX_TEXT if text else _DISTINCT_MAX_FIXED):
        return "DICTIONARY", "zstd"
    if text:
        return "PLAIN", "zstd"
    if pa.types.is_integer(t) or pa.types.is_temporal(t):
        return "DELTA_BINARY_PACKED", _codec_of_packed(values)
    return _choose_for_bytes(values, t.bit_width // 8)


def _codec_of_packed(values: pa.Array) -> str:
    """What to compress packed deltas with, from those of a sample as Parquet packs them."""
    if len(values) < SAMPLE_RUN_ROWS:  # the file's own framework would decide
        return "snappy"
    file = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"": values}),
        file,
        use_dictionary=False,
        column_encoding="DELTA_BINARY_PACKED",
        compression="none",
        write_statistics=False,
        store_schema=False,
    )
    packed = file.getvalue()
    if packed.size < len(values) // _VALUES_OF_PACKED_BYTE:
        return "snappy"
    small = len(pa.Codec("zstd", compression_level=ZSTD_LEVEL).compress(packed, asbytes=True))
    return "zstd" if small <= _WORTH_COMPRESSING * packed.size else "snappy"


def _choose_for_bytes(values: pa.Array, width: int) -> tuple[str, str]:
    """Plain, or the first bytes of all values first, then the second bytes: whichever compresses better."""
    plain = values.buffers()[1].slice(values.offset * width, len(values) * width)
    split = np.frombuffer(plain, np.uint8).reshape(-1, width).T.tobytes()
    codec = pa.Codec("zstd", compression_level=ZSTD_LEVEL)
    as_plain, as_split = (len(codec.compress(data, asbytes=True)) for data in (plain, split))
    worth_it = min(as_plain, as_split) <= _WORTH_COMPRESSING * plain.size
    return ("PLAIN" if as_plain < as_split else "BYTE_STREAM_SPLIT"), ("zstd" if worth_it else "snappy")
