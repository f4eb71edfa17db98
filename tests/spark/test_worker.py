"""Workers that run many tasks: what they would wait for, and what Spark's collections walk through."""

from __future__ import annotations

import gc
import pickle
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from crdtcat import Catalog
from crdtcat.spark import load
from crdtcat.spark.pinned import pin
from crdtcat.spark.reading import Selection
from crdtcat.spark.worker import SETTLED_AFTER, _Worker, acknowledge, task_begins
from crdtcat.spark.writing import plan_write


def test_imported_modules_are_set_apart_once(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path)
    lake.commit("t", {"id": [1, 2, 3]})
    for _ in range(4):  # two workers: one of them has had two tasks after three
        load(spark, lake, "t").collect()

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        assert sum(batch.num_rows for batch in batches) == 1
        settled, frozen = _Worker.tasks >= SETTLED_AFTER, gc.get_freeze_count()
        for _ in range(3):
            task_begins()
        kept: list[object] = []
        kept.append(kept)  # what a task makes is collected as ever
        del kept
        figures = {"frozen": [frozen], "later": [gc.get_freeze_count()], "found": [gc.collect()]}
        yield pa.record_batch({"settled": [settled], **figures})

    schema = "settled boolean, frozen long, later long, found long"
    rows = spark.range(0, 4, 1, 4).mapInArrow(look, schema).collect()
    assert max(row.frozen for row in rows if row.settled) > 10_000
    assert all(row.later <= row.frozen for row in rows if row.settled)  # nothing is added afterwards
    assert all(row.found >= 1 for row in rows)


def test_the_driver_is_left_alone() -> None:
    before = gc.get_freeze_count()
    for _ in range(3):
        task_begins()
    assert gc.get_freeze_count() == before


def _connection() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection, the second of which has answered before: it delays acknowledgements."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    for _ in range(3):
        one.sendall(b"question")
        assert other.recv(8) == b"question"
        other.sendall(b"answer")
        assert one.recv(6) == b"answer"
    return one, other


def _at_once(connection: socket.socket) -> bool:
    return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux has it")
def test_what_was_received_is_acknowledged_at_once() -> None:
    one, other = _connection()
    pair, datagrams = socket.socketpair(), socket.socket(type=socket.SOCK_DGRAM)
    with one, other, pair[0], pair[1], datagrams, tempfile.TemporaryFile():
        assert not _at_once(other)
        before = len(list(Path("/proc/self/fd").iterdir()))
        acknowledge()
        assert _at_once(other)
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        assert one.getblocking()
        assert other.getblocking()


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux has it")
def test_connections_keep_their_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = _connection()
    with one, other:
        monkeypatch.setattr(socket, "getdefaulttimeout", lambda: 1.0)  # as `setdefaulttimeout` would have it
        acknowledge()
        assert not _at_once(other)


def test_tasks_ask_for_their_input_when_they_are_unpickled(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path)
    lake.commit("t", {"id": [1, 2, 3]})
    pinned = pin(lake, lake.table("t"), None)
    plan = plan_write(lake, "t", st.StructType([st.StructField("id", st.LongType())]))
    sent = pickle.dumps([pinned, plan])

    def calls(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with mock.patch("crdtcat.spark.worker.acknowledge") as asked:
            found = pickle.loads(sent)
        assert found[0].head().snapshot == pinned.head().snapshot
        assert found[1].schema == plan.schema
        yield pa.record_batch({"calls": [asked.call_count]})

    (row,) = spark.range(1).coalesce(1).mapInArrow(calls, "calls long").collect()
    assert row.calls == 2
    with mock.patch("crdtcat.spark.worker.acknowledge") as asked:
        pickle.loads(sent)
    assert not asked.called  # the driver has no input to wait for


def test_rows_that_are_passed_on_lie_in_memory_that_is_kept(spark: Any, tmp_path: Path) -> None:
    """Arrow's own allocator would give it back and ask for it anew; what else runs in a worker keeps it."""
    lake = Catalog(tmp_path)
    lake.commit("t", {"id": [1, 2, 3]})
    selection = Selection(pin(lake, lake.table("t"), None))

    def pools(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        before, found = pa.default_memory_pool(), selection.batches([0])
        rows = next(found).num_rows
        within = pa.default_memory_pool()
        assert next(found, None) is None
        names = [pool.backend_name for pool in (before, within, pa.default_memory_pool())]
        yield pa.record_batch({"rows": [rows], "pools": [names]})

    (row,) = spark.range(1).coalesce(1).mapInArrow(pools, "rows long, pools array<string>").collect()
    own = pa.default_memory_pool().backend_name
    assert (row.rows, row.pools) == (3, [own, "system", own])
    found = selection.batches([0])
    next(found)
    assert pa.default_memory_pool().backend_name == own  # the driver's stays as it is


def test_rows_that_are_taken_in_lie_there_too(spark: Any, tmp_path: Path) -> None:
    lake = Catalog(tmp_path, inline_bytes=0)
    plan = plan_write(lake, "t", st.StructType([st.StructField("id", st.LongType())]))

    def pools(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = [pa.default_memory_pool().backend_name]

        def watched() -> Iterator[pa.RecordBatch]:
            names.append(pa.default_memory_pool().backend_name)
            yield from batches

        report = plan.run(watched(), 0)
        names.append(pa.default_memory_pool().backend_name)
        yield pa.record_batch({"rows": [report.rows], "pools": [names], "kept": [_Worker.keeps_pages]})

    (row,) = (
        spark.range(3).coalesce(1).mapInArrow(pools, "rows long, pools array<string>, kept boolean").collect()
    )
    own = pa.default_memory_pool().backend_name
    assert (row.rows, row.pools, row.kept) == (3, [own, "system", own], True)
    assert not _Worker.keeps_pages  # the driver's stays as it is


_FAULTS = """
import resource, sys
from crdtcat.spark.worker import keep_free_pages

if sys.argv[1] == "kept":
    keep_free_pages()
for _ in range(4):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batches = [bytearray(b"x") * 540_000 for _ in range(100)]  # as many as a stretch has
    del batches
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="GNU's C library can be told")
def test_free_pages_are_kept() -> None:
    """54 MB that are freed and needed again: the kernel clears none of their 13,000 pages."""
    faults = {}
    for how in ("kept", "as it is"):
        done = subprocess.run(
            [sys.executable, "-c", _FAULTS, how], capture_output=True, text=True, check=True
        )
        faults[how] = int(done.stdout)
    assert faults["as it is"] > 10_000
    assert faults["kept"] < 1_000
