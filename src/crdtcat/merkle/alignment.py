"""Where two sequences of leaves differ: a few runs, found without hashing anything.

A head that follows another has most of its leaves, in the same order: some were replaced, some came and went.
What is the same at both ends is set aside. Then both sides are walked together: over what is equal in large
blocks, and where they part, to the nearest leaf that both have. Where nothing meets for long, all that is
left counts as changed. A walk that takes a poor turn costs hashing later, never a wrong tree: whatever is not
called different here is the same, byte for byte. No I/O.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from crdtcat.format.sections import Array

_BLOCK: Final = 2**15  # leaves compared at once
_NEAR: Final = 64  # leaves looked at, at first, for where two sides meet again
_FAR: Final = 2**14  # and at the most
_WORDS: Final = 5  # of 8 bytes, in a leaf


class Change(NamedTuple):
    """Leaves `start` to `stop` of the old side became leaves `new_start` to `new_stop` of the new one."""

    start: int
    stop: int
    new_start: int
    new_stop: int


def changes(old: Array, new: Array, most: int) -> list[Change] | None:
    """What differs between n x 40 and m x 40 bytes, in order, or None if that is in more than `most` places.

    O(n + m) at the speed of memory, and O(1) for each change and a few leaves around it.
    """
    a, b = _words(old), _words(new)
    shorter = min(len(a), len(b))
    head = _common(a[:shorter], b[:shorter])
    rest = shorter - head
    tail = _common(a[len(a) - rest :][::-1], b[len(b) - rest :][::-1])
    a, b = a[: len(a) - tail], b[: len(b) - tail]
    found: list[Change] = []
    at = new_at = head
    while at < len(a) or new_at < len(b):
        skipped, come = _meeting(a[at:], b[new_at:])
        found.append(Change(at, at + skipped, new_at, new_at + come))
        if len(found) > most:
            return None
        at, new_at = at + skipped, new_at + come
        same = _common(a[at:], b[new_at:])
        at, new_at = at + same, new_at + same
    return found


def _words(leaves: Array) -> Array:
    found: Array = np.ascontiguousarray(leaves).view(np.uint64).reshape(-1, _WORDS)
    return found


def _common(a: Array, b: Array) -> int:
    """How many leaves two arrays have in common from the start on."""
    shorter = min(len(a), len(b))
    size = _NEAR
    at = 0
    while at < shorter:
        stop = min(at + size, shorter)
        differs = (a[at:stop] != b[at:stop]).any(axis=1)
        if differs.any():
            return at + int(differs.argmax())
        at, size = stop, min(2 * size, _BLOCK)
    return shorter


def _meeting(a: Array, b: Array) -> tuple[int, int]:
    """How many leaves to pass on both sides up to the nearest one that both have; all, if there is none."""
    size = _NEAR
    while True:
        one, other = a[:size], b[:size]
        _, at, new_at = np.intersect1d(one[:, 0], other[:, 0], return_indices=True)
        equal = (one[at] == other[new_at]).all(axis=1)
        if equal.any():
            at, new_at = at[equal], new_at[equal]
            nearest = int((at + new_at).argmin())
            return int(at[nearest]), int(new_at[nearest])
        if size >= max(len(a), len(b)) or size >= _FAR:
            return len(a), len(b)
        size *= 4
