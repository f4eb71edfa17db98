"""Which folder a path or a `file:` URL means, and texts that look like a place and are none.

A wrong guess here is a catalog that is somewhere else than its user thinks, and looks empty: so a URL is read
as RFC 8089 says, and what resembles one and is none is refused, with what to write instead. No I/O but the
look at the user's home.
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote

from crdtcat.errors import InvalidArgument
from crdtcat.support.showing import shown

_FILE: Final = re.compile(r"(?:file|local):(?://(?:localhost(?=/))?|(?=/))", re.IGNORECASE)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(:/*)")


def local_root(text: str) -> str:
    """The folder, from the root on; `~` is a home, links are not resolved, `%20` in a URL is a space.

    Raises `InvalidArgument` for what no folder can be called.
    """
    url = _FILE.match(text)
    path = unquote(text[url.end() :], errors="surrogateescape") if url else text
    if url and not path.startswith(("/", "~", ".")):
        raise InvalidArgument(
            f"{shown(text, 200)} names a machine called {shown(path.split('/', 1)[0])}: write "
            f"{text[: url.end()]}/{path:.80} for a path from the root, or ./{path:.80} for a folder below "
            "this one"
        )
    whole = os.path.expanduser(path)  # noqa: PTH111 (a Path would resolve some of it)
    if path.startswith("~") and whole == path:
        raise InvalidArgument(
            f"{shown(text, 200)}: there is no home for {shown(path.split('/', 1)[0])}: write "
            f"./{path:.80} for a folder of that name"
        )
    try:
        if b"\0" in os.fsencode(whole):
            raise InvalidArgument(f"{shown(text, 200)} holds a NUL character: no path does")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{shown(text, 200)} is no Unicode text: no path is called so") from error
    return os.path.abspath(whole)  # noqa: PTH100


def require_slashes(text: str) -> None:
    """Refuse `s3:/bucket/lake` and `memory:`: a folder called `s3:` is not what is meant.

    Raises `InvalidArgument`.
    """
    found = _SCHEME.match(text)
    if found is None or found[2] == "://" or _FILE.match(text):
        return
    from fsspec.registry import known_implementations  # noqa: PLC0415 (most places are paths)

    if found[1].lower() in known_implementations:
        rest = text[found.end() :]
        right = f"./{rest:.80}" if found[1].lower() in ("file", "local") else f"{found[1]}://{rest:.80}"
        raise InvalidArgument(
            f"{shown(text, 200)} is no URL: write {right}, or ./{text:.80} for a folder of that name"
        )
