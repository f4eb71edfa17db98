"""Equal values, equal bytes: whoever writes, in whatever order things were put together."""

from __future__ import annotations

import os
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.clock import ROOT, VectorClock, VersionId
from crdtcat.errors import Corrupt
from crdtcat.format import frame
from crdtcat.format.frame import seal, unseal
from crdtcat.format.ops import ColumnId, Definition, DefinitionId, Ops, decode_ops
from crdtcat.format.row_ids import KeyedTag
from crdtcat.format.schema_code import StoredField, decode_schema, encode_schema
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.format.sections import blobs, nulls
from crdtcat.format.settings import ColumnSetting, Settings, decode_settings
from crdtcat.format.version import decode_version, encode_version, pack, unpack
from crdtcat.head import Snapshot

scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8) | st.binary(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=5),
)
ids = st.builds(
    VersionId,
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(min_size=16, max_size=16),
)
columns = st.builds(ColumnId, st.text(min_size=1, max_size=5), ids | st.just(ROOT))


def _shuffled(value: Any, seed: int) -> Any:
    """The same value with every map built in another order."""
    if isinstance(value, dict):
        items = [(key, _shuffled(item, seed)) for key, item in value.items()]
        random.Random(seed).shuffle(items)
        return dict(items)
    return [_shuffled(item, seed) for item in value] if isinstance(value, list) else value


@given(values, st.integers())
def test_packing_does_not_depend_on_the_order_of_maps(value: Any, seed: int) -> None:
    assert pack(value) == pack(_shuffled(value, seed))
    assert unpack(pack(value), "name") == value
    assert pack(unpack(pack(value), "name")) == pack(value)


@given(st.binary(max_size=200))
def test_frames_round_trip(body: bytes) -> None:
    assert unseal(b"V", seal(b"V", body), "name") == body
    assert unseal(b"B", seal(b"B", body), "name") == body


def test_large_files_are_checked_on_several_cores_also_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """As small ones are, and without threads that a child of this process would lack."""
    monkeypatch.setattr(frame, "LARGE_BYTES", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    data = seal(b"B", bytes(range(256)) * 2**14)
    assert unseal(b"B", data, "name") == data[frame.HEADER_BYTES : -frame.TRAILER_BYTES]
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 1
    with pytest.raises(Corrupt, match="damaged"):
        unseal(b"B", bytes(damaged), "name")
    child = os.fork()
    if not child:
        os._exit(int(len(unseal(b"B", data, "name")) != 2**22))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@given(st.dictionaries(st.text("abcmnokxz", min_size=1, max_size=2), values, max_size=5), ids, st.integers())
def test_version_files_are_canonical_and_name_themselves(
    extra: dict[str, Any], id: VersionId, seed: int
) -> None:
    body = {key: value for key, value in extra.items() if value is not None}
    body |= {"h": id.hlc, "w": id.writer, "s": id.seq}
    named, data = encode_version(body)
    again, twin = encode_version(_shuffled(body, seed))
    assert (named, data) == (again, twin)
    found, decoded = decode_version(data, "name")
    assert found == named
    assert decoded == body


@given(
    st.lists(
        st.builds(
            Definition,
            columns,
            st.text(max_size=5),
            st.just("i8"),
            st.booleans(),
            st.floats(allow_nan=False),
            st.lists(st.builds(DefinitionId, ids, st.integers(0, 99)), max_size=3).map(tuple),
        ),
        max_size=3,
    ),
    st.lists(columns, max_size=3),
    st.dictionaries(st.text(max_size=4), scalars, max_size=4),
    st.lists(
        st.builds(KeyedTag, st.text(), st.binary(min_size=32, max_size=32), st.integers(0, 9)), max_size=3
    ),
    st.none() | st.frozensets(st.binary(max_size=4), max_size=4),
)
@settings(max_examples=60)
def test_ops_round_trip(
    definitions: Any, drops: Any, properties: Any, keyed: Any, scope: frozenset[bytes] | None
) -> None:
    ops = Ops(
        tuple(definitions),
        tuple(drops),
        properties,
        removed_keyed=tuple(keyed),
        is_overwrite=True,
        scope=scope,
    )
    data = ops.encode()
    assert data is not None
    found = decode_ops(data, VersionId(1, 1, 1, bytes(16)), "name")
    assert found.definitions == ops.definitions
    assert found.drops == ops.drops
    assert found.properties == ops.properties
    assert found.removed_keyed == ops.removed_keyed
    assert (found.is_overwrite, found.scope) == (True, scope)
    assert found.encode() == data


@given(
    st.lists(st.builds(StoredField, st.text(max_size=5), columns, st.just("i8"), st.booleans()), max_size=4)
)
def test_schemas_round_trip(fields: list[StoredField]) -> None:
    data = encode_schema(fields)
    assert decode_schema(data, "name") == tuple(fields)
    assert encode_schema(decode_schema(data, "name")) == data


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.integers(0, 9)), st.integers())
def test_sealed_json_is_canonical(content: dict[str, Any], seed: int) -> None:
    content = {**content, "format": 1}
    content.pop("blake3", None)
    data = seal_json(content)
    assert data == seal_json(_shuffled(content, seed))
    assert unseal_json(data, "name") == content


@given(
    st.integers(1, 99),
    st.booleans(),
    st.none() | st.text(max_size=5),
    st.none()
    | st.lists(
        st.builds(ColumnSetting, name=st.text(max_size=5), type=st.just("i8"), nullable=st.booleans())
    ),
)
def test_settings_round_trip(incarnation: int, dropped: bool, time_column: str | None, found: Any) -> None:
    columns = None if found is None else tuple(found)
    made = Settings(incarnation=incarnation, dropped=dropped, time_column=time_column, columns=columns)
    assert decode_settings(made.encode(), "name") == made
    assert decode_settings(made.encode(), "name").encode() == made.encode()


@given(
    st.binary(min_size=32, max_size=32),
    st.integers(0, 10**6),
    st.dictionaries(st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1), max_size=6),
    st.integers(),
)
def test_snapshot_tokens_round_trip(id: bytes, versions: int, clock: dict[int, int], seed: int) -> None:
    snapshot = Snapshot(id.hex(), versions, VectorClock(clock))
    assert Snapshot.parse(str(snapshot)) == snapshot
    assert str(snapshot) == str(Snapshot(id.hex(), versions, VectorClock(_shuffled(clock, seed))))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_a_column_of_nulls_is_one_as_arrow_makes_it(count: int) -> None:
    made, plain = nulls(count), pa.nulls(count, pa.large_binary())
    made.validate(full=True)
    assert made.equals(plain)
    assert made.null_count == count
    assert pa.concat_arrays([made, blobs([b"x"]), made]).to_pylist() == [
        *[None] * count,
        b"x",
        *[None] * count,
    ]
