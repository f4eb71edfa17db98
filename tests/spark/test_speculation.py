"""Speculation on a real cluster: a master and two workers on two hosts of loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from crdtcat import Catalog
from tests.bounds import FULL
from tests.spark.conftest import ROOT
from tests.spark.speculating import TASKS

STARTED_SECONDS = 120
HOSTS = ("127.0.0.2", "127.0.0.3")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment(host: str) -> dict[str, str]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {
        **kept,
        "PYTHONPATH": paths,
        "PYTHONWARNINGS": "ignore",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": host,
        "SPARK_NO_DAEMONIZE": "1",
    }


@contextmanager
def cluster(path: Path) -> Iterator[str]:
    """A master and two workers, each a process; its URL."""
    home = Path(pyspark.__file__).parent
    port = _free_port()
    master = f"spark://127.0.0.1:{port}"
    command = [str(home / "bin" / "spark-class"), "org.apache.spark.deploy"]
    parts = [
        (["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"], "127.0.0.1")
    ]
    for host in HOSTS:
        work = ["--work-dir", str(path / host), "--webui-port", "0", "--cores", "2", "--memory", "600m"]
        parts.append((["worker.Worker", "--host", host, *work, master], host))
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for (name, *options), host in parts:
            made = subprocess.Popen(
                [command[0], f"{command[1]}.{name}", *options],
                env={**_environment(host), "SPARK_DAEMON_MEMORY": "128m"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            processes.append(made)
            if len(processes) == 1:
                _wait_for(port)
        yield master
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            process.wait(30)


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + STARTED_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise TimeoutError("no Spark master answers")


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
            env=_environment("127.0.0.1"),
            check=True,
            timeout=800,
        )
    for commit, versions, void in (("task", TASKS, {"task/0"}), ("job", 1, set())):
        assert {mark.name for mark in marks.glob(f"{commit}-*")} == {f"{commit}-0", f"{commit}-1"}
        hosts = {mark.read_text() for mark in marks.glob(f"{commit}-*")}
        assert len(hosts) == 2  # the attempts ran on different hosts
        table = lake.table(commit)
        assert sorted(table.read().column("id").to_pylist()) == list(range(400))
        assert table.head().version == versions
        # Both attempts of the task committed, and one counts; others may have been taken for slow, too.
        assert {version.key for version in table.head().void} >= void
        assert bool(table.head().void) == (commit == "task")
