"""The small files beside the log, broken in every way: a typed error that names the file, or a value.

Settings, the marker, tags, starts of branches, decisions, hints, transactions that were closed, lists of
garbage. What is in version files and bundles is broken in `test_fuzz`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Final

import pytest
from blake3 import blake3

from crdtcat.cas.cold_claims import decoded_hint
from crdtcat.clock import VectorClock
from crdtcat.errors import Corrupt, CrdtcatError, DataError, UnsupportedFormat
from crdtcat.format.closed import Closed, decode_closed
from crdtcat.format.condemned import decode_titles, encode_condemned, encode_let_go
from crdtcat.format.decision import decided_claims, decode_decision, encode_decision
from crdtcat.format.frame import seal
from crdtcat.format.refs import BranchStart, decode_branch_start
from crdtcat.format.sealed_json import seal_json
from crdtcat.format.settings import (
    MARKER,
    MARKER_NAME,
    ColumnSetting,
    Settings,
    check_marker,
    decode_settings,
)
from crdtcat.head import Snapshot
from crdtcat.limits import NESTING_DEPTH_MAX, SETTINGS_FILE_BYTES_MAX, SETTINGS_NESTING_MAX
from crdtcat.verbs.tags import decode_tag, encode_tag
from tests.bounds import bounded
from tests.format.mutate import body_of, mutated_bytes, mutated_value

ROUNDS: Final = bounded(20_000, 50)
NAME: Final = "some/file"
SNAPSHOT: Final = Snapshot("0" * 64, 3, VectorClock({1: 2, 7: 1}))
COLUMNS: Final = (ColumnSetting(name="a", type="int64"), ColumnSetting(name="b", type=["list", "int8", True]))
Decode = Callable[[bytes], Any]

SEALED_JSON: Final[dict[str, tuple[bytes, Decode]]] = {
    "settings": (
        Settings(columns=COLUMNS, key=("a",), partition_by=("a",)).encode(),
        lambda data: decode_settings(data, NAME),
    ),
    "a tag": (encode_tag(SNAPSHOT, SNAPSHOT), lambda data: decode_tag(data, NAME)),
    "a branch's start": (
        BranchStart("main", 1, str(SNAPSHOT), "nonce", 5).encode(),
        lambda data: decode_branch_start(data, NAME),
    ),
    "a decision": (
        encode_decision(committed=True, claims={"tables/t/main/": 3}),
        lambda data: (decode_decision(data, NAME), decided_claims(data, NAME)),
    ),
}
FRAMED: Final[dict[str, tuple[bytes, Decode]]] = {
    "closed transactions": (Closed(2, 9, frozenset({4, 8})).encode(), lambda d: decode_closed(d, NAME, 2)),
    "condemned segments": (encode_condemned([bytes(24), b"x" * 24]), lambda d: decode_titles(d, f"{NAME}.g")),
    "segments let go": (encode_let_go([bytes(24), b"x" * 24]), lambda d: decode_titles(d, f"{NAME}.l")),
}
MARKED: Final[dict[str, tuple[bytes, Decode]]] = {"the marker": (MARKER, check_marker)}
EVERYTHING: Final = {**SEALED_JSON, **FRAMED, **MARKED}


def _line(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _refused(decode: Decode, data: bytes, *kinds: type[CrdtcatError]) -> str:
    with pytest.raises(kinds or DataError) as caught:
        decode(data)
    assert NAME in str(caught.value) or MARKER_NAME in str(caught.value)
    return str(caught.value)


def _is_refused(decode: Decode, data: bytes) -> bool:
    """Whether it is, by an error of ours that names the file; any other is the test's."""
    try:
        decode(data)
    except DataError as error:
        told = str(error)
    else:
        return False
    assert NAME in told
    return True


@pytest.mark.parametrize("kind", EVERYTHING)
def test_as_they_are_they_are_read(kind: str) -> None:
    data, decode = EVERYTHING[kind]
    decode(data)


@pytest.mark.parametrize("kind", EVERYTHING)
def test_truncated_flipped_and_of_another_kind(kind: str) -> None:
    data, decode = EVERYTHING[kind]
    for size in range(len(data) - 1):  # JSON may lose the line's end
        _refused(decode, data[:size])
    for at in range(len(data) - 1):
        for bit in range(8):
            _refused(decode, data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :])
    for other, (theirs, _) in EVERYTHING.items():
        if other != kind and (kind, other) != ("a tag", "a branch's start"):  # which has a snapshot, too
            _refused(decode, theirs)


