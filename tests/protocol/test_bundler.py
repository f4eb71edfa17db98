"""The bundler, step by step: what it takes in, what it asks for, what it publishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from crdtcat.errors import StoreUnavailable
from crdtcat.format.decision import encode_decision
from crdtcat.format.version import encode_version
from crdtcat.log import State, Summary
from crdtcat.maintenance.bundling import FilesPlan, result_of
from crdtcat.maintenance.checkpoint import CheckpointPlan
from crdtcat.protocol import Get, Got, Outcome, Put, Stored, base_name, bundle_name, bundle_rank
from crdtcat.protocol.bundler import (
    BUNDLE_VERSIONS_MAX,
    RATIO,
    Bundler,
    Made,
    live_bundles,
    rank_above,
    replaced_by,
    taken_in,
)
from crdtcat.protocol.claimer import NO_CLAIM
from crdtcat.protocol.names import decision_name
from crdtcat.protocol.publish import TRIES
from crdtcat.support.object_bytes import ObjectBytes
from tests.protocol.scenes import FOLDER, bundle, version

V1, V2, V3 = version(1, 1), version(2, 2), version(3, 3)


def sized(versions: int, *replaces: str) -> Summary:
    return Summary(versions, b"", b"", frozenset(replaces))


def named(place: int, rank: int = 1) -> str:
    return bundle_name(FOLDER, rank, bytes([place]) * 16)


@dataclass(frozen=True)
class Wanting:
    """A plan that wants some names, then some more, and makes a bundle of the names that it found."""

    names: tuple[str, ...]
    more: tuple[str, ...] = ()
    at_once: int = 2

    def wanted(self, files: Sequence[tuple[str, ObjectBytes]]) -> Sequence[str]:
        return (*self.names, *(self.more if files else ()))

    def made(self, files: Sequence[tuple[str, ObjectBytes]], *, old: bool) -> Made | None:
        found = ",".join(name for name, _ in files)
        return Made((Put("segment", b""), Put(found, b"")), len(files)) if files and not old else None


def test_smaller_bundles_are_taken_in_from_the_smallest_up() -> None:
    assert (RATIO, BUNDLE_VERSIONS_MAX) == (3, 1_000_000)
    live = {named(1): sized(11), named(2): sized(2), named(3): sized(9), named(4): sized(100)}
    assert taken_in(live, 1) == [named(2)]  # 2 < 3; then 9 is 3 times 3
    assert taken_in(live, 2) == [named(2), named(3), named(1)]  # 2 < 6, 9 < 12, 11 < 39, and 100 is not < 72
    assert taken_in(live, 12)[-1] == named(4)
    assert taken_in({named(1): sized(3)}, 1) == []
    assert taken_in({}, 5) == []
    assert taken_in({named(2): sized(1), named(1): sized(1)}, 1) == [named(1), named(2)]


def test_no_bundle_grows_beyond_memory_and_no_base_is_taken_in() -> None:
    assert taken_in({named(1): sized(BUNDLE_VERSIONS_MAX - 5)}, 5 + BUNDLE_VERSIONS_MAX // 3) == []
    half = BUNDLE_VERSIONS_MAX // 2
    assert taken_in({named(1): sized(half)}, half) == [named(1)]
    assert taken_in({named(1): sized(half)}, half + 1) == []
    assert taken_in({base_name(FOLDER, 1): sized(1)}, 5) == []


def test_what_a_bundle_stands_for_and_its_rank() -> None:
    live = {named(1): sized(1, named(7), named(8)), named(2): sized(1)}
    assert live_bundles({**live, named(7): sized(9)}) == live
    assert replaced_by([named(1)], live, [named(2), named(8), named(1)]) == [named(1), named(8)]
    assert replaced_by([], live, [named(1)]) == []
    assert rank_above([]) == 1
    assert rank_above([named(1, 2), named(2, 5), named(3, 1)]) == 6


def test_files_are_fetched_a_few_at_a_time_and_what_follows_from_them_after() -> None:
    step = Bundler.begin(Wanting(("a", "b", "c"), ("d", "a")))
    assert step.wants == (Get("a"), Get("b"))
    with pytest.raises(ValueError, match="shorter"):
        step.take([Got(b"1")])
    step = step.take([Got(b"1"), Got(None)])
    assert step.wants == (Get("c"),)
    step = step.take([Got(b"3")])
    assert step.wants == (Get("d"),)
    step = step.take([Got(None)])
    assert [want.name for want in step.wants if isinstance(want, Put)] == ["segment"]
    step = step.take([Stored()])
    assert [want.name for want in step.wants if isinstance(want, Put)] == ["a,c"]
    step = step.take([Stored()])
    assert step.wants == ()
    assert step.publish is not None
    assert step.bundle is not None
    assert (step.publish.outcome, step.bundle.name) == (Outcome.DONE, "a,c")
    assert (step.bundle.newly_covered, step.bundle.taken, step.bundle.newest) == (0, (), NO_CLAIM)


def test_a_plan_is_told_that_it_took_long_and_may_have_nothing_to_do() -> None:
    step = Bundler.begin(Wanting(("a", "b", "c")))
    late = step.take([Got(b"1"), Got(b"2")]).aged().take([Got(b"3")])
    assert (late.wants, late.bundle, late.publish) == ((), None, None)
    assert result_of(late).versions == 0
    assert Bundler.begin(Wanting(())).wants == ()


def test_a_bundle_that_could_not_be_stored_is_reported() -> None:
    step = Bundler.begin(Wanting(("a",))).take([Got(b"1")]).take([Stored()])
    for _ in range(TRIES):
        step = step.take([Stored(clear=False)])
    with pytest.raises(StoreUnavailable, match="a: the bundle could not be stored"):
        result_of(step)


def published(step: Bundler[CheckpointPlan]) -> Made:
    assert step.bundle is not None
    return step.bundle


def test_a_checkpoint_reads_bundles_back_and_bundles_what_waits() -> None:
    state = State(FOLDER).joined([V1, V2])
    first = bundle(state, [], 1)
    whole = state.joined([first, V3])
    plan = CheckpointPlan(whole, (V1[0], V2[0], V3[0], first[0]))
    step = Bundler.begin(plan)
    assert step.wants == (Get(first[0]),)
    made = published(step.take([Got(first[1])]))  # 2 are less than 3 times 1: taken in
    assert (made.versions, made.newly_covered, made.taken) == (3, 1, (first[0],))
    assert bundle_rank(made.name) == 2
    found = whole.read((made.name, bytes(made.puts[-1].data)))
    assert found.replaces == {first[0]}
    gone = published(step.take([Got(None)]))  # collected meanwhile: nobody can tell, so all of it
    assert (gone.versions, gone.taken, bundle_rank(gone.name)) == (3, (), 1)
    assert Bundler.begin(replace(plan, state=state.joined([first]))).take([Got(first[1])]).bundle is None


def test_a_claim_that_is_not_decided_is_not_bundled() -> None:
    stamp = {"h": 5, "w": 9, "s": 1}
    _, part = encode_version({**stamp, "o": 0, "l": FOLDER, "x": b"\x80"})
    _, data = encode_version({**stamp, "#": 1, "t": {FOLDER: [part]}, "l": FOLDER})
    name, decision = f"{FOLDER}{1:016d}.c", decision_name(9)
    step = Bundler.begin(FilesPlan(FOLDER, (name,))).take([Got(data)])
    assert step.wants == (Get(decision),)
    assert step.take([Got(None)]).bundle is None
    word = Got(encode_decision(committed=False))
    assert step.take([word]).bundle is not None
    assert step.aged().take([word]).bundle is None, "it may have been made again"
    plain = Bundler.begin(FilesPlan(FOLDER, (V1[0],))).aged().take([Got(V1[1])])
    assert plain.bundle is not None
    assert (plain.bundle.versions, plain.bundle.newly_covered) == (1, 1)
