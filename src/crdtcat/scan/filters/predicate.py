"""The meaning of a row filter, as a small tree that pruning can reason about.

Theory. A predicate gives every row true, false or unknown (SQL's three-valued logic); a scan keeps the rows
that give true. `And` and `Or` are Kleene's: false wins over unknown in one, true in the other; `Not` keeps
unknown. Literals inside leaves are already values of the operand's comparison type, so a leaf never rounds:
whoever builds a tree (see `compare.py`) has turned `int8 < 1000` into `Always` beforehand.

Trees are immutable, hashable, picklable, and know nothing about files, statistics or rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
import pyarrow.types as pt

from crdtcat.scan.filters.members import SHOWN_MAX, Members
from crdtcat.scan.filters.operand import Operand

Operator = Literal["=", "!=", "<", "<=", ">", ">="]
NEGATED: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED: dict[Operator, Operator] = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


class Predicate(ABC):
    """A node of the tree."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The top-level columns the predicate looks at, each once, in order of first use."""
        return tuple(dict.fromkeys(self._columns()))

    def equalities(self, column: str) -> frozenset[Any] | None:
        """The values (Arrow scalars, perhaps a null one) one of which a matching row must have in `column`.

        None: the predicate implies no finite set. Floats always give None, since equal floats may differ in
        bytes (0.0 and -0.0), and this is for looking up hashes of values.
        """
        return self._values(column, truth=True)

    @abstractmethod
    def _columns(self) -> Iterator[str]: ...

    def _values(self, column: str, *, truth: bool) -> frozenset[Any] | None:  # noqa: ARG002 (leaves override)
        """As `equalities`, for rows that give `truth`."""
        return None


