"""Row ids survive packing exactly, in any order, and damaged ones are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt
from crdtcat.format.ops import Ops, decode_ops
from crdtcat.format.row_ids import (
    END,
    ID,
    KeyedTag,
    RowIds,
    Tags,
    split_row_ids,
    unpack_row_ids,
    whole_chunks,
)
from crdtcat.format.row_ops import Copy, Insertion, Overlay, RowOps, Stamps, no_tags
from crdtcat.format.version import pack, unpack

AUTHOR = VersionId(7, 1, 1, b"\x01" * 16)


def tags_of(count: int, keyed: int) -> Tags:
    ids = [VersionId(at + 1, 2, 1, bytes([at % 256]) * 16).to_bytes() for at in range(count)]
    more = tuple(KeyedTag(f"key {at}", bytes([at]) * 32, at) for at in range(keyed))
    return Tags(np.array(ids, ID), np.arange(count, dtype=np.uint32), more)


@st.composite
def row_ids(draw: st.DrawFn) -> RowIds:
    count, keyed = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    total = count + keyed
    size = draw(st.integers(0, 12)) if total else 0
    tag = draw(st.lists(st.integers(0, max(total - 1, 0)), min_size=size, max_size=size))
    start = draw(st.lists(st.integers(0, END - 1), min_size=size, max_size=size))
    stop = [draw(st.integers(at + 1, END)) for at in start]
    columns = (np.array(values, np.uint32) for values in (tag, start, stop))
    return RowIds(tags_of(count, keyed), *columns)


def listed(rows: RowIds) -> tuple[Any, ...]:
    return (
        rows.tags.versions.tobytes(),
        rows.tags.ordinals.tolist(),
        rows.tags.keyed,
        rows.tag.tolist(),
        rows.start.tolist(),
        rows.stop.tolist(),
    )


@given(row_ids())
def test_row_ids_survive_packing(rows: RowIds) -> None:
    packed = pack(rows.packed())
    assert listed(unpack_row_ids(unpack(packed, "v"), "v")) == listed(rows)
    assert pack(unpack_row_ids(unpack(packed, "v"), "v").packed()) == packed


def one_by_one(rows: RowIds) -> list[tuple[Any, ...]]:
    """Every row by its name, in order."""
    tags: list[tuple[Any, ...]] = [
        *zip(rows.tags.versions.tolist(), rows.tags.ordinals.tolist(), strict=True),
        *((tag.key, tag.hash, tag.ordinal) for tag in rows.tags.keyed),
    ]
    found = zip(rows.tag.tolist(), rows.start.tolist(), rows.stop.tolist(), strict=True)
    return [(*tags[tag], row) for tag, start, stop in found for row in range(start, stop)]


@given(st.data(), st.integers(0, 3), st.integers(0, 2))
def test_parts_of_a_list_name_their_own_chunks_and_no_others(
    data: st.DataObject, plain: int, keyed: int
) -> None:
    total = plain + keyed
    pieces = st.tuples(st.integers(0, max(total - 1, 0)), st.integers(0, 9), st.integers(1, 6))
    drawn = data.draw(st.lists(pieces, max_size=8)) if total else []
    tag, start, length = np.array(drawn, np.uint32).reshape(-1, 3).T
    rows = RowIds(tags_of(plain, keyed), tag, start, start + length)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows.rows), max_size=4)))
    counts = np.diff([0, *cuts, rows.rows]).tolist()
    parts = split_row_ids(rows, counts)
    assert [part.rows for part in parts] == counts
    assert [row for part in parts for row in one_by_one(part)] == one_by_one(rows)
    for part in parts:
        assert sorted(set(part.tag.tolist())) == list(range(len(part.tags)))
        assert one_by_one(unpack_row_ids(unpack(pack(part.packed()), "v"), "v")) == one_by_one(part)


def test_whole_chunks_cost_nothing_beyond_their_tags() -> None:
    rows = whole_chunks(tags_of(2, 1))
    assert set(rows.packed()) == {"v", "i", "k"}
    assert listed(unpack_row_ids(rows.packed(), "v")) == listed(rows)


def test_scattered_rows_cost_about_a_byte_each() -> None:
    chosen = np.sort(np.random.default_rng(1).choice(1_000_000, 50_000, replace=False)).astype(np.uint32)
    rows = RowIds(tags_of(1, 0), np.zeros(len(chosen), np.uint32), chosen, chosen + 1)
    assert len(pack(rows.packed())) < 1.3 * len(chosen)


@given(row_ids())
def test_row_ops_survive_packing(rows: RowIds) -> None:
    anchors = RowIds(tags_of(1, 0), *(np.array([at], np.uint32) for at in (0, 4, 6)))
    stamps = Stamps("~0", ("a", "b"), (AUTHOR.to_bytes(), b"\x00" * 36))
    done = RowOps(
        deletes=rows if len(rows) else None,
        overlays=(Overlay(0, rows),),
        insertions=(Insertion(1, np.array([0, 3], np.uint32), anchors),),
        copies=(Copy(2, rows, (stamps,)), Copy(3, rows, stands=True, rises_by=("a", "b")), Copy(4, rows)),
        replaces=tags_of(2, 1),
        folded=tags_of(3, 0).versions,
    )
    encoded = Ops(rows=done).encode()
    assert encoded is not None
    found = decode_ops(encoded, AUTHOR, "v").rows
    assert Ops(rows=found).encode() == encoded
    assert found.copies[0].stamps == (stamps,)
    assert [(copy.stands, copy.rises_by) for copy in found.copies] == [
        (False, ()),
        (True, ("a", "b")),
        (False, ()),
    ]
    assert found.folded.tobytes() == done.folded.tobytes()


def test_nothing_done_is_nothing_written() -> None:
    assert not RowOps()
    assert Ops(rows=RowOps()).encode() is None
    assert len(no_tags()) == 0


@pytest.mark.parametrize(
    "body",
    [
        {"v": bytes(36), "i": b""},
        {"v": bytes(36), "i": bytes(4), "n": -1, "z": b""},
        {"v": bytes(36), "i": bytes(4), "n": 2**40, "z": b""},
        {"v": bytes(36), "i": bytes(4), "n": 1, "z": b"not zstd"},
        {"n": 1, "z": RowIds(tags_of(1, 0), *(np.array([at], np.uint32) for at in (0, 1, 2))).packed()["z"]},
        {"v": bytes(36), "i": bytes(4), "n": 2, "z": whole_chunks(tags_of(1, 0)).packed().get("z", b"")},
    ],
)
def test_malformed_row_ids_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Corrupt):
        unpack_row_ids(body, "some file")


@pytest.mark.parametrize(
    "damage",
    [
        {"o": [[-1, {}]]},
        {"o": [[True, {}]]},
        {"o": 3},
        {"a": [[0, {"s": b""}]]},
        {"c": [{"r": {}}]},
        {"c": [{"i": 0, "r": {}, "t": [[1, [], b""]]}]},
        {"c": [{"i": 0, "r": {}, "p": {}}]},
        {"c": [{"i": 0, "r": {}, "s": [1]}]},
        {"f": b"short"},
    ],
)
def test_malformed_row_ops_are_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(Corrupt):
        decode_ops(pack({"R": damage}), AUTHOR, "some file")
