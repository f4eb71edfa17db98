"""What is wrong is said on the driver, by name, before a task starts."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from crdtcat import Catalog
from crdtcat.errors import InvalidArgument, NotFound, SchemaMismatch, UnsupportedType
from crdtcat.spark import (
    CrdtcatSource,
    checkpoint,
    collect,
    compact,
    foreach_batch,
    import_parquet,
    load,
    register,
    save,
    verify,
)
from crdtcat.spark.options import parse_options


@contextmanager
def no_job(spark: Any) -> Iterator[None]:
    """No Spark job is started inside."""
    group = secrets.token_hex(8)
    spark.sparkContext.setJobGroup(group, "an error is expected")
    yield
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(group) == []


def _fails(spark: Any, message: str, action: Callable[[], object]) -> str:
    """The action fails with a message, and no Spark job was started for it."""
    with no_job(spark), pytest.raises(Exception, match=message) as raised:
        action()
    return str(raised.value)


def test_reading(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake")
    save(spark.range(1), lake, "t")
    reader = spark.read.format("crdtcat").option("catalog", lake.url)
    _fails(spark, "no option 'tabel'", lambda: reader.option("tabel", "t").load())
    _fails(spark, "'table' is missing", lambda: spark.read.format("crdtcat").option("catalog", "x").load())
    plain = spark.read.format("crdtcat")
    _fails(spark, "E201.*no table 'u'", lambda: plain.load(f"{lake.url}/u"))
    _fails(spark, "has no column 'x'", lambda: plain.option("columns", "x").load(f"{lake.url}/t"))
    more = spark.read.format("crdtcat")
    _fails(spark, "E106", lambda: more.option("filter", "nothing = 1").load(f"{lake.url}/t"))
    other = spark.read.format("crdtcat")
    _fails(spark, "no tag 'never'", lambda: other.option("at", "never").load(f"{lake.url}/t"))
    given = spark.read.format("crdtcat").schema("id long")
    _fails(spark, "leave out .schema", lambda: given.load(f"{lake.url}/t").count())
    (tmp_path / "lake" / "crdtcat.json").write_text("{damaged")
    broken = spark.read.format("crdtcat")
    _fails(spark, "crdtcat.json", lambda: broken.load(f"{lake.url}/t"))
    with pytest.raises(NotFound, match="no table 'nowhere'"):
        load(spark, tmp_path / "other", "nowhere")
    Catalog("memory://errors").commit("t", [{"a": 1}])
    with pytest.raises(InvalidArgument, match="native=True"):
        load(spark, Catalog("memory://errors"), "t", native=True)


def test_writing(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake")
    save(spark.range(1), lake, "t")
    df = spark.range(3).selectExpr("cast(id as string) as id")

    def written(df: Any, **options: str) -> Callable[[], object]:
        return lambda: df.write.format("crdtcat").options(**options).mode("append").save()

    where = {"catalog": lake.url, "table": "t"}
    _fails(spark, "E103.*column 'id'", written(df, **where))
    _fails(spark, "E103.*'extra'", written(spark.range(1).selectExpr("id", "1 as extra"), **where))
    _fails(spark, "commit='both'", written(df, **where, commit="both"))
    _fails(spark, "partitioned by", written(spark.range(1), **where, partition_by="id"))
    _fails(spark, "E101", written(spark.range(1), catalog=lake.url, table="no/such"))
    odd = spark.range(1).selectExpr("id", "parse_json('1') as v")
    _fails(spark, "column v is variant", written(odd, catalog=lake.url, table="u"))
    for table in ("t", "u"):
        _fails(spark, "has no columns", written(spark.range(1).select(), catalog=lake.url, table=table))
    assert lake.read("t").num_rows == 1
    assert lake.tables() == ["t"]
    with no_job(spark), pytest.raises(InvalidArgument, match="use save outside of one"):
        foreach_batch(lake, "t")(spark.range(1), 0)
    with pytest.raises(UnsupportedType, match="column y is interval"):
        save(spark.range(1).selectExpr("make_ym_interval(1, 2) as y"), lake, "u")


def test_a_catalog_in_memory(spark: Any, registered: Any, tmp_path: Path) -> None:
    """Tasks and planners run in other processes, which would find it empty."""
    lake = Catalog("memory://of-this-process")
    lake.commit("t", [{"id": 1}])
    path = f"{lake.url}/t"

    def refused(action: Callable[[], object]) -> None:
        assert "E503" in _fails(spark, f"{lake.url} lives in the memory of one process", action)

    refused(lambda: load(spark, lake, "t"))
    refused(lambda: spark.read.format("crdtcat").load(path))
    refused(lambda: registered.read.format("crdtcat").load(path))
    refused(lambda: spark.readStream.format("crdtcat").load(path))
    refused(lambda: save(spark.range(1), lake, "u"))
    refused(lambda: save(spark.range(1), lake.url, "u", commit="task"))
    refused(lambda: spark.range(1).write.format("crdtcat").mode("append").save(path))
    refused(lambda: foreach_batch(lake, "t"))
    refused(lambda: import_parquet(spark, lake, "u", tmp_path))
    verbs: tuple[Callable[..., Any], ...] = (verify, compact, checkpoint)
    for verb in verbs:  # tasks would miss every segment, and every version
        refused(lambda verb=verb: verb(spark, lake, "t"))  # type: ignore[misc]
    refused(lambda: collect(spark, lake))
    assert lake.tables() == ["t"]


def test_streaming(spark: Any, tmp_path: Path) -> None:
    """Also where Spark asks for a reader or writer only when the query runs."""
    lake = Catalog(tmp_path / "lake", upkeep=False)
    for name in ("t", "broken"):
        lake.commit(name, [{"id": 1}])
    next(Path(lake.url, "tables/broken").rglob("settings*")).write_bytes(b"no settings")
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    numbers = iter(range(100))

    def run(table: str, output: str, to: Any, options: dict[str, str]) -> None:
        if to is None:
            rows = spark.readStream.format("crdtcat").options(**options).load(f"{lake.url}/{table}")
            writer = rows.writeStream.format("noop")
        else:
            where = {"catalog": lake.url, "table": table, **options}
            writer = to.writeStream.format("crdtcat").options(**where).outputMode(output)
        check = str(tmp_path / f"check-{next(numbers)}")
        query = writer.option("checkpointLocation", check).trigger(availableNow=True).start()
        query.awaitTermination()

    def refused(
        message: str, table: str = "t", output: str = "append", to: Any = None, **options: str
    ) -> None:
        """A stream from the table, or `to` it, ends with a message, and no job was started."""
        before = scheduler.numTotalJobs()
        with pytest.raises(PySparkException, match=message):
            run(table, output, to, options)
        assert scheduler.numTotalJobs() == before

    refused("no option 'tabel'", tabel="t")
    refused("E201.*no table 'u'", "u")
    refused("no tag 'never'", start="never")
    refused("E401.*tables/broken/settings.json", "broken")
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    ids = rows.selectExpr("value as id")
    refused("no option 'tabel'", to=ids, tabel="t")
    refused("commit='both'", to=ids, commit="both")
    refused("E103.*column 'id'", to=rows.selectExpr("cast(value as string) as id"))
    refused("E401.*tables/broken/settings.json", "broken", to=ids)
    counts = ids.groupBy("id").count()
    refused("outputMode.'complete'. is not supported.*mode='overwrite'", "new", "complete", to=counts)
    assert lake.tables() == ["broken", "t"]


def test_options() -> None:
    place = {"Catalog": "s3://b/lake", "TABLE": "t"}
    options = parse_options({**place, "columns": '["a,b", "c"]'}, "read")
    assert (options.catalog, options.table, options.columns) == ("s3://b/lake", "t", ("a,b", "c"))
    options = parse_options({**place, "partition_by": "day(ts), bucket(4, id)"}, "write")
    assert options.partition_by == ("day(ts)", "bucket(4, id)")
    assert parse_options({"path": "s3://b/lake/t/"}, "write").catalog == "s3://b/lake"
    assert parse_options({"path": "/l/t", "checkpointLocation": "x"}, "write").table == "t"
    assert parse_options({"path": "file:/l/lake/t"}, "read").catalog == "/l/lake"
    assert parse_options({"catalog": "file:///l/lake", "table": "t"}, "read").catalog == "file:///l/lake"
    assert parse_options({"path": "/l/t", "start": "latest"}, "stream").start == "latest"


@pytest.mark.parametrize(
    ("use", "given", "message"),
    [
        ("read", {"table": "u"}, "either the path"),
        ("stream", {"max_rows": "0"}, "max_rows='0'"),
        ("stream", {"max_rows": "9" * 5000}, "max_rows='9{80}': pass a number"),
        ("write", {"evolve": "perhaps"}, "evolve='perhaps'"),
        ("write", {"metadata": "[]"}, "metadata is a JSON object"),
        ("read", {"columns": "[1]"}, "a JSON list holds names"),
        ("stream", {"deletes": "keep"}, "deletes='keep'"),
        ("write", {"at": "x"}, "'at' is for reading a batch"),
        ("write", {"columns": "a"}, "'columns' is for reading a batch or reading a stream"),
        ("write", {"filter": "a = 1"}, "'filter'"),
        ("write", {"changes": "true"}, "'changes'"),
        ("write", {"start": "latest"}, "'start'"),
        ("write", {"max_rows": "3"}, "'max_rows' is for reading a stream"),
        ("stream", {"commit": "task"}, "'commit' is for reading a batch or writing"),
        ("batch", {"commit": "both"}, "commit='both'"),
        ("batch", {"key": "a"}, "'key' is for writing"),
        ("read", {"partition_by": "a"}, "'partition_by'"),
        ("stream", {"query": "a"}, "'query'"),
        ("write", {"not_null": "true"}, "'not_null' is for reading a batch"),
        ("stream", {"not_null": "true"}, "'not_null' is for reading a batch"),
        ("batch", {"not_null": "true", "changes": "true"}, "not changes"),
        ("batch", {"max_rows": "3"}, "'max_rows' is for reading a stream"),
        ("stream", {"at": "x"}, "'at' is for reading a batch"),
        ("batch", {"start": "latest"}, "'start' is for reading changes"),
        ("stream", {"changes": "true", "deletes": "ignore"}, "without changes"),
        ("read", {"option.catalog": "x"}, "CREATE TEMPORARY VIEW"),
        ("write", {"mergeSchema": "true"}, "no option 'mergeschema'; there are .*evolve"),
        ("write", {"overwriteSchema": "true"}, "no option 'overwriteschema'"),
        ("read", {"location": "x"}, "CREATE TEMPORARY VIEW"),
    ],
)
def test_wrong_options(use: Any, given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        parse_options({"path": "/l/t", **given}, use)


def test_relative_paths() -> None:
    """The format runs in processes of Spark's, wherever those are."""
    for place in ({"path": "lake/t"}, {"path": "./lake/t"}, {"catalog": "lake", "table": "t"}):
        with pytest.raises(InvalidArgument, match="is a relative path"):
            parse_options(place, "read")
    with pytest.raises(InvalidArgument, match="'catalog' is missing"):
        parse_options({"path": "t"}, "read")
    with pytest.raises(InvalidArgument, match="saveAsTable"):
        parse_options({}, "batch")
    with pytest.raises(InvalidArgument, match="CREATE TABLE AS has none for us"):
        parse_options({}, "write")


