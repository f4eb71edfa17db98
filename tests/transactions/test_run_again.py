"""Serializable transactions held against running them again: what is committed past others is what the same
steps would have read and made had they begun after those."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.conflicts.kinds import RULES, Answer
from crdtcat.errors import CommitConflict, InvalidArgument
from tests.bounds import bounded

SCHEMA = pa.schema([("u", pa.int64()), ("n", pa.int64()), ("x", pa.int64())])
OURS = {kind.value: "ours" for kind, rule in RULES.items() if Answer.OURS in rule.allowed}
KEY: tuple[str, ...] = ("u",)

filters = st.sampled_from(["n = 0", "x = 1", "n >= 2", "x > 0", "n < 2 and x = 0", "u >= 0"])
small = st.integers(0, 3)
changes = st.one_of(
    st.tuples(st.just("set"), filters, st.sampled_from(["x", "n"]), small),
    st.tuples(st.just("raise"), filters),
    st.tuples(st.just("delete"), filters),
    st.tuples(st.just("add"), small, small),
    st.tuples(st.just("row"), st.integers(0, 5)),
    st.tuples(st.just("replace"), small),
    st.tuples(st.just("property"), st.sampled_from("pq"), small),
)
reads = st.tuples(st.just("read"), st.sampled_from([None, ["x"], ["n"]]), filters)
names = st.sampled_from("ab")
Steps = list[tuple[str, tuple[Any, ...]]]
mine = st.lists(st.tuples(names, st.one_of(reads, changes)), min_size=1, max_size=4)
theirs = st.lists(st.tuples(names, changes), min_size=1, max_size=3)


def ran(where: Any, steps: Steps, fresh: Iterator[int], *, keyed: bool) -> list[Any]:
    """The steps, one after the other, in a catalog or a transaction; what was read."""
    found: list[Any] = []
    for name, (verb, *given_) in steps:
        table = where.table(name)
        match verb, *given_:
            case "read", columns, filter:
                found.append(sorted(map(str, table.read(columns, filter).to_pylist())))
            case "set", filter, column, value:
                table.update(filter, {column: value})
            case "raise", filter:
                table.update(filter, {"x": pc.add(pc.field("x"), 1)})
            case "delete", filter:
                table.delete(filter)
            case "add", n, x:
                add = table.upsert if keyed else table.append
                add([{"u": next(fresh), "n": n, "x": x}])
            case "row", number:
                found.append(changed(table, number, keyed=keyed))
            case "replace", n:
                table.overwrite([{"u": next(fresh), "n": n, "x": 0}])
            case "property", key, value:
                table.set_properties({key: value})
    return found


def changed(table: Any, number: int, *, keyed: bool) -> bool:
    """A row by its number, which rows before it move; whether there was one."""
    if keyed:
        return False
    try:
        table.update_rows(number, number + 1, [{"x": 7}])
    except InvalidArgument:
        return False
    return True


def lake(*, keyed: bool, **options: Any) -> tuple[Catalog, str]:
    url = f"memory://again-{secrets.token_hex(6)}"
    catalog = Catalog(url, upkeep=False, **options)
    for name in "ab":
        table = catalog.create_table(name, SCHEMA, mode="cas", key=KEY if keyed else ())
        add = table.upsert if keyed else table.append
        add([{"u": u, "n": u, "x": 0} for u in range(4)])
    return catalog, url


def shown(catalog: Catalog) -> list[Any]:
    return [(catalog.read(name).to_pylist(), dict(catalog.table(name).properties)) for name in "ab"]


@given(
    st.lists(mine, min_size=1, max_size=3),
    theirs,
    st.booleans(),
    st.booleans(),
    st.sampled_from([OURS, "fail"]),
)
@settings(max_examples=bounded(1200, 80), deadline=None)
def test_what_is_committed_is_what_running_it_after_the_others_gives(
    parts: list[Steps], theirs: Steps, keyed: bool, forked: bool, answers: Any
) -> None:
    """In parts: one after the other, or each in a fork of its own beside the others, joined in that order."""
    catalog, url = lake(keyed=keyed, isolation="serializable", on_conflict=answers)
    transaction, fresh = catalog.transaction(["a", "b"]), itertools.count(100)
    forks = [transaction.fork() if forked else transaction for _ in parts]
    found = [ran(fork, part, fresh, keyed=keyed) for fork, part in zip(forks, parts, strict=True)]
    ran(Catalog(url, upkeep=False), theirs, itertools.count(2000), keyed=keyed)
    try:
        if forked:
            transaction.join(*forks)
        transaction.commit()
    except CommitConflict:
        event("told")
        return
    if not any(transaction.versions.values()):
        event("read only")  # it was as it read, at an earlier moment
        return
    event("committed")
    again, _ = lake(keyed=keyed)
    fresh = itertools.count(100)
    ran(again, theirs, itertools.count(2000), keyed=keyed)
    assert [ran(again, part, fresh, keyed=keyed) for part in parts] == found
    assert shown(again) == shown(Catalog(url, upkeep=False))


def test_a_row_of_ones_own_that_has_another_number_behind_theirs_is_told() -> None:
    """The row was the third when it was changed; with theirs before it that is another one."""
    catalog, url = lake(keyed=False, isolation="serializable")
    transaction = catalog.transaction(["a"])
    ran(transaction, [("a", ("add", 0, 0)), ("a", ("row", 4))], itertools.count(100), keyed=False)
    Catalog(url, upkeep=False).table("a").append([{"u": 200, "n": 0, "x": 0}])
    with pytest.raises(CommitConflict, match=r"read-write.*rows 4 to 5"):
        transaction.commit()


def test_that_a_row_is_not_there_is_something_that_was_read() -> None:
    catalog, url = lake(keyed=False, isolation="serializable")
    transaction = catalog.transaction(["a", "b"])
    steps: Steps = [("a", ("row", 4)), ("b", ("add", 0, 0))]
    assert ran(transaction, steps, itertools.count(100), keyed=False) == [False]
    Catalog(url, upkeep=False).table("a").append([{"u": 200, "n": 0, "x": 0}])
    with pytest.raises(CommitConflict, match=r"read-write.*rows 4 to 5"):
        transaction.commit()


def test_what_ones_own_change_made_of_it_is_not_changed_by_what_that_prevails_over() -> None:
    catalog, url = lake(keyed=False, isolation="serializable", on_conflict={"update-update": "ours"})
    transaction = catalog.transaction(["a"])
    transaction.update("a", "n = 0", {"x": 5})
    assert transaction.read("a", ["x"], "n = 0").to_pylist() == [{"x": 5}]
    Catalog(url, upkeep=False).table("a").update("n = 0", {"x": 9})
    transaction.commit()
    assert catalog.read("a", ["x"], "n = 0").to_pylist() == [{"x": 5}]
