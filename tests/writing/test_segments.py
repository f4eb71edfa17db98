"""A commit's rows are one segment, whatever their size, and little of it is ever in memory."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError

from crdtcat import Catalog
from crdtcat.errors import AccessDenied, CrdtcatError, StoreUnavailable
from crdtcat.store import RetryPolicy
from crdtcat.store.local import LocalStore
from crdtcat.store.memory import MemoryStore
from crdtcat.store.s3 import S3Store
from crdtcat.support.scattered import Scattered
from crdtcat.testing.s3_server import S3Server
from tests.memory import arrow_bytes

MiB = 2**20
ROWS, BATCHES = 65_536, 60
SCHEMA = pa.schema([("id", pa.int64()), ("value", pa.float64())])
OPTIONS: dict[str, Any] = {"upkeep": False, "chunk_rows": ROWS}
QUICK = RetryPolicy(attempts=3, base_ms=1, max_ms=1)


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if memory were small: a megabyte of rows at a time, two megabytes encoded."""
    monkeypatch.setattr("crdtcat.writing.stage.STRETCH_BYTES", MiB)
    monkeypatch.setattr("crdtcat.writing.segments.HELD_BYTES", 2 * MiB)
    monkeypatch.setattr("crdtcat.writing.segments.HELD_BYTES_MAX", 16 * MiB)


def batch(number: int) -> pa.RecordBatch:
    """A megabyte, of which half cannot be made smaller."""
    ids = np.arange(number * ROWS, (number + 1) * ROWS)
    return pa.record_batch([ids, np.random.default_rng(number).random(ROWS)], schema=SCHEMA)


def reader(each: Callable[[int], object] = lambda _: None) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(BATCHES):
            each(number)
            yield batch(number)

    return pa.RecordBatchReader.from_batches(SCHEMA, batches())


def segments(catalog: Catalog) -> dict[str, int]:
    store = catalog.store
    found = [item for folder in store.folders("data/") for item in store.list(f"data/{folder}/")]
    return {item.name: item.size for item in found}


def check_rows(catalog: Catalog) -> None:
    table = Catalog(catalog.store, **OPTIONS).table("t")
    assert table.read().equals(pa.Table.from_batches([batch(number) for number in range(BATCHES)]))
    assert table.verify("content").problems == ()


def check_nothing(catalog: Catalog) -> None:
    table = Catalog(catalog.store, **OPTIONS).table("t")
    assert len(table.history()) == 0
    assert table.verify("content").problems == ()


def test_a_local_append_is_two_puts_and_holds_little(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path), **OPTIONS)
    table = catalog.create_table("t", SCHEMA)
    before, held, most = catalog.store.requests.snapshot(), arrow_bytes(), [0]
    table.append(reader(lambda _: most.append(arrow_bytes() - held)))
    made = catalog.store.requests.since(before)
    assert (made.put, made.total) == (2, 2)
    ((_, size),) = segments(catalog).items()
    assert size > 25 * MiB
    assert max(most) < 14 * MiB  # encoded: 2 held, 2 on their way; and the rows that are being encoded
    check_rows(catalog)
    assert [*tmp_path.rglob(".crdtcat-*")] == []


def test_a_store_that_takes_nothing_before_the_put_gets_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crdtcat.writing.segments.HELD_BYTES_MAX", 8 * MiB)
    catalog = Catalog(MemoryStore("memory://segments/several"), **OPTIONS)
    table = catalog.create_table("t", SCHEMA)
    before = catalog.store.requests.snapshot()
    table.append(reader())
    assert catalog.store.requests.since(before).put == 1 + len(segments(catalog)) == 5
    assert max(segments(catalog).values()) < 9 * MiB
    check_rows(catalog)


def test_a_file_has_no_more_row_groups_than_parquet_can_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crdtcat.writing.segments.ROW_GROUPS_MAX", 25)
    catalog = Catalog(str(tmp_path), **OPTIONS)
    catalog.create_table("t", SCHEMA).append(reader())
    assert len(segments(catalog)) == 3
    check_rows(catalog)