@dataclass(frozen=True, slots=True)
class Constant(Predicate):
    """The same for every row; None is unknown."""

    value: bool | None

    def _columns(self) -> Iterator[str]:
        return iter(())

    def _values(self, column: str, *, truth: bool) -> frozenset[Any] | None:  # noqa: ARG002
        return None if self.value is truth else frozenset()

    def __str__(self) -> str:
        return "null" if self.value is None else str(self.value).lower()


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """True if all parts are, false if one is."""

    parts: tuple[Predicate, ...]

    def _columns(self) -> Iterator[str]:
        return (column for part in self.parts for column in part.columns)

    def _values(self, column: str, *, truth: bool) -> frozenset[Any] | None:
        return (_all_of if truth else _one_of)([part._values(column, truth=truth) for part in self.parts])

    def __str__(self) -> str:
        return " and ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True if one part is, false if all are."""

    parts: tuple[Predicate, ...]

    def _columns(self) -> Iterator[str]:
        return (column for part in self.parts for column in part.columns)

    def _values(self, column: str, *, truth: bool) -> frozenset[Any] | None:
        return (_one_of if truth else _all_of)([part._values(column, truth=truth) for part in self.parts])

    def __str__(self) -> str:
        return " or ".join(f"({part})" if isinstance(part, And) else str(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """True and false exchanged; unknown stays."""

    part: Predicate

    def _columns(self) -> Iterator[str]:
        return iter(self.part.columns)

    def _values(self, column: str, *, truth: bool) -> frozenset[Any] | None:
        return self.part._values(column, truth=not truth)

    def __str__(self) -> str:
        if isinstance(self.part, IsNull):
            return f"{self.part.operand} is not null"
        return f"not {self.part}" if isinstance(self.part, Constant) else f"not ({self.part})"


@dataclass(frozen=True, slots=True)
class _Leaf(Predicate):
    operand: Operand

    def _columns(self) -> Iterator[str]:
        return iter(self.operand.columns)

    def _finite(self, column: str) -> bool:
        """Whether values of this leaf's operand are values of `column` that compare by their bytes."""
        return self.operand.statistics_of == column and not pt.is_floating(self.operand.type)


@dataclass(frozen=True, slots=True)
class Compare(_Leaf):
    """Operand against a literal. Unknown where the operand is null.

    Attributes:
        value: an Arrow scalar of the operand's comparison type, not null, not NaN.
        nan_is_greatest: NaN sorts above all numbers, as in SQL; otherwise it is unordered, as in IEEE 754.
    """

    operator: Operator
    value: Any
    nan_is_greatest: bool = False

    def _values(self, column: str, *, truth: bool) -> frozenset[Any] | None:
        equal = self.operator == ("=" if truth else "!=")
        return frozenset((self.value,)) if equal and self._finite(column) else None

    def __str__(self) -> str:
        return f"{self.operand} {self.operator} {show(self.value)}"


@dataclass(frozen=True, slots=True)
class In(_Leaf):
    """Operand equals one of the values (NaN equals a NaN of the same bits here).

    Attributes:
        values: of the operand's comparison type, not null.
        null: what a null row gives: None in SQL; False or True in Arrow, where null is a value like others.
    """

    values: Members
    null: bool | None = None

    def _values(self, column: str, *, truth: bool) -> frozenset[Any] | None:
        if not truth or not self._finite(column):
            return None
        absent = (pa.scalar(None, self.operand.type),) if self.null else ()
        return frozenset((*self.values, *absent))

    def __str__(self) -> str:
        shown = [show(value) for value in self.values.array[:SHOWN_MAX]] + (["null"] if self.null else [])
        more = len(self.values) - SHOWN_MAX
        shown += [f"... {more:,} more"] if more > 0 else []
        return f"{self.operand} in ({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class StartsWith(_Leaf):
    """A string or binary operand begins with a prefix, compared byte by byte. Unknown where null."""

    prefix: bytes

    def __str__(self) -> str:
        return f"starts_with({self.operand}, {self.prefix.decode('utf-8', 'backslashreplace')!r})"


@dataclass(frozen=True, slots=True)
class IsNull(_Leaf):
    """Operand is null: never unknown."""

    def _values(self, column: str, *, truth: bool) -> frozenset[Any] | None:
        return frozenset((pa.scalar(None, self.operand.type),)) if truth and self._finite(column) else None

    def __str__(self) -> str:
        return f"{self.operand} is null"


@dataclass(frozen=True, slots=True)
class IsNaN(_Leaf):
    """A floating operand is not a number. Unknown where null."""

    def __str__(self) -> str:
        return f"isnan({self.operand})"


@dataclass(frozen=True, slots=True)
class Always(_Leaf):
    """The same truth for every value that is not null; unknown where null. What `int8 < 1000` becomes."""

    truth: bool

    def _values(self, column: str, *, truth: bool) -> frozenset[Any] | None:  # noqa: ARG002
        return frozenset() if truth is not self.truth else None

    def __str__(self) -> str:
        return f"{self.operand} = {self.operand}" if self.truth else f"{self.operand} != {self.operand}"


@dataclass(frozen=True, slots=True, eq=False)
class Opaque(Predicate):
    """A condition nothing can be said about without reading rows. Equal to itself only: what it prints leaves
    out parts of long lists.

    Attributes:
        text: how it prints.
        needs: the top-level columns it reads.
        arrow: the Arrow expression.
    """

    text: str
    needs: tuple[str, ...]
    arrow: Any = field(repr=False)

    def _columns(self) -> Iterator[str]:
        return iter(self.needs)

    def __str__(self) -> str:
        return self.text


def show(value: Any) -> str:
    """An Arrow scalar as a SQL literal."""
    if pt.is_string(value.type) or pt.is_large_string(value.type):
        return "'" + str(value.as_py()).replace("'", "''") + "'"
    if pt.is_temporal(value.type) and not pt.is_duration(value.type):
        return f"'{value.cast(pa.string()).as_py()}'"
    if pt.is_boolean(value.type):
        return str(value.as_py()).lower()
    return str(value.value if pt.is_duration(value.type) else value.as_py())


def size(predicate: Predicate) -> int:
    """How many leaves a tree has."""
    if isinstance(predicate, And | Or):
        return sum(map(size, predicate.parts))
    return size(predicate.part) if isinstance(predicate, Not) else 1


def depth(predicate: Predicate) -> int:
    """How many levels a tree has."""
    if isinstance(predicate, And | Or):
        return 1 + max(map(depth, predicate.parts), default=0)
    return 1 + depth(predicate.part) if isinstance(predicate, Not) else 1


def _all_of(sets: list[frozenset[Any] | None]) -> frozenset[Any] | None:
    """All parts hold: a row's value is in every set that is known."""
    known = [values for values in sets if values is not None]
    return frozenset.intersection(*known) if known else None


def _one_of(sets: list[frozenset[Any] | None]) -> frozenset[Any] | None:
    """One part holds, nobody knows which: a row's value is in the union, if every set is known."""
    known = [values for values in sets if values is not None]
    return frozenset.union(*known) if len(known) == len(sets) and known else None
