"""What the store's clock says, learned from answers that were asked for anyway.

Theory. A store stamps its answer with the moment `date`, cut off to some resolution, and the request was
under way from `sent` to `received` by this machine's clock. So when the stamp was made, this machine's
clock stood between `sent` and `received`, the store's between `date` and `date + resolution`, and the skew
(theirs minus ours) lies within

    [date - received, date + resolution - sent]

Each answer gives such an interval; their intersection narrows quickly, far below the resolution of one stamp.
When a clock is set anew the intersection becomes empty, and the newest answer is believed alone.

No request is ever made for this, and nothing is decided here.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from functools import lru_cache

from crdtcat.errors import InvalidArgument


class SkewEstimate:
    """The store's clock minus this machine's, as far as answers have told. Thread-safe by one assignment."""

    def __init__(self) -> None:
        self._bounds: tuple[int, int] | None = None

    def observe(self, date_ms: int, resolution_ms: int, sent_ms: int, received_ms: int) -> None:
        """Learn from one answer. Times by this machine's clock if it went backwards meanwhile are no use."""
        if resolution_ms < 0:
            raise InvalidArgument("a clock's resolution cannot be negative")
        low, high = date_ms - received_ms, date_ms + resolution_ms - sent_ms
        if low > high:
            return
        if self._bounds is not None:
            narrower = max(low, self._bounds[0]), min(high, self._bounds[1])
            if narrower[0] <= narrower[1]:
                low, high = narrower
        self._bounds = low, high

    @property
    def milliseconds(self) -> int | None:
        """The middle of what is possible, zero where zero is possible, `None` before any answer."""
        if self._bounds is None:
            return None
        low, high = self._bounds
        return 0 if low <= 0 <= high else (low + high) // 2


@lru_cache(maxsize=16)  # dates of HTTP name seconds: all answers of one second have the same
def moment_ms(date: str) -> int | None:
    """The moment that the header `Date` of an answer names, in milliseconds; None where it names none."""
    try:
        return int(parsedate_to_datetime(date).timestamp() * 1000)
    except (TypeError, ValueError):
        return None
