"""Two who widen one column at once to types that do not meet, and copies in the type that lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.scan.plan import make_plan
from crdtcat.scan.units import units
from crdtcat.spark import native
from tests.catalog.lakes import another, lake, objects
from tests.rows.late import held_back

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int32()), ("w", pa.struct([("x", pa.int16())]))])
Act = Callable[[Table], object]
AT_ONCE = timedelta(0)


def nothing(table: Table) -> None:
    pass


def compact(table: Table) -> None:
    assert table.compact().versions > 0


def race(table: Table) -> None:
    """Two compactions of the same rows, one of which has not seen the last update."""
    arrive = held_back(table, lambda: table.compact(rows=2))
    table.update("id = 3", {"v": 33})
    table.compact()
    arrive()


def expire(table: Table) -> None:
    compact(table)
    table.expire(older_than=AT_ONCE)


def cluster(table: Table) -> None:
    table.compact(cluster_by=["id"])


def made(act: Act, **settings: Any) -> tuple[Catalog, Table, Table]:
    """A table in which int32 was widened to int64, and to double by somebody who wins, and had not seen the
    other; `act` is done by one who has seen only the other."""
    catalog = lake(inline_bytes=0, max_commit_delay_seconds=0)
    table = catalog.create_table("t", SCHEMA, **settings)
    table.append([{"id": at, "v": at, "w": {"x": at}} for at in range(6)])
    table.append([{"id": 9, "v": None, "w": None}])
    if settings:
        table.upsert([{"id": 1, "v": 11}])
    else:
        table.update("id = 1", {"v": 11})
    table.delete("id = 4")
    offline = _copied(catalog)
    other = another(catalog, max_commit_delay_seconds=0).table("t")
    wide = pa.struct([("x", pa.int64())])
    other.widen_column("v", pa.int64())
    other.widen_column("w", wide)
    later = pa.table({"id": [20], "v": [2**40], "w": pa.array([{"x": 2**40}], wide)})
    other.append(later)
    if settings:
        other.upsert(pa.table({"id": [2], "v": [2**41]}))
    else:
        other.update("id = 2", {"v": 2**41})
        other.update("id = 3", {"v": 33})
    act(other)
    before = str(table.scan().snapshot)
    known = objects(offline)
    winner = offline.table("t")
    winner.widen_column("v", pa.float64())
    winner.widen_column("w", pa.struct([("x", pa.float32())]))
    _carry(offline, catalog, objects(offline).keys() - known.keys())
    table = another(catalog, max_commit_delay_seconds=0).table("t")
    table.tag("before", before)
    return catalog, table, other


def _copied(catalog: Catalog) -> Catalog:
    """A catalog of the same objects, for somebody who is offline from now on."""
    copy = lake()
    copy._clock = catalog._clock
    _carry(catalog, copy, objects(catalog).keys())
    return copy


def _carry(source: Catalog, target: Catalog, names: Iterable[str]) -> None:
    for name in names:
        target.store.put(name, source.store.get(name))


EXPECTED: list[dict[str, Any]] = [
    {"id": 0, "v": 0.0, "w": {"x": 0.0}},
    {"id": 1, "v": 11.0, "w": {"x": 1.0}},
    {"id": 2, "v": None, "w": {"x": 2.0}},  # 2**41, as int64, which lost
    {"id": 3, "v": None, "w": {"x": 3.0}},
    {"id": 5, "v": 5.0, "w": {"x": 5.0}},
    {"id": 9, "v": None, "w": None},
    {"id": 20, "v": None, "w": None},
]
KEYED: list[dict[str, Any]] = [{**row, "v": 3.0} if row["id"] == 3 else row for row in EXPECTED]
ROW_ACTS = [nothing, compact, race, expire, cluster]
KEYED_ACTS = [nothing, compact, expire]


@pytest.mark.parametrize("act", ROW_ACTS)
def test_rows_read_as_if_nobody_had_compacted(act: Act) -> None:
    catalog, table, _ = made(act)
    assert table.schema.field("v").type == pa.float64()
    check(catalog, table, EXPECTED)


@pytest.mark.parametrize("act", KEYED_ACTS)
def test_keys_read_as_if_nobody_had_compacted(act: Act) -> None:
    catalog, table, _ = made(act, key=["id"])
    check(catalog, table, KEYED)


def check(catalog: Catalog, table: Table, expected: list[dict[str, Any]]) -> None:
    assert table.read().to_pylist() == expected
    for column, condition, holds in (
        ("v", "v = 11", lambda v: v == 11),
        ("v", "v is null", lambda v: v is None),
        ("v", "v is not null", lambda v: v is not None),
        ("v", "v < 3", lambda v: v is not None and v < 3),
        ("id", "id = 5", lambda v: v == 5),
    ):
        found = [row for row in expected if holds(row[column])]
        assert table.read(filter=condition).to_pylist() == found, condition
        assert table.scan(filter=condition).count() == len(found), condition
        assert table.read(columns=["v"], filter=condition)["v"].to_pylist() == [row["v"] for row in found]
    assert table.verify("content").ok
    feed = table.changes("before").to_table().to_pylist()  # int64 is nothing a double column can show
    shown = {row["id"]: row["v"] for row in table.read(at="before").to_pylist()}
    assert {row["id"] for row in feed if row["_change"] == "update_after"} == {
        row["id"] for row in expected if row["v"] is not None or row["w"] is not None
    }
    assert shown[20] == 2**40
    copy = another(catalog, max_commit_delay_seconds=0).table("t")
    copy.compact()  # what does not fit is left as it is
    assert copy.read().to_pylist() == expected
    copy.write(copy.read())
    assert copy.read().to_pylist() == expected
    copy.delete_tag("before")
    copy.expire(older_than=AT_ONCE)
    assert another(catalog).table("t").read().to_pylist() == expected


@pytest.mark.parametrize("act", [compact, expire])
def test_spark_leaves_such_copies_to_our_reader(act: Act) -> None:
    _, table, _ = made(act)
    head = table._session.head()
    plan = make_plan(head, None, None)
    _, left = native.split(plan, list(units(plan, together=False)), head.log)
    assert set(left) == set(plan.chunks.tolist())


def test_whoever_widens_after_both_has_everything_in_one_type() -> None:
    _, table, other = made(compact)
    table.compact()
    other.update("v = 5", {"v": 5.5})
    assert table.read(filter="id = 5")["v"].to_pylist() == [5.5]
    table.compact()
    assert table.read(filter="id = 5")["v"].to_pylist() == [5.5]