def test_what_is_no_session_and_no_frame(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path / "lake")
    lake.commit("t", [{"id": 1}])
    for rows in ([{"id": 2}], None, lake.read("t")):
        with pytest.raises(InvalidArgument, match="takes a DataFrame of Spark's, not"):
            save(rows, lake, "t")
    verbs: tuple[Callable[..., Any], ...] = (load, verify, compact, checkpoint)
    for other in (None, lake):
        for verb in verbs:
            with pytest.raises(InvalidArgument, match="pass the Spark session first"):
                verb(other, lake, "t")
        with pytest.raises(InvalidArgument, match="pass the Spark session first"):
            collect(other, lake)
        with pytest.raises(InvalidArgument, match="pass the Spark session first"):
            import_parquet(other, lake, "t", tmp_path)
    frame = spark.range(3)
    for commit in ("job", "task"):
        given: tuple[dict[str, Any], ...] = ({"key": "id"}, {"partition_by": "id"}, {"evolve": "no"})
        for wrong in given:
            with no_job(spark), pytest.raises(InvalidArgument, match=f"{next(iter(wrong))}=.*pass"):
                save(frame, lake, "new", commit=commit, **wrong)
    with pytest.raises(InvalidArgument, match="native='no'"):
        load(spark, lake, "t", native="no")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="columns='id': pass a list"):
        load(spark, lake, "t", columns="id")
    with pytest.raises(InvalidArgument, match="pass the Spark session first"):
        register(5)
    for commit in ("job", "task"):
        with no_job(spark), pytest.raises(InvalidArgument, match="this DataFrame is a stream"):
            save(spark.readStream.format("rate").load(), lake, "new", commit=commit)
    assert lake.tables() == ["t"]


