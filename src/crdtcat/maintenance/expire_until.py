"""Up to where history is to be expired: an age, a moment, a number of versions, and what of that is refused.

A sign that was forgotten must not cost the whole history: an age below zero and a moment that has not come
would both mean "everything", so they are errors. `timedelta(0)` says that in so many words.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from crdtcat.clock import hlc
from crdtcat.drive import store_now_ms
from crdtcat.errors import InvalidArgument
from crdtcat.head import Head
from crdtcat.session import Session
from crdtcat.support.arguments import is_no_moment
from crdtcat.support.showing import shown

Until = timedelta | datetime | None


def check_until(older_than: Until, keep_last: int | None) -> None:
    """Raises `InvalidArgument` for what is no age, no moment and no number. No request."""
    if keep_last is not None and (type(keep_last) is not int or keep_last < 1):
        raise InvalidArgument(f"keep_last={shown(keep_last)}: pass how many versions stay, one at least")
    if older_than is None and keep_last is None:
        raise InvalidArgument("expire what? Pass older_than=timedelta(...) or keep_last=...")
    if older_than is None:
        return
    given: object = older_than
    if not isinstance(given, timedelta | datetime) or is_no_moment(older_than):
        raise InvalidArgument(f"older_than={shown(older_than)}: pass a timedelta or a datetime")
    if isinstance(older_than, timedelta) and older_than < timedelta(0):
        raise InvalidArgument(
            f"older_than={shown(older_than)} is an age below zero, which everything is older than: "
            f"did you mean {-older_than!r}? timedelta(0) expires all there is"
        )


def wanted_horizon(head: Head, session: Session, older_than: Until, keep_last: int | None) -> int:
    """The horizon asked for, at most now. Raises `InvalidArgument` for a moment that has not come."""
    now = store_now_ms(session.store)
    limits = [hlc.pack(max(now, 0))]
    if isinstance(older_than, timedelta):
        limits.append(hlc.pack(max(now - older_than // timedelta(milliseconds=1), 0)))
    elif older_than is not None:
        moment = older_than if older_than.tzinfo else older_than.replace(tzinfo=UTC)
        asked = int(moment.timestamp() * 1000)
        if asked > now + session.options.max_clock_skew_seconds * 1000:  # clocks may differ that much
            raise InvalidArgument(
                f"older_than={shown(older_than)} is in the future, and would expire all history: it is "
                f"{hlc.to_datetime(limits[0]).isoformat(timespec='seconds')} now. A moment without a zone is "
                "UTC; timedelta(0) expires all there is"
            )
        limits.append(hlc.pack(max(asked, 0)))
    if keep_last is not None:
        kept = head.history[-keep_last:]
        limits.append(kept[0].id.hlc if len(kept) == keep_last else 0)
    return min(limits)
