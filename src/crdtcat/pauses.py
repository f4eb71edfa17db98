"""How long those wait who meet in CAS mode. Pure, but for chance.

After a lost race the next number is tried at once, except after the second: then there is one pause, and a
look. Pauses that grow with every race are unfair: whoever has lost most waits longest, while others come who
have lost nothing. A winner waits for a request or two before it comes again, if that is soon: losers have to
read what it wrote, which takes as long as it needs to come back, and would lose to it every time.

Whoever waits for a decision of a transaction asks again and again, with pauses that double.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from crdtcat.options import Options

PAUSED_RACE: Final = 2
"""The lost race after which a commit pauses, and looks; after all others it tries again at once."""
PAUSE_REQUESTS: Final = 4
"""How many requests it pauses at most, and within how many after its last commit a winner waits."""


class Won(NamedTuple):
    """A commit that had to pass others: when it was made, and how long its last request took."""

    at: float
    request: float


def losers_pause_seconds(request: float, options: Options) -> float:
    """How long a commit waits after the race that it pauses after, if its requests take so long."""
    return pause_seconds(1, options, PAUSE_REQUESTS * request)


def winners_pause_seconds(won: Won | None, now: float, options: Options) -> float:
    """How long a handle waits before its next commit, after one that had to pass others."""
    if won is None or not options.base_delay or now - won.at >= PAUSE_REQUESTS * won.request:
        return 0.0
    part = random.uniform(1, 2) if options.jitter else 2  # noqa: S311 - spreads load, no secret
    return min(options.max_delay, won.request * part)


def pause_seconds(tries: int, options: Options, least: float = 0.0) -> float:
    """How long to wait after so many tries: `base_delay`, or `least` if that is more, doubling, capped, and a
    random part of it."""
    base = max(options.base_delay, least) if options.base_delay else 0.0
    longest: float = min(options.max_delay, base * 2 ** min(tries - 1, 32))
    return random.uniform(0, longest) if options.jitter else longest  # noqa: S311 - spreads load, no secret
