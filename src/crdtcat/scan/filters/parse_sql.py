"""Filters as SQL text: the condition of a WHERE clause, in DuckDB's dialect.

`amount > 10 and country in ('DE', 'FR') and ts >= timestamp '2026-01-01' and not (x is null)`

The rows are those DuckDB gives, NaN included (equal to itself, above every number). Names are case-sensitive;
`a.b` is field b of struct a; `"any name"` quotes. Comparisons of a column with a literal prune; comparisons
between columns, arithmetic and functions filter rows only. `docs/filters.md` lists what is taken.

No subqueries, no parameters, nothing that depends on the time or the machine: a filter means the same
everywhere and for ever.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from crdtcat.errors import InvalidFilter
from crdtcat.scan.filters.compare import compare, contained
from crdtcat.scan.filters.like import like
from crdtcat.scan.filters.literals import fit, is_nan, require_unicode
from crdtcat.scan.filters.lower import compared, to_expression
from crdtcat.scan.filters.operand import Operand
from crdtcat.scan.filters.predicate import (
    FLIPPED,
    And,
    Constant,
    In,
    IsNaN,
    IsNull,
    Not,
    Opaque,
    Operator,
    Or,
    Predicate,
    StartsWith,
)
from crdtcat.scan.filters.sql_errors import not_a_condition, not_sql, remember, unsupported
from crdtcat.scan.filters.sql_literals import Constant as Literal
from crdtcat.scan.filters.sql_literals import check_arguments
from crdtcat.scan.filters.sql_numbers import Term
from crdtcat.scan.filters.sql_values import Values
from crdtcat.support.showing import shown

_SIGNS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def parse_sql(text: str, schema: pa.Schema) -> Predicate:
    """The predicate of a condition.

    Raises:
        InvalidFilter: bad syntax (with its place), an unknown column (with near names), a literal of the
            wrong kind, or SQL that filters do not take.
    """
    require_unicode(text)
    try:
        tree = _tree(text)
        remember(tree, text)
        return _Conditions(schema).read(tree)
    except SqlglotError as error:
        raise not_sql(text, error) from error
    except RecursionError as error:
        raise InvalidFilter("the filter is nested too deeply") from error


def _tree(text: str) -> exp.Expr:
    try:
        return sqlglot.parse_one(text, into=exp.Condition, dialect="duckdb")
    except (AttributeError, TypeError, IndexError, KeyError) as error:  # the parser's own mistakes
        raise InvalidFilter(f"the filter {shown(text, 200)} is not valid SQL: it is incomplete") from error


class _Conditions:
    def __init__(self, schema: pa.Schema) -> None:
        self._values = Values(schema)

    def read(self, node: exp.Expr) -> Predicate:
        check_arguments(node, negatable=True)
        found = self._condition(node)
        return Not(found) if node.args.get("negate") else found

    def _condition(self, node: exp.Expr) -> Predicate:  # noqa: C901, PLR0911, PLR0912 (one case per kind of node)
        match node:
            case exp.Paren():
                return self.read(node.this)
            case exp.And():
                return And(tuple(self.read(part) for part in node.flatten()))
            case exp.Or():
                return Or(tuple(self.read(part) for part in node.flatten()))
            case exp.Not():
                return Not(self.read(node.this))
            case exp.Between():
                return self._between(node)
            case exp.In():
                return self._in(node)
            case exp.Is():
                return self._is(node)
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                same = self._same(node)
                return same if isinstance(node, exp.NullSafeEQ) else Not(same)
            case exp.Like() | exp.ILike() | exp.Escape():
                return self._like(node)
            case exp.StartsWith():
                return self._starts_with(node)
            case exp.IsNan():
                return self._is_nan(node)
            case _ if type(node) in _SIGNS:
                return self._compare(node.this, _SIGNS[type(node)], node.expression, node)
            case _:
                return self._truth(node)

    def _truth(self, node: exp.Expr) -> Predicate:
        """A term used as a condition."""
        term = self._values.term(node)
        if isinstance(term, Literal) and (term.value is None or isinstance(term.value, bool)):
            return Constant(term.value)
        if isinstance(term, Literal) or not pt.is_boolean(term.type):
            raise not_a_condition(node)
        return compare(term, "=", True, sql=True)

    def _compare(self, a: exp.Expr, sign: Operator, b: exp.Expr, node: exp.Expr) -> Predicate:
        return self._compare_terms(self._values.term(a), sign, self._values.term(b), node)

    def _compare_terms(self, left: Term, sign: Operator, right: Term, node: exp.Expr) -> Predicate:
        if isinstance(left, Literal) and isinstance(right, Literal):
            return _compare_literals(left, sign, right, node)
        if isinstance(right, Literal) and not isinstance(left, Literal):
            return compare(left, sign, right.value, sql=True)
        if isinstance(left, Literal) and not isinstance(right, Literal):
            return compare(right, FLIPPED[sign], left.value, sql=True)
        assert not isinstance(left, Literal)
        assert not isinstance(right, Literal)
        return self._compare_operands(left, sign, right)

    def _compare_operands(self, left: Operand, sign: Operator, right: Operand) -> Predicate:
        x, y = _meet(left, right)
        arrow = compared(x, sign, y)
        if pt.is_floating(left.type) or pt.is_floating(right.type):
            arrow = _nan_is_greatest(x, sign, y)
        text, columns = f"{left} {sign} {right}", tuple(dict.fromkeys((*left.columns, *right.columns)))
        self._values.computed(text, arrow, columns)  # raises where Arrow has no such comparison
        return Opaque(text, columns, arrow)

    def _between(self, node: exp.Expr) -> Predicate:
        subject = self._values.term(node.this)
        low, high = _widened(subject, [self._values.term(node.args[end]) for end in ("low", "high")])
        above = self._compare_terms(subject, ">=", low, node)
        return And((above, self._compare_terms(subject, "<=", high, node)))

    def _in(self, node: exp.Expr) -> Predicate:
        members = node.expressions
        if not members:
            raise unsupported(node)
        subject = self._operand(node.this, node)
        terms = _widened(subject, [self._values.term(member) for member in members])
        if all(isinstance(term, Literal) for term in terms):
            values = [term.value for term in terms if isinstance(term, Literal)]
            return contained(subject, values, sql=True)
        return Or(tuple(self._compare_terms(subject, "=", term, node) for term in terms))

    def _is(self, node: exp.Expr) -> Predicate:
        wanted = node.expression
        if isinstance(wanted, exp.Null):
            term = self._values.term(node.this)
            return Constant(term.value is None) if isinstance(term, Literal) else IsNull(term)
        if not isinstance(wanted, exp.Boolean):
            raise unsupported(node)
        part = self.read(node.this)
        known = pc.coalesce(to_expression(part if wanted.this else Not(part)), pc.scalar(False))
        return And(
            (part if wanted.this else Not(part), Opaque(f"({part}) is {wanted}".lower(), part.columns, known))
        )

    def _same(self, node: exp.Expr) -> Predicate:
        term, other = self._values.term(node.this), self._values.term(node.expression)
        if isinstance(term, Literal):
            term, other = other, term
        if isinstance(term, Literal) or not isinstance(other, Literal):
            raise unsupported(node)
        if other.value is None:
            return IsNull(term)
        if is_nan(other.value) and pt.is_floating(term.type):
            return And((Not(IsNull(term)), IsNaN(term)))
        found = contained(term, [other.value], sql=True)
        if not isinstance(found, In):
            raise unsupported(node)
        return In(found.operand, found.values, null=False)

    def _like(self, node: exp.Expr) -> Predicate:
        escape = ""
        if isinstance(node, exp.Escape):
            escape, node = self._text(node.expression, node), node.this
        if len(escape) > 1 or not isinstance(node, exp.Like | exp.ILike):
            raise unsupported(node)
        check_arguments(node, negatable=True)
        operand, pattern = self._operand(node.this, node), self._text(node.expression, node)
        found = like(operand, pattern, escape=escape, ignore_case=isinstance(node, exp.ILike))
        return Not(found) if escape and node.args.get("negate") else found

    def _starts_with(self, node: exp.Expr) -> Predicate:
        operand, prefix = self._operand(node.this, node), self._text(node.expression, node)
        fit(prefix, operand.type, str(operand))  # raises unless both are strings
        if pt.is_temporal(operand.type):
            raise unsupported(node)
        return StartsWith(operand, prefix.encode())

    def _is_nan(self, node: exp.Expr) -> Predicate:
        operand = self._operand(node.this, node)
        if not pt.is_floating(operand.type):
            raise InvalidFilter(f"{operand} is {operand.type}; isnan needs a float")
        return IsNaN(operand)

    def _operand(self, part: exp.Expr, node: exp.Expr) -> Operand:
        term = self._values.term(part)
        if isinstance(term, Literal):
            raise unsupported(node)
        return term

    def _text(self, part: exp.Expr, node: exp.Expr) -> str:
        term: Term = self._values.term(part)
        if not isinstance(term, Literal) or not isinstance(term.value, str):
            raise unsupported(node)
        return term.value


def _widened(subject: Term, terms: list[Term]) -> list[Term]:
    """What a value is compared with, all together: one double among it makes numbers beside a float doubles.

    As in DuckDB: 0.1 is the nearest float by itself, and the nearest double where the other end is one.
    """
    if isinstance(subject, Literal) or not pt.is_float32(subject.type):
        return terms
    if not any(term.is_double if isinstance(term, Literal) else pt.is_float64(term.type) for term in terms):
        return terms
    return [term.as_double() if isinstance(term, Literal) else term for term in terms]


def _compare_literals(left: Literal, sign: Operator, right: Literal, node: exp.Expr) -> Predicate:
    a, b = left.value, right.value
    if a is None or b is None:
        return Constant(None)
    if type(a) is not type(b) or not isinstance(a, bool | int | str):
        raise unsupported(node)
    return Constant(bool(compared(a, sign, b)))


def _meet(left: Operand, right: Operand) -> tuple[Any, Any]:
    """Both sides in one type, as DuckDB would compare them; what Arrow does well is left to it."""
    x, y, types = left.expression(), right.expression(), (left.type, right.type)
    if types[0] == types[1]:
        return x, y
    common = None
    if any(map(pt.is_float64, types)):
        common = pa.float64()
    elif any(map(pt.is_float32, types)):
        common = pa.float32()
    elif all(map(pt.is_integer, types)):
        common = pa.decimal128(20, 0) if any(map(pt.is_uint64, types)) else pa.int64()
    return (x, y) if common is None else (x.cast(common, safe=False), y.cast(common, safe=False))


def _nan_is_greatest(x: Any, sign: Operator, y: Any) -> Any:
    """A comparison of two floats with SQL's NaN; null on either side stays unknown."""
    match sign:
        case "<" | "<=":
            return _nan_is_greatest(y, FLIPPED[sign], x)
        case ">":
            return (x > y) | (pc.is_nan(x) & ~pc.is_nan(y))
        case ">=":
            return (x >= y) | (pc.is_nan(x) & y.is_valid())
        case _:
            same = (x == y) | (pc.is_nan(x) & pc.is_nan(y))
            return same if sign == "=" else ~same
