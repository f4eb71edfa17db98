"""Segments on their way to another catalog: in pieces, whatever their size, and whole or not at all."""

from __future__ import annotations

import importlib
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import Corrupt, StoreUnavailable
from crdtcat.support.scattered import Scattered
from crdtcat.testing.s3_server import S3Server
from tests.catalog.lakes import lake, objects

MIB = 2**20
MODULE = importlib.import_module("crdtcat.maintenance.segment_copy")


def one_segment(place: Path, mebibytes: int) -> Catalog:
    """A catalog on disk with so much in one segment, of what no encoder makes smaller."""
    random, count = np.random.default_rng(0), mebibytes * MIB // 16
    catalog = Catalog(place, upkeep=False)
    catalog.commit("t", pa.table({"a": random.integers(0, 2**62, count), "b": random.random(count)}))
    return catalog


def test_memory_does_not_grow_with_a_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "PIECE_BYTES", MIB // 2)
    here = one_segment(tmp_path / "a", 16)
    there = Catalog(tmp_path / "b", upkeep=False)
    tracemalloc.start()
    try:
        result = here.sync(there)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.ok
    assert result.sent["t"].segments == 1
    assert result.sent["t"].bytes > 15 * MIB
    assert most < 8 * MIB
    assert there.read("t").equals(here.read("t"))
    assert there.table("t").verify("content").ok


@pytest.mark.s3
def test_to_s3_it_goes_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, s3_server: S3Server, s3_url: str
) -> None:
    monkeypatch.setattr(MODULE, "PIECE_BYTES", MIB)
    here = one_segment(tmp_path / "here", 24)
    there = Catalog(s3_url, s3_server.storage_options, upkeep=False)
    there.store.multipart_bytes = 6 * MIB  # 64 otherwise
    put, held = there.store.put, list[int]()

    def putting(name: str, data: Any) -> None:
        if isinstance(data, Scattered):
            held.append(len(data) - data.gone)
        put(name, data)

    monkeypatch.setattr(there.store, "put", putting)
    assert here.sync(there).ok
    assert len(held) == 1
    assert held[0] < 20 * MIB, "the rest was there already"
    assert there.read("t").equals(here.read("t"))
    back = Catalog(tmp_path / "back", upkeep=False)
    assert there.sync(back).ok
    assert back.read("t").equals(here.read("t"))


@pytest.mark.parametrize("cut", [0.3, 0.99])
def test_what_is_damaged_is_not_there_under_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: float
) -> None:
    """A footer that is wrong is seen before anything is copied, an end that is missing when it is reached."""
    monkeypatch.setattr(MODULE, "PIECE_BYTES", MIB // 4)
    here = one_segment(tmp_path / "a", 4)
    there = Catalog(tmp_path / "b", upkeep=False)
    (name,) = (name for name, size in objects(here).items() if size > 3 * MIB)
    whole = bytes(here.store.get(name))
    here.store.put(name, whole[: int(len(whole) * cut)])
    with pytest.raises(Corrupt, match="data/"):
        here.sync(there)
    here.store.put(name, whole)
    get, calls = here.store.get, list[str]()

    def failing(name: str, start: int = 0, stop: int | None = None) -> Any:
        calls.append(name)
        if calls.count(name) > 4:
            raise StoreUnavailable("gone in the middle")
        return get(name, start, stop)

    with monkeypatch.context() as patched:
        patched.setattr(here.store, "get", failing)
        with pytest.raises(StoreUnavailable, match="in the middle"):
            here.sync(there)
    assert not [name for name in objects(there) if name.startswith("data/")]
    assert not list((tmp_path / "b").rglob("data/*/.*")), "nor hidden"
    assert here.sync(there).ok
    assert there.read("t").equals(here.read("t"))


def test_a_store_that_takes_nothing_ahead_gets_it_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE, "PIECE_BYTES", 1000)
    here, there = lake(inline_bytes=0), lake()
    here.commit("t", [{"n": number, "text": f"{number:x}" * 9} for number in range(5000)])
    assert here.sync(there).ok
    assert there.read("t").equals(here.read("t"))
    assert there.table("t").verify("content").ok
