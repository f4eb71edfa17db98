"""Edit scripts: applied to the old rows they give the new ones, and they send what changed and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crdtcat.chunks.cutting import Sizes, cut
from crdtcat.chunks.hashing import hash_table
from crdtcat.difference import EditScript, NewChunk, OldChunk, difference
from crdtcat.errors import InvalidArgument
from crdtcat.testing.strategies import arrow_tables
from tests.bounds import bounded

SIZES = Sizes(16, 64, 128)
NO_DEADLINE = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


class Loads:
    """Old rows as chunks, and which columns of which were loaded."""

    def __init__(self, table: pa.Table, sizes: Sizes = SIZES, *, hashes: bool = True) -> None:
        self.loaded: list[tuple[int, tuple[str, ...]]] = []
        self.chunks: list[OldChunk] = []
        for number, part in enumerate(parts(table, sizes)):
            hash, columns = hash_table(part)
            named = dict(zip(part.column_names, columns, strict=True))
            self.chunks.append(
                OldChunk(
                    part.num_rows,
                    self._loader(number, part),
                    hash if hashes else None,
                    partial(dict, named) if hashes else None,
                )
            )

    def _loader(self, number: int, part: pa.Table) -> Callable[[Sequence[str]], pa.Table]:
        def load(columns: Sequence[str]) -> pa.Table:
            self.loaded.append((number, tuple(columns)))
            return part

        return load


def parts(table: pa.Table, sizes: Sizes) -> list[pa.Table]:
    return [table.slice(start, end - start) for start, end in pairwise(cut(table, sizes))]


def new_chunks(table: pa.Table, sizes: Sizes = SIZES) -> list[NewChunk]:
    found = []
    for part in parts(table, sizes):
        hash, columns = hash_table(part)
        found.append(NewChunk(part.num_rows, hash, dict(zip(part.column_names, columns, strict=True))))
    return found


def compare(
    old: pa.Table,
    new: pa.Table,
    *,
    sizes: Sizes = SIZES,
    key: list[str] | None = None,
    hashes: bool = True,
    loads: Loads | None = None,
) -> EditScript:
    """The script, checked against what every script must be."""
    loads = loads or Loads(old, sizes, hashes=hashes)
    script = difference(loads.chunks, old.schema, new, new_chunks(new, sizes), key=key)
    check(script, old, new)
    return script


def check(script: EditScript, old: pa.Table, new: pa.Table) -> None:
    assert same_rows(script.apply(old, new), new)
    touched = np.concatenate((script.updated_old, script.deleted))
    assert len(np.unique(touched)) == len(touched) == old.num_rows - script.kept_rows
    assert script.inserted_rows + len(script.updated_new) + script.kept_rows == new.num_rows
    for rising in (script.updated_old, script.updated_new, script.deleted, *script.kept.T[:2]):
        assert (np.diff(rising) > 0).all()
    if len(script.updated_old):  # a row whose cells did not change is not sent
        assert np.logical_or.reduce([*script.changed.values()]).all()


def same_rows(left: pa.Table, right: pa.Table) -> bool:
    """Bit for bit, whatever the layout."""
    return left.schema.equals(right.schema) and hash_table(left)[0] == hash_table(right)[0]


def sales(rows: int, seed: int = 0) -> pa.Table:
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(rows) * 3 + seed,
            "price": chance.random(rows),
            "kind": np.array(["red", "green", "blue", "grey"])[chance.integers(0, 4, rows)],
            "count": chance.integers(0, 5, rows),
        }
    )


def with_values(table: pa.Table, name: str, rows: npt.NDArray[Any], values: Sequence[Any]) -> pa.Table:
    column = table.column(name).to_pylist()
    for row, value in zip(rows.tolist(), values, strict=True):
        column[row] = value
    return table.set_column(
        table.column_names.index(name), name, pa.array(column, table.schema.field(name).type)
    )


def without(table: pa.Table, rows: npt.NDArray[Any]) -> pa.Table:
    return table.take(np.setdiff1d(np.arange(table.num_rows), rows))


def spliced(table: pa.Table, at: int, more: pa.Table) -> pa.Table:
    return pa.concat_tables([table.slice(0, at), more, table.slice(at)]).combine_chunks()


@settings(NO_DEADLINE, max_examples=bounded(100, 4))
@given(st.data())
def test_any_rows_of_any_types(data: st.DataObject) -> None:
    schema = data.draw(arrow_tables(max_columns=3)).schema
    old, new = (data.draw(arrow_tables(schema=schema, max_rows=20)) for _ in range(2))
    mixed = data.draw(st.permutations([old.slice(0, 7), new.slice(3), old.slice(5)]))
    try:
        new = pa.concat_tables(mixed).combine_chunks()
        pa.concat_tables([old, new]).combine_chunks().take([0] if new.num_rows else [])
    except (pa.ArrowNotImplementedError, pa.ArrowIndexError, pa.ArrowInvalid):
        return  # Arrow cannot gather every type, and the model has to
    sizes = data.draw(st.sampled_from([Sizes(1, 2, 4), Sizes.fixed(3), Sizes()]))
    compare(old, new, sizes=sizes, hashes=data.draw(st.booleans()))


def edits() -> st.SearchStrategy[list[tuple[str, int, int]]]:
    kinds = st.sampled_from(["update", "insert", "delete", "move", "repeat", "swap"])
    return st.lists(st.tuples(kinds, st.integers(0, 400), st.integers(1, 40)), max_size=6)


@NO_DEADLINE
@given(edits(), st.integers(0, 3), st.booleans(), st.sampled_from([SIZES, Sizes.fixed(50), Sizes()]))
def test_any_edits(steps: list[tuple[str, int, int]], alike: int, hashes: bool, sizes: Sizes) -> None:
    """Rows that are unique, or repeat so often that hardly one is."""
    old = sales(400)
    if alike:
        old = old.set_column(0, "id", pa.array(np.arange(400) % alike)).select(["id", "kind"])
    new = old
    for kind, wanted, count in steps:
        at = min(wanted, new.num_rows)
        run = new.slice(at, count)
        if kind == "update":
            rows = np.arange(at, at + run.num_rows)
            new = with_values(new, "kind", rows, [f"new {row % 3}" for row in rows])
        elif kind == "insert":
            new = spliced(new, at, sales(count, at + 1).select(old.column_names))
        elif kind == "delete":
            new = without(new, np.arange(at, at + run.num_rows))
        elif kind == "move":
            new = spliced(
                without(new, np.arange(at, at + run.num_rows)), min(7, new.num_rows - run.num_rows), run
            )
        elif kind == "repeat":
            new = spliced(new, at, run)
        else:
            new = pa.concat_tables([new.slice(at), new.slice(0, at)])
    compare(old, new.combine_chunks(), hashes=hashes, sizes=sizes)


def test_nothing_changed_and_nothing_is_loaded() -> None:
    old = sales(5000)
    loads = Loads(old)
    script = compare(old, old, loads=loads)
    assert script.is_empty
    assert not loads.loaded
    assert repr(script) == "EditScript(5,000 rows kept, 0 updated, 0 deleted, 0 inserted)"


@pytest.mark.parametrize("sizes", [SIZES, Sizes.fixed(100)])
@pytest.mark.parametrize("hashes", [True, False])
def test_scattered_updates_send_their_cells_and_nothing_else(sizes: Sizes, hashes: bool) -> None:
    old = sales(20_000)
    rows = np.sort(np.random.default_rng(1).choice(20_000, 1000, replace=False))
    new = with_values(old, "price", rows, np.random.default_rng(2).random(1000).tolist())
    loads = Loads(old, sizes, hashes=hashes)
    script = compare(old, new, sizes=sizes, loads=loads)
    assert script.updated_old.tolist() == script.updated_new.tolist() == rows.tolist()
    assert set(script.changed) == {"price"}
    assert not len(script.deleted)
    assert not len(script.inserted)
    if hashes and sizes.is_fixed:  # boundaries stand still, so only the column that changed is read
        assert {columns for _, columns in loads.loaded} == {("price",)}


def test_clustered_updates_load_only_their_chunks() -> None:
    old = sales(20_000)
    rows = np.arange(5000, 6000)
    new = with_values(old, "count", rows, [100] * 1000)
    loads = Loads(old)
    script = compare(old, new, loads=loads)
    assert script.updated_old.tolist() == rows.tolist()
    assert set(script.changed) == {"count"}
    loaded = sum(loads.chunks[number].rows for number in {number for number, _ in loads.loaded})
    assert loaded <= 1000 + 4 * SIZES.greatest


@pytest.mark.parametrize("sizes", [SIZES, Sizes.fixed(100)])
def test_insertions_send_what_was_inserted(sizes: Sizes) -> None:
    old = sales(20_000)
    new = spliced(spliced(old, 15_000, sales(300, 1)), 4000, sales(200, 2))
    script = compare(old, new, sizes=sizes)
    assert script.inserted.tolist() == [[3999, 4000, 200], [14_999, 15_200, 300]]
    assert script.kept_rows == 20_000


@pytest.mark.parametrize("sizes", [SIZES, Sizes.fixed(100)])
def test_deletions_send_no_row(sizes: Sizes) -> None:
    old = sales(20_000)
    rows = np.sort(np.random.default_rng(1).choice(20_000, 800, replace=False))
    script = compare(old, without(old, rows), sizes=sizes)
    assert script.deleted.tolist() == rows.tolist()
    assert not len(script.updated_old)
    assert not len(script.inserted)


def test_updates_insertions_and_deletions_side_by_side() -> None:
    """Scattered, so that gaps have several rows of each kind; rows are told apart by what they share."""
    chance = np.random.default_rng(3)
    old = sales(20_000)
    rows = np.sort(chance.choice(20_000, 1500, replace=False))
    changed, gone = rows[::3], rows[1::3]
    new = with_values(old, "price", changed, chance.random(len(changed)).tolist())
    new = without(new, gone)
    for at in np.sort(chance.choice(new.num_rows, 100, replace=False))[::-1].tolist():
        new = spliced(new, at, sales(1, 100_000 + at))
    script = compare(old, new.combine_chunks())
    # Where a row was inserted just where one was deleted, it is taken for what became of it.
    replaced = {*script.updated_old.tolist()} - {*changed.tolist()}
    assert {*script.updated_old.tolist()} >= {*changed.tolist()}
    assert {*script.deleted.tolist()} | replaced == {*gone.tolist()}
    assert script.inserted_rows + len(replaced) == 100
    assert len(replaced) < 10


def test_updates_of_several_columns_beside_deletions_are_found_by_what_tells_rows_apart() -> None:
    old = sales(3000)
    rows = np.arange(100, 3000, 100)
    new = with_values(old, "price", rows, [-1.0] * len(rows))
    new = with_values(new, "kind", rows, ["black"] * len(rows))
    new = with_values(new, "count", rows, [77] * len(rows))
    script = compare(old, without(new, rows + 1))
    assert script.updated_old.tolist() == rows.tolist()
    assert script.deleted.tolist() == (rows + 1).tolist()


@pytest.mark.parametrize("at", range(8))
def test_rows_that_come_or_go_where_a_chunk_ends_change_no_other(at: int) -> None:
    """The last row of a chunk is in place of one that is now the first of the next: neither changed."""
    old, gone = sales(12), np.array([at])
    for hashes in (True, False):
        fewer = compare(old, without(old, gone), sizes=Sizes.fixed(4), hashes=hashes)
        assert (fewer.deleted.tolist(), fewer.inserted_rows, len(fewer.updated_old)) == ([at], 0, 0)
        new = spliced(old, at, sales(2, seed=1).slice(1))
        more = compare(old, new, sizes=Sizes.fixed(4), hashes=hashes)
        assert (more.inserted.tolist(), more.kept_rows) == ([[at - 1, at, 1]], 12)


def test_moved_rows_are_deleted_and_inserted_and_the_rest_stays() -> None:
    old = sales(5000)
    moved = old.slice(1000, 100)
    new = spliced(without(old, np.arange(1000, 1100)), 3000, moved)
    script = compare(old, new)
    assert script.deleted.tolist() == list(range(1000, 1100))
    assert script.inserted.tolist() == [[3099, 3000, 100]]


def test_of_two_runs_that_changed_places_the_shorter_moves() -> None:
    old = sales(5000)
    script = compare(old, pa.concat_tables([old.slice(3000), old.slice(0, 3000)]))
    assert script.kept_rows == 3000
    assert len(script.deleted) == script.inserted_rows == 2000


def test_a_shuffled_table() -> None:
    old = sales(2000)
    compare(old, old.take(np.random.default_rng(1).permutation(2000)))


def test_another_table_altogether_is_a_replacement() -> None:
    old, new = sales(2000), sales(2000, 1)
    new = new.set_column(1, "price", pa.array(np.arange(2000.0)))
    new = new.set_column(2, "kind", pa.array(["black"] * 2000)).set_column(3, "count", pa.array([9] * 2000))
    script = compare(old, new)
    assert len(script.deleted) == script.inserted_rows == 2000


def test_a_column_of_its_own_is_updated_where_it_stands() -> None:
    old = pa.table({"n": np.arange(1000)})
    rows = np.arange(10, 1000, 100)
    script = compare(old, with_values(old, "n", rows, [-1] * len(rows)))
    assert script.updated_old.tolist() == rows.tolist()


@pytest.mark.parametrize("sizes", [SIZES, Sizes()])
def test_rows_that_repeat(sizes: Sizes) -> None:
    """Hardly a row is unique: what stayed is found by what is around it."""
    chance = np.random.default_rng(1)
    old = pa.table({"kind": chance.integers(0, 4, 20_000)})
    new = without(spliced(old, 12_000, pa.table({"kind": chance.integers(0, 4, 50)})), np.arange(3000, 3020))
    script = compare(old, new, sizes=sizes)
    assert script.kept_rows >= 20_000 - 150
    assert script.inserted_rows + len(script.updated_old) <= 200


def test_empty_sides() -> None:
    old = sales(100)
    assert compare(old, old.slice(0, 0)).deleted.tolist() == list(range(100))
    assert compare(old.slice(0, 0), old).inserted.tolist() == [[-1, 0, 100]]
    assert compare(old.slice(0, 0), old.slice(0, 0)).is_empty


def test_an_added_column_changes_the_rows_that_have_a_value() -> None:
    old = sales(1000)
    values = [None if row % 10 else row for row in range(1000)]
    script = compare(old, old.append_column("extra", pa.array(values, pa.int64())))
    assert script.updated_old.tolist() == list(range(0, 1000, 10))
    assert set(script.changed) == {"extra"}
    updated = with_values(old, "count", np.array([5, 10]), [99, 99])
    script = compare(old, updated.append_column("extra", pa.array(values, pa.int64())))
    assert script.updated_old.tolist() == sorted({*range(0, 1000, 10), 5})
    assert script.updated_old[script.changed["count"]].tolist() == [5, 10]


def test_a_dropped_column_changes_no_row() -> None:
    old = sales(1000)
    assert compare(old, old.drop_columns(["price"])).is_empty
    assert compare(old, old.select(["kind", "id", "count", "price"])).is_empty


def test_a_column_of_another_type_is_sent() -> None:
    old = sales(1000)
    new = old.set_column(3, "count", old["count"].cast(pa.float64()))
    script = compare(old, new)
    assert set(script.changed) == {"count"}
    assert len(script.updated_old) == 1000


def test_by_key_whatever_else_changed() -> None:
    old = sales(5000)
    rows = np.arange(50, 5000, 50)
    new = old
    for name, value in (("price", -1.0), ("kind", "black"), ("count", 9)):
        new = with_values(new, name, rows, [value] * len(rows))
    new = spliced(without(new, np.array([200, 201])), 1000, sales(1, 1))
    script = compare(old, new, key=["id"])
    assert script.updated_old.tolist() == [row for row in rows.tolist() if row not in (200, 201)]
    assert script.deleted.tolist() == [200, 201]
    assert script.inserted_rows == 1


@NO_DEADLINE
@given(
    st.lists(st.integers(0, 60), unique=True), st.lists(st.integers(0, 60), unique=True), st.integers(0, 5)
)
def test_by_key_any_rows(before: list[int], after: list[int], values: int) -> None:
    def rows(keys: list[int], scale: int) -> pa.Table:
        return pa.table(
            {"k": pa.array(keys, pa.int64()), "v": pa.array([key * scale % 3 for key in keys], pa.int64())}
        )

    old, new = rows(before, 1), rows(after, values)
    compare(old, new, key=["k"], sizes=Sizes(2, 4, 8))
    old, new = old.sort_by("k"), new.sort_by("k")
    script = compare(old, new, key=["k"], sizes=Sizes(2, 4, 8))
    assert old["k"].take(script.deleted).to_pylist() == sorted({*before} - {*after})
    assert script.inserted_rows == len({*after} - {*before})


def test_keys_that_come_twice_are_refused() -> None:
    old = sales(100)
    with pytest.raises(InvalidArgument, match="1 of the new rows have the key"):
        compare(old, with_values(old, "id", np.array([5]), [0]), key=["id"])
    with pytest.raises(InvalidArgument, match="key column 'nobody'"):
        compare(old, old.slice(1), key=["nobody"])


def test_wrong_chunks_are_refused() -> None:
    old = sales(100)
    with pytest.raises(InvalidArgument, match="do not have the 100 rows"):
        difference(Loads(old).chunks, old.schema, old, new_chunks(old.slice(1)))
    lying = [OldChunk(50, lambda _: old)]
    with pytest.raises(InvalidArgument, match="a chunk of 50 rows was loaded with 100"):
        difference(lying, old.schema, old.slice(0, 50), new_chunks(old.slice(0, 50)))
