"""Rows named in version files, found in a log: all lists at once, as one by one in plain Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.format.row_ids import END, ID, KeyedTag, RowIds, Tags
from crdtcat.head.tags import TagIndex
from crdtcat.log import Log, empty_log
from crdtcat.store.memory import MemoryStore

ROWS = 7


def _log() -> Log:
    table = Catalog(MemoryStore("memory://tags"), upkeep=False).create_table("t", pa.schema([("a", "int64")]))
    for number in range(4):
        table.append(pa.table({"a": range(ROWS)}), key=f"key {number}" if number % 2 else None)
    return table.head().log


def _without_chunks() -> Log:
    table = Catalog(MemoryStore("memory://none"), upkeep=False).create_table("t", pa.schema([("a", "int64")]))
    table.set_properties({"a": "b"})
    return table.head().log


LOG = _log()
_WITHOUT_CHUNKS = _without_chunks()
KNOWN = [LOG.id_at(at).to_bytes() for at in range(len(LOG))]
plain = st.tuples(st.sampled_from([*KNOWN, b"\x7f" * 36]), st.integers(0, 1))
keyed = st.tuples(
    st.sampled_from(["key 1", "key 3", "nobody's"]),
    st.sampled_from([LOG.hash[0].tobytes(), bytes(32)]),
    st.integers(0, 1),
)


@st.composite
def lists(draw: st.DrawFn) -> RowIds:
    versions, later = draw(st.lists(plain, max_size=3)), draw(st.lists(keyed, max_size=2) | st.just([]))
    tags = Tags(
        np.array([id for id, _ in versions], ID),
        np.array([ordinal for _, ordinal in versions], np.uint32),
        tuple(KeyedTag(*each) for each in later),
    )
    some = st.tuples(st.integers(0, max(0, len(tags) - 1)), st.integers(0, ROWS), st.integers(0, ROWS + 3))
    found = draw(st.lists(some, max_size=4)) if len(tags) else []
    stops = [min(END, start + length) for _, start, length in found]
    return RowIds(
        tags,
        np.array([tag for tag, _, _ in found], np.uint32),
        np.array([start for _, start, _ in found], np.uint32),
        np.array(stops, np.uint32),
    )


def _one_by_one(many: list[RowIds]) -> list[tuple[int, ...]]:
    """The same by looking at every tag and interval by itself."""
    chunks = {(id, 0): at for at, id in enumerate(KNOWN)}  # each has one
    keys = {f"key {number}": number for number in (1, 3)}
    found: list[tuple[int, ...]] = []
    for number, rows in enumerate(many):
        before = 0
        tags = [
            chunks.get((bytes(id), int(at)), -1)
            for id, at in zip(
                rows.tags.versions.view("V36").tolist(), rows.tags.ordinals.tolist(), strict=True
            )
        ]
        for tag in rows.tags.keyed:
            right = tag.key in keys and tag.ordinal == 0 and tag.hash == LOG.hash[keys[tag.key]].tobytes()
            tags.append(keys[tag.key] if right else -1)
        for tag, start, stop in zip(rows.tag.tolist(), rows.start.tolist(), rows.stop.tolist(), strict=True):
            end = min(stop, ROWS)
            if tags[tag] >= 0 and start < end:
                found.append((number, tags[tag], start, end, before))
            before += stop - start
    return found


@given(many=st.lists(lists(), max_size=4))
def test_lists_are_found_together_as_one_by_one(many: list[RowIds]) -> None:
    index = TagIndex(LOG, np.ones(len(LOG), bool))
    together = list(zip(*(column.tolist() for column in index.rows_of_many(many)), strict=True))
    assert together == _one_by_one(many)
    for number, rows in enumerate(many):
        alone = list(zip(*(column.tolist() for column in index.rows_with_places(rows)), strict=True))
        assert alone == [each[1:] for each in together if each[0] == number]


@given(many=st.lists(lists(), max_size=2))
def test_a_log_without_chunks_has_none_of_them(many: list[RowIds]) -> None:
    for log in (empty_log(), _WITHOUT_CHUNKS):
        found = TagIndex(log, np.ones(len(log), bool)).rows_of_many(many)
        assert [column.tolist() for column in found] == [[]] * 5
