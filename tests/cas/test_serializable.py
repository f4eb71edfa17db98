"""`isolation="serializable"` outside transactions: what a handle has read, against those who came between."""

from __future__ import annotations

import pickle
import random
import secrets
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, Table
from crdtcat.cas.reading import Read
from crdtcat.conflicts import Kind
from crdtcat.errors import CommitConflict, InvalidArgument
from tests.cas.scenes import Turn, in_threads, replayed

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])


def lake(rows: int = 4, **options: Any) -> tuple[Table, str]:
    url = f"memory://strict-{secrets.token_hex(6)}"
    t = Catalog(url, upkeep=False).create_table("t", SCHEMA, mode="cas", **options)
    t.append([{"n": n, "x": 0} for n in range(rows)])
    return t, url


def strict(url: str, isolation: str = "serializable") -> Table:
    return Catalog(url, upkeep=False, base_delay=0.001, isolation=isolation).table("t")


def kinds(call: Any) -> set[Kind] | None:
    """What stood in the way; `None` if it was committed."""
    try:
        call()
    except CommitConflict as conflict:
        return {item.kind for item in conflict.conflicts}
    return None


@pytest.mark.parametrize(("isolation", "second"), [("snapshot", None), ("serializable", {Kind.READ_WRITE})])
@pytest.mark.parametrize("key", [(), ("n",)])
def test_write_skew_is_caught(isolation: str, second: Any, key: tuple[str, ...]) -> None:
    """Two doctors on call; each leaves because the other is there. Disjoint rows, and both were wrong."""
    _, url = lake(key=key)
    first, other = strict(url, isolation), strict(url, isolation)
    for t in (first, other):
        assert t.read(filter="n < 2 and x = 0").num_rows == 2
    assert kinds(lambda: first.update("n = 0", {"x": 1})) is None
    assert kinds(lambda: other.update("n = 1", {"x": 1})) == second


def test_trap_a_row_moved_into_a_filter_that_matched_nothing() -> None:
    """delta#7356: disjoint row ids are not enough."""
    t, url = lake()
    mine = strict(url)
    assert mine.scan(filter="x = 1").count() == 0
    t.update("n = 0", {"x": 1})
    assert kinds(lambda: mine.append([{"n": 9, "x": 9}])) == {Kind.READ_WRITE}


@pytest.mark.parametrize("is_known", [False, True], ids=["met", "read before"])
@pytest.mark.parametrize("in_transaction", [False, True])
def test_what_two_commits_change_only_together_is_told(*, in_transaction: bool, is_known: bool) -> None:
    """Each is held against the table with those before it: alone neither moves the row into the filter."""
    t, url = lake()
    mine = strict(url)
    tx = Catalog(url, upkeep=False, isolation="serializable").transaction(["t"])
    asked: Any = tx.table("t") if in_transaction else mine
    assert asked.read(filter="n = 7 and x = 7").num_rows == 0
    t.update("n = 0", {"x": 7})
    t.update("n = 0", {"n": 7})
    if is_known:
        asked._session.base.refresh() if in_transaction else mine._session.refresh()
    row = [{"n": 9, "x": 9}]
    found = kinds(lambda: (tx.append("t", row), tx.commit()) if in_transaction else mine.append(row))
    assert found == {Kind.READ_WRITE}


def test_whoever_reads_twice_and_finds_another_answer_is_told() -> None:
    """There is no moment at which both were right."""
    t, url = lake()
    mine = strict(url)
    for found in (0, 1):
        assert mine.read(filter="x = 1").num_rows == found
        t.update("n = 0", {"x": 1})
    assert kinds(lambda: mine.append([{"n": 9, "x": 9}])) == {Kind.READ_WRITE}
    assert mine.read(filter="x = 1").num_rows == 1
    assert kinds(lambda: mine.append([{"n": 9, "x": 9}])) is None


def compacted(t: Table) -> None:
    assert t.compact().versions == 1


@pytest.mark.parametrize(
    ("change", "caught"),
    [
        (lambda t: t.append([{"n": 10, "x": 0}]), False),
        (lambda t: t.append([{"n": 1, "x": 7}]), True),
        (lambda t: t.delete("n = 1"), True),
        (lambda t: t.delete("n = 3"), False),
        (lambda t: t.update("n = 3", {"x": 9}), False),
        (lambda t: t.update("n = 1", {"x": 0}), False),  # the value it had
        (lambda t: t.update("n = 3", {"n": 1}), True),
        (lambda t: t.overwrite([]), True),
        (lambda t: t.drop_column("x"), True),
        (lambda t: t.set_properties(p=1), False),
        (lambda t: t.add_column("y", pa.int64()), False),
        (compacted, False),
    ],
)
@pytest.mark.parametrize("blind", [True, False])
def test_only_what_changes_the_answer_is_a_conflict(change: Any, caught: bool, blind: bool) -> None:
    t, url = lake()
    t.append([{"n": 20, "x": 0}])  # something to compact
    mine = strict(url)
    mine.read(["n", "x"], filter="n = 1")
    change(t)
    commit = (lambda: mine.append([{"n": 100}])) if blind else (lambda: mine.delete("n = 0"))
    found = kinds(commit)
    assert (found is not None and Kind.READ_WRITE in found) == caught
    assert caught or found is None


