"""What an overwrite took stays taken where what it rests on is void, was let go, or was compacted unseen."""

from __future__ import annotations

from typing import Any

import pytest

from crdtcat.format.kinds import GONE, ROWS
from crdtcat.format.ops import Ops
from crdtcat.head import Head
from crdtcat.log import State
from crdtcat.verbs.rows import removals
from tests.keyed.histories import FOLDER, Author, Made, settings_for
from tests.keyed.test_expired import based, rows_of
from tests.model.versions import ALL

KEY = ("k",)
SETTINGS = settings_for(KEY)


def upsert(author: Author, time: int, *rows: dict[str, Any], key: str | None = None) -> Made:
    return author.commit("upsert", [(ROWS, rows)], time=time, blind=True, idempotency_key=key)


def delete(author: Author, time: int, number: int, key: str | None = None) -> Made:
    return author.commit("delete", [(GONE, [{"k": number}])], time=time, blind=True, idempotency_key=key)


def overwrite(author: Author, time: int, *rows: dict[str, Any]) -> Made:
    ops = Ops(is_overwrite=True, **removals(author.head, author.head.live))
    return author.commit("overwrite", [(ROWS, rows)], ops=ops, time=time, overwrites=ALL)


def files(*made: Made) -> list[tuple[str, bytes]]:
    return [(one.name, one.data) for one in made]


def read(*made: Made) -> list[dict[str, Any]]:
    return rows_of(State(FOLDER).joined(files(*made)), KEY)


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("deletes", [False, True])
def test_what_comes_back_because_a_retry_has_the_smaller_id_was_seen_and_stays_taken(
    compacted: bool, deletes: bool
) -> None:
    """The compaction that the overwrite had read counts for nothing then."""

    def retried(author: Author, time: int) -> Made:
        return (
            delete(author, time, 1, "once") if deletes else upsert(author, time, {"k": 1, "a": 1}, key="once")
        )

    one, two, three = (Author(number, SETTINGS) for number in (1, 2, 3))
    first = upsert(one, 5, {"k": 1, "a": 5})
    two.learn(one)
    again = retried(two, 10)
    upkeep = [two.compact_these(first, again)] if compacted else []
    over = overwrite(two, 5, {"k": 2, "a": 2})
    made = [first, again, *upkeep, over]
    rows = [{"k": 2, "a": 2, "b": None}]
    assert read(*made) == rows
    assert read(*made, retried(three, 1)) == rows


def test_a_copy_that_was_overwritten_as_a_whole_still_hides_what_had_lost_to_it() -> None:
    one, two = (Author(number, SETTINGS) for number in (1, 2))
    lost = upsert(one, 1, {"k": 1, "a": 1})
    made = [lost, upsert(two, 5, {"k": 1, "a": 5})]
    made.append(two.compact_these(made[1]))
    base = based(State(FOLDER).joined(files(*made)), KEY, made[2].version.id.hlc + 1)
    made.append(overwrite(two, 90, {"k": 2, "a": 2}))
    state = State(FOLDER).joined([base]).joined(files(*made))
    later = State(FOLDER).joined([base, based(state, KEY, made[3].version.id.hlc + 1)])
    assert read(*made) == rows_of(state, KEY) == rows_of(later, KEY) == [{"k": 2, "a": 2, "b": None}]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_cell_that_lost_stays_hidden_once_all_that_hid_it_was_let_go(compacted: bool) -> None:
    """Copies of what was overwritten are kept: the chunk itself was let go before that."""
    one, two, three = (Author(number, SETTINGS) for number in (1, 2, 3))
    lost = upsert(one, 1, {"k": 1, "a": 1})
    seen = upsert(two, 5, {"k": 1, "a": 5})
    first_copy = two.compact_these(seen)
    base = based(State(FOLDER).joined(files(lost, seen, first_copy)), KEY, first_copy.version.id.hlc + 1)
    three.learn(two)
    unseen = upsert(three, 30, {"k": 9, "a": 9})
    second_copy = three.compact_these(first_copy, unseen)
    over = overwrite(two, 90, {"k": 2, "a": 2})
    made = [lost, seen, first_copy, unseen, second_copy, over]
    if compacted:  # leaves out what the overwrite took
        three.learn(two)
        made.append(three.compact_these(second_copy))
    rows = [{"k": 2, "a": 2, "b": None}, {"k": 9, "a": 9, "b": None}]
    state = State(FOLDER).joined([base]).joined(files(*made))
    assert not state.log.is_placed[state.log.chunk_start[state.log.index_of(seen.version.id)]]
    assert read(*made) == rows_of(state, KEY) == rows
    later = State(FOLDER).joined([base, based(state, KEY, max(one.version.id.hlc for one in made) + 1)])
    assert rows_of(later, KEY) == rows
    assert Head("t", later.log, SETTINGS).row_count == (3 if compacted else 4)  # one of them is lost
