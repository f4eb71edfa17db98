"""Branches: they share everything, see their own, end for good."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import AlreadyExists, Corrupt, InvalidArgument, InvalidName, NotFound
from crdtcat.format.refs import branches_folder
from crdtcat.table import Table
from tests.catalog.lakes import another, lake, objects, refused


def numbers(table: Table, **options: Any) -> list[int]:
    found: list[int] = table.read(["n"], **options).column("n").to_pylist()
    return found


def started(*values: int) -> tuple[Catalog, Table]:
    catalog = lake()
    for value in values:
        catalog.commit("t", [{"n": value}])
    return catalog, catalog.table("t")


def test_a_branch_begins_with_its_source_and_goes_its_own_way() -> None:
    catalog, main = started(1, 2)
    branch = main.branch("b")
    branch.append([{"n": 3}])
    main.append([{"n": 4}])
    assert numbers(branch) == [1, 2, 3]
    assert numbers(main) == [1, 2, 4]
    other = another(catalog)
    assert numbers(other.table("t", branch="b")) == [1, 2, 3]
    other.commit("t", [{"n": 5}], branch="b")
    assert other.read("t", branch="b").column("n").to_pylist() == [1, 2, 3, 5]
    assert numbers(branch) == [1, 2, 3, 5]
    assert numbers(main) == [1, 2, 4]


def test_a_branch_adds_one_small_file_and_copies_nothing() -> None:
    catalog = lake()
    for value in range(200):  # many commits by few writers
        catalog.commit("t", [{"n": value}])
    before = objects(catalog)
    catalog.table("t").branch("b")
    added = {name: size for name, size in objects(catalog).items() if name not in before}
    assert list(added) == ["tables/t/refs/branches/b.json"]
    assert added["tables/t/refs/branches/b.json"] < 1000


@pytest.mark.parametrize(("writers", "bytes_max"), [(1, 300), (40, 1000), (400, 1000)])
def test_the_size_of_a_branch_does_not_follow_the_writers_of_its_source(writers: int, bytes_max: int) -> None:
    catalog = lake()
    catalog.create_table("t")
    for value in range(writers):
        another(catalog).commit("t", [{"n": value}])
    catalog.table("t").branch("b")
    (start,) = catalog.store.list(branches_folder("t", 1))
    assert start.size < bytes_max


def test_writers_below_the_horizon_add_nothing_to_a_branch() -> None:
    """A thousand writers, all folded but a few: the start names the horizon, and the same set of versions."""
    quick: dict[str, Any] = {"max_commit_delay_seconds": 0, "grace_seconds": 0}
    catalog = lake(**quick)
    main = catalog.create_table("t")
    for value in range(1000):
        main._session.writer = main._session.upkeep_writer()  # as another handle would have
        main.append([{"n": value}])
    main.expire(keep_last=10)
    main.collect()
    branch = main.branch("b")
    before = main.branch("old", at=main.history()[4])
    held = before.head().row_count
    assert 990 <= held < 1000
    sizes = [item.size for item in catalog.store.list(branches_folder("t", 1))]
    assert max(sizes) < 1000
    main.append([{"n": -1}])
    branch.append([{"n": 1000}])
    for _ in range(2):
        fresh = another(catalog, **quick)
        assert sorted(numbers(fresh.table("t", "b"))) == [*range(1001)]
        assert fresh.table("t", "old").head().row_count == held
        assert fresh.table("t", "b").verify("content").ok
        main.expire(older_than=timedelta(0))  # held back by both branches
        main.collect()
    assert before.branches()["old"].snapshot == before.head().snapshot
    assert main.read(at=before.branches()["old"].snapshot).num_rows == held
    assert branch.branch("c").head().row_count == 1001
    assert main.merge("b").versions == 2  # its commit, and whom it had seen, written down for "c"
    assert sorted(numbers(another(catalog).table("t"))) == [*range(-1, 1001)]


def test_branch_at_an_older_snapshot() -> None:
    catalog, main = started(1, 2)
    then = main.head().snapshot
    main.append([{"n": 3}])
    for name, at in (("token", then), ("version", main.history()[0]), ("now", None)):
        main.branch(name, at)
    fresh = another(catalog)
    assert numbers(fresh.table("t", "token")) == [1, 2]
    assert numbers(fresh.table("t", "version")) == [1]
    assert numbers(fresh.table("t", "now")) == [1, 2, 3]
    with refused(catalog, NotFound, "no version as old"):
        main.branch("ancient", datetime(1999, 1, 1, tzinfo=UTC))


def test_branch_of_an_empty_table() -> None:
    catalog = lake()
    branch = catalog.create_table("t").branch("b")
    assert branch.read().num_rows == 0
    branch.append([{"n": 1}])
    assert catalog.read("t").num_rows == 0
    assert another(catalog).read("t", branch="b").num_rows == 1


def test_a_late_version_of_the_source_is_not_in_the_start() -> None:
    """The start is a set of versions, not a moment: what sorts into the past stays outside."""
    catalog, main = started(1)
    slow = another(catalog).table("t")
    slow._session.writer._clock = type(slow._session.clock)(lambda: 1_000_000)  # far behind
    main.branch("b")
    slow.append([{"n": 0}])
    fresh = another(catalog)
    assert numbers(fresh.table("t")) == [0, 1]
    assert numbers(fresh.table("t", "b")) == [1]


def test_branches_of_branches() -> None:
    catalog, main = started(1)
    one = main.branch("one")
    one.append([{"n": 2}])
    two = one.branch("two")
    two.append([{"n": 3}])
    one.append([{"n": 4}])
    three = two.branch("three", at=two.history()[1].id)
    three.append([{"n": 5}])
    fresh = another(catalog)
    assert numbers(fresh.table("t", "one")) == [1, 2, 4]
    assert numbers(fresh.table("t", "two")) == [1, 2, 3]
    assert numbers(fresh.table("t", "three")) == [1, 2, 5]
    assert {name: item.source for name, item in fresh.table("t").branches().items()} == {
        "one": "main",
        "three": "two",
        "two": "one",
    }


def test_upkeep_of_a_branch_holds_only_its_own_versions() -> None:
    catalog, main = started(*range(20))
    branch = main.branch("b")
    for value in range(20, 25):
        branch.append([{"n": value}])
    result = branch.checkpoint()
    assert (result.versions, result.newly_covered) == (5, 5)
    quick = another(catalog, grace_seconds=0).table("t", "b")
    assert quick.collect().versions == 5
    assert branch.checkpoint().versions == 0
    assert numbers(another(catalog).table("t", "b")) == list(range(25))
    main.checkpoint()
    another(catalog, grace_seconds=0).table("t").collect()
    assert numbers(another(catalog).table("t", "b")) == list(range(25))


def test_everything_a_table_does_a_branch_does() -> None:
    catalog, main = started(1, 2)
    branch = main.branch("b")
    branch.add_column("more", pa.int64())
    branch.append([{"n": 3, "more": 30}])
    branch.set_properties(owner="me")
    branch.tag("of-the-branch")
    branch.overwrite([{"n": 9, "more": 90}])
    assert main.schema.names == ["n"]
    assert main.properties == {}
    fresh = another(catalog).table("t", "b")
    assert fresh.read().to_pylist() == [{"n": 9, "more": 90}]
    assert numbers(fresh, at="of-the-branch") == [1, 2, 3]
    fresh.restore("of-the-branch")
    assert numbers(fresh) == [1, 2, 3]
    assert numbers(main) == [1, 2]


def test_a_pickled_handle_reads_the_branch() -> None:
    _, main = started(1)
    branch = main.branch("b")
    branch.append([{"n": 2}])
    copy = pickle.loads(pickle.dumps(branch))
    assert numbers(copy) == [1, 2]
    assert copy.branch_name == "b"
    copy.append([{"n": 3}])
    assert numbers(branch) == [1, 2, 3]


def test_names() -> None:
    catalog, main = started(1)
    main.branch("b")
    with refused(catalog, AlreadyExists, "'b'"):
        main.branch("b")
    with refused(catalog, AlreadyExists, "main"):
        main.branch("main")
    with refused(catalog, InvalidName):
        main.branch("a/b")
    with refused(catalog, InvalidName):
        main.branch("b~2")
    with refused(catalog, NotFound, "'c'"):
        catalog.table("t", "c")
    with refused(catalog, NotFound, "no branch"):
        catalog.commit("t", [{"n": 1}], branch="b~1")
    with refused(catalog, NotFound):
        catalog.commit("u", [{"n": 1}], branch="b")
    with refused(catalog, NotFound):
        main.delete_branch("c")
    with refused(catalog, InvalidArgument, "drop_table"):
        main.delete_branch("main")
    assert repr(catalog.table("t", "b")).startswith("Table('t', branch 'b' in")
    assert str(main.branches()["b"]) == "b: from main at 1 versions"


def test_a_deleted_branch_stays_deleted() -> None:
    catalog, main = started(1)
    branch = main.branch("b")
    branch.append([{"n": 2}])
    other = another(catalog).table("t", "b")
    assert numbers(other) == [1, 2]
    main.delete_branch("b")
    assert main.branches() == {}
    for handle in (branch, other):
        with pytest.raises(NotFound, match="deleted"):
            handle.read()
        with pytest.raises(NotFound, match="deleted"):
            handle.append([{"n": 3}])
    with pytest.raises(NotFound):
        another(catalog).table("t", "b")


def test_a_straggler_does_not_reach_the_next_branch_of_that_name() -> None:
    catalog, main = started(1)
    main.branch("b").append([{"n": 2}])
    straggler = another(catalog).table("t", "b")  # knows nothing of what follows
    main.delete_branch("b")
    again = main.branch("b")
    straggler.append([{"n": 3}])
    again.append([{"n": 4}])
    assert numbers(again) == [1, 4]
    assert numbers(another(catalog).table("t", "b")) == [1, 4]
    with pytest.raises(NotFound):
        straggler.read()
    assert numbers(main) == [1]


def test_a_log_that_others_start_from_outlives_its_branch() -> None:
    catalog, main = started(1)
    one = main.branch("one")
    one.append([{"n": 2}])
    one.branch("two").append([{"n": 3}])
    main.delete_branch("one")
    assert numbers(another(catalog).table("t", "two")) == [1, 2, 3]
    again = main.branch("one")
    assert numbers(again) == [1]
    main.delete_branch("two")
    left = {name for name in objects(catalog) if name.startswith(("tables/t/one/", "tables/t/two/"))}
    assert sorted(left) == ["tables/t/one/dropped", "tables/t/two/dropped"]
    assert numbers(another(catalog).table("t", "one")) == [1]


def test_a_dropped_table_takes_its_branches_along() -> None:
    catalog, main = started(1)
    branch = main.branch("b")
    branch.append([{"n": 2}])
    branch.read()
    catalog.drop_table("t")
    with pytest.raises(NotFound):
        branch.read()
    with pytest.raises(NotFound):
        catalog.table("t", "b")
    catalog.commit("t", [{"n": 5}])
    assert catalog.table("t").branches() == {}
    with pytest.raises(NotFound):
        catalog.table("t", "b")
    again = catalog.table("t").branch("b")
    assert branch.dropped
    again.append([{"n": 6}])
    assert numbers(another(catalog).table("t", "b")) == [5, 6]
    assert again._session.folder == "tables/t/b~2/"


def test_a_damaged_start_is_reported_by_name() -> None:
    catalog, main = started(1)
    main.branch("b")
    (start,) = catalog.store.list(branches_folder("t", 1))
    data = bytes(catalog.store.get(start.name))
    catalog.store.put(start.name, data.replace(b"main", b"mine"))
    with pytest.raises(Corrupt, match=r"refs/branches/b\.json"):
        another(catalog).table("t", "b")


def test_a_log_is_kept_for_branches_that_need_it_through_deleted_ones() -> None:
    """`kept` starts from `middle`, and that from `root`: the end of another one of `root` takes neither."""
    catalog, main = started(1)
    root = main.branch("root")
    root.append([{"n": 2}])
    root.branch("side").append([{"n": 3}])
    middle = root.branch("middle")
    middle.append([{"n": 4}])
    kept = middle.branch("kept")
    kept.append([{"n": 5}])
    for name in ("root", "middle", "side"):
        main.delete_branch(name)
    assert numbers(another(catalog).table("t", branch="kept")) == [1, 2, 4, 5]
    assert another(catalog).table("t", branch="kept").verify().ok
    main.delete_branch("kept")  # and with the last that needs them they go
    assert not [name for name in objects(catalog) if "/main/" not in name and name.endswith((".v", ".b"))]
