"""Runs and dictionaries of values that pyarrow does not gather: views, runs, extensions, however deep."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import UnsupportedType

_numbers = itertools.count()
ROWS = 40
TEXTS = [None if n % 5 == 0 else f"a text too long to lie within a view, {n % 7}" for n in range(ROWS)]
VIEW = pa.array(TEXTS, pa.string_view())
IDS = pa.array(
    [None if text is None else uuid.UUID(int=n % 7).bytes for n, text in enumerate(TEXTS)], pa.uuid()
)
STRUCT = pa.StructArray.from_arrays([VIEW, pa.array(range(ROWS))], ["v", "n"])
LISTS = pa.ListArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), VIEW)
SIZED = pa.FixedSizeListArray.from_arrays(VIEW, 1)
MAPS = pa.MapArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), pa.array(range(ROWS)), VIEW)


def runs(values: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(range(1, ROWS + 1), pa.int32()), values)


def entries(values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([n * 3 % ROWS for n in range(ROWS)], pa.int8()), values)


KINDS = {
    "view": VIEW,
    "id": IDS,
    "struct": STRUCT,
    "list": LISTS,
    "sized": SIZED,
    "map": MAPS,
    "runs": runs(VIEW),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoded", [runs, entries])
@pytest.mark.parametrize(
    "options",
    [{}, {"inline_bytes": 0, "chunk_rows_min": 2, "chunk_rows_target": 4, "chunk_rows_max": 8}],
    ids=len,
)
def test_they_come_back(encoded: Any, kind: str, options: dict[str, Any]) -> None:
    if (encoded, kind) == (entries, "runs"):
        pytest.skip("pyarrow makes no dictionary of runs")
    column = encoded(KINDS[kind])
    rows = pa.table({"n": range(ROWS), "c": column})
    table = Catalog(f"memory://gathered-{next(_numbers)}", upkeep=False, **options).create_table(
        "t", rows.schema
    )
    table.append(rows)
    assert table.schema.field("c").type == column.type
    assert table.read().to_pylist() == rows.to_pylist()
    table.delete("n = 7")
    table.compact()
    assert table.read().to_pylist() == [row for row in rows.to_pylist() if row["n"] != 7]


def test_what_pandas_cannot_hold_is_told() -> None:
    table = Catalog("memory://gathered-frames", upkeep=False).create_table("t")
    table.append(pa.table({"ids": entries(IDS)}))
    assert len(table.scan().to_pandas()["ids"].cat.categories) == 7
    table.append(pa.table({"c": entries(STRUCT)}), evolve=True)
    with pytest.raises(UnsupportedType, match="pandas cannot hold"):
        table.scan().to_pandas()
