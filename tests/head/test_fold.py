"""The vectorised fold equals the plain reference model, on random histories of real version files."""

from __future__ import annotations

from hypothesis import given, settings

from crdtcat.clock import ROOT, VersionId
from crdtcat.head import Head
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.invariants import rows_of
from crdtcat.testing.strategies_log import ROW_VERBS, VERBS, History, histories
from tests.head.reference import reference_head, type_name
from tests.model.head import Head as ModelHead

Lost = tuple[str, VersionId, VersionId]
STORE = MemoryStore("memory://fold")
ROWS = ("append", "append by name", "overwrite", "overwrite", "overwrite partition", "remove", "properties")


def check(history: History) -> None:
    ours = Head("t", history.state().log, history.settings)
    theirs = reference_head(history)
    assert [version.id for version in ours.history] == list(theirs.history)
    assert ours.version == theirs.version
    assert ours.clock == theirs.clock
    assert {version.id for version in (*ours.history, *ours.void)} == theirs.snapshot
    assert dict(ours.properties) == theirs.properties
    assert {(item.name, type_name(item.type)) for item in ours.schema} == set(theirs.schema)
    assert rows_of(ours, STORE) == [dict(row) for row in theirs.rows]
    assert ours.row_count == theirs.row_count
    check_conflicts(ours, theirs)


def check_conflicts(ours: Head, theirs: ModelHead) -> None:
    kinds = ("property", "overwrite", "column", "misfit", "drop", "rename")  # renames: test_renames.py
    listed: dict[str, set[Lost]] = {kind: set() for kind in kinds}
    for item in ours.conflicts:
        listed[item.kind].add((item.subject, item.winner or ROOT, item.loser or ROOT))
    expected: dict[str, set[Lost]] = {kind: set() for kind in kinds}
    for lost in theirs.conflicts:
        if lost.kind in ("cell", "update of a row that is gone"):  # tests/head/test_row_conflicts.py
            continue
        expected[lost.kind].add(("" if lost.what is None else str(lost.what), lost.winner, lost.loser))
    for kind in ("property", "column"):
        assert listed[kind] == expected[kind], kind
    # The model names no winner of a misfit; the head names the definition that counts.
    misfits = {(what, loser) for what, _, loser in listed["misfit"]}
    assert misfits == {(what, loser) for what, _, loser in expected["misfit"]}
    # Every loser is listed once, against the greatest that beat it.
    greatest: dict[VersionId, VersionId] = {}
    for _, winner, loser in expected["overwrite"]:
        greatest[loser] = max(winner, greatest.get(loser, winner))
    assert {loser: winner for _, winner, loser in listed["overwrite"]} == greatest
    assert len(listed["overwrite"]) == len(greatest)


@given(histories(ROWS, most=14))
@settings(max_examples=150, deadline=None)
def test_rows_keys_overwrites_and_properties(history: History) -> None:
    check(history)


@given(histories(most=12))
@settings(max_examples=150, deadline=None)
def test_with_columns_defined_renamed_widened_and_dropped(history: History) -> None:
    check(history)


@given(histories((*ROWS, *ROW_VERBS, *ROW_VERBS), most=14))
@settings(max_examples=300, deadline=None)
def test_rows_updated_deleted_and_inserted(history: History) -> None:
    check(history)


@given(histories((*VERBS, *ROW_VERBS, *ROW_VERBS), most=12))
@settings(max_examples=200, deadline=None)
def test_rows_changed_while_columns_are(history: History) -> None:
    check(history)
