"""Proofs: true ones check, anything else does not, and neither crashes the one who checks."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog, Chunk, Proof, check_proof, check_rows
from crdtcat.errors import CrdtcatError, InvalidArgument, NotFound, UnsupportedFormat
from crdtcat.merkle import FANOUT, NODE_MAX, Tree, leaf_digest, prove
from tests.merkle.model import Leaf, array, build, leaves, random_array, random_leaves


@given(leaves.filter(len), st.data())
@settings(max_examples=100, deadline=None)
def test_every_leaf_of_every_tree_can_be_proven(items: list[Leaf], data: st.DataObject) -> None:
    tree = build(items)
    at = data.draw(st.integers(0, len(items) - 1))
    hash, rows = items[at]
    proof = prove(tree, at, hash)
    assert proof.check(tree.root_hash, hash)
    assert proof.rows == rows
    assert proof.first_row == sum(rows for _, rows in items[:at])
    assert proof.row_count == sum(rows for _, rows in items)
    assert Proof.from_bytes(proof.to_bytes()) == proof
    assert Proof.from_json(proof.to_json()) == proof


def test_nothing_else_is_proven() -> None:
    items = random_leaves(500)
    tree = build(items)
    root, hash = tree.root_hash, items[123][0]
    proof = prove(tree, 123, hash)
    assert proof.check(root, hash)
    assert not proof.check(root, items[124][0])
    assert not proof.check(build(items[1:]).root_hash, hash)
    packed = proof.to_bytes()
    for at in range(len(packed)):
        for mask in (1, 128):
            forged = packed[:at] + bytes([packed[at] ^ mask]) + packed[at + 1 :]
            try:
                found = Proof.from_bytes(forged)
            except CrdtcatError:
                continue
            assert not found.check(root, hash), f"byte {at}"
            assert not found.check(root, found.chunk), f"byte {at}"


def test_a_node_cannot_be_passed_off_as_a_leaf() -> None:
    """The classic forgery: an inner node's digest, shown as a chunk, with the path from there up."""
    tree = build(random_leaves(5000))
    assert tree.root.height >= 2
    levels = tree.path(0)[::-1]
    inner = levels[0][0]
    path = prove(tree, 0, b"").path[1:]
    forged = Proof(inner.digest, b"", inner.rows, path)
    assert not forged.check(tree.root_hash, inner.digest)


def test_changes_are_part_of_the_leaf() -> None:
    chunk, changes = b"\x05" * 32, b"\x07" * 32
    digest = leaf_digest(chunk, changes)
    assert leaf_digest(chunk) == chunk != digest
    items = [*random_leaves(40), (digest, 9), *random_leaves(40, seed=1)]
    tree = build(items)
    proof = prove(tree, 40, chunk, changes)
    assert proof.check(tree.root_hash, chunk)
    assert Proof.from_json(proof.to_json()) == proof == Proof.from_bytes(proof.to_bytes())
    assert not Proof(chunk, b"", proof.rows, proof.path).check(tree.root_hash, chunk)


def test_proofs_of_a_million_chunks_are_small() -> None:
    leaves = random_array(1_000_000)
    tree = Tree.build(leaves)
    sizes = [
        len(prove(tree, at, leaves[at, :32].tobytes()).to_bytes()) for at in range(0, len(leaves), 50_000)
    ]
    assert sum(sizes) / len(sizes) < 8 * 1024


def test_leaves_without_a_boundary_make_proofs_no_larger_than_full_nodes() -> None:
    hostile = [(bytes([1 + n % (FANOUT - 1)]) + n.to_bytes(31, "big"), 1) for n in range(5000)]
    proof = prove(build(hostile), 2500, hostile[2500][0])
    assert all(len(before + after) < NODE_MAX * 40 for before, after in proof.path)


GOOD = prove(build(random_leaves(3)), 1, b"\1" * 32)


@pytest.mark.parametrize(
    "parts",
    [
        None,
        [],
        7,
        [1],
        [0, b"\1" * 32, b"", 1, [[b"", b""]]],
        [1, b"\1" * 31, b"", 1, [[b"", b""]]],
        [1, "x" * 32, b"", 1, [[b"", b""]]],
        [1, b"\1" * 32, b"x", 1, [[b"", b""]]],
        [1, b"\1" * 32, b"", -1, [[b"", b""]]],
        [1, b"\1" * 32, b"", True, [[b"", b""]]],
        [1, b"\1" * 32, b"", 1.5, [[b"", b""]]],
        [1, b"\1" * 32, b"", 1, []],
        [1, b"\1" * 32, b"", 1, [[b"", b""]] * 65],
        [1, b"\1" * 32, b"", 1, [[b"x" * 39, b""]]],
        [1, b"\1" * 32, b"", 1, [[b"x" * 40 * NODE_MAX, b""]]],
        [1, b"\1" * 32, b"", 1, [["x" * 40, b""]]],
        [1, b"\1" * 32, b"", 1, [b""]],
        [1, b"\1" * 32, b"", 1, 5],
    ],
)
def test_what_is_no_proof_is_refused(parts: Any) -> None:
    with pytest.raises(InvalidArgument, match="not a proof"):
        Proof.from_bytes(msgpack.packb(parts))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "[[[", "[" * 10**5, '{"format": 1, "chunk": "zz"}'])
