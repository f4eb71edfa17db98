"""Statistics of changed rows: joined with those of everything over them, pruning still loses no row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Table
from crdtcat.chunks.statistics import statistics
from crdtcat.scan import source
from crdtcat.scan.filters import ColumnBounds
from crdtcat.scan.overlaid import Part, joined
from tests.bounds import bounded
from tests.catalog.lakes import another, lake
from tests.rows.late import held_back

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("x", pa.float64())])
NUMBERS = st.none() | st.integers(-9, 9)
KINDS = ("int", "float", "bytes")


def column(numbers: list[int | None], kind: str) -> pa.ChunkedArray:
    """A column of some kind; among floats the least number is NaN."""
    if kind == "bytes":
        return pa.chunked_array([[None if at is None else chr(100 + at) for at in numbers]], pa.string())
    if kind == "float":
        halves = [None if at is None else at / 2 if at > -9 else float("nan") for at in numbers]
        return pa.chunked_array([halves], pa.float64())
    return pa.chunked_array([numbers], pa.int64())


def ten_chunks(**options: Any) -> Table:
    """n is 0 to 9 in the first chunk, 10 to 19 in the second, ..."""
    table = lake(**options).create_table("t", SCHEMA)
    for chunk in range(10):
        numbers = range(10 * chunk, 10 * chunk + 10)
        table.append([{"n": number, "text": f"{number:03}", "x": number / 4} for number in numbers])
    return table


def test_changed_chunks_are_pruned_by_what_they_hold_and_what_lies_over_them() -> None:
    table = ten_chunks()
    table.update("n in (3, 25)", {"n": 1000, "text": "999"})
    table.update("n in (44, 55)", {"x": None})
    for filter, kept, found in (
        ("n = 1000", 2, 2),
        # Two may hold anything between what they held and what lies over them; the others are as they were.
        ("n between 71 and 75", 3, 5),
        ("n = 500", 2, 0),
        ("n = 25", 2, 0),
        ("n < 3", 1, 3),
        ("n > 2000", 0, 0),
        ("text = '999'", 2, 2),
        ("text = '998'", 2, 0),
        ("x is null", 2, 2),
        ("x >= 24", 1, 4),
    ):
        scan = table.scan(filter=filter)
        assert (len(scan.plan.chunks), scan.to_table().num_rows) == (kept, found), filter
    assert table.scan(filter="n >= 20 and n < 1001").plan.whole.sum() == 8  # whole, newer cells included
    assert table.scan(filter="n < 1001").count() == 100


def test_rows_that_an_update_moved_into_a_filter_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ten_chunks()
    table.update("n = 3", {"n": 1000})
    assert table.read(["text"], "n = 1000")["text"].to_pylist() == ["003"]
    monkeypatch.setattr(source, "joined", lambda own, *_: own.bounds)  # what lies over rows is forgotten
    assert table.read(["text"], "n = 1000").num_rows == 0


def test_what_another_copy_of_a_row_has_folded_counts_too() -> None:
    """Two compactions at once, one of which knew of an update: the row is read from the other's copy."""
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    for number in range(4):
        table.append([{"n": number, "text": "", "x": 0.0}])
    unaware = another(catalog).table("t")
    arrive = held_back(unaware, unaware.compact)
    table.update("n = 2", {"n": 50})
    table.compact()
    arrive()
    assert table.head().rows.shared
    assert table.scan(filter="n = 50").count() == 1
    assert table.scan(filter="n = 2").count() == 0
    assert table.scan(filter="n > 60").plan.pruned == len(table.head().live)


def test_a_column_added_by_the_update() -> None:
    table = ten_chunks()
    table.add_column("late", pa.int32())
    table.update("n = 12", {"late": 7})
    assert table.read(["n"], "late = 7")["n"].to_pylist() == [12]
    assert len(table.scan(filter="late = 7").plan.chunks) == 1
    assert len(table.scan(filter="late = 8").plan.chunks) == 0
    assert table.scan(filter="late is null").count() == 99


@st.composite
def layers(draw: st.DrawFn) -> tuple[list[list[int | None]], list[list[int | None]], list[tuple[int, int]]]:
    """Values of entries, of chunks over them, and which lies over which."""
    chunks = st.lists(st.lists(NUMBERS, min_size=1, max_size=4), min_size=1, max_size=5)
    entries, over = draw(chunks), draw(chunks)
    pair = st.tuples(st.integers(0, len(entries) - 1), st.integers(0, len(over) - 1))
    return entries, over, draw(st.lists(pair, unique=True, max_size=8))