@pytest.mark.parametrize("kind", EVERYTHING)
def test_newer_formats_are_told_from_damage(kind: str) -> None:
    data, decode = EVERYTHING[kind]
    if kind in FRAMED:
        framed = data[:8] + (2).to_bytes(2, "big") + data[10:-32]
        newer = framed + blake3(framed).digest()
    else:
        newer = _line({"crdtcat": {"format": 2}} if kind in MARKED else {**json.loads(data), "format": 2})
    assert "upgrade" in _refused(decode, newer, UnsupportedFormat)


@pytest.mark.parametrize("kind", [*SEALED_JSON, *MARKED])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_nested_as_deep_as_you_like(kind: str, opening: str) -> None:
    """Reading it, hashing it and looking at it each have a depth of their own at which they would give up."""
    _, decode = EVERYTHING[kind]
    closing = {"[": "]", '{"a":': "}"}[opening]
    for depth in (*range(1, 1100, 7), 5_000, 100_000):
        text = opening * depth + "1" + closing * depth
        _refused(decode, f"{text}\n".encode())
        line = f'{{"format":1,"x":{text}}}\n'
        _refused(decode, line.encode())
        checksum = blake3(line.encode()).hexdigest()
        if kind in SEALED_JSON:
            _refused(decode, f'{{"blake3":"{checksum}",{line[1:]}'.encode())


def test_a_type_that_a_table_may_have_is_not_too_deep_and_one_that_is_deeper_is_told() -> None:
    code: Any = ["timestamp", "us", "UTC"]
    for _ in range(NESTING_DEPTH_MAX):
        code = ["struct", [["x", code, True]]]
    allowed = Settings(columns=(ColumnSetting(name="a", type=code),))
    assert decode_settings(allowed.encode(), NAME) == allowed
    for _ in range(SETTINGS_NESTING_MAX):
        code = ["list", code, True]
    deeper = seal_json({"format": 1, "columns": [{"name": "a", "type": code}]})
    _refused(lambda data: decode_settings(data, NAME), deeper, Corrupt)


@pytest.mark.parametrize("kind", SEALED_JSON)
def test_oversized_files_are_not_looked_at(kind: str) -> None:
    data, decode = EVERYTHING[kind]
    assert "limit" in _refused(decode, data[:-1] + b" " * SETTINGS_FILE_BYTES_MAX, Corrupt)


@pytest.mark.parametrize("kind", SEALED_JSON)
def test_a_right_checksum_and_a_wrong_inside(kind: str) -> None:
    data, decode = EVERYTHING[kind]
    content = {name: value for name, value in json.loads(data).items() if name != "blake3"}
    refused = 0
    for seed in range(ROUNDS):
        chance = random.Random(seed)
        changed = content
        for _ in range(chance.randint(1, 3)):
            changed = mutated_value(changed, chance)
        try:
            line = _line({**changed, "blake3": blake3(_line(changed)).hexdigest()})
        except TypeError:  # bytes, or no map: nothing that JSON has
            continue
        refused += _is_refused(decode, line)
    assert refused > ROUNDS * 0.3


@pytest.mark.parametrize("kind", FRAMED)
def test_a_right_trailer_and_a_wrong_inside(kind: str) -> None:
    data, decode = EVERYTHING[kind]
    refused = 0
    for seed in range(ROUNDS):
        broken = seal(data[7:8], mutated_bytes(body_of(data), random.Random(seed)))  # type: ignore[arg-type]
        refused += _is_refused(decode, broken)
    assert refused > ROUNDS * 0.3


def test_a_hint_is_advice_whatever_is_in_it() -> None:
    """Never an error: whoever cannot use it reads the log."""
    content = {"format": 1, "number": 3, "id": f"{0:016x}-{1:016x}-{1:08x}-{0:032x}", "bundle": "z1-x.b"}
    assert decoded_hint(seal_json(content), NAME) is not None
    for seed in range(ROUNDS):
        chance = random.Random(seed)
        changed = mutated_value(content, chance)
        try:
            data = _line({**changed, "blake3": blake3(_line(changed)).hexdigest()})
        except TypeError:
            data = b"[" * chance.choice((1, 900, 995, 100_000))
        found = decoded_hint(data, NAME)
        assert found is None or found.parent.number > 0
        assert decoded_hint(mutated_bytes(data, chance), NAME) in (None, found)
