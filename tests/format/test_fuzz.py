"""Broken metadata: whatever the bytes, the answer is a value or an error of ours, in bounded memory."""

from __future__ import annotations

import base64
import os
import random
import re
import tracemalloc
import zlib
from typing import Any, Literal

import msgpack
import numpy as np
import pyarrow as pa
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.chunks.footer_cache import FooterCache
from crdtcat.clock import VectorClock, VersionId
from crdtcat.errors import Corrupt, CrdtcatError, InvalidArgument, UnsupportedFormat
from crdtcat.format.frame import CARRYING_NUMBER, FORMAT_NUMBER, digest, seal, unseal
from crdtcat.format.kinds import OVERLAY
from crdtcat.format.ops import decode_ops
from crdtcat.format.row_ids import unpack_row_ids
from crdtcat.format.schema_code import decode_schema
from crdtcat.format.sealed_json import seal_json
from crdtcat.format.sections import decode_sections, encode_sections
from crdtcat.format.settings import ColumnSetting, Settings, check_marker, decode_settings
from crdtcat.format.version import decode_version, encode_version, unpack
from crdtcat.head import Head, Snapshot
from crdtcat.limits import ROW_INTERVALS_MAX, VERSION_FILE_BYTES_MAX
from crdtcat.log import State, decode_bundle, encode_bundle, serialize
from crdtcat.log.build import LogBuilder
from crdtcat.log.transactions import add_parts
from crdtcat.scan import Scan
from crdtcat.store.memory import MemoryStore
from tests.format.consume import FOLDER, build, build_keyed, consume, renamed
from tests.format.mutate import body_of, mutated_bytes, mutated_value

ROUNDS = 20_000 if os.environ.get("CRDTCAT_SLOW") == "full" else 400
File = tuple[str, bytes]
Kind = Literal[b"V", b"B"]


Corpus = tuple[MemoryStore, list[File], list[File], Settings]


@pytest.fixture(scope="module")
def built() -> list[Corpus]:
    """What a table without a key and one with a key are made of."""
    name = "tables/t/settings.json"
    return [(*made, decode_settings(made[0].get(name), name)) for made in (build(), build_keyed())]


def _only_ours(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except CrdtcatError as error:
        return error


@given(st.binary(max_size=400))
@settings(max_examples=120, deadline=None)
def test_random_bytes(data: bytes) -> None:
    kinds: tuple[Kind, ...] = (b"V", b"B")
    for kind in kinds:
        _only_ours(unseal, kind, data, "name")
    sealed_version, sealed_bundle = seal(b"V", data), seal(b"B", data)
    _only_ours(decode_version, sealed_version, "name")
    _only_ours(decode_bundle, sealed_bundle, FOLDER, "name")
    _only_ours(decode_sections, memoryview(data), 0, "name")
    _only_ours(decode_ops, data, VersionId(1, 2, 3, bytes(16)), "name")
    _only_ours(decode_schema, data, "name")
    _only_ours(decode_settings, data, "name")
    _only_ours(check_marker, data)
    _only_ours(VersionId.from_bytes, data)


@given(st.text(max_size=200))
@settings(max_examples=120, deadline=None)
def test_random_text(text: str) -> None:
    _only_ours(VersionId.parse, text)
    _only_ours(Snapshot.parse, text)
    _only_ours(Snapshot.parse, "s1." + text)


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*Settings.model_fields, "other"]), json))
@settings(max_examples=120, deadline=None)
def test_settings_with_a_right_checksum_and_wrong_inside(content: dict[str, Any]) -> None:
    found = _only_ours(decode_settings, seal_json(content), "name")
    assert isinstance(found, Settings | Corrupt | UnsupportedFormat)


packed = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary(max_size=40)
    | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.integers(0, 9) | st.text(max_size=3), inner)
    ),
    max_leaves=10,
)


@given(packed)
@settings(max_examples=120, deadline=None)
def test_snapshot_tokens_with_a_wrong_inside(value: Any) -> None:
    token = "s1." + base64.urlsafe_b64encode(zlib.compress(msgpack.packb(value))).decode()
    _only_ours(Snapshot.parse, token)


