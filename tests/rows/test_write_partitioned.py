"""`write` to partitioned tables: compared partition by partition, however these take turns in the table."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.difference.script import make_script
from crdtcat.verbs import write_sides
from crdtcat.verbs.write_places import apart
from tests.catalog.lakes import another, lake
from tests.rows.late import held_back

SCHEMA = pa.schema([("n", pa.int64()), ("p", pa.int32()), ("x", pa.int64())])
Row = dict[str, Any]


def taking_turns(**options: Any) -> tuple[Catalog, Table]:
    """Three appends of rows of three partitions each: 0 3, 1 4, 2 5, then 6 9, and so on."""
    catalog = lake(**options)
    table = catalog.create_table("t", SCHEMA, partition_by=["p"])
    for start in (0, 6, 12):
        table.append([{"n": n, "p": n % 3, "x": 0} for n in range(start, start + 6)])
    return catalog, table


def by_partition(rows: list[Row]) -> dict[Any, list[Row]]:
    found = defaultdict(list)
    for row in rows:
        found[row["p"]].append(row)
    return found


@pytest.mark.parametrize("on", [None, ["n"]])
@pytest.mark.parametrize("compacted", [False, True])
def test_the_same_again_says_nothing(on: list[str] | None, compacted: bool) -> None:
    _, table = taking_turns()
    if compacted:
        table.compact(rows=4)
    version = table.write(table.read(), on=on)
    assert (version.rows, version.rows_updated, version.rows_deleted) == (0, 0, 0)


@pytest.mark.parametrize("on", [None, ["n"]])
@pytest.mark.parametrize("compacted", [False, True])
def test_only_what_differs_travels_and_partitions_have_the_order_of_the_data(
    on: list[str] | None, compacted: bool
) -> None:
    _, table = taking_turns()
    if compacted:
        table.compact(rows=4)
    rows = table.read().to_pylist()
    rows = [{**row, "x": 1} if row["n"] == 7 else row for row in rows if row["n"] != 9]
    new = [{"n": 100 + p, "p": p, "x": 2} for p in (2, 1, 0, 3)]
    rows = [*new, *rows, {"n": 200, "p": 1, "x": 2}]
    for _ in range(2):
        version = table.write(pa.Table.from_pylist(rows, SCHEMA), on=on)
        assert by_partition(table.read().to_pylist()) == by_partition(rows)
    assert (version.rows, version.rows_updated, version.rows_deleted) == (0, 0, 0), "the second time"
    first = table.history()[-2]
    assert (first.rows_added, first.rows_updated, first.rows_deleted) == (5, 1, 1)


def test_what_another_deletes_meanwhile_is_not_brought_back() -> None:
    catalog, table = taking_turns()
    other = another(catalog).table("t")
    arrive = held_back(other, lambda: other.delete("n < 17"))
    table.write(table.read())
    arrive()
    assert table.read()["n"].to_pylist() == [17]
    assert not table.conflicts()


def test_rows_of_other_partitions_are_not_taken_for_one_that_changed() -> None:
    """The third old row is in a partition of which there are no new rows, the third new one in the second."""
    numbers, none = np.arange(3), np.empty((0, 3), np.int64)
    script = make_script((3, 3), none, (numbers, numbers), {"n": np.ones(3, np.bool_)})
    found = apart(script, np.array([0, 1, 2]), np.array([0, 1, 3]))
    assert (found.updated_old.tolist(), found.updated_new.tolist()) == ([0, 1], [0, 1])
    assert (found.deleted.tolist(), found.inserted.tolist()) == ([2], [[1, 2, 1]])
    assert found.changed["n"].tolist() == [True, True]


def test_rows_are_not_taken_for_equal_ones_that_stand_in_another_partition() -> None:
    """Nothing is equal across partitions but where columns were added, or values are told by another type."""
    kept, nothing = np.array([[1, 0, 4]]), np.empty(0, np.int64)
    script = make_script((5, 4), kept, (nothing, nothing), {})
    found = apart(script, np.array([0, 2, 5]), np.array([0, 1, 2, 4]))
    assert found.kept.tolist() == [[1, 0, 2]]
    assert (found.deleted.tolist(), found.inserted.tolist()) == ([0, 3, 4], [[2, 2, 2]])
    assert apart(script, np.array([0, 3, 5]), np.array([0, 2, 4])) is script


@pytest.mark.parametrize("on", [None, ["n"]])
def test_rows_that_an_update_had_moved_are_where_they_are_now(on: list[str] | None) -> None:
    """Not where they are stored: the same again says nothing, and what others do to them meanwhile holds."""
    catalog, table = taking_turns()
    table.update("n in (1, 7, 14)", {"p": 0})
    table.delete("n = 13")
    other = another(catalog).table("t")
    arrive = held_back(other, lambda: other.update("n = 7", {"x": 1}))
    version = table.write(table.read(), on=on)
    assert (version.rows, version.rows_updated, version.rows_deleted) == (0, 0, 0)
    arrive()
    assert [row["x"] for row in table.read(filter="n = 7").to_pylist()] == [1]
    rows = table.read().to_pylist()[::-1]
    table.write(pa.Table.from_pylist(rows, SCHEMA), on=on)
    assert by_partition(table.read().to_pylist()) == by_partition(rows)


@pytest.mark.parametrize("moved_before", [False, True])
@pytest.mark.parametrize("on", [None, ["n"]])
def test_rows_that_are_moved_to_another_partition_have_the_order_of_the_data(
    on: list[str] | None, moved_before: bool
) -> None:
    table = lake().create_table("t", SCHEMA, partition_by=["p"])
    table.append([{"n": 1, "p": 1, "x": 0}])
    table.append([{"n": n, "p": 0, "x": 0} for n in (2, 0)])
    if moved_before:
        table.update("n = 0", {"p": 1})
    rows = [{"n": n, "p": p, "x": 0} for n, p in ((2, 0), (0, 1), (1, 1))]
    table.write(pa.Table.from_pylist(rows, SCHEMA), on=on)
    assert by_partition(table.read().to_pylist()) == by_partition(rows)


def test_a_chunk_whose_rows_went_to_many_partitions_is_not_read_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_sides, "MOVED_MAX", 1)
    _, table = taking_turns()
    table.update("n < 6", {"p": 7})
    table.update("n = 0", {"p": 8})
    rows = table.read().to_pylist()
    table.write(pa.Table.from_pylist(rows, SCHEMA))
    assert by_partition(table.read().to_pylist()) == by_partition(rows)
