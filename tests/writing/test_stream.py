"""The stream writer: one pass, bounded memory, nothing visible before its commit."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import InvalidArgument, SchemaMismatch
from crdtcat.writing import stage
from tests.catalog.lakes import another, lake, objects, rows
from tests.memory import arrow_bytes

SCHEMA = pa.schema([("n", pa.int64()), ("noise", pa.binary())])


def batches(count: int, size: int = 256 * 1024) -> Iterator[pa.RecordBatch]:
    """Batches of about `size` bytes that no encoder makes smaller."""
    for n in range(count):
        noise = np.random.default_rng(n).bytes(size)
        cells = [noise[at : at + 1024] for at in range(0, size, 1024)]
        yield pa.record_batch({"n": pa.array([n] * len(cells), pa.int64()), "noise": pa.array(cells)})


def streaming() -> tuple[Catalog, Table]:
    catalog = lake(segment_bytes=2**20)
    return catalog, catalog.create_table("t", SCHEMA)


def test_visible_all_at_once_on_leaving() -> None:
    catalog, table = streaming()
    reader = another(catalog)
    with table.stream(metadata={"job": 7}, key="once") as stream:
        for batch in batches(9):
            stream.write(batch)
            assert reader.table("t").scan().count() == 0
            assert len(reader.table("t").history()) == 0
    version = stream.version
    assert version is not None
    assert version == table.history()[0]
    assert (version.metadata, version.key) == ({"job": 7}, "once")
    assert stream.rows == version.rows == reader.table("t").scan().count() == 9 * 256
    assert reader.read("t") == pa.Table.from_batches(batches(9))
    assert sum(name.startswith("data/") for name in objects(catalog)) == 3  # segments filled up on the way


def test_a_small_stream_is_one_put() -> None:
    catalog, table = streaming()
    before = catalog.store.requests.snapshot()
    with table.stream() as stream:
        stream.write([{"n": 1}])
        stream.write([{"n": 2}])
    used = catalog.store.requests.snapshot() - before
    assert (used.put, used.get, used.list) == (1, 0, 0)
    assert [row["n"] for row in rows(table.read())] == [1, 2]


def test_an_error_aborts() -> None:
    def fail_in_the_middle() -> None:
        with table.stream() as stream:
            for batch in batches(9):
                stream.write(batch)
            raise ZeroDivisionError

    _, table = streaming()
    with pytest.raises(ZeroDivisionError):
        fail_in_the_middle()
    assert len(table.history()) == 0
    assert table.scan().count() == 0


@pytest.mark.parametrize("end", ["abort", "close"])
def test_abort_and_close_leave_nothing_visible(end: str) -> None:
    _, table = streaming()
    stream = table.stream()
    for batch in batches(6):
        stream.write(batch)
    getattr(stream, end)()
    assert len(table.history()) == 0
    for use in (stream.commit, lambda: stream.write([{"n": 1}])):
        with pytest.raises(InvalidArgument, match="closed"):
            use()
    getattr(stream, end)()  # harmless


@pytest.mark.parametrize("end", ["abort", "close"])
def test_what_was_committed_stays_told(end: str) -> None:
    _, table = streaming()
    stream = table.stream()
    stream.write([{"n": 1}, {"n": 2}])
    version = stream.commit()
    getattr(stream, end)()
    assert (stream.rows, stream.version) == (2, version)
    assert f"2 rows, committed {version.id}" in repr(stream)
    assert table.scan().count() == 2


def test_committed_by_hand_and_used_after() -> None:
    _, table = streaming()
    with table.stream() as stream:
        stream.write([{"n": 1}])
        version = stream.commit()
        with pytest.raises(InvalidArgument, match="closed"):
            stream.write([{"n": 2}])
        with pytest.raises(InvalidArgument, match="closed"):
            stream.commit()
    assert [item.id for item in table.history()] == [version.id]


def test_nothing_written() -> None:
    _, table = streaming()
    with table.stream():
        pass
    assert len(table.history()) == 0
    with pytest.raises(InvalidArgument, match="nothing was written"):
        table.stream().commit()


def test_later_batches_in_any_order_and_without_columns_that_may_be_null() -> None:
    _, table = streaming()
    with table.stream() as stream:
        stream.write([{"n": 1, "noise": b"a"}])
        stream.write(pa.table({"noise": [b"b"], "n": [2]}))
        stream.write([{"noise": b"c"}])
    assert rows(table.read()) == [
        {"n": 1, "noise": b"a"},
        {"n": 2, "noise": b"b"},
        {"n": None, "noise": b"c"},
    ]


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (pa.table({"n": ["3"]}), "'n'"),
        (pa.table({"n": [3], "more": [1]}), "'more'"),
        (None, "cannot take rows from NoneType"),
        (7, "cannot take rows from int"),
    ],
)
def test_every_batch_is_checked(data: Any, part: str) -> None:
    table = lake().create_table("t")
    with table.stream() as stream:
        stream.write(pa.table({"n": [1]}))
        with pytest.raises((SchemaMismatch, InvalidArgument), match=part):
            stream.write(data)
        stream.write(pa.table({"n": [2]}))
    assert rows(table.read()) == [{"n": 1}, {"n": 2}]


def test_a_batch_that_breaks_in_the_middle_is_never_committed_by_half() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"n": [2]})
        raise ZeroDivisionError

    def go_on_regardless() -> None:
        with table.stream() as stream:
            stream.write(pa.table({"n": [1]}))
            with pytest.raises(ZeroDivisionError):
                stream.write(broken())
            with pytest.raises(InvalidArgument, match="closed"):
                stream.write(pa.table({"n": [3]}))

    table = lake().create_table("t")
    with pytest.raises(
        InvalidArgument, match="failed halfway"
    ):  # rows that were taken are not lost in silence
        go_on_regardless()
    assert len(table.history()) == 0


def peak(count: int) -> int:
    """The most that Arrow takes while so many batches are streamed."""
    _, table = streaming()
    gc.collect()
    start, most = arrow_bytes(), 0
    with table.stream() as stream:
        for batch in batches(count):
            stream.write(batch)
            most = max(most, arrow_bytes() - start)
    return most


def peak_of_many(cores: int) -> int:
    """Of a stream of 160 MiB, encoded by so many threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stage, "_cores", lambda: cores)
        return peak(640)


