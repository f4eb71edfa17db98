"""Idempotency keys, and keys of tables: no two writes share one, none is missing, none is null.

Writes are planned and run as Spark's driver and tasks do, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, MapType, StringType, StructType

from crdtcat import Catalog
from crdtcat.errors import InvalidArgument, LimitExceeded, SchemaMismatch
from crdtcat.spark import keys
from crdtcat.spark.writing import plan_write

ID = StructType().add("id", "long")
KEYED = StructType().add("id", "long").add("n", "long")


def written(
    lake: Catalog, name: keys.WriteName | None, *shares: list[Any], commit: str = "job", **options: Any
) -> Any:
    """A write whose tasks get these ids."""
    plan = plan_write(lake, "t", ID, commit=commit, name=name, **options)
    rows = [pa.table({"id": pa.array(share, pa.int64())}).to_batches() for share in shares]
    return plan.finish([plan.run(iter(share), at) for at, share in enumerate(rows)], tidy=False)


NAMES = [
    keys.saved("load"),
    keys.saved("load/0"),
    keys.saved('load",0'),
    keys.saved('["load",0]'),
    keys.batch("load", 0),
    keys.batch("load", 0, "0"),
    keys.batch("load", 0, "a"),
    keys.batch("load/0", 0),
]


def test_no_two_writes_share_a_key() -> None:
    made = [keys.job_key(name) for name in NAMES] + [
        keys.task_key(name, at) for name in NAMES for at in (0, 1)
    ]
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("other", [keys.saved("load/0"), keys.batch("load", 0)])
def test_writes_of_names_that_look_alike_both_count(tmp_path: Path, other: keys.WriteName) -> None:
    lake = Catalog(tmp_path, upkeep=False)
    for _ in range(2):
        written(lake, keys.saved("load"), [1, 2], [3], commit="task")
        written(lake, other, [4])
    assert sorted(lake.read("t").column("id").to_pylist()) == [1, 2, 3, 4]


def test_a_name_too_long_for_a_key_is_refused_before_tasks(tmp_path: Path) -> None:
    with pytest.raises(LimitExceeded, match="idempotency key"):
        written(Catalog(tmp_path), keys.saved("x" * 100_000), [1])


@pytest.mark.parametrize("commit", ["job", "task"])
def test_rows_without_a_key_are_refused_by_name(tmp_path: Path, commit: str) -> None:
    lake = Catalog(tmp_path, upkeep=False)
    with pytest.raises(SchemaMismatch, match="'id' may not be null, and 1 rows are"):
        written(lake, None, [1, None], commit=commit, key=["id"])
    written(lake, None, [1], [2], commit=commit, key=["id"])
    assert not lake.table("t").schema.field("id").nullable
    with pytest.raises(SchemaMismatch, match="'id' may not be null, and 1 rows are"):
        written(lake, None, [None], commit=commit)
    with pytest.raises(SchemaMismatch, match=r"lack \['id'\], the key of table 't'"):
        plan_write(lake, "t", StructType().add("n", "long"), commit=commit, evolve=True)
    assert lake.read("t").num_rows == 2


@pytest.mark.parametrize("commit", ["job", "task"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": ["x"]}, "column 'x' holds double, which has no order"),
        ({"key": ["m"]}, "column 'm' holds map"),
        ({"key": ["id", "id"]}, "the same column twice"),
        ({"key": ["id"], "partition_by": ["day(at)"]}, "'at' is not in the key"),
    ],
)
def test_a_table_that_could_not_be_made_is_refused_before_tasks(
    tmp_path: Path, commit: str, options: dict[str, Any], message: str
) -> None:
    lake = Catalog(tmp_path / "lake", upkeep=False)
    schema = StructType().add("id", "long").add("x", "double").add("m", MapType(StringType(), LongType()))
    with pytest.raises(InvalidArgument, match=message):
        plan_write(lake, "t", schema.add("at", "timestamp"), commit=commit, **options)
    assert lake.tables() == []


def test_an_import_into_a_table_that_could_not_be_made_is_refused_before_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.5]}), tmp_path / "rows.parquet")
    lake = Catalog(tmp_path / "lake", upkeep=False)
    with pytest.raises(InvalidArgument, match="column 'x' holds double, which has no order"):
        lake.import_parquet("t", tmp_path / "rows.parquet", key=["x"])
    assert not list(tmp_path.glob("lake/data/*/*"))


@pytest.mark.parametrize("query", ["", 5, ["load"]])
def test_a_name_that_is_none_is_refused(query: Any) -> None:
    """An empty one, of a variable that nobody set, would have every later write count as a repetition."""
    with pytest.raises(InvalidArgument, match=r"query=.*which names this write and no other"):
        keys.saved(query)
