"""Pruning through the whole stack: whatever happened to the table, a filtered read is a read, filtered."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Table
from crdtcat.errors import CrdtcatError
from crdtcat.scan.filters import parse_filter
from tests.bounds import bounded
from tests.catalog.lakes import another, lake
from tests.scan.filter_tables import CONDITIONS, SCHEMA, tables
from tests.scan.test_filter_arrow import EXPRESSIONS
from tests.scan.test_filter_dnf import FILTERS


def check(table: Table, filters: list[Any]) -> None:
    whole = table.read()
    for filter in filters:
        try:
            expression = parse_filter(filter, whole.schema).expression
            expected = whole.filter(expression)
        except (CrdtcatError, pa.ArrowException):
            continue  # not a filter for these columns: other tests say how it is refused
        scan = table.scan(["row"], filter)
        assert scan.to_table()["row"].to_pylist() == expected["row"].to_pylist()
        assert scan.count() == expected.num_rows
        assert table.scan(filter=filter).to_table().num_rows == expected.num_rows


ALL_FILTERS = st.lists(CONDITIONS | EXPRESSIONS | FILTERS, min_size=1, max_size=4)


@settings(max_examples=bounded(40, 2), deadline=None)
@given(st.lists(tables(), min_size=1, max_size=3), ALL_FILTERS, st.integers(1, 4), st.booleans())
def test_filtered_reads(data: list[pa.Table], filters: list[Any], chunk_rows: int, inline: bool) -> None:
    catalog = lake(chunk_rows=chunk_rows, **({} if inline else {"inline_bytes": 0}))
    table = catalog.create_table("t", SCHEMA)
    for item in data:
        table.append(item)
    check(table, filters)
    table.checkpoint()
    check(another(catalog).table("t"), filters)


WIDER = {
    "tiny": [pa.int16(), pa.int64(), pa.float64()],
    "single": [pa.float64()],
    "name": [pa.large_string()],
}
CHANGES = st.lists(
    st.sampled_from(
        [
            ("widen", "tiny", 0),
            ("widen", "tiny", 1),
            ("widen", "tiny", 2),
            ("widen", "single", 0),
            ("widen", "name", 0),
            ("swap", "tiny", 0),
            ("swap", "name", 0),
            ("again", "big", 0),
            ("again", "name", 0),
            ("blind", "big", 0),
            ("restore", "", 0),
        ]
    ),
    max_size=4,
)


@settings(max_examples=bounded(40, 2), deadline=None)
@given(st.lists(tables(), min_size=1, max_size=3), CHANGES, ALL_FILTERS)
def test_filtered_reads_of_a_table_that_changed(
    data: list[pa.Table], changes: list[tuple[str, str, int]], filters: list[Any]
) -> None:
    catalog = lake(chunk_rows=3)
    table = catalog.create_table("t", SCHEMA)
    blind = another(catalog).table("t")  # goes on writing by the names and types it knows
    first = None
    for number, item in enumerate(data):
        blind.append(item)
        first = first or table.head().snapshot
        for change in changes[number::3]:
            change_table(table, change, first)
    blind.append(data[0])
    check(table, filters)


def change_table(table: Table, change: tuple[str, str, int], first: Any) -> None:
    kind, name, which = change
    try:
        if kind == "widen":
            table.widen_column(name, WIDER[name][which])
        elif kind == "swap":  # another column gets the name that filters ask for
            table.rename_column(name, f"old {name}")
            table.rename_column("odd näme", name)
        elif kind == "again":
            table.drop_column(name)
            table.add_column(name, pa.string() if name == "big" else pa.int64())
        elif kind == "blind":
            table.append(pa.table({name: [1, None]}))
        else:
            table.restore(first)
    except CrdtcatError:
        pass  # it does not apply to what earlier changes left
