"""Many small chunks are decoded together: the rows are those of each by itself, damage is found in each."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Table
from crdtcat.chunks.decode import SMALL_ROWS
from crdtcat.errors import Corrupt
from crdtcat.store import open_store
from tests.bounds import bounded
from tests.faults.operations import fresh_url

WORDS = ["a", "b", None, "a long word, so that a dictionary pays"]
SIZES = st.lists(st.sampled_from([1, 2, 7, SMALL_ROWS, SMALL_ROWS + 1]), min_size=1, max_size=12)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "word": pa.array([WORDS[n % 4] for n in numbers], pa.string()),
            "kind": pa.array([f"kind {n // 50}" for n in numbers], pa.string()).dictionary_encode(),
        }
    )


def filled(sizes: list[int], inlined: list[bool]) -> tuple[Table, pa.Table]:
    """Commits of these sizes, each in its version file or in a segment of its own; and all of their rows."""
    store = open_store(fresh_url())
    catalogs = {into: Catalog(store, upkeep=False, inline_bytes=2**20 * into) for into in (True, False)}
    catalogs[True].create_table("t", rows(0, 0).schema)
    parts, first = [], 0
    for count, into in zip(sizes, inlined, strict=True):
        parts.append(rows(first, count))
        catalogs[into].table("t").append(parts[-1])
        catalogs[not into].table(
            "t"
        ).head()  # so that what it appends next comes after, also within a millisecond
        first += count
    return catalogs[True].table("t"), pa.concat_tables(parts)


@given(
    SIZES.flatmap(
        lambda sizes: st.tuples(
            st.just(sizes), st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes))
        )
    ),
    st.integers(0, 1500),
    st.booleans(),
)
@settings(max_examples=bounded(150, 30), deadline=None)
def test_the_same_rows(made: tuple[list[int], list[bool]], least: int, bundled: bool) -> None:
    table, expected = filled(*made)
    if bundled:
        table.checkpoint()  # inlined rows of several commits become row groups of one segment
    assert table.read().to_pylist() == expected.to_pylist()
    greater = expected.filter(pc.field("n") >= least)
    assert table.read(filter=f"n >= {least}").to_pylist() == greater.to_pylist()
    some = expected.filter(pc.field("word") == "a")
    assert table.read(["kind"], filter="word = 'a'").to_pylist() == some.select(["kind"]).to_pylist()


def test_damage_in_one_of_them_is_found_and_named(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "lake", upkeep=False)
    table = catalog.create_table("t", rows(0, 0).schema)
    for first in range(0, 80, 10):
        table.append(rows(first, 10))
    table.checkpoint()
    (segment,) = (tmp_path / "lake" / "data").glob("*/*.parquet")
    whole = segment.read_bytes()
    middle = len(whole) // 3
    segment.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    with pytest.raises(Corrupt, match=segment.name):
        Catalog(tmp_path / "lake", upkeep=False).read("t")
    segment.write_bytes(whole)
    assert Catalog(tmp_path / "lake", upkeep=False).read("t").num_rows == 80
