"""Transactions in merge mode: all of it or nothing, one snapshot, savepoints, forks, collection."""

from __future__ import annotations

import pickle
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import (
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidArgument,
    NotFound,
    StoreUnavailable,
)
from crdtcat.protocol import mark_name
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.faulty import FaultyStore, from_nth
from crdtcat.transaction import Transaction
from tests.apart import processes_apart
from tests.cost.places import asked

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])


def lake(mode: str = "merge", **options: Any) -> tuple[Catalog, str]:
    url = f"memory://transactions-{secrets.token_hex(6)}"
    catalog = Catalog(url, **{"upkeep": False, **options})
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode=mode)
    return catalog, url


def rows(*numbers: int, x: int = 0) -> list[dict[str, int]]:
    return [{"n": n, "x": x} for n in numbers]


def values(reader: Catalog | Transaction, table: str) -> list[tuple[int, int]]:
    return sorted((row["n"], row["x"]) for row in reader.read(table).to_pylist())


def append_and_fail(tx: Transaction, *tables: str) -> None:
    for table in tables:
        tx.append(table, rows(99))
    raise ZeroDivisionError


def test_everything_becomes_visible_at_once() -> None:
    catalog, url = lake()
    other = Catalog(url)
    with catalog.transaction() as tx:
        tx.append("a", rows(1))
        tx.append("b", rows(2))
        assert (values(other, "a"), values(other, "b")) == ([], [])
    assert tx.committed
    for reader in (catalog, other, Catalog(url)):
        assert (values(reader, "a"), values(reader, "b")) == ([(1, 0)], [(2, 0)])
    assert {table: len(versions) for table, versions in tx.versions.items()} == {"a": 1, "b": 1}


def test_reads_inside_see_what_was_staged_and_nothing_that_others_commit() -> None:
    catalog, url = lake()
    catalog.commit("a", rows(1, 2))
    with catalog.transaction() as tx:
        tx.update("a", "n = 1", {"x": 5})
        Catalog(url).commit("a", rows(9))
        tx.append("a", rows(3))
        tx.update("a", "n >= 2", {"x": 7})
        tx.delete("a", "n = 1")
        assert values(tx, "a") == [(2, 7), (3, 7)]
        assert tx.table("a").scan(filter="x = 7").count() == 2
    assert values(catalog, "a") == [(2, 7), (3, 7), (9, 0)]
    assert not catalog.table("a").conflicts()


def test_columns_properties_and_overwrites_are_staged_too() -> None:
    catalog, url = lake()
    catalog.commit("a", rows(1))
    with catalog.transaction() as tx:
        tx.table("a").add_column("y", pa.string())
        tx.append("a", [{"n": 2, "x": 0, "y": "new"}])
        tx.update("a", "n = 1", {"y": "old"})
        tx.table("a").set_properties(owner="me")
        tx.overwrite("b", rows(3))
        tx.table("a").rename_column("x", "z")
    shown = Catalog(url).read("a").to_pylist()
    assert shown == [{"n": 1, "z": 0, "y": "old"}, {"n": 2, "z": 0, "y": "new"}]
    assert catalog.table("a").properties == {"owner": "me"}
    assert values(catalog, "b") == [(3, 0)]
    assert [v.operation for v in tx.versions["a"]] == ["schema", "append", "update", "properties", "schema"]
    assert catalog.table("a").verify("content").ok


def test_an_abort_leaves_nothing_visible() -> None:
    catalog, _ = lake()
    tx = catalog.transaction()
    with pytest.raises(ZeroDivisionError), tx:
        append_and_fail(tx, "a")
    assert tx.status == "aborted"
    explicit = catalog.transaction()
    explicit.append("b", rows(2))
    explicit.abort()
    assert (values(catalog, "a"), values(catalog, "b")) == ([], [])
    assert list(catalog.store.list("transactions/")) == []
    for call in (lambda: tx.append("a", rows(1)), tx.commit, explicit.commit):
        with pytest.raises(InvalidArgument, match="aborted"):
            call()


