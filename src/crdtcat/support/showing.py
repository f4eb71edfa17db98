"""How what somebody passed is shown in the text of an error: on one short line, whatever it is.

`repr` by itself fails where the mistake is worst: on what is nested a thousand deep or in itself
(`RecursionError`), on integers of more digits than Python writes (`ValueError`), on objects whose own `repr`
raises. And it writes out a million rows of which eighty letters are wanted. No I/O, no Arrow.
"""

from __future__ import annotations

import reprlib
from typing import Final

LETTERS: Final = 80


def shown(given: object, most: int = LETTERS) -> str:
    """The `repr` of a value, cut to `most` letters; of what has none, its type. Never raises, and takes time
    and memory for what is shown, not for what is there."""
    try:
        text = _Short(most).repr(given)
    except Exception:  # noqa: BLE001 - whatever its own repr raises: the caller is telling of another mistake
        text = f"<{type(given).__name__}>"
    return text if len(text) <= most else f"{text[: most - 3]}..."


class _Short(reprlib.Repr):
    """`reprlib` that looks at no more of lists, maps and texts than fits."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.maxlevel = 6
        self.maxdict = self.maxlist = self.maxtuple = self.maxset = self.maxfrozenset = self.maxdeque = 40
        self.maxarray = 40
        self.maxstring = self.maxlong = self.maxother = most

    def repr_instance(self, x: object, level: int) -> str:
        """The object's own `repr`; of texts and lists of a type of their own, too."""
        del level
        return repr(x)

    def repr_bytes(self, x: bytes, level: int) -> str:
        """The beginning of it."""
        del level
        return repr(x[: self.maxstring])
