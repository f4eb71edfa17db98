"""Staging: chunks follow the content, threads make no difference, nothing stored is stored again."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.segment import encode_segment
from crdtcat.chunks.statistics import statistics
from crdtcat.errors import StoreUnavailable
from crdtcat.store.memory import MemoryStore
from crdtcat.writing import stage
from crdtcat.writing.prepared import Piece, prepare
from crdtcat.writing.slabs import evenly
from tests.catalog.lakes import another, lake, objects

SIZES = {"chunk_rows_min": 64, "chunk_rows_target": 256, "chunk_rows_max": 512}


def numbers(start: int, stop: int, seed: int = 0) -> pa.Table:
    count = stop - start
    noise = np.random.default_rng((seed, start)).random(count)
    return pa.table({"id": np.arange(start, stop), "x": noise, "s": [f"row {n}" for n in range(start, stop)]})


def segments(catalog: Catalog) -> set[str]:
    return {name for name in objects(catalog) if name.startswith("data/")}


def hashes(table: Table) -> list[str]:
    return [chunk.hash for chunk in table.head().chunks]


def test_chunks_follow_the_content() -> None:
    rows = numbers(0, 20_000)
    catalog = lake(inline_bytes=0, **SIZES)
    plain, shifted = catalog.create_table("plain"), catalog.create_table("shifted")
    plain.append(rows)
    shifted.append(pa.concat_tables([numbers(90_000, 90_001), rows]))
    shared = set(hashes(plain)) & set(hashes(shifted))
    assert len(hashes(plain)) > 40
    assert len(shared) >= len(hashes(plain)) - 4
    assert shifted.read() == pa.concat_tables([numbers(90_000, 90_001), rows])


def test_a_stream_cuts_as_one_append_does() -> None:
    rows = numbers(0, 30_000)
    catalog = lake(inline_bytes=0, segment_bytes=2**20, **SIZES)
    whole, pieces = catalog.create_table("whole"), catalog.create_table("pieces")
    whole.append(rows)
    with pieces.stream() as stream:
        for start in range(0, 30_000, 777):
            stream.write(rows.slice(start, 777))
    assert hashes(whole) == hashes(pieces)
    assert pieces.read() == whole.read() == rows


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_many_segments_by_many_threads_are_one_version_in_order(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "_cores", lambda: threads)
    rows = numbers(0, 200_000)
    catalog = lake(inline_bytes=0, segment_bytes=2**20, chunk_rows=10_000)
    version = catalog.create_table("t").append(rows)
    assert version.rows == 200_000
    assert rows.nbytes // 2**20 <= len(segments(catalog)) <= rows.nbytes // 2**20 + 2
    assert another(catalog).read("t") == rows
    expected = [hash_table(rows.slice(at, 10_000))[0].hex() for at in range(0, 200_000, 10_000)]
    assert hashes(catalog.table("t")) == expected


def test_an_overwrite_stores_only_what_is_new() -> None:
    catalog = lake(inline_bytes=0, **SIZES)
    table = catalog.create_table("t")
    table.append(numbers(0, 20_000))
    before = objects(catalog)
    old = numbers(0, 20_000)
    rows = pa.concat_tables([old.slice(0, 8_000), numbers(50_000, 50_100), old.slice(8_000)])
    table.overwrite(rows)
    new = {name: size for name, size in objects(catalog).items() if name not in before and "data/" in name}
    assert len(new) == 1
    assert sum(new.values()) < 4 * old.slice(0, 512).nbytes  # two or three chunks around the insertion
    assert another(catalog).read("t") == rows


def test_an_overwrite_with_the_same_rows_stores_no_rows() -> None:
    catalog = lake(inline_bytes=0, **SIZES)
    table = catalog.create_table("t")
    table.append(numbers(0, 20_000))
    before, kept = segments(catalog), hashes(table)
    put = catalog.store.requests.put
    table.overwrite(numbers(0, 20_000))
    assert catalog.store.requests.put == put + 1
    assert segments(catalog) == before
    assert hashes(table) == kept
    assert another(catalog).read("t") == numbers(0, 20_000)


def test_small_rows_that_lie_in_a_segment_are_not_inlined_again() -> None:
    catalog = lake(chunk_rows=10)
    table = catalog.create_table("t")
    large = another(catalog, inline_bytes=0).table("t")
    large.append(numbers(0, 20))
    table.overwrite(pa.concat_tables([numbers(0, 20).slice(0, 10), numbers(40, 45)]))
    assert len(segments(catalog)) == 1
    assert another(catalog).read("t") == pa.concat_tables([numbers(0, 20).slice(0, 10), numbers(40, 45)])


def test_inlined_rows_have_no_place_to_refer_to() -> None:
    catalog = lake()
    table = catalog.create_table("t")
    table.append(numbers(0, 5))
    table.overwrite(numbers(0, 5))
    assert not segments(catalog)
    assert another(catalog).read("t") == numbers(0, 5)


def test_a_chunk_that_comes_twice_is_stored_once() -> None:
    catalog = lake(inline_bytes=0, chunk_rows=1000)
    table = catalog.create_table("t")
    once = numbers(0, 1000)
    table.append(pa.concat_tables([once] * 20))
    assert len(set(hashes(table))) == 1
    assert another(catalog).read("t") == pa.concat_tables([once] * 20)
    stored = sum(objects(catalog)[name] for name in segments(catalog))
    assert stored < 2 * once.nbytes


def test_inlined_chunks_that_come_twice() -> None:
    catalog = lake(chunk_rows=10)
    table = catalog.create_table("t")
    table.append(pa.concat_tables([numbers(0, 10)] * 3))
    assert another(catalog).read("t") == pa.concat_tables([numbers(0, 10)] * 3)


def test_a_blind_append_knows_no_head_and_stores_its_rows_again() -> None:
    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t")
    table.append(numbers(0, 1000))
    table.append(numbers(0, 1000))
    assert len(segments(catalog)) == 2


class Refusing(MemoryStore):
    """Lets some segments through, then none."""

    def __init__(self, url: str, allowed: int) -> None:
        super().__init__(url)
        self.allowed, self.lock = allowed, threading.Lock()

    def put(self, name: str, data: Any) -> None:
        with self.lock:
            if name.startswith("data/"):
                self.allowed -= 1
                if self.allowed < 0:
                    raise StoreUnavailable("no more")
        super().put(name, data)


@pytest.mark.parametrize("allowed", [0, 1, 3])
def test_a_segment_that_cannot_be_stored_fails_the_commit(allowed: int) -> None:
    store = Refusing(f"memory://lake-{secrets.token_hex(8)}", allowed)
    catalog = Catalog(store, upkeep=False, inline_bytes=0, segment_bytes=2**20, chunk_rows=10_000)
    table = catalog.create_table("t")
    with pytest.raises(StoreUnavailable, match="no more"):
        table.append(numbers(0, 200_000))
    assert len(another(catalog).table("t").history()) == 0


def test_no_thread_goes_on_after_an_error_or_an_abort() -> None:
    catalog = lake(inline_bytes=0, segment_bytes=2**20, chunk_rows=10_000)
    table = catalog.create_table("t")

    def broken() -> Iterator[pa.Table]:
        yield numbers(0, 200_000)
        raise RuntimeError("the source broke off")

    with pytest.raises(RuntimeError, match="broke off"):
        table.append(broken())
    assert not staging_threads()
    stream = table.stream()
    stream.write(numbers(0, 200_000))
    stream.abort()
    assert not staging_threads()
    stored = segments(catalog)
    table.append(numbers(0, 200_000))
    assert not staging_threads()
    assert len(table.history()) == 1
    assert stored < segments(catalog)


def staging_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("crdtcat-stage")]


TEXTS = st.text(max_size=80) | st.text("ab\uffff", min_size=60, max_size=70)


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=8), st.lists(st.none() | st.binary(max_size=80)))
def test_bounds_of_texts_are_those_that_parquet_found(
    texts: list[str | None], data: list[bytes | None]
) -> None:
    rows = pa.table(
        {
            "text": pa.array(texts, pa.string()),
            "coded": pa.array(texts, pa.string()).dictionary_encode(),
            "data": pa.array((data * len(texts) or [None] * len(texts))[: len(texts)], pa.binary()),
        }
    )
    chunk = prepare(Piece(None, rows))
    segment = encode_segment([chunk.table])
    assert chunk.settled(segment.bounds[0]).statistics == chunk.settled({}).statistics
    direct = [statistics(column) for column in rows.columns]
    assert [found for _, _, found in chunk.settled({}).statistics] == direct
    valued = [name for name in rows.column_names if rows[name].null_count < rows.num_rows]
    assert set(segment.bounds[0]) == set(valued)


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 50))
def test_runs_are_about_as_large_as_wanted_and_none_is_left_over(sizes: list[int], target: int) -> None:
    runs = [*evenly(range(len(sizes)), sizes, target)]
    assert [item for run in runs for item in run] == [*range(len(sizes))]
    total = sum(sizes)
    assert len(runs) <= max(1, round(total / target))
    share = total / max(1, round(total / target))
    assert all(sum(sizes[item] for item in run) <= share + max(sizes) for run in runs)


ODD_COLUMNS = {
    "plain": pa.array([1, 2, 3]),
    "null": pa.array([1, None, 3]),
    "entry": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None])),
    "runs": pa.RunEndEncodedArray.from_arrays([1, 3], pa.array([None, 2])),
    "interval": pa.array([pa.MonthDayNano([1, 2, 3]), None, None]),
    "uuid": pa.array([b"0" * 16, b"1" * 16, b"2" * 16], pa.uuid()),
    "list": pa.array([[1, None], [], [2]]),
    "text": pa.array(["", "b", "b"]),
    "nothing": pa.nulls(3),
}


@pytest.mark.parametrize("verb", ["append", "overwrite"])
@pytest.mark.parametrize("as_batch", [False, True])
def test_what_is_not_null_in_memory_is_stored_without_levels(verb: str, *, as_batch: bool) -> None:
    """And nothing else is: entries of dictionaries may be null where no row counts as null."""
    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t")
    rows = pa.table(ODD_COLUMNS)
    getattr(table, verb)(rows.to_batches()[0] if as_batch else rows)
    (name,) = segments(catalog)
    schema = pq.ParquetFile(pa.BufferReader(catalog.store.get(name))).schema_arrow
    assert [field.name for field in schema if not field.nullable] == ["plain", "text"]
    table.append(pa.table({**ODD_COLUMNS, "plain": pa.array([None, 1, None]), "text": pa.nulls(3)}))
    found = another(catalog).table("t")
    for column, values in ODD_COLUMNS.items():
        if column not in ("plain", "text"):
            assert found.read()[column].to_pylist() == 2 * values.to_pylist()
    assert found.read()["plain"].to_pylist() == [1, 2, 3, None, 1, None]
    assert found.verify("content").ok
    found.compact()
    assert found.read()["text"].to_pylist() == ["", "b", "b", None, None, None]


def test_columns_that_may_not_be_null_are_stored_without_levels() -> None:
    catalog = lake(inline_bytes=0)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("x", pa.int64())])
    table = catalog.create_table("t", schema)
    with table.stream() as stream:
        for start in range(3):
            stream.write([{"id": start, "x": None}, {"id": start + 1, "x": 1}])
    (name,) = segments(catalog)
    stored = pq.ParquetFile(pa.BufferReader(catalog.store.get(name))).schema_arrow
    assert [field.nullable for field in stored] == [False, True]
    assert another(catalog).read("t")["id"].to_pylist() == [0, 1, 1, 2, 2, 3]


def test_a_dictionary_with_a_null_entry_goes_into_a_text_column() -> None:
    catalog = lake(inline_bytes=0)
    table = catalog.create_table("t", pa.schema([("entry", pa.string())]))
    table.append(pa.table({"entry": ODD_COLUMNS["entry"]}))
    assert another(catalog).read("t")["entry"].to_pylist() == ["a", None, "a"]
