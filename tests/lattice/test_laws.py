"""The same laws for every lattice: random values, and every triple of a small scope."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.clock import VersionId
from crdtcat.lattice import CanonicalLattice, GCounter, Lattice, LatticeMap, LWWRegister, ORSet

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.text(max_size=2)
    | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=1), inner, max_size=2),
    max_leaves=4,
)
version_ids = st.builds(
    VersionId,
    st.integers(0, 2),
    st.integers(0, 1),
    st.integers(1, 2),
    st.sampled_from([bytes(16), b"\1" * 16]),
)
registers = st.builds(LWWRegister, version_ids, plain)
counters = st.dictionaries(st.integers(0, 3), st.integers(0, 5)).map(GCounter)
sets = st.builds(
    ORSet, st.dictionaries(st.integers(0, 4), st.text(max_size=1)), st.frozensets(st.integers(0, 4))
)
maps = st.dictionaries(st.sampled_from("abc"), counters).map(LatticeMap)
nested_maps = st.dictionaries(st.sampled_from("ab"), maps).map(LatticeMap)

KINDS = {"lww": registers, "gcounter": counters, "orset": sets, "map": maps, "nested map": nested_maps}


def check_laws(a: Any, b: Any, c: Any) -> None:
    ab = a.merge(b)
    assert ab.merge(c) == a.merge(b.merge(c)), "associative"
    assert ab == b.merge(a), "commutative"
    assert a.merge(a) == a, "idempotent"
    assert a <= ab, "an upper bound"
    assert b <= ab, "an upper bound"
    if a <= c and b <= c:
        assert ab <= c, "the least upper bound"
    if a <= b:
        assert a.merge(c) <= b.merge(c), "monotone"
        assert not b < a, "antisymmetric"
    assert ab.to_bytes() == b.merge(a).to_bytes(), "canonical"
    assert hash(ab) == hash(b.merge(a)), "hashes follow equality"


@pytest.mark.parametrize("kind", KINDS)
def test_laws_hold_for_random_values(kind: str) -> None:
    values = KINDS[kind]

    @given(values, values, values)
    def laws(a: Any, b: Any, c: Any) -> None:
        check_laws(a, b, c)

    laws()


@pytest.mark.parametrize("kind", KINDS)
def test_merging_in_any_order_grouping_and_number_gives_one_value(kind: str) -> None:
    @given(st.lists(KINDS[kind], min_size=1, max_size=5), st.randoms(use_true_random=False))
    def converge(values: list[Any], random: Any) -> None:
        expected = merge_all(values)
        again = values + random.choices(values, k=2)
        random.shuffle(again)
        while len(again) > 1:
            at = random.randrange(len(again) - 1)
            again[at : at + 2] = [again[at].merge(again[at + 1])]
        assert again[0].to_bytes() == expected.to_bytes()

    converge()


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_lattices_and_survive_pickling(kind: str) -> None:
    @given(KINDS[kind])
    def check(value: Any) -> None:
        assert isinstance(value, Lattice)
        assert pickle.loads(pickle.dumps(value)) == value
        assert repr(value)

    check()


def merge_all(values: Iterable[Any]) -> Any:
    first, *rest = values
    for value in rest:
        first = first.merge(value)
    return first


def all_orsets() -> list[ORSet[int, str]]:
    """Every state of a set over 3 dots: each unseen, live or removed."""
    states = []
    for places in itertools.product(("unseen", "live", "removed"), repeat=3):
        live = {dot: f"element {dot % 2}" for dot, place in enumerate(places) if place == "live"}
        states.append(ORSet(live, [dot for dot, place in enumerate(places) if place == "removed"]))
    return states


def all_registers() -> list[LWWRegister[Any]]:
    return [LWWRegister(stamp, value) for stamp in (0, 1, 2) for value in (None, 0, False, "a", [1])]


def all_counters() -> list[GCounter[str]]:
    return [GCounter({"a": a, "b": b}) for a in range(4) for b in range(4)]


def all_maps() -> list[LatticeMap[str, GCounter[str]]]:
    inner = [None, GCounter({}), GCounter({"w": 1}), GCounter({"w": 2, "v": 1})]
    return [
        LatticeMap({key: value for key, value in (("x", x), ("y", y)) if value is not None})
        for x in inner
        for y in inner
    ]


@pytest.mark.parametrize("scope", [all_orsets, all_registers, all_counters, all_maps])
def test_laws_hold_for_every_triple_of_a_small_scope(scope: Any) -> None:
    values: list[CanonicalLattice] = scope()
    assert len({value.to_bytes() for value in values}) == len(values), "different values, different bytes"
    # Each distinct pair is merged once; the laws then compare indices, so all triples take a second.
    index = {value.to_bytes(): i for i, value in enumerate(values)}
    size = range(len(values))
    merged = [[index[values[i].merge(values[j]).to_bytes()] for j in size] for i in size]
    for i, j, k in itertools.product(size, repeat=3):
        assert merged[merged[i][j]][k] == merged[i][merged[j][k]]
        assert merged[i][j] == merged[j][i]
        assert merged[i][i] == i
        if merged[i][j] == j:
            assert merged[merged[i][k]][merged[j][k]] == merged[j][k]
