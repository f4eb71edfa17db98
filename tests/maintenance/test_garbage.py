"""`Catalog.collect` deletes what nothing refers to, all of it, and nothing else."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.clock import hlc
from crdtcat.errors import (
    Corrupt,
    CrdtcatError,
    DataError,
    InvalidArgument,
    LimitExceeded,
    StoreUnavailable,
)
from crdtcat.format.condemned import decode_titles
from crdtcat.format.refs import BranchStart, deleted_name, start_name
from crdtcat.limits import TRANSACTION_SECONDS_MAX
from crdtcat.maintenance import GarbageResult, Progress
from crdtcat.options import COLLECT_GRACE_SECONDS
from crdtcat.protocol import mark_name
from crdtcat.store import Store, open_store
from crdtcat.testing.faulty import Call, Fault, FaultyStore, nth
from crdtcat.verbs.parts import plan_parts
from crdtcat.writing.part import join_parts
from tests.catalog.lakes import another, lake, objects
from tests.faults.operations import fresh_url

SCHEMA = pa.schema([("n", pa.int64())])
OPTIONS: dict[str, Any] = {"upkeep": False, "inline_bytes": 0, "grace_seconds": 0}


EVERY_REQUEST = os.environ.get("CRDTCAT_SLOW") == "full"


def numbers(start: int, count: int = 10) -> pa.Table:
    return pa.table({"n": range(start, start + count)}, schema=SCHEMA)


def segments(catalog: Catalog) -> set[str]:
    return {name for name in objects(catalog) if name.endswith(".parquet")}


def aborted(table: Table, count: int = 3) -> None:
    """Segments that nobody ever names: the parts of a commit that never came."""
    staging = plan_parts(table._session, SCHEMA)
    for part in range(count):
        staging.stage(numbers(1000 * part, 100).to_batches())


def whole(catalog: Catalog) -> None:
    """Every table and branch is what it was, to the last value."""
    for name in catalog.tables():
        table = catalog.table(name)
        for handle in (table, *(catalog.table(name, branch) for branch in table.branches())):
            report = handle.verify("content")
            assert report.ok, str(report)


def test_what_was_aborted_dropped_and_deleted_goes_and_the_rest_stays() -> None:
    catalog = lake(**OPTIONS)
    kept = catalog.create_table("kept", SCHEMA)
    kept.append(numbers(0))
    branch = kept.branch("b")
    branch.append(numbers(10))
    needed = segments(catalog)
    aborted(kept)
    dropped = catalog.create_table("dropped", SCHEMA)
    dropped.append(numbers(20))
    dropped.branch("x").append(numbers(30))
    dropped.tag("t")
    catalog.drop_table("dropped")
    deleted = kept.branch("gone")
    deleted.append(numbers(40))
    kept.delete_branch("gone")
    garbage = segments(catalog) - needed
    assert len(garbage) == 6
    dry = catalog.collect(grace=0, dry_run=True)
    assert segments(catalog) == needed | garbage
    result = catalog.collect(grace=0)
    assert {item.name for item in result.deleted if item.name.startswith("data/")} == garbage
    assert [item.name for item in dry.deleted] == [item.name for item in result.deleted]
    assert result.bytes == dry.bytes == sum(item.size for item in result.deleted)
    assert (result.referenced, result.young, result.tables, result.logs) == (2, 0, 1, 2)
    assert segments(catalog) == needed
    left = [name for name in objects(catalog) if name.startswith("tables/dropped/")]
    assert all(name.endswith(("/dropped", "settings.json")) for name in left)
    assert not catalog.collect(grace=0).garbage
    whole(another(catalog))


def test_it_says_what_and_why() -> None:
    catalog = lake(**OPTIONS)
    aborted(catalog.create_table("t", SCHEMA), 25)
    result = catalog.collect(grace=0, dry_run=True)
    first, *lines = str(result).splitlines()
    assert first.startswith("collect: would delete 25 objects of ")
    assert "0 segments in use by 1 tables" in first
    assert lines[0].startswith("  deleted: data/")
    assert "no table refers to it" in lines[0]
    assert lines[-1] == "  ... and 5 more deleted"
    assert str(catalog.collect(grace=0)).startswith("collect: deleted 25 objects of ")


def test_young_segments_are_left_alone() -> None:
    catalog = lake(**OPTIONS)
    aborted(catalog.create_table("t", SCHEMA))
    result = catalog.collect()
    assert (result.garbage, result.young) == ((), 3)
    assert not [name for name in objects(catalog) if name.startswith("garbage/")]


@pytest.fixture
def old(tmp_path: Path) -> Catalog:
    """A catalog on disk, where files can be made older than they are."""
    return Catalog(str(tmp_path), **OPTIONS)


def age(catalog: Catalog, days: float, *names: str) -> None:
    """Make objects older, by the store's clock."""
    for name in names or objects(catalog):
        path = Path(catalog.url.removeprefix("file://")) / name
        then = path.stat().st_mtime - days * 86_400
        os.utime(path, (then, then))


