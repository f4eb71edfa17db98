"""Two Spark applications and a local writer on one table at once.

Every task of one query runs in both applications at the same time, which is more than speculation does: each
counts once. A driver that dies between stage and commit leaves nothing that anybody sees."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from crdtcat import Catalog
from crdtcat.spark import load, save
from tests.spark.application import QUERY, TASKS, shared_rows
from tests.spark.conftest import ROOT


def test_two_applications_and_a_local_writer_at_once(spark: Any, tmp_path: Path) -> None:
    lake, ready, done = Catalog(tmp_path / "lake"), tmp_path / "ready", threading.Event()
    for name in ("t", "u"):
        save(spark.range(3), lake, name)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    application = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.application", lake.url, str(ready)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        text=True,
    )
    local: list[int] = []
    session: list[int] = []

    def write_here() -> None:
        own = Catalog(lake.url).table("t")
        while not done.wait(0.1):
            own.append([{"id": -1 - len(local)}])
            local.append(-1 - len(local))

    writer = threading.Thread(target=write_here)
    try:
        while application.poll() is None and not ready.exists():
            done.wait(0.1)
        writer.start()
        save(shared_rows(spark), lake, "t", commit="task", query=QUERY)
        while application.poll() is None:
            more = range(10_000 + len(session), 10_010 + len(session))
            save(spark.range(more.start, more.stop, 1, 2), lake, "t", commit="task")
            session += more
    finally:
        done.set()
        writer.join()
        shown, _ = application.communicate()
    assert application.returncode == 9, shown
    table = lake.table("t")
    wanted = sorted([*local, *range(3), *range(1000, 1400), *session])
    assert sorted(table.read().column("id").to_pylist()) == wanted
    assert sorted(row.id for row in load(spark, lake, "t").collect()) == wanted
    assert len(local) > 0
    assert len(table.head().void) == TASKS  # each task committed in both applications, and counts once
    # The other write was staged as a whole, and its driver died at the instruction before the commit.
    assert "staged 2 of 2" in shown
    assert sorted(lake.read("u").column("id").to_pylist()) == [0, 1, 2]
    save(spark.range(5000, 5100), lake, "u")
    assert lake.read("u").num_rows == 103
