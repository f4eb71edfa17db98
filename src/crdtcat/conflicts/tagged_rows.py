"""Rows by tag, in a form that is made once and compared often.

A set is the tags that it has rows in, sorted, and a `RowSet` over their numbers. To compare two of them, the
tags of the one with fewer intervals are looked up among those of the other by bisection, and its intervals
then are as well; whatever is not looked up is not read. So a small change is held against a large one in the
logarithm of its size, and making either set, which is linear, is paid once for each commit that is met.
Immutable. Pure; no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from crdtcat.clock.version_id import ID_BYTES
from crdtcat.format.row_ids import ID, KeyedTag, RowIds, Tags, whole_chunks
from crdtcat.format.sections import Array
from crdtcat.intervals import RowSet
from crdtcat.intervals.runs import Integers

Tag = tuple[bytes, int] | tuple[str, bytes, int]
"""A chunk: (version id, ordinal), or, under an idempotency key, (key, hash, ordinal)."""
_PLAIN: Final = np.dtype(f"S{ID_BYTES + 4}")
"""A version's id and an ordinal, greatest byte first: sorts as the pair does. All are of full width, so that
it does not matter that zeros at the end are not told from none."""


class TaggedRows:
    """A set of rows: intervals of offsets in chunks that are known by tag.

    Args:
        lists: row ids, in any order, repeated or not.

    Cost: O(n log n) in intervals and tags, O(n) where they are sorted.
    """

    def __init__(self, lists: Iterable[RowIds] = ()) -> None:
        held = [ids for ids in lists if len(ids)]
        plain = [_plain(ids.tags) for ids in held]
        self._plain, place = _sorted(np.concatenate([np.empty(0, _PLAIN), *plain]))
        keyed = sorted({tag for ids in held for tag in ids.tags.keyed}, key=_as_tuple)
        self._keyed = {tag: len(self._plain) + at for at, tag in enumerate(keyed)}
        groups: list[Array] = [np.empty(0, np.int64)]
        for ids in held:
            here, place = place[: len(ids.tags.versions)], place[len(ids.tags.versions) :]
            named = [self._keyed[tag] for tag in ids.tags.keyed]
            groups.append(np.concatenate((here, np.array(named, np.int64)))[ids.tag])
        starts = [ids.start.astype(np.int64) for ids in held]
        stops = [ids.stop.astype(np.int64) for ids in held]
        none = np.empty(0, np.int64)
        self.rows = RowSet(
            np.concatenate(groups), np.concatenate([none, *starts]), np.concatenate([none, *stops])
        )

    @classmethod
    def _of(cls, plain: Array, keyed: Sequence[KeyedTag], rows: RowSet) -> TaggedRows:
        made = cls.__new__(cls)
        made._plain, made.rows = plain, rows
        made._keyed = {tag: len(plain) + at for at, tag in enumerate(keyed)}
        return made

    @classmethod
    def whole(cls, tags: Iterable[Tag]) -> TaggedRows:
        """Every row of some chunks, however many they have."""
        held = list(tags)
        plain = [(tag[0], tag[1]) for tag in held if isinstance(tag[0], bytes)]
        versions, ordinals = np.array([id for id, _ in plain], ID), [at for _, at in plain]
        keyed = tuple(KeyedTag(*tag) for tag in held if isinstance(tag[0], str))
        return cls([whole_chunks(Tags(versions, np.array(ordinals, np.uint32), keyed))])

    def __len__(self) -> int:
        """How many intervals."""
        return len(self.rows)

    @cached_property
    def tags(self) -> tuple[Tag, ...]:
        """The tags that the groups of `rows` stand for, sorted, those under keys last. O(tags)."""
        names = (self._plain[at : at + 1].tobytes() for at in range(len(self._plain)))
        plain = ((name[:ID_BYTES], int.from_bytes(name[ID_BYTES:], "big")) for name in names)
        return (*plain, *map(_as_tuple, self._keyed))

    @property
    def names(self) -> Tags:
        """The same tags as version files have them. O(tags)."""
        raw = self._plain.view(np.uint8).reshape(-1, _PLAIN.itemsize)
        versions = np.ascontiguousarray(raw[:, :ID_BYTES]).view(ID).reshape(-1)
        ordinals = np.ascontiguousarray(raw[:, ID_BYTES:]).view(">u4").reshape(-1)
        return Tags(versions, ordinals.astype(np.uint32), self._keyed_tags)

    def among(self, rows: RowSet) -> TaggedRows:
        """Those that are in a set by the numbers of the tags here. O(s log l + k)."""
        return self._with(self.rows & rows)

    def intersection(self, other: TaggedRows) -> TaggedRows:
        """The rows of both. O(s log l + k) for the intervals of the shorter set, the longer, the result."""
        few, many = (self, other) if len(self) <= len(other) else (other, self)
        return many._with(few.rows.renumbered(few._numbers_in(many)) & many.rows)

    def difference(self, other: TaggedRows) -> TaggedRows:
        """The rows of this set only. O(m + k) for the intervals of this set and what they share."""
        met = self & other
        return self._with(self.rows - met.rows.renumbered(met._numbers_in(self)))

    def _with(self, rows: RowSet) -> TaggedRows:
        """Some rows by the numbers of this set's tags, with the tags of those and no others. O(rows)."""
        used = np.unique(rows.groups)
        plain = self._plain[used[used < len(self._plain)]]
        keyed = [self._keyed_tags[at] for at in (used[len(plain) :] - len(self._plain)).tolist()]
        return self._of(plain, keyed, RowSet(np.searchsorted(used, rows.groups), rows.starts, rows.stops))

    __and__ = intersection
    __sub__ = difference

    def _numbers_in(self, other: TaggedRows) -> Integers:
        """What each tag's number is there; below zero: it has none."""
        at = np.searchsorted(other._plain, self._plain)
        known = at < len(other._plain)
        known[known] = other._plain[at[known]] == self._plain[known]
        keyed = [other._keyed.get(tag, -1) for tag in self._keyed]
        return np.concatenate((np.where(known, at, -1), np.array(keyed, np.int64)))

    @cached_property
    def _keyed_tags(self) -> tuple[KeyedTag, ...]:
        return tuple(self._keyed)


def _plain(tags: Tags) -> Array:
    """Tags by version as sortable bytes."""
    joined = np.empty((len(tags.versions), _PLAIN.itemsize), np.uint8)
    joined[:, :ID_BYTES] = np.ascontiguousarray(tags.versions).view(np.uint8).reshape(-1, ID_BYTES)
    joined[:, ID_BYTES:] = tags.ordinals.astype(">u4").view(np.uint8).reshape(-1, 4)
    return joined.view(_PLAIN)[:, 0]


def _sorted(names: Array) -> tuple[Array, Array]:
    """Each name once, sorted, and the place of every one given. O(n) where they rise already."""
    if bool(np.all(names[1:] > names[:-1])):
        return names, np.arange(len(names))
    found, place = np.unique(names, return_inverse=True)
    return found, place


def _as_tuple(tag: KeyedTag) -> tuple[str, bytes, int]:
    return tag.key, tag.hash, tag.ordinal
