"""Time without a shared clock: hybrid timestamps, vector clocks, the total order of versions."""

from crdtcat.clock.hlc import HybridClock
from crdtcat.clock.vector import VectorClock
from crdtcat.clock.version_id import ROOT, VersionId

__all__ = ["ROOT", "HybridClock", "VectorClock", "VersionId"]
