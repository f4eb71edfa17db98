"""A handle that commits again and again does not put together the clocks of all versions each time."""

from __future__ import annotations

from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.head import clocks
from crdtcat.head.clocks import Clocks
from crdtcat.log.gaps import clock_of
from tests.catalog.lakes import another, lake

ROWS = [{"n": n, "x": 0} for n in range(40)]


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_a_commit_goes_on_from_the_clock_of_the_one_before(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = lake()
    table = catalog.create_table("t", mode=mode)
    table.append(ROWS)
    decoded: list[str] = []

    def counted(blob: bytes, name: str) -> Any:
        decoded.append(name)
        return clock_of(blob, name)

    monkeypatch.setattr(clocks, "clock_of", counted)
    for n in range(20):
        decoded.clear()
        table.update(f"n = {n}", {"x": n})
        assert len(decoded) <= 2, "of the version before, and of nothing below it"
    assert _clocks_are_those_of_a_fresh_handle(catalog)


def test_also_where_others_came_between_and_where_history_was_expired() -> None:
    catalog = lake(max_commit_delay_seconds=0)
    table = catalog.create_table("t", mode="cas")
    table.append(ROWS)
    other = another(catalog).table("t")
    for n in range(12):
        (other if n % 3 else table).update(f"n = {n}", {"x": n})
        other.append(ROWS[:1])
        if n == 6:
            table.expire(keep_last=3)
        assert _clocks_are_those_of_a_fresh_handle(catalog)


def _clocks_are_those_of_a_fresh_handle(catalog: Catalog) -> bool:
    mine, fresh = (each.table("t").head() for each in (catalog, another(catalog)))
    first, second = mine.folded.clocks, Clocks(fresh.log)
    assert (mine.log.ids == fresh.log.ids).all()
    return all(first.of(at) == second.of(at) for at in reversed(range(len(mine.log))))
