"""Expiry: history goes, the table stays; what must stay readable holds it back."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.clock import HybridClock
from crdtcat.errors import CommitUnknown, Corrupt, Expired, InvalidArgument, NotFound, StoreUnavailable
from crdtcat.format.ops import Ops
from crdtcat.lifecycle.horizons import proposals, propose
from crdtcat.table import Table
from crdtcat.testing.faulty import FaultyStore
from tests.catalog.lakes import another, lake, objects, refused

QUICK: dict[str, Any] = {"max_commit_delay_seconds": 0, "grace_seconds": 0}
NOW = timedelta(0)


def quick() -> Catalog:
    return lake(**QUICK)


def fresh(catalog: Catalog) -> Table:
    return another(catalog, **QUICK).table("t")


def numbers(table: Table, at: Any = None) -> list[int]:
    found: list[int] = table.read(["n"], at=at).column("n").to_pylist()
    return found


def started(*values: int) -> tuple[Catalog, Table]:
    catalog = quick()
    for value in values:
        catalog.commit("t", [{"n": value}], metadata={"value": value})
    return catalog, catalog.table("t")


def test_history_goes_and_the_table_stays() -> None:
    catalog, table = started(1, 2, 3, 4, 5)
    before = table.head()
    result = table.expire(keep_last=2)
    assert result.versions == 3
    assert str(result).startswith("expire: 3 versions below ")
    for handle in (table, fresh(catalog)):
        head = handle.head()
        assert numbers(handle) == [1, 2, 3, 4, 5]
        assert [item.metadata for item in head.history] == [{"value": 4}, {"value": 5}]
        assert (head.version, head.snapshot, head.root_hash) == (5, before.snapshot, before.root_hash)
        assert head.chunks[0].version == before.history[0].id
    table.expire(older_than=NOW)
    assert (repr(table.history()), numbers(table)) == ("(history was expired)", [1, 2, 3, 4, 5])


def test_what_is_below_the_horizon_is_expired_and_what_is_above_reads_as_before() -> None:
    catalog, table = started(1)
    for value in (2, 3, 4):
        time.sleep(0.002)  # moments are milliseconds
        table.append([{"n": value}])
    heads = [table.head(item) for item in table.history()]
    tokens = [str(head.snapshot) for head in heads]
    ids = [item.id for item in table.history()]
    table.expire(keep_last=2)  # three and four stay; two is what was folded
    for handle in (table, fresh(catalog)):
        for at in (tokens[0], ids[0], str(ids[0]), ids[0].time):
            with pytest.raises(Expired):
                handle.read(at=at)
        for kept in (1, 2, 3):
            assert numbers(handle, at=tokens[kept]) == list(range(1, kept + 2))
        assert numbers(handle, at=ids[2]) == [1, 2, 3]
        with pytest.raises(NotFound, match="as old as"):
            handle.read(at=datetime(1999, 1, 1, tzinfo=UTC))


def test_what_nothing_reads_any_more_is_let_go() -> None:
    catalog = lake(**QUICK, inline_bytes=0)
    for value in range(5):
        catalog.commit("t", [{"n": value}])
    table = catalog.table("t")
    table.overwrite([{"n": 9}])
    table.append([{"n": 10}])
    result = table.expire(keep_last=1)
    assert (result.versions, result.chunks, result.segments) == (6, 5, 5)
    log = fresh(catalog).head().log
    assert len(log.segment_name) == 2
    assert numbers(fresh(catalog)) == [9, 10]


def test_the_log_is_collected_behind_a_base() -> None:
    catalog, table = started(*range(20))
    table.checkpoint()
    table.append([{"n": 20}])
    table.expire(keep_last=1)
    collected = table.collect()
    assert collected.versions == 20
    assert collected.bundles == 1
    left = sorted(name for name in objects(catalog) if name.startswith("tables/t/main/"))
    assert [name.rpartition(".")[2] for name in left] == ["v", "b", "b"]  # a bundle of what came after
    assert numbers(fresh(catalog)) == list(range(21))
    table.append([{"n": 21}])
    table.expire(keep_last=1)
    table.collect()
    assert numbers(fresh(catalog)) == list(range(22))
    assert [name for name in objects(catalog) if "/zz" in name] == ["tables/t/main/zz00000002.b"]


def test_expire_again_and_again() -> None:
    catalog, table = started(0)
    for value in range(1, 30):
        table.append([{"n": value}])
        if value % 3 == 0:
            table.expire(keep_last=2)
        if value % 7 == 0:
            table.collect()
        if value % 10 == 0:
            table.overwrite([{"n": value}])
    assert numbers(fresh(catalog)) == numbers(table) == list(range(20, 30))
    assert table.head().version == 32


def test_nothing_to_expire() -> None:
    catalog, table = started(1, 2)
    before = objects(catalog)
    assert str(table.expire(keep_last=2)) == "expire: nothing to fold"
    assert str(table.expire(older_than=timedelta(days=1))) == "expire: nothing to fold"
    assert table.expire(keep_last=5).versions == 0
    assert objects(catalog) == before
    assert str(catalog.create_table("empty").expire(older_than=NOW)) == "expire: nothing to fold"


def test_a_dry_run_writes_nothing_and_says_what_would_be_done() -> None:
    catalog, table = started(1, 2, 3)
    before = objects(catalog)
    result = table.expire(keep_last=1, dry_run=True)
    assert objects(catalog) == before
    assert "2 versions" in str(result)
    assert "would be folded" in str(result)
    done = table.expire(keep_last=1)
    assert (done.versions, done.chunks, done.segments) == (result.versions, result.chunks, result.segments)


def test_wrong_arguments() -> None:
    catalog, table = started(1)
    with refused(catalog, InvalidArgument, "older_than"):
        table.expire()
    with refused(catalog, InvalidArgument, "older_than=5", "timedelta"):
        table.expire(older_than=5)  # type: ignore[arg-type]
    with refused(catalog, InvalidArgument, "an age below zero", "timedelta(days=30)"):
        table.expire(older_than=timedelta(days=-30))
    with refused(catalog, InvalidArgument, "is in the future", "UTC"):
        table.expire(older_than=datetime.now(UTC) + timedelta(hours=1))
    with refused(catalog, InvalidArgument, "is in the future"):
        table.expire(older_than=datetime.max.replace(tzinfo=UTC), keep_last=1)
    with refused(catalog, InvalidArgument, "older_than=NaT"):
        table.expire(older_than=pd.NaT)
    with refused(catalog, InvalidArgument, "dry_run='no'"):
        table.expire(keep_last=1, dry_run="no")  # type: ignore[arg-type]
    with refused(catalog, InvalidArgument, "keep_last='2'"):
        table.expire(keep_last="2")  # type: ignore[arg-type]
    with refused(catalog, InvalidArgument, "keep_last=0"):
        table.expire(keep_last=0)
    branch = table.branch("b")
    with refused(catalog, InvalidArgument, "'b'"):
        branch.expire(keep_last=1)


def test_nothing_younger_than_the_longest_commit_is_expired() -> None:
    """It waits: a second here, ten by default."""
    catalog = lake(max_commit_delay_seconds=1)
    for value in range(3):
        catalog.commit("t", [{"n": value}])
    table = catalog.table("t")
    newest = table.history()[-1].time
    table.expire(keep_last=1)
    assert datetime.now(UTC) - newest >= timedelta(seconds=1)
    assert len(table.history()) == 1


def test_tags_hold_the_horizon() -> None:
    catalog, table = started(1, 2)
    table.tag("two")
    table.append([{"n": 3}])
    table.append([{"n": 4}])
    result = table.expire(older_than=NOW)
    assert result.held_by == ("tag two",)
    assert "held back by tag two" in str(result)
    assert [item.metadata for item in table.history()] == [{}, {}]
    assert numbers(fresh(catalog), at="two") == [1, 2]
    table.delete_tag("two")
    table.expire(older_than=NOW)
    assert len(table.history()) == 0
    assert numbers(fresh(catalog)) == [1, 2, 3, 4]


def test_branches_hold_the_horizon_and_can_be_merged_afterwards() -> None:
    catalog, table = started(1, 2)
    branch = table.branch("b")
    branch.append([{"n": 3}])
    table.append([{"n": 4}])
    assert table.expire(older_than=NOW).held_by == ("branch b",)
    table.collect()
    assert numbers(another(catalog, **QUICK).table("t", "b")) == [1, 2, 3]
    assert table.merge("b").versions == 1
    assert numbers(fresh(catalog)) == [1, 2, 3, 4]
    table.delete_branch("b")
    table.expire(older_than=NOW)
    table.collect()
    assert numbers(fresh(catalog)) == [1, 2, 3, 4]


@pytest.mark.parametrize("what", ["tag", "branch"])
def test_upkeep_holds_nothing(what: str) -> None:
    """A tag or branch lacks every compaction: what it needs are commits."""
    catalog, table = started(*range(6))
    table.update("n = 1", {"n": 11})
    table.delete("n = 2")
    table.compact()
    table.append([{"n": 6}])
    table.update("n = 3", {"n": 13})
    expected = numbers(table)
    getattr(table, what)("named")
    table.append([{"n": 7}])
    table.update("n = 4", {"n": 14})
    table.compact()
    assert table.expire(older_than=NOW).versions == 11, "ten commits and a compaction before the name"
    assert [item.operation for item in table.history()] == ["append", "update"]
    catalog.collect(grace=0)
    catalog.collect(grace=0)
    cold = another(catalog, **QUICK)
    place = {"at": "named"} if what == "tag" else {"branch": "named"}
    assert cold.read("t", **place)["n"].to_pylist() == expected
    assert sorted(numbers(cold.table("t"))) == [0, 5, 6, 7, 11, 13, 14]
    assert cold.table("t").verify().ok


def test_a_branch_of_a_deleted_branch_holds_the_horizon() -> None:
    catalog, table = started(1)
    one = table.branch("one")
    one.append([{"n": 2}])
    one.branch("two").append([{"n": 3}])
    table.append([{"n": 4}])
    table.delete_branch("one")
    table.expire(older_than=NOW)
    table.collect()
    assert numbers(another(catalog, **QUICK).table("t", "two")) == [1, 2, 3]
    assert table.merge("two").versions == 2


@pytest.mark.parametrize("mode", ["merge", "cas"])
@pytest.mark.parametrize("deleted", [False, True])
def test_a_branch_of_a_branch_at_an_older_snapshot_holds_the_horizon(mode: str, deleted: bool) -> None:
    catalog = quick()
    table = catalog.create_table("t", pa.schema([("n", pa.int64())]), mode=mode)
    ids = [table.append([{"n": n}]).id for n in range(4)]
    one = table.branch("one")
    one.append([{"n": 10}])
    one.branch("two", at=ids[1]).append([{"n": 20}])
    table.append([{"n": 5}])
    if deleted:
        table.delete_branch("one")
    assert "branch two" in table.expire(older_than=NOW).held_by
    assert numbers(another(catalog, **QUICK).table("t", "two")) == [0, 1, 20]
    catalog.collect(grace=0)
    table.merge("two")
    assert sorted(numbers(fresh(catalog))) == [0, 1, 2, 3, 5, 20]


def test_a_start_that_names_a_version_of_another_branch_is_told_from_that_branch() -> None:
    catalog, table = started(0, 1)
    old = table.head().snapshot
    table.append([{"n": 2}])
    one = table.branch("one")
    for value in range(60):  # each by a writer of its own, so that a start of it must be made short
        another(catalog, **QUICK).table("t", "one").append([{"n": 100 + value}])
    one.branch("two")
    assert table.branches()["two"].snapshot.seen_by
    table.append([{"n": 3}])
    assert table.expire(older_than=NOW).versions == 3
    assert len(numbers(another(catalog, **QUICK).table("t", "two"))) == 63
    with pytest.raises(Expired):
        table.read(at=old)


def test_merging_what_the_horizon_has_passed_is_refused_by_name() -> None:
    catalog, table = started(1)
    branch = another(catalog, **QUICK).table("t").branch("b")
    slow = type(branch._session.clock)(lambda: 1_000_000)
    branch._session.writer._clock = slow  # a machine whose clock is far behind
    old = branch.append([{"n": 2}])
    table.append([{"n": 3}])
    table.expire(older_than=NOW)
    with refused(catalog, Expired, str(old.id), "nothing was merged"):
        table.merge("b")


@pytest.mark.parametrize("expired", ["before", "after", "both"])
@pytest.mark.parametrize("name", ["one", "two"])
def test_blind_commits_to_a_branch_by_a_clock_that_is_behind_can_be_merged(name: str, expired: str) -> None:
    catalog, table = started(1, 2)
    if expired != "after":
        table.expire(older_than=NOW)  # so that the horizon is above every commit
    table.branch("one").branch("two")
    slow = another(catalog, **QUICK)
    slow._clock = HybridClock(lambda: time.time_ns() // 1_000_000 - 60_000)
    late = slow.table("t", name).append([{"n": 3}])
    if expired != "before":
        table.append([{"n": 4}])
        table.expire(older_than=NOW)
    assert late.id.hlc >= table.head().log.horizon
    assert fresh(catalog).merge(name).versions == 1
    assert sorted(numbers(fresh(catalog)))[:3] == [1, 2, 3]


def test_copies_of_a_branch_commit_after_its_beginning() -> None:
    catalog = quick()
    catalog._clock = HybridClock(lambda: time.time_ns() // 1_000_000 + 30_000)
    catalog.commit("t", [{"n": 1}])
    start = catalog.table("t").history()[-1].id.hlc
    branch = catalog.table("t").branch("b")
    assert pickle.loads(pickle.dumps(branch)).append([{"n": 2}]).id.hlc > start
    assert another(catalog).table("t", "b").append([{"n": 3}]).id.hlc > start


def test_a_commit_below_the_horizon_is_made_again_under_a_younger_id() -> None:
    """Its writer was so slow that an expiry has passed it: the version is dead, the commit is not."""
    catalog, table = started(1, 2)
    late = another(catalog, **QUICK).table("t")
    stamped = late._session.clock.tick()
    time.sleep(0.002)
    table.expire(older_than=NOW)
    real = late._session.writer._clock
    ticks = iter([stamped])
    late._session.writer._clock = _Stamps(lambda: next(ticks, None) or real.tick())  # type: ignore[assignment]
    version = late.append([{"n": 3}])
    assert version.id.hlc > stamped
    assert numbers(fresh(catalog)) == [1, 2, 3]
    assert late.head().version == 3
    late.append([{"n": 4}])
    assert numbers(fresh(catalog)) == [1, 2, 3, 4]


def test_a_clock_that_is_behind_moves_past_the_horizon() -> None:
    """A horizon lies above all that it folds. A writer whose clock is behind both would else commit below it
    again and again, and each of these would be dead."""
    catalog, table = started(1, 2)
    time.sleep(0.002)
    table.expire(older_than=NOW)
    horizon = table._session.state.log.horizon
    for blind in (True, False):
        slow = another(catalog, **QUICK)
        slow._clock = HybridClock(lambda: 1_000_000_000)
        late = slow.table("t")
        late._session.writer.commit = _at_most(late._session.writer.commit, 3)  # type: ignore[method-assign]
        version = late.append([{"n": 3}]) if blind else late.update("n = 1", {"n": 5})
        assert version is not None
        assert version.id.hlc > horizon
    assert numbers(fresh(catalog)) == [5, 2, 3]


def _at_most(call: Callable[..., Any], times: int) -> Callable[..., Any]:
    left = iter(range(times))

    def counted(*given: Any) -> Any:
        assert next(left, None) is not None, "again and again"
        return call(*given)

    return counted


class _Stamps:
    def __init__(self, tick: Any) -> None:
        self.tick = tick


def test_a_late_commit_while_an_expiry_is_under_way_is_unknown() -> None:
    catalog, _ = started(1)
    late = another(catalog, **QUICK).table("t")
    stamped = late._session.clock.tick()
    time.sleep(0.002)
    propose(catalog.store, "t", 1, stamped + 1)
    late._session.writer._clock = _Stamps(lambda: stamped)  # type: ignore[assignment]
    with pytest.raises(CommitUnknown, match="expiry"):
        late.append([{"n": 2}])


def test_a_slow_commit_that_cannot_look_is_unknown() -> None:
    """It is stored: nobody may be told that nothing became visible."""
    catalog, _ = started(1)
    store = FaultyStore(catalog.store)
    late = Catalog(store, upkeep=False, **QUICK).table("t")
    stamped = late._session.clock.tick()
    time.sleep(0.002)
    late._session.writer._clock = _Stamps(lambda: stamped)  # type: ignore[assignment]
    store.plan = lambda call: "error" if call.kind == "list" else None
    with pytest.raises(CommitUnknown, match="is stored"):
        late.append([{"n": 2}])
    assert sorted(numbers(fresh(catalog))) == [1, 2]


def test_a_branch_is_not_made_while_an_expiry_is_under_way() -> None:
    catalog, table = started(1, 2)
    last = table.history()[-1].id.hlc
    propose(catalog.store, "t", 1, last + 2)
    with pytest.raises(StoreUnavailable, match="expiry"):
        table.branch("b")
    assert table.branches() == {}
    table.expire(older_than=NOW)  # finishes what was cut off
    assert numbers(table.branch("b")) == [1, 2]
    assert len(proposals(catalog.store, "t", 1)) == 1


def test_a_tag_below_a_proposed_horizon_is_refused() -> None:
    catalog, table = started(1, 2, 3)
    propose(catalog.store, "t", 1, table.history()[-1].id.hlc)
    with pytest.raises(Expired, match="being expired"):
        table.tag("old", at=table.history()[0].id)
    table.tag("new")
    assert list(table.tags()) == ["new"]


def test_keys_count_beyond_the_horizon() -> None:
    catalog, table = started(1)
    table.append([{"n": 2}], key="job")
    table.append([{"n": 3}])
    table.expire(older_than=NOW)
    table.collect()
    again = fresh(catalog)
    again.append([{"n": 2}], key="job")
    assert numbers(fresh(catalog)) == [1, 2, 3]
    again.overwrite([{"n": 5}])
    assert numbers(fresh(catalog)) == [5]


def test_columns_and_properties_stay() -> None:
    catalog, table = started(1)
    table.add_column("more", pa.int64())
    table.append([{"n": 2, "more": 20}])
    table.rename_column("more", "much")
    table.set_properties(owner="me", gone=1)
    table.set_properties(gone=None)
    before = table.head()
    table.expire(older_than=NOW)
    table.collect()
    head = fresh(catalog).head()
    assert (head.schema, head.properties) == (before.schema, {"owner": "me"})
    assert fresh(catalog).read().to_pylist() == [{"n": 1, "much": None}, {"n": 2, "much": 20}]
    fresh(catalog).drop_column("much")
    assert fresh(catalog).schema.names == ["n"]


def test_conflicts_wholly_below_the_horizon_are_forgotten() -> None:
    catalog, table = started(1)
    other = fresh(catalog)
    other.head()
    stale = other._session.head(refresh=False)
    table.set_properties(owner="a")
    other._session.commit("properties", body={"x": _property("b")}, seen=stale)
    assert [item.kind for item in table.conflicts()] == ["property"]
    table.append([{"n": 2}])
    table.expire(keep_last=1)
    assert table.conflicts() == ()
    assert table.properties == {"owner": "b"}


def _property(value: str) -> bytes | None:
    return Ops(properties={"owner": value}).encode()


def test_a_damaged_base_is_reported_by_name() -> None:
    catalog, table = started(1, 2)
    table.expire(older_than=NOW)
    name = "tables/t/main/zz00000001.b"
    data = bytes(catalog.store.get(name))
    catalog.store.put(name, data[:100] + bytes([data[100] ^ 1]) + data[101:])
    with pytest.raises(Corrupt, match=r"zz00000001\.b"):
        fresh(catalog).read()
    catalog.store.put("tables/t/main/zz00000002.b", data)
    with pytest.raises(Corrupt, match="another bundle"):
        fresh(catalog).read()


def test_verify_finds_nothing_wrong_and_collection_deletes_what_was_let_go() -> None:
    catalog = lake(**QUICK, inline_bytes=0)
    for value in range(5):
        catalog.commit("t", [{"n": value}])
    table = catalog.table("t")
    table.overwrite([{"n": 9}])
    table.append([{"n": 10}])
    table.expire(older_than=NOW)
    table.collect()
    assert table.verify("content").ok
    for _ in range(2):
        catalog.collect(grace=0)
    assert len([name for name in objects(catalog) if name.startswith("data/")]) == 2
    assert fresh(catalog).verify("content").ok
    assert numbers(fresh(catalog)) == [9, 10]


def test_a_keyed_table() -> None:
    catalog = quick()
    table = catalog.create_table("t", pa.schema([("n", pa.int64()), ("x", pa.int64())]), key=["n"])
    for value in range(6):
        table.upsert([{"n": value % 3, "x": value}, {"n": value + 10, "x": value}])
    table.delete(keys=[11, 12])
    before = table.read().to_pylist()
    table.expire(older_than=NOW)
    table.collect()
    for _ in range(2):
        catalog.collect(grace=0)
    assert fresh(catalog).read().to_pylist() == before
    fresh(catalog).upsert([{"n": 11, "x": 1}])
    assert {"n": 11, "x": 1} in fresh(catalog).read().to_pylist()
    assert fresh(catalog).verify("content").ok


def test_a_bundle_of_folded_versions_is_taken_in_without_them() -> None:
    """The base has let their chunks go: there is nothing to bundle any more."""
    catalog = lake(inline_bytes=0, max_commit_delay_seconds=0)
    table = catalog.create_table("t")
    for number in range(4):
        table.append([{"n": number}])
    table.overwrite([{"n": 4}])
    table.append([{"n": 5}])
    table.checkpoint()
    table.expire(keep_last=1)
    for number in range(6, 12):
        table.append([{"n": number}])
    result = table.checkpoint()
    assert result.replaced == 1
    assert another(catalog).table("t").read().column("n").to_pylist() == list(range(4, 12))
    assert another(catalog).table("t").verify().ok


def test_a_branch_above_a_folded_compaction_is_whole() -> None:
    """Compactions are no part of snapshots, also where what is folded counts as a whole."""
    catalog = lake(inline_bytes=0, max_commit_delay_seconds=0)
    table = catalog.create_table("t")
    for number in range(3):
        table.append([{"n": number}])
    table.compact()
    table.append([{"n": 3}])
    table.append([{"n": 4}])
    table.expire(keep_last=1)
    branch = table.branch("b")
    assert branch.verify().ok
    assert another(catalog).table("t", branch="b").read().column("n").to_pylist() == [0, 1, 2, 3, 4]
