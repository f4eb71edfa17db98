"""Damage of every kind: a typed error that names the file, or the right rows; never wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from blake3 import blake3

from crdtcat import Catalog
from crdtcat.errors import Corrupt, CrdtcatError, DataError, Expired, NotFound, UnsupportedFormat
from crdtcat.format.frame import CARRYING_NUMBER, seal
from crdtcat.store import Store, open_store
from crdtcat.testing.faulty import FaultyStore
from tests.faults.operations import OPTIONS, SCHEMA, fresh_url, rows

Objects = dict[str, bytes]
Content = tuple[Any, ...]


def _build() -> Store:
    """A catalog as small as can be that has every kind of object."""
    store = open_store(fresh_url())
    catalog = Catalog(store, **OPTIONS)
    table = catalog.create_table("t", SCHEMA)
    table.append(rows(frozenset({0, 1})))
    table.set_properties(owner="me")
    table.checkpoint()
    table.append(rows(frozenset({2})), metadata={"by": "someone"}, key="k")
    table.tag("tag")
    Catalog(store, **OPTIONS, inline_bytes=0).table("t").append(rows(frozenset({3, 4})))
    return store


def _objects(store: Store) -> Objects:
    folders = ["tables/t/", "tables/t/main/", "tables/t/refs/tags/"]
    folders += [f"data/{name}/" for name in store.folders("data/")]
    names = ["crdtcat.json", *(item.name for folder in folders for item in store.list(folder))]
    return {name: bytes(store.get(name)) for name in names}


def _look(store: Store) -> Content:
    """Everything a reader who knows nothing yet gets to see."""
    catalog = Catalog(store, **OPTIONS)
    table = catalog.table("t")
    head = table.head()
    history = [(version.id, version.rows, dict(version.metadata), version.key) for version in head.history]
    return (
        catalog.tables(),
        table.partition_by,
        table.read().to_pylist(),
        str(table.schema),
        dict(head.properties),
        history,
        head.snapshot,
        table.head("tag").row_count,
        table.read(at="tag").to_pylist(),
        sorted(table.tags()),
    )


def _with(store: Store, name: str, data: bytes | None, look: Callable[[], Any]) -> Any:
    """What `look` gives while an object holds other bytes, or is gone."""
    before = store.get(name)
    if data is None:
        store.delete([name])
    else:
        store.put(name, data)
    try:
        return look()
    finally:
        store.put(name, before)


def _outcome(store: Store, name: str, data: bytes | None) -> Content | CrdtcatError:
    """What a reader sees, or the error it gets, while an object holds other bytes."""
    try:
        seen: Content = _with(store, name, data, lambda: _look(store))
    except CrdtcatError as error:
        return error
    return seen


def _touched(store: Store) -> set[str]:
    """The objects a reader who knows nothing yet fetches: no versions that a bundle covers."""
    watched = FaultyStore(store)
    _look(watched)
    return {call.name for call in watched.calls if call.kind == "get"}


def _kind(name: str) -> str:
    return name.rsplit("/", maxsplit=1)[-1] if name.endswith(".json") else name.rsplit(".", 1)[-1]


@pytest.fixture(scope="module")
def store() -> Store:
    return _build()


@pytest.fixture(scope="module")
def objects(store: Store) -> Objects:
    touched = _touched(store)
    return {name: data for name, data in _objects(store).items() if name in touched}


def test_the_catalog_has_every_kind_of_object(objects: Objects) -> None:
    assert {_kind(name) for name in objects} >= {
        "crdtcat.json",
        "settings.json",
        "tag.json",
        "v",
        "b",
        "parquet",
    }


@pytest.mark.parametrize("kind", ["crdtcat.json", "settings.json", "tag.json", "v", "b", "parquet"])
@pytest.mark.parametrize("mask", [0x01, 0x80, 0x20])
def test_every_byte_flipped(store: Store, objects: Objects, kind: str, mask: int) -> None:
    expected = _look(store)
    stride = 1 if kind.endswith("json") else 5
    noticed = looked = 0
    for name, data in objects.items():
        if _kind(name) != kind:
            continue
        for at in range(mask % stride, len(data), stride):
            damaged = data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]
            looked += 1
            found = _outcome(store, name, damaged)
            if isinstance(found, DataError):
                noticed += 1
                assert name in str(found), f"byte {at} of {name}: {found}"
            else:
                assert found == expected, f"byte {at} of {name}: wrong content"
    assert noticed > looked * 0.5


def test_every_truncation(store: Store, objects: Objects) -> None:
    expected = _look(store)
    for name, data in objects.items():
        for size in {0, 1, 10, len(data) // 2, len(data) - 33, len(data) - 1}:
            found = _outcome(store, name, data[: max(0, size)])
            if isinstance(found, DataError):
                assert name in str(found)
            else:
                assert found == expected, f"{name} cut to {size}"
                assert name.endswith(".json")  # only the final newline may go
                assert size == len(data) - 1


def test_appended_bytes(store: Store, objects: Objects) -> None:
    expected = _look(store)
    for name, data in objects.items():
        for more in (b"\0", b"x" * 100, data):
            found = _outcome(store, name, data + more)
            if isinstance(found, DataError):
                assert name in str(found)
            else:  # a segment is read by ranges, and what follows them belongs to nobody
                assert found == expected
                assert name.endswith(".parquet")


def test_objects_swapped_with_others_of_their_kind(store: Store, objects: Objects) -> None:
    """Foreign and renamed files: right inside, in the wrong place."""
    other = _objects(_build())
    for name, data in objects.items():
        foreign = [
            bytes_
            for theirs, bytes_ in (*objects.items(), *other.items())
            if _kind(theirs) == _kind(name) and bytes_ != data
        ]
        for replacement in foreign:
            with pytest.raises(CrdtcatError) as caught:
                _with(store, name, replacement, lambda: _look(store))
            if isinstance(caught.value, DataError):
                assert name in str(caught.value)
            else:
                assert _kind(name) == "tag.json"  # a tag of another table names versions that are not here


def test_a_version_under_another_name_is_refused_by_name(store: Store, objects: Objects) -> None:
    name = next(name for name in objects if name.endswith(".v"))
    wrong = name[:-3] + ("0" if name[-3] != "0" else "1") + ".v"
    store.put(wrong, objects[name])
    try:
        with pytest.raises(Corrupt, match="renamed") as caught:
            _look(store)
        assert wrong in str(caught.value)
    finally:
        store.delete([wrong])


def test_files_of_strangers_in_the_log_are_passed_over(store: Store, objects: Objects) -> None:
    expected = _look(store)
    strangers = ["tables/t/main/README", "tables/t/main/hint", "tables/t/main/x.v", "tables/t/main/z1-ab.b"]
    for name in strangers:
        store.put(name, b"something else")
    try:
        assert _look(store) == expected
    finally:
        store.delete(strangers)


def test_vanished_objects_are_noticed(store: Store, objects: Objects) -> None:
    expected = _look(store)
    for name in objects:
        found = _outcome(store, name, None)
        if isinstance(found, Expired):
            assert _kind(name) in ("v", "b")  # noticed by the tag, which knows how many there were
        elif isinstance(found, NotFound):
            assert _kind(name).endswith("json")
        elif isinstance(found, Corrupt):
            assert found.name in (name, "tables/t/main/")
        if isinstance(found, CrdtcatError):
            continue
        # Nothing tells of a writer's latest version but itself: then the rest is whole, or a bundle has it.
        assert _kind(name) in ("v", "b", "crdtcat.json"), name
        if _kind(name) == "b":  # the versions it covers are still there
            assert found == expected
        if _kind(name) == "v":
            assert all(row in expected[2] for row in found[2])


def test_a_vanished_segment_and_bundle_are_named(store: Store, objects: Objects) -> None:
    for name in objects:
        if name.endswith(".parquet"):
            with pytest.raises(Corrupt, match="missing") as caught:
                _with(store, name, None, lambda: _look(store))
            assert caught.value.name == name


def test_a_gap_in_a_writers_numbers_names_the_writer() -> None:
    store = open_store(fresh_url())
    table = Catalog(store, **OPTIONS).create_table("t", SCHEMA)
    versions = [table.append(rows(frozenset({n}))) for n in range(4)]
    store.delete([f"tables/t/main/{versions[1].id}.v"])
    with pytest.raises(Corrupt, match=f"version 2 of writer {versions[1].id.writer:016x} is missing"):
        Catalog(store, **OPTIONS).read("t")
    store.delete([f"tables/t/main/{versions[0].id}.v"])
    with pytest.raises(Corrupt, match=f"version 1 of writer {versions[1].id.writer:016x} is missing"):
        Catalog(store, **OPTIONS).read("t")


def test_a_version_that_only_a_clock_tells_of_is_missed_too() -> None:
    store = open_store(fresh_url())
    Catalog(store, **OPTIONS).create_table("t", SCHEMA)
    lost = Catalog(store, **OPTIONS).table("t").append(rows(frozenset({1})))
    Catalog(store, **OPTIONS).table("t").overwrite(rows(frozenset({2})))
    store.delete([f"tables/t/main/{lost.id}.v"])
    with pytest.raises(Corrupt, match=f"version 1 of writer {lost.id.writer:016x} is missing"):
        Catalog(store, **OPTIONS).read("t")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("crdtcat.json", b'{"crdtcat":{"format":2}}\n'),
        ("tables/t/settings.json", b'{"format":2,"something":"new"}\n'),
    ],
)
def test_newer_formats_are_refused_by_name(store: Store, name: str, data: bytes) -> None:
    with pytest.raises(UnsupportedFormat, match=name):
        _with(store, name, data, lambda: _look(store))


NEWER_NUMBER = CARRYING_NUMBER + 1


def test_newer_version_and_bundle_formats_are_refused_by_name(store: Store, objects: Objects) -> None:
    for name, data in objects.items():
        if not name.endswith((".v", ".b")):
            continue
        framed = data[:8] + NEWER_NUMBER.to_bytes(2, "big") + data[10:-32]
        with pytest.raises(UnsupportedFormat, match=f"format {NEWER_NUMBER}") as caught:
            _with(store, name, framed + blake3(framed).digest(), lambda: _look(store))
        assert name in str(caught.value)


def test_a_sealed_file_of_nonsense_is_corrupt(store: Store, objects: Objects) -> None:
    for name in objects:
        if not name.endswith((".v", ".b")):
            continue
        kind: Any = b"V" if name.endswith(".v") else b"B"
        for body in (b"", b"\x80", b"\xc0", b"\0\0\0\0", b"\xff" * 50):
            with pytest.raises(Corrupt) as caught:
                _with(store, name, seal(kind, body), lambda: _look(store))
            assert name in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, json.dumps({"snapshot": 7}).encode()]
)
@pytest.mark.parametrize("kind", ["crdtcat.json", "settings.json", "tag.json"])
def test_json_that_is_something_else(store: Store, objects: Objects, kind: str, data: bytes) -> None:
    name = next(name for name in objects if _kind(name) == kind)
    with pytest.raises(Corrupt) as caught:
        _with(store, name, data, lambda: _look(store))
    assert caught.value.name == name


def test_damage_beside_a_good_copy_is_read_around() -> None:
    """A chunk that has two places is read from the one that works."""
    store = open_store(fresh_url())
    table = Catalog(store, **OPTIONS).create_table("t", SCHEMA)
    table.append(rows(frozenset({1, 2})))
    # Two bundlers at once: two segments hold the chunk.
    first, second = (Catalog(store, **OPTIONS).table("t") for _ in range(2))
    first.head()
    second.head()
    first.checkpoint()
    bundles = [item.name for item in store.list("tables/t/main/") if item.name.endswith(".b")]
    kept = store.get(bundles[0])
    store.delete(bundles)
    second.checkpoint()
    store.put(bundles[0], kept)
    segments = [i.name for f in store.folders("data/") for i in store.list(f"data/{f}/")]
    assert len(segments) == 2
    expected = pa.table({"n": [1, 2], "word": ["word 1", "word 2"]}, schema=SCHEMA)
    for name in segments:
        good = store.get(name)
        store.put(name, bytes(byte ^ 1 for byte in good))
        assert Catalog(store, **OPTIONS).read("t").equals(expected)
        store.put(name, good)
