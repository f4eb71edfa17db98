"""The laws, each a function that returns a claim z3 must prove.

What Coq proves about unbounded numbers is asked here again where machines are bounded: timestamps are 64-bit
words, names are fixed-width. The formulas restate `crdtcat.clock`, `crdtcat.lattice` and the head's rules in
a few lines each, so that a second, independent statement stands beside the code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from proofs.smt.prover import semilattice, z3

Law = Callable[[], Any]


def larger(a: Any, b: Any) -> Any:
    """The maximum of two words, unsigned."""
    return z3.If(z3.UGE(a, b), a, b)


def _clock(last: str, physical: str) -> tuple[Any, Any, Any]:
    """A clock, a wall time, and what is assumed: 48 bits of milliseconds, room for one more tick."""
    before, wall = z3.BitVec(last, 64), z3.BitVec(physical, 64)
    return before, wall, z3.And(z3.ULT(wall, 2**48), z3.ULT(before, 2**64 - 1))


def hlc_tick_in_64_bits() -> Any:
    """A tick is above the last one and never wraps, short of the year 10889."""
    last, wall, assumed = _clock("last", "wall")
    ticked = larger(last + 1, wall << 16)
    return z3.Implies(assumed, z3.And(z3.UGT(ticked, last), z3.UGE(ticked, wall << 16)))


def hlc_receive_in_64_bits() -> Any:
    """A receive is above both sides, also when they are equal."""
    last, wall, assumed = _clock("last", "wall")
    remote = z3.BitVec("remote", 64)
    received = larger(larger(last, remote) + 1, wall << 16)
    room = z3.And(assumed, z3.ULT(remote, 2**64 - 1))
    return z3.Implies(room, z3.And(z3.UGT(received, last), z3.UGT(received, remote)))


def hlc_packing_orders() -> Any:
    """Packed timestamps compare as (milliseconds, counter)."""
    m, c, n, d = (z3.BitVec(name, 64) for name in "mcnd")
    assumed = z3.And(z3.ULT(m, 2**48), z3.ULT(n, 2**48), z3.ULT(c, 2**16), z3.ULT(d, 2**16))
    pairs = z3.Or(z3.ULT(m, n), z3.And(m == n, z3.ULT(c, d)))
    return z3.Implies(assumed, z3.ULT(m << 16 | c, n << 16 | d) == pairs)


def _id(name: str) -> list[Any]:
    return [z3.BitVec(f"{name}_{part}", bits) for part, bits in (("h", 64), ("w", 64), ("s", 32), ("d", 128))]


def _before(a: list[Any], b: list[Any]) -> Any:
    """Lexicographic comparison, as Python compares tuples."""
    claim: Any = z3.BoolVal(False)
    for x, y in reversed(list(zip(a, b, strict=True))):
        claim = z3.Or(z3.ULT(x, y), z3.And(x == y, claim))
    return claim


def version_ids_totally_ordered() -> Any:
    """Irreflexive, transitive, total."""
    a, b, c = _id("a"), _id("b"), _id("c")
    same = z3.And(*(x == y for x, y in zip(a, b, strict=True)))
    return z3.And(
        z3.Not(_before(a, a)),
        z3.Implies(z3.And(_before(a, b), _before(b, c)), _before(a, c)),
        z3.Or(_before(a, b), same, _before(b, a)),
    )


def version_id_bytes_sort_as_ids() -> Any:
    """The 36 bytes, compared as one big-endian number, sort as the tuples do."""
    a, b = _id("a"), _id("b")
    return z3.ULT(z3.Concat(*a), z3.Concat(*b)) == _before(a, b)


def lww_merge_laws() -> Any:
    """The greater stamp, then the greater bytes of the value."""
    register = z3.Datatype("Register")
    register.declare("make", ("stamp", z3.IntSort()), ("bytes", z3.IntSort()))
    sort = register.create()

    def merge(a: Any, b: Any) -> Any:
        first, second = (sort.stamp(a), sort.bytes(a)), (sort.stamp(b), sort.bytes(b))
        less = z3.Or(first[0] < second[0], z3.And(first[0] == second[0], first[1] <= second[1]))
        return z3.If(less, b, a)

    return semilattice(merge, *z3.Consts("a b c", sort))


def counter_merge_laws() -> Any:
    """Pointwise maximum, at any one writer; vector clocks are the same."""
    counts = z3.Function("counts", z3.IntSort(), z3.IntSort(), z3.IntSort())
    writer = z3.Int("writer")

    def merge(a: Any, b: Any) -> Any:
        return z3.If(a >= b, a, b)

    return semilattice(merge, *(counts(replica, writer) for replica in range(3)))


def _dots() -> Any:
    dot = z3.Datatype("Dot")
    dot.declare("unseen")
    dot.declare("live", ("element", z3.IntSort()))
    dot.declare("removed")
    return dot.create()


def _dot_join(sort: Any) -> Callable[[Any, Any], Any]:
    def join(a: Any, b: Any) -> Any:
        both = sort.live(z3.If(sort.element(a) >= sort.element(b), sort.element(a), sort.element(b)))
        gone = z3.Or(a == sort.removed, b == sort.removed)
        only = z3.If(a == sort.unseen, b, z3.If(b == sort.unseen, a, both))
        return z3.If(gone, sort.removed, only)

    return join


def orset_merge_laws() -> Any:
    """Per dot the chain unseen < live < removed."""
    sort = _dots()
    return semilattice(_dot_join(sort), *z3.Consts("a b c", sort))


def orset_equals_causal_context_form() -> Any:
    """A dot is live after merging if it is live on both sides, or on one and unseen on the other."""
    sort = _dots()
    a, b = z3.Consts("a b", sort)
    live, merged = sort.is_live, _dot_join(sort)(a, b)
    textbook = z3.Or(
        z3.And(live(a), live(b)),
        z3.And(live(a), b == sort.unseen),
        z3.And(live(b), a == sort.unseen),
    )
    return live(merged) == textbook


def state_join_laws() -> Any:
    """Union of sets of versions."""
    return semilattice(z3.SetUnion, *(z3.Const(name, z3.SetSort(z3.IntSort())) for name in "abc"))


def deletes_are_final() -> Any:
    """Alive means added and not deleted; what is deleted in a part is not alive in the whole."""
    added, deleted, more_added, more_deleted = (
        z3.Const(name, z3.SetSort(z3.IntSort())) for name in ("added", "deleted", "more", "further")
    )
    row = z3.Int("row")
    alive = z3.And(
        z3.IsMember(row, z3.SetUnion(added, more_added)),
        z3.Not(z3.IsMember(row, z3.SetUnion(deleted, more_deleted))),
    )
    return z3.Implies(z3.IsMember(row, deleted), z3.Not(alive))


def keyed_rows_merge() -> Any:
    """Keyed tables: a cell counts unless a delete is above it; merging first or last is the same."""
    cells, deletes = z3.Ints("cell_a cell_b"), z3.Ints("delete_a delete_b")

    def top(pair: list[Any]) -> Any:
        return z3.If(pair[0] >= pair[1], pair[0], pair[1])

    merged = top(cells) >= top(deletes)
    seen = z3.Or(*(z3.And(*(cell >= delete for delete in deletes)) for cell in cells))
    return merged == seen


def overlap_is_exact() -> Any:
    """Two intervals of one tag overlap by their ends exactly if some row is in both."""
    a, b, c, d, row = z3.Ints("a b c d row")
    low, high = z3.If(a >= c, a, c), z3.If(b <= d, b, d)
    inside = z3.And(a <= row, row < b, c <= row, row < d)
    sound = z3.Implies(low < high, z3.And(a <= low, low < b, c <= low, low < d))
    return z3.And(sound, z3.Implies(inside, low < high))


LAWS: tuple[Law, ...] = (
    hlc_tick_in_64_bits,
    hlc_receive_in_64_bits,
    hlc_packing_orders,
    version_ids_totally_ordered,
    version_id_bytes_sort_as_ids,
    lww_merge_laws,
    counter_merge_laws,
    orset_merge_laws,
    orset_equals_causal_context_form,
    state_join_laws,
    deletes_are_final,
    keyed_rows_merge,
    overlap_is_exact,
)
