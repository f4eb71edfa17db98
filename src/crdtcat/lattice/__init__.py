"""Values that merge: register, counter, set, map. Merge order, duplication and grouping change nothing."""

from crdtcat.lattice.base import CanonicalLattice, Lattice
from crdtcat.lattice.canonical import canonical_bytes
from crdtcat.lattice.gcounter import GCounter
from crdtcat.lattice.lattice_map import LatticeMap
from crdtcat.lattice.lww import LWWRegister
from crdtcat.lattice.orset import ORSet

__all__ = ["CanonicalLattice", "GCounter", "LWWRegister", "Lattice", "LatticeMap", "ORSet", "canonical_bytes"]
