"""What newcomers type first, and what they are told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog, SchemaMismatch
from crdtcat.errors import Corrupt, Expired, InvalidArgument, InvalidFilter, InvalidName, NotFound
from tests.catalog.lakes import lake

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("v", pa.float64())])


@pytest.fixture
def cat() -> Catalog:
    catalog = lake(max_commit_delay_seconds=0)
    catalog.create_table("t", SCHEMA).append([{"id": 1, "name": "a", "v": 0.5}])
    catalog.create_table("k", SCHEMA, key=["id"]).append([{"id": 1, "name": "a", "v": 0.5}])
    return catalog


@pytest.mark.parametrize("keys", [1, "a", b"a", 1.5, True, None])
def test_one_key_is_no_list_of_keys(cat: Catalog, keys: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"list of keys|delete what"):
        cat.table("k").delete(keys=keys)
    assert cat.read("k").num_rows == 1


ODD: list[Any] = [
    ["b"],
    {},
    np.array([1, 2]),
    pa.table({"a": [1]}),
    pd.DataFrame({"a": [1]}),
    pc.field("a"),
    pd.NA,
]


@pytest.mark.parametrize("given", ODD, ids=lambda given: type(given).__name__)
def test_what_cannot_even_be_compared_with_a_text_is_no_word(cat: Catalog, given: Any) -> None:
    table = cat.table("t")
    for ask, part in (
        (lambda: cat.table("t", given), "no name of a branch"),
        (lambda: cat.read("t", branch=given), "no name of a branch"),
        (lambda: cat.commit("t", [{"id": 2}], branch=given), "no name of a branch"),
        (lambda: table.merge(given), "no name of a branch"),
        (lambda: table.verify(given), "depth="),
        (lambda: table.switch_mode(given), "mode="),
        (lambda: cat.create_table("u", mode=given), "mode="),
        (lambda: cat.transaction(isolation=given), "isolation="),
    ):
        with pytest.raises(InvalidArgument, match=part):
            ask()
    assert table.read().num_rows == 1


@pytest.mark.parametrize("values", [None, 5, "v = 1"])
def test_an_update_says_which_columns(cat: Catalog, values: Any) -> None:
    with pytest.raises(InvalidArgument, match="dict from columns to new values"):
        cat.table("t").update("id = 1", values)


def test_a_text_is_no_expression(cat: Catalog) -> None:
    for table in (cat.table("t"), cat.table("k")):
        with pytest.raises(SchemaMismatch, match=r"\{'v': pc.field\('v'\) \+ 1\}"):
            table.update("id = 1", {"v": "v + 1"})
        with pytest.raises(SchemaMismatch) as told:
            table.update("id = 1", {"name": 5})
        assert "pc.field" not in str(told.value)


def test_a_branch_is_named_apart(cat: Catalog) -> None:
    cat.table("t").branch("trial")
    for call in (cat.read, cat.table, cat.drop_table):
        with pytest.raises(InvalidName, match=r"table\('t', branch='trial'\)"):
            call("t@trial")
    with pytest.raises(InvalidName, match="use ASCII letters"):
        cat.table("t@")


def test_a_fork_is_joined(cat: Catalog) -> None:
    tx = cat.transaction()
    fork = tx.fork()
    with pytest.raises(InvalidArgument, match=r"join\(\) it"):
        fork.commit()
    tx.join(fork)


def test_verbs_that_are_no_part_of_a_transaction(cat: Catalog) -> None:
    with cat.transaction() as tx:
        table = tx.table("t")
        assert repr(table) == f"StagedTable('t' in {cat.url})"
        for name in ("tag", "branch", "compact", "expire", "restore"):
            with pytest.raises(AttributeError, match=rf"{name} is no part of .* catalog.table\('t'\)"):
                getattr(table, name)
        with pytest.raises(AttributeError, match="'StagedTable' object has no attribute 'nope'"):
            table.nope  # type: ignore[attr-defined]  # noqa: B018
        assert not hasattr(table, "__arrow_c_stream__")


@pytest.mark.parametrize("seconds", ["x", -1, float("nan"), True])
def test_seconds_are_a_number(cat: Catalog, seconds: Any) -> None:
    with pytest.raises(InvalidArgument, match="seconds="):
        cat.settle(seconds)
    with pytest.raises(InvalidArgument, match="grace="):
        cat.collect(grace=seconds)
    assert cat.settle(0.1)


@pytest.mark.parametrize("keep", [0, -1, "a", 1.5])
def test_how_many_versions_stay(cat: Catalog, keep: Any) -> None:
    with pytest.raises(InvalidArgument, match="how many versions"):
        cat.table("t").expire(keep_last=keep)


def test_a_snapshot_of_another_table(cat: Catalog) -> None:
    table = cat.table("t")
    table.append([{"id": 2}])
    table.expire(keep_last=1)
    with pytest.raises(Expired, match="of this table"):
        table.read(at=cat.table("k").head().snapshot)


def test_names_that_are_words_of_sql(cat: Catalog) -> None:
    for name in ("order", "a-b"):
        cat.commit(name, [{"v": 1}])
        with pytest.raises(InvalidArgument, match=f'quoted: "{name}"'):
            cat.sql(f"select v from {name}")
        assert cat.sql(f'select v from "{name}"').fetchall() == [(1,)]
    with pytest.raises(InvalidArgument) as told:
        cat.sql("select v from t order by")
    assert "quoted" not in str(told.value)
    with pytest.raises(NotFound, match="did you mean 'order'"):
        cat.sql("select v from orders")


@pytest.mark.parametrize("filter", ["where id = 1", "select * from t where id = 1", "id = 1 limit 5"])
def test_a_filter_is_the_condition_alone(cat: Catalog, filter: str) -> None:
    with pytest.raises(InvalidFilter, match="the condition alone"):
        cat.read("t", filter=filter)
    with pytest.raises(InvalidFilter) as told:
        cat.read("t", filter="id =")
    assert "alone" not in str(told.value)


def test_damage_says_what_to_do() -> None:
    error = Corrupt("data/x", "damaged")
    assert "data/x: damaged" in str(error)
    assert "verify()" in str(error)
    assert "backup" in str(error)


def test_what_is_returned_prints_short(cat: Catalog) -> None:
    table = cat.table("t")
    table.append([{"id": 2}])
    assert len(repr(table.scan().plan)) < 200
    assert "chunks" in repr(table.scan().plan)
    assert repr(table.proof(0)) == f"<{table.proof(0)}>"
    assert len(repr(table.proof(0))) < 200
    line = next(line for line in str(cat.stats()).splitlines() if line.startswith("t "))
    assert "to gain: checkpoint() and collect()" in line
    assert "to gain" not in str(lake().stats())
