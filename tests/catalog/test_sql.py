"""Queries over tables by name: one snapshot of all, nothing fetched that the query does not want."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
import time
from contextlib import suppress
from subprocess import PIPE
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from crdtcat import Catalog
from crdtcat.errors import InvalidArgument, NotFound, UnsupportedType
from crdtcat.limits import SQL_NESTING_MAX
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
    real = type(catalog.store).list_names

    def list_names(self: Any, prefix: str, *args: Any, **kwargs: Any) -> Any:
        if self is catalog.store and "tables/shops" in prefix and not done:
            done.append(True)
            with other.transaction() as tx:
                tx.append("sales", SALES.slice(0, 5))
                tx.append("shops", [{"shop": "far", "city": "Lima"}])
        return real(self, prefix, *args, **kwargs)

    monkeypatch.setattr(type(catalog.store), "list_names", list_names)
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


def test_moments_with_a_zone_are_fetched() -> None:
    """DuckDB needs pytz for that, and does not bring it: `crdtcat[sql]` does."""
    catalog = lake()
    moment = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    for unit in ("s", "ms", "us", "ns"):
        at = pa.array([moment, None], pa.timestamp(unit, "Europe/Oslo"))
        catalog.commit(f"t_{unit}", pa.table({"moment": at}))
        relations = (
            catalog.sql(f"select moment from t_{unit}"),
            catalog.table(f"t_{unit}").scan().to_duckdb(),
        )
        for relation in relations:
            assert relation.fetchall() == [(moment,), (None,)]


def test_names_that_need_quotes(catalog: Catalog) -> None:
    catalog.commit("my-table", [{"a": 1}])
    catalog.commit("v1.2", [{"a": 2}])
    assert catalog.sql('select x.a, y.a from "my-table" x, "v1.2" y').fetchall() == [(1, 2)]
    for wrong, name in (("select * from my-table", "my-table"), ("select * from v1.2", "v1.2")):
        with pytest.raises(InvalidArgument, match=f'quoted: "{name}"'):
            catalog.sql(wrong)


def test_branches_stand_behind_a_sign(catalog: Catalog) -> None:
    """Beside the table itself, joined with it, in the past, and in other spellings."""
    branch = catalog.table("sales").branch("what-if")
    branch.update("n < 10", {"amount": 0.0})
    branch.tag("changed")
    branch.delete("n >= 900")
    catalog.table("shops").branch("what-if").append([{"shop": "east", "city": "Kyiv"}])
    counted = 'select count(*), sum(amount) from "sales@what-if"'
    assert catalog.sql(counted).fetchall() == [(900, 404505.0)]
    assert catalog.sql(counted.replace("sales@", "SALES@")).fetchall() == [(900, 404505.0)]
    assert another(catalog).sql(counted, at="changed").fetchall() == [(1000, 499455.0)]
    both = (
        'select count(*), count(b.n), sum(a.amount - b.amount) from sales a left join "sales@what-if" b '
        "on a.n = b.n"
    )
    assert catalog.sql(both).fetchall() == [(1000, 900, 45.0)]
    named = 'select "sales@what-if".n from "sales@what-if" where n = 5 union from "sales@main" select max(n)'
    assert sorted(catalog.sql(named).fetchall()) == [(5,), (999,)]
    cities = 'select city from "sales@what-if" join "shops@what-if" using (shop) where n = 3'
    assert catalog.sql(cities).fetchall() == [("Kyiv",)]
    assert catalog.sql('describe "sales@what-if"').fetchall()[0][0] == "shop"
    with pytest.raises(NotFound, match=r"table 'sales' in .* has no branch 'other'"):
        catalog.sql('from "sales@other"')
    with pytest.raises(NotFound, match="did you mean 'sales'"):
        catalog.sql('from "sale@what-if"')
    branch.append(SALES.slice(0, 1))
    assert catalog.sql(counted).fetchall() == [(901, 404505.0)]


@pytest.mark.parametrize("wrong", ["sales@", "@sales", "sales@a@b", "sales@../x", "sales@refs"])
def test_signs_that_name_no_branch(catalog: Catalog, wrong: str) -> None:
    with pytest.raises(NotFound):
        catalog.sql(f'from "{wrong}"')


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
    with pytest.raises(InvalidArgument, match="connection=5"):
        catalog.table("sales").scan().to_duckdb(5)
    with pytest.raises(InvalidArgument, match=r"pivot without its values.*in \('a', 'b'\)"):
        catalog.sql("pivot sales on shop using sum(n)")
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


def test_nothing_in_a_connection_changes_its_meaning() -> None:
    catalog = lake()
    catalog.commit("debit", [{"n": 1}])
    catalog.commit("credit", [{"n": 1}])
    with duckdb.connect() as connection:
        connection.execute("create table debit as select 100 as n")
        both = "select (select sum(n) from debit) d, (select sum(n) from credit) c"
        pair = catalog.sql(both, connection=connection)
        with catalog.transaction() as tx:
            tx.append("debit", [{"n": 5}])
            tx.append("credit", [{"n": 5}])
        assert catalog.sql("select count(*) from debit", connection=connection).fetchall() == [(2,)]
        assert pair.fetchall() == [(1, 1)]
        assert connection.sql("from debit").fetchall() == [(100,)]
        views = "select count(*) from duckdb_views() where view_name like '%crdtcat%'"
        before = connection.sql(views).fetchall()
        assert catalog.sql("with debit as (select 7) from debit", connection=connection).fetchall() == [(7,)]
        with pytest.raises(InvalidArgument, match="nowhere") as wrong:
            catalog.sql("select nowhere from debit", connection=connection)
        assert "_crdtcat_" not in str(wrong.value)
        with connection.cursor() as cursor:
            assert catalog.sql("select sum(n) from credit", connection=cursor).fetchall() == [(6,)]
        assert connection.sql(views).fetchall() == before


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("with a as (select * from b), b as (select 5 as n) from a", [10]),
        ("with b as (select 5 as n), a as (select * from B) from a", [5]),
        ("with a as (select n + 1 as n from a) select n from a union all select n from A", [2, 2]),
        ("with recursive a as (select n from a union all select n + 1 from a where n < 3) from a", [1, 2, 3]),
        ("with recursive a as (select n from a) from a", [1]),
        ("with a as (select 7 as n) from (with a as (select n + 1 as n from a) from a)", [8]),
        ("select a.n from (with a as (select 7) from a), a", [1]),
        ("select a.n + x.n from a, b as x where exists (with b as (from a) from b where b.n = a.n)", [11]),
        ("select 'é🙂\n', a.n from /* a */ \"a\" tablesample 100%", [1]),
        ("table a", [1]),
        ("from x : a select x.n", [1]),
        ("from a pivot (sum(n) for n in (1)) as p", [1]),
        ("pivot a on n in (1) using sum(n)", [1]),
        ("select s.n from a s(n), 'b' where b.n = 10", [1]),
    ],
)
def test_what_a_name_means_is_what_duckdb_says(query: str, found: list[int]) -> None:
    catalog = lake()
    catalog.commit("a", [{"n": 1}])
    catalog.commit("b", [{"n": 10}])
    with duckdb.connect() as plain:
        plain.execute("create table a as select 1 as n; create table b as select 10 as n")
        expected = plain.sql(query)
        answer = catalog.sql(query)
        assert answer.columns == expected.columns
        assert answer.fetchall() == expected.fetchall()
    assert [row[-1] for row in answer.fetchall()] == found


def test_queries_about_queries(catalog: Catalog, capfd: pytest.CaptureFixture[str]) -> None:
    for explain in (
        "explain",
        "EXPLAIN analyze",
        "-- why\n/* so */ explain /* all */ analyze",
        "explain (format json)",
        "explain (analyze, format json)",
    ):
        for query in ("select count(*) from sales", "(select max(n) from sales s)"):
            assert catalog.sql(f"{explain} {query}").fetchall()
    assert [row[0] for row in catalog.sql("describe sales").fetchall()] == ["shop", "amount", "n"]
    assert len(catalog.sql("select * from (summarize sales)").fetchall()) == 3
    assert capfd.readouterr().err == ""


def test_tables_are_shown(catalog: Catalog, capfd: pytest.CaptureFixture[str]) -> None:
    catalog.create_table("empty")
    names = [("empty",), ("sales",), ("shops",)]
    for query in (
        "show tables",
        "SHOW TABLES;",
        "-- all\n show all tables",
        "describe",
        "show",
        "desc tables",
    ):
        assert catalog.sql(query).fetchall() == names
    for query in ("show sales", 'Show /* its */ "sales"', "describe sales", "desc sales;"):
        assert [row[0] for row in catalog.sql(query).fetchall()] == ["shop", "amount", "n"]
    with pytest.raises(NotFound, match=r"'sale'.*mean 'sales'"):
        catalog.sql("show sale")
    connection = duckdb.connect()
    connection.sql("create table mine (x int)")
    catalog.sql("from sales", connection=connection)
    assert catalog.sql("show tables", connection=connection).fetchall() == sorted([*names, ("mine",)])
    assert catalog.sql("show databases").fetchall() == [("memory",)]
    assert lake().sql("show tables").fetchall() == []
    assert capfd.readouterr().err == ""


LONG = """
import signal, sys
import duckdb, sqlglot
from crdtcat import Catalog
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may not listen to it
catalog = Catalog("memory://lake")
catalog.commit("t", [{"a": n} for n in range(1000)])
print("begun", flush=True)
catalog.sql("explain analyze select count(*) from " + sys.argv[1])
"""


@pytest.mark.parametrize(
    "rows", ["range(100000000000) where range % 7 = 3", "t, t, t, t, t where random() < 0"]
)
@pytest.mark.parametrize("after", [0, 0.05, 0.5])
def test_an_interrupt_is_one(rows: str, after: float) -> None:
    with subprocess.Popen([sys.executable, "-c", LONG, rows], stdout=PIPE, stderr=PIPE, text=True) as asking:
        try:
            assert asking.stdout is not None
            assert asking.stdout.readline() == "begun\n"
            time.sleep(after)
            wrong, sent = "", 0
            while not wrong and sent < 4:
                asking.send_signal(signal.SIGINT)
                sent += 1
                with suppress(subprocess.TimeoutExpired):
                    _, wrong = asking.communicate(timeout=30)
        finally:
            asking.kill()
    assert (asking.returncode, wrong.splitlines()[-1]) == (-signal.SIGINT, "KeyboardInterrupt")
    # One that comes while Python ends a generator or calls a finalizer is lost to everybody; it says so.
    assert sent == 1 or "Exception ignored in" in wrong


@pytest.mark.parametrize("library", ["duckdb", "polars", "pandas"])
def test_a_library_that_is_missing_is_named_and_an_interrupt_of_its_import_is_one(
    catalog: Catalog, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = catalog.table("sales").scan()
    ask = {"duckdb": scan.to_duckdb, "polars": scan.to_polars, "pandas": scan.to_pandas}[library]
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InvalidArgument, match=rf"needs {library}: pip install 'crdtcat\["):
        ask()

    def interrupted(_: str) -> None:
        raise ImportError("Encountered an error while initializing the extension") from KeyboardInterrupt()

    monkeypatch.setattr("crdtcat.scan.frames.importlib.import_module", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask()


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


def test_brackets_too_deep_inside_each_other_are_refused_by_name_and_others_are_not(catalog: Catalog) -> None:
    """DuckDB's parser ends the process where subqueries are nested 100,000 deep."""
    catalog.commit("t", [{"a": 1}])
    deep = SQL_NESTING_MAX + 1
    for text in (
        "select * from (" * 100_000 + "select 1" + ")" * 100_000,
        "select " + "[" * deep + "1" + "]" * deep,
    ):
        with pytest.raises(InvalidArgument, match=f"more than {SQL_NESTING_MAX} brackets"):
            catalog.sql(text)
    many = "(" * deep
    no_brackets = f"select '{many}' as x, $$[[{many}$$ as y /* {many} */ from t -- {many}"
    assert catalog.sql(no_brackets).fetchall() == [(many, "[[" + many)]
    side_by_side = "select " + ", ".join(["(1)"] * deep) + " from t"
    assert len(catalog.sql(side_by_side).fetchall()[0]) == deep
