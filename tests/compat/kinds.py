"""The kinds of files that `docs/format.md` names, as patterns: what a compatible release must read."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "format.md"
_PARTS = {
    "<version id>": r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{8}-[0-9a-f]{32}",
    "<hh>": r"[0-9a-f]{2}",
    "<hash>": r"[0-9a-f]{32}",
    "<digest>": r"[0-9a-f]{32}",
    "<random>": r"[0-9a-f]{16}",
    "<16 hex>": r"[0-9a-f]{16}",
    "<random 16>": r"[0-9a-f]{16}",
    "<writer, 16 hex>": r"[0-9a-f]{16}",
    "<hlc 16>": r"[0-9a-f]{16}",
    "<number, 8 digits>": r"[0-9]{8}",
    "<number, 16 digits>": r"[0-9]{16}",
    "<rank>": r"[0-9]{8}",
    "<number>": r"[0-9]{16}",
    "<n>": r"[0-9]+",
    "<table>": r"[^/]+",
    "<branch>": r"[^/]+",
    "<tag>": r"[^/]+",
}


def documented() -> dict[str, re.Pattern[str]]:
    """Each name in the page's list of files, and what it stands for."""
    listed = PAGE.read_text().split("## Files and names")[1].split("```")[1]
    names = [re.split(r" {2,}", line)[0] for line in listed.strip().splitlines()]
    return {name: re.compile(_pattern(name)) for name in names}


def _pattern(name: str) -> str:
    parts = re.split(r"(<[^>]*>)", name)
    return "".join(_PARTS[part] if part.startswith("<") else re.escape(part) for part in parts)
