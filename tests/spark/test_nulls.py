"""Columns declared not null: only where no row of the snapshot is, whatever was done to the table before."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from crdtcat import Catalog
from crdtcat.errors import Corrupt
from crdtcat.spark import load, save
from crdtcat.spark.nulls import without_nulls
from crdtcat.spark.pinned import pin
from crdtcat.spark.reading import Selection
from tests.spark.rows import values
from tests.spark.test_states import SCHEMA, keyed_state, partitioned_state, rows, step


def claimed(lake: Catalog, name: str, filter: str | None = None) -> frozenset[str]:
    """What is said to hold no null, held against what the local reader returns."""
    plan, _ = Selection(pin(lake, lake.table(name), None), filter=filter).planned()
    found = without_nulls(plan)
    read = lake.read(name, filter=filter)
    assert {column for column in found if read.column(column).null_count} == set()
    return found


@pytest.mark.parametrize("seed", range(12))
def test_what_is_declared_holds(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lake = Catalog(tmp_path, inline_bytes=rng.choice([0, 1500]), chunk_rows=20, upkeep=False)
    table = lake.create_table("t", SCHEMA, partition_by=["shop"] if seed % 2 else [])
    table.append(rows(rng, table))
    told: set[str] = set()
    for _ in range(12):
        step(rng, table)
        for filter in (None, "shop = 's1'"):
            told |= claimed(lake, "t", filter)
    assert "shop" in told


def test_what_is_declared_holds_for_the_states_of_the_property_tests(tmp_path: Path) -> None:
    plain = Catalog(tmp_path / "plain", chunk_rows=4, inline_bytes=0, upkeep=False)
    states = [(plain, partitioned_state(plain, seed)) for seed in range(12)]
    states += [(keyed_state(tmp_path / f"keyed-{seed}", seed), "t") for seed in range(6)]
    told = [claimed(*state) for state in states]
    assert any(told)


def test_declared_by_the_format_and_by_load(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path, upkeep=False)
    df = spark.range(100).selectExpr("id", "if(id = 7, null, id) as n", "array(id, null) as list")
    save(df, lake, "t")

    def nullable(**options: str) -> tuple[Any, list[bool]]:
        frame = spark.read.format("crdtcat").options(**options).load(f"{tmp_path}/t")
        assert values(frame) == values(df)
        return frame, [field.nullable for field in frame.schema]

    assert nullable()[1] == [True, True, True]
    frame, known = nullable(not_null="true")
    assert known == [False, True, False]
    assert frame.schema["list"].dataType.containsNull
    ours = load(spark, lake, "t", native=False)
    assert [field.nullable for field in ours.schema] == [False, True, False]
    assert (values(ours), ours.filter("id is null or list is null").count()) == (values(df), 0)
    lake.table("t").update("id = 3", {"id": None})
    assert frame.filter("id is null").count() == 0  # pinned
    assert load(spark, lake, "t", native=False).filter("id is null").count() == 1
    spark.sql(
        f"create or replace temporary view tight using crdtcat options (path '{tmp_path}/t', not_null 'true')"
    )
    with pytest.raises(PySparkException, match="'not_null' is for reading a batch"):  # and for no insert
        spark.sql("insert into tight select null, null, null")
    assert spark.sql("select * from tight").schema["list"].nullable is False


def test_nulls_that_statistics_do_not_know_of_are_not_shown_as_values(tmp_path: Path) -> None:
    lake = Catalog(tmp_path, upkeep=False)
    lake.commit("t", pa.table({"a": [1, None], "b": [1, 2]}))
    wrong = Selection(pin(lake, lake.table("t"), None), not_null=frozenset({"a", "b"}))
    with pytest.raises(Corrupt, match="statistics of table 't': column 'a' has nulls"):
        list(wrong.batches([0]))
