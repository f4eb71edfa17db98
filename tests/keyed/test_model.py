"""Scans of keyed tables agree with the reference model, whatever happened."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.chunks.read import FooterCache
from crdtcat.head import Head
from crdtcat.scan import merge_read
from crdtcat.scan.execute import Execution
from crdtcat.scan.key_conflicts import LostCell, lost_cells
from crdtcat.store import open_store
from tests.bounds import bounded
from tests.keyed.histories import (
    Made,
    causally_closed,
    head_of,
    history,
    model_settings,
    scan_of,
    settings_for,
)
from tests.model import head as model_head
from tests.model.versions import state_of

KEYS = (("k",), ("p", "k"))
SEEDS = st.integers(0, 2**32)
Row = dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def _small_steps() -> Any:
    """Merges as many rows at a time as a history has chunks, so that steps and limits matter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_read, "STEP_ROWS", 3)
        patch.setattr(merge_read, "LEAST_STEP", 1)
        yield


def expected(made: Sequence[Made], key: tuple[str, ...]) -> list[Row]:
    state = state_of(*(one.version for one in made if not one.is_upkeep))
    return list(model_head.head(state, model_settings(settings_for(key))).rows)


def read(made: Sequence[Made], key: tuple[str, ...], **how: Any) -> list[Row]:
    rows: list[Row] = scan_of(head_of(made, settings_for(key)), **how).to_table().to_pylist()
    return rows


@pytest.mark.parametrize("key", KEYS)
@settings(deadline=None, max_examples=bounded(20, 2))
@given(seed=SEEDS)
def test_a_scan_is_what_the_model_says(seed: int, key: tuple[str, ...]) -> None:
    made = history(seed, key)
    assert read(made, key) == expected(made, key)
    assert scan_of(head_of(made, settings_for(key))).count() == len(expected(made, key))


@settings(deadline=None, max_examples=20)
@given(seed=SEEDS)
def test_order_and_repetition_of_files_do_not_matter_and_old_snapshots_are_read(seed: int) -> None:
    made = history(seed)
    choose = random.Random(seed)
    some = choose.sample(made, choose.randint(0, len(made)))
    closed = causally_closed(made, some)
    jumbled = choose.sample(closed * 2, 2 * len(closed))
    assert read(jumbled, ("k",)) == expected(closed, ("k",))


FILTERS: dict[str, Callable[[Row], bool | None]] = {
    "k < 3": lambda row: row["k"] < 3,
    "k in (2, 5)": lambda row: row["k"] in (2, 5),
    "a >= 60": lambda row: row["a"] is not None and row["a"] >= 60,
    "a < 40 and k > 3": lambda row: row["a"] is not None and row["a"] < 40 and row["k"] > 3,
    "a is null": lambda row: row["a"] is None,
    "not (a > 50) or k = 1": lambda row: (row["a"] is not None and row["a"] <= 50) or row["k"] == 1,
    "b is not null and a < 90": lambda row: row["b"] is not None and row["a"] is not None and row["a"] < 90,
}


@pytest.mark.parametrize("key", KEYS)
@settings(deadline=None, max_examples=bounded(20, 2))
@given(seed=SEEDS, filter=st.sampled_from(sorted(FILTERS)))
def test_pruning_never_changes_what_a_filter_keeps(seed: int, filter: str, key: tuple[str, ...]) -> None:
    made = history(seed, key)
    rows = expected(made, key)
    if "b" in filter and not any("b" in row for row in rows):  # dropped
        return
    matching = [row for row in rows if FILTERS[filter](row)]
    assert read(made, key, filter=filter) == matching
    shown = read(made, key, columns=["a"], filter=filter)
    assert shown == [{"a": row["a"]} for row in matching]
    assert scan_of(head_of(made, settings_for(key)), filter=filter).count() == len(matching)


@pytest.mark.parametrize("key", KEYS)
@settings(deadline=None, max_examples=20)
@given(seed=SEEDS)
def test_cells_that_lost_unseen_are_those_the_model_lists_and_counts(seed: int, key: tuple[str, ...]) -> None:
    made = history(seed, key)
    state = state_of(*(one.version for one in made if not one.is_upkeep))
    told = model_head.head(state, model_settings(settings_for(key)))
    listed = {(c.what[0], c.what[1][0], c.winner, c.loser) for c in told.conflicts if c.kind == "cell"}  # type: ignore[index]
    found = list(lost_in(head_of(made, settings_for(key))))
    assert {(c.key, c.column, c.winner, c.loser) for c in found if not c.blind} == listed
    assert sum(c.blind for c in found) == told.blind_replacements


def lost_in(head: Head) -> Iterator[LostCell]:
    assert head.keyed is not None
    execution = Execution(scan_of(head).plan, open_store("memory://none"), FooterCache(), verify=True)
    return lost_cells(head, head.keyed, lambda chunk: execution.stored(chunk, head.settings.key))
