"""Compaction holds a group of chunks and what waits for a commit, not the table."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Table
from crdtcat.chunks import cutting
from crdtcat.maintenance import Progress, compact, compact_keyed, compact_plan
from crdtcat.maintenance.compact_plan import crowds
from crdtcat.maintenance.rewrite import Rewriter
from tests.catalog.lakes import another, lake
from tests.memory import arrow_bytes
from tests.rows.late import held_back

MIB = 2**20


@pytest.fixture(autouse=True)
def small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    module = __import__("crdtcat.maintenance.rewrite", fromlist=["COMMIT_BYTES"])
    monkeypatch.setattr(module, "COMMIT_BYTES", MIB)


def stored(mebibytes: int) -> Table:
    """Chunks of half a MiB, each with a deleted row."""
    table = lake(inline_bytes=0, chunk_rows=32 * 1024).create_table("t")
    for number in range(2 * mebibytes):
        random = np.random.default_rng(number)
        rows = MIB // 2 // 16
        table.append(pa.table({"a": random.integers(0, 2**60, rows), "b": random.random(rows)}))
    table.delete("b < 0.001")
    return table


def peak(table: Table, **options: Any) -> int:
    gc.collect()
    start, most = arrow_bytes(), 0

    def look(_: Progress) -> None:
        nonlocal most
        most = max(most, arrow_bytes() - start)

    result = compact(table._session, progress=look, **options)
    assert result.versions > 1
    assert result.rows_left_out > 0
    return most


def test_clustering_does_not_hold_the_table() -> None:
    """Random numbers: every chunk overlaps every other, so everything is spread and then sorted.

    Not counted is what the places of shuffled rows take in the log, a few bytes for each, which every handle
    holds; while one clusters it has two, the log as it was and as it is.
    """
    small, large = stored(6), stored(16)
    least, most = peak(small, cluster_by=["a"]), peak(large, cluster_by=["a"])
    for table in (small, large):
        numbers = table.read(["a"])["a"].to_numpy()
        assert (numbers[1:] >= numbers[:-1]).all()
    logs = [table.head().log.ops.nbytes for table in (small, large)]
    assert logs[1] < 6 * large.scan().count()
    assert most - 2 * logs[1] < 6 * MIB
    assert most - 2 * logs[1] < least - 2 * logs[0] + 3 * MIB


def test_peak_memory_does_not_depend_on_the_table() -> None:
    small, large = peak(stored(6)), peak(stored(30))
    assert large < 10 * MIB
    assert large < small + 3 * MIB


def raced(chunks: int) -> Table:
    """Chunks of 64 KiB, which two compacted at once, thirteen and fourteen together: every copy shares rows
    with the next, so that all of them have to be replaced together."""
    catalog = lake(inline_bytes=0, chunk_rows=4096)
    table = catalog.create_table("t")
    for number in range(chunks):
        random = np.random.default_rng(number)
        table.append(pa.table({"a": random.integers(0, 2**60, 4096), "b": random.random(4096)}))
    other = another(catalog, inline_bytes=0).table("t")
    arrives = held_back(other, lambda: other.compact(rows=13 * 4096))
    table.compact(rows=14 * 4096)
    arrives()
    return table


def gathered_most(monkeypatch: pytest.MonkeyPatch, table: Table) -> int:
    """What Arrow holds at most once the rows of some entries are gathered."""
    real, start, most = Rewriter.gather, arrow_bytes(), 0

    def gather(self: Rewriter, *asked: Any) -> Any:
        nonlocal most
        found = real(self, *asked)
        most = max(most, arrow_bytes() - start)
        return found

    gc.collect()
    with monkeypatch.context() as patched:
        patched.setattr(Rewriter, "gather", gather)
        result = table.compact(rows=14 * 4096)
    assert result.rows_left_out == 0, "copies of a row are one row"
    return most


def test_what_compactions_at_once_left_is_taken_in_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = raced(40), raced(168)
    (crowd,) = crowds(large.head())
    assert len(crowd) == 12 + 13
    before = large.read()
    least, most = (gathered_most(monkeypatch, table) for table in (small, large))
    assert most < 6 * MIB
    assert most < least + MIB
    assert large.read().equals(before)
    assert not crowds(large.head())
    assert large.verify("content").ok


@pytest.mark.parametrize("step", [1, 37])
@pytest.mark.parametrize("key", [[], ["n"]])
def test_wide_rows_make_chunks_of_fewer(monkeypatch: pytest.MonkeyPatch, key: list[str], step: int) -> None:
    """As where a writer cuts them: a chunk, and what is read to write it, is bounded in bytes.

    With steps, keys of chunks overlap.
    """
    for module in (compact_plan, compact_keyed):
        monkeypatch.setattr(module, "CHUNK_BYTES_TARGET", MIB)
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("text", pa.string())])
    table = lake(inline_bytes=0).create_table("t", schema, key=key)
    for number in range(0, 120, 2):
        rows = [{"n": (number + at) * step % 121, "text": f"{number:04} " * 2**15} for at in range(2)]
        table.append(rows)
    before = table.read()
    result = table.compact()
    assert result.chunks_after < 25
    nbytes = table.head().log.nbytes[table.head().live]
    assert nbytes.min() >= MIB // 4
    assert nbytes.max() <= 1.2 * MIB
    assert table.read().equals(before)
    assert table.compact().versions == 0


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compact_plan, cutting):
        monkeypatch.setattr(module, "CHUNK_BYTES_TARGET", MIB)


def bytes_of(rows: int, nbytes: int) -> pa.Array:
    random = np.random.default_rng(rows)
    return pa.array([random.bytes(nbytes) for _ in range(rows)])


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("by", [None, ["n"]])
def test_rows_that_updates_made_wide_go_into_chunks_of_fewer(
    by: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies over chunks counts: all of it is read to write them anew."""
    schema = pa.schema([("n", pa.int64()), ("data", pa.binary())])
    table = lake(inline_bytes=0, chunk_rows=400).create_table("t", schema)
    numbers = np.random.default_rng(0).permutation(800)
    table.append(pa.table({"n": numbers, "data": pa.nulls(800, pa.binary())}))
    table.update_rows(0, 800, pa.table({"data": bytes_of(800, 10_000)}))
    rows = {row["n"]: row["data"] for row in table.read().to_pylist()}
    real, most = Rewriter.gather, 0

    def gather(self: Rewriter, *asked: Any) -> Any:
        nonlocal most
        found = real(self, *asked)
        most = max(most, found.rows.nbytes)
        return found

    monkeypatch.setattr(Rewriter, "gather", gather)
    table.compact(cluster_by=by)
    assert most < 4.1 * MIB, "one of the two chunks"
    nbytes = table.head().log.nbytes[table.head().live]
    assert nbytes.max() <= 2 * MIB
    assert nbytes.min() >= MIB // 4
    found = table.read()
    assert {row["n"]: row["data"] for row in found.to_pylist()} == rows
    assert found["n"].to_pylist() == (numbers.tolist() if by is None else [*range(800)])
    assert table.compact().versions == 0


@pytest.mark.usefixtures("small_chunks")
def test_what_compactions_at_once_left_of_wide_rows_is_taken_in_piece_by_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few rows, and many bytes."""
    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t", pa.schema([("n", pa.int64()), ("data", pa.binary())]))
    for number in range(40):
        table.append(pa.table({"n": [number], "data": bytes_of(1, MIB // 6)}))
    other = another(catalog, inline_bytes=0).table("t")
    arrives = held_back(other, lambda: other.compact(rows=5))
    table.compact(rows=4)
    arrives()
    crowd = max(crowds(table.head()), key=len)
    assert table.head().log.nbytes[crowd].sum() > 6 * MIB, "each row twice"
    before = table.read()
    real, most = Rewriter.gather, 0

    def gather(self: Rewriter, *asked: Any) -> Any:
        nonlocal most
        found = real(self, *asked)
        most = max(most, found.rows.nbytes)
        return found

    monkeypatch.setattr(Rewriter, "gather", gather)
    table.compact()
    assert most < 2.2 * MIB
    assert table.read().equals(before)
    assert not crowds(table.head())
