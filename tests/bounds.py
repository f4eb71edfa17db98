"""How much of a slow suite runs: a part by default, all of it with `make test-all`."""

from __future__ import annotations

import os
from typing import Final

FULL: Final = os.environ.get("CRDTCAT_SLOW") == "full"


def bounded(full: int, share: int) -> int:
    """So many examples in full; one in `share` of them by default."""
    return full if FULL else max(10, full // share)
