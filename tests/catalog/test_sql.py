"""Queries over tables by name: one snapshot of all, nothing fetched that the query does not want."""

from __future__ import annotations

import sys
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog
from crdtcat.errors import InvalidArgument, NotFound, UnsupportedType
from crdtcat.scan.filters import parse_filter
from crdtcat.store.requests import RequestCounts
from tests.catalog.lakes import another, lake, objects

SALES = pa.table({
    "shop": ["north", "south", "north", "east"] * 250,
    "amount": [float(n) for n in range(1000)],
    "n": list(range(1000)),
})  # fmt: skip


@pytest.fixture
def catalog() -> Catalog:
    made = lake(inline_bytes=0, chunk_rows=100)
    made.commit("sales", SALES)
    made.commit("shops", [{"shop": "north", "city": "Oslo"}, {"shop": "south", "city": "Rome"}])
    return made


def fetched(catalog: Catalog, relation: Any) -> RequestCounts:
    """What DuckDB's reading of a relation asks of the store."""
    before = catalog.store.requests.snapshot()
    relation.fetchall()
    return catalog.store.requests.since(before)


def test_joins_groups_and_parameters(catalog: Catalog) -> None:
    found = catalog.sql(
        "select city, count(*), sum(amount) from sales join shops using (shop) where n < ? "
        "group by 1 order by 1",
        [100],
    )
    assert found.fetchall() == [("Oslo", 50, 2450.0), ("Rome", 25, 1225.0)]
    assert catalog.sql("from sales select max(n)").fetchall() == [(999,)]
    assert catalog.sql("select $a + 1 as x", {"a": 1}).fetchall() == [(2,)]
    with_names = (
        "with sales as (select * from sales where n < 3), other as (select 1) select n from sales, other"
    )
    assert sorted(catalog.sql(with_names).fetchall()) == [(0,), (1,), (2,)]
    assert catalog.sql("explain select 1").fetchall()
    cased = "select count(*) from SALES s where exists (select 1 from Shops where shop = s.shop)"
    assert catalog.sql(cased).fetchall() == [(750,)]


def test_only_what_the_query_wants_is_fetched(catalog: Catalog) -> None:
    everything = fetched(catalog, catalog.sql("select * from sales")).bytes_in
    one = catalog.sql("select n from sales where n = 555")
    narrow = catalog.table("sales").scan(["n"], "n = 555")
    narrow.to_table()
    before = catalog.store.requests.snapshot()
    narrow.to_table()
    wanted = catalog.store.requests.since(before)
    assert one.fetchall() == [(555,)]
    assert fetched(catalog, one).bytes_in == wanted.bytes_in < everything / 10
    several = catalog.sql("select n from sales where n in (5, 7, 950) and shop is not null")
    assert sorted(several.fetchall()) == [(5,), (7,), (950,)]
    assert fetched(catalog, several).get <= 4
    relation = catalog.table("sales").scan(["n", "shop"], "n >= 500").to_duckdb()
    assert relation.filter("n < 510").project("n").fetchall() == [(n,) for n in range(500, 510)]
    assert fetched(catalog, relation.filter("n < 510").project("n")).bytes_in == wanted.bytes_in


def test_what_duckdb_hands_over_is_understood() -> None:
    """How DuckDB writes `in`: unknown where there is no value, so that no chunk is whole by mistake."""
    schema = pa.schema([("a", pa.int64())])
    field = pc.field("a")
    expression = pc.if_else(
        field.is_valid(), pc.is_in(field, value_set=pa.array([1, 2])), pa.scalar(None, pa.bool_())
    )
    predicate = parse_filter(expression, schema).predicate
    assert predicate == parse_filter("a in (1, 2)", schema).predicate
    rows = pa.table({"a": [1, None, 3]}, schema)
    assert rows.filter(expression).to_pylist() == [{"a": 1}]


def test_one_snapshot_of_all_tables(catalog: Catalog) -> None:
    with catalog.transaction() as tx:
        tx.append("sales", SALES.slice(0, 1))
        tx.append("shops", [{"shop": "west", "city": "Bern"}])
    both = "select (select count(*) from sales), (select count(*) from shops)"
    relation = catalog.sql(both)
    with another(catalog).transaction() as tx:
        tx.append("sales", SALES.slice(0, 5))
        tx.append("shops", [{"shop": "far", "city": "Lima"}])
    for _ in range(2):
        assert relation.fetchall() == [(1001, 3)]  # as of when it was asked
    assert catalog.sql(both).fetchall() == [(1006, 4)]
    first = catalog.table("shops").history()[0].time
    assert catalog.sql("select count(*) from shops", at=first).fetchall() == [(2,)]


