"""The whole life of a catalog on a real S3 server."""

from __future__ import annotations

import os
import pickle
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import AccessDenied, CrdtcatError, NotFound, RequestRefused, StoreError
from crdtcat.format.version import encode_version
from crdtcat.protocol import version_name
from crdtcat.store.retry import RetryPolicy
from crdtcat.store.s3 import S3Store
from crdtcat.testing.s3_server import S3Server
from tests.apart import processes_apart
from tests.cost.places import SCHEMA, asked, few, many, rows

pytestmark = pytest.mark.s3


@pytest.fixture
def options(s3_server: S3Server) -> dict[str, Any]:
    return s3_server.storage_options


def test_a_catalogs_life(s3_url: str, options: dict[str, Any]) -> None:
    catalog = Catalog(s3_url, options, upkeep=False, grace_seconds=0)
    table = catalog.create_table("events", SCHEMA, partition_by=["truncate(50000, n)"])
    first = table.append(few(10), metadata={"day": 1}, key="first")
    table.append(few(10), key="first")  # a retry
    table.append(many(20_000, 100))
    assert table.head().row_count == 20_010
    tag = table.tag("loaded")
    with table.stream() as stream:
        for at in range(3):
            stream.write(few(5, 50_000 + 5 * at))
    table.add_column("more", pa.int32())
    table.rename_column("more", "extra")
    table.set_properties(owner="me")
    assert table.read(filter="n >= 50000").column("n").to_pylist() == [*range(50_000, 50_015)]
    table.overwrite(few(4, 60_000), where="n >= 50000 and n < 100000")
    assert table.read(filter="n < 30 or n > 40000")["n"].to_pylist() == [*range(10), *range(60_000, 60_004)]
    assert table.read(at="loaded", columns=["n"]).num_rows == 20_010
    assert table.head(first.id).row_count == 10
    before = table.head()
    table.checkpoint()
    table.collect()
    cold = Catalog(s3_url, options).table("events")
    assert cold.head().snapshot == before.snapshot
    assert cold.head().properties == {"owner": "me"}
    assert cold.tags() == {"loaded": tag}
    table.restore("loaded")
    assert Catalog(s3_url, options).read("events", ["n"]).num_rows == 20_010
    assert catalog.tables() == ["events"]
    catalog.drop_table("events")
    assert catalog.tables() == []
    with pytest.raises(NotFound):
        Catalog(s3_url, options).read("events")
    catalog.create_table("events", SCHEMA).append(few(1))
    assert Catalog(s3_url, options).read("events").num_rows == 1


def _append(given: tuple[bytes, int]) -> tuple[int, int]:
    table = pickle.loads(given[0])
    for commit in range(5):
        start = given[1] * 1000 + commit * 10
        table.append(rows(start, start + 10))
    return os.getpid(), int(table._session.writer.id)


def test_several_processes_write_while_one_maintains(s3_url: str, options: dict[str, Any]) -> None:
    catalog = Catalog(s3_url, options, upkeep="synchronous", bundle_every=3, grace_seconds=0)
    table = catalog.create_table("t", SCHEMA)
    pickled = pickle.dumps(table)
    with processes_apart().Pool(2) as pool:
        done = pool.map_async(_append, [(pickled, n) for n in range(4)], chunksize=1)
        while not done.ready():
            table.checkpoint()
            table.collect()
            done.wait(0.05)
        writers = done.get()
    processes, ids = (set(column) for column in zip(*writers, strict=True))
    assert len(set(writers)) == len(processes) == len(ids)  # a writer for each process, whatever it unpickles
    readers = [Catalog(s3_url, options).table("t") for _ in range(2)]
    assert readers[0].head().snapshot == readers[1].head().snapshot
    found = sorted(readers[0].read(["n"]).column("n").to_pylist())
    assert found == sorted(n * 1000 + i for n in range(4) for i in range(50))