class Full(LocalStore):
    """A disk that is full after so many bytes, or whose files vanish."""

    left = 10 * MiB
    vanishes = False

    def write_ahead(self, name: str, data: Any) -> int:
        if len(data) > self.left:
            (begun,) = self._begun._files.values()
            if self.vanishes:
                Path(begun.hidden).unlink(missing_ok=True)
            else:
                begun.drop()  # every write to it fails from now on
        return super().write_ahead(name, data)


@pytest.mark.parametrize("vanishes", [False, True])
def test_what_is_lost_on_the_way_ends_the_append_and_leaves_nothing(tmp_path: Path, vanishes: bool) -> None:
    store = Full(str(tmp_path))
    store.vanishes = vanishes
    catalog = Catalog(store, **OPTIONS)
    table = catalog.create_table("t", SCHEMA)
    with pytest.raises(StoreUnavailable, match="nothing of it is visible"):
        table.append(reader())
    assert [*tmp_path.rglob(".crdtcat-*")] == []
    assert segments(catalog) == {}
    check_nothing(catalog)


def broken_off(number: int) -> None:
    if number == BATCHES - 10:
        raise KeyboardInterrupt


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_broken_off_leaves_nothing(tmp_path: Path, *, stream: bool) -> None:
    catalog = Catalog(str(tmp_path), **OPTIONS)
    table = catalog.create_table("t", SCHEMA)
    with pytest.raises(KeyboardInterrupt):
        table.stream().write(reader(broken_off)) if stream else table.append(reader(broken_off))
    assert [*tmp_path.rglob(".crdtcat-*")] == []
    assert segments(catalog) == {}
    check_nothing(catalog)


def test_a_stream_that_nobody_ends_leaves_nothing_once_it_is_gone(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path), **OPTIONS)
    table = catalog.create_table("t", SCHEMA)
    stream = table.stream()
    stream.write(reader())
    assert len([*tmp_path.rglob(".crdtcat-*")]) == 1
    del stream
    for _ in range(100):  # a thread may still be writing to it
        gc.collect()
        if not [*tmp_path.rglob(".crdtcat-*")]:
            break
        time.sleep(0.05)
    assert [*tmp_path.rglob(".crdtcat-*")] == []
    check_nothing(catalog)


# S3, where an object comes in parts.


def on_s3(server: S3Server, url: str) -> S3Store:
    return S3Store(url, server.storage_options, multipart_bytes=6 * MiB, part_bytes=5 * MiB, retry=QUICK)


def uploads(server: S3Server, store: S3Store) -> list[str]:
    with contextlib.closing(server.client()) as client:
        found = client.list_multipart_uploads(Bucket=store._bucket).get("Uploads", [])
        return [each["Key"] for each in found if each["Key"].startswith(store._root)]