def test_a_transaction_between_two_tables_is_in_both_or_in_none(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed by somebody else after the first table was listed, and before the second was."""
    other, done = another(catalog), list[bool]()
    real = type(catalog.store).list_page

    def list_page(self: Any, prefix: str, *args: Any, **kwargs: Any) -> Any:
        if self is catalog.store and "tables/shops" in prefix and not done:
            done.append(True)
            with other.transaction() as tx:
                tx.append("sales", SALES.slice(0, 5))
                tx.append("shops", [{"shop": "far", "city": "Lima"}])
        return real(self, prefix, *args, **kwargs)

    monkeypatch.setattr(type(catalog.store), "list_page", list_page)
    found = catalog.sql("select (select count(*) from sales), (select count(*) from shops)").fetchall()[0]
    assert done
    assert found in ((1000, 2), (1005, 3))


def test_tables_of_every_kind() -> None:
    catalog = lake()
    keyed = catalog.create_table("keyed", pa.schema([("k", pa.int64()), ("v", pa.string())]), key=["k"])
    keyed.upsert([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    keyed.upsert([{"k": 2, "v": "c"}])
    strict = catalog.create_table("strict", pa.schema([("k", pa.int64()), ("Word", pa.string())]), mode="cas")
    strict.append([{"k": 2, "Word": "two"}, {"k": 3, "Word": "three"}])
    strict.update("k = 2", {"Word": "zwei"})
    query = 'select v, "Word" from keyed join strict using (k)'
    assert catalog.sql(query).fetchall() == [("c", "zwei")]
    empty = catalog.create_table("empty", pa.schema([("x", pa.dictionary(pa.int8(), pa.string()))]))
    assert catalog.sql("select * from empty").fetchall() == []
    empty.append([{"x": "a"}, {"x": None}])
    assert catalog.sql("select count(x), count(*) from empty where x = 'a' or x is null").fetchall() == [
        (1, 2)
    ]


def test_names_that_need_quotes(catalog: Catalog) -> None:
    catalog.commit("my-table", [{"a": 1}])
    catalog.commit("v1.2", [{"a": 2}])
    assert catalog.sql('select x.a, y.a from "my-table" x, "v1.2" y').fetchall() == [(1, 2)]
    for wrong, name in (("select * from my-table", "my-table"), ("select * from v1.2", "v1.2")):
        with pytest.raises(InvalidArgument, match=f'quoted: "{name}"'):
            catalog.sql(wrong)


def test_wrong_queries(catalog: Catalog) -> None:
    with pytest.raises(NotFound, match=r"no table 'salse'.*did you mean 'sales'"):
        catalog.sql("select * from salse")
    with pytest.raises(InvalidArgument, match="amonut"):
        catalog.sql("select amonut from sales")
    with pytest.raises(InvalidArgument, match="syntax error"):
        catalog.sql("selec 1")
    for wrong in (
        "",
        "select 1; select 2",
        "insert into sales values (1)",
        "drop table sales",
        "set threads = 1",
    ):
        with pytest.raises(InvalidArgument, match=r"one query|syntax"):
            catalog.sql(wrong)
    with pytest.raises(InvalidArgument, match="text, not int"):
        catalog.sql(1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="parameters=5"):
        catalog.sql("select ?", 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="connection=5"):
        catalog.sql("select 1", connection=5)
    sold = SALES  # noqa: F841 (a variable is no table)
    with pytest.raises(NotFound, match="sold"):
        catalog.sql("select * from sold")
    catalog.create_table("bare")
    with pytest.raises(InvalidArgument, match="'bare' has no columns"):
        catalog.sql("select * from bare")
    catalog.create_table("wide", pa.schema([("x", pa.decimal256(60, 2))]))
    with pytest.raises(UnsupportedType, match="DuckDB"):
        catalog.sql("select * from wide")
    assert catalog.table("sales").read().num_rows == 1000


def test_names_that_differ_by_case() -> None:
    catalog = lake()
    catalog.commit("t", [{"a": 1}])
    catalog.commit("T", [{"a": 2}])
    assert catalog.sql("select a from T").fetchall() == [(2,)]
    with pytest.raises(InvalidArgument, match="different tables"):
        catalog.sql("select * from t, T")


def test_a_connection_of_ones_own(catalog: Catalog) -> None:
    with duckdb.connect() as connection:
        connection.execute("create table mine as select 'north' as shop, 2 as factor")
        found = catalog.sql("select max(n * factor) from sales join mine using (shop)", connection=connection)
        assert found.fetchall() == [(2 * 998,)]


def test_damage_is_told_by_name(catalog: Catalog) -> None:
    sizes = objects(catalog)
    name = max((name for name in sizes if name.startswith("data/")), key=sizes.__getitem__)
    catalog.store.delete([name])
    with pytest.raises(duckdb.Error, match=name.rsplit("/", 1)[1]):
        another(catalog).sql("select * from sales").fetchall()


def test_without_duckdb(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InvalidArgument, match=r"crdtcat\[sql\]"):
        catalog.sql("select 1")
