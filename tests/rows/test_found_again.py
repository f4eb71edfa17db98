"""How much of a table `write` finds again: what is stored, beside what theory says it takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crdtcat import Catalog

ROWS = 100_000


def stored(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def values(seed: int, rows: int = ROWS) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.random.default_rng(seed).random(rows)


@pytest.mark.parametrize("scattered", [False, True])
def test_five_percent_of_random_rows_store_five_percent(tmp_path: Path, scattered: bool) -> None:
    table = Catalog(str(tmp_path), upkeep=False).create_table("t")
    column = values(0)
    table.append(pa.table({"id": np.arange(ROWS), "value": column}))
    first = stored(tmp_path)
    chosen = np.random.default_rng(1).choice(ROWS, ROWS // 20, replace=False)
    column[chosen if scattered else slice(40_000, 45_000)] = values(2, ROWS // 20)
    rows = pa.table({"id": np.arange(ROWS), "value": column})
    table.write(rows)
    assert table.read().equals(rows)
    # 52 random bits for each value, and log2(e / share) to say which rows were scattered.
    floor = ROWS // 20 * (52 / 8 + (np.log2(np.e / 0.05) / 8 if scattered else 0)) / first
    found_again = 1 - (stored(tmp_path) - first) / first
    assert 1 - 1.25 * floor < found_again < 1 - 0.9 * floor
    assert found_again > 0.85


def test_inserted_rows_store_what_a_file_of_them_would(tmp_path: Path) -> None:
    table = Catalog(str(tmp_path / "lake"), upkeep=False).create_table("t")
    names = np.array([f"item {at}" for at in range(5_000)])

    def made(first: int, count: int) -> pa.Table:
        chance = np.random.default_rng(first)
        number, text = chance.integers(0, 10**6, count), names[chance.integers(0, len(names), count)]
        return pa.table(
            {"id": np.arange(first, first + count), "n": number, "v": values(first, count), "t": text}
        )

    old, came = made(0, ROWS), [made(10**6, ROWS * 3 // 200), made(2 * 10**6, ROWS * 3 // 200)]
    table.append(old)
    before = stored(tmp_path)
    new = pa.concat_tables(
        [old.slice(0, 30_000), came[0], old.slice(30_000, 20_000), came[1], old.slice(50_000)]
    )
    table.write(new)
    grown = stored(tmp_path) - before
    pq.write_table(pa.concat_tables(came), tmp_path / "own.parquet", compression="zstd")
    assert grown <= 1.2 * (tmp_path / "own.parquet").stat().st_size
    before = stored(tmp_path)
    table.write(pa.concat_tables([new.slice(0, 60_000), new.slice(64_000)]))
    assert stored(tmp_path) - before < 1_000  # rows that are gone are named, and nothing is stored for them
