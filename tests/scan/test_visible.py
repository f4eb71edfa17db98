"""What later updates cover is not fetched, and nobody reads anything else because of it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.scan.visible import Visible
from tests.bounds import bounded
from tests.catalog.lakes import another, lake
from tests.cost.places import asked

SCHEMA = pa.schema([("n", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])


def filled(rows: int, chunk_rows: int) -> tuple[Catalog, Table]:
    catalog = lake(inline_bytes=0, chunk_rows=chunk_rows)
    table = catalog.create_table("t", SCHEMA)
    table.append({"n": list(range(rows)), "a": [0] * rows, "b": [0] * rows})
    return catalog, table


def fetched(catalog: Catalog) -> int:
    """Segments that a read asks for, by a handle that has the head and no footer."""
    fresh = another(catalog)
    cold = fresh.table("t")
    cold.head()
    return asked(fresh, cold.read).get("get", 0)


@pytest.mark.parametrize("updates", [1, 5])
def test_updates_of_the_same_cells_cost_the_last_of_them(updates: int) -> None:
    catalog, table = filled(100, 100)
    for number in range(updates):
        table.update("n < 50", {"a": number})
    assert fetched(catalog) == 2  # the rows, and one update's cells


def test_what_shows_in_one_column_or_one_row_is_fetched() -> None:
    for where, values in (("n < 49", {"a": 2}), ("n < 50", {"b": 2})):
        catalog, table = filled(100, 100)
        table.update("n < 50", {"a": 1})
        table.update(where, values)
        assert fetched(catalog) == 3


def test_what_lies_there_of_other_columns_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many updates of a lie over it: to find rows by n is as if there were none."""
    _, table = filled(100, 100)
    for number in range(9):
        table.update(f"n >= {number}", {"a": number})
    looked: list[object] = []
    rows_of = Visible._rows

    def noted(self: Visible, sheet: Any) -> Any:
        looked.append(sheet)
        return rows_of(self, sheet)

    monkeypatch.setattr(Visible, "_rows", noted)
    assert table.read(["n", "b"], "n < 20").num_rows == 20
    table.update("n < 20", {"a": 7})
    assert looked == []
    assert set(table.read(["a"], "n < 20")["a"].to_pylist()) == {7}
    assert looked


changes = st.lists(
    st.tuples(
        st.sampled_from(["update", "update", "update", "delete", "compact", "drop"]),
        st.integers(0, 11),
        st.integers(1, 12),
        st.sets(st.sampled_from(["a", "b"]), min_size=1),
    ),
    max_size=8,
)


@given(changes)
@settings(max_examples=bounded(60, 4), deadline=None)
def test_as_if_everything_were_laid_over(done: list[tuple[str, int, int, set[str]]]) -> None:
    """Against dicts, and against a reader that leaves nothing out; from updates that have seen each other
    and such that have not."""
    catalog, table = filled(12, 5)
    stale = another(catalog, inline_bytes=0, chunk_rows=5).table("t")
    stale.head()
    model: dict[int, dict[str, Any]] = {n: {"n": n, "a": 0, "b": 0} for n in range(12)}
    columns = ["a", "b"]
    for number, (what, start, length, chosen) in enumerate(done, 1):
        where = f"n >= {start} and n < {start + length}"
        mine = [n for n in model if start <= n < start + length]
        names = chosen & {*columns}
        if what == "update" and names:
            table.update(where, dict.fromkeys(names, number))
            for n in mine:
                model[n] |= dict.fromkeys(names, number)
        elif what == "delete":
            table.delete(where)
            for n in mine:
                del model[n]
        elif what == "compact":
            table.compact(rows=7)
        elif what == "drop" and "b" in columns:
            table.drop_column("b")
            columns.remove("b")
    expected = [{name: row[name] for name in ("n", *columns)} for row in model.values()]
    assert table.read().to_pylist() == expected
    stale.update("n >= 3 and n < 9", {"a": -1})  # the last one, by whatever it has seen
    merged = table.read()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Visible, "sheets_of", lambda self, entry, _: self._head.rows.sheets_of(entry))
        assert merged.equals(table.read())
