"""Every backend passes the kit that users' own stores must pass."""

from __future__ import annotations

import secrets
from pathlib import Path

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

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return open_store(tmp_path / "not" / "yet" / "there")


class TestMemory(StoreConformance):
    exclusion_rounds = 100
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
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return FaultyStore(open_store(tmp_path))


class TestMoto(StoreConformance):
    not_exclusive = "moto looks before it writes, without a lock: about 1 race in 250 has two winners"

    @pytest.fixture
    def store(self, moto_url: str, moto_server: S3Server) -> Store:
        return S3Store(
            moto_url, moto_server.storage_options, multipart_bytes=MULTIPART_BYTES, part_bytes=PART_BYTES
        )


@pytest.mark.s3
class TestRealS3(StoreConformance):
    exclusion_rounds, exclusion_racers = 8, 4
    """The server is slow where many create one name at once."""

    @pytest.fixture
    def store(self, s3_url: str, s3_server: S3Server) -> Store:
        return S3Store(
            s3_url, s3_server.storage_options, multipart_bytes=MULTIPART_BYTES, part_bytes=PART_BYTES
        )
