"""The rules of section 4, one by one, as a reader of the design would try them on the model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtcat.clock import VectorClock, VersionId
from tests.model.authors import Author
from tests.model.conflicts import Conflict
from tests.model.head import head
from tests.model.histories import history
from tests.model.pruning import kept_entries
from tests.model.rows import LiveRow, live_rows
from tests.model.standing import view
from tests.model.versions import START, Version, column, state_of


def two_authors(*records: dict[str, object]) -> tuple[Version, Author, Author]:
    """A table with some rows that both authors know."""
    first = Author(1)
    start = first.append(*records)
    return start, first, Author(2).learn(start)


class TestRule1Alive:
    def test_a_concurrent_update_of_a_deleted_row_loses_and_is_listed(self) -> None:
        start, deleter, updater = two_authors({"a": 1})
        row = deleter.find("a", 1)
        gone, update = deleter.delete(row), updater.update((row, "a", 2), time=9)
        merged = head(state_of(start, gone, update))
        assert merged.rows == ()
        expected = Conflict("update of a row that is gone", (row, column("a")), gone.id, update.id)
        assert merged.conflicts == (expected,)

    def test_a_delete_that_saw_the_update_is_no_conflict(self) -> None:
        start, deleter, updater = two_authors({"a": 1})
        row = deleter.find("a", 1)
        update = updater.update((row, "a", 2))
        gone = deleter.learn(update).delete(row)
        assert head(state_of(start, gone, update)).conflicts == ()


class TestRule2Overwrites:
    def test_an_append_concurrent_with_an_overwrite_survives(self) -> None:
        start, over, adder = two_authors({"a": 1})
        merged = head(state_of(start, over.overwrite({"a": 2}), adder.append({"a": 3})))
        assert sorted(merged.values("a")) == [2, 3]

    def test_of_two_overwrites_the_greater_wins_and_the_other_is_listed(self) -> None:
        start, lesser, greater = two_authors({"a": 1})
        lost, won = lesser.overwrite({"a": 2}), greater.overwrite({"a": 3})
        merged = head(state_of(start, lost, won))
        assert merged.values("a") == [3]
        assert merged.conflicts == (Conflict("overwrite", None, won.id, lost.id),)

    def test_overwrites_of_other_partitions_do_not_meet(self) -> None:
        start, lesser, greater = two_authors({"a": 1})
        p = lesser.overwrite({"a": 2}, partition="p", scope=frozenset({"p"}))
        q = greater.overwrite({"a": 3}, partition="q", scope=frozenset({"q"}))
        merged = head(state_of(start, p, q))
        assert merged.values("a") == [1, 2, 3]
        assert merged.conflicts == ()


class TestRule3Cells:
    def test_updates_of_other_columns_and_rows_both_hold(self) -> None:
        start, one, two = two_authors({"a": 1, "b": 1}, {"a": 2, "b": 2})
        rows = [row.row for row in one.rows()]
        updates = one.update((rows[0], "a", 9)), two.update((rows[0], "b", 8), (rows[1], "a", 7))
        merged = head(state_of(start, *updates))
        assert merged.rows == ({"a": 9, "b": 8}, {"a": 7, "b": 2})
        assert merged.conflicts == ()

    def test_concurrent_updates_of_one_cell_list_the_loser_once_it_was_not_seen(self) -> None:
        start, one, two = two_authors({"a": 1})
        row = one.find("a", 1)
        early, later = one.update((row, "a", 2)), one.update((row, "a", 3))
        rival = two.update((row, "a", 4), time=9)
        merged = head(state_of(start, early, later, rival))
        assert merged.values("a") == [4]
        assert merged.conflicts == (Conflict("cell", (row, column("a")), rival.id, later.id),)


class TestRule5Order:
    def test_an_insertion_comes_right_after_the_row_it_names(self) -> None:
        author = Author(1)
        author.append({"a": 1}, {"a": 2})
        author.append({"a": 3})
        author.append({"a": 10}, {"a": 11}, after=author.position(author.find("a", 1)))
        author.append({"a": 20}, after=author.position(author.find("a", 1)))
        author.append({"a": 30}, after=author.position(author.find("a", 10)))
        author.append({"a": 0}, after=START)
        assert head(author.seen).values("a") == [0, 1, 20, 10, 30, 11, 2, 3]

    def test_the_place_survives_the_row_that_was_named(self) -> None:
        author = Author(1)
        author.append({"a": 1}, {"a": 2})
        first = author.find("a", 1)
        author.append({"a": 10}, after=author.position(first))
        author.delete(first)
        author.compact()
        author.append({"a": 0}, after=START)
        assert head(author.seen).values("a") == [0, 10, 2]

    def test_equal_concurrent_insertions_are_one_and_changes_to_either_hold(self) -> None:
        start, one, two = two_authors({"a": 1})
        after = one.position(one.find("a", 1))
        ours, theirs = one.append({"a": 5}, after=after), two.append({"a": 5}, after=after)
        update = one.update((one.find("a", 5), "a", 6))
        assert head(state_of(start, ours, theirs)).values("a") == [1, 5]
        assert head(state_of(start, ours, theirs, update)).values("a") == [1, 6]
        gone = two.delete(two.find("a", 5))
        assert head(state_of(start, ours, theirs, update, gone)).values("a") == [1]

    def test_inserting_the_same_again_on_purpose_is_a_second_row(self) -> None:
        author = Author(1)
        author.append({"a": 1})
        after = author.position(author.find("a", 1))
        author.append({"a": 5}, after=after)
        author.append({"a": 5}, after=after)
        assert head(author.seen).values("a") == [1, 5, 5]

    def test_clustering_gives_new_positions(self) -> None:
        author = Author(1)
        author.append({"a": 2}, {"a": 1})
        author.commit(cluster=(author.find("a", 1), author.find("a", 2)))
        author.append({"a": 0})
        assert head(author.seen).values("a") == [1, 2, 0]

    def test_an_insertion_follows_its_row_wherever_that_was_put(self) -> None:
        start, one, two = two_authors({"a": 2}, {"a": 1})
        clustered = one.commit(cluster=(one.find("a", 1), one.find("a", 2)))
        late = two.append({"a": 20}, {"a": 21}, after=two.position(two.find("a", 2)))
        assert head(state_of(start, late)).values("a") == [2, 20, 21, 1]
        assert head(state_of(start, late, clustered)).values("a") == [1, 2, 20, 21]
        one.append({"a": 10}, after=one.position(one.find("a", 1)))
        assert head(one.learn(late).seen).values("a") == [1, 10, 2, 20, 21]
        one.commit(cluster=(one.find("a", 21),))
        assert head(one.seen).values("a") == [1, 10, 2, 20, 21]

    def test_the_greatest_clustering_wins_row_by_row(self) -> None:
        start, one, two = two_authors({"a": 3}, {"a": 1}, {"a": 2})
        rows = {value: one.find("a", value) for value in (1, 2, 3)}
        early = one.commit(cluster=(rows[1], rows[2], rows[3]))
        late = two.commit(cluster=(rows[3], rows[2]), time=9)
        assert head(state_of(start, late, early)).values("a") == [1, 3, 2]


class TestRule6Keys:
    def test_the_smallest_id_of_a_key_stands_and_the_others_count_nothing(self) -> None:
        key = frozenset({"task 1"})
        late = Author(1).append({"a": 1}, keys=key, time=5, properties=(("p", 1),), counters=(("bytes", 10),))
        early = Author(2).append({"a": 2}, keys=key, time=3)
        merged = head(state_of(late, early))
        assert merged.values("a") == [2]
        assert (merged.version, merged.properties) == (1, {})
        assert merged.counters == {"commits": 1, "rows": 1}
        assert merged.snapshot == {late.id, early.id}
        assert merged.clock == VectorClock({1: 1, 2: 1})

    def test_a_change_to_one_copy_of_a_retried_chunk_holds_for_its_twin(self) -> None:
        key = frozenset({"task 1"})
        author = Author(1)
        late = author.append({"a": 1}, {"a": 2}, keys=key, time=5)
        gone = author.delete(author.find("a", 1))
        twin = Author(2).append({"a": 1}, {"a": 2}, keys=key, time=3)
        assert head(state_of(late, gone, twin)).values("a") == [2]

    def test_a_compaction_that_folded_a_version_that_turns_out_void_is_not_read(self) -> None:
        key = frozenset({"task 1"})
        author = Author(1)
        start = author.append({"a": 1})
        gone = author.delete(author.find("a", 1), keys=key, time=5)
        compacted = author.compact((start.id, 0))
        other = Author(2).append({"a": 7}, keys=key, time=3)
        assert head(state_of(start, gone, compacted)).rows == ()
        assert head(state_of(start, gone, compacted, other)).values("a") == [1, 7]


class TestRule7History:
    def test_a_late_version_sorts_into_the_past(self) -> None:
        late, early = Author(1).append({"a": 1}, time=5), Author(2).append({"a": 2}, time=3)
        assert head(state_of(late)).history == (late.id,)
        assert head(state_of(late, early)).history == (early.id, late.id)
        assert head(state_of(late, early)).values("a") == [2, 1]

    def test_a_cloned_writer_id_does_not_make_two_versions_one(self) -> None:
        version = Author(1).append({"a": 1})
        clone = Version(
            VersionId(*version.id[:3], b"\1" * 16), version.clock, version.adds, columns=version.columns
        )
        assert head(state_of(version, clone)).values("a") == [1, 1]


class TestRule9Pruning:
    @given(st.integers(0, 2**32), st.integers(0, 20_000), st.integers(0, 5_000))
    def test_a_pruned_scan_finds_what_a_full_scan_finds(self, seed: int, low: int, width: int) -> None:
        judged = view(state_of(*history(seed)))
        low = low if low % 2 else low // 100
        kept = kept_entries(judged, column("a"), low, low + width)

        def matching(rows: list[LiveRow]) -> list[LiveRow]:
            return [row for row in rows if low <= row.cells[column("a")].value <= low + width]

        assert matching(live_rows(judged, only=kept)) == matching(live_rows(judged))


def test_properties_are_registers_and_none_removes() -> None:
    start, one, two = two_authors({"a": 1})
    ours = one.commit(properties=(("owner", "ada"), ("team", "x")))
    theirs = two.commit(properties=(("owner", "bob"),), time=9)
    merged = head(state_of(start, ours, theirs))
    assert merged.properties == {"owner": "bob", "team": "x"}
    assert merged.conflicts == (Conflict("property", "owner", theirs.id, ours.id),)
    two.commit(properties=(("owner", None),))
    assert head(two.seen).properties == {}