def test_text_that_is_no_proof_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="not a proof"):
        Proof.from_json(text)


def test_a_newer_format_is_named() -> None:
    with pytest.raises(UnsupportedFormat, match="format 2"):
        Proof.from_json(json.dumps({**json.loads(GOOD.to_json()), "format": 2}))
    with pytest.raises(InvalidArgument):
        Proof.from_bytes(GOOD.to_bytes() + b"\0")


def test_proofs_of_a_tables_chunks(tmp_path: Any) -> None:
    table = Catalog(str(tmp_path), chunk_rows=10, inline_bytes=0).create_table("t")
    rows = pa.table({"n": pa.array(range(300), pa.int32()), "text": [f"row {n}" for n in range(300)]})
    first = table.append(rows)
    table.append(rows.slice(0, 25))
    head = table.head()
    for at in (0, 7, 29, 32):
        chunk = head.chunks[at]
        stored = (rows.slice(at * 10, 10) if at < 30 else rows.slice(20, 5)).combine_chunks()
        for proof in (table.proof(chunk), table.proof(at)):
            assert (proof.first_row, proof.rows, proof.row_count) == (at * 10, len(stored), 325)
            assert str(proof).startswith(f"proof: chunk {chunk.hash[:12]}… holds rows {at * 10:,} to ")
            for form in (proof, proof.to_bytes(), proof.to_json()):
                for what in (chunk, chunk.hash, bytes.fromhex(chunk.hash), stored):
                    assert check_proof(head.root_hash, what, form)
                    assert not check_proof(table.head(first.id).root_hash, what, form)
        assert check_rows(chunk, stored)
        assert check_rows(chunk.hash, stored.set_column(1, "text", stored["text"].dictionary_encode()))
        assert not check_rows(chunk, stored.slice(1))
        assert not check_rows(chunk, stored.rename_columns(["n", "other"]))
        assert not check_proof(head.root_hash, stored.slice(1), proof)
    past = table.head(first.id)
    assert check_proof(past.root_hash, past.chunks[3], table.proof(past.chunks[3].hash, at=first.id))


def test_chunks_that_are_not_there(tmp_path: Any) -> None:
    table = Catalog(str(tmp_path)).create_table("t")
    table.append([{"a": 1}])
    gone = table.head().chunks[0]
    table.overwrite([{"a": 2}])
    other = Chunk("00" * 32, 1, table.head().chunks[0].version, 0)
    for missing in (gone, gone.hash, other, 1, -1, "00" * 32):
        with pytest.raises(NotFound, match="no such chunk"):
            table.proof(missing)
    for wrong in (None, True, 1.5, "xyz", "00"):
        with pytest.raises(InvalidArgument, match="chunk"):
            table.proof(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"pyarrow\.Table"):
        check_rows(gone, [1])
    with pytest.raises(InvalidArgument, match="no proof"):
        check_proof(table.head().root_hash, gone, table.head())  # type: ignore[arg-type]


def test_a_tree_of_one_leaf_and_its_proof() -> None:
    items = random_leaves(1)
    tree = Tree.build(array(items))
    proof = prove(tree, 0, items[0][0])
    assert proof.path == ((b"", b""),)
    assert proof.check(tree.root_hash, items[0][0])


def test_proofs_of_chunks_whose_rows_were_changed_or_deleted(tmp_path: Any) -> None:
    table = Catalog(str(tmp_path), chunk_rows=10, inline_bytes=0).create_table("t")
    table.append(pa.table({"n": pa.array(range(100), pa.int64()), "x": pa.array([0] * 100, pa.int64())}))
    before = table.head()
    table.update("n = 35", {"x": 7})
    table.delete("n >= 60 and n < 65")
    head = table.head()
    assert head.root_hash != before.root_hash
    for at, chunk in enumerate(head.chunks):
        for proof in (table.proof(chunk), table.proof(at), table.proof(chunk.hash)):
            assert check_proof(head.root_hash, chunk, proof.to_bytes())
            assert not check_proof(before.root_hash, chunk, proof)
            assert bool(proof.changes) == (at in (3, 6))
            assert proof.rows == (5 if at == 6 else 10)
            assert proof.row_count == 95
    found = table.diff(before.snapshot)
    assert [(run.old_start, run.new_start, run.old_rows, run.new_rows) for run in found.runs] == [
        (3, 3, 10, 10),
        (6, 6, 10, 5),
    ]
