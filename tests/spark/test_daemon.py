"""Workers that are forked from a process which has imported crdtcat."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# A fork is a process in which every thread but one is gone, wherever it was. So: which threads there are, and
# whether a fork can do what tasks do, which takes threads of its own.
FORKED = """
import os, sys, threading
from pathlib import Path
from crdtcat.spark.daemon import LOADED, load

load()
assert not [name for name in LOADED if name not in sys.modules]
assert threading.enumerate() == [threading.main_thread()]
started = {Path(f"/proc/self/task/{task}/comm").read_text().strip() for task in os.listdir("/proc/self/task")}
for _ in range(3):
    child = os.fork()
    if child == 0:
        import numpy as np
        from crdtcat import Catalog
        with Catalog(sys.argv[1]) as catalog:
            catalog.commit("t", {"n": list(range(100_000))})
            assert catalog.read("t", filter="n >= 99_999").num_rows > 0
        assert (np.ones((300, 300)) @ np.ones((300, 300)))[0, 0] == 300
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print(*sorted(started - {Path("/proc/self/comm").read_text().strip()}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_forks_of_what_is_loaded_read_and_write(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED, str(lake)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= {"jemalloc_bg_thd"}  # OpenBLAS names its own as the program


def test_the_session_has_them(spark: Any) -> None:
    def started_by(_: int) -> str:
        return str(sys.modules["__main__"].__spec__.name)  # type: ignore[union-attr]

    assert spark.sparkContext.range(2).map(started_by).distinct().collect() == ["crdtcat.spark.daemon"]
