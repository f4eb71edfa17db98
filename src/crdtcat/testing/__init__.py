"""Test kit, for users too: store conformance, faults, simulation, strategies. The library never imports it.

How to use it, with examples: docs/testing.md.

- `crdtcat.testing.store_conformance.StoreConformance`: what every store must do, as a pytest class.
- `crdtcat.testing.faulty.FaultyStore`: any store, with requests that fail on demand.
- `crdtcat.testing.s3_server.real_s3`: a real S3 server on loopback.
- `crdtcat.testing.strategies`: Hypothesis strategies for Arrow data.
- `crdtcat.testing.strategies_log`: Hypothesis strategies for histories of real version files.
- `crdtcat.testing.invariants`: what must hold of logs and heads.
- `crdtcat.testing.scheduler.explore`: protocol steps through every interleaving of their store calls.
- `crdtcat.testing.simulator.simulate`: the real catalog on a faulty store in virtual time, from one seed;
  with faults (`Faults`) and steps of one's own (`Workload`).

Parts are imported one by one, because they need packages (pytest, Hypothesis) that users of the rest may
lack.
"""
