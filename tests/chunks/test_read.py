"""Reads: the right rows from exactly the right bytes, and `Corrupt` for anything else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat.chunks import decode, read
from crdtcat.chunks.footer import SegmentRef, decode_footer, footer_digest
from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.read import FooterCache, Verify, read_chunks, read_footer
from crdtcat.chunks.segment import Segment, encode_segment
from crdtcat.chunks.storage_types import storage_type
from crdtcat.errors import Corrupt, InvalidArgument, UnsupportedFormat
from crdtcat.store import Store, open_store
from crdtcat.testing.strategies import arrow_tables, arrow_types
from tests.bounds import bounded

NAME = "data/aa/segment.parquet"


@pytest.fixture
def store() -> Iterator[Store]:
    opened = open_store("memory://test-read")
    yield opened
    opened.delete([NAME])


def sample(rows: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "a": rng.integers(0, 2**40, rows),
            "b.c": pa.array(rng.normal(size=rows), mask=rng.random(rows) < 0.1),
            "b": [{"c": f"text {i}", "d": [i]} for i in range(rows)],
            "e": [f"{i:x}" for i in rng.integers(0, 2**40, rows)],
        }
    )


def put(store: Store, chunks: Sequence[pa.Table]) -> tuple[Segment, SegmentRef, list[tuple[int, bytes]]]:
    segment = encode_segment(chunks)
    store.put(NAME, segment.data)
    return segment, segment.ref(NAME), list(enumerate(segment.chunk_hashes))


@settings(max_examples=bounded(60, 2), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.data())
def test_any_columns_of_any_chunks_come_back(data: st.DataObject) -> None:
    store = open_store("memory://test-read-any")
    stored = arrow_types(depth=1).map(storage_type)
    first = data.draw(arrow_tables(stored, min_rows=1, max_rows=6, max_columns=3))
    chunks = [
        first,
        *data.draw(st.lists(arrow_tables(schema=first.schema, min_rows=1, max_rows=4), max_size=2)),
    ]
    _, ref, groups = put(store, chunks)
    names = data.draw(st.none() | st.lists(st.sampled_from(first.column_names), unique=True))
    wanted = data.draw(st.lists(st.sampled_from(groups)))
    verify: Any = data.draw(st.sampled_from((False, True, "bytes", "content")))
    wide, reach = data.draw(st.sampled_from(((decode.WIDE_ROWS, 0), (0, decode.NARROW_MAX), (0, 10))))
    with mock.patch.multiple(decode, WIDE_ROWS=wide, NARROW_MAX=reach):
        tables = read_chunks(store, ref, wanted, names, verify=verify, footers=FooterCache())
    for table, (number, _) in zip(tables, wanted, strict=True):
        expected = chunks[number] if names is None else chunks[number].select(names)
        assert table.column_names == expected.column_names
        assert table.schema.types == expected.schema.types
        assert table.num_rows == chunks[number].num_rows
        assert hash_table(table)[1] == hash_table(expected)[1]


def test_only_the_wanted_bytes_are_fetched(store: Store) -> None:
    segment, ref, groups = put(store, [sample(3000, seed) for seed in range(4)])
    footers = FooterCache()
    before = store.requests.snapshot()
    footer = read_footer(store, ref, footers)
    spent = store.requests.since(before)
    assert (spent.get, spent.bytes_in) == (1, segment.footer_length)

    def cost(wanted: list[tuple[int, bytes]], columns: list[str] | None) -> tuple[int, int]:
        before = store.requests.snapshot()
        read_chunks(store, ref, wanted, columns, footers=footers)
        spent = store.requests.since(before)
        assert spent.list == spent.head == spent.put == 0
        return spent.get, spent.bytes_in

    def length(number: int, column: int) -> int:
        return footer.places[number][column].stop - footer.places[number][column].start

    assert cost(groups[1:2], ["b.c"]) == (1, length(1, 1))
    assert cost(groups[1:3], ["e"]) == (2, length(1, 3) + length(2, 3))
    assert cost(groups[1:2], ["e", "b"]) == (1, length(1, 3) + length(1, 2)), "neighbours are one range"
    assert cost(groups[1:2], ["a", "e"]) == (2, length(1, 0) + length(1, 3)), "what lies between is left"
    assert cost(groups[1:3], None) == (1, sum(segment.encoded_bytes[1:3]))
    assert cost(groups, None) == (1, segment.size - segment.footer_length), "with the magic: no copy needed"
    assert cost(groups[:1], []) == (0, 0)
    assert cost([], None) == (0, 0)


def test_all_of_a_small_file_is_one_request(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    segment, ref, groups = put(store, [sample(10), sample(20)])

    def cost(wanted: list[tuple[int, bytes]], footers: FooterCache, *, whole: bool) -> tuple[int, int]:
        before = store.requests.snapshot()
        tables = read_chunks(store, ref, wanted, footers=footers, everything=whole)
        assert [table.num_rows for table in tables] == [segment.rows[number] for number, _ in wanted]
        spent = store.requests.since(before)
        return spent.get, spent.bytes_in

    assert cost(groups, FooterCache(), whole=True) == (1, segment.size)
    assert cost(groups, FooterCache(max_bytes=0), whole=True) == (1, segment.size)
    assert cost(groups[:1], FooterCache(), whole=True) == (1, segment.size), "as the caller knows it"
    assert cost(groups, FooterCache(), whole=False) == (2, segment.size)
    footers = FooterCache()
    footers.put(ref, decode_footer(ref, segment.data[-segment.footer_length :]))
    assert cost(groups, footers, whole=True) == (1, segment.size - segment.footer_length)
    monkeypatch.setattr(read, "WHOLE_FILE_BYTES", segment.size - 1)
    assert cost(groups, FooterCache(), whole=True) == (2, segment.size)


def test_threads_change_nothing(store: Store) -> None:
    chunks = [sample(2000, seed) for seed in range(6)]
    _, ref, groups = put(store, chunks)
    for threads in (None, 1, 2, 16):
        tables = read_chunks(store, ref, groups, verify="content", footers=FooterCache(), threads=threads)
        assert [table.equals(chunk) for table, chunk in zip(tables, chunks, strict=True)] == [True] * 6
    footers = FooterCache()
    with ThreadPoolExecutor(8) as pool:
        for table, chunk in zip(
            pool.map(lambda group: read_chunks(store, ref, [group], footers=footers)[0], groups * 4),
            chunks * 4,
            strict=True,
        ):
            assert table.equals(chunk)


def outcome(
    store: Store, ref: SegmentRef, groups: Any, columns: Any, verify: Verify, *, whole: bool = False
) -> list[pa.Table] | None:
    try:
        footers = FooterCache()
        return read_chunks(store, ref, groups, columns, verify=verify, footers=footers, everything=whole)
    except Corrupt as error:
        return None if error.name == NAME else []


@pytest.mark.parametrize("columns", [None, ["b.c", "e"]])
def test_every_flipped_byte_is_noticed_or_harmless(store: Store, columns: list[str] | None) -> None:
    chunks = [sample(7), sample(3, seed=1)]
    segment, ref, groups = put(store, chunks)
    expected = chunks if columns is None else [chunk.select(columns) for chunk in chunks]
    noticed = 0
    for position in range(segment.size):
        damaged = bytearray(segment.data)
        damaged[position] ^= 1 << position % 8
        store.put(NAME, bytes(damaged))
        tables = outcome(store, ref, groups, columns, True)
        noticed += tables is None
        assert tables is None or all(a.equals(b) for a, b in zip(tables, expected, strict=True))
    assert noticed >= segment.footer_length
    if columns is None:
        assert noticed == segment.size - 4, "only Parquet's first magic is not looked at"


def test_without_verification_damage_is_an_error_or_a_table_never_a_crash(store: Store) -> None:
    chunks = [sample(7)]
    segment, ref, groups = put(store, chunks)
    for position in range(4, segment.size):
        damaged = bytearray(segment.data)
        damaged[position] ^= 1 << position % 8
        store.put(NAME, bytes(damaged))
        tables = outcome(store, ref, groups, None, False, whole=True)
        assert tables is None or (position < segment.size - segment.footer_length and len(tables) == 1)


@pytest.mark.parametrize("whole", [True, False])
def test_truncated_and_missing_files_are_named(store: Store, whole: bool) -> None:
    segment, ref, groups = put(store, [sample(50), sample(5)])
    for size in (0, 1, 10, segment.size // 2, segment.size - 1):
        store.put(NAME, bytes(segment.data[:size]))
        assert outcome(store, ref, groups, None, False, whole=whole) is None
    store.delete([NAME])
    with pytest.raises(Corrupt, match="missing"):
        read_chunks(store, ref, groups, footers=FooterCache(), everything=whole)
    footers = FooterCache()
    footers.put(ref, decode_footer(ref, segment.data[-segment.footer_length :]))
    for columns in (["a"], ["a", "e"]):
        with pytest.raises(Corrupt, match="missing"):
            read_chunks(store, ref, groups, columns, footers=footers)
    store.put(NAME, bytes(segment.data[:20]))
    with pytest.raises(Corrupt, match="truncated"):
        read_chunks(store, ref, groups, ["a", "e"], footers=footers)


def test_other_chunks_than_expected_are_noticed(store: Store) -> None:
    _, ref, groups = put(store, [sample(5), sample(5, seed=1)])
    swapped = [(0, groups[1][1])]
    for wrong in (swapped, [(2, groups[0][1])], [(-1, groups[0][1])]):
        with pytest.raises(Corrupt, match="row group"):
            read_chunks(store, ref, wrong, verify=False, footers=FooterCache())


def test_another_segment_under_the_same_name_is_noticed(store: Store) -> None:
    _, ref, groups = put(store, [sample(5)])
    put(store, [sample(5, seed=1)])
    with pytest.raises(Corrupt):
        read_chunks(store, ref, groups, footers=FooterCache())


def test_a_writer_whose_hashes_lie_is_noticed_by_content(store: Store) -> None:
    true, other = sample(5), sample(5, seed=1)
    segment = encode_segment([true], [hash_table(other)])
    store.put(NAME, segment.data)
    groups = [(0, hash_table(other)[0])]
    assert read_chunks(store, segment.ref(NAME), groups, footers=FooterCache())[0].equals(true)
    with pytest.raises(Corrupt, match="its values do not match"):
        read_chunks(store, segment.ref(NAME), groups, ["e"], verify="content", footers=FooterCache())


def forged(segment: Segment, **changes: Any) -> tuple[SegmentRef, bytes]:
    """A segment whose block was changed, well sealed."""
    tail = bytes(segment.data[-segment.footer_length :])
    parquet = int.from_bytes(tail[-8:-4], "little") + 8
    block = msgpack.unpackb(tail[:-parquet])
    forged_tail = msgpack.packb({**block, **changes}) + tail[-parquet:]
    data = bytes(segment.data[: -segment.footer_length]) + forged_tail
    return SegmentRef(NAME, len(data), len(forged_tail), footer_digest(len(data), forged_tail)), data


@pytest.mark.parametrize(
    "changes",
    [
        {"starts": np.full(4, 2**63, "<u8").tobytes()},
        {"lengths": np.full(4, 2**63, "<u8").tobytes()},
        {"starts": bytes(32)},
        {"starts": b"odd"},
        {"rows": b""},
        {"rows": np.array([5, 5], "<u8").tobytes()},
        {"names": ["a"]},
        {"types": []},
        {"content": b""},
        {"encoded": 5},
        {"format": "?"},
    ],
)
def test_absurd_footers_are_noticed_before_anything_is_fetched(store: Store, changes: dict[str, Any]) -> None:
    segment, _, groups = put(store, [sample(5)])
    ref, data = forged(segment, **changes)
    store.put(NAME, data)
    before = store.requests.snapshot()
    with pytest.raises(Corrupt, match="makes no sense"):
        read_chunks(store, ref, groups, footers=FooterCache())
    assert store.requests.since(before).bytes_in == ref.footer_length


def test_newer_formats_are_refused_by_name(store: Store) -> None:
    ref, data = forged(encode_segment([sample(5)]), format=2)
    store.put(NAME, data)
    with pytest.raises(UnsupportedFormat, match="format 2"):
        read_footer(store, ref, FooterCache())


def test_absurd_references_are_noticed(store: Store) -> None:
    _, ref, groups = put(store, [sample(5)])
    for size, footer_length in ((ref.size, 0), (ref.size, ref.size), (ref.size, 2**60), (2**60, 8), (8, 4)):
        wrong = dataclasses.replace(ref, size=size, footer_length=footer_length)
        with pytest.raises(Corrupt):
            read_chunks(store, wrong, groups, footers=FooterCache())


def test_unknown_columns_are_refused(store: Store) -> None:
    _, ref, groups = put(store, [sample(5)])
    with pytest.raises(InvalidArgument, match="no column z"):
        read_chunks(store, ref, groups, ["a", "z"], footers=FooterCache())


def test_the_cache_keeps_what_was_used_last(store: Store) -> None:
    segment, ref, _ = put(store, [sample(5)])
    footer = read_footer(store, ref, FooterCache())
    cache = FooterCache(max_bytes=2 * segment.footer_length)
    refs = [dataclasses.replace(ref, name=f"{i}") for i in range(3)]
    cache.put(refs[0], footer)
    cache.put(refs[1], footer)
    cache.put(refs[1], footer)
    assert cache.get(refs[0]) is footer
    cache.put(refs[2], footer)
    assert [cache.get(each) is footer for each in refs] == [True, False, True]
    assert len(cache) == 2
    small = FooterCache(max_bytes=1)
    small.put(ref, footer)
    assert len(small) == 0