@pytest.mark.s3
def test_an_append_to_s3_is_one_object_in_parts_and_holds_little(s3_server: S3Server, s3_url: str) -> None:
    catalog = Catalog(on_s3(s3_server, s3_url), **OPTIONS)
    table = catalog.create_table("t", SCHEMA)
    before, held, most = catalog.store.requests.snapshot(), arrow_bytes(), [0]
    table.append(reader(lambda _: most.append(arrow_bytes() - held)))
    made = catalog.store.requests.since(before)
    ((_, size),) = segments(catalog).items()
    parts = -(-size // (5 * MiB))
    assert parts > 5
    assert (made.put, made.total) == (parts + 2 + 1, parts + 2 + 1)
    assert max(most) < 24 * MiB  # encoded: 6 before the first part, and what gathers while two are sent
    check_rows(catalog)
    with pytest.raises(KeyboardInterrupt):
        table.append(reader(broken_off))
    assert len(segments(catalog)) == 1
    check_rows(catalog)


def test_a_broken_off_append_aborts_its_upload(moto_server: S3Server, moto_url: str) -> None:
    store = on_s3(moto_server, moto_url)
    catalog = Catalog(store, **OPTIONS)
    table = catalog.create_table("t", SCHEMA)
    with pytest.raises(KeyboardInterrupt):
        table.append(reader(broken_off))
    assert uploads(moto_server, store) == []
    check_nothing(catalog)


@pytest.mark.parametrize("lost", [False, True], ids=["refused", "lost"])
def test_the_nth_request_fails(
    moto_server: S3Server, moto_url: str, monkeypatch: pytest.MonkeyPatch, *, lost: bool
) -> None:
    """Each request fails once, before or after it was carried out, and is made again."""
    store = on_s3(moto_server, moto_url)
    original, made, failing = store._request, [0], [0]

    async def request(operation: str, **arguments: Any) -> dict[str, Any]:
        made[0] += 1
        if made[0] != failing[0]:
            return await original(operation, **arguments)
        if lost:
            await original(operation, **arguments)
        raise ConnectionResetError

    monkeypatch.setattr(store, "_request", request)
    for failing[0] in range(8):  # none the first time; then to begin, 4 parts, to complete; then none again
        made[0] = 0
        put_ahead(store, "data/x")
        assert made[0] == (6 if failing[0] in {0, 7} else 7)
        assert store.get("data/x") == WHOLE
        store.delete(["data/x"])
    assert len(uploads(moto_server, store)) == lost  # begun twice, of which the store told once


WHOLE = np.random.default_rng(0).bytes(17 * MiB)


def put_ahead(store: S3Store, name: str) -> None:
    """Put an object of which no more than a part is kept."""
    has = 0
    for stop in range(7 * MiB, len(WHOLE), 4 * MiB):
        has = store.write_ahead(name, Scattered([WHOLE[has:stop]], gone=has))
    assert has
    store.put(name, Scattered([WHOLE[has:]], gone=has))


@pytest.mark.s3
@pytest.mark.parametrize("stored", [True, False])
def test_a_completion_whose_answer_is_lost_is_looked_for(
    s3_server: S3Server, s3_url: str, monkeypatch: pytest.MonkeyPatch, *, stored: bool
) -> None:
    """A server that has completed an upload may have forgotten it when it is asked again."""
    store = on_s3(s3_server, s3_url)
    original, asked = store._request, [0]

    async def request(operation: str, **arguments: Any) -> dict[str, Any]:
        if operation != "complete_multipart_upload":
            return await original(operation, **arguments)
        asked[0] += 1
        if asked[0] > 1:
            said = {"Error": {"Code": "NoSuchUpload"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
            raise ClientError(said, operation)
        if stored:
            await original(operation, **arguments)
        raise ConnectionResetError

    monkeypatch.setattr(store, "_request", request)
    before = store.requests.snapshot()
    if stored:
        put_ahead(store, "data/x")
        assert store.requests.since(before).get == 1
        assert store.get("data/x") == WHOLE
    else:
        with pytest.raises(StoreUnavailable):
            put_ahead(store, "data/x")
        assert [*store.list("data/")] == []


@pytest.mark.parametrize("first", range(1, 8))
def test_from_the_nth_request_on_all_fail(
    moto_server: S3Server, moto_url: str, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Whatever could be sent before: a typed error, no object, no upload once the store answers again."""
    store = on_s3(moto_server, moto_url)
    catalog = Catalog(store, **OPTIONS)
    table = catalog.create_table("t", SCHEMA)
    original, made = store._request, [0]

    async def request(operation: str, **arguments: Any) -> dict[str, Any]:
        made[0] += operation != "abort_multipart_upload"
        if made[0] >= first and operation != "abort_multipart_upload":
            raise PermissionError("no more") if first % 2 else ConnectionResetError
        return await original(operation, **arguments)

    with monkeypatch.context() as patched:
        patched.setattr(store, "_request", request)
        with pytest.raises((AccessDenied, StoreUnavailable)) as caught:
            table.append(reader())
        assert isinstance(caught.value, CrdtcatError)
    assert uploads(moto_server, store) == []
    assert segments(catalog) == {}
    check_nothing(catalog)