@given(packed)
@settings(max_examples=120, deadline=None)
def test_ops_schemas_and_versions_of_any_value(value: Any) -> None:
    data = msgpack.packb(value)
    _only_ours(decode_ops, data, VersionId(1, 2, 3, bytes(16)), "name")
    _only_ours(decode_schema, data, "name")
    _only_ours(decode_version, seal(b"V", data), "name")


def test_every_kind_of_version_is_accepted_unbroken(built: list[Corpus]) -> None:
    for store, versions, bundles, table in built:
        assert consume(store, versions, table) is None
        assert consume(store, bundles, table) is None
    assert [len(versions) for _, versions, _, _ in built] == [16, 5]


NAMED = re.compile(
    r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{8}-[0-9a-f]{32}"  # a version, or the one it contradicts
    r"|z[0-9]{8}-[0-9a-f]{32}.*\.b|data/[0-9a-f]{2}/"  # a bundle; a segment that is not what it says
    rf"|{FOLDER}: malformed statistics of column"  # which are put together, and decoded when they are wanted
)


def _is_refused_by_name(error: CrdtcatError | None) -> bool:
    """Whether it is; by an error that says where to look."""
    assert error is None or NAMED.search(str(error)), error
    return error is not None


def test_versions_with_a_right_checksum_and_wrong_inside(built: list[Corpus]) -> None:
    refused = 0
    for seed in range(ROUNDS):
        rnd = random.Random(seed)
        store, versions, _, table = rnd.choice(built)
        name, data = rnd.choice(versions)
        if rnd.random() < 0.4:
            body = mutated_bytes(body_of(data), rnd)
        else:
            value = mutated_value(unpack(body_of(data), name), rnd)
            try:
                body = msgpack.packb(value)
            except (ValueError, OverflowError, TypeError):
                continue
        broken = seal(b"V", body)
        others = [file for file in versions if file[0] != name]
        refused += _is_refused_by_name(consume(store, [*others, (renamed(name, broken), broken)], table))
    assert refused > ROUNDS * 0.3


def test_bundles_with_a_right_checksum_and_wrong_inside(built: list[Corpus]) -> None:
    refused = 0
    for seed in range(ROUNDS):
        rnd = random.Random(seed)
        store, _, ((name, data),), table = rnd.choice(built)
        broken = seal(b"B", mutated_bytes(body_of(data), rnd))
        refused += _is_refused_by_name(consume(store, [(renamed(name, broken), broken)], table))
    assert refused > ROUNDS * 0.2


def test_chunks_whose_rows_are_nowhere_are_damage(built: list[Corpus]) -> None:
    """Rows without a place were damage when they were read; an update without one was left out in silence."""
    seen = set[int]()
    for _, versions, bundles, _ in built:
        for name, data in versions:
            body = unpack(body_of(data), name)
            if not any(body.get(key) for key in ("a", "i")):
                continue
            seen.update(body.get("b", ()))
            body.pop("a", None)
            if body.get("i"):
                body["i"] = [*body["i"][:-1], None]
            broken = seal(b"V", msgpack.packb(body))
            with pytest.raises(Corrupt, match="neither a place nor inlined rows"):
                State(FOLDER).joined([(renamed(name, broken), broken)])
        for name, _ in bundles:
            log = State(FOLDER).joined(bundles).log
            kept = log.place_chunk != log.chunk_count - 1
            columns = ("place_chunk", "place_segment", "place_group")
            wrong = log.with_(**{column: getattr(log, column)[kept] for column in columns})
            broken = encode_bundle(wrong, FOLDER)
            with pytest.raises(Corrupt, match="a chunk without a place"):
                State(FOLDER).joined([(renamed(name, broken), broken)])
    assert OVERLAY in seen


@pytest.mark.parametrize("column", ["place_group", "rows"])
def test_places_and_rows_that_a_log_only_claims(built: list[Corpus], column: str) -> None:
    for store, _, bundles, table in built:
        log = State(FOLDER).joined(bundles).log
        wrong = log.with_(**{column: getattr(log, column) + 2**31})
        scan = Scan(
            Head("t", wrong, table), store, columns=None, filter=None, verify=True, footers=FooterCache()
        )
        tracemalloc.start()
        try:
            for look in (scan.to_table, *([scan.explain] if column == "place_group" else [])):
                with pytest.raises(Corrupt):
                    look()
            assert tracemalloc.get_traced_memory()[1] < 2**24
        finally:
            tracemalloc.stop()