def test_a_commit_is_one_put_and_one_more_for_each_tables_first_time() -> None:
    catalog, url = lake()

    def both(n: int) -> None:
        with catalog.transaction() as tx:
            tx.append("a", rows(n))
            tx.append("b", rows(n))

    # Whether there are marks, once; the tables are empty: nothing rests on anything.
    assert asked(catalog, lambda: both(1)) == {"get": 2, "list": 2, "put": 3}
    # From now on a refresh lists transactions/, too, and fetches the one that is new to each table.
    assert asked(catalog, lambda: both(2)) == {"list": 6, "get": 2, "put": 1}
    assert asked(catalog, lambda: catalog.transaction().commit()) == {}
    assert asked(Catalog(url), lambda: None) == {}
    untouched = catalog.create_table("c", SCHEMA)
    untouched.append(rows(1))
    untouched.head()
    assert asked(catalog, untouched.head) == {"list": 1}


def test_ids_are_younger_than_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expiry that lists just before a mark is stored may go beyond every id made until then."""
    catalog, _ = lake()
    real, marked = catalog.store.put, []

    def put(name: str, data: Any) -> None:
        if "transactions/" not in name and not name.endswith(".v"):
            marked.append(catalog._clock.tick())
        real(name, data)

    monkeypatch.setattr(catalog.store, "put", put)
    with catalog.transaction() as tx:
        tx.append("a", rows(1))
        tx.append("b", rows(1))
    assert len(marked) == 2
    for name in ("a", "b"):
        assert all(version.id.hlc > max(marked) for version in catalog.table(name).history())


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_savepoints_forget_what_failed_inside_them(mode: str) -> None:
    catalog, url = lake(mode)
    with catalog.transaction() as tx:
        tx.append("a", rows(1))
        with pytest.raises(ZeroDivisionError), tx.savepoint():
            append_and_fail(tx, "a", "b")
        assert (values(tx, "a"), values(tx, "b")) == ([(1, 0)], [])
        with tx.savepoint():
            tx.append("b", rows(4))
    for reader in (catalog, Catalog(url)):
        assert (values(reader, "a"), values(reader, "b")) == ([(1, 0)], [(4, 0)])


def test_threads_stage_side_by_side_and_commit_once() -> None:
    catalog, url = lake()
    with catalog.transaction() as tx, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: tx.append("ab"[n % 2], rows(n)), range(40)))
    assert values(catalog, "a") == [(n, 0) for n in range(0, 40, 2)]
    assert values(Catalog(url), "b") == [(n, 0) for n in range(1, 40, 2)]
    assert len(list(catalog.store.list("transactions/"))) == 1


def stage(fork: Transaction, n: int) -> Transaction:
    fork.append("a", rows(n))
    fork.update("a", f"n = {n}", {"x": n})
    fork.update("a", "n = 100", {"x": fork.read("a").num_rows})
    fork.append("b", pa.table({"n": range(n * 10_000, (n + 1) * 10_000), "x": [n] * 10_000}, schema=SCHEMA))
    return fork


def test_processes_stage_with_forks_and_one_commit_joins_them(tmp_path: Path) -> None:
    """What a single stream writer cannot do: many processes stage, one commits."""
    catalog = Catalog(tmp_path, upkeep=False, inline_bytes=0)
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA)
    context = processes_apart()
    with catalog.transaction() as tx:
        tx.append("a", rows(100))
        with context.Pool(2) as pool:
            forks = pool.starmap(stage, [(tx.fork(), n) for n in range(3)])
        with pytest.raises(CommitConflict, match="update-update"):
            tx.join(*forks)  # all have set one cell
        tx.join(*forks, on_conflict="ours")
        assert catalog.read("a").num_rows == catalog.read("b").num_rows == 0
    assert values(catalog, "a") == [(0, 0), (1, 1), (2, 2), (100, 2)]
    assert catalog.read("b").num_rows == 30_000
    assert catalog.table("b").verify("content").ok


def test_forks_are_copied_joined_once_and_never_committed() -> None:
    catalog, _ = lake()
    tx = catalog.transaction()
    with pytest.raises(InvalidArgument, match="fork"):
        pickle.dumps(tx)
    fork = tx.fork()
    fork.append("a", rows(1))
    with pytest.raises(InvalidArgument, match="a fork is not committed itself"):
        fork.commit()
    tx.join(fork)
    with pytest.raises(InvalidArgument, match="joined"):
        tx.join(fork)
    tx.commit()
    assert values(catalog, "a") == [(1, 0)]


def test_a_reader_of_several_tables_never_sees_half_of_a_transaction() -> None:
    """Money is moved between two tables; whoever reads both inside a transaction finds all of it."""
    catalog, url = lake()
    with catalog.transaction() as tx:
        tx.append("a", rows(1, x=100))
        tx.append("b", rows(1, x=100))
    stop = threading.Event()
    wrong: list[Any] = []

    def move() -> None:
        mover = Catalog(url, upkeep=False)
        for n in range(40):
            with mover.transaction() as tx:
                tx.append("a", rows(n, x=-n))
                tx.append("b", rows(n, x=n))
        stop.set()

    def read() -> None:
        reader = Catalog(url, upkeep=False)
        while not stop.is_set():
            for order in ("ab", "ba"):
                with reader.transaction() as tx:
                    total = sum(x for name in order for _, x in values(tx, name))
                    if total != 200:
                        wrong.append(total)

    threads = [threading.Thread(target=move), *(threading.Thread(target=read) for _ in range(3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_transaction_stored_between_two_reads_is_left_out_of_the_second() -> None:
    catalog, url = lake()
    catalog.commit("b", rows(1))
    other = Catalog(url, upkeep=False)
    tx = catalog.transaction(["a"])
    other.commit("b", rows(4))  # before it: it stays
    with other.transaction() as theirs:
        theirs.append("a", rows(5))
        theirs.append("b", rows(5))
    other.table("b").update("n = 5", {"x": 9})  # had seen it: it goes, too
    other.commit("b", rows(6))  # its author had seen it
    assert (values(tx, "a"), values(tx, "b")) == ([], [(1, 0), (4, 0)])
    assert values(catalog, "b") == [(1, 0), (4, 0), (5, 9), (6, 0)]


@pytest.mark.parametrize("mode", ["merge", "cas"])
@pytest.mark.parametrize("named", [True, False])
def test_nothing_is_read_without_what_its_author_had_read(mode: str, named: bool) -> None:
    """Found by random histories: who had read a commit to one table committed to another, and a transaction
    that was pinned in between saw the second without the first."""
    url = f"memory://causes-{secrets.token_hex(6)}"
    catalog, reader, store = (Catalog(url, upkeep=False) for _ in range(3))
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode=mode)

    def meanwhile(n: int) -> None:
        catalog.commit("a", rows(n))
        assert (n, 0) in values(store, "a")
        store.commit("b", rows(n + 1))

    if named:  # between the listings of the two, also when they are read once more
        calls = between_listings(reader, "b", lambda call: meanwhile(2 * call + 1), times=2)
        tx = reader.transaction(["a", "b"])
        assert calls == [0, 1]
        assert (values(tx, "a"), values(tx, "b")) == ([(1, 0)], [(2, 0)])
    else:
        tx = reader.transaction(["a"])
        meanwhile(1)
        assert (values(tx, "a"), values(tx, "b")) == ([], [])
    with reader.transaction(["a", "b"]) as later:
        assert values(later, "a") == [(n, 0) for n in ((1, 3) if named else (1,))]
        assert values(later, "b") == [(n, 0) for n in ((2, 4) if named else (2,))]


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_what_was_acknowledged_before_is_read_whatever_slow_commits_come_between(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a trace that the model `Decisions` did not have: a commit with a small stamp that was stored
    between the listings of two tables took out of both what had been acknowledged before the first."""
    url = f"memory://slow-{secrets.token_hex(6)}"
    catalog, reader, slow = (Catalog(url, upkeep=False) for _ in range(3))
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode=mode)
    now = time.time_ns()
    with catalog.transaction() as tx:
        tx.append("b", rows(2))
        tx.append("a", rows(2))
    catalog.commit("b", rows(3))

    def meanwhile(_: int) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(time, "time_ns", lambda: now - 60 * 10**9)
            slow.commit("a", rows(1))

    between_listings(reader, "b", meanwhile)
    tx = reader.transaction(["a", "b"])
    assert values(tx, "b") == [(2, 0), (3, 0)]
    assert (2, 0) in values(tx, "a")


