"""The code on the pages runs as it stands there, on catalogs like those the pages speak of."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crdtcat import Catalog, CommitConflict
from crdtcat.catalog import Catalog as CatalogClass
from tests.test_docs import blocks


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def names_of(url: str) -> dict[str, Any]:
    """What the contracts' examples speak of: a catalog, a table of items and their prices."""
    cat = Catalog(url)
    table = cat.create_table("stock", pa.schema([("item", pa.string()), ("price", pa.float64())]))
    table.append([{"item": "tea", "price": 2.5}, {"item": "pot", "price": 25.0}])
    return {"cat": cat, "table": table, "pa": pa, "timedelta": timedelta, "CommitConflict": CommitConflict}


def test_the_readme_from_its_first_line_to_its_last(capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), _folder("parquet") / "1.parquet")
    names: dict[str, Any] = {}
    for block in blocks("README.md", "python"):
        exec(block, names)
    cat = names["cat"]
    assert sorted(cat.tables()) == ["accounts", "events", "old_sales", "orders", "sales", "stock"]
    amounts = names["sales"].read()["amount"].to_pylist()
    assert (amounts[0], min(amounts), max(amounts[1:]), len(amounts)) == (175.0, 10.0, 90.0, 92)
    assert names["sales"].schema.names == ["shop", "amount", "at"]
    assert cat.read("stock").to_pylist() == [
        {"item": "milk", "price": 1.5, "left": 4},
        {"item": "tea", "price": 2.0, "left": 8},
    ]
    assert cat.read("accounts")["balance"].to_pylist() == [70]
    assert Catalog("./replica").read("stock").equals(cat.read("stock"))
    said = capsys.readouterr().out
    assert "paid" in said


def test_the_nightly_job(capsys: pytest.CaptureFixture[str]) -> None:
    names_of("./lake")["cat"].create_table("nothing-yet")
    exec(blocks("docs/operations.md", "python")[0], {})
    assert "stock" in capsys.readouterr().out


def test_errors_are_caught_by_class() -> None:
    names = {"cat": Catalog("./lake"), "rows": [{"a": 1}], "time": time}
    exec(blocks("docs/contracts/errors.md", "python")[0], names)
    exec(blocks("docs/contracts/errors.md", "python")[0], names)
    assert Catalog("./lake").read("events").num_rows == 1


def test_a_conflict_is_told_and_the_work_done_again(capsys: pytest.CaptureFixture[str]) -> None:
    names = {"cat": Catalog("./lake"), "pa": pa, "CommitConflict": CommitConflict}
    (block,) = blocks("docs/contracts/conflicts.md", "python")
    exec(block, names)
    assert Catalog("./lake").read("accounts")["balance"].to_pylist() == [70, 50]
    assert capsys.readouterr().out == ""
    names["cat"] = _Raced("./lake")
    names["pay"](1, 5)
    assert Catalog("./lake").read("accounts")["balance"].to_pylist() == [64, 49]
    assert "update-update" in capsys.readouterr().out


class _Raced(CatalogClass):
    """A catalog beside which somebody pays from both accounts, once, while a transaction is open."""

    raced = False

    def transaction(self, *args: Any, **options: Any) -> Any:
        tx = super().transaction(*args, **options)
        if not self.raced:
            self.raced = True
            tx.table("accounts")
            other = Catalog(self.url).table("accounts")
            other.update("id = 1", {"balance": 69})
            other.update("id = 2", {"balance": 49})
        return tx


@pytest.mark.parametrize("page", ["branches", "sync", "expiry"])
def test_the_first_lines_of_contracts(page: str) -> None:
    (block,) = blocks(f"docs/contracts/{page}.md", "python")
    exec(block, names := names_of("./lake"))
    prices = Catalog("./lake").read("stock")["price"].to_pylist()
    assert prices == ([2.5, 10.0] if page == "branches" else [2.5, 25.0])
    if page == "sync":
        assert Catalog("./replica").table("stock").head().root_hash == names["table"].head().root_hash


def _folder(name: str) -> Path:
    folder = Path(name)
    folder.mkdir()
    return folder
