"""Clocks are put together from differences: equal to what authors had seen, without keeping them all."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.clock import VectorClock, VersionId
from crdtcat.format.ops import Ops
from crdtcat.format.settings import Settings
from crdtcat.format.version import OPERATIONS, encode_version
from crdtcat.head import Head, clocks
from crdtcat.head.clocks import KEPT, Clocks, Members
from crdtcat.log.gaps import clock_of
from crdtcat.log.state import State
from crdtcat.protocol import version_name
from crdtcat.testing.strategies_log import FOLDER, History, histories, play, steps
from tests.bounds import bounded

OVERWRITES = ("overwrite", "overwrite partition", "overwrite partition", "append", "properties")


@given(histories(most=14), st.randoms(use_true_random=False), st.integers(1, 4))
@settings(max_examples=bounded(100, 2), deadline=None)
def test_a_clock_is_what_the_author_had_seen_whatever_is_remembered(
    history: History, random: Any, kept: int
) -> None:
    log = history.state().log
    known = {log.index_of(made.id): made.clock for made in history.versions}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, "KEPT", kept)
        ours = Clocks(log)
        for at in random.choices(sorted(known), k=3 * len(known)) if known else ():
            assert ours.of(at) == known[at]
            assert len(ours._known) <= kept
    versions = np.arange(len(log))
    for other, at in itertools.product(known, known):
        id = log.id_at(other)
        assert ours.saw(at, other) == known[at].saw(id.writer, id.seq)
        assert (at in ours.unaware(versions, other)) == (not ours.saw(at, other))
        assert bool(Members(log, versions[::-1]).seen_by(known[at])[::-1][other]) == ours.saw(at, other)


@given(st.builds(play, steps(OVERWRITES, authors=5, most=16)))
@settings(max_examples=bounded(150, 2), deadline=None)
def test_lost_overwrites_and_properties_are_those_of_the_plain_rules(history: History) -> None:
    head = Head("t", history.state().log, history.settings)
    standing = {version.id for version in head.history}
    made = sorted((made for made in history.versions if made.id in standing), key=lambda made: made.id)
    expected: set[tuple[str, str, VersionId, VersionId]] = set()
    for loser in (one for one in made if one.ops.is_overwrite):
        winners = [
            one.id
            for one in made
            if one.ops.is_overwrite and one.id > loser.id and not one.clock.saw(loser.id.writer, loser.id.seq)
            if loser.ops.scope is None or one.ops.scope is None or loser.ops.scope & one.ops.scope
        ]
        if winners:
            expected.add(("overwrite", "", max(winners), loser.id))
    for name in {name for one in made for name in one.ops.properties}:
        writes = [one for one in made if name in one.ops.properties]
        for loser in writes[:-1]:
            if not any(one.clock.saw(loser.id.writer, loser.id.seq) for one in writes if one is not loser):
                expected.add(("property", name, writes[-1].id, loser.id))
    listed = [item for item in head.conflicts if item.kind in {"overwrite", "property"}]
    assert {(item.kind, item.subject, item.winner, item.loser) for item in listed} == expected
    assert len(listed) == len(expected)


def chain(count: int, *, blind: int) -> Head:
    """Overwrites by as many writers, each of which saw the one before; every `blind`-th saw nothing."""
    files, parent = [], None
    for writer in range(1, count + 1):
        body: dict[str, Any] = {"h": writer, "w": writer, "s": 1, "l": FOLDER, "k": None}
        body |= {"o": OPERATIONS.index("overwrite")}
        body |= {"x": Ops(is_overwrite=True, scope=None, properties={"last": writer}).encode()}
        if writer % blind:
            body |= {"c": {}} if parent is None else {"p": parent.to_bytes(), "c": {parent.writer: 1}}
        id, data = encode_version(body)
        files.append((version_name(FOLDER, id), data))
        parent = id if writer % blind else parent
    return Head("t", State(FOLDER).joined(files).log, Settings())


def test_overwrites_of_many_writers_cost_linear_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    read, entries = [0], [0]
    original = clock_of

    def counted(blob: bytes, name: str) -> tuple[bytes | None, dict[int, int]]:
        read[0] += 1
        return original(blob, name)

    class Watched(Clocks):
        def of(self, index: int) -> VectorClock:
            clock = super().of(index)
            entries[0] = max(entries[0], sum(map(len, self._known.values())))
            return clock

    monkeypatch.setattr(clocks, "clock_of", counted)
    monkeypatch.setattr("crdtcat.head.fold.Clocks", Watched)
    for count in (200, 800):
        read[0] = entries[0] = 0
        head = chain(count, blind=90)
        lost = {item.loser.writer for item in head.conflicts if item.loser and item.kind == "overwrite"}
        assert lost == set(range(1, count // 90 * 90 + 1))  # the last blind one, and all before it
        assert entries[0] <= KEPT * count
        assert read[0] <= 3 * count  # each difference once for overwrites, once for properties


def test_a_clock_of_a_long_chain_is_put_together_without_those_before_it() -> None:
    head = chain(800, blind=10_000)
    ours = Clocks(head.log)
    assert ours.of(799) == VectorClock(dict.fromkeys(range(1, 801), 1))
    assert list(ours._known) == [799]
