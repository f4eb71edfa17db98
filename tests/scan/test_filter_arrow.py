"""Arrow expressions are applied as they are, and understood only as far as that is certain."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.errors import InvalidFilter, LimitExceeded
from crdtcat.limits import CONDITIONS_MAX
from crdtcat.scan.filters import parse_filter
from crdtcat.scan.filters.arrow_tree import Call, Literal, Reference, take_apart
from crdtcat.scan.filters.lower import to_expression
from crdtcat.scan.filters.predicate import And, In, Not, Opaque, Or, Predicate
from tests.bounds import bounded
from tests.scan.filter_tables import POOLS, SCHEMA, tables


@st.composite
def _leaf(draw: st.DrawFn) -> Any:
    column = draw(st.sampled_from(sorted(set(POOLS) - {"nested"})))
    field, kind = pc.field(column), SCHEMA.field(column).type
    value = st.sampled_from(POOLS[column])
    choice = draw(st.integers(0, 5))
    if choice == 0:
        return draw(st.sampled_from([field.is_null(), field.is_valid(), field.is_null(nan_is_null=True)]))
    if choice == 1:
        members = pa.array(draw(st.lists(st.one_of(value, st.none()), max_size=3)), kind)
        return pc.is_in(field, members, skip_nulls=draw(st.booleans()))
    if choice == 2:
        return draw(
            st.sampled_from(
                [
                    pc.starts_with(pc.field("name"), "ab"),
                    pc.match_like(pc.field("name"), "a%c"),
                    pc.match_like(pc.field("name"), "a\\%"),
                    pc.field("flag"),
                    pc.field("nested", "a") == 1,
                    pc.is_nan(pc.field("double")),
                    pc.field("tiny").cast(pa.int64()) + 1 > pc.field("big"),
                    pc.field("tiny").cast(pa.int64()) == 3,
                    pc.scalar(True),
                    pc.field("tiny") > 1.5,
                    pc.field("tiny") >= 0.99999999999,
                    pc.field("single") == 0.1,
                    pc.field("single") == 2,
                    pc.scalar(2) < pc.field("tiny"),
                    pc.if_else(pc.field("flag"), pc.field("tiny") > 1, pc.field("double") > 1),
                ]
            )
        )
    literal = pa.scalar(draw(value), kind)
    return draw(
        st.sampled_from(
            [field == literal, field != literal, field < literal, field <= literal, field > literal]
        )
    )


EXPRESSIONS: st.SearchStrategy[Any] = st.recursive(
    _leaf(),
    lambda inner: st.one_of(
        inner.map(lambda part: ~part),
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
    ),
    max_leaves=4,
)


def is_understood(predicate: Predicate) -> bool:
    if isinstance(predicate, And | Or):
        return all(map(is_understood, predicate.parts))
    if isinstance(predicate, Not):
        return is_understood(predicate.part)
    return not isinstance(predicate, Opaque)


@given(table=tables(), expressions=st.lists(EXPRESSIONS, min_size=1, max_size=8))
@settings(max_examples=bounded(80, 2), deadline=None)
def test_what_is_understood_means_what_arrow_computes(table: pa.Table, expressions: list[Any]) -> None:
    for expression in expressions:
        row_filter = parse_filter(expression, table.schema)
        rows = table.select(["row", *row_filter.columns])
        try:
            expected = table.filter(expression)["row"].to_pylist()
        except pa.ArrowInvalid:  # a sum that overflows: what Arrow refuses is no oracle
            continue
        assert rows.filter(row_filter.expression)["row"].to_pylist() == expected
        if is_understood(row_filter.predicate):
            assert rows.filter(to_expression(row_filter.predicate))["row"].to_pylist() == expected, str(
                row_filter
            )
        again = pickle.loads(pickle.dumps(row_filter))
        assert (str(again.predicate), again.columns) == (str(row_filter.predicate), row_filter.columns)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (pc.field("tiny") > 3, "tiny > 3"),
        (pc.scalar(3) < pc.field("tiny"), "tiny > 3"),
        (pc.field("tiny") < 1000, "tiny <= 127"),
        ((pc.field("tiny") == 1) & ~pc.field("flag"), "tiny = 1 and not (flag = true)"),
        (pc.field("tiny").isin([1, None]), "tiny in (1, null)"),
        (pc.field("name") >= "b", "name >= 'b'"),
        (pc.starts_with(pc.field("name"), "ab"), "starts_with(name, 'ab')"),
        (pc.field("nested", "a") == 2, "nested.a = 2"),
        (pc.field("price") > 1.5, "greater(price, 1.5)"),
        (pc.field("tiny") + pc.field("big") > 2, "greater(add_checked(tiny, big), 2)"),
    ],
)
def test_what_is_understood(expression: Any, text: str) -> None:
    assert str(parse_filter(expression, SCHEMA).predicate) == text


def test_an_expression_is_taken_apart() -> None:
    tree = take_apart((pc.field("a b.c") == 1) | pc.field("s", "t").isin(["x", None]))
    assert isinstance(tree, Call)
    equal, member = tree.arguments
    assert tree.function == "or_kleene"
    assert equal == Call("equal", (Reference(("a b.c",)), Literal(pa.scalar(1))), None)
    assert isinstance(member, Call)
    assert member.arguments == (Reference(("s", "t")),)
    assert member.options is not None
    assert member.options["value_set"].as_py() == ["x", None]


def test_null_in_lists_follows_the_options() -> None:
    def null(*, skip: bool) -> bool | None:
        found = parse_filter(
            pc.is_in(pc.field("tiny"), pa.array([1, None]), skip_nulls=skip), SCHEMA
        ).predicate
        assert isinstance(found, In)
        return found.null

    assert null(skip=False) is True
    assert null(skip=True) is False


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (pc.field("tinny") > 1, "did you mean 'tiny'"),
        (pc.field("nested", "b") > 1, "no column 'b'"),
        (pc.field("tiny"), "must evaluate to bool"),
        (pc.field("tiny") == "x", "does not fit the schema"),
        (pc.field(1) == 3, "name its columns"),
    ],
)
def test_bad_expressions_say_what_is_wrong(expression: Any, message: str) -> None:
    with pytest.raises(InvalidFilter) as raised:
        parse_filter(expression, SCHEMA)
    assert message in str(raised.value)


def test_expressions_that_print_alike_are_not_equal() -> None:
    """Arrow leaves out the middle of long lists."""
    long = list(range(200))
    first, second = (
        pc.field("tiny").cast(pa.int64()).isin(values) for values in (long, [*long[:100], 999, *long[101:]])
    )
    assert str(first) == str(second)
    assert parse_filter(first, SCHEMA) != parse_filter(second, SCHEMA)


def _nested(kind: str, count: int) -> Any:
    """So many conditions, or calls inside each other."""
    found = pc.field("big") == 5
    for number in range(1, count):
        if kind == "or":
            found = found | (pc.field("big") == -number)
        elif kind == "or, the other way":
            found = (pc.field("big") == -number) | found
        elif kind == "and":
            found = found & (pc.field("big") != -number)
        else:
            found = ~found
    return found


@pytest.mark.parametrize("kind", ["or", "or, the other way", "and", "not"])
def test_many_conditions_work_and_too_many_are_refused(kind: str) -> None:
    """12,000 of them ended the process, and some hundreds the call with a `RecursionError`."""
    table = pa.table({"row": [0, 1], "big": [5, -5]})
    for count in (2, 101, 301, 901, CONDITIONS_MAX - 1):
        expression = _nested(kind, count)
        parsed = parse_filter(expression, table.schema)
        assert table.filter(parsed.expression).num_rows in (1, 2)
        assert parsed.columns in (("big",), ("row", "big"))
        assert kind == "not" or isinstance(parsed.predicate, And | Or)
    for count in (CONDITIONS_MAX + 2, 12_000):
        with pytest.raises(LimitExceeded, match="more than 1,000"):
            parse_filter(_nested(kind, count), table.schema)


def test_arithmetic_inside_arithmetic() -> None:
    table = pa.table({"big": [5, -5]})
    for count, kept in ((300, True), (900, True), (12_000, False)):
        total = pc.field("big")
        for _ in range(count):
            total = pc.add(total, 1)
        if kept:
            assert table.filter(parse_filter(total > count, table.schema).expression).num_rows == 1
        else:
            with pytest.raises(LimitExceeded):
                parse_filter(total > count, table.schema)
