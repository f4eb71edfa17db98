"""A table read through a base is the table, for every history, every horizon and every late version.

Histories of real version files, by authors that know of each other or not. What an expirer had listed is any
causally closed part of one; everything else arrives later, before or after its base is read. Held against the
reference model, and against the fold of the same versions without a base.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crdtcat.errors import Expired
from crdtcat.head import Head
from crdtcat.head.snapshot import versions_of
from crdtcat.log import Log, State, encode_bundle, select
from crdtcat.log.horizon import below, emptied
from crdtcat.protocol import base_name, base_number
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.invariants import rows_of
from crdtcat.testing.made_versions import FOLDER
from crdtcat.testing.strategies_log import ROW_VERBS, VERBS, History, histories
from crdtcat.writing.inlined import moved_to_segments
from tests.bounds import bounded
from tests.head.reference import Paths, settings_of, type_name, version_of
from tests.model import expiry
from tests.model import versions as model
from tests.model.head import head as model_head

STORE = MemoryStore("memory://expiry-laws")


def based(state: State, history: History, horizon: int) -> tuple[str, bytes]:
    """The base that an expirer with this state writes."""
    log = below(state.log, horizon)
    needed = Head("t", log, history.settings).rows.chunks_to_keep
    moved = moved_to_segments(emptied(log, horizon, needed), needed)
    for put in moved.puts:
        STORE.put(put.name, put.data)
    number = base_number(state.base) + 1
    return base_name(FOLDER, number), encode_bundle(moved.log, FOLDER, number=number)


def shown(head: Head, horizon: int) -> dict[str, Any]:
    return {
        "rows": rows_of(head, STORE),
        "count": head.row_count,
        "schema": head.schema,
        "properties": dict(head.properties),
        "history": [item.id for item in head.history if item.id.hlc >= horizon],
        "version": head.version,
        "snapshot": head.snapshot,
        "root": head.root_hash,
        "commits": head.commits,
        "conflicts": [item for item in head.conflicts if not item.is_over(horizon)],
    }


def without_base(everything: Log, listed: State, horizon: int) -> Log:
    """The same versions, as if nobody had folded them."""
    alive = (everything.id_fields["hlc"] >= horizon) | (listed.log.find(everything.ids) >= 0)
    return select(everything, alive)


def saw_the_dead(history: History, listed: State, horizon: int) -> bool:
    """Whether a version counts that had seen one which an expiry passed by: what that one had seen is lost
    with it, and the horizon's clock stands for it."""
    dead = [
        made.id for made in history.versions if made.id.hlc < horizon and listed.log.index_of(made.id) < 0
    ]
    return any(
        made.clock.saw(id.writer, id.seq) for made in history.versions for id in dead if made.id not in dead
    )


@st.composite
def expiries(draw: st.DrawFn, verbs: tuple[str, ...]) -> tuple[History, int, int]:
    """A history, how much of it the expirer had listed, and its horizon."""
    history = draw(histories(verbs, most=12))
    listed = draw(st.integers(0, len(history.versions)))
    times = sorted({made.id.hlc for made in history.versions} | {1})
    horizon = draw(st.sampled_from(times)) + draw(st.integers(0, 1))
    return history, listed, horizon


def check(history: History, listed: int, horizon: int) -> None:
    files = history.files
    found = State(FOLDER).joined(files[:listed])
    base = based(found, history, horizon)
    everything = State(FOLDER).joined(files).log
    assume(not saw_the_dead(history, found, horizon))
    plain = Head("t", without_base(everything, found, horizon), history.settings)
    orders = (
        [[base], files],  # a cold reader
        [files, [base]],  # one that knew everything
        [files[:listed], [base], files[listed:]],  # one that goes along
        [[*files[listed:], base], files[:listed]],
    )
    for order in orders:
        state = State(FOLDER)
        for part in order:
            state = state.joined(part)
        assert not state.gaps()
        head = Head("t", state.log, history.settings)
        assert shown(head, horizon) == shown(plain, horizon)
        assert all(item.id.hlc >= horizon for item in head.history)
    check_model(history, listed, horizon, head)


def check_model(history: History, listed: int, horizon: int, head: Head) -> None:
    sizes = {
        (made.id, index): chunk.table.num_rows
        for made in history.versions
        for index, chunk in enumerate(made.chunks)
    }
    paths: Paths = {}
    versions = [version_of(made, sizes, paths) for made in history.versions]
    state = expiry.expire(model.state_of(*versions[:listed]), horizon)
    theirs = model_head(state.join(model.state_of(*versions[listed:])), settings_of(history))
    assert [item.id for item in head.history] == list(theirs.history)
    assert {head.log.id_at(at) for at in range(len(head.log))} == theirs.snapshot
    assert dict(head.properties) == theirs.properties
    assert {(item.name, type_name(item.type)) for item in head.schema} == set(theirs.schema)
    assert rows_of(head, STORE) == [dict(row) for row in theirs.rows]


@given(expiries(VERBS))
@settings(max_examples=bounded(200, 8), deadline=None)
def test_a_base_changes_nothing_that_is_read(drawn: tuple[History, int, int]) -> None:
    check(*drawn)


@given(expiries((*VERBS, *ROW_VERBS, *ROW_VERBS)))
@settings(max_examples=bounded(200, 8), deadline=None)
def test_a_base_changes_nothing_where_rows_were_changed(drawn: tuple[History, int, int]) -> None:
    check(*drawn)


@given(expiries((*VERBS, *ROW_VERBS)), st.integers(0, 12), st.integers(0, 3))
@settings(max_examples=bounded(60, 2), deadline=None)
def test_bases_over_bases(drawn: tuple[History, int, int], more: int, further: int) -> None:
    """The second is made from the first and what came later; who reads only it has everything."""
    history, listed, horizon = drawn
    files = history.files
    first = based(State(FOLDER).joined(files[:listed]), history, horizon)
    later = State(FOLDER).joined([first]).joined(files[: listed + more])
    second = based(later, history, horizon + further)
    alive = later.log
    assume(not saw_the_dead(history, later, horizon + further))
    for order in ([first, second], [second, first], [second]):
        state = State(FOLDER).joined(order).joined(files)
        assert state.base == second[0]
        head = Head("t", state.log, history.settings)
        everything = State(FOLDER).joined(files).log
        kept = (everything.id_fields["hlc"] >= horizon + further) | (alive.find(everything.ids) >= 0)
        plain = Head("t", select(everything, kept), history.settings)
        assert shown(head, horizon + further) == shown(plain, horizon + further)


@given(expiries(VERBS), st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_snapshots_above_the_horizon_read_as_before(drawn: tuple[History, int, int], taken: int) -> None:
    """A snapshot that holds all that was folded stays readable, whatever arrived since; others do not."""
    history, listed, horizon = drawn
    files = history.files
    before = Head("t", State(FOLDER).joined(files[:taken]).log, history.settings)
    base = based(State(FOLDER).joined(files[:listed]), history, horizon)
    state = State(FOLDER).joined([base]).joined(files)
    folded = state.log.ids[state.log.is_folded]
    readable = bool((before.log.find(folded) >= 0).all()) and not _dead(before.log, state.log)
    if not readable:
        with pytest.raises(Expired):
            versions_of(state.log, before.snapshot, "t")
        return
    head = Head("t", versions_of(state.log, before.snapshot, "t"), history.settings)
    assert shown(head, horizon) == shown(before, horizon)


def _dead(snapshot: Log, log: Log) -> bool:
    return bool((log.find(snapshot.ids) < 0).any())
