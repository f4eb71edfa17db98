"""The matrices of docs/contracts/conflicts.md are those that the tests play, cell by cell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from crdtcat.conflicts import Kind
from tests.cas import test_keyed, test_matrix, test_matrix_whole

PAGE = (Path(__file__).parents[2] / "docs" / "contracts" / "conflicts.md").read_text()
Cells = dict[tuple[str, str], set[str]]
"""By what mine and theirs do, the kinds of conflict."""


def tables() -> list[Cells]:
    """The page's matrices."""
    found = []
    for part in PAGE.split("| mine \\ theirs |")[1:]:
        lines = part.split("\n\n")[0].splitlines()
        columns = [name.strip() for name in lines[0].strip(" |").split("|")]
        cells: Cells = {}
        for line in lines[2:]:
            mine, *kinds = (cell.strip() for cell in line.strip(" |").split("|"))
            assert len(kinds) == len(columns), line
            for theirs, words in zip(columns, kinds, strict=True):
                cells[mine, theirs] = {kind.value for kind in Kind if re.search(rf"\b{kind.value}\b", words)}
                assert cells[mine, theirs] or words == "-", words
        found.append(cells)
    return found


def grouped(
    played: Mapping[tuple[str, str], Iterable[Kind]], mine: Mapping[str, str], theirs: Mapping[str, str]
) -> Cells:
    """What was played, by the names that the page has for verbs."""
    cells: Cells = {(here, there): set() for here in mine.values() for there in theirs.values()}
    for (here, there), kinds in played.items():
        cells[mine[here], theirs[there]] |= {kind.value for kind in kinds}
    return cells


THEIRS = {
    **{verb: verb.split()[0] for verb in test_matrix.VERBS},
    **dict.fromkeys(("add y", "add z", "rename x", "widen x"), "column"),
    **dict.fromkeys(("set p", "set q"), "property"),
    "drop x": "drop column",
}
MINE = {
    **THEIRS,
    **dict.fromkeys(("append y", "append y text"), "append that adds columns"),
    **{verb: verb for verb in test_matrix_whole.WHOLE},
}
KEYED_THEIRS = {
    **dict.fromkeys((*test_keyed.APPENDS, "write"), "upsert"),
    "delete": "delete by key",
    **{verb: verb for verb in ("update", "delete where", "overwrite")},
}
KEYED_MINE = {**KEYED_THEIRS, **dict.fromkeys(("update", "write"), "update, write")}


def without_key() -> Cells:
    played = dict(test_matrix.FOUND)
    for mine, (_, found) in test_matrix_whole.WHOLE.items():
        played |= {(mine, theirs): kinds for theirs, kinds in found.items()}
    cells = grouped(played, MINE, THEIRS)
    for theirs, (_, kinds) in test_matrix_whole.RESTORED.items():
        cells["restore", theirs] |= {kind.value for kind in kinds}
    return cells


def with_key() -> Cells:
    played = {pair: list(map(Kind, kinds)) for pair, kinds in test_keyed.MATRIX.items()}
    return grouped(played, KEYED_MINE, KEYED_THEIRS)


def test_every_verb_that_is_played_is_on_the_page() -> None:
    assert THEIRS.keys() == test_matrix.VERBS.keys()
    assert KEYED_THEIRS.keys() == test_keyed.VERBS.keys()


@pytest.mark.parametrize("which", [0, 1])
def test_the_page_says_what_is_played(which: int) -> None:
    page, played = tables()[which], (without_key, with_key)[which]()
    assert page.keys() == played.keys()
    assert {cell: (page[cell], played[cell]) for cell in page if page[cell] != played[cell]} == {}