def test_garbage_is_condemned_first_and_deleted_a_grace_period_later(old: Catalog) -> None:
    table = old.create_table("t", SCHEMA)
    table.append(numbers(0))
    needed = segments(old)
    aborted(table)
    garbage = segments(old) - needed
    age(old, 1.1)
    result = old.collect()
    assert [item.fate for item in result.garbage] == ["condemned"] * 3
    (condemned,) = (name for name in objects(old) if name.startswith("garbage/"))
    assert len(decode_titles(old.store.get(condemned), condemned)) == 3
    result = old.collect()
    assert [item.fate for item in result.garbage] == ["waiting"] * 3
    age(old, 0.5, condemned)
    assert not old.collect().deleted
    age(old, 0.6, condemned)
    assert {item.name for item in old.collect(dry_run=True).deleted} == garbage
    assert {item.name for item in old.collect().deleted} == garbage
    assert segments(old) == needed
    assert not [name for name in objects(old) if name.startswith("garbage/")]
    whole(old)


def test_a_condemned_segment_that_is_used_again_is_kept_for_good(old: Catalog) -> None:
    """What a collector found unreferenced comes into sight again, as a slow merge brings it."""
    table = old.create_table("t", SCHEMA)
    table.append(numbers(0))
    branch = table.branch("b")
    branch.append(numbers(10))
    aborted(table, 1)
    bundle_of = {item.name: old.store.get(item.name) for item in old.store.list("tables/t/b/")}
    needed = segments(old)
    table.delete_branch("b")
    old.store.delete([item.name for item in old.store.list("garbage/")])  # what it said of that was lost
    age(old, 2)
    assert len(old.collect().of("condemned")) == 2
    for name, data in bundle_of.items():  # what a late reader of the branch brings back into sight
        old.store.put(name, data)
    for name in list(objects(old)):
        if name.startswith("tables/t/b/dropped") or name.endswith("b.deleted"):
            old.store.delete([name])
    age(old, 2)
    result = old.collect()
    assert not result.deleted
    assert [item.fate for item in result.garbage] == ["condemned"]  # the list said something that is not so
    age(old, 2)
    assert len(old.collect().deleted) == 1
    assert segments(old) < needed
    whole(old)


def test_lists_that_are_damaged_or_very_old_only_delay(old: Catalog) -> None:
    aborted(old.create_table("t", SCHEMA), 1)
    age(old, 2)
    old.collect()
    (condemned,) = (name for name in objects(old) if name.startswith("garbage/"))
    data = old.store.get(condemned)
    old.store.put(condemned, data[:-1])
    age(old, 2)
    assert [item.fate for item in old.collect().garbage] == ["condemned"]
    age(old, 40)
    assert [item.fate for item in old.collect().garbage] == ["condemned"]
    age(old, 2)
    assert [item.fate for item in old.collect().garbage] == ["deleted"]
    assert not [name for name in objects(old) if name.startswith("garbage/")]