def between_listings(reader: Catalog, table: str, act: Callable[[int], None], times: int = 1) -> list[int]:
    """Do something before each of the first few listings of a table; how often it was done."""
    base = reader.table(table)._session
    listed = base.refresh
    calls: list[int] = []

    def refresh(*, described: bool = False) -> Any:
        if len(calls) < times:
            calls.append(len(calls))
            act(calls[-1])
        return listed(described=described)

    base.refresh = refresh  # type: ignore[method-assign]
    return calls


def test_a_transaction_is_not_cut_through() -> None:
    """Found by random histories: its versions have stamps of their own, and the cut fell between them."""
    found = set()
    for later in range(12):
        catalog, url = lake()
        other, third = Catalog(url, upkeep=False), Catalog(url, upkeep=False)
        tx = catalog.transaction(["a"])
        with other.transaction(["b"]) as theirs:
            for n in range(8):
                theirs.append("b", rows(n))
        least = int(other.table("b").head().log.id_fields["hlc"].min())
        third.clock.tick = lambda at=least + later: at  # type: ignore[method-assign,misc]
        third.commit("a", rows(99))
        found.add(len(values(tx, "b")))
    assert found == {0, 8}


def test_a_handle_reads_its_own_writes_whatever_the_clocks_say() -> None:
    """What it wrote before the transaction began is not left out, although its stamp is the greater one."""
    url = f"memory://own-{secrets.token_hex(6)}"
    catalog, other = Catalog(url, upkeep=False), Catalog(url, upkeep=False)
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA)
    catalog.clock.observe((catalog.clock.tick() >> 16) + 60_000 << 16)  # a minute ahead of the other
    catalog.commit("b", rows(1))
    tx = catalog.transaction(["a"])
    other.commit("a", rows(2))
    other.commit("b", rows(3))
    assert (values(tx, "a"), values(tx, "b")) == ([], [(1, 0)])


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
def test_dying_at_any_request_leaves_all_or_nothing(fault: Any) -> None:
    for n in range(1, 60):
        inner = MemoryStore(f"memory://dying-{secrets.token_hex(6)}")
        setup = Catalog(inner, upkeep=False)
        for name in ("a", "b"):
            setup.create_table(name, SCHEMA)
        store = FaultyStore(inner, from_nth(n, fault))
        done = False
        try:
            with Catalog(store, upkeep=False, inline_bytes=0).transaction() as tx:
                tx.append("a", rows(1))
                tx.append("b", rows(2))
            done = True
        except (StoreUnavailable, CommitUnknown):
            done = False
        seen = (values(Catalog(inner), "a"), values(Catalog(inner), "b"))
        assert seen in (([], []), ([(1, 0)], [(2, 0)]))
        assert seen[0] or not done
        if done:
            break
    assert done
    assert n > 5


