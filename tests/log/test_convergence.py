"""Join: any order, duplication and grouping of the same files gives the same log and head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.errors import Corrupt
from crdtcat.format.frame import digest
from crdtcat.head import Head
from crdtcat.log import Log, State, decode_bundle, empty_log, encode_bundle, join, join_all, select
from crdtcat.protocol import bundle_name
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.invariants import check_log, head_value, log_value, rows_of
from crdtcat.testing.strategies_log import FOLDER, History, Step, histories, play
from crdtcat.writing.inlined import moved_to_segments

File = tuple[str, bytes]


def subset(history: History, mask: int) -> list[File]:
    return [item for at, item in enumerate(history.files) if mask >> at & 1]


def log_of(files: list[File]) -> Log:
    return State(FOLDER).joined(files).log


def bundle_of(files: list[File], store: MemoryStore, rank: int = 1) -> File:
    """A real bundle of these versions, its rows in a real segment."""
    moved = moved_to_segments(log_of(files))
    for put in moved.puts:
        store.put(put.name, put.data)
    data = encode_bundle(moved.log, FOLDER)
    return bundle_name(FOLDER, rank, digest(data)), data


masks = st.integers(0, 2**12 - 1)
horizons = st.integers(0, 3)  # below every version here: a log only carries it along


@given(histories(), masks, masks, masks, st.tuples(horizons, horizons, horizons))
@settings(max_examples=60, deadline=None)
def test_join_is_associative_commutative_idempotent(
    history: History, x: int, y: int, z: int, at: tuple[int, int, int]
) -> None:
    a, b, c = (
        log_of(subset(history, mask)).with_(horizon=horizon)
        for mask, horizon in zip((x, y, z), at, strict=True)
    )
    for log in (a, b, c, join(a, b)):
        check_log(log)
    assert log_value(join(a, b)) == log_value(join(b, a))
    assert log_value(join(join(a, b), c)) == log_value(join(a, join(b, c)))
    assert log_value(join(a, a)) == log_value(a)
    assert log_value(join(a, empty_log())) == log_value(a) == log_value(join(empty_log(), a))
    assert log_value(join(a, b)) == log_value(log_of(subset(history, x | y)).with_(horizon=max(at[:2])))


@given(histories(), st.lists(st.tuples(masks, horizons), max_size=7))
@settings(max_examples=60, deadline=None)
def test_many_logs_at_once_are_one_after_the_other(history: History, chosen: list[tuple[int, int]]) -> None:
    logs = [log_of(subset(history, mask)).with_(horizon=horizon) for mask, horizon in chosen]
    expected = empty_log()
    for log in logs:
        expected = join(expected, log)
    found = join_all(logs)
    check_log(found)
    assert log_value(found) == log_value(expected)


@pytest.mark.parametrize("other", ["append", "properties"], ids=["other rows", "no rows"])
def test_two_deltas_under_one_id_are_refused(other: str) -> None:
    """Whichever comes first, beside versions that are in order, and however the two differ."""
    first, second, after = (
        log_of([one]) for one in play([Step(0, None, verb) for verb in ("append", other, "append")]).files
    )
    forged = second.with_(ids=first.ids)
    for logs in ([first, forged], [forged, first], [first, after, forged]):
        with pytest.raises(Corrupt, match="two copies of one version"):
            join_all(logs)
    assert log_value(join_all([first, after, first])) == log_value(join(first, after))


@given(histories(), masks, masks)
@settings(max_examples=60, deadline=None)
def test_select_is_the_log_of_the_subset(history: History, x: int, y: int) -> None:
    whole = log_of(subset(history, x))
    part = {name for name, _ in subset(history, x & y)}
    names = [f"{FOLDER}{whole.id_at(at)}.v" for at in range(len(whole))]
    chosen = select(whole, np.array([name in part for name in names], bool))
    check_log(chosen)
    assert log_value(chosen) == log_value(log_of(subset(history, x & y)))
    rest = select(whole, np.array([name not in part for name in names], bool))
    assert log_value(join(rest, chosen)) == log_value(whole)


@given(histories(most=10), st.lists(masks, max_size=3), st.data())
@settings(max_examples=40, deadline=None)
def test_any_order_duplication_and_grouping_of_files(
    history: History, bundles: list[int], data: st.DataObject
) -> None:
    store = MemoryStore("memory://convergence")
    files = history.files + [
        bundle_of(subset(history, mask), store) for mask in bundles if subset(history, mask)
    ]
    expected = State(FOLDER).joined(files)
    order = data.draw(st.permutations(files + data.draw(st.lists(st.sampled_from(files))) if files else []))
    state = State(FOLDER)
    while order:
        size = data.draw(st.integers(1, len(order)))
        state, order = state.joined(order[:size]), order[size:]
    check_log(state.log)
    assert log_value(state.log) == log_value(expected.log)
    assert state == expected
    assert hash(state) == hash(expected)
    if not state.log.inline:
        assert encode_bundle(state.log, FOLDER) == encode_bundle(expected.log, FOLDER)
    plain = Head("t", history.state().log, history.settings)
    head = Head("t", state.log, history.settings)
    assert head_value(head) == head_value(plain)
    assert rows_of(head, store) == rows_of(plain, store)


@given(histories(most=8), masks)
@settings(max_examples=40, deadline=None)
def test_bundles_round_trip(history: History, mask: int) -> None:
    moved = moved_to_segments(log_of(subset(history, mask))).log
    data = encode_bundle(moved, FOLDER, ["b", "a"])
    bundle = decode_bundle(data, FOLDER, "bundle")
    check_log(bundle.log)
    assert log_value(bundle.log) == log_value(moved)
    assert bundle.replaces == {"a", "b"}
    assert encode_bundle(bundle.log, FOLDER, ["a", "b"]) == data


def brute_force(history: History, mask: int) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """Statistics by looking at every version there is."""
    found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    chosen = {name for name, _ in subset(history, mask)}
    position = 0
    for made in sorted(history.versions, key=lambda made: made.id):
        if made.name not in chosen:
            continue
        for chunk in made.chunks:
            for name in chunk.table.column_names:
                values = chunk.table[name].to_pylist()
                domain = {"string": "b", "double": "f"}.get(str(chunk.table[name].type), "i")
                low, high = min(values), max(values)
                if domain == "b":
                    low, high = low.encode(), high.encode()
                found.setdefault((name, domain), []).append((position, low, high, 0))
            position += 1
    return found


@given(histories(("append", "append by name", "evolve", "overwrite")), masks, masks, st.booleans())
@settings(max_examples=60, deadline=None)
def test_statistics_survive_joins_subsets_and_bundles(
    history: History, x: int, y: int, through_bundle: bool
) -> None:
    a, b = log_of(subset(history, x)), log_of(subset(history, y))
    if through_bundle:
        moved = moved_to_segments(a).log
        a = decode_bundle(encode_bundle(moved, FOLDER), FOLDER, "bundle").log
    log = join(a, b)
    expected = brute_force(history, x | y)
    assert log.statistics.columns() >= set(expected)
    for name, domain in log.statistics.columns():
        bounds = log.statistics.bounds(name, domain)
        assert bounds is not None
        rows = zip(
            bounds.chunk.tolist(),
            bounds.low.tolist(),
            bounds.high.tolist(),
            bounds.nulls.tolist(),
            strict=True,
        )
        assert sorted(rows) == expected.get((name, domain), [])
        assert bounds.known.all()
