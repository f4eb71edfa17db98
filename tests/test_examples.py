"""Every example runs as its first lines say, and says what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from examples import pictures
from tests.jvm import SUBMITTED

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "docs" / "pictures"
EXPECTED: dict[str, tuple[str, ...]] = {
    "cas": ("numbers: [1, 2, 3, 4, 5, 6, 7, 8, 9]", "update-update", "columns balance", "balance: [0]"),
    "convergence": ("60,000", "Every acknowledged row is there", "Done."),
    "branches": (
        "main:  ['tea', 'jam', 'rye']",
        "2 versions that added 1 rows",
        "'tea': 2.5",
        "branches left: []",
    ),
    "offline": (
        "sent 2 versions, received 2",
        "the same table: True True",
        "property checked",
        "0 versions sent",
    ),
    "demo": (
        "60 versions by",
        "4,000 rows of 4,000; 2 commits are void",
        "5,000 users, 1,000 of them corrected; columns that were not sent stay: True",
        "compacted",
        "each the same number twice: True",
        "630,000 rows, 630,000 expected",
        "column: column 'note'",
        "(content)",
        ": ok",
        "Done, in",
    ),
    "many_writers": ("80 commits", "80 rows; 10 commits do not count", "agrees: True True", "column:"),
    "partitions_and_filters": ("[8, 8, 8]", "13 pruned", "168 sales", "2 sales that day", "half a day"),
    "quickstart": ("'action': 'buy'", "amount: double", "1 row with an amount", "4 rows"),
    "rows": (
        "stores 3 rows of 1,000",
        "both hold: changed by me, 0.5",
        "cell: column 'note'",
        "'older'",
        "compacted",
        "into 10 by note, id",
        "chunks:  1 of 10 kept, 9 pruned",
        "again: nothing to cluster",
    ),
    "sql": ("1498500", "the same again: [('Oslo'", "3 shops", "for one row", "count_star()"),
    "streaming_ingest": ("600,000 rows taken, 0 visible", "still 1,200,000 rows", "above 3"),
    "upserts": ("'tea', 'count': 4, 'price': 2.75", "left: ['tea']", "1 chunks pass straight through"),
    "transactions": ("inside:  [7] [13]", "outside: [10] [10]", "aborted: ", "9 rows, 8 versions"),
    "time_travel": ("'tea', 'price': 3.0", "restored:", "overwrite", "restore"),
}
HELPERS = {"__init__", "pictures", "spark_session"}
SPARKS_OWN = "ignore:PySpark does not yet fully support pandas:FutureWarning"


def test_every_example_is_here() -> None:
    names = {path.stem for path in (ROOT / "examples").glob("*.py")} - HELPERS
    assert {name for name in names if not name.startswith("spark_")} == set(EXPECTED)  # those: tests/spark


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_example(name: str, tmp_path: Path) -> None:
    warnings = {"PYTHONWARNINGS": f"error,{SPARKS_OWN}"}
    environment = {**os.environ, **SUBMITTED, **warnings, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", f"examples.{name}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for part in EXPECTED[name]:
        assert part in done.stdout
    assert list(tmp_path.iterdir()) == []  # it cleans up after itself


def test_pictures_are_the_same_each_time(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        pictures.main(tmp_path / folder)
    for name in ("tasks.svg", "storage.svg"):
        one, two, kept = (
            (folder / name).read_text() for folder in (tmp_path / "one", tmp_path / "two", KEPT)
        )
        assert one == two
        assert ET.fromstring(one).tag.endswith("svg")
        assert len(one) == pytest.approx(len(kept), rel=0.02)  # sizes may differ with the encoder's release
    assert (tmp_path / "one" / "tasks.svg").read_text() == (KEPT / "tasks.svg").read_text()