def test_broken_bytes_never_pass_the_checksum(built: list[Corpus]) -> None:
    for seed in range(ROUNDS):
        rnd = random.Random(seed)
        _, versions, bundles, _ = rnd.choice(built)
        name, data = rnd.choice(versions + bundles)
        broken = mutated_bytes(data, rnd)
        if broken == data:
            continue
        with pytest.raises((Corrupt, UnsupportedFormat)):
            decode_version(broken, name) if name.endswith(".v") else decode_bundle(broken, FOLDER, name)


def _nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


HUGE: dict[str, bytes] = {
    "array of 4 billion": b"\xdd\xff\xff\xff\xff",
    "map of 4 billion": b"\xdf\xff\xff\xff\xff",
    "text of 4 billion": b"\xdb\xff\xff\xff\xff",
    "bytes of 4 billion": b"\xc6\xff\xff\xff\xff",
    "extension of 4 billion": b"\xc9\xff\xff\xff\xff\x01",
    "a million levels": _nested(1_000_000),
    "levels of maps": b"\x81\xa1a" * 100_000 + b"\xc0",
    "timestamps": b"\xc7\x0c\xff" + b"\xff" * 12,
}


@pytest.mark.parametrize("inside", HUGE)
def test_declared_lengths_and_depths_allocate_nothing(inside: str) -> None:
    data = HUGE[inside]
    wrapped = b"\x84\xa1h\x01\xa1w\x01\xa1s\x01\xa1x" + data  # as the ops of an otherwise plausible version
    tracemalloc.start()
    try:
        for body in (data, wrapped):
            _only_ours(decode_version, seal(b"V", body), "name")
        length = len(data).to_bytes(4, "big")
        _only_ours(decode_bundle, seal(b"B", length + data), FOLDER, "name")
        _only_ours(decode_sections, memoryview(length + data), 0, "name")
        _only_ours(decode_ops, data, VersionId(1, 2, 3, bytes(16)), "name")
        _only_ours(decode_schema, data, "name")
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


def test_sections_that_claim_to_be_huge() -> None:
    for shape in ([2**62], [2**32, 2**32], [-1], [0, 2**63], ["x"], [2**40]):
        for size in (0, 8, 2**62):
            directory = msgpack.packb({"meta": {}, "arrays": [["a", "<u8", shape, 0, size]]})
            data = len(directory).to_bytes(4, "big") + directory + bytes(256)
            _only_ours(decode_sections, memoryview(data), 0, "name")


@pytest.mark.parametrize(
    ("code", "content"),
    [
        ("<u8", []),
        ("<u8", [1, 1]),
        ("<f8", [float("inf")]),
        ("<f8", [float("nan")]),
        ("<i8", [-1]),
        ("<u8", [2**32 - 1]),
        ("<u8", [2**64 - 1]),
    ],
)
def test_columns_of_nothing_that_say_so_wrongly(code: str, content: list[Any]) -> None:
    """A column without values is stored as the number of its rows: one integer, and not more than can be."""
    data = encode_sections({}, {"a.none": np.array(content, code)}, 0)
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt, match="name"):
            decode_sections(memoryview(data), 0, "name")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "body",
    [
        {"t": {FOLDER: [b"x"]}, "D": [FOLDER, 1]},
        {"t": {FOLDER: [b"x"]}, "D": {FOLDER: 1}},
        {"t": {FOLDER: [b"x"]}, "D": 7},
        {"t": {FOLDER: [b"x"], 1: [b"x"]}},
        {"t": {FOLDER: [b"x"], None: []}},
    ],
)
def test_transactions_that_touch_what_is_no_folder(body: dict[str, Any]) -> None:
    id = VersionId(1, 2, 3, bytes(16))
    with pytest.raises(Corrupt, match=r"name.*folders that a transaction touches are texts"):
        add_parts(LogBuilder(FOLDER), id, body, FOLDER, "name")


@pytest.mark.parametrize("seq", [2**32, 2**63, 2**64 - 1])
def test_a_token_that_counts_further_than_any_writer_can(seq: int) -> None:
    """Of a writer that is there: so it was looked up."""
    table = Catalog(MemoryStore("memory://tokens"), upkeep=False).create_table("t", exist_ok=True)
    writer = table.append([{"n": 1}]).id.writer
    snapshot = table.head().snapshot
    for clock in ({writer: seq}, {writer: 1, 7: seq}):
        token = str(Snapshot(snapshot.id, snapshot.versions, VectorClock(clock)))
        with pytest.raises(InvalidArgument, match="not a snapshot token"):
            table.read(at=token)


