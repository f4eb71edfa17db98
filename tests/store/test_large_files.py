"""Large local files are read into memory of their own, and handed on as views: the same bytes as ever."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import Corrupt, Missing, UnsupportedFormat
from crdtcat.format.frame import digest
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.log import State
from crdtcat.protocol.requests import Got
from crdtcat.store import local_files
from crdtcat.store.local import LocalStore

LARGE = 64 * 1024


@pytest.fixture(autouse=True)
def _small_files_count_as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "LARGE_BYTES", LARGE)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path)


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, LARGE + 1, 3 * LARGE])
def test_the_bytes_are_the_same_whatever_they_lie_in(store: LocalStore, size: int) -> None:
    data = os.urandom(size)
    store.put("x", data)
    for found in (store.get("x"), *store.get_many([("x", 0, None), ("x", 0, size), ("x", 0, 9 * size)])):
        assert found is not None
        assert found == data
        assert hash(found) == hash(data)
        assert bytes(found[5:-7]) == data[5:-7]
    assert isinstance(store.get("x"), memoryview if size >= LARGE else bytes)
    assert store.get("x", 3) == data[3:]


@pytest.mark.parametrize("cores", [1, 2, 3, 64, None])
def test_however_many_read(store: LocalStore, cores: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    for size in (LARGE, LARGE + 4096, 2 * LARGE + 4095, 5 * LARGE + 1):
        data = os.urandom(size)
        store.put("x", data)
        assert store.get("x") == data


def test_nobody_writes_through_a_view(store: LocalStore) -> None:
    store.put("x", bytes(LARGE))
    found = store.get("x")
    assert isinstance(found, memoryview)
    assert found.readonly
    assert hash(Got(found)) == hash(Got(bytes(found)))  # protocol steps and answers are hashed by schedulers


def test_what_was_read_stays_as_it_was_whatever_becomes_of_the_file(
    store: LocalStore, tmp_path: Path
) -> None:
    store.put("x", b"a" * LARGE)
    found = store.get("x")
    (tmp_path / "x").write_bytes(b"")  # a mapped file would end the process here
    assert found == b"a" * LARGE
    store.delete(["x"])
    assert found == b"a" * LARGE
    with pytest.raises(Missing):
        store.get("x")


def test_a_file_that_is_read_in_pieces_or_ends_early(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(3 * LARGE)
    store.put("x", data)
    read = os.preadv

    def slow(descriptor: int, buffers: Any, offset: int) -> int:
        return read(descriptor, [buffers[0][:1000]], offset)

    monkeypatch.setattr(os, "preadv", slow)
    assert store.get("x") == data

    def short(descriptor: int, buffers: Any, offset: int) -> int:  # cut off after its size was asked for
        return read(descriptor, [buffers[0][: max(0, LARGE - offset)]], offset)

    monkeypatch.setattr(os, "preadv", short)
    assert store.get("x") == data[:LARGE]

    def middle(descriptor: int, buffers: Any, offset: int) -> int:  # and grown again
        count = read(descriptor, [buffers[0][: max(0, LARGE - offset)]], offset)
        return count or (read(descriptor, buffers, offset) if offset > 2 * LARGE else 0)

    monkeypatch.setattr(os, "preadv", middle)
    assert store.get("x") == data[:LARGE]


def _table(url: Path) -> tuple[Catalog, str]:
    """A table whose only log file is a bundle of more than `LARGE` bytes, and its name."""
    catalog = Catalog(url, upkeep=False)
    table = catalog.create_table("t")
    for number in range(4):
        table.append([{"n": number}], metadata={"said": os.urandom(14_000).hex()})
    table.checkpoint()
    store = catalog.store
    names = [item.name for item in store.list("tables/t/main/")]
    store.delete([name for name in names if name.endswith(".v")])
    (bundle,) = [name for name in names if name.endswith(".b")]
    return catalog, bundle


def test_a_table_is_read_from_a_large_bundle_and_kept_up(tmp_path: Path) -> None:
    catalog, bundle = _table(tmp_path)
    assert isinstance(catalog.store.get(bundle), memoryview)
    table = Catalog(tmp_path).table("t")
    assert table.head().row_count == 4
    assert sorted(table.scan().to_table()["n"].to_pylist()) == list(range(4))
    table.append([{"n": 4}])
    assert table.verify().ok
    assert table.checkpoint().newly_covered == 1
    assert table.head().row_count == 5


def test_a_damaged_or_truncated_large_bundle_is_named(tmp_path: Path) -> None:
    _, bundle = _table(tmp_path)
    path = tmp_path / bundle
    whole = path.read_bytes()
    flipped = whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:]
    other = whole[:7] + b"V" + whole[8:]
    for damaged in (flipped, whole[:-1], whole[: LARGE + 1], other, bytes(LARGE)):
        path.write_bytes(damaged)
        assert len(damaged) >= LARGE
        with pytest.raises(Corrupt) as error:
            Catalog(tmp_path).table("t").head()
        assert bundle in str(error.value)
    path.write_bytes(whole)
    assert Catalog(tmp_path).table("t").head().row_count == 4


def test_small_files_grown_large_are_refused_by_name(tmp_path: Path) -> None:
    catalog, _ = _table(tmp_path)
    large = b" " * (LARGE + 1)
    for name in ("crdtcat.json", "tables/t/settings.json"):
        whole = catalog.store.get(name)
        catalog.store.put(name, large)
        with pytest.raises((Corrupt, UnsupportedFormat), match=name):
            Catalog(tmp_path).table("t")
        catalog.store.put(name, whole)
    content = {"format": 1, "text": "x" * LARGE}
    assert unseal_json(memoryview(seal_json(content)), "a file") == content


def test_a_state_is_the_same_from_views_and_from_bytes(tmp_path: Path) -> None:
    catalog, bundle = _table(tmp_path)
    view = catalog.store.get(bundle)
    assert digest(view) == digest(bytes(view))
    states = [State("tables/t/main/").joined([(bundle, data)]) for data in (view, bytes(view))]
    assert states[0] == states[1]
    assert hash(states[0]) == hash(states[1])
