"""The sentinels of the contract that CAS mode follows, under the names that the page of conflicts gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crdtcat import Catalog, errors
from crdtcat.store.memory import MemoryStore
from crdtcat.table import Table
from crdtcat.testing.faulty import FaultyStore
from tests.cas.scenes import SCHEMA, lake, meanwhile, rows, two, values
from tests.test_docs import table_rows


def table(**settings: Any) -> Table:
    return lake()[0].create_table("t", SCHEMA, mode="cas", **settings)


def conflict() -> None:
    mine, theirs = two()
    meanwhile(mine, lambda: theirs.update("n = 1", {"x": 1}))
    mine.update("n = 1", {"x": 2})


def contended() -> None:
    mine, theirs = two(retries=0)
    theirs.append(rows("mo", 9))
    mine.append(rows("mo", 10))


def unclear() -> None:
    store = FaultyStore(MemoryStore("memory://sentinel-unclear"))
    known = Catalog(store, upkeep=False).create_table("t", SCHEMA, mode="cas")
    known.append(rows("mo", 0))
    store.plan = lambda call: "lost_answer" if call.kind == "put" else "error"
    known.append(rows("mo", 1))


class Plain(MemoryStore):
    """It has no conditional writes."""

    can_create_exclusively = False


def without_exclusion() -> None:
    Catalog(Plain("memory://sentinel-plain"), upkeep=False).create_table("t", SCHEMA, mode="cas")


SCENES: dict[str, list[Callable[[], Any]]] = {
    "`ErrNoSnapshots`": [lambda: table().head()],
    "`ErrNotFound`": [
        lambda: lake()[0].table("t"),
        lambda: two()[0].read(at="0" * 32),
        lambda: two()[0].read(at="tag that is not there"),
    ],
    "`ErrPathExists`": [
        lambda: (made := lake()[0], made.create_table("t", SCHEMA), made.create_table("t", mode="cas")),
        lambda: (made := two()[0], made.tag("a"), made.append(rows("mo", 9)), made.tag("a")),
    ],
    "`ErrSnapshotConflict`": [conflict],
    "retries exhausted": [contended],
    "`ErrNilIterator`": [lambda: table().append(None), lambda: table().stream().write(None)],
    "unclear outcome": [unclear],
    "conditional write unsupported": [without_exclusion],
}
NONE = {"`ErrPartitioningNotSupported`", "`ErrCodecConfigured`, `ErrCodecNotStreamable`"}
ROWS = {there: here for there, here, _ in table_rows("docs/contracts/conflicts.md", "| there | here |")}


def test_every_row_of_the_page_is_shown() -> None:
    assert ROWS.keys() == SCENES.keys() | NONE
    assert {there for there, here in ROWS.items() if here == "none"} == NONE


@pytest.mark.parametrize("there", SCENES)
def test_a_sentinel_is_the_class_that_the_page_names(there: str) -> None:
    named = getattr(errors, ROWS[there].strip("`"))
    for scene in SCENES[there]:
        with pytest.raises(errors.CrdtcatError) as caught:
            scene()
        assert type(caught.value) is named


def test_partitioned_tables_are_streamed_to() -> None:
    """Where that contract has `ErrPartitioningNotSupported`, and codecs that cannot be streamed."""
    made = table(partition_by=["day"])
    with made.stream() as stream:
        for day in ("mo", "tu"):
            stream.write(rows(day, 1))
    assert values(made) == [(1, 0), (1, 0)]
