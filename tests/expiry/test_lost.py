"""Cells that lost, below a horizon and above it: what is over is not listed, and what is listed is read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import NotFound
from tests.catalog.lakes import another, lake
from tests.rows.late import held_back

SCHEMA = pa.schema([("id", pa.int64()), ("a", pa.int64())])
NOW = timedelta(0)
INLINED = pytest.mark.parametrize("inline_bytes", [0, 4096])


def two_handles(inline_bytes: int, **settings: Any) -> tuple[Catalog, Table, Table]:
    options: dict[str, Any] = {
        "max_commit_delay_seconds": 0,
        "grace_seconds": 0,
        "inline_bytes": inline_bytes,
    }
    catalog = lake(**options)
    table = catalog.create_table("t", SCHEMA, **settings)
    table.append([{"id": at, "a": at} for at in range(6)])
    return catalog, table, another(catalog, **options).table("t")


def meet(first: Table, second: Table, kind: str, value: int) -> None:
    """The first handle's change wins over an update of the second that it had not seen."""
    second.head()
    arrive = held_back(second, lambda: second.update("id = 1", {"a": value}))
    if kind == "cell":
        first.update("id = 1", {"a": -value})
    else:
        first.delete("id = 1")
    arrive()


@pytest.mark.parametrize("kind", ["cell", "deleted"])
@INLINED
def test_cells_that_lost_below_the_horizon_are_forgotten(kind: str, inline_bytes: int) -> None:
    catalog, first, second = two_handles(inline_bytes)
    meet(first, second, kind, 7)
    (lost,) = first.conflicts()
    assert lost.kind == kind
    first.compact()
    assert first.lost_values(lost)["a"].to_pylist() == [7]
    rows = first.read()
    first.expire(older_than=NOW)
    for _ in range(3):
        for handle in (first, second):
            assert handle.conflicts() == ()
            assert handle.read() == rows
            with pytest.raises(NotFound, match="let go by an expiry"):
                handle.lost_values(lost)
        catalog.collect(grace=0)


@pytest.mark.parametrize("kind", ["cell", "deleted"])
@INLINED
def test_cells_that_lost_above_the_horizon_are_listed_and_read(kind: str, inline_bytes: int) -> None:
    catalog, first, second = two_handles(inline_bytes)
    meet(first, second, "cell", 7)
    first.compact()
    first.expire(older_than=NOW)
    meet(first, second, kind, 8)
    for _ in range(3):
        (lost,) = first.conflicts()
        assert lost.kind == kind
        assert first.lost_values(lost)["a"].to_pylist() == [8]
        first.compact()
        catalog.collect(grace=0)


@INLINED
@pytest.mark.parametrize("key", [(), ("id",)])
def test_what_lost_to_a_version_above_though_its_values_were_let_go(inline_bytes: int, key: Any) -> None:
    """That it lost is known by its rows; which keys it had, nobody can tell any more."""
    _, first, second = two_handles(inline_bytes, key=key)
    stale = second.head()
    loser = first.update("id = 1", {"a": 7})
    first.compact()
    first.expire(older_than=NOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second._session, "head", lambda **_: stale)
        winner = second.update("id = 1", {"a": 8})
    assert first.read(filter="id = 1")["a"].to_pylist() == [8]
    if key:
        assert first.lost_cells() == []
    else:
        (lost,) = first.conflicts()
        assert (lost.kind, lost.winner, lost.loser) == ("cell", winner.id, loser.id)
        with pytest.raises(NotFound, match="let go by an expiry"):
            first.lost_values(lost)


@INLINED
def test_lost_cells_of_keys(inline_bytes: int) -> None:
    catalog, first, second = two_handles(inline_bytes, key=["id"])
    meet(first, second, "cell", 7)
    (below,) = first.lost_cells()
    assert first.lost_values(below)["a"].to_pylist() == [7]
    first.compact()
    first.expire(older_than=NOW)
    for _ in range(3):
        for handle in (first, second):
            assert handle.lost_cells() == handle.lost_cells(blind=True) == []
            with pytest.raises(NotFound):
                handle.lost_values(below)
        catalog.collect(grace=0)
    meet(first, second, "cell", 8)
    for _ in range(3):
        (above,) = first.lost_cells()
        assert first.lost_values(above)["a"].to_pylist() == [8]
        first.compact()
        catalog.collect(grace=0)


@INLINED
def test_blind_upserts_that_a_compaction_made_one_of(inline_bytes: int) -> None:
    _, table, _ = two_handles(inline_bytes, key=["id"])
    table.upsert([{"id": 1, "a": 1}])
    table.upsert([{"id": 1, "a": 2}])
    table.compact()
    table.expire(older_than=NOW)
    assert table.lost_cells() == []
