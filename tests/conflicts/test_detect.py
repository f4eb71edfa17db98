"""The detector against comparing every row and every cell of both sides: nothing missed, nothing made up."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.clock import VersionId
from crdtcat.conflicts import Kind, WriteSet, overlaps
from crdtcat.conflicts.write_set import Cells
from crdtcat.format.ops import ColumnId, Ops
from crdtcat.format.row_ids import ID, KeyedTag, RowIds, Tags, whole_chunks

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
    cells = [(column, row_ids(found, number)) for column, found in change["cells"].items()]
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
        uses=change["uses"],
        definitions=(),
    )


def gone(change: dict[str, Any]) -> set[Row]:
    return set(change["deleted"]) | {(chunk, at) for chunk in change["removed"] for at in range(ROWS)}


def touched(change: dict[str, Any]) -> set[Row]:
    return {row for found in change["cells"].values() for row in found}


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
        Kind.WRITE_DROP: bool(mine["uses"] & theirs["dropped"]),
        Kind.DROP_WRITE: bool(mine["dropped"] & theirs["uses"]),
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


@settings(max_examples=400)
@given(changes(), changes())
def test_exactly_the_conflicts_that_comparing_every_row_finds(
    mine: dict[str, Any], theirs: dict[str, Any]
) -> None:
    found: dict[Kind, set[Row]] = {}
    for overlap in overlaps(written(mine, 2), written(theirs, 3)):
        found.setdefault(overlap.kind, set()).update(shown(overlap))
        assert (overlap.theirs, overlap.number) == (VersionId(3, 3, 1, bytes(16)), 3)
    wanted = expected(mine, theirs)
    assert set(found) == set(wanted)
    for kind, held in wanted.items():
        exact = not (mine["removed"] and theirs["removed"])  # two whole chunks: rows up to the end of any
        if exact:
            assert found[kind] == held, kind


def test_conflicts_print_what_they_are_about() -> None:
    change: dict[str, Any] = {"cells": {}, "properties": {}, "deleted": frozenset({(0, 2), (1, 3)})}
    empty: dict[str, Any] = {
        "removed": frozenset(), "overwrites": False, "scope": None, "added": frozenset(),
        "defined": frozenset(), "dropped": frozenset(), "uses": frozenset(),
    }  # fmt: skip
    mine = written({**empty, **change}, 2)
    theirs = written({**empty, **change, "properties": {"p": 1}}, 3)
    (overlap,) = overlaps(mine, theirs)
    assert "delete-delete" in str(overlap)
    assert "2 rows" in str(overlap)
    assert "'key'/0[3:4]" in str(overlap)
