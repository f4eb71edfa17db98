"""Pruning: what statistics alone say about a predicate, for up to a million chunks at once.

Theory. For each entry (a chunk with its rows) a predicate gets four bits: may a row be true, are all rows
true, may a row be false, are all rows false. "May" errs towards yes, "all" errs towards no. `Not` exchanges
the two halves. For `And`, a row may be true if it may in every part, all are true if they are in every part,
a row may be false if it may in one part, and all are false if they are in one part; `Or` is the mirror image.
Unknown rows (nulls) are neither true nor false, so "all" needs to know that there are none.

Everything is whole-array work: the number of array operations depends on the predicate alone.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from crdtcat.chunks.statistics import domain
from crdtcat.scan.filters.bounds import Bits, BoundsSource, ColumnBounds, Range
from crdtcat.scan.filters.operand import Field, Operand
from crdtcat.scan.filters.predicate import (
    NEGATED,
    Always,
    And,
    Compare,
    Constant,
    In,
    IsNaN,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
)


class Pruned(NamedTuple):
    """What is known per entry.

    Attributes:
        may_match: False: certainly no row satisfies the predicate; skip the entry.
        all_match: True: certainly every row does; count it unread, read it unfiltered.
    """

    may_match: Bits
    all_match: Bits


class Shared(NamedTuple):
    """Entries that hold cells of the same rows, as in a keyed table: a row has its cells from any of a group.

    What is known of a column then holds for the group as a whole, and a cell may be missing. Only columns
    that are the same wherever a row is, its key, are judged entry by entry.

    Attributes:
        group: per entry, the number of its group, from 0.
        fixed: the columns that all cells of a row agree on.
    """

    group: npt.NDArray[np.int64]
    fixed: frozenset[str]


class _Four(NamedTuple):
    may_true: Bits
    all_true: Bits
    may_false: Bits
    all_false: Bits


class _Known(NamedTuple):
    """A column's range, if it has usable bounds, and its nulls, -1 where unknown."""

    range: Range | None
    nulls: npt.NDArray[np.int64]


def prune(
    predicate: Predicate, source: BoundsSource, schema: pa.Schema, shared: Shared | None = None
) -> Pruned:
    """Which entries may hold a matching row, and which hold only matching rows.

    With `shared`, `may_match` is true of every entry that holds a cell of a matching row, and false only of
    entries whose cells make no row match; `all_match` is for entries that are alone in their group.

    O(size of predicate) array operations over the entries; each column's bounds are asked for once. A column
    whose type in `schema` is not the one the predicate was bound to is taken as unknown.
    """
    rows = np.asarray(source.rows)
    four = _Pruner(source, schema, rows, shared).four(predicate)
    return Pruned(four.may_true & (rows > 0), four.all_true)


