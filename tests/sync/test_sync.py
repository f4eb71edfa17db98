"""Two catalogs that exchange versions: laptops without network, other regions."""

from __future__ import annotations

import itertools
import secrets
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt, CrdtcatError, InvalidArgument, NotFound
from crdtcat.protocol import is_base
from crdtcat.store import open_store
from crdtcat.testing.faulty import FaultyStore, nth
from crdtcat.testing.invariants import head_value
from crdtcat.testing.s3_server import S3Server
from tests.bounds import bounded
from tests.catalog.lakes import another, lake, objects

QUICK: dict[str, Any] = {"max_commit_delay_seconds": 0, "grace_seconds": 0}


def numbers(catalog: Catalog, table: str = "t") -> list[int]:
    found: list[int] = another(catalog).read(table, ["n"]).column("n").to_pylist()
    return found


def converged(a: Catalog, b: Catalog, table: str = "t") -> None:
    first, second = (another(catalog).table(table) for catalog in (a, b))
    assert head_value(first.head()) == head_value(second.head())
    assert first.read().equals(second.read())
    assert first.verify("content").ok
    assert second.verify("content").ok


def test_offline_laptop(tmp_path: Path) -> None:
    """Real directories: both sides commit while they are apart, and afterwards have everything."""
    office = Catalog(tmp_path / "office", upkeep=False)
    laptop = Catalog(tmp_path / "laptop", upkeep=False, inline_bytes=0)
    office.commit("t", [{"n": 1}])
    assert office.sync(laptop).sent["t"].versions == 1
    laptop.commit("t", [{"n": 2}])
    laptop.table("t").update("n = 1", {"n": 10})
    office.commit("t", [{"n": 3}])
    result = laptop.sync(tmp_path / "office")
    assert (result.sent["t"].versions, result.received["t"].versions) == (2, 1)
    assert result.sent["t"].segments == 2
    assert str(result).startswith("sync: 1 tables, 2 versions and ")
    converged(office, laptop)
    assert sorted(numbers(office)) == [2, 3, 10]
    before = objects(office), objects(laptop)
    assert office.sync(laptop).ok
    assert (objects(office), objects(laptop)) == before, "done twice, it changes nothing"


@pytest.mark.s3
def test_two_regions(s3_server: S3Server, s3_url: str) -> None:
    options: dict[str, Any] = {"upkeep": False, "inline_bytes": 0}
    east = Catalog(f"{s3_url}/east", s3_server.storage_options, **options)
    west = Catalog(f"{s3_url}/west", s3_server.storage_options, **options)
    for number in range(3):
        east.commit("t", [{"n": number}])
        west.commit("u", [{"n": number}])
    result = east.sync(f"{s3_url}/west", storage_options=s3_server.storage_options)
    assert result.ok
    assert sorted(result.sent) == ["t", "u"]
    for name in ("t", "u"):
        first, second = (
            Catalog(catalog.url, s3_server.storage_options).table(name) for catalog in (east, west)
        )
        assert head_value(first.head()) == head_value(second.head())
        assert first.read().equals(second.read())


def test_three_that_pass_it_on() -> None:
    a, b, c = lake(), lake(), lake()
    for number, catalog in enumerate((a, b, c)):
        catalog.commit("t", [{"n": number}])
        catalog.table("t").set_properties(owner=str(number))
    for first, second in ((a, b), (b, c), (a, b)):
        first.sync(second)
    converged(a, b)
    converged(b, c)
    assert sorted(numbers(a)) == [0, 1, 2]
    assert [item.kind for item in a.table("t").conflicts()] == ["property", "property"]


