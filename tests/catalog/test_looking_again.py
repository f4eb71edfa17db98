"""Verbs that name their table find the one that has the name now, whoever dropped the one before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crdtcat import Catalog
from crdtcat.errors import NotFound
from tests.catalog.lakes import another, lake

SCHEMA = pa.schema([("id", pa.int64())])


def stale(mode: str = "merge", **settings: Any) -> Catalog:
    """A handle that has used a table which somebody else has dropped and created again since."""
    catalog = lake()
    catalog.create_table("t", SCHEMA, mode=mode).append([{"id": 1}])
    assert catalog.read("t").num_rows == 1
    other = another(catalog)
    other.drop_table("t")
    other.create_table("t", SCHEMA, mode=mode, **settings).append([{"id": 2}, {"id": 3}])
    return catalog


def _in_transaction(catalog: Catalog) -> int:
    with catalog.transaction() as tx:
        return len(tx.read("t"))


def _named_transaction(catalog: Catalog) -> int:
    with catalog.transaction(["t"]) as tx:
        return len(tx.read("t"))


READS: dict[str, Callable[[Catalog], int]] = {
    "read": lambda catalog: catalog.read("t").num_rows,
    "sql": lambda catalog: int(catalog.sql("select count(*) from t").fetchall()[0][0]),
    "stats": lambda catalog: catalog.stats().tables[0].rows,
    "transaction": _in_transaction,
    "named": _named_transaction,
    "verify": lambda catalog: catalog.verify("t").rows,
}


@pytest.mark.parametrize("mode", ["merge", "cas"])
@pytest.mark.parametrize("verb", READS)
def test_reads(verb: str, mode: str) -> None:
    assert READS[verb](stale(mode)) == 2


def test_commits() -> None:
    catalog = stale("cas")
    catalog.commit("t", [{"id": 4}])
    assert sorted(another(catalog).read("t")["id"].to_pylist()) == [2, 3, 4]


def test_rows_that_cannot_be_read_again_are_not_committed_in_part() -> None:
    catalog = stale("cas")
    batches = iter([pa.table({"id": [4]}), pa.table({"id": [5]})])
    with pytest.raises(NotFound):
        catalog.commit("t", batches)
    assert another(catalog).read("t").num_rows == 2
    catalog.commit("t", iter([pa.table({"id": [4]})]))
    assert another(catalog).read("t").num_rows == 3


@pytest.mark.parametrize("commit", ["job", "file"])
def test_imports(tmp_path: Path, commit: str) -> None:
    pq.write_table(pa.table({"id": [4]}), tmp_path / "a.parquet")
    catalog = stale()
    assert catalog.import_parquet("t", tmp_path, commit=commit).rows == 1
    assert catalog.read("t").num_rows == 3


def test_branches() -> None:
    catalog = lake()
    catalog.create_table("t", SCHEMA).append([{"id": 1}])
    catalog.table("t").branch("b")
    assert catalog.read("t", branch="b").num_rows == 1
    other = another(catalog)
    other.drop_table("t")
    other.create_table("t", SCHEMA).append([{"id": 2}, {"id": 3}])
    other.table("t").branch("b")
    assert catalog.read("t", branch="b").num_rows == 2


@pytest.mark.parametrize("verb", ["read", "sql", "transaction", "named", "verify"])
def test_what_is_gone_for_good_is_not_found(verb: str) -> None:
    catalog = lake()
    catalog.create_table("t", SCHEMA).append([{"id": 1}])
    catalog.read("t")
    another(catalog).drop_table("t")
    with pytest.raises(NotFound, match="'t'"):
        READS[verb](catalog)
    assert catalog.commit("t", [{"id": 1}]).rows == 1
    assert another(catalog).read("t").num_rows == 1


def test_the_status_of_a_transaction_is_looked_for_in_tables_as_they_are() -> None:
    catalog = stale("cas")
    with pytest.raises(NotFound, match="knows a transaction"):  # and not that a table was dropped
        catalog.transaction_status("0" * 16)
