"""Which names objects may have, and what of a URL and its options may be shown.

A name is a relative path of plain ASCII: the same on a disk, in a URL, in a listing. No part of it may be
empty or begin with a dot, so no name climbs out of the root, and dot-files stay free for files being
written. Files that others named are read, never written, under any name that stays below the root.

Credentials reach a store through its options (or, for some filesystems, inside the URL); nothing that is
printed, logged or raised may repeat them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from crdtcat.errors import InvalidArgument, InvalidName

NAME_CHARACTERS_MAX = 800
"""S3 allows 1,024 bytes; the rest is for the catalog's own prefix."""
PART_CHARACTERS_MAX = 200
"""File systems allow 255; the rest is for whatever a backend puts around it."""

_PART = rf"[A-Za-z0-9_~=+,;@%!$&'() -][A-Za-z0-9_~=+,;@%!$&'() .-]{{0,{PART_CHARACTERS_MAX - 1}}}"
_PART_ALONE = re.compile(_PART)
_NAME = re.compile(rf"{_PART}(?:/{_PART})*")
_PREFIX = re.compile(rf"(?:{_PART}/)*")
_AFTER = re.compile(r"[\x20-\x7f]*")
_FOREIGN = r"(?!\.\.?(?:/|$))[^/\\\x00-\x1f\x7f\ud800-\udfff]+"
_FOREIGN_NAME = re.compile(rf"{_FOREIGN}(?:/{_FOREIGN})*")
_BEYOND, _BEYOND_FOREIGN = "\x7f", "\U0010ffff"

_SHOWN_OPTIONS = frozenset({"endpoint_url", "region_name", "protocol", "host", "port", "mode"})
_SECRET_CHARACTERS_MIN = 4
_HIDDEN = "***"


def check_name(name: str) -> None:
    """Raise `InvalidName` unless `name` can name an object on every store."""
    if len(name) > NAME_CHARACTERS_MAX or not _NAME.fullmatch(name):
        raise InvalidName(
            f"{name[:120]!r} cannot name an object: use relative ASCII paths whose parts are not empty, do "
            f"not begin with a dot, and have at most {PART_CHARACTERS_MAX} characters"
        )


def is_part(name: str) -> bool:
    """Whether objects can be in a folder of this name: what others left beside ours has any name."""
    return _PART_ALONE.fullmatch(name) is not None


def check_foreign(name: str) -> None:
    """Raise `InvalidName` unless a file that others named can be read under `name`."""
    if not _FOREIGN_NAME.fullmatch(name):
        raise InvalidName(
            f"{name[:120]!r} cannot be read: names of files are relative paths in UTF-8, without backslashes "
            "and control characters"
        )


def check_prefix(prefix: str, *, foreign: bool = False) -> None:
    """Raise `InvalidName` unless `prefix` is a folder (`a/b/`) or empty, the root."""
    if foreign:
        if prefix:
            check_foreign(prefix.removesuffix("/"))
        return
    if len(prefix) > NAME_CHARACTERS_MAX or not _PREFIX.fullmatch(prefix):
        raise InvalidName(f"{prefix[:120]!r} is no folder: use a relative path that ends in a slash")


def check_after(prefix: str, after: str, *, foreign: bool = False) -> None:
    """Raise `InvalidArgument` unless `after` is empty or lies in the folder that is listed."""
    if after and not (after.startswith(prefix) and (foreign or _AFTER.fullmatch(after))):
        raise InvalidArgument(
            f"a listing of {prefix!r} cannot go on after {after[:120]!r}, which is elsewhere"
        )
    if "/" in after[len(prefix) :].rstrip(_BEYOND + _BEYOND_FOREIGN).rstrip("/"):
        raise InvalidArgument(f"a listing of {prefix!r} is flat and cannot go on after {after[:120]!r}")


def beyond(*, foreign: bool = False) -> str:
    """Sorts after every character a name may have: a listing goes on behind a folder it has reported."""
    return _BEYOND_FOREIGN if foreign else _BEYOND


def public_url(url: str) -> str:
    """The URL without user, password, query and fragment, fit to be shown."""
    return re.sub(r"(://)[^/@]*@", r"\1", re.split(r"[?#]", url, maxsplit=1)[0] if "://" in url else url)


def why_no_bucket(url: str) -> str:
    """What is wrong with a URL that is not `s3://bucket/prefix`, without what it may hold of secrets."""
    shown, rest = public_url(url), url.partition("://")[2]
    if "?" in rest.partition("#")[0]:
        return (
            f"{shown!r} has a '?' behind it: a catalog is all that is below a prefix, so its URL has no "
            "versionId or other parameters. Leave them out; at= reads the past, storage_options takes options"
        )
    if "#" in rest:
        return f"{shown!r} has a '#' behind it: leave that out, and what follows it"
    if "@" in rest.partition("/")[0]:
        return f"{shown!r} has something before an '@': leave it out, and give credentials in storage_options"
    return f"{shown!r} is not of the form s3://bucket/prefix"


def check_path(url: str, path: str) -> None:
    """Refuse a prefix that servers of objects read in different ways: some list under another name what they
    were given under this one, and commits would be stored where nobody finds them. Raises `InvalidArgument`.
    """
    parts = re.split(r"[/\\]", path)
    if path and ("\\" in path or not {"", ".", ".."}.isdisjoint(parts)):
        plain = "/".join(part for part in parts if part not in ("", ".", ".."))
        raise InvalidArgument(
            f"{url!r} has an empty part, '.', '..' or a backslash in its path, which servers read in "
            f"different ways: end it in {plain!r}, or whatever is meant"
        )


def hide_secrets(text: str, options: Mapping[str, Any]) -> str:
    """`text` with every value of `options` that might be a secret blotted out."""
    for secret in sorted(set(_secrets(options)), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return text


def tells_secrets(error: BaseException | None, options: Mapping[str, Any]) -> bool:
    """Whether the text of an error, or of any behind it, holds a value of `options` that might be secret."""
    while error is not None:
        if hide_secrets(f"{error!r} {error}", options) != f"{error!r} {error}":
            return True
        error = error.__cause__ or error.__context__
    return False


def _secrets(value: Any, key: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner_key, inner in value.items():
            yield from _secrets(inner, str(inner_key))
    elif isinstance(value, list | tuple | set):
        for inner in value:
            yield from _secrets(inner, key)
    elif isinstance(value, bytes):
        yield from _secrets(value.decode("latin-1"), key)
    elif isinstance(value, str) and key not in _SHOWN_OPTIONS and len(value) >= _SECRET_CHARACTERS_MIN:
        yield value


def check_range(name: str, start: int, stop: int | None, *, foreign: bool = False) -> None:
    """Refuse what is no range of bytes of an object. Raises `InvalidName`, `InvalidArgument`."""
    (check_foreign if foreign else check_name)(name)
    if start < 0 or (stop is not None and stop < start):
        raise InvalidArgument(f"{start} to {stop} is no range of {name!r}")


def page_size(prefix: str, after: str, limit: int | None, most: int, *, foreign: bool = False) -> int:
    """How many objects a page of a listing holds, where one request can list so many at `most`.

    Raises `InvalidName`, `InvalidArgument` for what cannot be listed.
    """
    check_prefix(prefix, foreign=foreign)
    check_after(prefix, after, foreign=foreign)
    if limit is not None and limit < 1:
        raise InvalidArgument(f"a page holds at least one object, not {limit}")
    return most if limit is None else min(limit, most)
