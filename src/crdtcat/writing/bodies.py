"""Version bodies put together: the chunks of one part, then those of the next.

What a version file says about its chunks is a set of parallel lists; parts that were staged separately (rows
here, overlays there) become one version by appending list to list. Numbers of schemas, segments and chunks
are moved along; what a part does not say is filled in as "nothing known".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from crdtcat.format.kinds import ROWS

Body = Mapping[str, Any]
CHUNK_KEYS: Final = frozenset("fjbynzqgaier")
"""What of a version's keys is about its chunks."""


def joined_bodies(parts: Sequence[Body]) -> dict[str, Any]:
    """One body with the chunks of all parts, in order. O(chunks + statistics)."""
    parts = [part for part in parts if part.get("n")]
    if len(parts) <= 1:
        return dict(parts[0]) if parts else {}
    counts = [len(part["n"]) for part in parts]
    schemas: dict[bytes, int] = {}
    which: list[int] = []
    segments: list[Any] = []
    places: list[int] = []
    for part, count in zip(parts, counts, strict=True):
        numbers = [schemas.setdefault(packed, len(schemas)) for packed in part["f"]]
        before, chunks = len(segments), len(which)
        which += [numbers[at] for at in part.get("j") or [0] * count]
        segments += part.get("g") or []
        held = part.get("a") or []
        for at in range(0, len(held), 3):
            places += (held[at] + chunks, held[at + 1] + before, held[at + 2])
    kinds = _filled(parts, counts, "b", ROWS)
    times = [part["r"] for part in parts if part.get("r") is not None]
    return {
        "f": list(schemas),
        "j": which if len(schemas) > 1 else None,
        "b": kinds if any(kinds) else None,
        "y": b"".join(part["y"] for part in parts),
        "n": [rows for part in parts for rows in part["n"]],
        "z": [size for part in parts for size in part["z"]],
        "q": _filled(parts, counts, "q", None) if any(part.get("q") for part in parts) else None,
        "g": segments or None,
        "a": places or None,
        "i": _filled(parts, counts, "i", None) if any(part.get("i") for part in parts) else None,
        "e": _statistics(parts, counts) or None,
        "r": (min(low for low, _ in times), max(high for _, high in times)) if times else None,
    }


def _filled(parts: Sequence[Body], counts: Sequence[int], key: str, missing: Any) -> list[Any]:
    lists = (part.get(key) or [missing] * count for part, count in zip(parts, counts, strict=True))
    return [item for held in lists for item in held]


def _statistics(parts: Sequence[Body], counts: Sequence[int]) -> dict[str, list[Any]]:
    """Bounds by field; one that parts keep in two domains loses its bounds and keeps its nulls."""
    found: dict[str, list[Any]] = {}
    names = sorted({name for part in parts for name in part.get("e") or {}})
    for name in names:
        held = [(part.get("e") or {}).get(name) for part in parts]
        codes = {item[0] for item in held if item is not None}
        code = codes.pop() if len(codes) == 1 else "-"
        lists: list[list[Any]] = [[], [], []]
        for item, count in zip(held, counts, strict=True):
            missing = ([None] * count, [None] * count, [-1] * count)
            bounds = missing if item is None else item[1:]
            if item is not None and item[0] != code:
                bounds = (*missing[:2], item[3])
            for values, more in zip(lists, bounds, strict=True):
                values.extend(more)
        found[name] = [code, *lists]
    return found
