"""A handle reads its own writes; where they were deleted behind its back it says so, and names the file."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta

import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import Corrupt, NotFound
from crdtcat.protocol.names import is_commit, is_version
from crdtcat.writing.recent import RECENT_FILES_MAX

URL = "memory://own"
GONE = "was stored by this handle, and is gone"


def written(commits: int = 3, **options: object) -> tuple[Catalog, Table]:
    catalog = Catalog(URL, upkeep=False, **options)  # type: ignore[arg-type]
    table = catalog.create_table("t")
    for n in range(commits):
        table.append([{"id": n}])
    return catalog, table


def versions(catalog: Catalog) -> list[str]:
    return [item.name for item in catalog.store.list("tables/t/main/") if is_version(item.name)]


@pytest.mark.parametrize("lost", [slice(None), slice(-1, None)])
@pytest.mark.parametrize("read_before", [False, True])
def test_what_a_handle_wrote_and_is_gone_is_damage(lost: slice, read_before: bool) -> None:
    catalog, table = written()
    if read_before:
        table.head()
        table.append([{"id": 3}])
    names = versions(catalog)
    catalog.store.delete(names[lost])
    for _ in range(2):
        with pytest.raises(Corrupt, match=GONE) as raised:
            table.read()
        assert names[-1] in str(raised.value)


def test_what_others_bundled_collected_and_expired_is_not_gone() -> None:
    _, table = written(RECENT_FILES_MAX + 2)
    upkeep = Catalog(URL, grace_seconds=0, max_commit_delay_seconds=0, upkeep=False).table("t")
    upkeep.checkpoint()
    upkeep.collect()
    assert table.read().num_rows == RECENT_FILES_MAX + 2
    table.append([{"id": 99}])
    upkeep.append([{"id": 100}])
    upkeep.expire(older_than=timedelta(0))
    assert table.read().num_rows == RECENT_FILES_MAX + 4


def test_nor_is_that_of_a_dropped_table() -> None:
    _, table = written()
    Catalog(URL).drop_table("t")
    with pytest.raises(NotFound, match="was dropped"):
        table.read()


def test_nor_what_met_a_switch() -> None:
    _, table = written()
    other = Catalog(URL, upkeep=False, max_commit_delay_seconds=0).table("t")
    other.switch_mode("cas")
    table.append([{"id": 3}])
    other.append([{"id": 4}])
    other.checkpoint()
    assert table.read().num_rows == 5
    other.switch_mode("merge")
    assert table.read().num_rows == 5


def the_last_of(catalog: Catalog, folder: str) -> str:
    return max(item.name for item in catalog.store.list(folder) if is_commit(item.name))


def ids(table: Table) -> list[int]:
    return sorted(table.read()["id"].to_pylist())


def by_transaction(mode: str) -> tuple[Catalog, Table]:
    catalog = Catalog(URL, upkeep=False)
    for name in ("t", "u"):
        catalog.create_table(name, mode=mode)
    for n in range(2):
        with catalog.transaction() as both:
            both.append("t", [{"id": n}])
            both.append("u", [{"id": n}])
    return catalog, catalog.table("t")


def strict() -> tuple[Catalog, Table, str]:
    catalog = Catalog(URL, upkeep=False, grace_seconds=0)  # so old that it is asked for again
    table = catalog.create_table("t", mode="cas")
    for n in range(3):
        table.append([{"id": n}])
    return catalog, table, the_last_of(catalog, "tables/t/main/")


def together() -> tuple[Catalog, Table, str]:
    catalog, table = by_transaction("merge")
    return catalog, table, the_last_of(catalog, "transactions/")


def strict_together() -> tuple[Catalog, Table, str]:
    catalog, table = by_transaction("cas")
    return catalog, table, the_last_of(catalog, "tables/t/main/")


def switched_back() -> tuple[Catalog, Table, str]:
    catalog, table = written(2, max_commit_delay_seconds=0)
    table.switch_mode("cas")
    table.append([{"id": 2}])
    table.switch_mode("merge")
    name = table.append([{"id": 3}]).id
    return catalog, table, f"tables/t/main/{name}.v"


def on_a_branch() -> tuple[Catalog, Table, str]:
    catalog, table = written(2)
    branch = table.branch("b")
    branch.append([{"id": 2}])
    return catalog, branch, the_last_of(catalog, "tables/t/b/")


def by_a_copy() -> tuple[Catalog, Table, str]:
    """A copy that reads shares the writer of the one that wrote."""
    catalog, table = written(1)
    data = pickle.dumps(table)
    pickle.loads(data).append([{"id": 1}])
    return catalog, pickle.loads(data), the_last_of(catalog, "tables/t/main/")


@pytest.mark.parametrize("made", [strict, together, strict_together, switched_back, on_a_branch, by_a_copy])
def test_however_it_was_committed(made: Callable[[], tuple[Catalog, Table, str]]) -> None:
    catalog, table, name = made()
    kept = catalog.store.get(name)
    catalog.store.delete([name])
    with pytest.raises(Corrupt, match=GONE) as raised:
        table.read()
    assert name in str(raised.value)
    catalog.store.put(name, kept)  # restored from a copy
    assert table.read().num_rows == len(set(ids(table))) >= 2


def test_a_number_that_others_took_since_is_not_ones_own() -> None:
    """The handle showed the rows of whoever came after it as if they were all."""
    catalog, table, name = strict()
    catalog.store.delete([name])
    Catalog(URL, upkeep=False).table("t").append([{"id": 9}])
    assert the_last_of(catalog, "tables/t/main/") == name
    with pytest.raises(Corrupt, match=GONE):
        table.read()


@pytest.mark.parametrize("made", [strict, together, strict_together, switched_back, by_a_copy])
def test_nor_is_any_of_these_when_others_tidy_up(made: Callable[[], tuple[Catalog, Table, str]]) -> None:
    catalog, table, name = made()
    rows = Catalog(URL, upkeep=False).read("t").num_rows
    upkeep = Catalog(URL, grace_seconds=0, max_commit_delay_seconds=0, upkeep=False)
    for each in upkeep.tables():
        other = upkeep.table(each)
        other.append([{"id": 100}])
        other.expire(older_than=timedelta(0))
        other.checkpoint()
    for _ in range(2):  # the first finds what is in every table, the second what was copied then
        upkeep.collect_transactions()
        for each in upkeep.tables():
            upkeep.table(each).collect()
    assert name not in {item.name for item in catalog.store.list(name.rpartition("/")[0] + "/")}
    assert table.read().num_rows == rows + 1


@pytest.mark.parametrize("made", [strict, together, strict_together, by_a_copy])
def test_nor_when_the_table_was_dropped(made: Callable[[], tuple[Catalog, Table, str]]) -> None:
    _, table, _ = made()
    other = Catalog(URL)
    other.drop_table("t")
    other.create_table("t").append([{"id": 1}])
    with pytest.raises(NotFound, match="was dropped"):
        table.read()


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_nor_what_is_void_by_its_key(mode: str) -> None:
    table = Catalog(URL, upkeep=False).create_table("t", mode=mode)
    Catalog(URL, upkeep=False).table("t").append([{"id": 1}], key="once")
    table.append([{"id": 1}], key="once")
    assert ids(table) == [1]
