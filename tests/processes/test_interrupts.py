"""Ctrl-C at every line of a call: nothing half done, and the same handle goes on.

`KeyboardInterrupt` is raised at the n-th line of our own code that a call runs, for every n (with a stride
where there are many). That is more exact than a signal, which a second test sends for real.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crdtcat import Catalog, Table
from crdtcat.store import open_store
from crdtcat.support.scattered import Scattered
from tests.faults.lines import Lines
from tests.processes.work import SCHEMA, commits_found, rows

FULL = os.environ.get("CRDTCAT_SLOW") == "full"
POINTS = 2000 if FULL else 25
"""About how many lines of a call are interrupted; the last ones, where the commit happens, all of them."""
ALL_OF_LAST = 400 if FULL else 30
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""An interrupted listing of a folder is closed by the garbage collector, which warns."""
OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 0}
Act = Callable[[Table, int], Any]


def _append(table: Table, commit: int) -> None:
    table.append(rows(0, commit))


def _overwrite(table: Table, commit: int) -> None:
    table.overwrite(rows(0, commit))


def _stream(table: Table, commit: int) -> None:
    with table.stream() as stream:
        for batch in rows(0, commit).to_batches(max_chunksize=2):
            stream.write(batch)


def _checkpoint(table: Table, commit: int) -> None:
    table.append(rows(0, commit))
    table.checkpoint()
    table.collect()


ACTS: dict[str, tuple[Act, dict[str, Any]]] = {
    "append": (_append, {}),
    "append-large": (_append, {"inline_bytes": 0}),
    "overwrite": (_overwrite, {}),
    "stream": (_stream, {"inline_bytes": 0}),
    "checkpoint": (_checkpoint, {}),
}


@pytest.mark.parametrize("name", ACTS)
def test_interrupted_at_every_line(tmp_path: Path, name: str) -> None:
    act, options = ACTS[name]
    catalog = Catalog(str(tmp_path / "catalog"), **{**OPTIONS, **options})
    table = catalog.create_table("t", SCHEMA)
    table.append(rows(-1, 0))
    act(table, 0)  # caches are warm, so that every run has the same lines
    act(table, 1)
    counter = Lines()
    counter.run(lambda: act(table, 2))
    total = counter.seen
    points = {*range(1, total, max(1, total // POINTS)), *range(max(1, total - ALL_OF_LAST), total + 1)}
    kept = _commits(table)
    for commit, point in enumerate(sorted(points), start=3):
        interrupted = Lines(point).run(partial(act, table, commit))
        found = _commits(Catalog(catalog.url, **OPTIONS).table("t"))
        whole = {commit} if name == "overwrite" else kept | {commit}
        assert found in (kept, whole), f"line {point} of {total}"
        assert interrupted or found == whole
        kept = found
    _check_handle(catalog, table, kept)


def _commits(table: Table) -> set[int]:
    return commits_found(Catalog(table._session.store.url, **OPTIONS)).get(0, set())


def _check_handle(catalog: Catalog, table: Table, kept: set[int]) -> None:
    """The handle that was interrupted all the time still works, and left no gap, no twin, no torn file."""
    history = list(table.history())
    pairs = [(version.id.writer, version.id.seq) for version in history]
    assert len(pairs) == len(set(pairs)), "a sequence number was used twice"
    ids = [version.id for version in history]
    assert ids == sorted(ids)
    table.append(rows(0, 1_000_000))
    assert _commits(table) == kept | {1_000_000}
    table.checkpoint()
    table.collect()
    assert _commits(table) == kept | {1_000_000}
    names = [item.name for item in catalog.store.list("tables/t/main/")]
    assert all(name.endswith((".v", ".b")) for name in names)
    # While a file is being made there is always one instruction after which nobody can remove it: what is
    # left then is hidden, and swept a day later. At most that.
    hidden = [path for path in Path(catalog.url).rglob(".*") if path.is_file()]
    assert len(hidden) <= 2


@pytest.mark.parametrize("how", ["put", "put_if_absent", "write_ahead"])
def test_an_interrupted_put_leaves_nothing_behind(tmp_path: Path, how: str) -> None:
    store = open_store(str(tmp_path / "store"))
    content = Scattered([b"begun", b"ended"])

    def act(name: str) -> None:
        if how == "write_ahead":
            store.write_ahead(name, content)
            store.put(name, content)
        else:
            getattr(store, how)(name, b"content")

    act("of/first")
    counter = Lines()
    counter.run(lambda: act("of/second"))
    for point in range(1, counter.seen + 1):
        Lines(point).run(partial(act, f"of/{point}"))
        store.forget(f"of/{point}")  # as a commit does that failed
        hidden = [path for path in tmp_path.rglob(".*") if path.is_file()]
        assert not hidden, f"line {point} of {counter.seen}"


@pytest.mark.parametrize("name", ACTS)
def test_real_signals(tmp_path: Path, name: str) -> None:
    """SIGINT to this process, at times nobody chose, while it commits."""
    act, options = ACTS[name]
    catalog = Catalog(str(tmp_path / "catalog"), **{**OPTIONS, **options})
    table = catalog.create_table("t", SCHEMA)
    act(table, 0)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    acknowledged: set[int] = set()
    try:
        for commit in range(1, 25):
            timer = threading.Timer(0.0005 * (commit % 12), signal.raise_signal, [signal.SIGINT])
            try:
                timer.start()
                act(table, commit)
                acknowledged.add(commit)
                timer.join()
                time.sleep(0.05)  # a signal that came late lands here
            except KeyboardInterrupt:
                timer.join()
    finally:
        signal.signal(signal.SIGINT, previous)
    found = _commits(table)
    if name == "overwrite":
        assert len(found) == 1
    else:
        assert acknowledged <= found
    _check_handle(catalog, table, found)