class _Pruner:
    def __init__(
        self, source: BoundsSource, schema: pa.Schema, rows: npt.NDArray[np.int64], shared: Shared | None
    ) -> None:
        self._source, self._schema, self._rows, self._shared = source, schema, rows, shared
        self._asked: dict[str, ColumnBounds | None] = {}
        self._yes, self._no = np.ones(len(rows), np.bool_), np.zeros(len(rows), np.bool_)

    def four(self, predicate: Predicate) -> _Four:
        match predicate:
            case And(parts):
                return reduce(_and, map(self.four, parts))
            case Or(parts):
                return _swap(reduce(_and, (_swap(self.four(part)) for part in parts)))
            case Not(part):
                return _swap(self.four(part))
            case Constant(value):
                true, false = self._all(value is True), self._all(value is False)
                return _Four(true, true, false, false)
            case Compare() | In() | StartsWith() | IsNull() | IsNaN() | Always():
                four = self._leaf(predicate)
                return four if self._shared is None else _together(four, predicate, self._shared)
            case _:
                return _Four(self._yes, self._no, self._yes, self._no)

    def _leaf(self, leaf: Compare | In | StartsWith | IsNull | IsNaN | Always) -> _Four:
        known = self._known(leaf.operand)
        if isinstance(leaf, IsNull):
            some, every = known.nulls != 0, known.nulls == self._rows
            return _Four(some, every, ~every, ~some)
        if isinstance(leaf, Always):
            every, none = self._all(leaf.truth), self._all(not leaf.truth)
        elif known.range is None:
            every = none = self._no
        elif isinstance(leaf, Compare):
            every = known.range.all_satisfy(leaf.operator, leaf.value)
            none = known.range.all_satisfy(NEGATED[leaf.operator], leaf.value)
        elif isinstance(leaf, In):
            every, none = known.range.membership(leaf.values)
        elif isinstance(leaf, StartsWith):
            every, none = _starts_with(known.range, leaf.prefix)
        else:
            every, none = self._no, known.range.known
        return self._with_nulls(every, none, known.nulls, leaf.null if isinstance(leaf, In) else None)

    def _with_nulls(self, every: Bits, none: Bits, nulls: npt.NDArray[np.int64], null: bool | None) -> _Four:
        """From values to rows: `every` value is true, `none` is; and what a null row gives."""
        some_null, only_null = nulls != 0, nulls == self._rows
        has_value, no_null = ~only_null, ~some_null
        return _Four(
            may_true=(~none & has_value) | (some_null if null is True else self._no),
            all_true=(every | only_null) & (self._yes if null is True else no_null),
            may_false=(~every & has_value) | (some_null if null is False else self._no),
            all_false=(none | only_null) & (self._yes if null is False else no_null),
        )

    def _known(self, operand: Operand) -> _Known:
        nothing = _Known(None, np.full(len(self._rows), -1, np.int64))
        column = operand.statistics_of
        if column is None or not isinstance(operand, Field):
            return nothing
        if column not in self._schema.names or self._schema.field(column).type != operand.declared:
            return nothing
        if column not in self._asked:
            self._asked[column] = self._source.bounds(column)
        bounds = self._asked[column]
        if bounds is None:
            return nothing
        where = domain(operand.declared)
        usable = where is not None and Range.fits(bounds, where)
        return _Known(Range(bounds, where) if usable and where else None, np.asarray(bounds.nulls))

    def _all(self, value: Any) -> Bits:
        return self._yes if value else self._no


def _together(
    four: _Four, leaf: Compare | In | StartsWith | IsNull | IsNaN | Always, shared: Shared
) -> _Four:
    """What entries say of a column, said of their groups; a cell that is missing is null."""
    if shared.fixed.issuperset(leaf.columns) or not len(shared.group):
        return four
    null = True if isinstance(leaf, IsNull) else leaf.null if isinstance(leaf, In) else None
    sizes = np.bincount(shared.group)
    alone = (sizes == 1)[shared.group]

    def some(bits: Bits) -> Bits:
        found: Bits = (np.bincount(shared.group, bits) > 0)[shared.group]
        return found

    return _Four(
        may_true=some(four.may_true) | (null is True),
        all_true=four.all_true & alone,
        may_false=some(four.may_false) | (null is False),
        all_false=four.all_false & alone,
    )


def _and(left: _Four, right: _Four) -> _Four:
    return _Four(
        left.may_true & right.may_true,
        left.all_true & right.all_true,
        left.may_false | right.may_false,
        left.all_false | right.all_false,
    )


def _swap(four: _Four) -> _Four:
    return _Four(four.may_false, four.all_false, four.may_true, four.all_true)


def _starts_with(column: Range, prefix: bytes) -> tuple[Bits, Bits]:
    """Strings with a prefix are those from the prefix itself up to, not including, the next prefix."""
    stem = prefix.rstrip(b"\xff")
    every, none = column.minimum_is(">=", prefix), column.maximum_is("<", prefix)
    if stem:
        following = stem[:-1] + bytes((stem[-1] + 1,))
        return every & column.maximum_is("<", following), none | column.minimum_is(">=", following)
    return every, none
