"""Proofs that a chunk is in a table, and their check by somebody who has neither table nor store."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.types import to_storage
from crdtcat.errors import InvalidArgument, NotFound
from crdtcat.head.head import Chunk, Head
from crdtcat.head.leaves import changes_digest, read_as_stored
from crdtcat.merkle import Proof, prove
from crdtcat.support.showing import shown


def prove_chunk(head: Head, chunk: Chunk | int | str) -> Proof:
    """The proof that a chunk is in a head. O(log chunks) once the head's tree is there.

    Args:
        head: where it is.
        chunk: one of `head.chunks`, its number there, or its hash (the first of equal ones).

    Raises:
        NotFound: the head has no such chunk.
        InvalidArgument: something else.
    """
    at = _place(head, chunk)
    entry = head.live[at : at + 1]
    as_stored = bool(read_as_stored(head.rows, entry)[0])
    changes = b"" if as_stored else changes_digest(head.log, head.rows, int(entry[0]))
    return prove(head.tree, at, head.log.hash[int(entry[0])].tobytes(), changes)


def _place(head: Head, chunk: Chunk | int | str) -> int:
    """A chunk's number among those that are alive."""
    if isinstance(chunk, Chunk):
        version = head.log.index_of(chunk.version)
        index = int(head.log.chunk_start[version]) + chunk.ordinal if version >= 0 else -1
        places = np.flatnonzero(head.live == index)
        at = int(places[0]) if len(places) else -1
        found = at >= 0 and head.chunks[at].hash == chunk.hash
    elif isinstance(chunk, bool) or not isinstance(chunk, int | str):
        raise InvalidArgument(f"{shown(chunk)} is no chunk: pass one of head.chunks, its number or its hash")
    elif isinstance(chunk, int):
        at, found = chunk, 0 <= chunk < len(head.live)
    else:
        wanted = np.frombuffer(_hash(chunk), np.uint8)
        places = np.flatnonzero((head.log.hash[head.live] == wanted).all(axis=1))
        at, found = (int(places[0]), True) if len(places) else (-1, False)
    if not found:
        raise NotFound(f"table {head.table!r} has no such chunk at this snapshot: {shown(chunk)}")
    return at


def check_proof(root_hash: str, chunk: Chunk | str | bytes | pa.Table, proof: Proof | bytes | str) -> bool:
    """Whether a chunk is in the table that has this root hash. Needs no catalog, no store, no other file.

    If so, `Proof.first_row`, `rows` and `row_count` are proven with it: where in the table its rows are, how
    many of them are alive, and how many rows the table has.

    Args:
        root_hash: `head.root_hash`, from a source that is trusted.
        chunk: the chunk, its hash, or its rows as they were stored.
        proof: what `table.proof` gave, or its `to_bytes()` or `to_json()`.

    Raises:
        InvalidArgument: no chunk, or nothing that could be a proof.
        UnsupportedFormat: a proof made by a newer release.
    """
    if isinstance(proof, bytes):
        proof = Proof.from_bytes(proof)
    elif isinstance(proof, str):
        proof = Proof.from_json(proof)
    elif not isinstance(proof, Proof):
        raise InvalidArgument(f"{shown(proof)} is no proof: pass what table.proof() gave")
    if isinstance(chunk, pa.Table):
        hash = _rows_hash(chunk)
    else:
        hash = chunk if isinstance(chunk, bytes) else _hash(chunk.hash if isinstance(chunk, Chunk) else chunk)
    return proof.check(root_hash, hash)


def check_rows(chunk: Chunk | str | bytes, rows: pa.Table) -> bool:
    """Whether these are the rows of a chunk: whether they give its hash, names, types and all.

    Args:
        chunk: the chunk, or its hash.
        rows: its rows as they were stored, in any Arrow layout.

    Raises:
        InvalidArgument: no chunk, or no table.
        UnsupportedType: a column of a type that no chunk has.
    """
    if not isinstance(rows, pa.Table):
        raise InvalidArgument(f"{type(rows).__name__} holds no rows: pass a pyarrow.Table")
    hash = chunk if isinstance(chunk, bytes) else _hash(chunk.hash if isinstance(chunk, Chunk) else chunk)
    return hash == _rows_hash(rows)


def _rows_hash(rows: pa.Table) -> bytes:
    stored = [to_storage(column, name) for name, column in zip(rows.column_names, rows.columns, strict=True)]
    return hash_table(pa.table(stored, names=rows.column_names))[0]


def _hash(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except (ValueError, TypeError):
        found = b""
    if len(found) != 32:
        raise InvalidArgument(f"{shown(text)} is no chunk's hash: 64 hexadecimal digits")
    return found
