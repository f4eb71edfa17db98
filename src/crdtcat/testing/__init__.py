"""Test kit for users too: store conformance, simulation, Hypothesis strategies. Never imported by the library."""
