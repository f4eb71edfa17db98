"""The rows of the conflict matrix for verbs that do several things at once: `write` and `restore`; and what
overwrites of partitions overwrite."""

from __future__ import annotations

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.conflicts import Answer, Kind
from crdtcat.errors import CommitConflict
from tests.cas.scenes import DAYS, SCHEMA, lake, meanwhile, rows, two
from tests.cas.test_matrix import VERBS, Verb, met

K = Kind
FIRST = [row for at, day in enumerate(DAYS) for row in rows(day, *range(3 * at, 3 * at + 3))]
WRITTEN = [{**row, "x": 5 if row["n"] == 1 else 0} for row in FIRST if row["n"] != 0] + rows("we", 70)
WHOLE: dict[str, tuple[Verb, dict[str, set[Kind]]]] = {
    # Row 0 deleted, x of row 1 set, row 70 added.
    "write": (
        lambda t: t.write(pa.Table.from_pylist(WRITTEN, SCHEMA)),
        {
            "update 0": {K.DELETE_UPDATE},
            "update 0 n": {K.DELETE_UPDATE},
            "update 1": {K.UPDATE_UPDATE},
            "delete 0": {K.DELETE_DELETE},
            "delete 1": {K.UPDATE_DELETE},
            "delete mo": {K.UPDATE_DELETE, K.DELETE_DELETE},
            "overwrite mo": {K.UPDATE_OVERWRITE, K.DELETE_OVERWRITE},
            "overwrite": {K.UPDATE_OVERWRITE, K.DELETE_OVERWRITE, K.APPEND_OVERWRITE},
            "drop x": {K.WRITE_DROP},
        },
    ),
    "restore": (
        lambda t: t.restore(t.history()[0].id),
        {
            **{
                verb: {K.OVERWRITE_APPEND} for verb in ("append mo", "append fr", "append y", "append y text")
            },
            **{verb: {K.OVERWRITE_UPDATE} for verb in ("update 0", "update 0 n", "update 1")},
            **{verb: {K.OVERWRITE_DELETE} for verb in ("delete 0", "delete 1", "delete mo")},
            "drop x": {K.WRITE_DROP},
            **{verb: {K.OVERWRITE_OVERWRITE} for verb in ("overwrite mo", "overwrite tu", "overwrite")},
        },
    ),
}


@pytest.mark.parametrize("theirs", VERBS)
@pytest.mark.parametrize("mine", WHOLE)
def test_write_and_restore_meet_every_verb(mine: str, theirs: str) -> None:
    here, there = two()
    if mine == "restore":
        here.update("n = 8", {"x": 1})
        there.head()
    verb, found = WHOLE[mine]
    meanwhile(here, lambda: VERBS[theirs](there))
    failing = {kind for kind in found.get(theirs, set()) if kind.rule.default is Answer.FAIL}
    before = len(here.history())
    if not failing:
        done = verb(here)
        assert done.rebases == 1
        assert met(here, done.id) == found.get(theirs, set())
        return
    with pytest.raises(CommitConflict) as caught:
        verb(here)
    assert {conflict.kind for conflict in caught.value.conflicts} == failing
    assert met(there, caught.value.change.writes[0]) == found[theirs]
    assert len(here.history()) == before + 1


@pytest.mark.parametrize(
    ("mine", "kinds"),
    [
        ("append mo", set()),
        ("update 1", {K.UPDATE_UPDATE}),
        ("delete 1", {K.DELETE_UPDATE}),
        ("update 0", {K.UPDATE_DELETE}),
        ("delete 0", set()),
        ("overwrite", {K.OVERWRITE_APPEND, K.OVERWRITE_UPDATE}),
        ("drop x", {K.DROP_WRITE}),
    ],
)
def test_a_write_of_theirs_is_an_append_an_update_and_a_delete(mine: str, kinds: set[Kind]) -> None:
    here, there = two()
    meanwhile(here, lambda: WHOLE["write"][0](there))
    if not kinds:
        assert VERBS[mine](here).rebases == 1
        return
    with pytest.raises(CommitConflict) as caught:
        VERBS[mine](here)
    assert {conflict.kind for conflict in caught.value.conflicts} == kinds


RESTORED: dict[str, tuple[Verb, set[Kind]]] = {
    "column": (lambda t: t.rename_column("w", "v"), {K.COLUMN_COLUMN}),
    "drop column": (lambda t: t.drop_column("w"), {K.WRITE_DROP, K.COLUMN_COLUMN}),
}
"""What a restore meets that gives a column back the name it had."""


@pytest.mark.parametrize("theirs", RESTORED)
def test_a_restore_meets_columns_that_it_brings_back(theirs: str) -> None:
    here, there = two()
    here.rename_column("x", "w")
    there.head()
    verb, kinds = RESTORED[theirs]
    meanwhile(here, lambda: verb(there))
    with pytest.raises(CommitConflict) as caught:
        here.restore(here.history()[0].id)
    assert {conflict.kind for conflict in caught.value.conflicts} == kinds


def test_a_repetition_under_a_key_takes_a_number_and_counts_for_nothing() -> None:
    """So a number may be above how many versions there are: those count that stand."""
    catalog, url = lake()
    mine = catalog.create_table("t", SCHEMA, mode="cas")
    Catalog(url, upkeep=False).table("t").append(rows("mo", 1), key="k")
    assert [mine.append(rows("mo", 1), key="k").number for _ in range(2)] == [2, 3]
    head = mine.head()
    assert (head.version, head.row_count, [item.number for item in head.history]) == (1, 1, [1])
    assert mine.append(rows("mo", 2)).number == 4


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.update("n = 0", {"day": "tu"}),
        lambda t: t.append(rows("ta", 50)),
        lambda t: t.overwrite(rows("ta", 50), where="day = 'ta'"),
    ],
    ids=["moved", "new", "overwritten"],
)
def test_what_comes_to_match_an_overwrite_is_told_where_it_is_serializable(
    change: Verb, isolation: str
) -> None:
    """Partitions that were not there, and rows that an update moves in."""
    mine, theirs = two(isolation=isolation)
    meanwhile(mine, lambda: change(theirs))
    try:
        mine.overwrite(rows("tu", 30), where="day >= 't' and day < 'v'")
        told = set()
    except CommitConflict as error:
        told = {item.kind for item in error.conflicts}
    assert told == ({K.READ_WRITE} if isolation == "serializable" else set())
