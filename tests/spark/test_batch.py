"""Batch reads and writes: the format, load and save, both ways to commit, views and SQL."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceReader

from crdtcat import Catalog
from crdtcat.clock import HybridClock
from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import AlreadyExists, Corrupt, Expired, InvalidArgument, SchemaMismatch
from crdtcat.spark import CrdtcatSource, load, register, save
from crdtcat.spark.reading import deal
from tests.spark.rows import values


@pytest.mark.parametrize("commit", ["job", "task"])
def test_what_is_written_is_read_back(spark: Any, tmp_path: Path, commit: str) -> None:
    url = str(tmp_path / "lake")
    df = spark.range(0, 1000, 1, 4).selectExpr("id", "id % 7 as shop", "cast(id as string) as name")
    options = {"catalog": url, "table": "t", "commit": commit, "metadata": '{"from": "spark"}'}
    options["partition_by"] = "bucket(2, shop), name"
    df.write.format("crdtcat").options(**options).mode("append").save()
    table = Catalog(url).table("t")
    assert table.partition_by == ("bucket(2, shop)", "name")
    assert values(table.read()) == values(df)
    assert [version.metadata for version in table.history()] == [{"from": "spark"}] * (
        1 if commit == "job" else 4
    )
    back = spark.read.format("crdtcat").load(f"{url}/t")
    assert back.schema.simpleString() == "struct<id:bigint,shop:bigint,name:string>"
    assert values(back) == values(df)
    assert values(load(spark, url, "t")) == values(df)
    some = spark.read.format("crdtcat").options(catalog=url, table="t", columns="name", filter="shop = 3")
    assert values(some.load()) == values(df.filter("shop = 3").select("name"))


def test_overwrite_replaces_and_spares_what_came_meanwhile(spark: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "lake")
    save(spark.range(10), url, "t")
    df = spark.range(100, 105)
    df.write.format("crdtcat").mode("overwrite").save(f"{url}/t")
    assert values(Catalog(url).read("t")) == values(df)
    doubled = spark.read.format("crdtcat").load(f"{url}/t").selectExpr("id * 2 as id")
    Catalog(url).commit("t", [{"id": 7}])  # after doubled was loaded: not in what it reads
    doubled.write.format("crdtcat").mode("overwrite").save(f"{url}/t")
    assert values(Catalog(url).read("t")) == values(spark.range(200, 210, 2))
    with pytest.raises(InvalidArgument, match="task"):
        save(df, url, "t", mode="overwrite", commit="task")


def test_save_has_all_four_modes(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake")
    df = spark.range(0, 6, 1, 2).selectExpr("id", "id % 2 as half")
    (made,) = save(df, lake, "t", mode="errorifexists", partition_by=["half"], metadata={"run": 1})
    assert (made.rows, made.operation, dict(made.metadata)) == (6, "append", {"run": 1})
    assert lake.table("t").partition_by == ("half",)
    with pytest.raises(AlreadyExists, match="'t'"):
        save(df, lake, "t", mode="errorifexists")
    assert save(df, lake, "t", mode="ignore") == ()
    assert save(df, lake, "u", mode="ignore")[0].rows == 6
    (replaced,) = save(df.limit(1), lake, "t", mode="overwrite")
    assert replaced.operation == "overwrite"
    assert len(save(df, lake, "t", commit="task")) == 2
    assert lake.table("t").head().row_count == 7
    assert save(df.limit(0), lake, "t") == ()
    first: tuple[dict[str, Any], ...] = ({"query": "q"}, {"commit": "task"}, {"key": ["id"], "query": "q"})
    for number, more in enumerate(first):  # a stream may begin with a batch of nothing
        assert save(df.limit(0), lake, f"first{number}", **more) == ()
        assert save(df, lake, f"first{number}", **{**more, "query": "later"})
    with pytest.raises(InvalidArgument, match="mode='upsert'"):
        save(df, lake, "t", mode="upsert")


def test_a_repeated_query_counts_once(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake")
    df = spark.range(0, 100, 1, 4)
    for commit in ("job", "task"):
        for stands in (True, False):
            versions = save(df, lake, commit, commit=commit, query="nightly-2026-11-16")
            assert {version.stands for version in versions} == {stands}
        assert values(lake.read(commit)) == values(df)
    assert len(lake.table("job").head().void) == 1
    assert len(lake.table("task").head().void) == 4


def test_views_and_sql(spark: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "lake")
    save(spark.range(5), url, "t")
    spark.sql(f"create or replace temporary view v using crdtcat options (catalog '{url}', table 't')")
    assert spark.sql("select sum(id) s from v").collect()[0].s == 10
    spark.sql("insert into v select id + 10 from range(2)")
    assert Catalog(url).read("t").num_rows == 7
    spark.sql("insert into v select cast(null as long)")  # no row of the view has one, and the table may
    Catalog(url).table("t").delete("id is null")
    assert spark.sql("select count(*) n from v").collect()[0].n == 5  # the view is pinned
    tasks = f"create or replace temporary view v using crdtcat options (path '{url}/t', commit 'task')"
    spark.sql(tasks)
    before = Catalog(url).table("t").head().version
    spark.sql("insert into v select id + 20 from range(0, 4, 1, 2)")
    assert Catalog(url).table("t").head().version == before + 2
    assert spark.sql("select count(*) n from v").collect()[0].n == 7
    with pytest.raises(PySparkException, match="commit='task' appends"):
        spark.sql("insert overwrite v select id from range(3)")
    Catalog(url).table("t").delete("id >= 20")
    with pytest.raises(PySparkException, match="option 'query' is for writing"):
        spark.sql(f"create or replace temporary view u using crdtcat options (path '{url}/t', query 'q')")
    load(spark, url, "t").createOrReplaceTempView("w")
    assert spark.sql("select max(id) m from w where id > 3").collect()[0].m == 11


def test_what_spark_refuses_by_itself_names_the_mode(spark: Any, tmp_path: Path) -> None:
    for mode in ("errorifexists", "ignore"):
        with pytest.raises(PySparkException, match="Append"):
            spark.range(1).write.format("crdtcat").mode(mode).save(f"{tmp_path}/t")


def test_one_loaded_frame_in_any_mix_of_filters_unions_and_counts(spark: Any, tmp_path: Path) -> None:
    """Filter pushdown of Python sources leaks from one query into another: so none is offered."""
    url = str(tmp_path / "lake")
    save(spark.range(0, 1000, 1, 2).selectExpr("id", "id % 10 as k"), url, "t")
    for frame in (spark.read.format("crdtcat").load(f"{url}/t"), load(spark, url, "t")):
        assert frame.filter("k = 3").count() == 100
        assert frame.count() == 1000
        both = frame.filter("k = 1").union(frame.filter("k = 2")).union(frame)
        assert both.count() == 1200
        assert frame.filter("id < 10").join(frame.filter("k = 4"), "id").count() == 1
        assert frame.filter("k = 3 or id = 0").agg({"id": "sum"}).collect()[0][0] == 49800


def test_the_snapshot_is_pinned_at_load(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake")
    save(spark.range(10), lake, "t")
    frames = [spark.read.format("crdtcat").load(f"{lake.url}/t"), load(spark, lake, "t")]
    token = str(lake.table("t").head().snapshot)
    lake.table("t").overwrite([{"id": 99}])
    lake.table("t").checkpoint()
    for frame in frames:
        assert frame.count() == 10
        assert frame.agg({"id": "max"}).collect()[0][0] == 9
    old = spark.read.format("crdtcat").option("at", token).load(f"{lake.url}/t")
    assert old.count() == load(spark, lake, "t", at=token).count() == 10
    assert load(spark, lake, "t").collect()[0].id == 99


def test_a_frame_whose_files_were_collected_says_what_to_do(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(
        tmp_path / "lake", inline_bytes=0, upkeep=False, grace_seconds=0, max_commit_delay_seconds=0
    )
    table = lake.create_table("t", pa.schema([("id", pa.int64())]))

    def ids(reader: DataSourceReader) -> list[int]:
        """As tasks read them, whichever way our reader came to them. Here, since Spark tries a task again."""
        shares = reader.partitions()
        return [id for share in shares for batch in reader.read(share) for id in batch[0].to_pylist()]

    def loaded(**options: str) -> DataSourceReader:
        source = CrdtcatSource({"path": f"{lake.url}/t", **options})
        return source.reader(source.schema())

    def collected() -> None:
        table.expire(keep_last=1)
        for _ in range(2):  # condemned, then deleted
            lake.collect(grace=0)

    for at in range(3):
        table.append([{"id": at}])
    compacted, token = loaded(), str(table.head().snapshot)
    native = load(spark, lake, "t")
    table.compact()
    table.append([{"id": 3}])
    collected()
    with pytest.raises(Expired, match=f"table 't' was loaded: load it again; at='{token}' has the same rows"):
        ids(compacted)
    assert ids(loaded(at=token)) == [0, 1, 2]
    last = loaded()
    table.overwrite([{"id": 98}])
    table.overwrite([{"id": 99}])
    collected()
    for late in (compacted, last):
        with pytest.raises(Expired, match=r"snapshot \w+ .*table 't' was loaded: load it again$") as told:
            ids(late)
        assert str(told.value).count("E204") == 1
    with pytest.raises(Exception, match="FILE_NOT_EXIST") as raised:  # in the words of Spark's own reader
        native.agg({"id": "sum"}).collect()
    assert "recreating the Dataset/DataFrame" in str(raised.value)
    now = loaded()
    assert ids(now) == [99]
    shutil.rmtree(tmp_path / "lake" / "data")  # no collection did that
    with pytest.raises(Corrupt, match="missing"):
        ids(now)


def test_branches(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake")
    save(spark.range(3), lake, "t")
    lake.table("t").branch("b")
    spark.range(10, 12).write.format("crdtcat").option("branch", "b").mode("append").save(f"{lake.url}/t")
    save(spark.range(20, 21), lake, "t", branch="b", commit="task")
    assert load(spark, lake, "t").count() == 3
    assert load(spark, lake, "t", branch="b").count() == 6
    assert spark.read.format("crdtcat").option("branch", "b").load(f"{lake.url}/t").count() == 6


def test_registered_by_hand(spark: Any, tmp_path: Path) -> None:
    save(spark.range(3), tmp_path / "lake", "t")
    other = spark.newSession()
    other.conf.set("spark.sql.redaction.string.regex", "hidden before")
    for _ in range(2):  # the second time changes nothing
        register(other)
    for name in ("options", "string"):
        assert other.conf.get(f"spark.sql.redaction.{name}.regex").count("storage_options") == 1
    assert other.conf.get("spark.sql.redaction.string.regex").startswith("hidden before|")
    assert other.read.format("crdtcat").load(f"{tmp_path}/lake/t").count() == 3


def test_writing_from_threads(spark: Any, tmp_path: Path) -> None:
    """Spark looks for the format of what is written in the thread's session, and threads of Python have none
    until they are given one. `save` needs none."""
    rows = spark.range(3)

    def written() -> None:
        rows.write.format("crdtcat").mode("append").save(f"{tmp_path}/t")

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
            pool.submit(written).result()
        pool.submit(save, rows, tmp_path, "t").result()
        pool.submit(register, spark.newSession()).result()
        pool.submit(written).result()
    assert Catalog(tmp_path).read("t").num_rows == 6


def test_columns_are_added_where_that_is_asked_for(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake")
    save(spark.range(2), lake, "t")
    wider = spark.range(2, 4).selectExpr("id", "id * 1.5D as x")
    with pytest.raises(SchemaMismatch, match="'x'"):
        save(wider, lake, "t")
    save(wider, lake, "t", evolve=True)
    assert sorted(lake.read("t").column("x").to_pylist(), key=str) == [3.0, 4.5, None, None]
    assert values(load(spark, lake, "t")) == values(lake.read("t"))


def test_tidied_after_many_tasks(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake", bundle_every=4)
    save(spark.range(0, 80, 1, 8), lake, "t", commit="task")
    names = [item.name for item in lake.store.list("tables/t/main/")]
    assert any(name.endswith(".b") for name in names)  # the driver bundled what tasks had committed
    assert lake.table("t").head().version == 8


def test_shares_are_balanced_by_bytes() -> None:
    sizes = [5, 1, 1, 1, 1, 1, 30, 10, 10, 0, 20]
    shares = deal(sizes, 20)
    assert [number for share in shares for number in share] == list(range(len(sizes)))
    assert all(sum(sizes[number] for number in share) <= 20 + 30 for share in shares)
    even = deal([7] * 1000, 700)
    assert {len(share) for share in even} == {100}
    mib = [2**20]
    assert [len(deal(mib * count, None)) for count in (3, 40, 100, 270, 600, 2048)] == [1, 2, 4, 4, 8, 16]
    assert deal([], 10) == []
    assert deal([0, 0], None) == [(0, 1)]
    assert deal([10**15] * 3, 1) == [(0,), (1,), (2,)]  # however little a task is to read: no more than units


@pytest.mark.parametrize("commit", ["job", "task"])
def test_upserts(spark: Any, tmp_path: Path, commit: str) -> None:
    """A table with a key holds the last row of each, however many tasks wrote it, and reads so everywhere."""
    lake = Catalog(tmp_path / "lake")
    first = spark.range(0, 200, 1, 4).selectExpr("id", "0 as round", "cast(id as string) as name")
    where = {"catalog": lake.url, "table": "t", "key": "id", "commit": commit}
    first.write.format("crdtcat").options(**where).mode("append").save()
    assert lake.table("t").key == ("id",)
    later = spark.range(100, 300, 1, 3).selectExpr("id", "1 as round")  # leaves names as they are
    save(later, lake, "t", commit=commit)
    spark.range(0, 10).selectExpr("id", "2 as round").write.format("crdtcat").option("commit", commit).mode(
        "append"
    ).save(f"{lake.url}/t")
    wanted = [
        {"id": n, "round": 2 if n < 10 else int(n >= 100), "name": str(n) if n < 200 else None}
        for n in range(300)
    ]
    assert lake.read("t").to_pylist() == wanted
    for frame in (load(spark, lake, "t"), spark.read.format("crdtcat").load(f"{lake.url}/t")):
        assert sorted((row.asDict() for row in frame.collect()), key=lambda row: row["id"]) == wanted
    some = load(spark, lake, "t", columns=["name"], filter="round = 1 and id < 150")
    assert sorted(row.name for row in some.collect()) == sorted(str(n) for n in range(100, 150))


@pytest.mark.parametrize("commit", ["job", "task"])
def test_upserts_count_after_what_was_there_whatever_the_clocks_say(
    spark: Any, tmp_path: Path, commit: str
) -> None:
    """The machines of tasks may be behind the one that wrote before them."""
    ahead = Catalog(tmp_path / "lake", upkeep=False)
    ahead._clock = HybridClock(lambda: wall_ms() + 60_000)
    for name in ("saved", "formatted"):
        ahead.create_table(name, pa.schema([("id", pa.int64()), ("v", pa.string())]), key=["id"])
        ahead.commit(name, [{"id": 1, "v": "old"}])
    df = spark.createDataFrame([(1, "new")], "id long, v string")
    save(df, ahead.url, "saved", commit=commit)
    df.write.format("crdtcat").option("commit", commit).mode("append").save(f"{ahead.url}/formatted")
    for name in ("saved", "formatted"):
        assert ahead.read(name).to_pylist() == [{"id": 1, "v": "new"}]
