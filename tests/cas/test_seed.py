"""The seeds' own tests, made truly concurrent: phase C of interval tracking, and the concurrency matrix of
scoped writers, row by row."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.conflicts import Kind
from crdtcat.errors import CommitConflict
from crdtcat.format.ops import Ops
from tests.cas.scenes import in_processes, lake, meet

SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.int64())])


def data(url: str, catalog: Catalog) -> None:
    catalog.create_table("data", SCHEMA, mode="cas").append(
        pa.table({"id": range(10_000), "value": range(10_000)}, schema=SCHEMA)
    )


def at_once(*calls: Callable[[], Any]) -> list[BaseException | None]:
    """Run calls in threads that have all read before any commits."""
    failures: list[BaseException | None] = [None] * len(calls)

    def run(at: int) -> None:
        try:
            calls[at]()
        except BaseException as error:  # noqa: BLE001
            failures[at] = error

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def change(url: str, barrier: threading.Barrier, start: int, stop: int, value: int) -> Any:
    tx = Catalog(url, upkeep=False, chunk_rows=1000).transaction()
    tx.update_rows("data", start, stop, pa.table({"value": [value] * (stop - start)}))
    barrier.wait()
    tx.commit()
    return tx


def test_chunk_level_no_conflict() -> None:
    catalog, url = lake(chunk_rows=1000)
    data(url, catalog)
    barrier = threading.Barrier(2)
    failures = at_once(
        lambda: change(url, barrier, 0, 1000, -1), lambda: change(url, barrier, 9000, 10_000, -2)
    )
    assert failures == [None, None]
    values = catalog.read("data")["value"].to_pylist()
    assert values == [-1] * 1000 + list(range(1000, 9000)) + [-2] * 1000


def test_chunk_level_conflict() -> None:
    catalog, url = lake(chunk_rows=1000)
    data(url, catalog)
    barrier = threading.Barrier(2)
    failures = at_once(lambda: change(url, barrier, 0, 1000, -1), lambda: change(url, barrier, 500, 1500, -2))
    (lost,) = [failure for failure in failures if failure is not None]
    assert isinstance(lost, CommitConflict)
    (conflict,) = lost.conflicts
    assert (conflict.kind, conflict.rows.total, conflict.columns) == (Kind.UPDATE_UPDATE, 500, ("value",))
    values = catalog.read("data")["value"].to_pylist()
    winner = -1 if failures[0] is None else -2
    assert values.count(winner) == 1000
    assert values.count(-3 - winner) == 0


def test_vector_clock_causality() -> None:
    """Merge mode, the same two: both commit, what met is listed, and later writers have seen both."""
    catalog, url = lake(chunk_rows=1000)
    catalog.create_table("data", SCHEMA).append(
        pa.table({"id": range(10_000), "value": range(10_000)}, schema=SCHEMA)
    )
    barrier = threading.Barrier(2)
    failures = at_once(lambda: change(url, barrier, 0, 1000, -1), lambda: change(url, barrier, 500, 1500, -2))
    assert failures == [None, None]
    table = catalog.table("data")
    first, second = table.head().history[-2:]
    clocks = table.head().folded.clocks
    log = table.head().log
    one, two = log.index_of(first.id), log.index_of(second.id)
    assert clocks.of(one).concurrent_with(clocks.of(two))
    assert any(item.winner == second.id for item in table.conflicts())
    later = table.update("id = 0", {"value": 7})
    head = table.head()
    assert head.folded.clocks.of(head.log.index_of(later.id)).saw(first.id.writer, first.id.seq)
    assert head.folded.clocks.of(head.log.index_of(later.id)).saw(second.id.writer, second.id.seq)


HIVE = pa.schema([("source", pa.string()), ("n", pa.int64())])


def crawled(source: str, n: int) -> list[dict[str, Any]]:
    return [{"source": source, "n": n}]


def overwrite_one(url: str, at: int) -> int:
    """What a process does to a partition of its own; how often it was rebased."""
    handle = Catalog(url, upkeep=False).table("t")
    meet(handle)
    turns = range(1, 4)
    return sum(handle.overwrite(crawled(f"s{at}", n), where=f"source = 's{at}'").rebases for n in turns)


@pytest.mark.parametrize(("writers", "processes"), [(2, False), (4, False), (8, False), (3, True)])
def test_matrix_row_1_partitioned_many_writers_on_partitions_of_their_own(
    writers: int, processes: bool, tmp_path: Path
) -> None:
    catalog, url = (Catalog(str(tmp_path)), str(tmp_path)) if processes else lake()
    table = catalog.create_table("t", HIVE, mode="cas", partition_by=["source"])
    table.append([row for at in range(writers) for row in crawled(f"s{at}", 0)])
    if processes:
        rebases = in_processes(overwrite_one, [(url, at) for at in range(writers)])
        assert sum(rebases) >= writers - 1, "all but one met others"
    else:
        calls = (partial(overwrite_one, url, at) for at in range(writers))
        assert at_once(*calls) == [None] * writers
    assert sorted((row["source"], row["n"]) for row in table.read().to_pylist()) == [
        (f"s{at}", 3) for at in range(writers)
    ]


def test_matrix_row_2_unpartitioned_appends_never_conflict_and_overwrites_do() -> None:
    """Further than the seed, where two appends to one path space conflict: here they cannot."""
    catalog, url = lake()
    catalog.create_table("t", HIVE, mode="cas")
    handles = [Catalog(url, upkeep=False).table("t") for _ in range(4)]
    assert (
        at_once(*(lambda h=h, at=at: h.append(crawled("s", at)) for at, h in enumerate(handles)))
        == [None] * 4
    )
    tx, other = handles[0], handles[1]
    head = tx.head()
    other.append(crawled("s", 9))
    with pytest.raises(CommitConflict) as caught:
        tx._session.commit(
            "overwrite",
            body={"x": Ops(is_overwrite=True).encode()},
            seen=head,
        )
    assert [item.kind for item in caught.value.conflicts] == [Kind.OVERWRITE_APPEND]


@pytest.mark.parametrize("partitioned", [True, False], ids=["row 3: batch jobs", "row 4: an archiver"])
def test_matrix_rows_3_and_4_a_single_writer_pays_nothing(partitioned: bool) -> None:
    catalog, _ = lake()
    table = catalog.create_table("t", HIVE, mode="cas", partition_by=["source"] if partitioned else [])
    before = catalog.store.requests.snapshot()
    versions = [table.append(crawled(f"s{n % 3}", n)) for n in range(10)]
    cost = catalog.store.requests.since(before)
    assert (cost.put, cost.get, cost.list) == (10, 0, 0)
    assert [version.rebases for version in versions] == [0] * 10
    assert [version.number for version in versions] == list(range(1, 11))
