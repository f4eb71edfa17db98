"""Storage options are never printed, logged, or part of a plan, an error, an event or a checkpoint.

Their names here are none that Spark would hide by itself (`secret`, `token`, `password`, ...)."""

from __future__ import annotations

import json
import logging
import secrets
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from crdtcat import Catalog
from crdtcat.chunks.segment import segment_name
from crdtcat.errors import CrdtcatError, InvalidArgument
from crdtcat.spark import register
from crdtcat.spark.options import parse_options

SECRET = "hush-" + secrets.token_hex(8)
STORAGE = json.dumps({"account_key": SECRET, "connection": SECRET})
NESTED = json.dumps({"client": {"more": {"n": 1}, "key": SECRET}, "connection": SECRET}, indent=1)
EXPLAINED = ("simple", "extended", "codegen", "cost", "formatted")


def explained(frame: Any) -> str:
    """Everything Spark shows of a frame."""
    execution = frame._jdf.queryExecution()
    shown = [frame._sc._jvm.PythonSQLUtils.explainString(execution, mode) for mode in EXPLAINED]
    return "".join([repr(frame), execution.toString(), *shown])


def said(action: Callable[[], object], message: str) -> str:
    """What an error says."""
    with pytest.raises((PySparkException, CrdtcatError), match=message) as raised:
        action()
    return f"{raised.value}{raised.value!r}"


@contextmanager
def logged(spark: Any, file: Path) -> Iterator[None]:
    """What Spark logs inside, at the level INFO, goes to a file."""
    log4j = spark._jvm.org.apache.logging.log4j
    root = log4j.LogManager.getContext(False).getConfiguration().getRootLogger()
    appender = log4j.core.appender.FileAppender.newBuilder().withFileName(str(file)).setName("kept").build()
    appender.start()
    root.addAppender(appender, log4j.Level.INFO, None)
    spark.sparkContext.setLogLevel("INFO")
    yield
    spark.sparkContext.setLogLevel("OFF")
    root.removeAppender("kept")
    appender.stop()


def events(spark: Any) -> str:
    """What Spark has noted of all that was done so far, for its own pages."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    folder = Path(spark.conf.get("spark.eventLog.dir").removeprefix("file:"))
    return "".join(path.read_text() for path in folder.rglob("events_*"))


def test_never_shown(
    spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "crdtcat")
    session = spark.newSession()
    register(session)
    lake = Catalog(tmp_path / "lake", inline_bytes=0, upkeep=False)
    for name in ("t", "damaged"):
        lake.commit(name, [{"id": 1}])
    with logged(spark, tmp_path / "spark.log"):
        shown = _batches(session, lake) + _stream(session, lake, tmp_path / "check")
    printed = "".join(capfd.readouterr()) + caplog.text + (tmp_path / "spark.log").read_text()
    noted = events(spark)
    assert "Starting task" in printed
    assert "CreateTempViewUsing" in noted
    assert "CreateTableAsSelect" in shown
    kept = "".join(
        path.read_text(errors="replace")
        for folder in ("check", "lake")
        for path in (tmp_path / folder).rglob("*")
        if path.is_file()
    )
    assert lake.read("t").num_rows == 4
    assert lake.read("copy").num_rows == 4
    for text in (shown, printed, noted, kept):
        assert SECRET not in text


def _batches(spark: Any, lake: Catalog) -> str:
    """Reads, writes and views that go well, and those that fail on the driver and in tasks."""

    def writer(frame: Any, **options: str) -> Any:
        return frame.write.format("crdtcat").options(storage_options=STORAGE, **options).mode("append")

    shown = ""
    for read_by in ("source", "function"):
        spark.conf.set("spark.crdtcat.read", read_by)
        reader = spark.read.format("crdtcat").option("storage_options", STORAGE)
        frame = reader.load(f"{lake.url}/t")
        shown += explained(frame)
        assert frame.count() == 1
    writer(spark.range(2)).save(f"{lake.url}/t")
    place = f"path '{lake.url}/t', storage_options '{STORAGE}'"
    spark.sql(f"create or replace temporary view secretive using crdtcat options ({place})")
    spark.sql("insert into secretive select 7")
    for statement in ("select * from secretive", "insert into secretive select 7"):
        shown += spark.sql(f"explain extended {statement}").collect()[0][0]
    for storage in (STORAGE, NESTED):
        place = f"path '{lake.url}/t', storage_options '{storage}'"
        for query in ("", " as select 7L as id"):
            statement = f"explain extended create table entered using crdtcat options ({place}){query}"
            shown += spark.sql(statement).collect()[0][0]
    shown += said(lambda: reader.load(f"{lake.url}/u"), "no table")
    text = spark.range(1).selectExpr("cast(id as string) as id")
    shown += said(lambda: writer(text).save(f"{lake.url}/t"), "E103.*column 'id'")
    nulls = spark.range(1).selectExpr("nullif(id, 0) as id")
    shown += said(lambda: writer(nulls, key="id").save(f"{lake.url}/k"), "'id' may not be null")
    return shown


def _stream(spark: Any, lake: Catalog, check: Path) -> str:
    """A stream from a table to another; then one whose tasks fail."""
    shown = ""
    (segment,) = lake.table("damaged").head().log.segment_name.tolist()
    Path(lake.url, segment_name(segment[:16], segment[16:])).write_bytes(b"")
    for name in ("t", "damaged"):
        stream = spark.readStream.format("crdtcat").option("storage_options", STORAGE)
        writer = stream.load(f"{lake.url}/{name}").writeStream.format("crdtcat").trigger(availableNow=True)
        where = {"catalog": lake.url, "table": "copy", "storage_options": STORAGE}
        query = writer.options(**where).option("checkpointLocation", str(check / name)).start()
        if name == "t":
            query.awaitTermination()
        else:
            shown += said(query.awaitTermination, "Corrupt")
        shown += f"{query.recentProgress}{query.lastProgress}{query.status}{query._jsq.explainInternal(True)}"
    return shown


def test_options_that_are_understood_and_not() -> None:
    place = {"path": "/lake/t"}
    options = parse_options({**place, "storage_options": STORAGE}, "read")
    assert options.storage["connection"] == SECRET
    shown = repr(options) + str(options)
    for wrong, message in (
        (STORAGE[:-1], "storage_options is not JSON"),
        (json.dumps([SECRET]), "JSON object"),
    ):
        with pytest.raises(InvalidArgument, match=message) as raised:
            parse_options({**place, "storage_options": wrong}, "read")
        shown += "".join(traceback.format_exception(raised.value))
    assert SECRET not in shown
