"""Many real processes at once on one table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crdtcat import Catalog
from tests.apart import processes_apart
from tests.processes.work import SCHEMA, append_times, commits_found, maintain_until

WRITERS = 16
COMMITS = 6
OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 0}
_context = processes_apart()


def _run(url: str, options: dict[str, Any]) -> None:
    begin = _context.Barrier(WRITERS)
    writers = [
        _context.Process(target=append_times, args=(url, n, COMMITS, options, begin)) for n in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * WRITERS


def test_sixteen_writers_while_one_bundles_and_collects(tmp_path: Path) -> None:
    url = str(tmp_path / "catalog")
    Catalog(url).create_table("t", SCHEMA)
    stop = _context.Event()
    keeper = _context.Process(target=maintain_until, args=(url, stop, OPTIONS))
    keeper.start()
    _run(url, {**OPTIONS, "upkeep": "synchronous", "bundle_every": 4})
    stop.set()
    keeper.join()
    assert keeper.exitcode == 0
    first, second = (Catalog(url, **OPTIONS) for _ in range(2))
    assert commits_found(first) == {n: set(range(COMMITS)) for n in range(WRITERS)}
    assert first.table("t").head().snapshot == second.table("t").head().snapshot
    assert first.read("t").equals(second.read("t"))
    head = second.table("t").head()
    assert head.version == WRITERS * COMMITS
    assert len(head.clock) == WRITERS
    assert head.conflicts == ()
