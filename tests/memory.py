"""How much memory Arrow has taken, from whichever of its pools."""

from __future__ import annotations

import pyarrow as pa


def arrow_bytes() -> int:
    """Segments are encoded into memory of the system's pool, all else is in the default one."""
    default, system = pa.default_memory_pool(), pa.system_memory_pool()
    more = 0 if default.backend_name == "system" else system.bytes_allocated()
    return int(default.bytes_allocated() + more)
