"""Renamings that send values elsewhere are listed, exactly by the plain rules (P6)."""

from __future__ import annotations

from hypothesis import given, settings

from crdtcat.clock import ROOT, VersionId
from crdtcat.format.ops import SELF, ColumnId, Definition
from crdtcat.format.schema_code import StoredField
from crdtcat.head import Head
from crdtcat.testing.strategies_log import History, Made, Step, histories, play
from tests.bounds import bounded

VERBS = ("append", "append", "append by name", "evolve", "define", "rename", "rename", "rename", "drop")
FEW = ("append", "append", "define", "rename", "rename")  # names meet often
Listed = set[tuple[str, str, VersionId | None, VersionId | None]]


def instance(column: ColumnId, author: VersionId) -> ColumnId:
    return ColumnId(column.name, author if column.birth is SELF else column.birth)


def shown_fields(head: Head, made: Made) -> list[tuple[str, ColumnId, StoredField]]:
    """(name it is shown under, column, field) of every field of a version that is shown at all."""
    found = []
    for field in made.chunks[0].fields if made.chunks else ():
        column = instance(field.column, made.id)
        hidden = head.columns.hidden.get(column)
        if hidden is not None and hidden[head.log.index_of(made.id)]:
            continue
        name = next(item.name for item in head.columns.all if column in item.instances)
        found.append((name, column, field))
    return found


def renamer(history: History, head: Head, column: ColumnId, name: str) -> VersionId | None:
    """Who gave a column its name: from the definition that counts back while the name stays."""
    defined: dict[tuple[VersionId, int], Definition] = {
        (made.id, place): item
        for made in history.versions
        if made.id in {version.id for version in head.history}
        for place, item in enumerate(made.ops.definitions)
        if instance(item.column, made.id) == column
    }
    defined |= {  # those that the table was made with
        (ROOT, place): Definition(ColumnId(item.name), item.name, item.type, item.nullable, float(place))
        for place, item in enumerate(history.settings.columns or ())
        if ColumnId(item.name) == column
    }
    live = next(item.definitions for item in head.columns.all if column in item.instances)
    at = max(((id.version, id.index) for id in live if (id.version, id.index) in defined), default=None)
    while at is not None:
        old = sorted((id.version, id.index) for id in defined[at].replaces)
        same = [id for id in old if id in defined and defined[id].name == name]
        if not same:
            return at[0] if at[0] != ROOT and (defined[at].replaces or name != column.name) else None
        at = same[0]
    return None


def expected(history: History, head: Head) -> Listed:
    found: Listed = set()
    names = {item.name for item in head.columns.all}
    for made in history.versions:
        if made.id not in {version.id for version in head.history}:
            continue
        fields = shown_fields(head, made)
        for name, column, field in fields:
            by = renamer(history, head, column, name)
            same = [item for item in fields if item[0] == name]
            kept = max(same, key=lambda item: (item[1].birth, item[1].name))
            if kept[2] is not field:
                moved = {
                    renamer(history, head, item[1], name)
                    for item in (kept, (name, column, field))
                    if item[2].name != name
                }
                found.add(("rename", name, max((id for id in moved if id), default=None), made.id))
                continue
            may_mean_another = field.name != name and field.name in names
            if by and may_mean_another and made.id > by and not made.clock.saw(by.writer, by.seq):
                found.add(("rename", name, by, made.id))
    return found


@given(histories(VERBS, most=14) | histories(FEW, most=10))
@settings(max_examples=bounded(300, 5), deadline=None)
def test_every_value_that_a_renaming_sent_elsewhere_is_listed(history: History) -> None:
    head = Head("t", history.state().log, history.settings)
    listed = {
        (item.kind, item.subject, item.winner, item.loser) for item in head.conflicts if item.kind == "rename"
    }
    assert listed == expected(history, head)


def test_a_name_that_somebody_kept_while_another_renamed_is_nobodys_renaming() -> None:
    """Who wrote under the name that lost is told that it lost; its values are where it meant them."""
    history = play(
        [
            Step(0, None, "append"),
            Step(0, None, "append", more=1),  # a and b
            Step(0, None, "rename"),  # a stays a
            Step(2, None, "append"),
            Step(2, None, "rename", more=1),  # a is b: loses
            Step(2, None, "append by name"),
        ],
        declared=True,
    )
    head = Head("t", history.state().log, history.settings)
    assert {item.kind for item in head.conflicts} == {"column"}
    assert expected(history, head) == set()


def test_two_fields_of_one_version_under_one_name() -> None:
    history = play(
        [
            Step(0, None, "append"),  # a
            Step(0, None, "rename", more=1),  # a is b
            Step(1, None, "append", more=1, ahead=9),  # a and b, knowing nothing
        ]
    )
    head = Head("t", history.state().log, history.settings)
    _, rename, append = (made.id for made in history.versions)
    (conflict,) = (item for item in head.conflicts if item.kind == "rename")
    assert (conflict.subject, conflict.winner, conflict.loser) == ("b", rename, append)
    assert all(part in str(conflict) for part in ("'a'", "'b'", str(rename), str(append)))
    assert head.columns.all[0].instances == {ColumnId("a", ROOT), ColumnId("b", ROOT)}
