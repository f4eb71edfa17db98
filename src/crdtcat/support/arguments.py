"""What kinds of values the arguments of public verbs may have, checked before anything is done.

A text is a sequence of letters, and any text that is not empty counts as true: without these checks
`key="id"` asks for the columns `i` and `d`, and `evolve="no"` for what it refuses. No I/O, no Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from numbers import Real
from typing import Any

import numpy as np

from crdtcat.errors import InvalidArgument
from crdtcat.support.showing import shown


def require_flag(what: str, given: object) -> None:
    """Raises `InvalidArgument` unless `given` is true or false: a `bool`, or numpy's."""
    if not isinstance(given, bool | np.bool_):
        raise InvalidArgument(f"{what}={shown(given)}: pass True or False")


def require_one_of(what: str, given: object, words: Sequence[str]) -> None:
    """Raises `InvalidArgument` unless `given` is one of some texts."""
    if not isinstance(given, str) or given not in words:
        raise InvalidArgument(f"{what}={shown(given)}: choose one of {', '.join(map(repr, words))}")


def require_seconds(what: str, given: Any, most: float) -> None:
    """Raises `InvalidArgument` unless `given` is a number of seconds from 0 on."""
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    if not is_number or not 0 <= given <= most:  # an integer may be too large for a float
        raise InvalidArgument(f"{what}={shown(given)}: pass seconds, from 0 to {most:,.0f}")


def is_no_moment(given: date | timedelta) -> bool:
    """Whether it is pandas' `NaT`, which calls itself a datetime, and is equal to nothing."""
    return given != given  # noqa: PLR0124


def require_names(what: str, given: object) -> None:
    """Raises `InvalidArgument` unless `given` is a list or tuple of texts."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidArgument(f"{what}={shown(given)}: pass a list of column names, such as ['id']")
    wrong = [item for item in given if not isinstance(item, str)]
    if wrong:
        raise InvalidArgument(f"{what}={shown(given)}: {shown(wrong[0], 40)} is no text")


def require_tables(given: object) -> Iterable[Any]:
    """What is given for several tables. Raises `InvalidArgument` for one name, and what gives none."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable) or not getattr(given, "ndim", 1):
        raise InvalidArgument(f"tables={shown(given)}: pass a list of names, as ['orders']")
    return given


def require_branch_name(given: object) -> None:
    """Raises `InvalidArgument` for a handle on a branch, or what else is no text, instead of its name."""
    if not isinstance(given, str):
        name = getattr(getattr(given, "_session", None), "branch", None) or getattr(given, "name", None)
        wanted = f"{name!r}, its name" if isinstance(name, str) else "a text"
        raise InvalidArgument(f"{shown(given)} is no name of a branch: pass {wanted}")
