"""Claims that were believed elsewhere and are false: z3 must refute each, or the laws prove nothing."""

from __future__ import annotations

from typing import Any

from proofs.smt.laws import Law, larger
from proofs.smt.prover import semilattice, z3


def lww_by_timestamp_alone() -> Any:
    """Keeping one's own value on a tie is not commutative."""
    register = z3.Datatype("Timed")
    register.declare("make", ("time", z3.IntSort()), ("value", z3.IntSort()))
    sort = register.create()
    return semilattice(lambda a, b: z3.If(sort.time(a) >= sort.time(b), a, b), *z3.Consts("a b c", sort))


def receive_without_the_equal_case() -> Any:
    """Counting on only from the greater side, and only if it is strictly greater, repeats a timestamp."""
    last, remote = z3.BitVecs("last remote", 64)
    received = z3.If(z3.UGT(last, remote), last + 1, z3.If(z3.UGT(remote, last), remote + 1, last))
    room = z3.And(z3.ULT(last, 2**63), z3.ULT(remote, 2**63))
    return z3.Implies(room, z3.UGT(received, last))


def counter_without_carry() -> Any:
    """A counter that wraps inside its 16 bits goes backwards."""
    last = z3.BitVec("last", 64)
    ticked = (last & ~z3.BitVecVal(0xFFFF, 64)) | ((last + 1) & 0xFFFF)
    return z3.UGT(ticked, last)


def clock_without_a_bound() -> Any:
    """Without the limit at 2**64 - 1 a tick wraps to zero."""
    last, wall = z3.BitVecs("last wall", 64)
    return z3.Implies(z3.ULT(wall, 2**48), z3.UGT(larger(last + 1, wall << 16), last))


def counters_added() -> Any:
    """Adding the other side's count is not idempotent."""
    return semilattice(lambda a, b: a + b, *z3.Ints("a b c"))


def set_difference_removes() -> Any:
    """A set that forgets what was removed brings it back: the context is needed."""
    live, other, removed = (z3.Const(name, z3.SetSort(z3.IntSort())) for name in ("live", "other", "removed"))
    row = z3.Int("row")
    merged = z3.SetUnion(z3.SetDifference(live, removed), other)
    return z3.Implies(z3.IsMember(row, removed), z3.Not(z3.IsMember(row, merged)))


def closed_intervals_overlap() -> Any:
    """Comparing ends with <= calls neighbours overlapping."""
    a, b, c, d = z3.Ints("a b c d")
    row = z3.If(a >= c, a, c)
    return z3.Implies(z3.And(a < b, c < d, a <= d, c <= b), z3.And(row < b, row < d))


MISTAKES: tuple[Law, ...] = (
    lww_by_timestamp_alone,
    receive_without_the_equal_case,
    counter_without_carry,
    clock_without_a_bound,
    counters_added,
    set_difference_removes,
    closed_intervals_overlap,
)