def test_settings_travel_and_must_agree() -> None:
    a, b = lake(), lake()
    schema = pa.schema([("n", pa.int64()), ("k", pa.string())])
    a.create_table("keyed", schema, key=["n"])
    a.table("keyed").upsert([{"n": 1, "k": "a"}])
    a.create_table("other", partition_by=["n"])
    b.create_table("other")
    a.create_table("strict", schema, mode="cas")
    a.commit("gone", [{"n": 1}])
    a.sync(b, ["gone"])
    b.drop_table("gone")
    a.commit("fine", [{"n": 1}])
    result = a.sync(b)
    assert sorted(result.refused) == ["gone", "other", "strict"]
    assert "differ" in result.refused["other"]
    assert "CAS" in result.refused["strict"]
    assert "dropped" in result.refused["gone"]
    assert "refused other" in str(result)
    assert not result.ok
    assert b.table("keyed").key == ("n",)
    converged(a, b, "keyed")
    converged(a, b, "fine")
    assert a.sync(b, ["nowhere"]).refused["nowhere"].endswith("neither side has a table 'nowhere'")
    with pytest.raises(InvalidArgument, match="pass a list"):
        a.sync(b, "fine")


def test_a_table_created_again_is_the_other_sides_again() -> None:
    """Nobody can tell two lives of a name apart across catalogs: whoever wants it gone drops it on both."""
    a, b = lake(), lake()
    a.commit("t", [{"n": 1}])
    a.sync(b)
    a.drop_table("t")
    assert "drop it on the other side too, or create it again" in a.sync(b).refused["t"]
    a.create_table("t").append([{"n": 2}])
    assert a.sync(b).ok
    converged(a, b)
    assert sorted(numbers(a)) == [1, 2]
    for each in (a, b):
        each.drop_table("t")
    a.create_table("t").append([{"n": 3}])
    b.create_table("t")
    assert a.sync(b).ok
    assert numbers(a) == numbers(b) == [3]


def test_versions_below_a_horizon_are_refused_by_name() -> None:
    quick: dict[str, Any] = {"max_commit_delay_seconds": 0}
    a, b = lake(**quick), lake(**quick)
    a.commit("t", [{"n": 1}])
    a.sync(b)
    old = b.commit("t", [{"n": 2}])
    a.commit("t", [{"n": 3}])
    time.sleep(0.002)  # what is of this very millisecond is not older than nothing
    a.table("t").expire(older_than=timedelta(0))
    result = a.sync(b)
    assert str(old.id) in result.refused["t"]
    assert sorted(numbers(a)) == [1, 3]
    assert 2 in numbers(b)


def test_how_to_go_on_from_versions_below_a_horizon() -> None:
    a, b = lake(**QUICK), lake(**QUICK)
    columns = pa.schema([("n", pa.int64()), ("v", pa.string())])
    a.create_table("t", columns, key=["n"]).upsert([{"n": n, "v": "old"} for n in range(4)])
    a.sync(b)
    laptop = b.table("t")
    laptop.upsert([{"n": 0, "v": "laptop"}, {"n": 9, "v": "laptop"}])
    laptop.delete(keys=[1])
    a.table("t").upsert([{"n": 2, "v": "office"}])
    time.sleep(0.002)
    a.table("t").expire(older_than=timedelta(0))
    for first, second in ((a, b), (b, a)):
        assert "docs/contracts/sync.md says how to go on" in first.sync(second).refused["t"]
    history = laptop.history()
    named = next(at for at, item in enumerate(history) if str(item.id) in a.sync(b).refused["t"])
    for row in laptop.changes(history[named - 1]).to_table().to_pylist():
        kind = row.pop("_change")
        if kind == "delete":
            a.table("t").delete(keys=[row["n"]])
        elif kind != "update_before":
            a.table("t").upsert([row])
    b.drop_table("t")
    b.create_table("t", columns, key=["n"])
    assert a.sync(b).ok
    converged(a, b)
    assert {row["n"]: row["v"] for row in b.read("t").to_pylist()} == {
        0: "laptop", 2: "office", 3: "old", 9: "laptop",
    }  # fmt: skip


