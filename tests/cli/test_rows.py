"""Rows on their way into and out of files: the same rows whatever the format."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crdtcat import Catalog
from crdtcat.cli.main import main

ROWS = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "x": pa.array([float("nan"), float("-inf"), 0.5]),
        "s": ['a,"b"\n', None, "ü"],
        "d": pa.array([Decimal("1.50"), None, Decimal(-2)], pa.decimal128(10, 2)),
        "at": pa.array([datetime(2026, 1, 2, 3, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
        "ns": pa.array([1, None, 10**18 + 7], pa.timestamp("ns")),
        "day": pa.array([date(2026, 1, 2), None, None]),
        "b": pa.array([b"\x00\xff", None, b""]),
        "l": [[1, 2], None, []],
        "m": pa.array([{"k": 1, "v": "x"}, None, {"k": None, "v": None}]),
        "t": pa.array([timedelta(seconds=90), None, None]),
    }
)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """A catalog that the command line finds, and an empty folder to be in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CRDTCAT_CATALOG", "lake")
    return Catalog("lake", upkeep=False)


def equal(a: pa.Table, b: pa.Table) -> bool:
    """Whether two tables are equal, and no number is one that is none or both are."""
    return bool(a.drop_columns("x").equals(b.drop_columns("x"))) and str(a["x"]) == str(b["x"])


def test_rows_are_the_same_in_every_format(lake: Catalog, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    lake.commit("t", ROWS)
    out: Callable[[], bytes] = lambda: capfdbinary.readouterr().out  # noqa: E731
    assert main(["read", "t", "-f", "arrow"]) == 0
    assert equal(pa.ipc.open_stream(out()).read_all(), ROWS)
    assert main(["read", "t", "-o", "t.parquet"]) == 0
    assert equal(pq.ParquetFile("t.parquet").read(), ROWS)
    assert main(["read", "t", "-f", "jsonl"]) == 0
    lines = [json.loads(line) for line in out().decode().splitlines()]
    assert lines[0] == {
        "i": 1, "x": "NaN", "s": 'a,"b"\n', "d": "1.50", "at": "2026-01-02T03:00:00+00:00",
        "ns": "1970-01-01 00:00:00.000000001", "day": "2026-01-02", "b": "AP8=", "l": [1, 2],
        "m": {"k": 1, "v": "x"}, "t": "0:01:30",
    }  # fmt: skip
    assert set(lines[1].values()) == {None, "-Infinity"}
    assert main(["read", "t", "-o", "t.csv", "-n", "1"]) == 0
    (row,) = csv.DictReader(io.StringIO(Path("t.csv").read_text(), newline=""))
    assert row["s"] == 'a,"b"\n'
    assert (json.loads(row["l"]), json.loads(row["m"])) == ([1, 2], {"k": 1, "v": "x"})
    assert main(["read", "t"]) == 0
    text = out().decode()
    assert len(text.splitlines()) == 5
    assert 'a,"b"·' in text
    assert not list(Path().glob("*.partial"))


def test_text_says_where_it_ends(lake: Catalog, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    lake.commit("t", {"a": range(50), "s": ["x" * 100] * 50})
    assert main(["read", "t"]) == 0
    text = capfdbinary.readouterr().out.decode()
    assert len(text.splitlines()) == 2 + 40 + 1
    assert "more rows" in text
    assert "x" * 57 + "..." in text
    assert "x" * 61 not in text
    assert main(["read", "t", "-n", "50"]) == 0
    assert "more rows" not in capfdbinary.readouterr().out.decode()
    assert main(["read", "t", "-w", "a > 99"]) == 0
    assert b"(no rows)" in capfdbinary.readouterr().out


def test_text_is_read_in_the_types_of_the_table(lake: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema(
        [("k", pa.string()), ("d", pa.decimal128(10, 2)), ("at", pa.timestamp("us")), ("n", pa.int8())]
    )
    lake.create_table("t", schema, key=["k"])
    Path("a.csv").write_text("k,d,at\n007,1.5,2026-01-02T03:04:05.000006\nb,,\n")
    Path("b.jsonl").write_text('{"k": "b", "n": 5}\n{"k": "c", "d": "2.25"}\n')
    assert main(["upsert", "t", "a.csv"]) == 0
    assert main(["upsert", "t", "b.jsonl"]) == 0
    assert lake.read("t").to_pylist() == [
        {"k": "007", "d": Decimal("1.50"), "at": datetime(2026, 1, 2, 3, 4, 5, 6), "n": None},  # noqa: DTZ001
        {"k": "b", "d": None, "at": None, "n": 5},
        {"k": "c", "d": Decimal("2.25"), "at": None, "n": None},
    ]
    # Cells that no row of the file has are left as they are, and not made null.
    Path("c.jsonl").write_text('{"k": "007", "n": 1}\n')
    assert main(["upsert", "t", "c.jsonl"]) == 0
    assert lake.read("t", filter="k = '007'")["d"].to_pylist() == [Decimal("1.50")]
    typed = io.TextIOWrapper(io.BytesIO(b"k,n\nd,7\n"))
    monkeypatch.setattr("sys.stdin", typed)
    assert main(["upsert", "t", "-", "--input-format", "csv"]) == 0
    assert lake.read("t", filter="k = 'd'")["n"].to_pylist() == [7]


def test_files_are_one_commit_or_none(lake: Catalog, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for number in range(3):
        pq.write_table(pa.table({"a": [number]}), f"{number}.parquet")
    assert main(["append", "t", "0.parquet", "1.parquet", "2.parquet"]) == 0
    assert lake.table("t").head().version == 1
    assert lake.read("t")["a"].to_pylist() == [0, 1, 2]
    pq.write_table(pa.table({"b": [1]}), "other.parquet")
    Path("broken.parquet").write_bytes(b"PAR1 and nothing else")
    capfdbinary.readouterr()
    for bad in ("other.parquet", "broken.parquet", "missing.parquet", "what.ever"):
        assert main(["append", "t", "0.parquet", bad]) == 2, bad
        assert bad.encode() in capfdbinary.readouterr().err
    assert lake.table("t").head().version == 1


def test_a_file_that_cannot_be_written_leaves_nothing(
    lake: Catalog, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    lake.commit("t", {"a": [1]})
    assert main(["read", "t", "-o", "no-such-folder/t.csv"]) == 2
    assert b"no-such-folder" in capfdbinary.readouterr().err
    Path("kept.csv").write_text("as it was")
    assert main(["read", "t", "-w", "nope = 1", "-o", "kept.csv"]) == 2
    assert Path("kept.csv").read_text() == "as it was"
    assert main(["read", "t", "-o", "t.xyz"]) == 2
    assert not list(Path().glob("*.partial"))
