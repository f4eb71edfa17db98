"""Findings of a hostile reading, each kept so that it cannot come back."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import InvalidArgument, InvalidFilter, InvalidName, NotFound, SchemaMismatch

_numbers = itertools.count()


def lake() -> Catalog:
    return Catalog(f"memory://review-{os.getpid()}-{next(_numbers)}", upkeep=False)


NULLS_BESIDE_TEXTS = """
from crdtcat import Catalog
catalog = Catalog("memory://nulls", upkeep=False)
catalog.create_table("t")
def stranger():
    return Catalog(catalog.store, upkeep=False)
stranger().commit("t", [{"b": None}])
stranger().commit("t", [{"b": "apple", "x": 1}])
for value in ("melon", "zebra", "kiwi", "fig"):
    stranger().commit("t", [{"b": value}])
for value in ("apple", "melon", "zebra", "kiwi", "fig"):
    found = catalog.read("t", filter=f"b = '{value}'")["b"].to_pylist()
    assert found == [value], (value, found)
scan = catalog.table("t").scan(filter="b >= 'k'")
assert len(scan.to_table()) == scan.count() == 3
assert catalog.table("t").scan(filter="b is null").count() == 1
"""


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_a_batch_of_nulls_does_not_shift_the_bounds_of_others(seed: str) -> None:
    subprocess.run(
        [sys.executable, "-c", NULLS_BESIDE_TEXTS], check=True, env={**os.environ, "PYTHONHASHSEED": seed}
    )


@pytest.mark.parametrize("seconds", [10**13, 10**15, -(10**13)])
def test_moments_beyond_microseconds_do_not_harm_the_table(seconds: int) -> None:
    catalog = lake()
    catalog.commit("t", [{"a": 1}])
    far = pa.table({"a": [2], "ts": pa.array([seconds], pa.timestamp("s"))})
    version = catalog.commit("t", far, evolve=True)
    assert version.time_range is None
    assert catalog.read("t")["a"].to_pylist() == [1, 2]
    assert catalog.read("t")["ts"].cast(pa.int64()).to_pylist() == [None, seconds]


@pytest.mark.parametrize("value", [{(1, 2): 3}, {"x": {(1,): 2}}, object(), {1, 2}, "\ud800"])
def test_properties_and_metadata_that_no_reader_gets_back(value: Any) -> None:
    catalog = lake()
    catalog.commit("t", [{"a": 1}])
    table = catalog.table("t")
    with pytest.raises(InvalidArgument, match="cannot be stored"):
        table.set_properties(p=value)
    with pytest.raises(InvalidArgument, match="cannot be stored"):
        table.append([{"a": 2}], metadata={"m": value})
    with pytest.raises(InvalidArgument, match="cannot be stored"):
        table.set_properties(**{"\ud800": 1})
    assert table.read().num_rows == 1


@pytest.mark.parametrize(
    "filter",
    [
        pc.divide(pc.scalar(1), pc.field("a")) > 0,
        pc.field("s").cast(pa.int64()) > 1,
        pc.match_substring_regex(pc.field("s"), "("),
    ],
)
def test_a_filter_that_fails_on_a_row(filter: Any) -> None:
    catalog = lake()
    catalog.commit("t", [{"a": 0, "s": "x"}])
    with pytest.raises(InvalidFilter):
        catalog.read("t", filter=filter)


def test_names_of_the_wrong_kind() -> None:
    catalog = lake()
    catalog.commit("t", [{"a": 1}])
    table: Any = catalog.table("t")
    with pytest.raises(InvalidName):
        table.add_column(["a"], pa.int64())
    with pytest.raises(NotFound):
        table.drop_column([])
    with pytest.raises(InvalidArgument):
        table.scan([["a"]])
    with pytest.raises(InvalidArgument):
        table.reorder_columns(None)
    with catalog.transaction() as tx:
        for name in (["t"], 5, None):
            with pytest.raises(InvalidName, match="is a str, not"):
                tx.append(name, [{"a": 1}])  # type: ignore[arg-type]
    assert catalog.read("t").num_rows == 1


def test_arguments_of_the_wrong_kind() -> None:
    catalog: Any = lake()
    calls: list[Callable[..., Any]] = [Catalog, partial(catalog.import_parquet, "t")]
    for options in (5, "key", ["key"]):
        for call in calls:
            with pytest.raises(InvalidArgument, match="storage_options is a map"):
                call("memory://other", storage_options=options)
    for place in (5, dt.date(2024, 1, 1), b"lake"):
        for call in calls:
            with pytest.raises(InvalidArgument, match="is no place"):
                call(place)
    with pytest.raises(InvalidArgument, match="partition_by=5"):
        catalog.create_table("t", partition_by=5)
    assert catalog.tables() == []


@pytest.mark.parametrize("flag", ["no", "", 0, 1, None, [False]])
def test_flags_are_true_or_false(flag: Any) -> None:
    """Every text that is not empty counts as true in Python, "no" as well."""
    catalog: Any = lake()
    table: Any = catalog.create_table("t", pa.schema([("a", pa.int64())]))
    keyed: Any = catalog.create_table("k", pa.schema([("a", pa.int64())]), key=["a"])
    table.append([{"a": 1}])
    table.tag("x")
    before = len(table.history())
    rows = [{"a": 1, "more": 2}]
    calls: dict[str, list[Callable[..., Any]]] = {
        "evolve": [
            partial(table.append, rows),
            partial(table.overwrite, rows),
            partial(keyed.upsert, rows),
            partial(catalog.commit, "t", rows),
            partial(catalog.commit, "new", rows),
            partial(catalog.import_parquet, "t", "memory://nothing"),
        ],
        "as_they_are": [partial(catalog.import_parquet, "t", "memory://nothing")],
        "replace": [partial(table.tag, "x")],
        "exist_ok": [partial(catalog.create_table, "t"), partial(catalog.create_table, "new")],
        "dry_run": [catalog.collect, partial(table.expire, keep_last=1)],
        "blind": [keyed.lost_cells],
    }
    for name, verbs in calls.items():
        for verb in verbs:
            with pytest.raises(InvalidArgument, match=f"{name}=.*True or False"):
                verb(**{name: flag})
    assert catalog.tables() == ["k", "t"]
    assert len(table.history()) == before


def test_flags_may_be_those_of_numpy() -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("a", pa.int64())]))
    yes: Any = np.True_
    table.append([{"a": 1, "b": 2}], evolve=yes)
    assert catalog.create_table("t", exist_ok=yes).scan(verify=yes).count() == 1
    assert table.schema.names == ["a", "b"]


ENDLESS = """
from crdtcat import Catalog, errors
import pandas as pd
catalog = Catalog("memory://endless", upkeep=False)
catalog.create_table("declared", __import__("pyarrow").schema([("a", "int64")]))
itself = []
itself += [itself, itself]
within = {"x": [1, ({},)]}
within["x"][1][0]["y"] = within
deep = 1
for _ in range(100_000):
    deep = [deep]
