"""The detector against comparing every row and every cell of both sides: nothing missed, nothing made up."""

from __future__ import annotations

import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.clock import VersionId
from crdtcat.conflicts import Kind, WriteSet, overlaps
from crdtcat.conflicts.keys import KeyPart, meeting
from crdtcat.conflicts.write_set import Cells
from crdtcat.format.ops import ColumnId, Ops
from crdtcat.format.row_ids import ID, KeyedTag, RowIds, Tags, whole_chunks
from tests.bounds import bounded

Row = tuple[int, int]
CHUNKS, ROWS = 4, 6
VERSIONS = np.array([VersionId(1, 1, at + 1, bytes([at]) * 16).to_bytes() for at in range(CHUNKS)], ID)
COLUMNS = [ColumnId("a"), ColumnId("b"), ColumnId("c")]
PARTITIONS = [b"mo", b"tu", b"we"]

rows = st.frozensets(st.tuples(st.integers(0, CHUNKS - 1), st.integers(0, ROWS - 1)), max_size=8)
chunks = st.frozensets(st.integers(0, CHUNKS - 1), max_size=2)
scopes = st.none() | st.frozensets(st.sampled_from(PARTITIONS), max_size=2)


def tags(numbers: list[int]) -> Tags:
    """The even chunks are named by version, the odd ones by key."""
    plain = [number for number in numbers if number % 2 == 0]
    keyed = tuple(KeyedTag("key", bytes([number]) * 32, 0) for number in numbers if number % 2)
    return Tags(VERSIONS[plain], np.zeros(len(plain), np.uint32), keyed)


def row_ids(found: frozenset[Row], chance: int) -> RowIds | None:
    """In an order of their own, one by one: the detector must not care."""
    if not found:
        return None
    numbers = sorted({chunk for chunk, _ in found})
    order = [number for number in numbers if number % 2 == 0] + [number for number in numbers if number % 2]
    listed = sorted(found, key=lambda row: hash((row, chance)))
    return RowIds(
        tags(numbers),
        np.array([order.index(chunk) for chunk, _ in listed], np.uint32),
        np.array([offset for _, offset in listed], np.uint32),
        np.array([offset + 1 for _, offset in listed], np.uint32),
    )


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    overwrites = draw(st.booleans())
    return {
        "cells": draw(st.dictionaries(st.sampled_from(COLUMNS), rows, max_size=2)),
        "split": draw(st.booleans()),
        "deleted": draw(rows),
        "removed": draw(chunks),
        "overwrites": overwrites,
        "scope": draw(scopes) if overwrites else None,
        "added": draw(st.frozensets(st.sampled_from(PARTITIONS), max_size=2)),
        "defined": draw(st.frozensets(st.sampled_from(COLUMNS), max_size=1)),
        "dropped": draw(st.frozensets(st.sampled_from(COLUMNS), max_size=1)),
        "uses": draw(st.frozensets(st.sampled_from(COLUMNS), max_size=2)),
        "properties": draw(st.frozensets(st.sampled_from("pqr"), max_size=2)),
    }


def written(change: dict[str, Any], number: int) -> WriteSet:
    ops = Ops(
        properties=dict.fromkeys(change["properties"], 1),
        drops=tuple(change["dropped"]),
        is_overwrite=change["overwrites"],
        scope=change["scope"],
    )
    cells = [
        (column, row_ids(part, number))
        for column, found in change["cells"].items()
        for part in ((frozenset({row}) for row in found) if change["split"] else (found,))
    ]
    return WriteSet(
        id=VersionId(number, number, 1, bytes(16)),
        number=number,
        operation="write",
        ops=ops,
        added=change["added"],
        chunks=(),
        deleted=row_ids(change["deleted"], number),
        removed=whole_chunks(tags(sorted(change["removed"]))) if change["removed"] else None,
        cells=tuple(Cells(frozenset({column}), found) for column, found in cells if found is not None),
        columns=change["defined"] | change["dropped"],
        names=frozenset(column.name for column in change["defined"]),
        brings=change["uses"],
        definitions=(),
    )


