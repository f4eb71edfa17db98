"""A driver that dies between stage and commit: what was staged is there, and nobody sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from crdtcat import Catalog
from crdtcat.spark import save
from tests.spark.conftest import ROOT


def test_a_driver_killed_between_stage_and_commit(spark: Any, tmp_path: Path) -> None:
    save(spark.range(3), tmp_path, "t")
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.application", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 9
    assert "staged 2" in done.stdout  # the segments are there, and nobody sees them
    lake = Catalog(tmp_path)
    assert sorted(lake.read("t").column("id").to_pylist()) == [0, 1, 2]
    assert lake.table("t").head().version == 1
    save(spark.range(5000, 5100), lake, "t")
    assert lake.read("t").num_rows == 103
