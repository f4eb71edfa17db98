"""The rows everybody writes: made from a number, the same in every process, so that only numbers travel.

Ids say which commit a row belongs to (`id // rows per commit`). So a reader can tell which commits it found,
how much of each, and whether a row came twice, whatever happened to the writers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

KINDS = np.array(["red", "green", "blue", "grey"])
EPOCH_US = 1_700_000_000_000_000


def batch(number: int, rows: int) -> pa.Table:
    """Commit number `number`: 4 columns, ids `number * rows` and up."""
    chance = np.random.default_rng(number)
    return pa.table(
        {
            "id": np.arange(number * rows, (number + 1) * rows),
            "value": chance.random(rows),
            "kind": KINDS[chance.integers(0, 4, rows)],
            "at": pa.array(EPOCH_US + chance.integers(0, 10**9, rows), pa.timestamp("us", "UTC")),
        }
    )


def wide(rows: int, number: int) -> pa.Table:
    """Six columns of the usual kinds: ids, floats, integers, few strings, moments, many strings."""
    chance = np.random.default_rng(number)
    texts = pa.array([f"item {at}" for at in range(50_000)])
    return pa.table(
        {
            "id": np.arange(rows) + number * rows,
            "a": chance.random(rows),
            "b": chance.integers(0, 1_000_000, rows),
            "kind": pa.array(KINDS).take(pa.array(chance.integers(0, 4, rows))),
            "at": pa.array(EPOCH_US + (np.arange(rows) + number * rows) * 1000, pa.timestamp("us", "UTC")),
            "text": texts.take(pa.array(chance.integers(0, 50_000, rows))),
        }
    )


def found(ids: pa.ChunkedArray, rows: int, commits: int) -> dict[str, list[int] | int]:
    """How many rows of each commit are there, and how many rows are there more than once."""
    array = ids.to_numpy()
    array = array[(array >= 0) & (array < rows * commits)]
    per_id = np.bincount(array, minlength=rows * commits).reshape(commits, rows)
    return {
        "present": (per_id > 0).sum(axis=1).tolist(),
        "repeated": int(np.maximum(per_id - 1, 0).sum()),
        "rows": len(ids),
    }
