"""When to try again, and what a failure means.

Every failure of a backend is one of a few faults, and the fault alone decides what happens: transient ones
are repeated after a random pause, the rest are reported at once. Pauses have *full jitter* (anything between
nothing and a limit that doubles), because writers that were slowed down together must not come back together.

Repeating is safe for every request of this library: a PUT is repeated with the same name and bytes, reads
and listings change nothing, deleting what is gone is no error, and an exclusive creation that finds the
name taken reads back and compares.
"""

from __future__ import annotations

import errno
import random
from dataclasses import dataclass
from enum import Enum, auto

RETRY_ATTEMPTS = 10
RETRY_BASE_MS = 10
RETRY_MAX_MS = 2_000

_random = random.SystemRandom()  # not seeded, so that forked processes do not pause in step


class Fault(Enum):
    """What a backend's failure means for the caller."""

    MISSING = auto()
    """There is no object of that name. Never repeated."""
    EXISTS = auto()
    """Exclusive creation found the name taken, or cannot tell. Settled by reading back."""
    DENIED = auto()
    """The store refused the credentials. Never repeated."""
    TRANSIENT = auto()
    """Overload, a lost connection, a timeout. Repeated."""
    UNAVAILABLE = auto()
    """The store cannot do it now, and repeating at once will not help: a full disk."""
    REFUSED = auto()
    """The store answered that the request itself is wrong: a bucket that does not exist, a wrong clock."""
    ODD = auto()
    """An error that no store is known for: a bad option, a mistake. What was done before it, nobody knows."""
    UNSUPPORTED = auto()
    """The store cannot do this at all."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how slowly a transient fault is repeated.

    Attributes:
        attempts: tries in all, the first included.
        base_ms: the longest first pause.
        max_ms: the longest pause ever; the limit doubles up to it.
    """

    attempts: int = RETRY_ATTEMPTS
    base_ms: int = RETRY_BASE_MS
    max_ms: int = RETRY_MAX_MS

    def pause_seconds(self, failures: int) -> float:
        """A random pause after the given number of failures in a row."""
        limit_ms = min(self.max_ms, self.base_ms * 2 ** min(failures - 1, 30))
        return _random.uniform(0, limit_ms) / 1000


_BY_ERRNO = {
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR), Fault.MISSING),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), Fault.DENIED),
    errno.EEXIST: Fault.EXISTS,
    **dict.fromkeys((errno.ENAMETOOLONG, errno.ELOOP), Fault.REFUSED),
    **dict.fromkeys(
        (
            errno.EAGAIN,
            errno.EBUSY,
            errno.EINTR,
            errno.EMFILE,
            errno.ENFILE,
            errno.ESTALE,
            errno.ETIMEDOUT,
            getattr(errno, "EREMOTEIO", errno.EBUSY),  # Linux only
            errno.ENETDOWN,
            errno.ENETRESET,
            errno.ENETUNREACH,
            errno.EHOSTUNREACH,
        ),
        Fault.TRANSIENT,
    ),
    **dict.fromkeys((errno.ENOSYS, errno.EOPNOTSUPP), Fault.UNSUPPORTED),
}


_BY_TYPE: tuple[tuple[type[Exception], Fault], ...] = (
    (FileNotFoundError, Fault.MISSING),
    (FileExistsError, Fault.EXISTS),
    (PermissionError, Fault.DENIED),
    (ConnectionError, Fault.TRANSIENT),
    (TimeoutError, Fault.TRANSIENT),
    (NotImplementedError, Fault.UNSUPPORTED),
)
"""Libraries raise these without a number."""


def classify(error: Exception) -> Fault:
    """The meaning of an ordinary Python error; backends look for more specific signs first."""
    for kind, fault in _BY_TYPE:
        if isinstance(error, kind):
            return fault
    if isinstance(error, OSError):
        return _BY_ERRNO.get(error.errno or 0, Fault.UNAVAILABLE)
    return Fault.ODD
