"""Every cell of the conflict matrix on real tables: what is found, what happens by default, by choice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from crdtcat.clock import VersionId
from crdtcat.conflicts import Answer, Kind, WriteSet, overlaps, write_set
from crdtcat.conflicts.kinds import RULES
from crdtcat.errors import CommitConflict, InvalidArgument
from crdtcat.table import Table
from tests.cas.scenes import meanwhile, rows, two, values

Verb = Callable[[Table], Any]
VERBS: dict[str, Verb] = {
    "append mo": lambda t: t.append(rows("mo", 10)),
    "append fr": lambda t: t.append(rows("fr", 11)),
    "append y": lambda t: t.append([{**rows("fr", 12)[0], "y": 1}], evolve=True),
    "append y text": lambda t: t.append([{**rows("fr", 13)[0], "y": "1"}], evolve=True),
    "update 0": lambda t: t.update("n = 0", {"x": t.name.count("t") + 6}),
    "update 0 n": lambda t: t.update("n = 0", {"n": 100}),
    "update 1": lambda t: t.update("n = 1", {"x": 8}),
    "delete 0": lambda t: t.delete("n = 0"),
    "delete 1": lambda t: t.delete("n = 1"),
    "delete mo": lambda t: t.delete("day = 'mo'"),
    "overwrite mo": lambda t: t.overwrite(rows("mo", 20), where="day = 'mo'"),
    "overwrite tu": lambda t: t.overwrite(rows("tu", 30), where="day = 'tu'"),
    "overwrite": lambda t: t.overwrite(rows("mo", 40)),
    "add y": lambda t: t.add_column("y", pa.int64()),
    "add z": lambda t: t.add_column("z", pa.string()),
    "rename x": lambda t: t.rename_column("x", "w"),
    "widen x": lambda t: t.widen_column("x", pa.int64()),
    "drop x": lambda t: t.drop_column("x"),
    "set p": lambda t: t.set_properties(p=1),
    "set q": lambda t: t.set_properties(q=1),
}
K = Kind
FOUND: dict[tuple[str, str], set[Kind]] = {
    ("append mo", "overwrite mo"): {K.APPEND_OVERWRITE},
    ("append mo", "overwrite"): {K.APPEND_OVERWRITE},
    ("append mo", "drop x"): {K.WRITE_DROP},
    ("append fr", "overwrite"): {K.APPEND_OVERWRITE},
    ("append fr", "drop x"): {K.WRITE_DROP},
    ("append y", "overwrite"): {K.APPEND_OVERWRITE},
    ("append y", "drop x"): {K.WRITE_DROP},
    ("append y", "append y text"): {K.COLUMN_COLUMN},
    ("append y text", "overwrite"): {K.APPEND_OVERWRITE},
    ("append y text", "drop x"): {K.WRITE_DROP},
    ("append y text", "append y"): {K.COLUMN_COLUMN},
    ("append y text", "add y"): {K.COLUMN_COLUMN},
    ("add y", "append y text"): {K.COLUMN_COLUMN},
    ("overwrite", "append y"): {K.OVERWRITE_APPEND},
    ("overwrite", "append y text"): {K.OVERWRITE_APPEND},
    ("drop x", "append y"): {K.DROP_WRITE},
    ("drop x", "append y text"): {K.DROP_WRITE},
    ("update 0", "update 0"): {K.UPDATE_UPDATE},
    ("update 0", "delete 0"): {K.UPDATE_DELETE},
    ("update 0", "delete mo"): {K.UPDATE_DELETE},
    ("update 0", "overwrite mo"): {K.UPDATE_OVERWRITE},
    ("update 0", "overwrite"): {K.UPDATE_OVERWRITE},
    ("update 0", "drop x"): {K.WRITE_DROP},
    ("update 0 n", "update 0 n"): {K.UPDATE_UPDATE},
    ("update 0 n", "delete 0"): {K.UPDATE_DELETE},
    ("update 0 n", "delete mo"): {K.UPDATE_DELETE},
    ("update 0 n", "overwrite mo"): {K.UPDATE_OVERWRITE},
    ("update 0 n", "overwrite"): {K.UPDATE_OVERWRITE},
    ("update 1", "update 1"): {K.UPDATE_UPDATE},
    ("update 1", "delete 1"): {K.UPDATE_DELETE},
    ("update 1", "delete mo"): {K.UPDATE_DELETE},
    ("update 1", "overwrite mo"): {K.UPDATE_OVERWRITE},
    ("update 1", "overwrite"): {K.UPDATE_OVERWRITE},
    ("update 1", "drop x"): {K.WRITE_DROP},
    ("delete 0", "update 0"): {K.DELETE_UPDATE},
    ("delete 0", "update 0 n"): {K.DELETE_UPDATE},
    ("delete 0", "delete 0"): {K.DELETE_DELETE},
    ("delete 0", "delete mo"): {K.DELETE_DELETE},
    ("delete 0", "overwrite mo"): {K.DELETE_OVERWRITE},
    ("delete 0", "overwrite"): {K.DELETE_OVERWRITE},
    ("delete 1", "update 1"): {K.DELETE_UPDATE},
    ("delete 1", "delete 1"): {K.DELETE_DELETE},
    ("delete 1", "delete mo"): {K.DELETE_DELETE},
    ("delete 1", "overwrite mo"): {K.DELETE_OVERWRITE},
    ("delete 1", "overwrite"): {K.DELETE_OVERWRITE},
    ("delete mo", "update 0"): {K.DELETE_UPDATE},
    ("delete mo", "update 0 n"): {K.DELETE_UPDATE},
    ("delete mo", "update 1"): {K.DELETE_UPDATE},
    ("delete mo", "delete 0"): {K.DELETE_DELETE},
    ("delete mo", "delete 1"): {K.DELETE_DELETE},
    ("delete mo", "delete mo"): {K.DELETE_DELETE},
    ("delete mo", "overwrite mo"): {K.DELETE_OVERWRITE},
    ("delete mo", "overwrite"): {K.DELETE_OVERWRITE},
    ("overwrite mo", "append mo"): {K.OVERWRITE_APPEND},
    ("overwrite mo", "update 0"): {K.OVERWRITE_UPDATE},
    ("overwrite mo", "update 0 n"): {K.OVERWRITE_UPDATE},
    ("overwrite mo", "update 1"): {K.OVERWRITE_UPDATE},
    ("overwrite mo", "delete 0"): {K.OVERWRITE_DELETE},
    ("overwrite mo", "delete 1"): {K.OVERWRITE_DELETE},
    ("overwrite mo", "delete mo"): {K.OVERWRITE_DELETE},
    ("overwrite mo", "overwrite mo"): {K.OVERWRITE_OVERWRITE},
    ("overwrite mo", "overwrite"): {K.OVERWRITE_OVERWRITE},
    ("overwrite mo", "drop x"): {K.WRITE_DROP},
    ("overwrite tu", "overwrite tu"): {K.OVERWRITE_OVERWRITE},
    ("overwrite tu", "overwrite"): {K.OVERWRITE_OVERWRITE},
    ("overwrite tu", "drop x"): {K.WRITE_DROP},
    ("overwrite", "append mo"): {K.OVERWRITE_APPEND},
    ("overwrite", "append fr"): {K.OVERWRITE_APPEND},
    ("overwrite", "update 0"): {K.OVERWRITE_UPDATE},
    ("overwrite", "update 0 n"): {K.OVERWRITE_UPDATE},
    ("overwrite", "update 1"): {K.OVERWRITE_UPDATE},
    ("overwrite", "delete 0"): {K.OVERWRITE_DELETE},
    ("overwrite", "delete 1"): {K.OVERWRITE_DELETE},
    ("overwrite", "delete mo"): {K.OVERWRITE_DELETE},
    ("overwrite", "overwrite mo"): {K.OVERWRITE_OVERWRITE},
    ("overwrite", "overwrite tu"): {K.OVERWRITE_OVERWRITE},
    ("overwrite", "overwrite"): {K.OVERWRITE_OVERWRITE},
    ("overwrite", "drop x"): {K.WRITE_DROP},
    ("rename x", "rename x"): {K.COLUMN_COLUMN},
    ("rename x", "widen x"): {K.COLUMN_COLUMN},
    ("rename x", "drop x"): {K.COLUMN_COLUMN},
    ("widen x", "rename x"): {K.COLUMN_COLUMN},
    ("widen x", "widen x"): {K.COLUMN_COLUMN},
    ("widen x", "drop x"): {K.COLUMN_COLUMN},
    ("drop x", "append mo"): {K.DROP_WRITE},
    ("drop x", "append fr"): {K.DROP_WRITE},
    ("drop x", "update 0"): {K.DROP_WRITE},
    ("drop x", "update 1"): {K.DROP_WRITE},
    ("drop x", "overwrite mo"): {K.DROP_WRITE},
    ("drop x", "overwrite tu"): {K.DROP_WRITE},
    ("drop x", "overwrite"): {K.DROP_WRITE},
    ("drop x", "rename x"): {K.COLUMN_COLUMN},
    ("drop x", "widen x"): {K.COLUMN_COLUMN},
    ("drop x", "drop x"): {K.COLUMN_COLUMN},
    ("set p", "set p"): {K.PROPERTY_PROPERTY},
    ("set q", "set q"): {K.PROPERTY_PROPERTY},
}


def met(table: Table, mine: VersionId | WriteSet) -> set[Kind]:
    """What a commit, or a change that was not committed, and the commit before it both touched."""
    log, key = table.head().log, tuple(table.key)
    at = len(log)
    if isinstance(mine, VersionId):
        at = log.index_of(mine)
        mine = write_set(log, at, key)
    return {item.kind for item in overlaps(mine, write_set(log, at - 1, key))}


@pytest.mark.parametrize("theirs", VERBS)
@pytest.mark.parametrize("mine", VERBS)
def test_every_pair_of_verbs(mine: str, theirs: str) -> None:
    """What is not in the matrix commits beside each other; what is, fails or stands as its rule says."""
    here, there = two()
    meanwhile(here, lambda: VERBS[theirs](there))
    expected = FOUND.get((mine, theirs), set())
    failing = {kind for kind in expected if kind.rule.default is Answer.FAIL}
    if not failing:
        done = VERBS[mine](here)
        assert (done.rebases, done.number) == (1, 3)
        assert here.head().version == 3
        assert met(here, done.id) == expected, "also what both stand for is found"
        return
    with pytest.raises(CommitConflict) as caught:
        VERBS[mine](here)
    assert {conflict.kind for conflict in caught.value.conflicts} == failing
    assert met(there, caught.value.change.writes[0]) == expected
    assert {conflict.theirs for conflict in caught.value.conflicts} == {there.history()[-1].id}
    assert here.head().version == 2, "nothing was committed"
    if not failing & {K.COLUMN_COLUMN, K.WRITE_DROP}:
        assert VERBS[mine](here).number == 3, "with the newest head it goes through"


def test_the_matrix_names_every_kind() -> None:
    of_keys = {K.UPSERT_UPSERT, K.UPSERT_DELETE, K.DELETE_UPSERT}  # see test_keyed
    assert {kind for kinds in FOUND.values() for kind in kinds} == set(Kind) - {K.READ_WRITE} - of_keys


def test_the_page_lists_every_kind_with_its_rule() -> None:
    page = (Path(__file__).parents[2] / "docs" / "contracts" / "conflicts.md").read_text()
    for kind, rule in RULES.items():
        others = sorted(item.value for item in rule.allowed - {rule.default, Answer.FAIL})
        row = f"| `{kind.value}` | {rule.meaning} | {rule.default.value} | {', '.join(others)}"
        assert f"{row.rstrip()} |" in page


class Chosen(NamedTuple):
    mine: str
    theirs: str
    answer: str
    result: Any


N = dict.fromkeys(range(9), 0)


def table(**changes: int | None) -> list[tuple[int, int]]:
    left = {**N, **{int(name[1:]): x for name, x in changes.items()}}
    return sorted((n, x) for n, x in left.items() if x is not None)


MO = {"n0": None, "n1": None, "n2": None}
CHOSEN = [
    Chosen("update 0", "delete 0", "theirs", table(n0=None)),
    Chosen("delete 0", "update 0", "ours", table(n0=None)),
    Chosen("delete 0", "update 0", "theirs", table(n0=7)),
    Chosen("delete mo", "update 0", "ours", table(**MO)),
    Chosen("delete mo", "update 0", "theirs", table(**MO | {"n0": 7})),
    Chosen("update 0", "overwrite mo", "theirs", table(**MO, n20=0)),
    Chosen("overwrite mo", "update 0", "ours", table(**MO, n20=0)),
    Chosen("overwrite mo", "append mo", "ours", table(**MO, n20=0)),
    Chosen("overwrite mo", "append mo", "theirs", table(**MO, n20=0, n10=0)),
    Chosen("overwrite", "append fr", "ours", [(40, 0)]),
    Chosen("overwrite", "append fr", "theirs", [(11, 0), (40, 0)]),
    Chosen("overwrite mo", "overwrite mo", "ours", table(**MO, n20=0)),
    Chosen("overwrite", "overwrite tu", "ours", [(40, 0)]),
]


@pytest.mark.parametrize("chosen", CHOSEN, ids=lambda item: f"{item.mine}, {item.theirs}: {item.answer}")
def test_answers_about_rows(chosen: Chosen) -> None:
    here, there = two(on_conflict=chosen.answer)
    meanwhile(here, lambda: VERBS[chosen.theirs](there))
    assert VERBS[chosen.mine](here).rebases == 1
    assert values(here) == chosen.result
    assert values(there) == chosen.result


def test_the_later_of_two_updates_wins_when_asked_to() -> None:
    here, there = two(on_conflict="ours")
    meanwhile(here, lambda: there.update("n < 2", {"x": 1}))
    here.update("n = 1", {"x": 2})
    assert values(here) == table(n0=1, n1=2)
    assert not here.conflicts(), "mine knew of theirs"


@pytest.mark.parametrize(("answer", "value"), [("ours", "mine"), ("theirs", "theirs")])
def test_answers_about_properties(answer: str, value: str) -> None:
    here, there = two(on_conflict=answer)
    meanwhile(here, lambda: there.set_properties(p="theirs", other=1))
    here.set_properties(p="mine", own=1)
    assert here.properties == {"p": value, "other": 1, "own": 1}
    assert not here.conflicts()


@pytest.mark.parametrize(
    ("answer", "names"), [("ours", ["day", "n", "mine"]), ("theirs", ["day", "n", "theirs"])]
)
def test_answers_about_columns(answer: str, names: list[str]) -> None:
    here, there = two(on_conflict=answer)
    meanwhile(here, lambda: there.rename_column("x", "theirs"))
    here.rename_column("x", "mine")
    assert here.schema.names == names
    assert not here.conflicts()


@pytest.mark.parametrize(("answer", "names"), [("ours", ["day", "n"]), ("theirs", ["day", "n", "x"])])
def test_answers_about_a_dropped_column(answer: str, names: list[str]) -> None:
    here, there = two(on_conflict=answer)
    meanwhile(here, lambda: there.append(rows("mo", 10)))
    here.drop_column("x")
    assert here.schema.names == names
    assert here.read().num_rows == 10


@pytest.mark.parametrize(
    ("mine", "names", "result"),
    [
        ("append mo", ["day", "n", "x"], {**dict.fromkeys(range(9)), 10: 0}),
        ("update 0", ["day", "x", "n"], {**dict.fromkeys(range(9)), 0: 7}),
        ("overwrite mo", ["day", "n", "x"], {**dict.fromkeys(range(3, 9)), 20: 0}),
        ("overwrite", ["day", "n", "x"], {40: 0}),
    ],
)
def test_a_column_that_theirs_dropped_comes_back_with_what_mine_wrote(
    mine: str, names: list[str], result: dict[int, int | None]
) -> None:
    """Nothing of what the drop had seen comes back. It has no definition any more, so it stands where mine
    had it among the columns that it wrote: an update of x alone has it first."""
    here, there = two(on_conflict="ours")
    meanwhile(here, lambda: there.drop_column("x"))
    assert VERBS[mine](here).rebases == 1
    for each in (here, there):
        assert each.schema.names == names
        assert {row["n"]: row["x"] for row in each.read().to_pylist()} == result
    assert not here.conflicts(), "mine knew of theirs"
    there.update("n >= 0", {"x": 5})
    assert {row["x"] for row in here.read().to_pylist()} == {5}, "a column as any other"


def test_a_map_answers_kind_by_kind_and_the_rest_by_default() -> None:
    here, there = two(on_conflict={"delete-update": "ours"})
    meanwhile(here, lambda: there.update("n = 0", {"x": 1}))
    here.delete("n = 0")
    meanwhile(here, lambda: there.update("n = 1", {"x": 1}))
    with pytest.raises(CommitConflict):
        here.update("n = 1", {"x": 2})
    assert values(here) == table(n0=None, n1=1)


@pytest.mark.parametrize(
    "policy", ["mine", {"update-update": "both"}, {"no such kind": "ours"}, {"update-delete": "ours"}]
)
def test_a_policy_that_no_kind_allows_is_refused_at_once(policy: Any) -> None:
    with pytest.raises(InvalidArgument, match="on_conflict"):
        two(on_conflict=policy)


def test_every_kind_has_a_rule_that_allows_its_default_and_failing() -> None:
    assert set(RULES) == set(Kind)
    for rule in RULES.values():
        assert {rule.default, Answer.FAIL} <= rule.allowed
