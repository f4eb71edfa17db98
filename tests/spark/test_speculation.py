"""Speculation on a real cluster: a master and two workers on two hosts of loopback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.spark_cluster import cluster, environment
from crdtcat import Catalog
from crdtcat.spark.keys import saved, task_key
from tests.bounds import FULL
from tests.spark.conftest import ROOT
from tests.spark.speculating import TASKS


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not FULL, reason="five JVMs, half a minute at best; CRDTCAT_SLOW=full")
def test_both_attempts_of_a_task_commit_and_count_once(tmp_path: Path) -> None:
    lake, marks = Catalog(tmp_path / "lake"), tmp_path / "marks"
    marks.mkdir()
    with cluster(tmp_path) as master:
        subprocess.run(
            [sys.executable, "-m", "tests.spark.speculating", master, lake.url, str(marks)],
            cwd=ROOT,
            env=environment("127.0.0.1"),
            check=True,
            timeout=800,
        )
    first = {task_key(saved("task"), 0)}
    for commit, versions, void in (("task", TASKS, first), ("job", 1, set())):
        assert {mark.name for mark in marks.glob(f"{commit}-*")} == {f"{commit}-0", f"{commit}-1"}
        hosts = {mark.read_text() for mark in marks.glob(f"{commit}-*")}
        assert len(hosts) == 2  # the attempts ran on different hosts
        table = lake.table(commit)
        assert sorted(table.read().column("id").to_pylist()) == list(range(400))
        assert table.head().version == versions
        # Both attempts of the task committed, and one counts; others may have been taken for slow, too.
        assert {version.key for version in table.head().void} >= void
        assert bool(table.head().void) == (commit == "task")
