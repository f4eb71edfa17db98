"""Expiry changes no row of a keyed table, whoever overwrites, deletes, compacts or arrives late beside it.

Histories of real version files. What an expirer had listed is any beginning of one; a second expirer goes on
from its base. Held against the reference model of the versions that are not dead.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.chunks.read import FooterCache
from crdtcat.head import Head
from crdtcat.log import State, encode_bundle
from crdtcat.log.horizon import below, emptied
from crdtcat.protocol import base_name, base_number
from crdtcat.scan import Scan
from crdtcat.store.memory import MemoryStore
from crdtcat.writing.inlined import moved_to_segments
from tests.bounds import bounded
from tests.keyed.histories import FOLDER, Made, history, model_settings, settings_for
from tests.keyed.test_model import KEYS, SEEDS
from tests.model import head as model_head
from tests.model.versions import state_of

STORE = MemoryStore("memory://keyed-expired")


def based(state: State, key: tuple[str, ...], horizon: int) -> tuple[str, bytes]:
    """The base that an expirer with this state writes."""
    log = below(state.log, horizon)
    needed = Head("t", log, settings_for(key)).rows.chunks_to_keep
    moved = moved_to_segments(emptied(log, horizon, needed), needed)
    for put in moved.puts:
        STORE.put(put.name, put.data)
    number = base_number(state.base) + 1
    return base_name(FOLDER, number), encode_bundle(moved.log, FOLDER, number=number)


def expiries(choose: random.Random, made: Sequence[Made], key: tuple[str, ...]) -> Iterator[State]:
    """What readers have in turn: before, and after each of two expiries, with all that arrived since."""
    files, times = [(one.name, one.data) for one in made], [one.version.id.hlc for one in made]
    listed = horizon = 0
    bases: list[tuple[str, bytes]] = []
    for _ in range(2):
        listed = choose.randint(listed, len(files))
        late = choose.random() < 0.25  # some of what it has not listed lies below its horizon, and is dead
        wanted = choose.choice(times)
        horizon = max(horizon, wanted if late else min([wanted, *times[listed:]]))
        bases.append(based(State(FOLDER).joined(bases).joined(files[:listed]), key, horizon))
        state = State(FOLDER).joined(bases).joined(files)
        if saw_the_dead(made, state):
            return
        yield state


def saw_the_dead(made: Sequence[Made], state: State) -> bool:
    """Whether a version counts that had seen one which an expiry passed by: what it says rests on that."""
    left = alive(made, state)
    dead = [one.version for one in made if one not in left and not one.is_upkeep]
    return any(one.version.saw(other) for one in left for other in dead)


def alive(made: Sequence[Made], state: State) -> list[Made]:
    """Those that no horizon has passed by."""
    return [one for one in made if state.log.index_of(one.version.id) >= 0]


def rows_of(state: State, key: tuple[str, ...]) -> list[dict[str, Any]]:
    head = Head("t", state.log, settings_for(key))
    scan = Scan(head, STORE, columns=None, filter=None, verify=True, footers=FooterCache())
    rows: list[dict[str, Any]] = scan.to_table().to_pylist()
    return rows


@settings(deadline=None, max_examples=bounded(100, 10))
@given(seed=SEEDS, key=st.sampled_from(KEYS))
def test_expiry_changes_no_row(seed: int, key: tuple[str, ...]) -> None:
    choose, made = random.Random(seed), history(seed, key, steps=16)
    if not made:
        return
    for state in expiries(choose, made, key):
        left = alive(made, state)
        there = state_of(*(one.version for one in left if not one.is_upkeep))
        expected = model_head.head(there, model_settings(settings_for(key))).rows
        assert rows_of(state, key) == list(expected)
        plain = State(FOLDER).joined([(one.name, one.data) for one in left])
        roots = [Head("t", each.log, settings_for(key)).root_hash for each in (state, plain)]
        assert roots[0] == roots[1]
