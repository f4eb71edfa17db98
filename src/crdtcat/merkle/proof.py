"""Inclusion proofs: that a chunk is in a table, at a certain row, to somebody who has only the root hash.

A proof holds, for each node on the way from the leaf to the root, the members before and after the one on
the path. Checking recomputes the root from the leaf up; it needs no store, no table and no other file. What
it proves, beyond that the chunk is there: how many rows come before it, how many of its rows are alive, and
how many rows the table has.

Size: about 30 members of 40 bytes per level; 5 levels, 6 KB, for a million chunks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import msgpack

from crdtcat.errors import InvalidArgument, UnsupportedFormat
from crdtcat.merkle.node import DIGEST_BYTES, MEMBER_BYTES, NODE_MAX, node_digest, root_digest, rows_of
from crdtcat.merkle.tree import Tree, leaf_digest

FORMAT_NUMBER: Final = 1
HEIGHT_MAX: Final = 64
_ROWS_MASK: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Proof:
    """That one chunk is a leaf under a root. `check` it, or `crdtcat.check_proof`.

    Attributes:
        chunk: the chunk's hash, 32 bytes.
        changes: 32 bytes that stand for changed and deleted rows of it; empty where there are none.
        rows: how many of its rows are alive.
        path: for each level, lowest first, the members before and after.
    """

    chunk: bytes
    changes: bytes
    rows: int
    path: tuple[tuple[bytes, bytes], ...]

    @property
    def first_row(self) -> int:
        """How many rows of the table are read from the chunks before this one."""
        return sum(rows_of(before) for before, _ in self.path) & _ROWS_MASK

    @property
    def row_count(self) -> int:
        """How many rows the table has."""
        return (self.rows + sum(rows_of(before + after) for before, after in self.path)) & _ROWS_MASK

    @property
    def root_hash(self) -> str:
        """The root that this proof leads to. O(size of the proof)."""
        member = leaf_digest(self.chunk, self.changes) + self.rows.to_bytes(8, "big")
        for height, (before, after) in enumerate(self.path):
            members = before + member + after
            member = node_digest(height, members) + rows_of(members).to_bytes(8, "big")
        return root_digest(member).hex()

    def check(self, root_hash: str, chunk: bytes) -> bool:
        """Whether this proves that `chunk`, a hash, is under `root_hash`."""
        return self.chunk == chunk and self.root_hash == root_hash

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        return (
            f"proof: chunk {self.chunk.hex()[:12]}… holds rows {self.first_row:,} to "
            f"{self.first_row + self.rows:,} of {self.row_count:,} under root {self.root_hash[:12]}… "
            f"({len(self.path)} levels, {len(self.to_bytes()):,} bytes)"
        )

    def to_bytes(self) -> bytes:
        """A compact form; `from_bytes` reads it."""
        packed: bytes = msgpack.packb([FORMAT_NUMBER, self.chunk, self.changes, self.rows, self.path])
        return packed

    @classmethod
    def from_bytes(cls, data: bytes) -> Proof:
        """The inverse of `to_bytes`. Raises `InvalidArgument` for any other bytes, `UnsupportedFormat`."""
        try:
            return _made(*msgpack.unpackb(data))
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise _refused(error) from error

    def to_json(self) -> str:
        """A readable form; `from_json` reads it."""
        path = [[before.hex(), after.hex()] for before, after in self.path]
        content = {"format": FORMAT_NUMBER, "chunk": self.chunk.hex(), "changes": self.changes.hex()}
        return json.dumps({**content, "rows": self.rows, "path": path})

    @classmethod
    def from_json(cls, text: str) -> Proof:
        """The inverse of `to_json`. Raises `InvalidArgument` for any other text, `UnsupportedFormat`."""
        try:
            content = json.loads(text)
            path = [[bytes.fromhex(side) for side in level] for level in content["path"]]
            chunk, changes = (bytes.fromhex(content[name]) for name in ("chunk", "changes"))
            return _made(content["format"], chunk, changes, content["rows"], path)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise _refused(error) from error


def prove(tree: Tree, leaf: int, chunk: bytes, changes: bytes = b"") -> Proof:
    """The proof of a tree's leaf, made of a chunk and its changes. O(log n).

    Raises:
        IndexError: there is no such leaf.
    """
    levels = tree.path(leaf)[::-1]
    node, at = levels[0]
    rows = rows_of(node.split()[at])
    path = tuple(
        (node.members[: at * MEMBER_BYTES], node.members[(at + 1) * MEMBER_BYTES :]) for node, at in levels
    )
    return Proof(chunk, changes, rows, path)


def _made(format: Any, chunk: Any, changes: Any, rows: Any, path: Any) -> Proof:
    """A proof of parts that anybody may have sent. Raises `ValueError`, `TypeError`."""
    if type(format) is not int or format < FORMAT_NUMBER:
        raise ValueError("no format number")
    if format > FORMAT_NUMBER:
        raise UnsupportedFormat(f"a proof of format {format}: upgrade crdtcat")
    if not isinstance(chunk, bytes) or not isinstance(changes, bytes):
        raise TypeError("hashes are bytes")
    if len(chunk) != DIGEST_BYTES or len(changes) not in (0, DIGEST_BYTES):
        raise ValueError("a hash of another length")
    if type(rows) is not int or not 0 <= rows <= _ROWS_MASK:
        raise ValueError("no count of rows")
    if not 1 <= len(path) <= HEIGHT_MAX:
        raise ValueError("no path")
    levels = tuple((before, after) for before, after in path)
    for side in (side for level in levels for side in level):
        if not isinstance(side, bytes) or len(side) % MEMBER_BYTES or len(side) >= NODE_MAX * MEMBER_BYTES:
            raise ValueError("a level that is no list of members")
    return Proof(chunk, changes, rows, levels)


def _refused(error: Exception) -> InvalidArgument:
    return InvalidArgument(f"not a proof: {error}; pass what Proof.to_bytes() or to_json() gave")
