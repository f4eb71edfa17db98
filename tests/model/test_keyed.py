"""Keyed tables in the model: registers per (key, column), deletes by key, blind upserts."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.model.authors import Author
from tests.model.compaction import compact
from tests.model.head import Head, head
from tests.model.rows import entries
from tests.model.standing import view
from tests.model.versions import ALL, Settings, State, Version, state_of

KEYED = Settings(key=("k",))


def read(*versions: Version) -> Head:
    return head(state_of(*versions), KEYED)


def test_upserts_meet_cell_by_cell_and_rows_are_ordered_by_key() -> None:
    one = Author(1).append({"k": 2, "a": 1, "b": 1}, blind=True)
    two = Author(2).append({"k": 2, "a": 5}, {"k": 1, "a": 6}, blind=True, time=9)
    assert read(one, two).rows == ({"k": 1, "a": 6, "b": None}, {"k": 2, "a": 5, "b": 1})


def test_blind_replacements_are_counted_and_seen_ones_are_not() -> None:
    one = Author(1).append({"k": 1, "a": 1}, blind=True)
    two = Author(2).append({"k": 1, "a": 2}, blind=True, time=9)
    assert (read(one, two).blind_replacements, read(one, two).conflicts) == (1, ())
    knowing = Author(2).learn(one).append({"k": 1, "a": 2})
    assert read(one, knowing).blind_replacements == 0


def test_a_delete_takes_what_is_below_it_and_a_later_upsert_brings_the_key_back() -> None:
    author = Author(1)
    first = author.append({"k": 1, "a": 1, "b": 1})
    gone = author.commit(key_deletes=frozenset({(1,)}))
    again = author.append({"k": 1, "b": 2})
    assert read(first, gone).rows == ()
    assert read(first, gone, again).rows == ({"k": 1, "a": None, "b": 2},)


def test_an_update_concurrent_with_a_delete_is_settled_by_stamp() -> None:
    start = Author(1).append({"k": 1, "a": 1})
    gone = Author(2).learn(start).commit(key_deletes=frozenset({(1,)}), time=5)
    below = Author(3).learn(start).append({"k": 1, "a": 2}, time=3)
    above = Author(3).learn(start).append({"k": 1, "a": 2}, time=7)
    assert read(start, gone, below).rows == ()
    assert [conflict.loser for conflict in read(start, gone, below).conflicts] == [below.id]
    assert read(start, gone, above).rows == ({"k": 1, "a": 2},)


def test_an_overwrite_deletes_before_it_adds_and_the_greater_of_two_wins() -> None:
    start = Author(1).append({"k": 1, "a": 1, "b": 1})
    lesser = Author(2).learn(start).append({"k": 1, "a": 2}, {"k": 2, "a": 2}, overwrite=ALL)
    assert read(start, lesser).rows == ({"k": 1, "a": 2, "b": None}, {"k": 2, "a": 2, "b": None})
    greater = Author(3).learn(start).append({"k": 3, "a": 3}, overwrite=ALL, time=9)
    assert [row["k"] for row in read(start, lesser, greater).rows] == [3]


def test_an_upsert_that_an_overwrite_had_not_seen_survives_it_on_either_side() -> None:
    start = Author(1).append({"k": 1, "a": 1, "b": 1})
    over = Author(2).learn(start).append({"k": 2, "a": 2, "b": 2}, overwrite=ALL, time=5)
    for time in (3, 7):
        unseen = Author(3).learn(start).append({"k": 1, "a": 3}, time=time)
        assert read(start, over, unseen).rows == ({"k": 1, "a": 3, "b": None}, {"k": 2, "a": 2, "b": 2})
        assert read(start, over, unseen).conflicts == ()


def keyed_history(seed: int) -> list[Version]:
    """Upserts, deletes, overwrites and compactions by three authors who meet now and then."""
    choose = random.Random(seed)
    people = [Author(number) for number in (1, 2, 3)]
    made = []
    for step in range(12):
        author = choose.choice(people)
        if choose.random() < 0.5:
            author.learn(choose.choice(people).seen)
        key = choose.randrange(3)
        record = {"k": key, choose.choice("ab"): step}
        verb = choose.choice(["upsert", "upsert", "delete", "overwrite", "compact", "compact"])
        if verb == "upsert":
            made.append(author.append(record, time=choose.randrange(20), blind=choose.random() < 0.5))
        elif verb == "delete":
            made.append(author.commit(key_deletes=frozenset({(key,)})))
        elif verb == "overwrite":
            made.append(author.append(record, overwrite=ALL))
        elif live := list(entries(view(author.seen))):
            tags = choose.sample(live, choose.randint(1, len(live)))
            made.append(compact(author.seen, author.next_id(), tags))
            author.learn(made[-1])
    return made


@given(st.integers(0, 2**32))
def test_compaction_of_a_keyed_table_is_invisible(seed: int) -> None:
    made = keyed_history(seed)
    plain = [version for version in made if version.compaction is None]
    assert read(*made) == read(*plain)


def test_an_empty_keyed_table_is_empty() -> None:
    assert head(State(), KEYED).rows == ()
