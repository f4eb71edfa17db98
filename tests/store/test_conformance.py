"""Every backend passes the kit that users' own stores must pass."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from crdtcat.store import Store, open_store
from crdtcat.store.generic import FsspecStore
from crdtcat.store.s3 import S3Store
from crdtcat.testing.faulty import FaultyStore
from crdtcat.testing.s3_server import S3Server
from crdtcat.testing.store_conformance import StoreConformance

MULTIPART_BYTES = 6 * 2**20
PART_BYTES = 5 * 2**20


class TestLocal(StoreConformance):
    exclusion_rounds = 100
    gets_in_turn = "threads cost more than a read from the page cache"

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return open_store(tmp_path / "not" / "yet" / "there")


class TestMemory(StoreConformance):
    exclusion_rounds = 100
    gets_in_turn = "a look into a dict waits for nobody"
    shared_by_processes = False

    @pytest.fixture
    def store(self) -> Store:
        return open_store(f"memory://conformance/{secrets.token_hex(8)}")


class TestFsspec(StoreConformance):
    """The generic backend, over a filesystem that looks before it writes: it must say so itself."""

    shared_by_processes = False

    @pytest.fixture
    def store(self) -> Store:
        return FsspecStore(f"memory://generic/{secrets.token_hex(8)}")


class TestFaultyWithoutFaults(StoreConformance):
    gets_in_turn = "which request is the n-th must be the same in every run"

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FaultyStore(open_store(tmp_path))


class S3Conformance(StoreConformance):
    """S3 stores ask without threads, so that those who wait for each other are coroutines."""

    __test__ = False

    @contextmanager
    def gets_meet(self, store: Store, count: int) -> Iterator[None]:
        assert isinstance(store, S3Store)
        begun, all_began, fetch = [0], asyncio.Event(), store._fetch

        async def wait_and_fetch(name: str, start: int, stop: int | None) -> bytes:
            begun[0] += 1
            if begun[0] == count:
                all_began.set()
            await asyncio.wait_for(all_began.wait(), timeout=10)
            return await fetch(name, start, stop)

        with mock.patch.object(store, "_fetch", wait_and_fetch):
            yield


class TestMoto(S3Conformance):
    __test__ = True
    not_exclusive = "moto looks before it writes, without a lock: about 1 race in 250 has two winners"

    @pytest.fixture
    def store(self, moto_url: str, moto_server: S3Server) -> Store:
        return S3Store(
            moto_url, moto_server.storage_options, multipart_bytes=MULTIPART_BYTES, part_bytes=PART_BYTES
        )


@pytest.mark.s3
class TestRealS3(S3Conformance):
    __test__ = True
    exclusion_rounds, exclusion_racers = 8, 4
    """The server is slow where many create one name at once."""

    @pytest.fixture
    def store(self, s3_url: str, s3_server: S3Server) -> Store:
        return S3Store(
            s3_url, s3_server.storage_options, multipart_bytes=MULTIPART_BYTES, part_bytes=PART_BYTES
        )
