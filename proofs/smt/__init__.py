"""The laws of the lattices and clocks, decided by z3 in about a second."""