def test_strangers_are_left_alone() -> None:
    catalog = lake(**OPTIONS)
    catalog.create_table("t", SCHEMA)
    names = ["data/00/readme.txt", "data/zz/x.parquet", f"data/01/{'ab' * 16}-{'0' * 16}.parquet"]
    for name in names:
        catalog.store.put(name, b"mine")
    assert catalog.collect(grace=0).strangers == 3
    assert set(names) <= set(objects(catalog))


def everything(store: Store) -> Catalog:
    """Live, dropped, created again; branches that live, that are over, and that others start from."""
    catalog = Catalog(store, **OPTIONS)
    for _ in range(2):
        again = catalog.create_table("again", SCHEMA)
        again.append(numbers(0))
        again.branch("b").append(numbers(5))
        catalog.drop_table("again")
    again = catalog.create_table("again", SCHEMA)
    again.append(numbers(10))
    table = catalog.create_table("t", SCHEMA)
    table.append(numbers(20))
    middle = table.branch("middle")
    middle.append(numbers(30))
    middle.branch("leaf").append(numbers(40))
    table.delete_branch("middle")
    for life in range(2):
        table.branch("short").append(numbers(50 + life))
        table.delete_branch("short")
    table.branch("short").append(numbers(60))
    aborted(table)
    return catalog


def test_logs_that_others_start_from_count_though_their_branch_is_over() -> None:
    catalog = everything(open_store(fresh_url()))
    result = catalog.collect(grace=0)
    assert (result.tables, result.logs) == (2, 5)
    assert result.referenced == 5
    assert len([item for item in result.deleted if item.name.startswith("data/")]) == 3 + 4 + 2
    whole(another(catalog))
    assert another(catalog).table("t", "leaf").read().num_rows == 30