def gone(change: dict[str, Any]) -> set[Row]:
    return set(change["deleted"]) | {(chunk, at) for chunk in change["removed"] for at in range(ROWS)}


def touched(change: dict[str, Any]) -> set[Row]:
    return {row for found in change["cells"].values() for row in found}


def used(change: dict[str, Any]) -> set[ColumnId]:
    return set(change["uses"]) | {column for column, found in change["cells"].items() if found}


def expected(mine: dict[str, Any], theirs: dict[str, Any]) -> dict[Kind, set[Row]]:
    """Every kind that applies, with its rows, by looking at every row and cell."""
    over, under = mine["overwrites"], theirs["overwrites"]
    both = {
        row
        for column, found in mine["cells"].items()
        for row in found
        if row in theirs["cells"].get(column, ())
    }
    kinds: dict[Kind, set[Row]] = {
        Kind.UPDATE_UPDATE: both,
        Kind.UPDATE_OVERWRITE if under else Kind.UPDATE_DELETE: touched(mine) & gone(theirs),
        Kind.OVERWRITE_UPDATE if over else Kind.DELETE_UPDATE: gone(mine) & touched(theirs),
    }
    if not (over and under):
        kind = Kind.OVERWRITE_DELETE if over else Kind.DELETE_OVERWRITE if under else Kind.DELETE_DELETE
        kinds[kind] = gone(mine) & gone(theirs)
    found = {kind: rows for kind, rows in kinds.items() if rows}

    def within(values: Any, scope: Any) -> bool:
        return any(scope is None or value in scope for value in values)

    plain = {
        Kind.OVERWRITE_OVERWRITE: over and under and _meet(mine["scope"], theirs["scope"]),
        Kind.OVERWRITE_APPEND: over and not under and within(theirs["added"], mine["scope"]),
        Kind.APPEND_OVERWRITE: under and not over and within(mine["added"], theirs["scope"]),
        Kind.COLUMN_COLUMN: bool(
            (mine["defined"] | mine["dropped"]) & (theirs["defined"] | theirs["dropped"])
        ),
        Kind.WRITE_DROP: bool(used(mine) & theirs["dropped"]),
        Kind.DROP_WRITE: bool(mine["dropped"] & used(theirs)),
        Kind.PROPERTY_PROPERTY: bool(mine["properties"] & theirs["properties"]),
    }
    return found | {kind: set() for kind, holds in plain.items() if holds}


def _meet(mine: Any, theirs: Any) -> bool:
    if mine is None or theirs is None:
        either = mine if mine is not None else theirs
        return either is None or bool(either)
    return bool(mine & theirs)


def shown(overlap: Any) -> set[Row]:
    """The rows of a conflict, as chunk and offset."""
    names: dict[Any, int] = {
        **{(VERSIONS[at : at + 1].tobytes(), 0): at for at in range(0, CHUNKS, 2)},
        **{("key", bytes([at]) * 32, 0): at for at in range(1, CHUNKS, 2)},
    }
    groups, offsets = overlap.rows.rows() if overlap.rows.total < 10**6 else ((), ())
    return {(names[overlap.tags[group]], at) for group, at in zip(groups, offsets, strict=True)}


