"""How long those wait who meet in CAS mode. Pure, but for chance.

**Losers.** After a lost race the next number is tried at once, except after the second: then there is one
pause. Pauses that grow with every race are unfair: whoever has lost most waits longest, while others come who
have lost nothing.

**Winners** stand back. A loser has to read what the winner wrote, which takes as long as the winner needs to
come back, so it would lose to it every time; and it leaves no trace by which the winner could tell that it is
there. So whoever had to pass others comes again no sooner than they had time for a commit each; and whoever
meets nobody stands back after 1, 2, 4 and so on commits in a row, at last after every `GAP_MAX`. Alone that
is 6 requests in 128, and nothing at all for whoever takes that long between its commits anyway.

Whoever waits for a decision of a transaction asks again and again, with pauses that double.

The numbers are from a model: docs/design/008-cas.md.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection
from typing import Final, NamedTuple

from crdtcat.options import Options

PAUSED_RACE: Final = 2
"""The lost race after which a commit pauses; after all others it goes on at once."""
PAUSE_REQUESTS: Final = 4
"""How many requests it pauses at most."""
GAP_FIRST: Final = 16
"""After how many commits a handle that has met nobody yet stands back."""
GAP_MAX: Final = 128
"""After how many it does at last."""
REST_MIN: Final = 2
"""How many requests it stands back at least, and up to twice as many, when others were there just now."""
REST_MAX: Final = 4
"""... and when they were not: long enough for whoever is behind to read all, and to try."""
LONG_EVERY: Final = 16
"""Every so many of the last kind are longer, for those who are further from the store."""
LONG_TIMES: Final = 4
"""How many times as long."""
SPARSE_REQUESTS: Final = 8
"""Others of whom one comes in more requests than this are not waited for one by one."""


class Pace(NamedTuple):
    """How a handle has been committing.

    Attributes:
        at: when it made its last commit.
        request: how long the last request of it took.
        row: commits since it last stood back.
        gap: after how many it stands back.
        others: how many came between its last two commits, if these came one after the other.
        rests: how often it stood back since it last met anybody, once it had reached the longest gap.
    """

    at: float = -math.inf
    request: float = 0.0
    row: int = 0
    gap: int = GAP_FIRST
    others: int = 0
    rests: int = 0

    def committed(self, now: float, request: float, passed: int, writers: Collection[int]) -> Pace:
        """After a commit that had to pass so many, made by these."""
        if not passed:
            return self._replace(at=now, request=request, row=self.row + 1)
        dense = passed * SPARSE_REQUESTS * request >= now - self.at
        return Pace(now, request, row=1, gap=1, others=len(writers) if dense else 0)

    def rested(self) -> Pace:
        """After it stood back."""
        longest = self.gap == GAP_MAX
        return self._replace(row=0, gap=min(GAP_MAX, 2 * self.gap), others=0, rests=self.rests + longest)

    @property
    def is_due(self) -> bool:
        """Whether it stands back before its next commit."""
        return self.row >= self.gap

    @property
    def _rest(self) -> int:
        return min(REST_MAX, max(REST_MIN, self.gap.bit_length()))

    @property
    def waits_for_each(self) -> bool:
        """Whether so many others are about that it waits for each of them."""
        return self.others > self._rest

    @property
    def requests(self) -> tuple[float, float]:
        """For how many requests at least, and at most, from its last commit on."""
        rest = self._rest
        if self.waits_for_each:
            return self.others, self.others * 1.5
        if self.gap == GAP_MAX:
            times = self.rests + 1
            while times % LONG_EVERY == 0:
                rest, times = rest * LONG_TIMES, times // LONG_EVERY
        return rest, 2 * rest


def rest_seconds(pace: Pace, now: float, options: Options, *, reads: bool = False) -> float:
    """How long a handle that is due still has to stand back. `reads`: whether the commit reads first: that is
    a part of the rest, unless it waits for each of many."""
    if not options.base_delay:
        return 0.0
    least, most = pace.requests
    if reads and not pace.waits_for_each:
        least, most = least - 1, most - 1
    part = random.uniform(least, most) if options.jitter else most  # noqa: S311 - spreads load, no secret
    return max(0.0, pace.at + min(options.max_delay, pace.request * part) - now)


def losers_pause_seconds(request: float, options: Options) -> float:
    """How long a commit waits after the race that it pauses after, if its requests take so long."""
    return pause_seconds(1, options, PAUSE_REQUESTS * request)


def pause_seconds(tries: int, options: Options, least: float = 0.0) -> float:
    """How long to wait after so many tries: `base_delay`, or `least` if that is more, doubling, capped, and a
    random part of it."""
    base = max(options.base_delay, least) if options.base_delay else 0.0
    longest: float = min(options.max_delay, base * 2 ** min(tries - 1, 32))
    return random.uniform(0, longest) if options.jitter else longest  # noqa: S311 - spreads load, no secret
