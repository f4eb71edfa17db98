"""Columns in the model: concurrent definitions, drops that end what they saw, misfits."""

from __future__ import annotations

from crdtcat.clock import ROOT
from tests.model.authors import Author
from tests.model.conflicts import Conflict
from tests.model.head import head
from tests.model.versions import Chunk, Definition, Settings, Version, column, rows_of, state_of

DECLARED = Settings(columns=(("a", "int32"),))
ROOT_A = frozenset({(ROOT, 0)})


def widen_to(type_: str, name: str = "a") -> Definition:
    return Definition(column("a"), name, type_, ROOT_A)


def typed(author: Author, name: str, type_: str, value: object, **more: object) -> Version:
    """An append that writes one column under a type of its choosing."""
    chunk = Chunk(rows_of([{name: value}]))
    return author.commit(adds=(chunk,), columns=((column(name), type_),), **more)  # type: ignore[arg-type]


def test_concurrent_definitions_are_joined_where_a_lossless_type_exists() -> None:
    one = Author(1).commit(defines=(widen_to("int64"),))
    two = Author(2).commit(defines=(widen_to("int32"),), time=9)
    merged = head(state_of(one, two), DECLARED)
    assert (merged.schema, merged.conflicts) == ((("a", "int64"),), ())


def test_a_definition_that_does_not_fit_the_greatest_is_listed() -> None:
    one = Author(1).commit(defines=(widen_to("string"),))
    two = Author(2).commit(defines=(widen_to("int64"),), time=9)
    merged = head(state_of(one, two), DECLARED)
    assert merged.schema == (("a", "int64"),)
    assert merged.conflicts == (Conflict("column", "a", two.id, one.id),)


def test_a_definition_that_saw_the_others_settles_the_matter() -> None:
    author = Author(1)
    one = author.commit(defines=(widen_to("string"),))
    two = Author(2).commit(defines=(widen_to("int64"),), time=9)
    both = frozenset({(one.id, 0), (two.id, 0)})
    author.learn(two).commit(defines=(Definition(column("a"), "a", "int64", both),))
    assert head(author.seen, DECLARED).conflicts == ()


def test_concurrent_additions_of_one_name_are_one_visible_column() -> None:
    one, two = Author(1), Author(2)
    added = []
    for author, value in ((one, 1), (two, 2)):
        made = author.next_id()
        instance = ("x", made)
        author.seq -= 1
        author.last -= 1
        version = author.commit(
            defines=(Definition(instance, "x", "int64"),),
            adds=(Chunk((((instance, value),),)),),
            columns=((instance, "int64"),),
        )
        assert version.id == made
        added.append(version)
    merged = head(state_of(*added))
    assert merged.schema == (("x", "int64"),)
    assert merged.values("x") == [1, 2]


def test_data_never_redefines_a_defined_column_and_misfits_read_as_null() -> None:
    fits = typed(Author(1), "a", "int32", 1)
    misfit = typed(Author(2), "a", "string", "one", time=9)
    merged = head(state_of(fits, misfit), DECLARED)
    assert merged.schema == (("a", "int32"),)
    assert merged.values("a") == [1, None]
    assert merged.conflicts == (Conflict("misfit", "a", ROOT, misfit.id),)


def test_without_a_definition_the_first_user_decides_and_later_ones_widen() -> None:
    first = typed(Author(1), "x", "int32", 1)
    second = typed(Author(2), "x", "string", "s", time=5)
    third = typed(Author(3), "x", "int64", 2**40, time=9)
    merged = head(state_of(third, second, first))
    assert merged.schema == (("x", "int64"),)
    assert merged.values("x") == [1, None, 2**40]


def test_a_drop_ends_what_it_saw_and_a_concurrent_writer_keeps_its_column() -> None:
    author = Author(1)
    old = author.append({"a": 1, "b": 1})
    other = Author(2).learn(old)
    drop = author.commit(drops=frozenset({column("b")}))
    assert head(state_of(old, drop)).rows == ({"a": 1},)
    late = other.append({"a": 2, "b": 2}, time=9)
    assert head(state_of(old, drop, late)).rows == ({"a": 1, "b": None}, {"a": 2, "b": 2})


def test_a_rename_shows_old_data_under_the_new_name_whatever_name_writers_used() -> None:
    author = Author(1)
    old = author.append({"a": 1})
    rename = author.commit(defines=(widen_to("int64", "z"),))
    late = Author(2).learn(old).append({"a": 2}, time=9)
    merged = head(state_of(old, rename, late), DECLARED)
    assert merged.schema == (("z", "int64"),)
    assert merged.values("z") == [1, 2]


def test_of_two_concurrent_renames_the_greater_shows_and_the_other_is_listed() -> None:
    one = Author(1).commit(defines=(widen_to("int32", "x"),))
    two = Author(2).commit(defines=(widen_to("int32", "y"),), time=9)
    merged = head(state_of(one, two), DECLARED)
    assert merged.schema == (("y", "int32"),)
    assert merged.conflicts == (Conflict("column", "y", two.id, one.id),)


def test_columns_are_ordered_by_birth_until_somebody_orders_them() -> None:
    author = Author(1)
    author.append({"b": 1, "c": 1})
    assert [name for name, _ in head(author.seen, DECLARED).schema] == ["a", "b", "c"]
    author.commit(order=(column("c"), column("a")))
    assert [name for name, _ in head(author.seen, DECLARED).schema] == ["c", "a", "b"]