@settings(max_examples=bounded(400, 2))
@given(changes(), st.lists(changes(), min_size=1, max_size=3))
def test_exactly_the_conflicts_that_comparing_every_row_finds(
    mine: dict[str, Any], others: list[dict[str, Any]]
) -> None:
    """One that is held against several in turn, as a commit is: what is kept of it fits them all."""
    once = written(mine, 2)
    for theirs in others:
        found: dict[Kind, set[Row]] = {}
        for overlap in overlaps(once, written(theirs, 3)):
            found.setdefault(overlap.kind, set()).update(shown(overlap))
            assert (overlap.theirs, overlap.number) == (VersionId(3, 3, 1, bytes(16)), 3)
            assert len(overlap.tags) == len(set(overlap.rows.groups.tolist()))  # those of the rows, no others
        wanted = expected(mine, theirs)
        assert set(found) == set(wanted)
        for kind, held in wanted.items():
            exact = not (mine["removed"] and theirs["removed"])  # two whole chunks: rows up to the end of any
            if exact:
                assert found[kind] == held, kind


def an_update(count: int, offset: int, number: int) -> WriteSet:
    """One row of every 10, of `count`, in chunks of 1,000."""
    place = np.arange(count) * 10 + offset
    chunk = (place // 1_000).astype(np.uint32)
    versions = np.full(int(chunk[-1]) + 1, VERSIONS[0], ID)
    ids = RowIds(
        Tags(versions, np.arange(len(versions), dtype=np.uint32)),
        chunk,
        (place % 1_000).astype(np.uint32),
        (place % 1_000 + 1).astype(np.uint32),
    )
    nothing = frozenset[Any]()
    columns = frozenset(COLUMNS[:1])
    return WriteSet(
        id=VersionId(number, number, 1, bytes(16)), number=number, operation="update", ops=Ops(),
        added=nothing, chunks=(), deleted=None, removed=None, cells=(Cells(columns, ids),),
        columns=nothing, names=nothing, brings=nothing, definitions=(),
    )  # fmt: skip


@pytest.mark.parametrize("swapped", [False, True])
def test_a_small_change_against_a_large_one_copies_nothing_that_grows_with_it(swapped: bool) -> None:
    """O(w log v): a call that did anything to all of theirs would need room for it. 8 bytes each at least."""
    mine = an_update(10, 0, 2)
    needed = []
    for size in (1_000, 100_000, 300_000):
        other = an_update(size, 5, 3)
        first, second = (other, mine) if swapped else (mine, other)
        assert not overlaps(first, second)  # which makes the sets
        tracemalloc.start()
        assert not overlaps(first, second)
        needed.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(needed) < min(needed) + 4_000, needed


keys_of_parts = st.none() | st.binary(max_size=2)


@st.composite
def key_part_lists(draw: st.DrawFn) -> list[KeyPart]:
    ends = draw(st.lists(st.tuples(keys_of_parts, keys_of_parts), max_size=12))
    parts = []
    for low, high in ends:
        known = low is None or high is None or low <= high
        first, last = (low, high) if known else (high, low)
        parts.append(KeyPart(gone=False, columns=frozenset(), low=first, high=last, exact=None))
    return parts


@given(key_part_lists(), key_part_lists())
def test_ranges_of_keys_that_meet_are_those_that_comparing_every_pair_finds(
    mine: list[KeyPart], theirs: list[KeyPart]
) -> None:
    wanted = {(id(one), id(other)) for one, other in product(mine, theirs) if not one.apart(other)}
    found = [(id(one), id(other)) for one, other in meeting(mine, theirs)]
    assert len(found) == len(wanted)
    assert set(found) == wanted


def test_conflicts_print_what_they_are_about() -> None:
    change: dict[str, Any] = {"cells": {}, "properties": {}, "deleted": frozenset({(0, 2), (1, 3)})}
    empty: dict[str, Any] = {
        "removed": frozenset(), "overwrites": False, "scope": None, "added": frozenset(), "split": False,
        "defined": frozenset(), "dropped": frozenset(), "uses": frozenset(),
    }  # fmt: skip
    mine = written({**empty, **change}, 2)
    theirs = written({**empty, **change, "properties": {"p": 1}}, 3)
    (overlap,) = overlaps(mine, theirs)
    assert "delete-delete" in str(overlap)
    assert "2 rows" in str(overlap)
    assert "'key'/0[3:4]" in str(overlap)
