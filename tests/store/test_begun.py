"""Objects whose first bytes are known before the rest: written ahead, and never half there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.errors import StoreUnavailable
from crdtcat.store import Store, open_store
from crdtcat.store.begun import FILES_MAX
from crdtcat.store.local import LocalStore
from crdtcat.support.scattered import Scattered
from crdtcat.writing.segments import Segments

PARTS = [b"first ", b"second ", b"", b"third"]


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".crdtcat-*")]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=5), max_size=6), st.integers(0, 30), st.integers(0, 30))
def test_scattered_is_its_parts_joined(parts: list[bytes], start: int, stop: int) -> None:
    whole = Scattered(parts)
    assert (len(whole), bytes(whole)) == (len(b"".join(parts)), b"".join(parts))
    assert b"".join(whole.between(start, stop)) == bytes(whole)[start:stop]
    assert b"".join(whole.between(start)) == bytes(whole)[start:]


@pytest.mark.parametrize("ahead", [0, 1, 2, 3, 4])
def test_what_was_written_ahead_is_not_written_again(tmp_path: Path, ahead: int, monkeypatch: Any) -> None:
    store = LocalStore(tmp_path)
    for count in range(1, ahead + 1):
        store.write_ahead("data/x", Scattered(PARTS[:count]))
        assert [item.name for item in store.list("data/")] == []
    written: list[bytes] = []
    plain = os.write

    def write(where: int, data: bytes) -> int:
        written.append(bytes(data))
        return plain(where, data)

    monkeypatch.setattr(os, "write", write)
    store.put("data/x", Scattered(PARTS))
    assert store.get("data/x") == b"".join(PARTS)
    assert b"".join(written) == b"".join(PARTS[ahead:])
    assert store.requests.put == 1
    assert hidden(tmp_path) == []


def test_what_is_forgotten_leaves_nothing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write_ahead("data/x", Scattered(PARTS))
    assert len(hidden(tmp_path)) == 1
    store.forget("data/x")
    store.forget("data/x")
    assert hidden(tmp_path) == []
    store.put("data/x", b"other")
    assert store.get("data/x") == b"other"


def test_whoever_forgets_to_say_so_keeps_few_files_open(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for number in range(FILES_MAX + 5):
        store.write_ahead(f"data/{number}", Scattered(PARTS))
    assert len(hidden(tmp_path)) == FILES_MAX
    store.put("data/0", Scattered(PARTS))
    assert store.get("data/0") == b"".join(PARTS)


def test_a_file_that_was_swept_or_could_not_be_written_is_written_anew(
    tmp_path: Path, monkeypatch: Any
) -> None:
    store = LocalStore(tmp_path)
    store.write_ahead("data/x", Scattered(PARTS[:2]))
    (begun,) = tmp_path.rglob(".crdtcat-*")
    begun.unlink()
    store.put("data/x", Scattered(PARTS))
    assert store.get("data/x") == b"".join(PARTS)

    def full(*_: object) -> int:
        raise OSError(28, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        store.write_ahead("data/y", Scattered(PARTS[:2]))
        assert hidden(tmp_path) == []
    store.write_ahead("data/y", Scattered(PARTS[:3]))  # not tried again
    store.put("data/y", Scattered(PARTS))
    assert store.get("data/y") == b"".join(PARTS)
    assert hidden(tmp_path) == []


def test_every_other_store_takes_parts_too() -> None:
    store = open_store("memory://scattered")
    store.write_ahead("data/x", Scattered(PARTS[:2]))
    store.put("data/x", Scattered(PARTS))
    assert store.get("data/x") == b"".join(PARTS)


def rows(count: int) -> pa.Table:
    return pa.table({"id": np.arange(count), "value": np.random.default_rng(0).random(count)})


OPTIONS: dict[str, Any] = {"upkeep": False, "inline_bytes": 0, "chunk_rows": 20_000}


def test_a_large_append_is_one_put_of_a_file_that_was_there_already(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("crdtcat.writing.stage.STRETCH_BYTES", 2**20)
    table = Catalog(str(tmp_path), **OPTIONS).create_table("t")
    told: list[int] = []
    plain = LocalStore.write_ahead

    def write_ahead(store: LocalStore, name: str, data: Scattered) -> None:
        told.append(len(data))
        plain(store, name, data)

    add = Segments.add

    def add_when_stored(segments: Segments, *given: Any) -> None:  # a disk that is busy would be told once
        segments._stored()
        add(segments, *given)

    monkeypatch.setattr(LocalStore, "write_ahead", write_ahead)
    monkeypatch.setattr(Segments, "add", add_when_stored)
    table.append(rows(500_000))
    assert told == sorted(told)
    assert len(told) > 1
    assert len([*tmp_path.rglob("*.parquet")]) == 1
    assert hidden(tmp_path) == []
    assert Catalog(str(tmp_path)).read("t").equals(rows(500_000))
    assert Catalog(str(tmp_path)).table("t").verify("content").ok


class Breaking(LocalStore):
    """Stores no segment."""

    def put(self, name: str, data: Any) -> None:
        if name.startswith("data/"):
            raise StoreUnavailable("no segments today")
        super().put(name, data)


@pytest.mark.parametrize("kind", [LocalStore, Breaking])
def test_what_fails_leaves_no_file_behind(tmp_path: Path, monkeypatch: Any, kind: type[Store]) -> None:
    monkeypatch.setattr("crdtcat.writing.stage.STRETCH_BYTES", 2**20)
    table = Catalog(kind(str(tmp_path)), **OPTIONS, segment_bytes=2**22).create_table("t")
    stream = table.stream()
    stream.write(rows(200_000))
    stream.abort()
    assert hidden(tmp_path) == []
    if kind is Breaking:
        with pytest.raises(StoreUnavailable):
            table.append(rows(1_000_000))
        assert len(table.history()) == 0