def test_a_log_of_more_than_a_thousand_files(s3_url: str, options: dict[str, Any]) -> None:
    """Listed in S3's own pages, bundled, collected; no file is missed at a page's edge."""
    catalog = Catalog(s3_url, options, upkeep=False, grace_seconds=0)
    table = catalog.create_table("t", SCHEMA)
    table.append(few(1))
    folder = table._session.folder
    count = 1010
    files = []
    for n in range(count):
        stamp = {"h": (1 << 40) + n, "w": secrets.randbits(64), "s": 1, "l": folder, "o": 4}
        id, data = encode_version(stamp)
        files.append((version_name(folder, id), data))
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda file: catalog.store.put(*file), files))
    assert asked(catalog, table.head) == {"list": 2, "get": 1 + count}  # the mark; its own commit is at hand
    assert table.head().version == count + 1
    assert asked(catalog, table.head) == {"list": 2}
    table.checkpoint()
    assert table.collect().versions == count + 1
    cold = Catalog(s3_url, options)
    assert asked(cold, lambda: cold.table("t").head()) == {"list": 1, "get": 4}
    assert cold.table("t").head().snapshot == table.head().snapshot


def _everything_said(error: BaseException | None) -> str:
    said = ""
    while error is not None:
        said += f"{error} {error!r} {error.args}"
        error = error.__cause__ or error.__context__
    return said


@pytest.mark.parametrize("act", ["open", "commit", "tables"])
def test_wrong_credentials_name_what_was_refused_and_tell_no_secret(
    s3_url: str, options: dict[str, Any], act: str
) -> None:
    wrong = {**options, "key": "SOMEKEYID0000", "secret": "very-secret-value-12345"}
    catalog = Catalog(s3_url, wrong)
    acts = {
        "open": lambda: catalog.table("t"),
        "commit": lambda: catalog.commit("t", few()),
        "tables": catalog.tables,
    }
    with pytest.raises(AccessDenied) as caught:
        acts[act]()
    assert s3_url in str(caught.value)
    assert "credentials" in str(caught.value)
    said = _everything_said(caught.value)
    assert "very-secret-value-12345" not in said


def test_a_bucket_that_is_not_there_is_named(options: dict[str, Any]) -> None:
    catalog = Catalog("s3://no-such-bucket-here/prefix", options)
    with pytest.raises(CrdtcatError) as caught:
        catalog.create_table("t", SCHEMA)
    assert isinstance(caught.value, StoreError)
    assert "no-such-bucket-here" in str(caught.value)
    assert options["secret"] not in _everything_said(caught.value)


def test_storage_options_are_never_shown(s3_url: str, options: dict[str, Any]) -> None:
    catalog = Catalog(s3_url, options)
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    shown = [
        repr(catalog),
        str(catalog),
        repr(table),
        repr(catalog.store),
        repr(table.scan()),
        repr(table.head()),
    ]
    shown += [str(table.history()), repr(table._session), catalog.url]
    for text in shown:
        assert options["secret"] not in text
        assert options["key"] not in text
    copy = pickle.loads(pickle.dumps(catalog))
    assert copy.read("t").num_rows == 3  # credentials travel with a pickled handle


def test_a_server_that_is_not_there_is_named_within_bounded_time() -> None:
    options = {"endpoint_url": "http://127.0.0.1:9", "key": "k" * 12, "secret": "s" * 20}
    store = S3Store("s3://bucket/prefix", options, retry=RetryPolicy(attempts=2))
    with pytest.raises(StoreError, match="s3://bucket/prefix") as caught:
        Catalog(store).table("t")
    assert "s" * 20 not in _everything_said(caught.value)


def test_a_bucket_that_vanished_is_a_refusal(s3_server: S3Server, options: dict[str, Any]) -> None:
    url = s3_server.fresh_bucket()
    catalog = Catalog(url, options)
    table = catalog.create_table("t", SCHEMA)
    table.append(few())
    client, bucket = s3_server.client(), url.removeprefix("s3://")
    for each in client.list_objects_v2(Bucket=bucket)["Contents"]:
        client.delete_object(Bucket=bucket, Key=each["Key"])
    client.delete_bucket(Bucket=bucket)
    client.close()
    with pytest.raises(RequestRefused, match="bucket"):
        table.append(few())
