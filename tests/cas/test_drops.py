"""Dropping a table in CAS mode: whoever still commits to it is told, also without having listed."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import NotFound
from crdtcat.protocol import is_claim
from crdtcat.store.memory import MemoryStore
from crdtcat.table import Table
from tests.bounds import bounded
from tests.cas.scenes import SCHEMA, lake, rows, values
from tests.catalog.test_races import Stage, StagedStore
from tests.cost.places import asked

KEYED = pa.schema([("n", pa.int64()), ("x", pa.int64())])


def left(catalog: Catalog) -> list[str]:
    return [item.name for item in catalog.store.list("tables/t/main/")]


@pytest.mark.parametrize("behind", [0, 1, 5])
@pytest.mark.parametrize("bundled", [False, True])
def test_a_warm_append_to_a_dropped_table_is_told(behind: int, *, bundled: bool) -> None:
    catalog, url = lake()
    warm = catalog.create_table("t", SCHEMA, mode="cas")
    warm.append(rows("mo", 1))
    other = Catalog(url, upkeep=False)
    for n in range(behind):
        other.table("t").append(rows("mo", 2 + n))
    if bundled:
        other.table("t").checkpoint()
    other.drop_table("t")
    for _ in range(2):
        with pytest.raises(NotFound, match="dropped"):
            warm.append(rows("mo", 99))
    assert other.tables() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.append(rows("mo", 5)),
        lambda t: t.update("n = 1", {"x": 1}),
        lambda t: t.delete("n = 1"),
        lambda t: t.overwrite(rows("mo", 6)),
        lambda t: t.set_properties(p=1),
    ],
)
def test_no_verb_is_acknowledged_for_a_dropped_table(change: Callable[[Table], Any]) -> None:
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 1))
    Catalog(url).drop_table("t")
    with pytest.raises(NotFound, match="dropped"):
        change(table)


def test_one_that_nobody_ever_wrote_to_and_one_with_a_key() -> None:
    catalog, url = lake()
    empty = catalog.create_table("t", SCHEMA, mode="cas")
    keyed = catalog.create_table("k", KEYED, mode="cas", key=["n"])
    keyed.upsert([{"n": 1, "x": 1}])
    other = Catalog(url)
    for name in ("t", "k"):
        other.drop_table(name)
    with pytest.raises(NotFound):
        empty.append(rows("mo", 1))
    with pytest.raises(NotFound):
        keyed.upsert([{"n": 2, "x": 1}])


def test_a_transaction_is_told_and_leaves_nothing_in_other_tables() -> None:
    catalog, url = lake()
    for name in ("s", "t"):
        catalog.create_table(name, SCHEMA, mode="cas").append(rows("mo", 1))
    tx = catalog.transaction(["s", "t"])
    for name in ("s", "t"):
        tx.append(name, rows("mo", 2))
    Catalog(url).drop_table("t")
    with pytest.raises(NotFound, match="dropped"):
        tx.commit()
    assert values(Catalog(url).table("s")) == [(1, 0)]
    assert catalog.table("s").append(rows("mo", 3)).number == 3, "its claim is aborted"


def test_created_again_the_old_handle_is_told_and_the_new_table_is_empty() -> None:
    catalog, url = lake()
    old = catalog.create_table("t", SCHEMA, mode="cas")
    old.append(rows("mo", 1))
    other = Catalog(url, upkeep=False)
    other.drop_table("t")
    new = other.create_table("t", SCHEMA, mode="cas")
    with pytest.raises(NotFound):
        old.append(rows("mo", 2))
    assert new.append(rows("mo", 3)).number == 1
    assert values(Catalog(url).table("t")) == [(3, 0)]


def test_a_deleted_branch_is_told_too() -> None:
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 1))
    branch = table.branch("b")
    branch.append(rows("mo", 2))
    Catalog(url).table("t").delete_branch("b")
    with pytest.raises(NotFound):
        branch.append(rows("mo", 3))
    assert table.append(rows("mo", 4)).number == 2


def test_claims_stay_for_a_day_and_are_garbage_then() -> None:
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    for n in range(3):
        table.append(rows("mo", n))
    table.checkpoint()
    assert asked(catalog, lambda: catalog.drop_table("t")) == {"get": 1, "put": 3, "list": 2, "delete": 1}
    assert [is_claim(name) for name in left(catalog)] == [True] * 4 + [False]
    catalog.collect()
    assert len(left(catalog)) == 5
    Catalog(url, upkeep=False).collect(grace=0)
    assert left(catalog) == ["tables/t/main/dropped"]


def raced(seed: int) -> int:
    """Request by request: two who append, warm, and one who drops. How often somebody was told."""
    url, stage = f"memory://drops-{secrets.token_hex(6)}", Stage(seed)
    Catalog(MemoryStore(url), upkeep=False).create_table("t", SCHEMA, mode="cas").append(rows("mo", 0))
    over: list[bool] = []
    told: list[int] = []

    def opened() -> Catalog:
        store = StagedStore(url)
        store.stage = stage
        catalog = Catalog(store, upkeep=False, base_delay=0)
        catalog.table("t").head()
        return catalog

    def appends(catalog: Catalog, n: int) -> Callable[[], None]:
        def run() -> None:
            for turn in range(3):
                began_after = bool(over)
                try:
                    catalog.table("t").append(rows("mo", 10 * n + turn))
                except NotFound:
                    told.append(n)
                    return
                assert not began_after, f"seed {seed}: acknowledged, and the table was dropped before"

        return run

    def drops(catalog: Catalog) -> Callable[[], None]:
        def run() -> None:
            catalog.drop_table("t")
            over.append(True)

        return run

    stage.run([appends(opened(), 1), appends(opened(), 2), drops(opened())])
    return len(told)


def test_whatever_the_order_an_append_after_the_drop_is_never_acknowledged() -> None:
    assert sum(raced(seed) for seed in range(bounded(300, 5))) > 20