def test_bundles_know_transactions_and_their_files_go_when_every_table_covers_them() -> None:
    catalog, url = lake(grace_seconds=0)
    for n in range(3):
        with catalog.transaction() as tx:
            tx.append("a", rows(n))
            tx.append("b", rows(n))
    catalog.table("a").checkpoint()
    first = catalog.collect_transactions()
    assert (first.deleted, first.kept, first.bundled) == (0, 3, 1), "b had no bundle of them"
    assert values(Catalog(url), "b") == [(n, 0) for n in range(3)]
    second = catalog.collect_transactions()
    assert (second.deleted, second.kept, second.bundled) == (3, 0, 0)
    cold = Catalog(url)
    for name in ("a", "b"):
        assert values(cold, name) == [(n, 0) for n in range(3)]
        assert cold.table(name).verify().ok
    assert list(catalog.store.list("transactions/")) == []
    with cold.transaction() as tx:
        assert values(tx, "a") == values(tx, "b")


def test_a_dropped_table_does_not_keep_a_transaction() -> None:
    catalog, _ = lake(grace_seconds=0)
    with catalog.transaction() as tx:
        tx.append("a", rows(1))
        tx.append("b", rows(1))
    catalog.drop_table("b")
    assert catalog.collect_transactions().deleted == 0
    assert catalog.collect_transactions().deleted == 1
    assert values(catalog, "a") == [(1, 0)]


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_a_deleted_branch_that_another_starts_from_keeps_a_transaction(mode: str) -> None:
    catalog, url = lake(mode, grace_seconds=0)
    catalog.table("a").append(rows(1))
    one = catalog.table("a").branch("one")
    with catalog.transaction() as tx:
        tx.table("a", "one").append(rows(2))
        tx.append("b", rows(2))
    one.branch("two")
    catalog.table("a").delete_branch("one")
    for _ in range(3):
        catalog.collect_transactions()
        assert Catalog(url).read("a", branch="two")["n"].to_pylist() == [1, 2]
    assert list(catalog.store.list("transactions/")) == [], "it is in bundles of both"
    catalog.collect(grace=0)
    catalog.table("a").delete_branch("two")
    assert values(Catalog(url), "b") == [(2, 0)]


