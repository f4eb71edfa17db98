"""Every example of docs/filters.md is run, on the table of that page."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import InvalidFilter

PAGE = (Path(__file__).parent.parent.parent / "docs/filters.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_EXAMPLE = re.compile(r"(.+?)\s+(?:--|#) (?:rows ([\d, ]+)|none)")
NAMES = {
    "math": math, "date": date, "datetime": datetime, "time": time, "Decimal": Decimal, "pa": pa, "pc": pc
}  # fmt: skip


def examples(language: str) -> list[tuple[str, list[int]]]:
    found = []
    blocks = [code for kind, code in _BLOCK.findall(PAGE) if kind == language]
    for line in "".join(block for block in blocks if not block.startswith("rows = ")).splitlines():
        parts = _EXAMPLE.fullmatch(line)
        assert parts, f"no rows are told for {line!r}"
        found.append((parts[1], [int(row) for row in (parts[2] or "").split(",") if row]))
    return found


def not_supported() -> list[tuple[str, str]]:
    table = PAGE.partition("### Not supported")[2].partition("\n\n| not ")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
    return [(refused.strip("`"), instead) for refused, instead in cells]


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    names: dict[str, Any] = {}
    (code,) = (code for _, code in _BLOCK.findall(PAGE) if code.startswith("rows = "))
    exec(code, {**NAMES}, names)
    table: pa.Table = names["rows"]
    return table


@pytest.fixture(scope="module")
def table(rows: pa.Table) -> Table:
    table = Catalog("memory://filters-page", upkeep=False).create_table("t", rows.schema, exist_ok=True)
    table.overwrite(rows)
    return table


@pytest.fixture(scope="module")
def connection(rows: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("set threads = 1; set timezone = 'UTC'")
        connection.register("arrow_rows", rows)
        connection.execute("create temp table rows_copy as select * from arrow_rows")
        yield connection


def kept(table: Table, filter: Any) -> list[int]:
    found: list[int] = table.read(columns=["row"], filter=filter)["row"].to_pylist()
    return found


@pytest.mark.parametrize(("condition", "expected"), examples("sql"))
def test_sql_keeps_the_rows_the_page_says(
    table: Table, connection: duckdb.DuckDBPyConnection, condition: str, expected: list[int]
) -> None:
    assert kept(table, condition) == expected
    by_duckdb = connection.execute(f"select row from rows_copy where {condition} order by row").fetchall()
    assert [row for (row,) in by_duckdb] == expected


@pytest.mark.parametrize(("code", "expected"), examples("python"))
def test_tuples_and_expressions_keep_the_rows_the_page_says(
    table: Table, code: str, expected: list[int]
) -> None:
    assert kept(table, eval(code, {**NAMES})) == expected


@pytest.mark.parametrize(("refused", "instead"), not_supported())
def test_what_the_page_says_is_refused_is(table: Table, refused: str, instead: str) -> None:
    with pytest.raises(InvalidFilter):
        kept(table, refused)
    whole = re.fullmatch(r"`([^`]*)`(?:: .*)?", instead)
    if whole:
        kept(table, whole[1])
    else:
        assert instead


def test_the_page_has_examples() -> None:
    assert len(examples("sql")) > 60
    assert len(examples("python")) > 15
    assert len(not_supported()) > 15


def test_parentheses_nest(table: Table) -> None:
    assert kept(table, "(" * 16 + "amount = 5" + ")" * 16) == [1]
    with pytest.raises(InvalidFilter, match="nested too deeply"):
        kept(table, "(" * 5000 + "amount = 5" + ")" * 5000)
