"""Two handles on one CAS table, and one's commit in the middle of the other's."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.synchronize import Barrier
from typing import Any, TypeVar

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.table import Table
from tests.apart import processes_apart

SCHEMA = pa.schema([("day", pa.string()), ("n", pa.int64()), ("x", pa.int32())])
DAYS = ("mo", "tu", "we")
_T = TypeVar("_T")


def rows(day: str, *numbers: int) -> list[dict[str, Any]]:
    return [{"day": day, "n": n, "x": 0} for n in numbers]


def lake(**options: Any) -> tuple[Catalog, str]:
    url = f"memory://cas-{secrets.token_hex(6)}"
    return Catalog(url, **{"upkeep": False, **options}), url


def two(*, partitioned: bool = True, **options: Any) -> tuple[Table, Table]:
    """Mine and theirs, on a table of three days with rows 0 to 8, three to a day."""
    catalog, url = lake(**options)
    mine = catalog.create_table("t", SCHEMA, mode="cas", partition_by=["day"] if partitioned else [])
    mine.append([row for at, day in enumerate(DAYS) for row in rows(day, *range(3 * at, 3 * at + 3))])
    theirs = Catalog(url, upkeep=False).table("t")
    return mine, theirs


def meanwhile(table: Table, *actions: Callable[[], Any]) -> None:
    """Let `actions` happen after the table's next verb has read, and before it commits."""
    session = table._session
    commit = session.commit

    def after(*args: Any, **kwargs: Any) -> Any:
        session.commit = commit  # type: ignore[method-assign]
        for action in actions:
            action()
        return commit(*args, **kwargs)

    session.commit = after  # type: ignore[method-assign]


_together: list[Barrier] = []
BARRIER_SECONDS = 120


def _begin(barrier: Barrier) -> None:
    _together.append(barrier)


def in_processes(work: Callable[..., _T], calls: Sequence[tuple[Any, ...]]) -> list[_T]:
    """What `work` gives for each call, each in a process of its own, all at the same time."""
    context = processes_apart()
    barrier = context.Barrier(len(calls))  # can only be inherited
    with context.Pool(len(calls), _begin, (barrier,)) as pool:
        return pool.starmap(work, calls, chunksize=1)


def meet(table: Table) -> None:
    """Let all processes of `in_processes` have read for their next verb before any of them commits it."""
    meanwhile(table, *(partial(barrier.wait, BARRIER_SECONDS) for barrier in _together))


def values(table: Table) -> list[tuple[int, int]]:
    """(n, x) of all rows, in order of n."""
    return sorted((row["n"], row["x"]) for row in table.read(["n", "x"]).to_pylist())


Turn = tuple[int, dict[int, int], dict[int, int]]
"""What one commit was: its number, cells it had read, cells it wrote."""


def in_threads(work: Callable[[int], None], count: int) -> None:
    """`work` of every number below `count`, all at once, to their end. None of them may fail."""
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def replayed(turns: Sequence[Turn], cells: int) -> dict[int, int]:
    """What is there after all turns by rising number; every one read what the ones before it had left."""
    now = dict.fromkeys(range(cells), 0)
    for number, reads, writes in sorted(turns, key=lambda turn: turn[0]):
        assert {n: now[n] for n in reads} == reads, number
        now |= writes
    return now