def test_a_young_transaction_is_kept() -> None:
    catalog, _ = lake()
    with catalog.transaction() as tx:
        tx.append("a", rows(1))
    catalog.table("a").checkpoint()
    assert catalog.collect_transactions().kept == 1


def test_damage_is_told_by_name() -> None:
    catalog, url = lake()
    with catalog.transaction() as tx:
        tx.append("a", rows(1))
    (item,) = catalog.store.list("transactions/")
    data = bytes(catalog.store.get(item.name))
    catalog.store.put(item.name, data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])
    with pytest.raises(Corrupt, match="transactions/"):
        Catalog(url).read("a")
    catalog.store.put(item.name, data)
    catalog.store.delete([mark_name("tables/a/main/")])
    assert not catalog.table("a").verify().ok


def test_transactions_on_branches_and_dropped_tables() -> None:
    catalog, _ = lake()
    catalog.commit("a", rows(1))
    catalog.table("a").branch("dev")
    with catalog.transaction() as tx:
        tx.table("a", "dev").append(rows(2))
        tx.append("b", rows(3))
    assert catalog.read("a", branch="dev").num_rows == 2
    assert values(catalog, "a") == [(1, 0)]
    with pytest.raises(NotFound):
        catalog.transaction(["nowhere"])


def test_segments_that_only_a_transaction_refers_to_are_not_garbage() -> None:
    catalog, url = lake(inline_bytes=0)
    with catalog.transaction() as tx:
        tx.append("a", rows(1))
        tx.append("b", rows(2))
    for _ in range(2):
        found = catalog.collect(grace=0)
        assert (found.garbage, found.referenced) == ((), 2)
    assert (values(Catalog(url), "a"), values(Catalog(url), "b")) == ([(1, 0)], [(2, 0)])


def test_in_a_copied_catalog_a_transaction_comes_after_what_any_of_its_tables_saw(tmp_path: Path) -> None:
    """There each table has a clock of its own; of the first alone the stamp may lie below what was read."""
    made = Catalog(tmp_path)
    for name in ("a", "b"):
        made.create_table(name, pa.schema([("n", pa.int64())])).append([{"n": 0}])
    catalog = pickle.loads(pickle.dumps(made))
    seen = catalog.table("b")._session.clock
    seen.observe(seen.tick() + (5_000 << 16))  # a machine five seconds ahead has written there
    ahead = seen.last
    with catalog.transaction() as tx:
        tx.update("a", "n = 0", {"n": 1})
        tx.update("b", "n = 0", {"n": 1})
    assert all(version.id.hlc > ahead for versions in tx.versions.values() for version in versions)
