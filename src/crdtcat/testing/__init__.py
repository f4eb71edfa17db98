"""Test kit, for users too: store conformance, simulation, strategies. The library never imports it."""
