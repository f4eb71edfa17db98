"""What an overwrite takes away that it had not seen is told, also where its file does not name it.

Of two overwrites the later one wins. One that was moved past another, because it was answered to prevail,
names the rows that it saw, which are gone already, and takes away those that the other had put there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.conflicts import Kind
from crdtcat.errors import CommitConflict
from tests.cas.scenes import DAYS, SCHEMA, lake, meanwhile, rows, values
from tests.rows.late import held_back

PREVAIL = {"overwrite-overwrite": "ours"}


def by_a_verb(url: str, new: Any, where: str | None) -> Callable[[], Any]:
    """An overwrite that has read the table, to be committed later."""
    table = Catalog(url, upkeep=False, on_conflict=PREVAIL).table("t")
    head = table.head()

    def later() -> None:
        meanwhile(table, lambda: table._session.__dict__.pop("head"))
        table._session.head = lambda **_: head  # type: ignore[method-assign]
        table.overwrite(new, where=where)

    return later


def by_a_transaction(url: str, new: Any, where: str | None) -> Callable[[], Any]:
    made = Catalog(url, upkeep=False).transaction()
    made.table("t").overwrite(new, where=where)
    return lambda: _answered(made)


def _answered(transaction: Any) -> None:
    try:
        transaction.commit()
    except CommitConflict as error:
        error.retry(PREVAIL)


def by_a_merge(url: str, new: Any, where: str | None) -> Callable[[], Any]:
    table = Catalog(url, upkeep=False, on_conflict=PREVAIL).table("t")
    table.branch("b").overwrite(new, where=where)
    return lambda: table.merge("b")


LATE = [by_a_verb, by_a_transaction, by_a_merge]


def begun(*, partitioned: bool = False, **options: Any) -> tuple[Catalog, str, Table]:
    catalog, url = lake(**options)
    table = catalog.create_table("t", SCHEMA, mode="cas", partition_by=["day"] if partitioned else [])
    table.append([row for at, day in enumerate(DAYS) for row in rows(day, 10 * at, 10 * at + 1)])
    return catalog, url, table


VERBS: dict[str, tuple[Callable[[Table], Any], Kind]] = {
    "update": (lambda table: table.update("n = 50", {"x": 5}), Kind.UPDATE_OVERWRITE),
    "delete": (lambda table: table.delete("n = 50"), Kind.DELETE_OVERWRITE),
    "write": (
        lambda table: table.write(pa.Table.from_pylist([{"day": "mo", "n": 50, "x": 5}], SCHEMA)),
        Kind.UPDATE_OVERWRITE,
    ),
}


@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("verb", VERBS)
def test_rows_that_an_overwrite_had_put_there_and_a_late_one_takes_away_are_told(
    verb: str, late: Callable[..., Callable[[], Any]]
) -> None:
    """It was committed, without a word, and its row was gone before it came."""
    _, url, table = begun()
    come = late(url, rows("tu", 90), None)
    table.overwrite(rows("mo", 50, 51))
    mine = Catalog(url, upkeep=False, on_conflict="fail").table("t")
    meanwhile(mine, come)
    do, kind = VERBS[verb]
    with pytest.raises(CommitConflict) as caught:
        do(mine)
    told = {item.kind: item.rows.total for item in caught.value.conflicts}
    assert told[kind] == 1
    assert values(table) == [(90, 0)]


def test_a_row_outside_of_the_partitions_that_are_overwritten_is_in_nobodys_way() -> None:
    _, url, table = begun(partitioned=True)
    come = by_a_transaction(url, rows("mo", 90), "day = 'mo'")
    table.overwrite([*rows("mo", 50), *rows("tu", 60)])
    mine = Catalog(url, upkeep=False, on_conflict="fail").table("t")
    meanwhile(mine, come)
    mine.update("n = 60", {"x": 5})
    assert values(table) == [(60, 5), (90, 0)]
    come = by_a_transaction(url, rows("tu", 91), "day = 'tu'")
    table.overwrite(rows("tu", 61), where="day = 'tu'")
    meanwhile(mine, come)
    with pytest.raises(CommitConflict, match="update-overwrite"):
        mine.update("n = 61", {"x": 5})


def test_a_row_that_was_appended_since_is_not_taken_away() -> None:
    """An append that an overwrite had not seen stands beside it, if it is answered so: nobody took it."""
    _, url, table = begun()
    made = Catalog(url, upkeep=False, on_conflict={"overwrite-append": "theirs"}).transaction()
    made.overwrite("t", rows("tu", 90))
    table.append(rows("mo", 50))
    mine = Catalog(url, upkeep=False, on_conflict="fail").table("t")
    meanwhile(mine, made.commit)
    mine.update("n = 50", {"x": 5})
    assert values(table) == [(50, 5), (90, 0)]


def test_what_was_taken_away_so_is_gone_for_whoever_comes_after() -> None:
    """Of a late update of such a row nobody is told: it did nothing."""
    _, url, table = begun()
    come = by_a_transaction(url, rows("tu", 90), None)
    table.overwrite(rows("mo", 50, 51))
    yields = Catalog(url, upkeep=False, on_conflict={"update-overwrite": "theirs"}).transaction()
    yields.update("t", "n = 51", {"x": 7})
    mine = Catalog(url, upkeep=False, on_conflict={"delete-overwrite": "both"}).table("t")
    meanwhile(mine, come, yields.commit)
    mine.delete("n = 51")
    assert values(table) == [(90, 0)]


@pytest.mark.parametrize("compacted", [False, True])
def test_also_under_an_idempotency_key_and_compacted(*, compacted: bool) -> None:
    _, url, table = begun()
    come = by_a_transaction(url, rows("tu", 90), None)
    table.overwrite(rows("mo", 50, 51), key="once")
    table.delete("n = 51")
    if compacted:
        table.compact()
    mine = Catalog(url, upkeep=False).table("t")
    meanwhile(mine, come)
    with pytest.raises(CommitConflict, match="update-overwrite"):
        mine.update("n = 50", {"x": 5})


@pytest.mark.parametrize("late", LATE)
def test_an_overwrite_that_prevails_over_another_is_told_of_updates_of_its_rows(
    late: Callable[..., Callable[[], Any]],
) -> None:
    """As it is of updates of rows that others appended. The update was gone, and listed nowhere."""
    _, url, table = begun()
    come = late(url, rows("tu", 90), None)
    table.overwrite(rows("mo", 50, 51))
    table.update("n = 50", {"x": 5})
    with pytest.raises(CommitConflict) as caught:
        come()
    assert [(item.kind, item.rows.total) for item in caught.value.conflicts] == [(Kind.OVERWRITE_UPDATE, 1)]
    assert values(table) == [(50, 5), (51, 0)]
    caught.value.retry({"overwrite-update": "ours"})
    assert values(table) == [(90, 0)]


def test_of_what_was_deleted_there_it_is_not_told() -> None:
    _, url, table = begun()
    come = by_a_transaction(url, rows("tu", 90), None)
    table.overwrite(rows("mo", 50, 51))
    table.delete("n = 50")
    come()
    assert values(table) == [(90, 0)]


def test_nor_of_updates_in_partitions_that_it_leaves_alone() -> None:
    _, url, table = begun(partitioned=True)
    come = by_a_transaction(url, rows("mo", 90), "day = 'mo'")
    table.overwrite([*rows("mo", 50), *rows("tu", 60)])
    table.update("n = 60", {"x": 5})
    come()
    assert values(table) == [(60, 5), (90, 0)]


def test_forks_are_told_alike() -> None:
    """Two that overwrite, joined one after the other, and one that was made in between."""
    catalog, _, table = begun()
    transaction = catalog.transaction()
    late = transaction.fork()
    late.overwrite("t", rows("tu", 90))
    transaction.overwrite("t", rows("mo", 50, 51))
    mine = transaction.fork()
    mine.update("t", "n = 50", {"x": 5})
    transaction.join(late, on_conflict=PREVAIL)
    with pytest.raises(CommitConflict, match="update-overwrite"):
        transaction.join(mine)
    transaction.commit()
    assert values(table) == [(90, 0)]


@pytest.mark.parametrize("lesser", [False, True])
def test_one_of_before_a_switch_prevails_by_its_id(*, lesser: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two overwrites in merge mode that had not seen each other; whoever saw the first is past a switch by
    the time it commits. The second takes the first one's rows, unless its id is the lesser one."""
    soon: dict[str, Any] = {"upkeep": False, "max_commit_delay_seconds": 0}
    catalog, url = lake(**soon)
    table = catalog.create_table("t", SCHEMA)
    table.append(rows("mo", 0))
    other = Catalog(url, **soon)
    late = other.table("t")
    seen = late.head()

    def overwrite() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(late._session, "head", lambda **_: seen)
            late.overwrite(rows("tu", 90))

    land = held_back(late, overwrite) if lesser else overwrite  # it is on its way all the time
    table.overwrite(rows("mo", 50))
    mine = Catalog(url, **soon).table("t")

    def come() -> None:
        land()
        table.switch_mode("cas")

    meanwhile(mine, come)
    if lesser:
        mine.update("n = 50", {"x": 5})
        assert values(table) == [(50, 5)]
    else:
        with pytest.raises(CommitConflict, match="update-overwrite"):
            mine.update("n = 50", {"x": 5})
        assert values(table) == [(90, 0)]