@pytest.mark.parametrize("commit", ["job", "task"])
def test_what_a_task_refuses_is_said_as_it_is(spark: Any, tmp_path: Path, commit: str) -> None:
    lake = Catalog(tmp_path / "lake")
    frame = spark.range(0, 40_000, 1, 2).selectExpr("nullif(id, 3) as id")
    with pytest.raises(SchemaMismatch, match="'id' may not be null, and 1 rows are"):
        save(frame, lake, "t", key=["id"], commit=commit)
    assert ("t" in lake) == (commit == "task")
    writer = frame.write.format("crdtcat").options(key="id", commit=commit).mode("append")
    with pytest.raises(
        PySparkException, match=r"SchemaMismatch: \[E103\] column 'id' may not be null, and 1 rows"
    ):
        writer.save(f"{lake.url}/u")
    assert ("u" in lake) == (commit == "task")


@pytest.mark.parametrize("name", ["_change_type", "_CHANGE_TYPE", "_Version"])
def test_columns_that_changes_have_too(tmp_path: Path, name: str) -> None:
    Catalog(tmp_path).commit("t", {"id": [1], name: [2]})
    with pytest.raises(InvalidArgument, match=f"the table has a column '{name}', as the change feed does"):
        CrdtcatSource({"catalog": str(tmp_path), "table": "t", "changes": "true"}).schema()


def test_without_pyspark_the_extra_is_named() -> None:
    program = "import sys; sys.modules['pyspark'] = None\nimport crdtcat.spark"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    wanted = "ModuleNotFoundError: crdtcat.spark needs pyspark: pip install 'crdtcat[spark]'"
    assert done.stderr.splitlines()[-1] == wanted
