"""What is passed by mistake is told in a typed error on a short line, however it is nested or written."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog, CrdtcatError
from crdtcat.errors import InvalidArgument, InvalidFilter, InvalidName, LimitExceeded
from crdtcat.limits import NUMBER_DIGITS_MAX
from crdtcat.support.showing import shown
from tests.catalog.lakes import lake

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.float64())])


class Unprintable:
    """An object whose own `repr` raises."""

    def __repr__(self) -> str:
        raise RuntimeError("no picture")


def nested(levels: int) -> list[Any]:
    """A list in a list in a list."""
    value: list[Any] = [1]
    for _ in range(levels):
        value = [value]
    return value


def in_itself() -> list[Any]:
    """A list that holds itself."""
    value: list[Any] = []
    value.append(value)
    return value


WORST: dict[str, Callable[[], Any]] = {
    "1,500 deep": lambda: nested(1500),
    "100,000 deep": lambda: nested(100_000),
    "in itself": in_itself,
    "6,000 digits": lambda: 10**6000,
    "6,000 digits in a list": lambda: [10**6000],
    "unprintable": Unprintable,
    "unprintable in a list": lambda: [Unprintable()],
    "a number that is an array": lambda: np.array(1),
}


@pytest.fixture(scope="module")
def cat() -> Catalog:
    catalog = lake(max_commit_delay_seconds=0)
    catalog.create_table("t", SCHEMA).append([{"id": 1, "v": 0.5}])
    catalog.create_table("k", SCHEMA, key=["id"]).append([{"id": 1, "v": 0.5}])
    return catalog


CALLS: dict[str, Callable[[Catalog, Any], object]] = {
    "table": lambda cat, odd: cat.table(odd),
    "branch": lambda cat, odd: cat.table("t", odd),
    "create_table": lambda cat, odd: cat.create_table(odd),
    "schema": lambda cat, odd: cat.create_table("u", odd),
    "mode": lambda cat, odd: cat.create_table("u", mode=odd),
    "exist_ok": lambda cat, odd: cat.create_table("u", exist_ok=odd),
    "key of a table": lambda cat, odd: cat.create_table("u", SCHEMA, key=odd),
    "partition_by": lambda cat, odd: cat.create_table("u", SCHEMA, partition_by=odd),
    "rows": lambda cat, odd: cat.commit("t", odd),
    "rows from a generator": lambda cat, odd: cat.commit("t", iter([odd])),
    "rows, the second part": lambda cat, odd: cat.commit("t", iter([pa.table({"id": [1]}), odd])),
    "a value": lambda cat, odd: cat.commit("t", [{"id": 1, "v": odd}]),
    "metadata": lambda cat, odd: cat.commit("t", [{"id": 1}], metadata=odd),
    "a value of metadata": lambda cat, odd: cat.commit("t", [{"id": 1}], metadata={"a": odd}),
    "idempotency key": lambda cat, odd: cat.commit("t", [{"id": 1}], key=odd),
    "evolve": lambda cat, odd: cat.commit("t", [{"id": 1}], evolve=odd),
    "columns": lambda cat, odd: cat.read("t", odd),
    "filter": lambda cat, odd: cat.read("t", filter=odd),
    "condition": lambda cat, odd: cat.read("t", filter=[("id", "=", odd)]),
    "list": lambda cat, odd: cat.read("t", filter=[("id", "in", [1, odd])]),
    "at": lambda cat, odd: cat.read("t", at=odd),
    "where": lambda cat, odd: cat.table("t").delete(odd),
    "values": lambda cat, odd: cat.table("t").update("id = 1", odd),
    "new value": lambda cat, odd: cat.table("t").update("id = 1", {"v": odd}),
    "first row": lambda cat, odd: cat.table("t").update_rows(odd, 1, [{"v": 1.0}]),
    "last row": lambda cat, odd: cat.table("t").update_rows(0, odd, [{"v": 1.0}]),
    "keys": lambda cat, odd: cat.table("k").delete(keys=odd),
    "on": lambda cat, odd: cat.table("t").write([{"id": 1, "v": 1.0}], on=odd),
    "tag": lambda cat, odd: cat.table("t").tag(odd),
    "column": lambda cat, odd: cat.table("t").drop_column(odd),
    "type": lambda cat, odd: cat.table("t").add_column("w", odd),
    "order": lambda cat, odd: cat.table("t").reorder_columns(odd),
    "property": lambda cat, odd: cat.table("t").set_properties({"a": odd}),
    "cluster_by": lambda cat, odd: cat.table("t").compact(cluster_by=odd),
    "keep_last": lambda cat, odd: cat.table("t").expire(keep_last=-odd if type(odd) is int else odd),
    "older_than": lambda cat, odd: cat.table("t").expire(older_than=odd),
    "progress": lambda cat, odd: cat.table("t").verify(progress=odd),
    "depth": lambda cat, odd: cat.table("t").verify(odd),
    "chunk": lambda cat, odd: cat.table("t").proof(odd),
    "conflict": lambda cat, odd: cat.table("t").lost_values(odd),
    "tables": lambda cat, odd: cat.sync("memory://elsewhere", odd),
    "tables of a transaction": lambda cat, odd: cat.transaction(odd),
    "transaction": lambda cat, odd: cat.transaction_status(odd),
    "grace": lambda cat, odd: cat.collect(grace=odd),
    "query": lambda cat, odd: cat.sql(odd),
    "option": lambda _, odd: lake(upkeep=odd),
    "on_conflict": lambda _, odd: lake(on_conflict=odd),
    "url": lambda _, odd: Catalog(odd),
}


@pytest.mark.parametrize("odd", WORST)
@pytest.mark.parametrize("call", CALLS)
def test_the_worst_that_is_passed_is_told(cat: Catalog, call: str, odd: str) -> None:
    with pytest.raises(CrdtcatError) as told:
        CALLS[call](cat, WORST[odd]())
    assert len(str(told.value)) < 1000
    assert cat.read("t").num_rows == cat.read("k").num_rows == 1


def test_a_parameter_of_a_query_that_is_nested_without_end(cat: Catalog) -> None:
    for odd in (nested(1500), in_itself()):
        with pytest.raises(InvalidArgument, match="nested too deeply"):
            cat.sql("select ?", [odd])


def test_long_texts_are_told_by_their_beginning_and_end(cat: Catalog) -> None:
    long = "name " * 20_000
    table = cat.table("t")
    calls: list[Callable[[], object]] = [
        lambda: cat.read("t", [long]),
        lambda: cat.read("t", filter=long),
        lambda: cat.read("t", filter=[(long, "=", 1)]),
        lambda: cat.read("t", filter=[("id", long, 1)]),
        lambda: cat.read("t", at=long),
        lambda: table.drop_column(long),
        lambda: table.compact(cluster_by=[long]),
        lambda: cat.sync("memory://elsewhere", [long]),
        lambda: lake(**{long: 1}),
    ]
    for call in calls:
        with pytest.raises(CrdtcatError) as told:
            call()
        assert len(str(told.value)) < 1000


def test_tables_to_exchange_are_names(cat: Catalog) -> None:
    for odd in (5, True, "t", None.__class__):
        with pytest.raises(InvalidArgument, match=r"pass a list of names"):
            cat.sync("memory://elsewhere", odd)  # type: ignore[arg-type]
    with pytest.raises(InvalidName):
        cat.sync("memory://elsewhere", [{}])  # type: ignore[list-item]


@pytest.mark.parametrize("digits", [NUMBER_DIGITS_MAX, NUMBER_DIGITS_MAX + 2])
def test_numbers_have_so_many_digits(cat: Catalog, digits: int) -> None:
    """Python writes out no integer of more than 4,300 digits, and raises a `ValueError` instead."""
    number = 10 ** (digits - 1)
    filters: list[Any] = [f"id < 1{'0' * (digits - 1)}", [("id", "<", number)], [("id", "in", [1, number])]]
    for filter in filters:
        if digits <= NUMBER_DIGITS_MAX:
            scan = cat.table("t").scan(filter=filter)
            assert scan.count() == 1
            assert str(scan.explain())
        else:
            with pytest.raises(LimitExceeded, match="digits"):
                cat.table("t").scan(filter=filter)


def test_a_signaling_nan_is_nan(cat: Catalog) -> None:
    for sign in ("=", "<", ">", "!="):
        both = [cat.read("t", filter=[("v", sign, Decimal(text))]).num_rows for text in ("NaN", "sNaN")]
        assert both[0] == both[1]


def test_lists_are_no_single_values(cat: Catalog) -> None:
    """However deep: Arrow ended the process."""
    for odd in ([1], (1,), {"a": 1}, {1}, np.array([1, 2]), nested(100_000)):
        with pytest.raises(InvalidFilter, match="compare with single values"):
            cat.read("t", filter=[("id", "=", odd)])


def test_shown_is_short_and_never_raises() -> None:
    assert shown("short") == "'short'"
    assert shown({"a": [1, None, 2.5]}) == "{'a': [1, None, 2.5]}"
    assert shown(b"\x00\xff") == r"b'\x00\xff'"
    assert shown(nested(1500)) == "[[[[[[[...]]]]]]]"
    assert shown(10**6000) == "<int>"
    assert shown([Unprintable()]) == "<list>"
    for long in (
        "x" * 1000,
        b"x" * 1000,
        list(range(1000)),
        {n: n for n in range(1000)},
        [["x" * 50] * 50] * 50,
    ):
        assert len(shown(long)) <= 80
        assert len(shown(long, 40)) <= 40
        assert "..." in shown(long)