DAMAGE: dict[str, Callable[[str], bool]] = {
    "a version": lambda name: name.startswith("tables/t/main/") and name.endswith(".v"),
    "a version of a branch": lambda name: name.startswith("tables/t/leaf/"),
    "a version that others start from": lambda name: name.startswith("tables/t/middle/") and ".v" in name,
    "settings": lambda name: name == "tables/t/settings.json",
    "settings of another table": lambda name: name == "tables/again/settings~3.json",
    "the start of a branch": lambda name: name.endswith("branches/leaf.json"),
    "the start of a branch that is over": lambda name: name.endswith("branches/middle.json"),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_what_cannot_be_read_ends_it_before_anything_is_deleted(kind: str, how: str) -> None:
    catalog = everything(open_store(fresh_url()))
    name = next(name for name in objects(catalog) if DAMAGE[kind](name))
    data = bytes(catalog.store.get(name))
    if how == "damaged":
        catalog.store.put(name, data[:30] + bytes([data[30] ^ 1]) + data[31:])
    elif kind in ("a version", "a version of a branch"):  # one that nobody refers to can vanish unseen
        handle = catalog.table("t", "leaf" if "branch" in kind else "main")
        first, _ = handle.append(numbers(70)), handle.append(numbers(80))
        catalog.store.delete([name for name in objects(catalog) if str(first.id) in name])
    else:
        catalog.store.delete([name])
    before = segments(catalog)
    with pytest.raises((DataError, StoreUnavailable)):
        Catalog(catalog.store, **OPTIONS).collect(grace=0)
    assert segments(catalog) == before


def test_a_failing_request_deletes_nothing_that_is_needed() -> None:
    number = 0
    while True:
        number += 1 if EVERY_REQUEST else 7
        store = FaultyStore(open_store(fresh_url()))
        catalog = everything(store)
        expected = {name: catalog.read(name).to_pylist() for name in catalog.tables()}
        before = len(store.calls)
        store.plan = nth(before + number, "error")
        try:
            Catalog(store, **OPTIONS).collect(grace=0)
        except CrdtcatError as error:
            assert isinstance(error, StoreUnavailable)  # noqa: PT017 (it need not be raised)
        finished = len(store.calls) < before + number
        store.plan = None
        whole(Catalog(store, **OPTIONS))
        assert not Catalog(store, **OPTIONS).collect(grace=0, dry_run=True).of("condemned")
        Catalog(store, **OPTIONS).collect(grace=0)
        assert {name: Catalog(store, **OPTIONS).read(name).to_pylist() for name in expected} == expected
        if finished:
            break
    assert number > 30


class Meanwhile:
    """A plan that lets others do everything there is just before the n-th request."""

    def __init__(self, inner: Store, number: int) -> None:
        self.inner, self.number = inner, number

    def __call__(self, call: Call) -> Fault | None:
        if call.number == self.number:
            catalog = Catalog(self.inner, **OPTIONS)
            table = catalog.table("t")
            table.append(numbers(100))
            table.merge("leaf")
            catalog.table("t", "short").append(numbers(110))
            catalog.table("t", "short").branch("aaa").append(numbers(120))
            table.delete_branch("short")
            table.delete_branch("leaf")
            table.checkpoint()
            table.collect()
            catalog.drop_table("again")
            catalog.create_table("again", SCHEMA).append(numbers(130))
            catalog.create_table("new", SCHEMA).append(numbers(140))
            catalog.collect(grace=0)
        return None


def test_whatever_others_finish_meanwhile_is_kept() -> None:
    """Without any grace period, at every request: safe while nobody else is in the middle of something."""
    number = 0
    while True:
        number += 1 if EVERY_REQUEST else 9
        store = FaultyStore(open_store(fresh_url()), page_limit=2)
        everything(store.inner)
        before = len(store.calls)
        store.plan = Meanwhile(store.inner, before + number)
        try:
            Catalog(store, **OPTIONS).collect(grace=0)
        except StoreUnavailable as error:
            assert "try again later" in str(error)  # noqa: PT017 (a branch was made in front of its eyes)
        if len(store.calls) < before + number:
            break
        catalog = Catalog(store.inner, **OPTIONS)
        whole(catalog)
        assert catalog.table("t").read().num_rows == 40
        assert catalog.table("t", "aaa").read().num_rows == 40
        assert catalog.read("again").num_rows == catalog.read("new").num_rows == 10
    assert number > 40


def test_threads_of_writers_and_collectors_on_disk(old: Catalog) -> None:
    """Garbage is a day old, commits are not: collectors and writers of every kind for a while, at once."""
    table = old.create_table("t", SCHEMA)
    table.append(numbers(0))
    needed = segments(old)
    aborted(table, 30)
    age(old, 3)
    old.collect()
    age(old, 3)
    garbage = segments(old) - needed
    stop = time.monotonic() + 4
    failures: list[BaseException] = []
    appended = [0, 0]

    def write(number: int) -> None:
        mine = Catalog(old.url, **OPTIONS)
        own = mine.table("t").branch(f"b{number}")
        while time.monotonic() < stop:
            own.append(numbers(1000 * number))
            mine.table("t").merge(f"b{number}")
            aborted(own, 1)
            appended[number] += 1
            if appended[number] % 5 == 0:
                own.checkpoint()
                mine.table("t").checkpoint()
                mine.create_table(f"short{number}", SCHEMA).append(numbers(0))
                mine.drop_table(f"short{number}")

    def collect(_: int) -> None:
        while time.monotonic() < stop:
            Catalog(old.url, **OPTIONS).collect()

    def guarded(work: Any, number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 (raised again below)
            failures.append(error)

    threads = [
        threading.Thread(target=guarded, args=(work, number))
        for number in range(2)
        for work in (write, collect)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    assert not garbage & segments(old)
    fresh = Catalog(old.url, **OPTIONS)
    assert fresh.read("t").num_rows == 10 + 10 * sum(appended)
    assert sum(appended) > 4
    whole(fresh)


def test_a_commit_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2 * TRANSACTION_SECONDS_MAX <= COLLECT_GRACE_SECONDS
    catalog = lake(**OPTIONS, segment_bytes=2**20)
    table = catalog.create_table("t", SCHEMA)
    much = pa.table({"n": range(200_000)}, schema=SCHEMA)
    now = hlc.wall_ms()
    stream = table.stream()
    stream.write(much)
    staging = plan_parts(table._session, SCHEMA)
    part = staging.stage([batch for _ in range(3) for batch in much.to_batches()])
    later = TRANSACTION_SECONDS_MAX * 1000 + 2_000
    monkeypatch.setattr("crdtcat.writing.staged.wall_ms", lambda: now + later)
    with pytest.raises(LimitExceeded, match="TRANSACTION_SECONDS_MAX"):
        stream.commit()
    with pytest.raises(LimitExceeded, match="TRANSACTION_SECONDS_MAX"):
        join_parts(staging, [part])
    assert not table.history()


def test_progress_and_wrong_arguments() -> None:
    catalog = lake(**OPTIONS)
    aborted(catalog.create_table("t", SCHEMA))
    told: list[Progress] = []
    assert isinstance(catalog.collect(grace=0, progress=told.append), GarbageResult)
    assert {item.unit for item in told} == {"folders of segments", "tables", "objects deleted"}
    for wrong in (-1, float("nan"), float("inf"), "1", None):
        with pytest.raises(InvalidArgument, match="grace"):
            catalog.collect(grace=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="progress"):
        catalog.collect(progress=7)  # type: ignore[arg-type]


def test_an_empty_catalog() -> None:
    assert lake().collect(grace=0).garbage == ()
    store = open_store(fresh_url())
    store.put("crdtcat.json", b"x")
    with pytest.raises(Corrupt):
        Catalog(store).collect()


def test_logs_and_tags_of_dropped_tables_go_a_grace_period_after_the_drop(old: Catalog) -> None:
    table = old.create_table("t", SCHEMA)
    table.append(numbers(0))
    table.tag("tag")
    table.branch("b").append(numbers(10))
    straggler = old.store.get(next(name for name in objects(old) if name.endswith(".v")))
    age(old, 3)
    old.drop_table("t")
    old.store.put(f"tables/t/main/{'0' * 16}-{'1' * 16}-00000001-{'2' * 32}.v", straggler)
    assert not old.collect().deleted
    age(old, 2)
    deleted = [item.name for item in old.collect().deleted if item.name.startswith("tables/")]
    assert [name.rpartition("/")[0] for name in deleted] == [
        "tables/t/main",
        "tables/t/refs/branches",
        "tables/t/refs/tags",
    ]
    assert "tables/t/main/dropped" in objects(old)


def test_a_drop_that_was_cut_off_is_made_up_for(old: Catalog) -> None:
    table = old.create_table("t", SCHEMA)
    table.append(numbers(0))
    settings = table._session.settings
    name = "tables/t/settings.json"
    old.store.put(name, settings.model_copy(update={"dropped": True}).encode())  # and then it was killed
    age(old, 3)
    assert not old.collect(dry_run=True).deleted
    assert "tables/t/main/dropped" not in objects(old)
    assert [item.fate for item in old.collect().garbage] == ["condemned"]
    assert "tables/t/main/dropped" in objects(old)
    age(old, 3)
    assert [item.name.rpartition(".")[2] for item in old.collect().deleted] == ["v", "parquet"]


def test_every_kind_of_commit_keeps_what_it_refers_to() -> None:
    """Claims, overlays, deleted rows, copies of a compaction, transactions, bundles: nothing goes."""
    catalog = lake(**OPTIONS)
    strict = catalog.create_table("strict", SCHEMA, mode="cas")
    strict.append(numbers(0, 50))
    strict.append(numbers(50, 50))
    rows = catalog.create_table("rows", pa.schema([("n", pa.int64()), ("x", pa.int64())]))
    for start in range(4):
        rows.append(pa.table({"n": range(10 * start, 10 * start + 10), "x": [0] * 10}))
    rows.update("n < 15", {"x": 1})
    rows.delete("n >= 35")
    rows.compact()
    rows.update("n = 3", {"x": 2})
    catalog.create_table("plain", SCHEMA)
    with catalog.transaction() as transaction:
        transaction.append("rows", pa.table({"n": [100], "x": [100]}))
        transaction.append("plain", numbers(0))
    expected = {name: catalog.read(name).to_pylist() for name in catalog.tables()}
    needed = segments(catalog)
    aborted(strict, 2)
    assert len(catalog.collect(grace=0).deleted) == 2
    assert segments(catalog) == needed
    whole(another(catalog))
    for name in catalog.tables():
        catalog.table(name).checkpoint()
        catalog.table(name).collect()
    catalog.collect_transactions()
    catalog.collect(grace=0)
    cold = another(catalog)
    whole(cold)
    assert {name: cold.read(name).to_pylist() for name in cold.tables()} == expected


@pytest.mark.parametrize("deleted", [False, True])
def test_a_branch_that_cannot_be_read_is_named_with_the_way_out(deleted: bool) -> None:
    """No verb brings it about; a start that comes from a backup does. Whether it or those of it are live."""
    catalog = lake(**OPTIONS, max_commit_delay_seconds=0)
    table = catalog.create_table("t", SCHEMA)
    table.append(numbers(0))
    gone = str(table.head().snapshot)
    table.append(numbers(50))
    table.expire(older_than=timedelta(0))
    ends = ["one", "two"] if deleted else ["lost"]
    for name in {"lost", *ends}:
        start = BranchStart("main" if name == "lost" else "lost", 1, gone, name)
        catalog.store.put(start_name("t", 1, name, 1), start.encode())
    if deleted:
        catalog.store.put(deleted_name("t", 1, "lost", 1), b"")
    named = " and ".join(f"delete_branch('{name}')" for name in ends)
    with pytest.raises(Corrupt, match=re.escape(f"{named} of table 't'")):
        catalog.collect(grace=0)
    for name in ends:
        table.delete_branch(name)
    catalog.collect(grace=0)
    assert another(catalog).read("t").num_rows == 20


def _two_in_a_transaction() -> tuple[Catalog, dict[str, str]]:
    """Two tables, rows of both added by a transaction whose file stays, and the segment of each."""
    catalog = lake(**OPTIONS, max_commit_delay_seconds=0)
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA)
    with catalog.transaction() as both:
        both.append("a", numbers(0))
        both.append("b", numbers(50))
    logs = {name: catalog.table(name)._session.refresh().state.log for name in ("a", "b")}
    found = {name: log.segment_name[0].tobytes().hex() for name, log in logs.items()}
    names = {name: next(each for each in segments(catalog) if found[name][:32] in each) for name in found}
    assert len(set(names.values())) == 2
    return catalog, names


def _goes(catalog: Catalog, segment: str) -> bool:
    for _ in range(2):
        catalog.collect(grace=0)
    assert [name for name in objects(catalog) if name.startswith("transactions/") and name.endswith(".v")]
    whole(catalog)
    return segment not in segments(catalog)


def test_what_one_log_let_go_of_a_transaction_goes_though_its_file_stays() -> None:
    """Nobody can read it, so nobody verifies it: kept for the file's sake, it would rot unseen."""
    catalog, names = _two_in_a_transaction()
    second = catalog.table("b")
    second.overwrite(numbers(90))
    assert not _goes(catalog, names["b"]), "history still has it"
    second.expire(older_than=timedelta(0))
    assert _goes(catalog, names["b"])
    assert names["a"] in segments(catalog)


def test_so_does_what_a_transaction_added_to_a_table_that_was_dropped() -> None:
    catalog, names = _two_in_a_transaction()
    catalog.drop_table("b")
    assert _goes(catalog, names["b"])
    assert names["a"] in segments(catalog)


def test_what_a_log_would_know_if_its_mark_were_not_lost_stays() -> None:
    """Without its mark a log does not look for transactions. `verify` says so; put back, it has its rows."""
    catalog, names = _two_in_a_transaction()
    mark = mark_name(catalog.table("b")._session.folder)
    catalog.store.delete([mark])
    for _ in range(2):
        catalog.collect(grace=0)
    assert {*names.values()} <= segments(catalog)
    fresh = another(catalog, **OPTIONS).table("b")
    assert mark in {problem.name for problem in fresh.verify().problems}
    catalog.store.put(mark, b"")
    assert another(catalog, **OPTIONS).table("b").read().equals(numbers(50))
