"""A table of many small commits that nobody bundled, made once in a run: several suites read the same."""

from __future__ import annotations

import atexit
import tempfile
from functools import cache
from unittest import mock

from benchmarks.report import progress
from benchmarks.rows import batch
from crdtcat import Catalog

FOLDER = "tables/bench/main/"
"""Where the version files of the table are, below the catalog."""
ROWS = 10


@cache
def small_commits(count: int) -> str:
    """The folder of a catalog whose table `bench` has so many versions of 10 inlined rows. Read only."""
    folder = tempfile.TemporaryDirectory(prefix="crdtcat-bench-")
    atexit.register(folder.cleanup)
    progress(f"writing {count:,} versions")
    with mock.patch("os.fsync"):  # ten thousand waits for the disk are not what is measured
        handle = Catalog(folder.name, upkeep=False).create_table("bench")
        small = batch(0, ROWS)
        for _ in range(count):
            handle.append(small)
    return folder.name
