"""Files of claims that carry others: what they hold, and that broken ones are refused by name."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import pytest

from crdtcat.errors import Corrupt, CrdtcatError, UnsupportedFormat
from crdtcat.format.carried import carrying, frames_of, own_frame, proven_frames
from crdtcat.format.frame import CARRYING_NUMBER, seal, unseal
from crdtcat.format.version import decode_version, encode_version
from crdtcat.limits import CARRIED_BYTES_MAX, CARRIED_CLAIMS_MAX, VERSION_FILE_BYTES_MAX
from crdtcat.log import State
from crdtcat.maintenance.verify_small_files import damaged_claims
from crdtcat.protocol import claim_name
from tests.format.mutate import mutated_bytes, mutated_value

FOLDER = "tables/t/main/"
ROUNDS = 400


def version(number: int, size: int = 0) -> bytes:
    body = {"h": 100 + number, "w": number, "s": 1, "l": FOLDER, "#": number, "o": 0, "c": {}}
    return encode_version({**body, "m": {"fill": "x" * size}} if size else body)[1]


OWN, BELOW = version(9), [version(8), version(7), version(6)]
NAME = claim_name(FOLDER, 9)
FILE = carrying(OWN, BELOW)


def sealed(frames: Any) -> bytes:
    return seal(b"V", msgpack.packb(frames), CARRYING_NUMBER)


def test_what_was_put_in_comes_out_to_the_byte() -> None:
    assert list(frames_of(FILE, NAME)) == [OWN, *BELOW]
    assert own_frame(FILE, NAME) == OWN
    assert own_frame(memoryview(FILE), NAME) == OWN
    assert decode_version(own_frame(FILE, NAME), NAME) == decode_version(OWN, NAME)
    assert list(frames_of(OWN, NAME)) == [OWN]


def test_one_that_carries_nothing_is_the_version_file_itself() -> None:
    assert carrying(OWN, []) is OWN
    assert carrying(OWN, [version(8, CARRIED_BYTES_MAX)]) is OWN
    large = OWN + bytes(VERSION_FILE_BYTES_MAX - len(OWN))
    assert carrying(large, BELOW) is large, "it is never larger than a version file may be"


def test_a_state_takes_in_what_is_its_own_and_nothing_else() -> None:
    carried, plain = State(FOLDER).joined([(NAME, FILE)]), State(FOLDER).joined([(NAME, OWN)])
    assert carried == plain
    assert carried.log.number.tolist() == [9]


def test_as_many_are_carried_as_limits_allow_from_the_highest_on() -> None:
    many = [version(number) for number in range(99, 0, -1)]
    assert list(frames_of(carrying(OWN, many), NAME)) == [OWN, *many[:CARRIED_CLAIMS_MAX]]
    large = [version(number, 10_000) for number in range(8, 0, -1)]
    held = frames_of(carrying(OWN, large), NAME)
    assert list(held) == [OWN, *large[:3]]
    assert sum(map(len, held[1:])) <= CARRIED_BYTES_MAX < sum(map(len, large[:4]))


def test_where_a_version_file_belongs_it_is_damage() -> None:
    with pytest.raises(Corrupt, match=rf"{NAME}.*format 2 where format 1 belongs"):
        decode_version(FILE, NAME)
    with pytest.raises(Corrupt, match="format 1 where format 2 belongs"):
        unseal(b"V", OWN, NAME, CARRYING_NUMBER)
    name = f"{FOLDER}{decode_version(OWN, NAME)[0]}.v"
    with pytest.raises(Corrupt, match="format 2 where"):
        State(FOLDER).joined([(name, FILE)])


def test_a_newer_format_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFormat, match=rf"{NAME}: format 3.*upgrade"):
        State(FOLDER).joined([(NAME, seal(b"V", b"anything", 3))])


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [OWN],
        [OWN, *[BELOW[0]] * (CARRIED_CLAIMS_MAX + 1)],
        [OWN, version(8, CARRIED_BYTES_MAX)],
        [FILE, *BELOW],
        [OWN, FILE],
        [OWN, b""],
        [OWN, b"CRDTCATV\x00\x01"],
        [OWN, BELOW[0].replace(b"CRDTCATV", b"CRDTCATB")],
        [OWN, "text"],
        [OWN, None],
        [OWN, 2**40],
        {"a": OWN},
        OWN,
        7,
        None,
    ],
    ids=lambda frames: type(frames).__name__,
)
def test_what_no_claim_carries_is_refused_by_name(frames: Any) -> None:
    for read in (frames_of, own_frame):
        with pytest.raises(Corrupt, match=NAME):
            read(sealed(frames), NAME)
    with pytest.raises(Corrupt, match=NAME):
        State(FOLDER).joined([(NAME, sealed(frames))])


def test_oversized_ones_are_refused_before_they_are_looked_at() -> None:
    with pytest.raises(Corrupt, match="over the limit"):
        frames_of(FILE + bytes(VERSION_FILE_BYTES_MAX), NAME)


def test_every_truncation_and_every_flipped_bit_is_damage() -> None:
    for at in range(len(FILE)):
        for broken in (FILE[:at], FILE[:at] + bytes([FILE[at] ^ 1 << at % 8]) + FILE[at + 1 :]):
            with pytest.raises(CrdtcatError, match=NAME):
                decode_version(own_frame(broken, NAME), NAME)


def test_with_a_right_checksum_and_wrong_inside_the_answer_is_ours() -> None:
    refused = 0
    body = FILE[10:-32]
    for seed in range(ROUNDS):
        rnd = random.Random(seed)
        if rnd.random() < 0.5:
            broken = seal(b"V", mutated_bytes(body, rnd), CARRYING_NUMBER)
        else:
            try:
                broken = sealed(mutated_value(msgpack.unpackb(body), rnd))
            except (ValueError, OverflowError, TypeError):
                continue
        try:
            for frame in frames_of(broken, NAME):
                decode_version(frame, NAME)
        except CrdtcatError as error:
            assert NAME in str(error)  # noqa: PT017 (whether it is raised is counted)
            refused += 1
    assert refused > ROUNDS * 0.3


def test_verify_tells_of_what_is_carried_in_a_wrong_place_or_damaged() -> None:
    swapped = sealed([OWN, BELOW[1], BELOW[0]])
    broken = sealed([OWN, BELOW[0][:-1] + b"?"])
    for file, why in ((swapped, "carries another claim than that of number 8"), (broken, "BLAKE3")):
        (error,) = damaged_claims([(NAME, file)]).values()
        assert isinstance(error, Corrupt)
        assert NAME in str(error)
        assert why in str(error)
    assert damaged_claims([(NAME, FILE)]) == {}


def follower(number: int, below: bytes | None, parts: Any = None) -> bytes:
    """A claim that names the one below it, or one of a transaction whose versions do."""
    body = {"h": 100 + number, "w": number, "s": 1, "l": FOLDER, "#": number, "o": 0, "c": {}}
    if below is not None:
        body["p"] = decode_version(below, "")[0].to_bytes()
    if parts is None:
        return encode_version(body)[1]
    named = {"h": 100 + number, "w": number, "s": 2, "l": FOLDER, "#": number, "o": 11, "D": [FOLDER]}
    return encode_version({**named, "t": {FOLDER: [encode_version(body)[1]] if parts == "one" else parts}})[1]


FIRST = follower(6, None)
SECOND = follower(7, FIRST)
THIRD = follower(8, SECOND)


def test_what_is_carried_is_proven_by_the_names_in_it() -> None:
    def proven(*frames: bytes) -> list[bytes]:
        return [bytes(frame) for frame in proven_frames(carrying(frames[0], frames[1:]), NAME)]

    own, other = follower(9, THIRD), follower(8, FIRST)
    assert proven(own, THIRD, SECOND, FIRST) == [own, THIRD, SECOND, FIRST]
    assert proven(own, other, SECOND, FIRST) == [own], "another one was in its place"
    assert proven(own, THIRD, version(7), FIRST) == [own, THIRD]
    assert proven(own, THIRD[:-1] + b"?", SECOND) == [own], "damaged inside"
    assert proven(OWN, *BELOW) == [OWN, *BELOW], "files that name nothing contradict nothing"


def test_claims_of_transactions_are_named_by_their_last_version_or_by_nobody() -> None:
    held = follower(8, SECOND, "one")
    last = decode_version(held, "")[1]["t"][FOLDER][-1]
    empty = follower(8, None, [])
    for below, above in ((held, last), (held, SECOND), (empty, SECOND)):  # committed, aborted, only read
        frames = [follower(9, above), below, SECOND, FIRST]
        assert list(proven_frames(carrying(frames[0], frames[1:]), NAME)) == frames
    assert list(proven_frames(carrying(held, [version(7)]), NAME)) == [held], "it names what it follows"
    frames = [empty, SECOND, FIRST]
    assert list(proven_frames(carrying(empty, frames[1:]), NAME)) == frames
    odd_parts: list[Any] = [[7], [b"?"], 7, {}, None]
    for parts in odd_parts:
        body = {"h": 1, "w": 1, "s": 1, "l": FOLDER, "#": 9, "t": {FOLDER: parts}}
        odd = encode_version(body)[1]
        assert proven_frames(carrying(odd, [SECOND]), NAME)[0] == odd