def test_a_new_replica_of_a_table_that_was_expired() -> None:
    """It takes over the horizon: what was folded there is folded here, and nothing else is lost or shown."""
    quick: dict[str, Any] = {"max_commit_delay_seconds": 0, "inline_bytes": 0, "grace_seconds": 0}
    a, b = lake(**quick), lake(**quick)
    for value in range(5):
        a.commit("t", [{"n": value}])
    a.table("t").delete("n = 1")
    a.table("t").overwrite([{"n": 7}, {"n": 8}])
    a.table("t").update("n = 8", {"n": 9})
    time.sleep(0.002)
    a.table("t").expire(older_than=timedelta(0))
    a.table("t").collect()
    a.commit("t", [{"n": 10}])
    result = a.sync(b)
    assert result.ok, str(result)
    converged(a, b, "t")
    assert numbers(b) == [7, 9, 10]
    assert [item.operation for item in b.table("t").history()] == ["append"]
    assert b.table("t").verify("content").ok
    b.commit("t", [{"n": 11}])
    a.sync(b)
    converged(a, b, "t")
    for catalog in (a, b):
        catalog.table("t").expire(older_than=timedelta(0))
    a.commit("t", [{"n": 12}])
    assert a.sync(b).ok
    converged(a, b, "t")


def test_a_replica_follows_a_horizon() -> None:
    """It had everything that was folded meanwhile, or nothing that was not: then nothing can be lost."""
    quick: dict[str, Any] = {"max_commit_delay_seconds": 0, "grace_seconds": 0}
    a, b = lake(**quick), lake(**quick)
    a.commit("t", [{"n": 1}])
    a.sync(b)
    a.commit("t", [{"n": 2}], metadata={"who": "a"})
    a.table("t").expire(older_than=timedelta(0))
    b.commit("t", [{"n": 3}])
    result = a.sync(b)
    assert result.ok, str(result)
    converged(a, b, "t")
    assert sorted(numbers(b)) == [1, 2, 3]
    assert b.sync(a).ok
    converged(a, b, "t")


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("compacts", [0, 1])
@pytest.mark.parametrize("expires", [(0,), (1,), (0, 1)])
def test_compactions_are_in_nobodys_way(expires: tuple[int, ...], compacts: int, keyed: bool) -> None:
    """One replica compacts, one or both expire before they meet again: they go on as if nobody had."""
    both = lake(**QUICK, inline_bytes=0), lake(**QUICK, inline_bytes=0)
    schema = pa.schema([("n", pa.int64()), ("x", pa.int64())])
    both[0].create_table("t", schema, key=["n"] if keyed else [])
    rows = itertools.count()
    for turn in range(4):
        assert both[turn % 2].sync(both[1 - turn % 2]).ok
        for each in both:
            table = each.table("t")
            for add in (table.upsert if keyed else table.append,) * 3:
                add([{"n": next(rows), "x": 0}])
            if not keyed:
                table.update("n % 2 = 0", {"x": turn})
        assert both[0].sync(both[1]).ok
        assert both[compacts].table("t").compact().versions
        for who in expires:
            _expire(both[who])
        for each in both:
            each.table("t").delete(f"n = {6 * turn}")
    result = both[0].sync(both[1])
    assert result.ok, str(result)
    stored = 1 if keyed else 0  # a keyed table counts stored rows, and one of them has not compacted
    assert _value(both[0])[: 6 - stored] == _value(both[1])[: 6 - stored]
    assert sorted(numbers(both[0])) == [n for n in range(24) if n % 6]
    before = [objects(one) for one in both]
    assert both[0].sync(both[1]).ok
    assert [objects(one) for one in both] == before, "done twice, it changes nothing"
    for one in both:
        assert another(one).table("t").verify("content").ok


