"""What each lattice means, against slow models, and the traps others fell into."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.clock import VersionId
from crdtcat.errors import InvalidArgument
from crdtcat.lattice import GCounter, LatticeMap, LWWRegister, ORSet


class TestLWWRegister:
    @given(
        st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, unique_by=lambda write: write[0]
        )
    )
    def test_the_greatest_stamp_wins(self, writes: list[tuple[int, int]]) -> None:
        first, *rest = (LWWRegister(stamp, value) for stamp, value in writes)
        for register in rest:
            first = first.merge(register)
        assert (first.stamp, first.value) == max(writes)

    def test_equal_stamps_are_settled_by_bytes_in_both_directions(self) -> None:
        a, b = LWWRegister(1, "a"), LWWRegister(1, "b")
        assert a.merge(b).value == b.merge(a).value == "b"

    def test_version_ids_of_one_millisecond_do_not_tie(self) -> None:
        ours, theirs = VersionId(7, 1, 1, bytes(16)), VersionId(7, 2, 1, bytes(16))
        assert LWWRegister(ours, "z").merge(LWWRegister(theirs, "a")).value == "a"

    def test_values_need_not_be_hashable_or_equal_to_themselves(self) -> None:
        assert LWWRegister(1, [math.nan]) == LWWRegister(1, [math.nan])
        assert LWWRegister(1, True) != LWWRegister(1, 1)
        assert len({LWWRegister(1, {"a": [1]}), LWWRegister(1, {"a": [1]})}) == 1

    def test_a_stamp_without_order_is_refused(self) -> None:
        with pytest.raises(InvalidArgument, match="not ordered"):
            LWWRegister(math.nan, 1)


class TestGCounter:
    @given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3))), st.lists(st.integers(0, 2)))
    def test_every_increment_counts_once_however_often_it_is_merged(
        self, increments: list[tuple[int, int]], deliveries: list[int]
    ) -> None:
        """Three writers count alone; copies of their counters arrive in any order and number."""
        own: dict[int, GCounter[int]] = {writer: GCounter() for writer in range(3)}
        for writer, by in increments:
            own[writer] = own[writer].increment(writer, by)
        reader: GCounter[int] = GCounter()
        for writer in [*deliveries, 0, 1, 2]:
            reader = reader.merge(own[writer])
        assert reader.value == sum(by for _, by in increments)

    def test_zero_is_nothing(self) -> None:
        assert GCounter({"a": 0}) == GCounter()
        assert GCounter({"a": 0}).to_bytes() == GCounter().to_bytes()
        assert dict(GCounter[str]().increment("a").counts) == {"a": 1}

    @pytest.mark.parametrize("by", [-1, True, 1.0])
    def test_it_only_grows_by_integers(self, by: Any) -> None:
        with pytest.raises(InvalidArgument, match="only grows"):
            GCounter({"a": 3}).increment("a", by)
        with pytest.raises(InvalidArgument, match="only grows"):
            GCounter({"a": by})


class SlowORSet:
    """The model: two sets of facts that only grow. Obviously a semilattice; everything is derived."""

    def __init__(
        self, added: frozenset[tuple[int, str]] = frozenset(), removed: frozenset[int] = frozenset()
    ) -> None:
        self.added, self.removed = added, removed

    def elements(self) -> frozenset[str]:
        return frozenset(element for dot, element in self.added if dot not in self.removed)


class TestORSet:
    @given(st.data())
    def test_replicas_agree_with_the_slow_model(self, data: st.DataObject) -> None:
        replicas = [ORSet[int, str]() for _ in range(3)]
        models = [SlowORSet() for _ in range(3)]
        for dot in range(data.draw(st.integers(0, 12))):
            at, other = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))
            action = data.draw(st.sampled_from(["add", "remove", "merge"]))
            element = data.draw(st.sampled_from("ab"))
            if action == "add":
                replicas[at] = replicas[at].add(dot, element)
                models[at] = SlowORSet(models[at].added | {(dot, element)}, models[at].removed)
            elif action == "remove":
                dots = replicas[at].dots(element)
                replicas[at] = replicas[at].remove(dots)
                models[at] = SlowORSet(models[at].added, models[at].removed | dots)
            else:
                replicas[at] = replicas[at].merge(replicas[other])
                mine, theirs = models[at], models[other]
                models[at] = SlowORSet(mine.added | theirs.added, mine.removed | theirs.removed)
            assert replicas[at].elements == models[at].elements()
            assert replicas[at].removed == models[at].removed

    def test_an_addition_concurrent_with_a_removal_survives(self) -> None:
        common = ORSet[int, str]().add(1, "x")
        remover, adder = common.remove(common.dots("x")), common.add(2, "x")
        assert remover.merge(adder).elements == {"x"}
        assert remover.merge(common).elements == frozenset()
        assert "x" not in remover

    def test_a_removal_may_arrive_before_what_it_removes(self) -> None:
        early = ORSet[int, str]().remove([1])
        assert early.merge(ORSet({1: "x"})).elements == frozenset()
        assert early.context == {1}

    def test_a_dot_is_used_once(self) -> None:
        with pytest.raises(InvalidArgument, match="used before"):
            ORSet({1: "x"}).add(1, "y")
        with pytest.raises(InvalidArgument, match="used before"):
            ORSet({1: "x"}).remove([1]).add(1, "x")

    def test_one_dot_with_two_elements_still_merges_one_way(self) -> None:
        a, b = ORSet({1: "a"}), ORSet({1: "b"})
        assert a.merge(b) == b.merge(a)
        assert a.merge(b).elements == {"b"}

    def test_the_riak_shortcut_brings_removed_elements_back(self) -> None:
        """riak_dt PR 78: "the same dots were seen, so keep mine" forgets what the other side removed."""

        def shortcut(mine: ORSet[int, str], theirs: ORSet[int, str]) -> ORSet[int, str]:
            return mine if theirs.context <= mine.context else mine.merge(theirs)

        before = ORSet({1: "x", 2: "y"})
        after = before.remove([1])
        assert shortcut(before, after).elements == {"x", "y"}, "the shortcut resurrects x"
        assert before.merge(after).elements == {"y"}
        assert after.merge(before).elements == {"y"}


class TestLatticeMap:
    @given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 9))))
    def test_a_map_of_registers_is_the_greatest_write_per_key(
        self, writes: list[tuple[str, int, int]]
    ) -> None:
        merged: LatticeMap[str, LWWRegister[int]] = LatticeMap()
        model: dict[str, tuple[int, int]] = {}
        for key, stamp, value in writes:
            merged = merged.update(key, LWWRegister(stamp, value))
            model[key] = max(model.get(key, (stamp, value)), (stamp, value))
        assert {key: (held.stamp, held.value) for key, held in merged.items()} == model
        assert len(merged) == len(model)

    def test_writers_of_different_keys_do_not_disturb_each_other(self) -> None:
        a = LatticeMap({"a": GCounter({"w": 1})})
        b = LatticeMap({"b": GCounter({"w": 2})})
        assert a.merge(b) == LatticeMap({"b": GCounter({"w": 2}), "a": GCounter({"w": 1})})

    def test_lattices_of_two_types_do_not_mix(self) -> None:
        mixed: LatticeMap[str, Any] = LatticeMap({"a": GCounter[str]()})
        with pytest.raises(InvalidArgument, match="GCounter and LWWRegister"):
            mixed.update("a", LWWRegister(1, 1))
