"""How much of a slow suite runs: a part by default, all of it with `make test-all`."""

from __future__ import annotations

import os
from typing import Final

FULL: Final = os.environ.get("CRDTCAT_SLOW") == "full"
SPARED: Final = 2  # every suite alike, so that all of them together fit into one run of CI


def bounded(full: int, share: int) -> int:
    """So many examples in full; by default one in `share` of them, of which some are spared once more."""
    return full if FULL else max(10, full // (share * SPARED))
