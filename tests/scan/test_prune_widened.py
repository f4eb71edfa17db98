"""Bounds of chunks that were written in another type than the column has today: no row is lost by them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from itertools import permutations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat.chunks.widen import widen
from tests.catalog.lakes import another, lake

SECONDS = pa.array([-86_400, 0, 86_400, 1_577_836_800], pa.int64()).cast(pa.timestamp("s"))
VALUES: dict[pa.DataType, pa.Array] = {
    **{
        kind: pa.array([0, 1, 7, 100], kind)
        for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64())
    },
    **{kind: pa.array([-1.5, 0.0, 2.0, 7.0], kind) for kind in (pa.float32(), pa.float64())},
    **{
        kind: SECONDS.cast(kind)
        for kind in (pa.date32(), pa.date64(), *(pa.timestamp(unit) for unit in ("s", "ms", "us")))
    },
    **{
        kind: pa.array([0, 3600, 86_399, 5], pa.int32()).cast(pa.time32("s")).cast(kind)
        for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
    },
    **{
        kind: pa.array([-5, 0, 1, 3600], pa.int64()).cast(pa.duration("s")).cast(kind)
        for kind in (pa.duration("s"), pa.duration("ms"), pa.duration("us"))
    },
    **{
        kind: pa.array([Decimal("-1.5"), Decimal("0.1"), Decimal("7.0"), Decimal("9.9")], kind)
        for kind in (pa.decimal128(5, 1), pa.decimal128(12, 4), pa.decimal256(40, 6))
    },
    **{kind: pa.array(["", "a", "ab", "é"], kind) for kind in (pa.string(), pa.large_string())},
    **{kind: pa.array([b"ab", b"zz", b"\0\0", b"\xff\xff"], kind) for kind in (pa.binary(2), pa.binary())},
}
PAIRS = [(a, b) for a, b in permutations(VALUES, 2) if widen(a, b) == b]
ENCODINGS: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "plain": lambda kind: kind,
    "dictionary": lambda kind: pa.dictionary(pa.int32(), kind),
    "runs": lambda kind: pa.run_end_encoded(pa.int32(), kind),
}


def encoded(values: pa.Array, encoding: str) -> pa.Array:
    if encoding == "dictionary":
        return values.dictionary_encode()
    return pc.run_end_encode(values, pa.int32()) if encoding == "runs" else values


def test_there_are_such_pairs() -> None:
    assert (pa.timestamp("s"), pa.timestamp("us")) in PAIRS
    assert (pa.date32(), pa.timestamp("ms")) in PAIRS
    assert (pa.duration("s"), pa.duration("ms")) in PAIRS
    assert len(PAIRS) > 30


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("plain", "plain"),
        ("dictionary", "dictionary"),
        ("dictionary", "plain"),
        ("plain", "dictionary"),
        ("runs", "runs"),
        ("runs", "plain"),
    ],
)
def test_filters_find_what_they_find_unpruned(before: str, after: str) -> None:
    """The first rows were written before the column was widened, the last after; a column for each pair."""
    table = lake(chunk_rows=1).create_table(
        "t", pa.schema([(f"v{at}", ENCODINGS[before](narrow)) for at, (narrow, _) in enumerate(PAIRS)])
    )
    table.append(pa.table({f"v{at}": encoded(VALUES[pair[0]], before) for at, pair in enumerate(PAIRS)}))
    for at, (_, wide) in enumerate(PAIRS):
        table.widen_column(f"v{at}", ENCODINGS[after](wide))
    table.append(pa.table({f"v{at}": encoded(VALUES[pair[1]], after) for at, pair in enumerate(PAIRS)}))
    for at, (narrow, wide) in enumerate(PAIRS):
        held, name = pa.concat_arrays([pc.cast(VALUES[narrow], wide), VALUES[wide]]), f"v{at}"
        value = held[3]
        for sign, kept in (("=", pc.equal(held, value)), ("<", pc.less(held, value))):
            scan = table.scan([name], [(name, sign, value)])
            found = _plain(scan.to_table()[name], wide)
            assert found == [str(item) for item in held.filter(kept)], (str(narrow), str(wide), sign)
            assert scan.count() == len(found)


def _plain(column: pa.ChunkedArray, kind: pa.DataType) -> list[str]:
    """What a column holds, without its encoding, as text."""
    found: list[str] = []
    for chunk in column.chunks:
        values = pc.run_end_decode(chunk) if pa.types.is_run_end_encoded(chunk.type) else chunk
        found += map(str, values.cast(kind))
    return found


def test_blind_writers_of_two_units_are_both_found() -> None:
    """Nobody widened anything: two who know nothing of each other brought dictionaries of two units."""
    catalog = lake()
    catalog.create_table("t")
    for unit, writer in (("s", catalog), ("us", another(catalog))):
        writer.table("t").append(pa.table({"v": SECONDS.cast(pa.timestamp(unit)).dictionary_encode()}))
    found = another(catalog).table("t")
    assert found.schema.field("v").type == pa.dictionary(pa.int32(), pa.timestamp("us"))
    assert found.scan(filter="v = '2020-01-01'").count() == 2
    assert found.scan(filter="v < '1970-01-02'").count() == 4


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_runs_are_filtered_in_the_units_they_hold(kind: pa.DataType) -> None:
    """Seconds are stored as milliseconds, and pruned by bounds that count seconds."""
    values = VALUES[kind]
    table = lake(chunk_rows=1).create_table("t", pa.schema([("v", pa.run_end_encoded(pa.int32(), kind))]))
    table.append(pa.table({"v": pc.run_end_encode(values, pa.int32())}))
    for value in values:
        for sign, kept in (("=", pc.equal(values, value)), (">=", pc.greater_equal(values, value))):
            scan = table.scan(filter=[("v", sign, value)])
            assert _plain(scan.to_table()["v"], kind) == [str(item) for item in values.filter(kept)]
            assert scan.count() == pc.sum(kept).as_py()