@pytest.mark.parametrize("clusters", [False, True])
def test_compactions_come_along_where_rows_are_nowhere_else(clusters: bool) -> None:
    """From below a horizon, too; and with them what was let go because they were not there."""
    a, b = lake(**QUICK, inline_bytes=0), lake(**QUICK, inline_bytes=0)
    for number in range(4):
        a.commit("t", [{"n": 9 - number}])
    a.sync(b)
    assert a.table("t").compact().versions == 1
    _expire(b)  # without the compaction
    if clusters:
        assert a.table("t").compact(cluster_by=["n"]).versions == 1  # a commit, which rests on that
        assert a.sync(b).ok
        _expire(b)  # where it counts for nothing but the order
    a.commit("t", [{"n": 5}])
    if not clusters:
        assert a.table("t").compact().versions == 1
    _expire(a)
    result = a.sync(b)
    assert result.ok, str(result)
    assert _value(a) == _value(b)
    for each in (a, b):
        _expire(each)
        assert numbers(each) == ([6, 7, 8, 9, 5] if clusters else [9, 8, 7, 6, 5])
        assert another(each).table("t").verify("content").ok


def _expire(catalog: Catalog) -> None:
    time.sleep(0.002)  # what is of this very millisecond is not older than nothing
    catalog.table("t").expire(older_than=timedelta(0))
    catalog.table("t").collect()
    catalog.collect(grace=0)


def test_what_a_transaction_wrote_is_read_where_the_rest_of_it_is_not() -> None:
    """Its other table was not synced, or is another one under that name: nobody waits for it."""
    a, b, c = lake(**QUICK), lake(**QUICK), lake(**QUICK)
    for name in ("t", "u"):
        a.commit(name, [{"n": 1}])
    a.sync(b)
    with a.transaction() as work:
        work.append("t", [{"n": 2}])
        work.append("u", [{"n": 2}])
    assert a.sync(b, ["t"]).ok
    assert _together(b) == ([1, 2], [1])
    assert a.sync(b).ok
    assert _together(b) == _together(a) == ([1, 2], [1, 2])
    a.drop_table("u")
    a.create_table("u").append([{"n": 3}])
    a.table("t").checkpoint()
    a.table("t").expire(older_than=timedelta(0))
    assert a.sync(c).ok  # as a base
    assert _together(c) == _together(a) == ([1, 2], [3])
    with c.transaction() as work:
        work.append("t", work.read("u"))
        work.append("u", work.read("t"))
    assert _together(c) == ([1, 2, 3], [1, 2, 3, 3])
    assert a.sync(c).ok
    converged(a, c)


def _together(catalog: Catalog) -> tuple[list[int], list[int]]:
    with another(catalog, **QUICK).transaction(["t", "u"]) as work:
        first, second = (sorted(work.read(name)["n"].to_pylist()) for name in ("t", "u"))
    return first, second


def test_a_tag_keeps_a_replica_from_following_a_horizon() -> None:
    quick: dict[str, Any] = {"max_commit_delay_seconds": 0, "grace_seconds": 0}
    a, b = lake(**quick), lake(**quick)
    a.commit("t", [{"n": 1}])
    a.sync(b)
    b.table("t").tag("one")
    a.commit("t", [{"n": 2}])
    time.sleep(0.01)  # what is of this very millisecond is not older than nothing
    a.table("t").expire(older_than=timedelta(0))
    assert "tag one" in a.sync(b).refused["t"]
    assert numbers(b) == [1]
    assert b.read("t", at="one").num_rows == 1
    b.table("t").delete_tag("one")
    assert a.sync(b).ok
    converged(a, b, "t")


@pytest.mark.parametrize("brings", [False, True])
def test_another_expiry_that_is_faster_is_no_success(brings: bool) -> None:
    """What a replica takes over is folded there by another: with it, by another sync, all is well."""
    a, b = lake(**QUICK), lake(**QUICK)
    a.commit("t", [{"n": 1}])
    a.sync(b)
    passed = a.commit("t", [{"n": 2}])
    _expire(a)
    b.commit("t", [{"n": 3}])
    time.sleep(0.002)
    put, waiting = b.store.put_if_absent, [True]

    def meanwhile(name: str, data: Any) -> bool:
        if is_base(name) and waiting:
            waiting.clear()
            other = another(b, **QUICK)
            assert a.sync(other).ok if brings else other.table("t").expire(older_than=timedelta(0)).versions
        return put(name, data)

    b.store.put_if_absent = meanwhile  # type: ignore[method-assign]
    result = another(a, **QUICK).sync(b)
    assert not waiting
    assert result.ok == brings
    if brings:
        converged(a, b)
    else:
        assert str(passed.id) in result.refused["t"]
        assert "was faster" in result.refused["t"]
        assert (sorted(numbers(a)), sorted(numbers(b))) == ([1, 2, 3], [1, 3])