@pytest.mark.parametrize("cores", [1, 2])
def test_memory_does_not_grow_with_the_stream(cores: int) -> None:
    """In a process of its own: Arrow counts for all of one, and other tests may have left threads at work.

    How far threads have come when one looks is chance, so that two streams cannot be compared: a long one
    stays below what can be held at one moment at most, an eighth of it.
    """
    program = f"from tests.writing.test_stream import peak_of_many; print(peak_of_many({cores}))"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, stdout=PIPE, text=True, check=True)
    # A stretch of 1 MiB is being filled and joined; each core has one that is being encoded (rows, pages, and
    # a file whose room doubles as it grows: 6) and one that was; a segment waits to be stored, another fills.
    assert int(done.stdout) < (6 + 7 * cores) * 2**20


def test_streams_of_several_threads_and_of_one_handle() -> None:
    _, table = streaming()

    def write(number: int) -> None:
        with table.stream(metadata={"thread": number}) as stream:
            for at in range(20):
                stream.write([{"n": number * 100 + at}])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(version.metadata["thread"] for version in table.history()) == [0, 1, 2, 3]
    assert sorted(table.read(["n"])["n"].to_pylist()) == [n * 100 + at for n in range(4) for at in range(20)]


def test_a_partitioned_stream() -> None:
    catalog = lake(segment_bytes=2**20)
    table = catalog.create_table("t", SCHEMA, partition_by=["n"])
    with table.stream() as stream:
        for batch in batches(9):
            stream.write(batch)
    assert table.scan(filter="n = 4").count() == 256
    assert table.scan(filter="n = 4").plan.pruned == 8


def test_printing() -> None:
    _, table = streaming()
    stream = table.stream()
    assert repr(stream) == "StreamWriter('t', 0 rows, open)"
    stream.write([{"n": 1}])
    assert "1 rows" in repr(stream)
    stream.abort()
    assert "aborted" in repr(stream)
