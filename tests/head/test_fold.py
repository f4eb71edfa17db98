"""The vectorised fold equals the plain reference model, on random histories of real version files."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings

from crdtcat.clock import ROOT, VersionId
from crdtcat.head import Head
from crdtcat.head.row_conflicts import lost_cells, takers
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.invariants import rows_of
from crdtcat.testing.strategies_log import ROW_VERBS, VERBS, History, histories
from tests.bounds import bounded
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
    assert ours.commits.counts == Counter(id.writer for id in theirs.history)
    assert ours.clock == theirs.clock
    assert {version.id for version in (*ours.history, *ours.void)} == theirs.snapshot
    assert dict(ours.properties) == theirs.properties
    assert {(item.name, type_name(item.type)) for item in ours.schema} == set(theirs.schema)
    assert rows_of(ours, STORE) == [dict(row) for row in theirs.rows]
    assert ours.row_count == theirs.row_count
    check_conflicts(ours, theirs)


def check_conflicts(ours: Head, theirs: ModelHead) -> None:
    kinds = ("property", "overwrite", "column", "misfit", "drop", "rename", "cell", "deleted")
    listed: dict[str, set[Lost]] = {kind: set() for kind in kinds}
    for item in ours.conflicts:
        listed[item.kind].add((item.subject, item.winner or ROOT, item.loser or ROOT))
    expected: dict[str, set[Lost]] = {kind: set() for kind in kinds}
    for lost in theirs.conflicts:
        if lost.kind in ("cell", "update of a row that is gone"):
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


def check_cells(ours: Head, theirs: ModelHead) -> None:
    """Cell by cell: (gone or not, column, row, winner, loser)."""
    log, rows, folded = ours.log, ours.rows, ours.folded
    listed = set()
    for found in lost_cells(log, rows.overlaid, takers(log, folded.ops, rows), ours.columns, folded.clocks):
        column = (found.column.name, found.column.birth)
        versions = log.id_at(found.winner), log.id_at(found.loser)
        for chunk, start, stop in found.rows:
            version = int(log.chunk_version[chunk])
            ordinal = chunk - int(log.chunk_start[version])
            for offset in range(start, stop):
                listed.add((found.gone, column, (log.id_at(version), (ordinal, offset)), *versions))
    standing = {version.key: version.id for version in ours.history if version.key is not None}
    expected = set()
    for lost in theirs.conflicts:
        if lost.kind in ("cell", "update of a row that is gone"):
            what: Any = lost.what
            (tag, offset), column = what
            author, ordinal = (standing.get(tag[0]), tag[2]) if isinstance(tag[0], str) else tag
            gone = lost.kind != "cell"
            expected.add((gone, column, (author, (ordinal, offset)), lost.winner, lost.loser))
    assert listed == expected


@given(histories(ROWS, most=14))
@settings(max_examples=bounded(300, 4), deadline=None)
def test_rows_keys_overwrites_and_properties(history: History) -> None:
    check(history)


@given(histories(most=12))
@settings(max_examples=bounded(300, 4), deadline=None)
def test_with_columns_defined_renamed_widened_and_dropped(history: History) -> None:
    check(history)


@given(histories((*ROWS, *ROW_VERBS, *ROW_VERBS), most=14))
@settings(max_examples=bounded(600, 4), deadline=None)
def test_rows_updated_deleted_and_inserted(history: History) -> None:
    check(history)
    check_cells(Head("t", history.state().log, history.settings), reference_head(history))


@given(histories((*VERBS, *ROW_VERBS, *ROW_VERBS), most=12))
@settings(max_examples=bounded(400, 4), deadline=None)
def test_rows_changed_while_columns_are(history: History) -> None:
    check(history)
