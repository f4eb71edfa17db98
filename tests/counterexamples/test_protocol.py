"""Sections 4 and 5: races told step by step. Each wrong protocol loses something; the right one does not.

A store here is a dict. Steps of two parties are interleaved in every order that keeps each party's own, which
is few enough to try them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from crdtcat.clock import hlc
from tests.model.authors import Author
from tests.model.expiry import expire
from tests.model.head import head
from tests.model.versions import State, Version, state_of

Party = list[Callable[[], None]]


def interleavings(one: int, two: int) -> Iterator[tuple[int, ...]]:
    """Every order of `one` steps of party 0 and `two` of party 1."""
    for places in itertools.combinations(range(one + two), one):
        yield tuple(0 if at in places else 1 for at in range(one + two))


def run(order: tuple[int, ...], *parties: Party) -> None:
    left = [list(party) for party in parties]
    for who in order:
        left[who].pop(0)()


def test_one_overwritten_latest_file_loses_data() -> None:
    """Two bundlers read the same "latest"; what the first covered was collected before the second wrote."""
    latest = frozenset({"v1"})
    first, second = latest | {"v2"}, latest | {"v3"}  # both read before either wrote
    overwritten = {"v2": {"v2"}, "v3": {"v3"}, "latest": set(first)}
    del overwritten["v2"]  # covered by the durable "latest", so collected
    overwritten["latest"] = set(second)
    assert "v2" not in set().union(*overwritten.values())

    named = {"v2": {"v2"}, "v3": {"v3"}, "z1-aa": set(first)}
    del named["v2"]
    named["z1-bb"] = set(second)
    assert set().union(*named.values()) == {"v1", "v2", "v3"}


def test_skipping_a_vanished_file_loses_data_listing_again_does_not() -> None:
    store = {"v1": {"v1"}, "v2": {"v2"}}
    listed = sorted(store)
    store["z1-aa"] = {"v1", "v2"}
    del store["v1"], store["v2"]  # the grace period is over, the reader was slow
    skipping: set[str] = set().union(*(store[name] for name in listed if name in store))
    assert skipping == set()
    while any(name not in store for name in listed):
        listed = sorted(store)
    assert set().union(*(store[name] for name in listed)) == {"v1", "v2"}


def test_a_watermark_as_coverage_loses_a_slow_writers_commit() -> None:
    """ "Everything before T" also covers a version stamped before T and PUT after the bundler's listing."""
    quick = Author(1).append({"a": 1}, time=3)
    slow = Author(2).append({"a": 2}, time=2)  # stamped early, PUT late
    bundled, watermark = state_of(quick), quick.id
    coverage = frozenset({quick.id})

    def read(covered: Callable[[Version], bool]) -> list[int]:
        rest = [version for version in (quick, slow) if not covered(version)]
        return head(bundled.join(state_of(*rest))).values("a")

    assert read(lambda version: version.id <= watermark) == [1], "acknowledged and gone"
    assert read(lambda version: version.id in coverage) == [2, 1]


@pytest.mark.parametrize(("proposes", "loses"), [(False, True), (True, False)])
def test_reading_the_horizon_alone_races_the_expirer(proposes: bool, loses: bool) -> None:
    """A slow writer whose id is below the horizon. Wrong: it looks for a base only. Right: for a proposal,
    which the expirer PUTs before it lists."""
    straggler = Author(2).append({"a": 2}, time=3)
    lost_acknowledged = 0
    for order in interleavings(2, 3):
        log: set[Version] = {Author(1).append({"a": 1}, time=2)}
        proposals: set[int] = set()
        bases: list[State] = []
        listed: set[Version] = set()
        answers: list[str] = []

        def check() -> None:
            seen = proposals if proposes else {base.horizon for state in bases for base in state.bases}  # noqa: B023
            below = any(straggler.id.hlc < horizon for horizon in seen)
            answers.append("unknown" if below else "acknowledged")  # noqa: B023

        writer: Party = [lambda: log.add(straggler), check]  # noqa: B023
        expirer: Party = [
            lambda: proposals.add(5),  # noqa: B023
            lambda: listed.update(log),  # noqa: B023
            lambda: bases.append(expire(state_of(*listed), 5)),  # noqa: B023
        ]
        run(order, writer, expirer)
        rows = head(bases[0].join(state_of(*log))).values("a")
        lost_acknowledged += answers == ["acknowledged"] and 2 not in rows
    assert (lost_acknowledged > 0) is loses


@pytest.mark.parametrize(("content_addressed", "loses"), [(True, True), (False, False)])
def test_content_addressed_segment_names_race_the_collector(content_addressed: bool, loses: bool) -> None:
    """An orphan's name is PUT again between the collector's re-check and its delete."""
    dangling = 0
    for order in interleavings(2, 2):
        orphan = "data/h.parquet" if content_addressed else "data/h-1.parquet"
        mine = "data/h.parquet" if content_addressed else "data/h-2.parquet"
        segments = {orphan}
        referred: set[str] = set()
        doomed: set[str] = set()
        writer: Party = [lambda: segments.add(mine), lambda: referred.add(mine)]  # noqa: B023
        collector: Party = [
            lambda: doomed.update({orphan} - referred),  # noqa: B023  (re-check: nobody refers to it)
            lambda: segments.difference_update(doomed),  # noqa: B023
        ]
        run(order, writer, collector)
        dangling += not referred <= segments
    assert (dangling > 0) is loses


def test_rejecting_by_the_readers_clock_breaks_convergence() -> None:
    """Two readers of the same files whose clocks differ by a little: one takes a version, one does not."""
    versions = [Author(1).append({"a": 1}, time=10), Author(2).append({"a": 2}, time=30)]

    def rejecting(now: int, drift: int = 5) -> list[int]:
        return head(state_of(*(version for version in versions if version.id.hlc <= now + drift))).values("a")

    assert rejecting(now=24) != rejecting(now=25)
    assert head(state_of(*versions)) == head(state_of(*reversed(versions)))


def test_a_drift_check_on_read_lets_one_bad_clock_stop_everybody() -> None:
    """Wrong: receiving a timestamp too far ahead raises. Right: it is taken, and every later one is above."""
    physical_ms, drift_ms = 1_000, 500
    future = hlc.pack(physical_ms + 3_600_000)

    def checking(last: int, remote: int) -> int:
        if hlc.milliseconds(remote) > physical_ms + drift_ms:
            raise ValueError("clock drift")
        return hlc.receive(last, remote, physical_ms)

    with pytest.raises(ValueError, match="drift"):
        checking(0, future)
    assert hlc.receive(0, future, physical_ms) > future
