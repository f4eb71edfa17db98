"""Which names may be given to tables, branches, tags and columns.

Table, branch and tag names become folder and object names, so they are plain ASCII and mean the same on
every store and file system. Column names are people's words: any Unicode, except what would make two names
look alike or a name invisible, and "." and "..", which are folders wherever a name becomes part of a path.
Confusables are kept simple: a name must already be in NFC (so one text has one spelling), may hold no
control, format (zero-width, bidirectional), private, surrogate or unassigned characters, and two columns of
one table may not be equal after NFKC. Names that differ only by case are two names; Greek and Latin letters
that look alike are two letters.

Everything here raises `InvalidName` or `LimitExceeded` and says what to use instead. No I/O, no Arrow.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from crdtcat import limits
from crdtcat.errors import InvalidName, LimitExceeded
from crdtcat.support.showing import shown

if TYPE_CHECKING:
    from collections.abc import Iterable

RESERVED = frozenset({"refs", "settings.json"})
"""Names that stand beside branches in a table's folder."""

_ALLOWED = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_FORBIDDEN_CATEGORIES = {
    "Cc": "a control character",
    "Cf": "an invisible formatting character",
    "Cn": "a code point that Unicode has not assigned",
    "Co": "a private-use character",
    "Cs": "half of a surrogate pair",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}


def validate_table_name(name: str) -> str:
    """The name, if a table may have it. Raises `InvalidName` or `LimitExceeded`."""
    return _object_name("table", name, limits.TABLE_NAME_CHARACTERS_MAX)


def validate_branch_name(name: str) -> str:
    """The name, if a branch may have it. Raises `InvalidName` or `LimitExceeded`."""
    return _object_name("branch", name, limits.BRANCH_NAME_CHARACTERS_MAX)


def validate_tag_name(name: str) -> str:
    """The name, if a tag may have it. Raises `InvalidName` or `LimitExceeded`."""
    return _object_name("tag", name, limits.TAG_NAME_CHARACTERS_MAX)


def _object_name(kind: str, name: str, characters_max: int) -> str:
    text = _text(kind, name)
    if len(text) > characters_max:
        raise LimitExceeded(
            f"{kind} name {text[:40]!r}... has {len(text)} characters; use at most {characters_max}"
        )
    if _ALLOWED.fullmatch(text) is None:
        table, sign, branch = text.partition("@")
        if kind == "table" and sign and _ALLOWED.fullmatch(table) and _ALLOWED.fullmatch(branch):
            raise InvalidName(
                f"table name {text!r} is not allowed: 'table@branch' is for SQL; elsewhere a branch is named "
                f"apart, as in table({table!r}, branch={branch!r})"
            )
        raise InvalidName(
            f"{kind} name {text!r} is not allowed: use ASCII letters, digits, '_', '-' and '.', "
            "starting with a letter, a digit or '_'"
        )
    if ".." in text or text.endswith("."):
        raise InvalidName(f"{kind} name {text!r} is not allowed: drop the '..' or the dot at its end")
    if text in RESERVED:
        raise InvalidName(f"{kind} name {text!r} is reserved for crdtcat's own files: choose another")
    return text


def validate_column_name(name: str) -> str:
    """The name, if a column or a nested field may have it. Raises `InvalidName` or `LimitExceeded`."""
    text = _text("column", name)
    for position, character in enumerate(text):
        reason = _FORBIDDEN_CATEGORIES.get(unicodedata.category(character))
        if reason is not None:
            raise InvalidName(
                f"column name {text!r} holds {reason}, U+{ord(character):04X}, at position {position}: "
                "remove it"
            )
    if text in (".", ".."):
        raise InvalidName(f"column name {text!r} is that of a folder on every file system: choose another")
    if text != text.strip():
        raise InvalidName(f"column name {text!r} has space around it: use {text.strip()!r}")
    normal = unicodedata.normalize("NFC", text)
    if normal != text:
        raise InvalidName(
            f"column name {text!r} is not in Unicode normal form C: use {normal!r} "
            f"({normal.encode('unicode_escape').decode()})"
        )
    size = len(text.encode())
    if size > limits.COLUMN_NAME_BYTES_MAX:
        raise LimitExceeded(
            f"column name {text[:40]!r}... has {size} bytes in UTF-8; "
            f"use at most {limits.COLUMN_NAME_BYTES_MAX}"
        )
    return text


def validate_column_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, if they may stand together in one table or struct. Cost: O(total length).

    Raises:
        InvalidName: a name is not allowed, or two are equal, exactly or after NFKC.
        LimitExceeded: a name is too long, or there are too many.
    """
    checked = tuple(validate_column_name(name) for name in names)
    if len(checked) > limits.COLUMNS_MAX:
        raise LimitExceeded(f"{len(checked)} columns; a table or struct has at most {limits.COLUMNS_MAX}")
    seen: dict[str, str] = {}
    for name in checked:
        folded = unicodedata.normalize("NFKC", name)
        earlier = seen.get(folded)
        seen[folded] = name
        if earlier is not None:
            raise InvalidName(
                f"column name {name!r} occurs twice: rename one"
                if earlier == name
                else f"column names {earlier!r} and {name!r} look alike (equal in NFKC): rename one"
            )
    return checked


def _text(kind: str, name: object) -> str:
    if not isinstance(name, str):
        raise InvalidName(f"a {kind} name is a str, not {type(name).__name__} ({shown(name)})")
    if not name:
        raise InvalidName(f"a {kind} name may not be empty")
    return name
