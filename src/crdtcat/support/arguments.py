"""What kinds of values the arguments of public verbs may have, checked before anything is done.

A text is a sequence of letters, and any text that is not empty counts as true: without these checks
`key="id"` asks for the columns `i` and `d`, and `evolve="no"` for what it refuses. No I/O, no Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from numbers import Real

import numpy as np

from crdtcat.errors import InvalidArgument


def require_flag(what: str, given: object) -> None:
    """Raises `InvalidArgument` unless `given` is true or false: a `bool`, or numpy's."""
    if not isinstance(given, bool | np.bool_):
        raise InvalidArgument(f"{what}={given!r:.80}: pass True or False")


def require_one_of(what: str, given: object, words: Sequence[str]) -> None:
    """Raises `InvalidArgument` unless `given` is one of some texts."""
    if not isinstance(given, str) or given not in words:
        raise InvalidArgument(f"{what}={given!r:.80}: choose one of {', '.join(map(repr, words))}")


def require_seconds(what: str, given: object, most: float) -> None:
    """Raises `InvalidArgument` unless `given` is a number of seconds from 0 on."""
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) <= most:
        raise InvalidArgument(f"{what}={given!r:.80}: pass seconds, from 0 to {most:,.0f}")


def is_no_moment(given: date | timedelta) -> bool:
    """Whether it is pandas' `NaT`, which calls itself a datetime, and is equal to nothing."""
    return given != given  # noqa: PLR0124


def require_names(what: str, given: object) -> None:
    """Raises `InvalidArgument` unless `given` is a list or tuple of texts."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidArgument(f"{what}={given!r:.80}: pass a list of column names, such as ['id']")
    wrong = [item for item in given if not isinstance(item, str)]
    if wrong:
        raise InvalidArgument(f"{what}={given!r:.80}: {wrong[0]!r:.40} is no text")


def require_branch_name(given: object) -> None:
    """Raises `InvalidArgument` for a handle on a branch, or what else is no text, instead of its name."""
    if not isinstance(given, str):
        name = getattr(getattr(given, "_session", None), "branch", None) or getattr(given, "name", None)
        wanted = f"{name!r}, its name" if isinstance(name, str) else "a text"
        raise InvalidArgument(f"{given!r:.80} is no name of a branch: pass {wanted}")
