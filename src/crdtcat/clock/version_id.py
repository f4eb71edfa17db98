"""Version ids: the total order every reader agrees on.

Theory. An id is `(hlc, writer, seq, digest)`, compared in that order. The hybrid clock makes the order
extend happened-before; writer and sequence number break ties between writers; the digest of the file's
content breaks the last one, so that even a cloned machine that reuses a writer id cannot make two different
versions equal. Timestamp-only last-writer-wins is not commutative: ties need this total order.

The binary form (36 bytes, big-endian) and the text form (fixed width, lower-case hex) both sort exactly as
the tuples do, which is why a listing of names is a listing in id order.
"""

from __future__ import annotations

import re
import struct
from datetime import datetime
from typing import NamedTuple

from crdtcat.clock import hlc
from crdtcat.errors import InvalidArgument

DIGEST_BYTES = 16
ID_BYTES = 36
TEXT_CHARACTERS = 75
_LAYOUT = struct.Struct(f">QQI{DIGEST_BYTES}s")
_TEXT = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})-([0-9a-f]{8})-([0-9a-f]{32})")


class VersionId(NamedTuple):
    """One commit's identity. A tuple, so comparison, hashing and pickling are the built-in ones.

    Theorem: `version_id_total_order`.

    Attributes:
        hlc: hybrid logical timestamp, see `crdtcat.clock.hlc`.
        writer: random 64-bit id of the handle that committed.
        seq: the writer's count of its own versions, from 1, without gaps.
        digest: the first 16 bytes of the BLAKE3 of the version file's content.
    """

    hlc: int
    writer: int
    seq: int
    digest: bytes

    def __str__(self) -> str:
        return f"{self.hlc:016x}-{self.writer:016x}-{self.seq:08x}-{self.digest.hex()}"

    def __repr__(self) -> str:
        return f"VersionId('{self}')"

    @property
    def time(self) -> datetime:
        """Wall time of the commit, by the writer's clock, UTC."""
        return hlc.to_datetime(self.hlc)

    def to_bytes(self) -> bytes:
        """36 bytes that sort as ids do.

        Raises:
            InvalidArgument: a field that does not fit its width; padding one would make two ids equal.
        """
        if len(self.digest) != DIGEST_BYTES:
            raise InvalidArgument(f"{self!r}: a digest is {DIGEST_BYTES} bytes, not {len(self.digest)}")
        try:
            return _LAYOUT.pack(self.hlc, self.writer, self.seq, self.digest)
        except struct.error as error:
            raise InvalidArgument(f"{self!r} does not fit 64 + 64 + 32 bits: {error}") from error

    @classmethod
    def from_bytes(cls, data: bytes) -> VersionId:
        """The inverse of `to_bytes`. Raises `InvalidArgument` unless given exactly 36 bytes."""
        if len(data) != ID_BYTES:
            raise InvalidArgument(f"a version id is {ID_BYTES} bytes, not {len(data)}")
        return cls(*_LAYOUT.unpack(data))

    @classmethod
    def parse(cls, text: str) -> VersionId:
        """The inverse of `str`. Raises `InvalidArgument` for any other text."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise InvalidArgument(f"{text!r} is not a version id: expected 16-16-8-32 hexadecimal digits")
        time, writer, seq, digest = match.groups()
        return cls(int(time, 16), int(writer, 16), int(seq, 16), bytes.fromhex(digest))


ROOT = VersionId(0, 0, 0, bytes(DIGEST_BYTES))
"""Below every version: stands for what a table was created with."""
