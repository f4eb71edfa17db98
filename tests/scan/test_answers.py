"""Whether a commit changed what was read: by intervals, and exactly what asking again would say."""

from __future__ import annotations

import secrets
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.cas.reading import FACES, Asked, Read
from crdtcat.head import Head
from crdtcat.scan.answers import answer_changed
from crdtcat.store.memory import MemoryStore
from tests.bounds import bounded

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64()), ("y", pa.string()), ("z", pa.float64())])
FILTERS = [
    None,
    "x = 1",
    "x > 1",
    "x <= 0",
    "x in (0, 2)",
    "y = 'b'",
    "y like 'a%'",
    "x = 1 or y = 'a'",
    "x between 1 and 2 and y >= 'b'",
    "x is null",
    "not (x = 1)",
    "z > 0.5",
    "n < 3",
    [("x", "=", 1)],
    pc.field("x") > 1,
]
COLUMNS: list[tuple[str, ...] | None] = [None, (), ("n",), ("x",), ("y", "n"), ("z",)]


def table(chunk_rows: int, inline: bool, key: tuple[str, ...]) -> Table:
    options: dict[str, Any] = {} if inline else {"inline_bytes": 0}
    catalog = Catalog(
        MemoryStore(f"memory://answers-{secrets.token_hex(6)}"),
        upkeep=False,
        chunk_rows=chunk_rows,
        **options,
    )
    return catalog.create_table("t", SCHEMA, mode="cas", key=key)


def row(n: int, x: int | None, y: str, z: float = 0.0) -> dict[str, Any]:
    return {"n": n, "x": x, "y": y, "z": z}


value = st.one_of(st.none(), st.integers(0, 3))
text = st.sampled_from(["a", "ab", "b", "c"])
number = st.sampled_from([0.0, -0.0, 1.0, float("nan")])
changes = st.one_of(
    st.tuples(st.just("append"), st.lists(st.tuples(value, text, number), min_size=1, max_size=3)),
    st.tuples(st.just("update"), st.sampled_from(FILTERS), st.fixed_dictionaries({"x": value})),
    st.tuples(st.just("update"), st.sampled_from(FILTERS), st.fixed_dictionaries({"y": text, "z": number})),
    st.tuples(st.just("delete"), st.sampled_from(FILTERS[1:])),
    st.tuples(st.just("overwrite"), st.lists(st.tuples(value, text, number), max_size=3)),
    st.tuples(st.just("add_column")),
    st.tuples(st.just("property")),
)


def apply(t: Table, change: Any, fresh: int) -> None:
    match change:
        case ("append" | "overwrite") as verb, rows:
            made = [row(fresh + at, x, y, z) for at, (x, y, z) in enumerate(rows)]
            getattr(t, verb)(pa.Table.from_pylist(made, SCHEMA))
        case "update", where, values:
            t.update(where, values)
        case "delete", where:
            t.delete(where)
        case ("add_column",):
            t.add_column(f"c{fresh}", pa.int64())
        case ("property",):
            t.set_properties(p=fresh)


def shown(t: Table, at: Any, read: Read) -> Any:
    """The answer, by asking. Rows are told apart by `n`, which nothing changes."""
    if read.of:
        head = t.head(at)
        return [version.id for version in head.history] if read.of == "history" else getattr(head, read.of)
    if read.numbers is not None:
        rows = t.read(["n"], at=at)["n"].to_pylist()
        return rows[slice(*read.numbers)] if len(rows) >= read.numbers[1] else None
    columns = ["n"] if read.columns == () else None if read.columns is None else list(read.columns)
    found = t.read(columns, read.filter, at=at)
    hidden = t.read(["n"], read.filter, at=at)["n"].to_pylist()  # equal rows that are others are others
    return found.schema.names, [repr(item) for item in found.to_pylist()], hidden


@given(
    st.lists(st.tuples(value, text, number), max_size=8),
    st.lists(changes, min_size=1, max_size=4),
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(COLUMNS), st.sampled_from(FILTERS)).map(lambda asked: Read(*asked)),
            st.sampled_from(sorted(FACES)).map(lambda of: Read(of=of)),
            st.integers(0, 4).map(lambda at: Read(numbers=(at, at + 2))),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([1, 2, 100]),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=bounded(3_000, 150), deadline=None)
def test_exactly_what_asking_again_says(
    first: list[Any], changes: list[Any], reads: list[Read], chunk_rows: int, inline: bool, keyed: bool
) -> None:
    t = table(chunk_rows, inline, ("n",) if keyed else ())
    t.append(pa.Table.from_pylist([row(n, *rest) for n, rest in enumerate(first)], SCHEMA))
    if keyed:
        reads = [read for read in reads if read.numbers is None]
    for at, change in enumerate(changes):
        before = t.head()
        apply(t, change, 100 * (at + 1))
        after = t.head()
        for read in reads:
            asked = Asked(t._session, [(before.log, [read])])
            found = any(asked.judged(after.log, index) for index in range(len(before.log), len(after.log)))
            assert found == (shown(t, before, read) != shown(t, after, read)), (change, read)


def changed(t: Table, before: Head, columns: Any, filter: Any) -> tuple[bool, int]:
    store = t._session.store
    after, count = t.head(), store.requests.snapshot().get
    found = answer_changed(before, after, store, columns=columns, filter=filter)
    return found, store.requests.snapshot().get - count


@pytest.mark.parametrize("keyed", [False, True])
def test_intervals_decide_without_a_request(keyed: bool) -> None:
    t = table(10, inline=False, key=("n",) if keyed else ())
    t.append(pa.Table.from_pylist([row(n, n, "a") for n in range(100)], SCHEMA))
    before = t.head()
    t.append(pa.Table.from_pylist([row(n, n, "a") for n in range(200, 210)], SCHEMA))
    assert changed(t, before, None, "x < 50") == (False, 0)
    assert changed(t, before, None, "x >= 300 or x = 5") == (False, 0)
    if not keyed:
        assert changed(t, before, None, "x >= 200") == (True, 0)
        assert changed(t, before, (), None) == (True, 0)
    before = t.head()
    t.update("n = 25", {"y": "b"})
    assert changed(t, before, None, "x between 70 and 79") == (False, 0)
    assert changed(t, before, ("x",), "x = 25")[0] is False
    if not keyed:
        assert changed(t, before, ("x",), "x = 25") == (False, 0)  # of other columns than these
    assert changed(t, before, ("y",), "x = 25")[0] is True
    before = t.head()
    t.delete("n >= 90 and n < 100")
    assert changed(t, before, None, "x < 80") == (False, 0)
    if not keyed:
        assert changed(t, before, None, "x >= 90") == (True, 0)


def test_only_rows_that_changed_are_read_where_intervals_leave_it_open() -> None:
    t = table(10, inline=False, key=())
    t.append(pa.Table.from_pylist([row(n, n % 7, "a") for n in range(1000)], SCHEMA))
    before = t.head()
    t.update("n = 25", {"x": 100})
    found, requests = changed(t, before, ("n",), "x = 3")
    assert not found
    assert requests <= 6  # footer and rows of one chunk of a hundred, before and after, and what lies over it


def test_a_column_that_is_gone_is_another_answer() -> None:
    t = table(10, inline=True, key=())
    t.append([row(1, 1, "a")])
    before = t.head()
    t.drop_column("y")
    assert changed(t, before, ("n",), "y = 'a'")[0]
    assert changed(t, before, None, None)[0]
    assert not changed(t, before, ("n",), "x = 1")[0]