for value in (itself, within, deep):
    frame = pd.DataFrame({"a": [value]})
    for rows in ([{"a": 1}, {"a": value}], {"a": [value]}, frame, [{"a": [1, {"b": value}]}]):
        for table in ("new", "declared"):
            try:
                catalog.commit(table, rows)
            except errors.LimitExceeded as error:
                assert "'a' is nested deeper than" in str(error), error
            else:
                raise AssertionError(value)
assert catalog.tables() == ["declared"]
"""


def test_values_nested_without_end() -> None:
    """Python crashed: pyarrow goes as deep as there is memory."""
    ended = subprocess.run([sys.executable, "-c", ENDLESS], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_look_alikes_are_refused_when_they_are_made() -> None:
    catalog = lake()
    catalog.commit("t", [{"fi": 1, "b": 2}])
    with pytest.raises(InvalidName):
        catalog.table("t").rename_column("b", "\ufb01")


def partitioned(values: list[Any], type: pa.DataType) -> Table:
    table = lake().create_table("t", pa.schema([("p", type), ("v", pa.int64())]), partition_by=["p"])
    table.append({"p": values, "v": list(range(len(values)))})
    return table


@pytest.mark.parametrize(
    ("values", "type", "where", "left"),
    [
        (["a" * 64, "a" * 65, "b"], pa.string(), f"p = '{'a' * 64}'", 2),
        ([1.0, float("nan"), 2.0, None], pa.float64(), "p = 1", 3),
        ([1.0, float("nan"), 2.0, None], pa.float64(), "p > 0.5", 1),
        ([1.0, float("nan"), 2.0, None], pa.float64(), "isnan(p)", 3),
        ([1, 2, None], pa.int64(), "p is null", 2),
        ([1, 2, None], pa.int64(), "p <> 1", 2),
    ],
)
def test_partitions_by_value_are_told_apart_exactly(
    values: list[Any], type: pa.DataType, where: str, left: int
) -> None:
    table = partitioned(values, type)
    expected = len(values) - table.scan(filter=where).count()
    table.overwrite(table.schema.empty_table(), where=where)
    assert table.scan().count() == left == expected


def test_text_of_a_frame_that_is_no_unicode_is_refused() -> None:
    frame = pd.DataFrame({"t": pd.Series(["\ud800"], dtype=object)})
    catalog = lake()
    with pytest.raises(SchemaMismatch, match=r"column 't', row 0: .* no Unicode text"):
        catalog.commit("t", frame)
    assert catalog.tables() == []