@given(layers(), st.sampled_from(KINDS), st.booleans())
@settings(deadline=None)
def test_joined_bounds_hold_for_every_value_of_every_part(
    drawn: tuple[list[list[int | None]], list[list[int | None]], list[tuple[int, int]]], kind: str, hide: bool
) -> None:
    entries, over, pairs = drawn
    parts = [_part(values, kind, hidden=hide and len(values) > 1) for values in (entries, over)]
    owner, source = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    found = joined(parts[0], parts[1], owner, source)
    for at, values in enumerate(entries):
        together = [*values, *(value for entry, chunk in pairs if entry == at for value in over[chunk])]
        exact = statistics(column(together, kind))
        if found.known_min[at]:
            low, high = (side[at].as_py() if kind == "bytes" else side[at] for side in found[:2])
            assert exact.min is not None
            assert exact.max is not None
            assert low <= exact.min
            assert high >= exact.max
            if not hide:
                assert (low, high) == (exact.min, exact.max)
        if any(entry == at for entry, _ in pairs):
            shown = {0: exact.nulls == 0, len(values): exact.nulls == len(together)}
            assert found.nulls[at] == -1 or shown[int(found.nulls[at])]
            if exact.nulls == 0 and not hide:
                assert found.nulls[at] == 0


def _part(chunks: list[list[int | None]], kind: str, *, hidden: bool) -> Part:
    """True statistics; `hidden`: the first chunk has none."""
    found = [statistics(column(chunk, kind)) for chunk in chunks]
    known = np.array([one.min is not None and not (hidden and at == 0) for at, one in enumerate(found)])
    nulls = np.array([-1 if hidden and at == 0 else one.nulls for at, one in enumerate(found)], np.int64)
    low, high = (_side([getattr(one, name) for one in found], kind) for name in ("min", "max"))
    rows = np.array([len(chunk) for chunk in chunks], np.int64)
    return Part(ColumnBounds(low, high, known, known, nulls), rows)


def _side(values: list[Any], kind: str) -> Any:
    if kind == "bytes":
        return pa.array([value or b"" for value in values], pa.large_binary())
    return np.array([value or 0 for value in values], np.int64 if kind == "int" else np.float64)


steps = st.lists(
    st.tuples(
        st.sampled_from(("append", "update", "update", "delete", "compact", "cluster", "nulls")),
        st.integers(0, 1),
        st.integers(0, 30),
        st.booleans(),
    ),
    max_size=9,
)
filters = st.builds(
    lambda template, low, width: template.format(low=low, high=low + width),
    st.sampled_from(
        (
            "n between {low} and {high}",
            "n = {low} or n > {high}",
            "not n < {low}",
            "text >= '{low:03}' and text < '{high:03}'",
            "x is null or n = {low}",
            "x is not null and x > {low}",
            "n in ({low}, {high})",
        )
    ),
    st.integers(-5, 130),
    st.integers(0, 40),
)


@given(steps, st.lists(filters, min_size=3, max_size=6))
@settings(max_examples=bounded(200, 8), deadline=None)
def test_a_pruned_scan_finds_what_an_unpruned_one_does(
    moves: list[tuple[str, int, int, bool]], wanted: list[str]
) -> None:
    catalog = lake()
    first = catalog.create_table("t", SCHEMA)
    tables, waiting = [first, another(catalog).table("t")], []
    first.append([{"n": at, "text": f"{at:03}", "x": float(at)} for at in range(5)])
    for verb, who, what, late in moves:
        table = tables[who]

        def act(table: Table = table, verb: str = verb, what: int = what) -> None:
            _act(table, verb, what)

        waiting.append(held_back(table, act)) if late else act()
    for arrive in waiting:
        arrive()
    everything = lake().create_table("t", SCHEMA)
    everything.append(first.read())  # the same rows in one chunk that nothing lies over
    for filter in wanted:
        expected = sorted(map(str, everything.read(filter=filter).to_pylist()))
        assert sorted(map(str, first.read(filter=filter).to_pylist())) == expected
        assert first.scan(filter=filter).count() == len(expected)


def _act(table: Table, verb: str, what: int) -> None:
    if verb == "append":
        numbers = range(3 * what, 3 * what + 4)
        table.append([{"n": at, "text": f"{at:03}", "x": at / 2} for at in numbers])
    elif verb == "update":
        table.update(f"n % 5 = {what % 5}", {"n": 4 * what, "text": f"{3 * what:03}"})
    elif verb == "nulls":
        values = {"x": None if what % 2 else float("nan"), "n": None if what % 3 else 1}
        table.update(f"n % 7 = {what % 7}", values)
    elif verb == "delete":
        table.delete(f"n % 11 = {what % 11}")
    elif verb == "cluster":
        table.compact(cluster_by=["n"], rows=4)
    else:
        table.compact(rows=4)