@pytest.mark.parametrize(
    ("columns", "found"), [(["n"], None), (["x"], {Kind.READ_WRITE}), (None, {Kind.READ_WRITE})]
)
def test_a_count_is_changed_by_the_columns_of_its_scan(columns: list[str] | None, found: Any) -> None:
    """Which rows there are, and those columns of them; so whoever counts names the columns of the filter."""
    t, url = lake()
    mine = strict(url)
    assert mine.scan(columns, "n < 2").count() == 2
    t.update("n = 0", {"x": 5})
    assert kinds(lambda: mine.append([{"n": 9, "x": 9}])) == found
    assert mine.scan(columns, "n < 2").count() == 2
    t.update("n = 3", {"n": 1})
    assert kinds(lambda: mine.append([{"n": 9, "x": 9}])) == {Kind.READ_WRITE}


def test_what_came_between_the_read_and_the_head_of_the_verb_counts_too() -> None:
    """The verb takes a fresh head, so nobody is in its way any more; what was read before it is older."""
    t, url = lake()
    mine = strict(url)
    mine.read(filter="n = 1")
    t.update("n = 1", {"x": 5})
    mine.head(t.history()[0].id)  # the past is read at will
    assert kinds(lambda: mine.delete("n = 3")) == {Kind.READ_WRITE}


def test_whoever_was_told_reads_again_and_repeats_it() -> None:
    t, url = lake()
    mine = strict(url)
    mine.read(filter="n = 1")
    t.update("n = 1", {"x": 5})
    with pytest.raises(CommitConflict) as caught:
        mine.append([{"n": 100, "x": 0}])
    with pytest.raises(CommitConflict):
        caught.value.retry()  # nothing was read anew
    mine.read(filter="n = 1")
    assert mine.append([{"n": 100, "x": 0}]).number == 3


def test_verbs_read_what_they_look_at_and_no_more() -> None:
    """Different columns of one row both hold, also here; but not where one was made from the other."""
    t, url = lake()
    t.add_column("y", pa.int64())
    mine = strict(url)
    _between(mine, lambda: t.update("n = 1", {"y": 1}))
    assert kinds(lambda: mine.update("n = 1", {"x": 5})) is None
    _between(mine, lambda: t.update("n = 1", {"y": 2}))
    assert kinds(lambda: mine.update("n = 1", {"x": lambda rows: rows["y"]})) == {Kind.READ_WRITE}
    _between(mine, lambda: t.append([{"n": 50, "x": 0}]))
    assert kinds(lambda: mine.update_rows(0, 2, {"x": [7, 8]})) is None  # still the same rows
    _between(mine, lambda: t.delete("n = 0"))
    assert kinds(lambda: mine.update_rows(1, 3, {"x": [7, 8]})) == {Kind.READ_WRITE}
    _between(mine, lambda: t.append([{"n": 60, "x": 0}]))
    assert kinds(lambda: mine.write(pa.table({"n": [1], "x": [1], "y": [1]}))) == {Kind.READ_WRITE}


def _between(mine: Table, change: Any) -> None:
    """Let something happen after a verb's own refresh, before its claim."""
    session, commit = mine._session, mine._session.commit

    def later(*args: Any, **options: Any) -> Any:
        session.commit = commit  # type: ignore[method-assign]
        change()
        return commit(*args, **options)

    session.commit = later  # type: ignore[method-assign]


def test_a_commit_that_nobody_came_between_is_one_put() -> None:
    _, url = lake()
    mine = strict(url)
    mine.read(filter="n = 1")
    requests = mine._session.store.requests.snapshot()
    mine.append([{"n": 9, "x": 9}])
    since = mine._session.store.requests.since(requests)
    assert (since.put, since.get, since.list) == (1, 0, 0)


def test_threads_are_told_about_their_own_reads_only() -> None:
    t, url = lake()
    mine = strict(url)

    def in_a_thread(call: Any) -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    in_a_thread(lambda: mine.read(filter="n = 1"))
    t.update("n = 1", {"x": 5})
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) is None  # another has read it
    mine.read(filter="n = 1")
    in_a_thread(lambda: mine.append([{"n": 101, "x": 0}]))  # its commit does not forget ours
    t.update("n = 1", {"x": 6})
    assert kinds(lambda: mine.append([{"n": 102, "x": 0}])) == {Kind.READ_WRITE}


