"""Spark's examples say what they should. They run in the tests' own session: a session costs more than they
do."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import pytest

from examples.spark_session import quiet_session
from tests.spark.conftest import ROOT

EXPECTED: dict[str, tuple[str, ...]] = {
    "spark_batch": (
        "one version: 100,000 rows",
        "the same rows: True",
        "Row(shop=1, total=",
        "loaded before: 100,000 rows, now: 10,000",
        "as it was first: 100,000 rows",
        "{'id': 23, 'amount': 5.75}",
    ),
    "spark_stream": (
        "3,000 rows in 3 batches",
        "('delete', 10), ('update_after', 1), ('update_before', 1)",
        "the last of each: [False, True]",
    ),
    "spark_tasks": (
        "12 versions, 24,000 rows",
        "run again: 24,000 rows, 12 commits do not count",
        "threes: 3,429 rows by 12 tasks",
        "last: 100 keys",
        "compacted 12 chunks into 1",
        "(content)",
        ": ok",
    ),
}


def test_every_example_is_here() -> None:
    names = {path.stem for path in (ROOT / "examples").glob("spark_*.py")}
    assert names - {"spark_session"} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_example(
    spark: Any,
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    importlib.import_module(f"examples.{name}").main()
    shown = capsys.readouterr().out
    for part in EXPECTED[name]:
        assert part in shown
    assert spark.range(1).count() == 1  # the session goes on
    assert list(tmp_path.iterdir()) == []  # it cleans up after itself


def test_a_quiet_session_does_not_talk_of_pandas(spark: Any) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with quiet_session("tests") as running:
            assert running.sparkContext is spark.sparkContext
            warnings.warn("PySpark does not yet fully support pandas >= 3.0.0.", FutureWarning, stacklevel=1)
            warnings.warn("something else", FutureWarning, stacklevel=1)
    assert [str(warning.message) for warning in said] == ["something else"]