def test_a_damaged_segment_is_not_carried() -> None:
    a, b = lake(inline_bytes=0), lake()
    a.commit("t", [{"n": 1}])
    (name,) = (name for name in objects(a) if name.startswith("data/"))
    data = bytes(a.store.get(name))
    a.store.put(name, data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])
    with pytest.raises(Corrupt, match="data/"):
        a.sync(b)
    a.store.delete([name])
    with pytest.raises(Corrupt, match="missing"):
        a.sync(b)
    a.store.put(name, data)
    assert a.sync(b).ok
    converged(a, b)


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
def test_every_request_failing_once_and_then_again(fault: Any) -> None:
    """Cut off at any request nothing wrong is visible; done again, both sides have everything."""
    for number in range(1, 80):
        a = lake(inline_bytes=0)
        store = FaultyStore(open_store(f"memory://sync-{secrets.token_hex(6)}"))
        b = Catalog(store, upkeep=False)
        a.commit("t", [{"n": 1}])
        a.commit("t", [{"n": 2}])
        Catalog(store.inner, upkeep=False).commit("t", [{"n": 3}])
        store.plan = nth(number + len(store.calls), fault)
        failed = False
        try:
            a.sync(b)
        except CrdtcatError:
            failed = True
        store.plan = None
        assert set(numbers(a)) <= {1, 2, 3}
        assert set(Catalog(store.inner).read("t").column("n").to_pylist()) <= {1, 2, 3}
        assert a.sync(b).ok
        converged(a, Catalog(store.inner))
        if not failed and number > 30:
            return
    pytest.fail("too many requests")


_verbs = st.sampled_from(
    ("append", "keyed", "overwrite", "update", "delete", "property", "column", "compact", "cluster")
)
_steps = st.lists(
    st.one_of(st.tuples(st.integers(0, 2), _verbs), st.tuples(st.integers(0, 2), st.integers(0, 2))),
    max_size=12,
)


def _do(catalog: Catalog, verb: str, number: int) -> None:
    table = catalog.table("t")
    match verb:
        case "append":
            table.append([{"n": number}, {"n": number + 1}])
        case "keyed":
            table.append([{"n": number % 2}], key=str(number % 2))
        case "overwrite":
            table.overwrite([{"n": number}])
        case "update":
            table.update("n % 2 = 0", {"n": number})
        case "delete":
            table.delete("n % 3 = 0")
        case "property":
            table.set_properties(last=number)
        case "column":
            table.append([{"n": number, f"c{number % 2}": number}], evolve=True)
        case "cluster":
            table.compact(cluster_by=["n"], rows=4)
        case _:
            table.compact()


