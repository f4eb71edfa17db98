"""Merkle trees over ordered leaves: root hash, update, diff, proofs. Pure: no I/O, no tables."""

from crdtcat.merkle.compare import Difference, Run, diff
from crdtcat.merkle.node import FANOUT, NODE_MAX, NODE_MIN
from crdtcat.merkle.proof import Proof, prove
from crdtcat.merkle.tree import Tree, leaf_digest, make_leaves

__all__ = [
    "FANOUT",
    "NODE_MAX",
    "NODE_MIN",
    "Difference",
    "Proof",
    "Run",
    "Tree",
    "diff",
    "leaf_digest",
    "make_leaves",
    "prove",
]
