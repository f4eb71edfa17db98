"""The benchmarks run: small sizes, so that they cannot rot between measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import heads, reads, report
from benchmarks.commits import COMMITS, ROWS, batch, measure
from crdtcat import Catalog
from crdtcat.log import encode_bundle


@pytest.mark.parametrize(("versions", "per"), [(10, 3), (40, 1)])
def test_a_head_from_a_synthetic_bundle(tmp_path: Path, versions: int, per: int) -> None:
    log = heads.synthetic(versions, per)
    (tmp_path / "bundle.b").write_bytes(encode_bundle(log, heads.FOLDER))
    heads._write_ipc(log, tmp_path / "columns.arrow")
    assert heads.open_once("head", tmp_path / "bundle.b")[0] > 0
    assert heads.open_once("plain", tmp_path / "columns.arrow")[0] > 0


@pytest.mark.parametrize("how", ["crdtcat", "raw"])
def test_two_processes_commit(tmp_path: Path, how: str) -> None:
    Catalog(tmp_path).create_table("bench")
    rate, taken = measure(how, (str(tmp_path), {}), 2)
    assert rate > 0
    assert len(taken) == 2 * COMMITS
    if how == "crdtcat":
        assert Catalog(tmp_path).table("bench").head().row_count == 2 * COMMITS * ROWS


def test_rows_and_tables() -> None:
    assert batch(3).num_rows == ROWS
    assert reads.rows_of(10, 1).num_columns == 6
    text = report.table("Title", ["a", "b"], [[1, 2.5], ["x", 1234567]], "note")
    assert "| 1 |      2.50 |" in text
    assert "1,234,567" in text
