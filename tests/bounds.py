"""How much of a slow suite runs: a part by default, all of it with `make test-all`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

import pytest

FULL: Final = os.environ.get("CRDTCAT_SLOW") == "full"
PROOFS_BESIDE: Final = os.environ.get("CRDTCAT_PROOFS") == "beside" and not FULL
"""Whether whoever runs the tests runs `make proofs`, too, and fails where that does: CI."""
LEFT_TO_PROOFS: Final = pytest.mark.skipif(
    PROOFS_BESIDE, reason="the same is run by `make proofs`, beside this"
)
FULL_SECONDS_MAX: Final = 7_200  # of one test: ten thousand histories take half an hour of an idle core


def given_time(items: Iterable[pytest.Item], *, full: bool = FULL) -> None:
    """Let tests take as long as they need where they run in full; those that say how long keep to it. The
    five minutes of pyproject.toml, which are for what hangs, would end them before they are through."""
    for item in items:
        if full and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(FULL_SECONDS_MAX))


def bounded(full: int, share: int) -> int:
    """So many examples in full; one in `share` of them by default."""
    return full if FULL else max(10, full // share)
