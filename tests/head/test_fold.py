"""The vectorised fold equals the plain reference model, on random histories of real version files."""

from __future__ import annotations

from hypothesis import given, settings
from tests.head.reference import reference_head, type_name

from crdtcat.clock import ROOT
from crdtcat.head import Head
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.invariants import rows_of
from crdtcat.testing.strategies_log import History, histories

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


def check_conflicts(ours: Head, theirs: object) -> None:
    listed = {kind: set() for kind in ("property", "overwrite", "column", "misfit", "drop")}
    for item in ours.conflicts:
        listed[item.kind].add((item.subject, item.winner or ROOT, item.loser or ROOT))
    expected = {kind: set() for kind in listed}
    for item in theirs.conflicts:
        expected[item.kind].add((item.what or "", item.winner, item.loser))
    for kind in ("property", "column"):
        assert listed[kind] == expected[kind], kind
    strip = lambda found: {(what, loser) for what, _, loser in found}
    assert strip(listed["misfit"]) == strip(expected["misfit"])
    # Every loser is listed once, against the greatest that beat it.
    greatest = {}
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
