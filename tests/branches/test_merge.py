"""Merging branches: the same versions, the same head, whoever merges what into what, and how often."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat.errors import InvalidArgument, NotFound
from crdtcat.table import Table
from crdtcat.testing.invariants import head_value
from tests.bounds import bounded
from tests.branches.test_branches import numbers, started
from tests.catalog.lakes import another, lake, objects


def test_merge_brings_everything_over_with_one_put_that_shows_it() -> None:
    catalog, main = started(1, 2)
    branch = main.branch("b")
    versions = [branch.append([{"n": value}]) for value in (3, 4)]
    main.append([{"n": 5}])
    before = objects(catalog)
    result = main.merge("b")
    added = sorted(name.split("/")[0] for name in objects(catalog).keys() - before.keys())
    assert added == ["data", "tables"]  # rows that were inlined, and one bundle
    assert (result.versions, result.rows, result.conflicts) == (2, 2, ())
    assert str(result).startswith("merge: 2 versions that added 2 rows came from b to main in one file")
    assert numbers(main) == numbers(another(catalog).table("t")) == [1, 2, 3, 4, 5]
    assert {item.id for item in main.history()} >= {item.id for item in versions}
    assert numbers(branch) == [1, 2, 3, 4]


def test_merging_again_changes_nothing() -> None:
    catalog, main = started(1)
    main.branch("b").append([{"n": 2}])
    main.merge("b")
    before = objects(catalog)
    assert str(main.merge("b")) == "merge: main has everything that b has"
    assert objects(catalog) == before
    another(catalog).table("t", "b").append([{"n": 3}])
    assert main.merge("b").versions == 1
    assert numbers(main) == [1, 2, 3]


def test_merge_of_the_source_into_its_branch() -> None:
    _, main = started(1)
    branch = main.branch("b")
    main.append([{"n": 2}])
    branch.append([{"n": 3}])
    assert branch.merge("main").versions == 1
    assert numbers(branch) == [1, 2, 3]
    assert main.merge("b").versions == 1
    assert head_value(main.head()) == head_value(branch.head())


def test_merge_brings_what_the_branch_began_with() -> None:
    _, main = started(1)
    one = main.branch("one")
    one.append([{"n": 2}])
    one.branch("two").append([{"n": 3}])
    assert main.merge("two").versions == 2
    assert numbers(main) == [1, 2, 3]


def test_conflicts_are_listed_with_the_merge() -> None:
    _, main = started(1)
    branch = main.branch("b")
    theirs = branch.overwrite([{"n": 2}])
    ours = main.overwrite([{"n": 3}])
    branch.set_properties(owner="b")
    main.set_properties(owner="main")
    result = main.merge("b")
    assert [item.kind for item in result.conflicts] == ["overwrite", "property"]
    assert (result.conflicts[0].winner, result.conflicts[0].loser) == (ours.id, theirs.id)
    assert "2 conflicts" in str(result)
    assert "property 'owner'" in str(result)
    assert numbers(main) == [3]
    main.overwrite([{"n": 4}])  # has seen both
    assert main.merge("b").conflicts == ()


def test_snapshots_stay_what_they_were() -> None:
    catalog, main = started(1)
    branch = main.branch("b")
    branch.append([{"n": 2}])
    main.append([{"n": 3}])
    token = str(main.head().snapshot)
    main.tag("before")
    main.merge("b")
    after = str(main.head().snapshot)
    for table in (main, another(catalog).table("t")):
        assert numbers(table, at=token) == numbers(table, at="before") == [1, 3]
        assert numbers(table, at=after) == [1, 2, 3]


def test_what_was_merged_outlives_its_branch_and_all_upkeep() -> None:
    catalog, main = started(1)
    branch = main.branch("b")
    for value in range(2, 8):
        branch.append([{"n": value}])
    main.merge("b")
    main.delete_branch("b")
    main.checkpoint()
    another(catalog, grace_seconds=0).table("t").collect()
    main.append([{"n": 8}])
    main.checkpoint()
    another(catalog, grace_seconds=0).table("t").collect()
    assert numbers(another(catalog).table("t")) == list(range(1, 9))


def test_an_idempotency_key_counts_once_over_branches() -> None:
    _, main = started(1)
    branch = main.branch("b")
    branch.append([{"n": 2}], key="job")
    main.append([{"n": 2}], key="job")
    assert main.merge("b").versions == 1
    assert numbers(main) == [1, 2]


def test_merge_of_what_is_not_there() -> None:
    _, main = started(1)
    with pytest.raises(NotFound, match="no branch 'b'"):
        main.merge("b")
    branch = main.branch("b")
    main.delete_branch("b")
    with pytest.raises(NotFound, match="deleted"):
        branch.merge("main")


_verbs = st.sampled_from(("append", "keyed", "overwrite", "property", "column", "checkpoint", "collect"))
_steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("main", "b", "c")), _verbs),
        st.tuples(st.sampled_from(("main", "b", "c")), st.sampled_from(("main", "b", "c"))),
    ),
    max_size=14,
)


def _do(table: Table, verb: str, number: int) -> Any:
    match verb:
        case "append":
            return table.append([{"n": number}])
        case "keyed":
            return table.append([{"n": number % 2}], key=str(number % 2))
        case "overwrite":
            return table.overwrite([{"n": number}])
        case "property":
            return table.set_properties(last=number)
        case "column":
            return table.append([{"n": number, f"c{number % 2}": number}], evolve=True)
        case "checkpoint":
            return table.checkpoint()
        case _:
            return table.collect()


@settings(max_examples=bounded(60, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(_steps)
def test_merged_both_ways_everybody_has_the_same_head(steps: list[tuple[str, str]]) -> None:
    """Three branches, any verbs and merges between them; then everything into everything. What each branch
    holds in between is exactly its own versions and those merged into it."""
    catalog = lake(grace_seconds=0)
    catalog.commit("t", [{"n": -1}])
    main = catalog.table("t")
    main.branch("b").branch("c")
    expected = {name: {item.id for item in main.history()} for name in ("main", "b", "c")}
    for number, (name, verb) in enumerate(steps):
        table = another(catalog, grace_seconds=0).table("t", name)
        if verb in expected:
            table.merge(verb)
            expected[name] |= expected[verb]
        else:
            done = _do(table, verb, number)
            expected[name] |= {done.id} if hasattr(done, "id") else set()
        head = another(catalog).table("t", name).head()
        assert {head.log.id_at(at) for at in range(len(head.log))} == expected[name]
    handles = {name: another(catalog).table("t", name) for name in expected}
    for into, source in (("main", "b"), ("main", "c"), ("b", "main"), ("c", "b")):
        handles[into].merge(source)
    heads = [head_value(another(catalog).table("t", name).head()) for name in expected]
    assert heads[0] == heads[1] == heads[2]
    reads = [another(catalog).read("t", branch=name) for name in expected]
    assert reads[0].equals(reads[1])
    assert reads[1].equals(reads[2])


def test_a_compaction_of_the_source_that_the_target_cannot_place_stays_behind() -> None:
    """A branch starts with what its source had, and with the source's upkeep, which may have seen more."""
    catalog = lake(inline_bytes=0, chunk_rows=4)
    catalog.commit("t", [{"n": 0}])
    main = catalog.table("t")
    one = main.branch("one")
    one.append([{"n": 1}])
    two = one.branch("two")
    one.append([{"n": 2}])
    assert one.compact().versions
    assert catalog.table("t", "two").read(["n"])["n"].to_pylist() == [0, 1]
    two.append([{"n": 3}])
    main.merge("two")
    assert another(catalog).table("t").read(["n"])["n"].to_pylist() == [0, 1, 3]
    assert another(catalog).table("t").verify("content").ok
    main.merge("one")
    assert another(catalog).table("t").read(["n"])["n"].to_pylist() == [0, 1, 2, 3]


def test_a_handle_instead_of_a_name_is_told_which_name_to_pass() -> None:
    catalog, main = started(1)
    branch = main.branch("b")
    before = objects(catalog)
    for call in (main.merge, main.delete_branch, lambda given: catalog.table("t", given)):
        with pytest.raises(InvalidArgument, match=r"Table\('t', branch 'b' .* pass 'b', its name"):
            call(branch)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="pass 'b', its name"):
        main.merge(main.branches()["b"])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="pass 'main', its name"):
        branch.merge(main)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="3 is no name of a branch: pass a text"):
        main.merge(3)  # type: ignore[arg-type]
    assert objects(catalog) == before