def test_a_copy_has_read_nothing() -> None:
    t, url = lake()
    mine = strict(url)
    mine.read()
    copy = pickle.loads(pickle.dumps(mine))
    t.delete("n = 1")
    assert kinds(lambda: copy.append([{"n": 100, "x": 0}])) is None
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) == {Kind.READ_WRITE}


def test_more_reads_than_are_remembered_are_one_about_everything() -> None:
    t, url = lake()
    mine = strict(url)
    for n in range(300):
        mine.scan(filter=f"n = {n + 1000}")
    t.append([{"n": 5, "x": 5}])
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) == {Kind.READ_WRITE}


LONG = list(range(4000))
OTHER = [*LONG[:2000], 5000, *LONG[2001:]]  # the same but in the middle, which no text shows
FORMS: dict[str, Any] = {
    "arrow": lambda values: pc.field("n").isin(values),
    "arrow of another type": lambda values: pc.field("n").cast(pa.int32()).isin(pa.array(values, pa.int32())),
    "numpy": lambda values: [("n", "in", np.array(values))],
    "arrow array": lambda values: [("n", "in", pa.array(values))],
    "list": lambda values: [("n", "in", values)],
    "text": lambda values: f"n in ({', '.join(map(str, values))})",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("hit", [2000, 5000])
def test_long_filters_that_print_alike_are_different_questions(form: str, hit: int) -> None:
    t, url = lake()
    t.append([{"n": 2000, "x": 0}, {"n": 5000, "x": 0}])
    mine = strict(url)
    for values in (LONG, OTHER):
        mine.read(["x"], filter=FORMS[form](values))
    t.update(f"n = {hit}", {"x": 9})
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) == {Kind.READ_WRITE}


def test_an_array_that_is_written_to_after_the_read_changes_no_question() -> None:
    t, url = lake()
    mine, wanted = strict(url), np.array([1])
    mine.read(["x"], filter=[("n", "in", wanted)])
    wanted[0] = 3
    t.update("n = 1", {"x": 9})
    assert kinds(lambda: mine.append([{"n": 100, "x": 0}])) == {Kind.READ_WRITE}


def test_equal_questions_are_one_and_one_that_cannot_be_copied_is_about_all_rows() -> None:
    reads = [Read(("x",), FORMS["arrow"](LONG)).kept() for _ in range(2)]
    assert reads[0].key == reads[1].key != Read(("x",), FORMS["arrow"](OTHER)).kept().key
    assert len(str(reads[0])) < 250
    assert Read(("x",), [("n", "in", {1: lambda: 0}.values())]).kept() == Read(("x",))


def test_tables_in_merge_mode_are_refused() -> None:
    url = f"memory://strict-{secrets.token_hex(6)}"
    catalog = Catalog(url, isolation="serializable", max_commit_delay_seconds=0.1)
    merged = catalog.create_table("m", SCHEMA)
    with pytest.raises(InvalidArgument, match="merge mode"):
        merged.append([{"n": 1, "x": 1}])
    merged.switch_mode("cas")
    merged.append([{"n": 1, "x": 1}])
    with pytest.raises(InvalidArgument, match="isolation"):
        Catalog(catalog.url, isolation="repeatable")


def test_a_transaction_has_the_isolation_of_its_catalog() -> None:
    t, url = lake()
    catalog = Catalog(url, upkeep=False, isolation="serializable")
    tx = catalog.transaction()
    assert tx.isolation == "serializable"
    tx.read("t", filter="n = 1")
    tx.append("t", [{"n": 9, "x": 9}])
    t.update("n = 1", {"x": 5})
    assert kinds(tx.commit) == {Kind.READ_WRITE}


def test_handles_that_read_and_commit_are_serial_in_the_order_of_their_numbers() -> None:
    """Values are written once, so who read what from whom is known, and every read can be replayed."""
    cells = 6
    _, url = lake(rows=cells)
    history: list[Turn] = []

    def work(worker: int) -> None:
        chance, done, turn = random.Random(worker), 0, 0
        t = strict(url)
        while done < 8:
            turn += 1
            looked = chance.sample(range(cells), 2)
            found = t.read(["n", "x"], filter=f"n in ({looked[0]}, {looked[1]})")
            reads = dict(zip(found["n"].to_pylist(), found["x"].to_pylist(), strict=True))
            target, value = chance.randrange(cells), 1000 * (worker + 1) + turn
            try:
                version = t.update(f"n = {target}", {"x": value})
            except CommitConflict:
                continue
            done += 1
            history.append((version.number, reads, {target: value}))

    in_threads(work, 4)
    assert len(history) == 32
    replayed(history, cells)