def test_types_that_this_release_does_not_know_are_refused_by_name(built: list[Corpus]) -> None:
    """In the rows of a version, in a definition, in settings: as a newer release would store them."""
    store, _, bundles, table = built[0]
    catalog = Catalog(MemoryStore("memory://types"), upkeep=False)
    for number, column in enumerate((b"f", b"x")):
        it = catalog.create_table(f"t{number}", pa.schema([("n", pa.int64())]))
        id = (it.add_column("x", pa.float32()) if column == b"x" else it.append([{"n": 1}])).id
        folder = f"tables/t{number}/main/"
        name = f"{folder}{id}.v"
        body = body_of(bytes(catalog.store.get(name)))
        broken = seal(b"V", body.replace(b"int64", b"int65").replace(b"float32", b"float33"))
        newer = f"{name[: -len('.v') - 32]}{digest(broken).hex()}.v"
        catalog.store.put(newer, broken)
        catalog.store.delete([name])
        with pytest.raises(UnsupportedFormat, match=rf"{id!s:.43}.*'(int65|float33)' is not .*: upgrade"):
            Catalog(catalog.store, upkeep=False).read(f"t{number}")
    unknown = table.model_copy(update={"columns": (ColumnSetting(name="n", type="int65"),)})
    assert "settings.json: 'int65'" in str(consume(store, bundles, unknown))


def test_tokens_that_unfold_to_gigabytes_are_refused() -> None:
    bomb = "s1." + base64.urlsafe_b64encode(zlib.compress(bytes(2**26), 9)).decode()
    tracemalloc.start()
    try:
        assert isinstance(_only_ours(Snapshot.parse, bomb), CrdtcatError)
        assert isinstance(_only_ours(Snapshot.parse, "s1." + "A" * 10**6), CrdtcatError)
        zeros = base64.urlsafe_b64encode(zlib.compress(msgpack.packb([2**40, 1, {}]))).decode()
        assert isinstance(_only_ours(Snapshot.parse, "s1." + zeros), CrdtcatError)
        assert tracemalloc.get_traced_memory()[1] < 2**29
    finally:
        tracemalloc.stop()


def test_oversized_version_files_are_refused_before_they_are_looked_at() -> None:
    with pytest.raises(Corrupt, match="over the limit"):
        decode_version(bytes(VERSION_FILE_BYTES_MAX + 1), "name")


def test_features_this_release_does_not_have_are_refused_by_name() -> None:
    _, data = encode_version({"h": 1, "w": 1, "s": 1, "!": ["time machine"]})
    with pytest.raises(UnsupportedFormat, match=r"name.*time machine"):
        decode_version(data, "name")


def test_newer_format_numbers_are_refused_by_name() -> None:
    kinds: tuple[tuple[Kind, int], ...] = ((b"V", CARRYING_NUMBER + 1), (b"B", FORMAT_NUMBER + 1))
    for kind, number in kinds:
        framed = b"CRDTCAT" + kind + number.to_bytes(2, "big") + b"anything at all"
        with pytest.raises(UnsupportedFormat, match=rf"some/name: format {number}.*upgrade"):
            unseal(kind, framed + blake3(framed).digest(), "some/name")


def test_oversized_bundles_are_refused_before_they_are_looked_at(
    built: list[Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _, _, ((name, data),), _ in built:
        monkeypatch.setattr(serialize, "BUNDLE_FILE_BYTES_MAX", len(data))
        decode_bundle(data, FOLDER, name)
        monkeypatch.setattr(serialize, "BUNDLE_FILE_BYTES_MAX", len(data) - 1)
        with pytest.raises(Corrupt, match="over the limit"):
            decode_bundle(data, FOLDER, name)


@pytest.mark.parametrize("count", [ROW_INTERVALS_MAX + 1, 2**63, -1, 0.5, None, "1"])
def test_row_intervals_that_no_version_has(count: Any) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt, match=r"name.*row intervals"):
            unpack_row_ids({"v": b"", "i": b"", "n": count, "z": b"x"}, "name")
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