@settings(max_examples=bounded(40, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(_steps)
def test_whoever_syncs_with_whom_they_converge(steps: list[tuple[int, Any]]) -> None:
    catalogs = [lake(), lake(), lake()]
    catalogs[0].commit("t", [{"n": 0}])
    for other in catalogs[1:]:
        catalogs[0].sync(other)
    for number, (who, what) in enumerate(steps):
        if isinstance(what, int):
            if what != who:
                assert another(catalogs[who]).sync(catalogs[what]).ok
        else:
            _do(another(catalogs[who]), what, number)
    for first, second in ((0, 1), (1, 2), (0, 1)):
        assert catalogs[first].sync(catalogs[second]).ok
    converged(catalogs[0], catalogs[1])
    converged(catalogs[1], catalogs[2])


@settings(max_examples=bounded(60, 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(_steps, st.sets(st.integers(0, 11), min_size=1))
@example(
    # Both let an update go, each after a compaction of its own, which then are two copies in one base.
    [
        *((0, "update"), (0, 1), (0, 2), (1, "compact"), (2, "cluster"), (2, 1), (1, "update")),
        *((1, "compact"), (0, "compact"), (2, "compact"), (0, "overwrite"), (0, "compact"), (0, 1)),
        *((1, 0), (0, 1), (2, "compact"), (1, 2)),
    ],
    {0, 2, 3, 8, 12, 13, 16},
)
def test_beside_expiries_nothing_is_lost_and_what_is_not_refused_converges(
    steps: list[tuple[int, Any]], expiries: set[int]
) -> None:
    """A sync carries everything both ways, or says why not and leaves every row where it was."""
    catalogs = [lake(**QUICK), lake(**QUICK), lake(**QUICK)]
    catalogs[0].commit("t", [{"n": 0}])
    for other in catalogs[1:]:
        catalogs[0].sync(other)
    for number, (who, what) in enumerate(steps):
        first = another(catalogs[who], **QUICK)
        if number in expiries:
            first.table("t").expire(keep_last=1)
            first.table("t").collect()
        if not isinstance(what, int):
            _do(first, what, number)
        elif what != who:
            second = another(catalogs[what], **QUICK)
            before = [_rows(one) for one in (first, second)]
            result = first.sync(second)
            if result.ok:
                assert _value(first) == _value(second)
            else:
                assert _is_commit((first, second), result.refused["t"]), str(result)
                if not result.received:
                    assert [_rows(one) for one in (first, second)] == before, str(result)
    for catalog in catalogs:
        assert another(catalog, **QUICK).table("t").verify("content").ok


def _is_commit(catalogs: tuple[Catalog, ...], refusal: str) -> bool:
    """Whether the version that a refusal names is one of history: upkeep is never in the way."""
    named = VersionId.parse(refusal.partition("the first is ")[2].split(maxsplit=1)[0].rstrip(";"))
    logs = [another(catalog, **QUICK).table("t").head().log for catalog in catalogs]
    return any(at >= 0 and not log.is_upkeep[at] for log in logs for at in [log.index_of(named)])


def _value(catalog: Catalog) -> list[Any]:
    """All but history: one side may have expired what the other still has."""
    head = another(catalog, **QUICK).table("t").head()
    return [_rows(catalog), head.snapshot, head.schema, dict(head.properties), head.version, head.row_count]


def _rows(catalog: Catalog) -> list[Any]:
    found: list[Any] = another(catalog, **QUICK).read("t").to_pylist()
    return found


def test_a_catalog_that_was_made_is_told_and_can_be_forbidden(tmp_path: Path) -> None:
    """A mistyped place becomes a replica only where that is allowed, and not in silence."""
    office = Catalog(tmp_path / "office", upkeep=False)
    office.commit("t", [{"n": 1}])
    with pytest.raises(NotFound, match=r"there is no catalog in .*laptpo; create=True would make one"):
        office.sync(tmp_path / "laptpo", create=False)
    with pytest.raises(InvalidArgument, match="create='no': pass True or False"):
        office.sync(tmp_path / "laptpo", create="no")  # type: ignore[arg-type]
    assert not (tmp_path / "laptpo").exists()
    made = office.sync(tmp_path / "laptop")
    assert made.created == (str(tmp_path / "laptop"),)
    assert f"made a new catalog in {tmp_path / 'laptop'}" in str(made)
    again = office.sync(tmp_path / "laptop", create=False)
    assert again.created == ()
    assert "made" not in str(again)
    with pytest.raises(NotFound, match=r"there is no catalog in .*new"):
        Catalog(tmp_path / "new").sync(office, create=False)
    assert Catalog(tmp_path / "new").sync(office).created == (str(tmp_path / "new"),)
