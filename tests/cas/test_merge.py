"""Branches of strict tables come back as one commit, judged by everything that they had not seen."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.conflicts import Answer
from crdtcat.errors import CommitConflict, CommitUnknown, InvalidArgument, LimitExceeded, StoreUnavailable
from crdtcat.store.memory import MemoryStore
from crdtcat.table import Table
from crdtcat.testing.faulty import FaultyStore, from_nth
from crdtcat.testing.invariants import check_claims
from tests.bounds import FULL, bounded
from tests.cas.scenes import SCHEMA, lake, meanwhile, rows, two, values
from tests.cas.test_matrix import FOUND, VERBS
from tests.cost.places import asked


def content(table: Table) -> list[Any]:
    found = table.read()
    return [found.schema, sorted(map(str, found.to_pylist())), table.head().properties]


@pytest.mark.parametrize("mine", VERBS)
def test_every_verb_of_a_branch_meets_every_verb_of_its_source_as_any_commit_does(mine: str) -> None:
    """The oracle: the same verb on the source itself, begun before theirs and committed after it."""
    for theirs, verb in VERBS.items():
        if not FULL and (mine, theirs) not in FOUND and theirs not in ("append mo", "set p"):
            continue
        here, there = two()
        VERBS[mine](here.branch("b"))
        verb(there)
        before = content(here)
        failing = {kind for kind in FOUND.get((mine, theirs), ()) if kind.rule.default is Answer.FAIL}
        if failing:
            with pytest.raises(CommitConflict) as caught:
                here.merge("b")
            assert {overlap.kind for overlap in caught.value.conflicts} == failing
            assert content(here) == before
            continue
        result = here.merge("b")
        assert (result.versions, here.history()[-1].number) == (1, 3)
        twin, other = two()
        meanwhile(twin, lambda verb=verb, other=other: verb(other))  # type: ignore[misc]
        VERBS[mine](twin)
        assert content(here) == content(twin), (mine, theirs)
        check_claims(here.head().log, "a reader")


def test_a_merge_is_one_commit_and_merging_again_changes_nothing() -> None:
    mine, _ = two()
    branch = mine.branch("b")
    branch.append(rows("mo", 10))
    branch.update("n = 10", {"x": 5})
    branch.update("n = 0", {"x": 7})
    branch.delete("n = 1")
    mine.append(rows("mo", 11))
    result = mine.merge("b")
    assert (result.versions, result.rows, result.conflicts) == (4, 1, ())
    assert [version.number for version in mine.history()] == [1, 2, 0, 0, 0, 3]
    assert values(mine)[:2] == [(0, 7), (2, 0)]
    assert values(mine)[-2:] == [(10, 5), (11, 0)]
    assert str(mine.merge("b")) == "merge: main has everything that b has"
    branch.update("n = 10", {"x": 6})  # names a row by the id that it has on the branch
    branch.append(rows("mo", 12))
    assert mine.merge("b").versions == 2
    assert values(mine)[-3:] == [(10, 6), (11, 0), (12, 0)]
    assert mine.verify("content").ok


def test_what_a_merge_asks_for() -> None:
    catalog, _ = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    branch = table.branch("b")
    branch.append(rows("mo", 1))
    table.head()
    # The start and its end; a cold read of the branch, its source's start with it; a refresh; the claim and
    # its decision; a refresh, which asks for the decision.
    assert asked(catalog, lambda: table.merge("b")) == {"get": 2 + 1 + 1 + 1, "list": 4, "put": 2}
    assert asked(catalog, lambda: table.merge("b")) == {"get": 2 + 1 + 1, "list": 3}


@pytest.mark.parametrize("keyed", [False, True])
def test_what_was_bundled_compacted_and_collected_is_merged_all_the_same(*, keyed: bool) -> None:
    catalog, url = lake(grace_seconds=0, inline_bytes=0)
    table = catalog.create_table("t", SCHEMA, mode="cas", key=["n"] if keyed else ())
    add = table.upsert if keyed else table.append
    add(rows("mo", *range(9)))
    branch = table.branch("b")
    grown = branch.upsert if keyed else branch.append
    for n in range(10, 14):
        grown(rows("tu", n))
    branch.add_column("y", pa.int64())
    grown([{"day": "we", "n": 20, "x": 1, "y": 2}])
    branch.delete("n = 3")
    branch.rename_column("x", "w")
    branch.set_properties(p=1)
    for upkeep in (branch.compact, branch.checkpoint, branch.collect):
        upkeep()
    add(rows("mo", 50))
    expected = [*sorted((row["n"], row["w"], row["y"]) for row in branch.read().to_pylist()), (50, 0, None)]
    assert table.merge("b").versions == 9
    catalog.table("t").delete_branch("b")
    table.checkpoint()
    table.collect()
    catalog.collect()
    cold = Catalog(url).table("t")
    assert sorted((row["n"], row["w"], row["y"]) for row in cold.read().to_pylist()) == expected
    assert cold.head().properties["p"] == 1
    assert cold.verify("content").ok


def test_what_an_expiry_of_the_source_leaves_is_enough_for_a_branch_to_come_back() -> None:
    catalog, _ = lake(max_commit_delay_seconds=0.01)
    table = catalog.create_table("t", SCHEMA, mode="cas")
    for n in range(4):
        table.append(rows("mo", n))
    branch = table.branch("b")
    branch.update("n = 0", {"x": 5})
    assert table.merge("b").versions == 1
    for n in range(4, 8):
        table.append(rows("mo", n))
    branch.append(rows("mo", 9))
    branch.update("n = 0", {"x": 6})
    table.expire(keep_last=1)
    assert table.merge("b").versions == 2
    assert [n for n, _ in values(table)] == [*range(8), 9]
    assert values(table)[0] == (0, 6)


def test_a_branch_of_a_table_without_commits_comes_back() -> None:
    table = lake()[0].create_table("t", SCHEMA, mode="cas")
    branch = table.branch("b")
    branch.append(rows("mo", 1, 2))
    branch.delete("n = 1")
    assert table.merge("b").versions == 2
    assert table.read().equals(branch.read())
    assert table.merge("b").versions == 0


def test_an_idempotency_key_counts_once_over_the_branches() -> None:
    mine, _ = two()
    branch = mine.branch("b")
    for table in (mine, branch):
        table.append(rows("mo", 10), key="once")
    mine.merge("b")
    assert [n for n, _ in values(mine)].count(10) == 1


def test_branches_of_branches_and_both_ways() -> None:
    mine, _ = two()
    first = mine.branch("b")
    first.append(rows("mo", 10))
    second = first.branch("c")
    second.update("n = 10", {"x": 1})
    mine.append(rows("mo", 11))
    assert mine.merge("c").versions == 2
    first.append(rows("mo", 12))
    assert mine.merge("b").versions == 1, "what it began with came with the other"
    assert first.merge("main").versions == 2
    assert second.merge("main").versions == 2
    assert first.merge("c").versions == second.merge("b").versions == 0
    assert values(mine) == values(first) == values(second)
    first.update("n = 11", {"x": 9})  # came from main, under an id of this branch
    assert mine.merge("b").versions == 1
    assert (11, 9) in values(mine)
    for table in (mine, first, second):
        assert table.verify("content").ok


@pytest.mark.parametrize("answer", ["ours", "theirs", "function"])
def test_resolvers_are_asked(answer: str) -> None:
    seen: list[Any] = []

    def resolver(sides: Any) -> str:
        seen.append([table.column("x").to_pylist() for table in (sides.base, sides.mine, sides.theirs)])
        return "ours"

    catalog, _ = lake(on_conflict={"update-update": resolver if answer == "function" else answer})
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0, 1))
    branch = table.branch("b")
    branch.update("n = 0", {"x": 5})
    table.update("n = 0", {"x": 6})
    if answer == "theirs":  # several versions: it stands as it is, or fails as a whole
        with pytest.raises(CommitConflict, match="update-update") as caught:
            table.merge("b")
        (sides,) = caught.value.sides
        assert sides.mine.to_pylist() == [{"x": 5}]
        assert values(table) == [(0, 6), (1, 0)]
        assert caught.value.retry("ours").versions == 1
        assert values(table) == [(0, 5), (1, 0)]
    else:
        table.merge("b")
        assert values(table) == [(0, 5), (1, 0)]
    assert seen == ([[[0], [5], [6]]] if answer == "function" else [])


def test_a_choice_made_on_the_branch_is_not_undone_in_silence_when_it_comes_back() -> None:
    """On the branch main's value was taken. On main the branch's would come later, and prevail: it fails."""
    catalog, url = lake()
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0))
    branch = table.branch("b")
    branch.update("n = 0", {"x": 5})
    table.update("n = 0", {"x": 6})
    Catalog(url, on_conflict={"update-update": "ours"}, upkeep=False).table("t", "b").merge("main")
    assert values(branch) == [(0, 6)]
    with pytest.raises(CommitConflict, match="update-update"):
        table.merge("b")
    assert values(table) == [(0, 6)]


def test_what_the_merging_handle_had_read_counts_where_it_is_serializable() -> None:
    catalog, url = lake(isolation="serializable")
    table = catalog.create_table("t", SCHEMA, mode="cas")
    table.append(rows("mo", 0, 1))
    table.branch("b").append(rows("mo", 2))
    table.read(filter="n = 0")
    other = Catalog(url, upkeep=False).table("t")
    other.update("n = 0", {"x": 1})
    with pytest.raises(CommitConflict, match="read-write"):
        table.merge("b")
    other.update("n = 0", {"x": 2})
    assert table.merge("b").versions == 1, "it was told, and forgot what it had read"


def test_what_does_not_fit_into_one_file_is_refused_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine, _ = two()
    branch = mine.branch("b")
    for n in range(20):
        branch.append(rows("mo", 10 + n))
    monkeypatch.setattr("crdtcat.format.version.VERSION_FILE_BYTES_MAX", 4_000)
    with pytest.raises(LimitExceeded):
        mine.merge("b")
    assert not list(mine._session.store.list("transactions/"))
    assert len(mine.history()) == 1


def test_two_who_merge_at_once_merge_once() -> None:
    mine, theirs = two()
    mine.branch("b").append(rows("mo", 10))
    store = mine._session.store
    create = store.create
    raced: list[str] = []

    def slow(name: str, data: Any) -> bool:
        if not raced:
            raced.append(name)
            assert theirs.merge("b").versions == 1
        return create(name, data)

    store.create = slow  # type: ignore[method-assign]
    assert mine.merge("b").versions == 0
    assert [n for n, _ in values(mine)].count(10) == 1
    assert [version.number for version in mine.history()] == [1, 2]
    assert not [name for name in store.list("transactions/") if b"aborted" in store.get(name.name)]


def test_commits_that_come_between_are_passed_or_told() -> None:
    mine, theirs = two()
    branch = mine.branch("b")
    branch.update("n = 0", {"x": 5})
    store, create = mine._session.store, mine._session.store.create

    def late(action: Callable[[], Any]) -> None:
        def slow(name: str, data: Any) -> bool:
            store.create = create  # type: ignore[method-assign]
            action()
            return create(name, data)

        store.create = slow  # type: ignore[method-assign]

    late(lambda: theirs.update("n = 1", {"x": 6}))
    assert mine.merge("b").versions == 1
    branch.update("n = 2", {"x": 5})
    late(lambda: theirs.update("n = 2", {"x": 6}))
    with pytest.raises(CommitConflict, match="update-update"):
        mine.merge("b")
    assert values(mine)[:3] == [(0, 5), (1, 6), (2, 6)]


@pytest.mark.parametrize("fault", ["error", "lost_answer"])
def test_dying_at_any_request_merges_all_or_nothing_and_again_counts_once(fault: Any) -> None:
    seen = set()
    for n in range(1, 60):
        inner = MemoryStore(f"memory://dying-merge-{secrets.token_hex(6)}")
        table = Catalog(inner, upkeep=False).create_table("t", SCHEMA, mode="cas")
        table.append(rows("mo", 0))
        branch = table.branch("b")
        branch.append(rows("mo", 1))
        branch.update("n = 0", {"x": 5})
        done = False
        try:
            Catalog(FaultyStore(inner, from_nth(n, fault)), upkeep=False).table("t").merge("b")
            done = True
        except (StoreUnavailable, CommitUnknown):
            pass
        found = values(Catalog(inner).table("t"))
        assert found in ([(0, 0)], [(0, 5), (1, 0)])
        assert not done or len(found) == 2
        seen.add(len(found))
        heir = Catalog(inner, upkeep=False, lease_seconds=0, base_delay=0).table("t")
        assert heir.merge("b").versions == (0 if len(found) == 2 else 2)
        assert values(Catalog(inner).table("t")) == [(0, 5), (1, 0)]
        check_claims(heir.head().log, "a reader")
        if done:
            break
    assert done
    assert seen == {1, 2}


def test_a_number_that_is_aborted_later_takes_none_of_a_branch_that_began_before() -> None:
    """Its empty version is upkeep of the source, and upkeep is read with whatever a branch begins with."""
    catalog, url = lake()
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode="cas").append(rows("mo", 0))
    branch = catalog.table("a").branch("young")
    branch.append(rows("mo", 1))
    tx = catalog.transaction(["a", "b"])
    for name in ("a", "b"):
        tx.update(name, "n = 0", {"x": 1})
    Catalog(url, upkeep=False).table("b").update("n = 0", {"x": 2})
    with pytest.raises(CommitConflict):
        tx.commit()  # number 2 of a is taken for nothing
    cold = Catalog(url, upkeep=False)
    assert [n for n, _ in values(cold.table("a", "young"))] == [0, 1]
    assert cold.table("a", "young").append(rows("mo", 2)).number == 3
    assert cold.table("a").branch("later").append(rows("mo", 3)).number == 2
    assert cold.table("a").merge("young").versions == 2


def test_branches_in_merge_mode_or_switched_are_refused() -> None:
    catalog, _ = lake(max_commit_delay_seconds=0.01)
    table = catalog.create_table("t", SCHEMA)
    table.append(rows("mo", 0))
    old = table.branch("old")
    old.append(rows("mo", 1))
    table.switch_mode("cas")
    with pytest.raises(InvalidArgument, match="merge mode"):
        table.merge("old")
    young = table.branch("young")
    young.append(rows("mo", 2))
    assert table.merge("young").versions == 1
    for mode in ("merge", "cas"):
        table.switch_mode(mode)
    with pytest.raises(InvalidArgument, match="switched"):
        young.merge("main")
    assert [n for n, _ in values(table)] == [0, 2]


class Step(NamedTuple):
    """What happens next: `verb` on one branch, of a row; or a merge of another branch into it."""

    branch: int
    verb: str
    row: int


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(0, 2),
        st.sampled_from(["append", "x", "x", "y", "delete", "merge", "merge"]),
        st.integers(0, 5),
    ),
    max_size=14,
)


class Done(NamedTuple):
    """One commit of the model: the plain, slow one, that compares every pair."""

    name: int
    verb: str
    row: int
    seen: frozenset[int]

    def meets(self, other: Done) -> bool:
        """Whether the matrix says fail: a cell set by both, or a row set by one and deleted by the other."""
        if self.row != other.row or other.name in self.seen or "append" in (self.verb, other.verb):
            return False
        return (self.verb == other.verb) != ("delete" in (self.verb, other.verb))


def state(commits: list[Done]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for commit in commits:
        if commit.verb == "append":
            found[commit.row] = [0, 0]
        elif commit.verb == "delete":
            found.pop(commit.row, None)
        elif commit.row in found:
            found[commit.row]["xy".index(commit.verb)] = commit.name
    return found


@given(STEPS)
@settings(max_examples=bounded(300, 40), deadline=None)
def test_branches_that_merge_in_any_order_are_what_the_plain_model_says(steps: list[Step]) -> None:
    """Three branches, each from the one before. A merge is refused where a version that is carried and one of
    the target that it had not seen touch the same, and else it is the target with these after it."""
    schema = pa.schema([("n", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
    catalog = Catalog(f"memory://merges-{secrets.token_hex(6)}", upkeep=False)
    tables = [catalog.create_table("t", schema, mode="cas")]
    tables[0].append([{"n": n, "x": 0, "y": 0} for n in range(4)])
    tables.append(tables[0].branch("b1"))
    tables.append(tables[1].branch("b2"))
    model: list[list[Done]] = [[Done(-n, "append", n, frozenset()) for n in range(4)] for _ in tables]
    for name, (at, verb, row) in enumerate(steps, 1):
        table, mine = tables[at], model[at]
        if verb == "merge":
            source = (at + 1 + row % 2) % 3
            known = {commit.name for commit in mine}
            carried = [commit for commit in model[source] if commit.name not in known]
            if any(one.meets(other) for one in carried for other in mine):
                with pytest.raises(CommitConflict):
                    table.merge("main" if source == 0 else f"b{source}")
            else:
                table.merge("main" if source == 0 else f"b{source}")
                mine += carried
        else:
            there = state(mine)
            seen = frozenset(commit.name for commit in mine)
            if verb == "append":
                table.append([{"n": 100 + name, "x": 0, "y": 0}])
                mine.append(Done(name, "append", 100 + name, seen))
            elif there:
                chosen = sorted(there)[row % len(there)]
                if verb == "delete":
                    table.delete(f"n = {chosen}")
                else:
                    table.update(f"n = {chosen}", {verb: name})
                mine.append(Done(name, verb, chosen, seen))
        found = {row["n"]: [row["x"], row["y"]] for row in table.read().to_pylist()}
        assert found == state(mine)
    for table in tables:
        check_claims(table.head().log, "a reader")
        assert table.verify().ok
