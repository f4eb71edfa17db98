"""What a command is: a name, its arguments, and a function from what was given to what is shown."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from crdtcat.catalog import Catalog
from crdtcat.errors import InvalidArgument
from crdtcat.support.showing import shown
from crdtcat.table import Table

CATALOG: Final = "CRDTCAT_CATALOG"
STORAGE_OPTIONS: Final = "CRDTCAT_STORAGE_OPTIONS"
_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_COMMA: Final = re.compile(r",(?![^()]*\))")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

Run = Callable[["Given"], object]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument, as argparse takes it."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]


def argument(*names: str, **settings: Any) -> Argument:
    """An argument: a place (`"table"`) or an option (`"--where"`, `"-w"`)."""
    return Argument(names, settings)


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: what is typed.
        group: the heading it stands under in `crdtcat --help`.
        about: one line of help.
        run: does it. What it returns is printed; `None` prints nothing, an `int` is the exit status.
        arguments: those of its own, beside the catalog's.
    """

    name: str
    group: str
    about: str
    run: Run
    arguments: tuple[Argument, ...] = ()


TABLE: Final = argument("table", help="a table, or TABLE@BRANCH")
AT: Final = argument("--at", help="a tag, version id, snapshot token or moment (2026-11-19T12:00); now")
WHERE: Final = argument("-w", "--where", metavar="SQL", help="a condition, as in docs/filters.md")
KEY: Final = argument("--key", metavar="TEXT", help="idempotency key: given again, the commit counts once")
METADATA: Final = argument(
    "--metadata", metavar="NAME=TEXT", action="append", default=[], help="what to remember about the commit"
)
DRY_RUN: Final = argument("--dry-run", action="store_true", help="only say what would be done")


class Given:
    """What was typed, and the catalog that it is about."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments

    def __getattr__(self, name: str) -> Any:
        return getattr(self.arguments, name)

    @property
    def catalog(self) -> Catalog:
        """The catalog. Makes no request."""
        url = self.arguments.catalog or os.environ.get(CATALOG)
        if not url:
            raise InvalidArgument(f"no catalog: pass --catalog URL, or set {CATALOG}")
        return Catalog(url, self._storage_options() or None)

    @property
    def table(self) -> Table:
        """The table that was named, on the branch behind `@`, if there is one."""
        name, _, branch = self.arguments.table.partition("@")
        return self.catalog.table(name, branch or "main")

    @property
    def metadata(self) -> dict[str, str]:
        """What to remember about a commit."""
        return pairs(self.arguments.metadata, "--metadata")

    @property
    def progress(self) -> bool:
        """Whether long work tells how far it is: to a person at a terminal."""
        return not self.arguments.quiet and sys.stderr.isatty()

    def _storage_options(self) -> dict[str, Any]:
        """Those of the environment, and over them those given by name. Never shown: they may be secrets."""
        text = os.environ.get(STORAGE_OPTIONS)
        try:
            options = json.loads(text) if text else {}
        except ValueError:
            options = None
        if not isinstance(options, dict):
            raise InvalidArgument(f'{STORAGE_OPTIONS} is no JSON object, such as {{"anon": true}}')
        given = pairs(self.arguments.storage_option, "--storage-option")
        return options | {name: _value(text) for name, text in given.items()}


def pairs(given: list[str], option: str) -> dict[str, str]:
    """`NAME=TEXT`, several times."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidArgument(f"{option} takes NAME=TEXT")
        found[name] = value
    return found


def names(text: str | None) -> list[str]:
    """`a,bucket(4, b),c` as a list; of nothing an empty one."""
    return [name.strip() for name in _COMMA.split(text or "") if name.strip()]


def age_or_moment(text: str) -> timedelta | datetime:
    """`30d`, `12h`, `90m` as an age; anything else as a moment, which means UTC where it has no zone."""
    if match := _AGE.fullmatch(text.strip()):
        return timedelta(**{_UNITS[match[2]]: float(match[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"{shown(text)} is neither an age (30d, 12h, 90m) nor a moment (2026-11-19T12:00)"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _value(text: str) -> Any:
    """A storage option: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
