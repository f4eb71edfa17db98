"""Copying segments from one store to another, each under a new name.

A segment is fetched in pieces, and the other store is told of each at once: what it has for good is let go
of. So a copy takes the memory of a few pieces, whatever a segment's size, where the store takes objects ahead
(local files, S3); others get it whole. Nothing is there under the new name before all of it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Final

import numpy as np

from crdtcat.chunks.footer import footer_digest
from crdtcat.chunks.segment import segment_name
from crdtcat.errors import Corrupt, Missing
from crdtcat.format.sections import Array
from crdtcat.log import Log
from crdtcat.log.join import in_order
from crdtcat.store import Store
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.support.scattered import Scattered

PIECE_BYTES: Final = 16 * 2**20


def copy_segments(
    source: Store, target: Store, group: Log, names: dict[bytes, bytes]
) -> tuple[Log, int, int]:
    """The group with places in the target, and how many segments of how many bytes were copied for it.

    `names` has those that are there, by their name here, and gets the new ones. Per segment a GET and a PUT;
    above `PIECE_BYTES`, a GET for each piece and one for the footer. Raises `Corrupt`.
    """
    titles = [group.segment_name.tobytes()[at : at + 24] for at in range(0, 24 * len(group.segment_name), 24)]
    fresh = [at for at, title in enumerate(titles) if title not in names]
    for at in fresh:
        new = titles[at][:16] + secrets.token_bytes(8)
        _copy(source, target, group, at, segment_name(new[:16], new[16:]))
        names[titles[at]] = new
    renamed: Array = np.array([names[title] for title in titles], "S24")
    total = int(group.segment_size[fresh].sum(dtype=np.uint64))
    return in_order(group.with_(segment_name=renamed)) if titles else group, len(fresh), total


def _copy(source: Store, target: Store, group: Log, at: int, new: str) -> None:
    pieces = _pieces(source, group, at)
    held = [next(pieces)]
    gone = 0
    try:
        for piece in pieces:
            stored = target.write_ahead(new, Scattered(held, gone))
            while held and gone + len(held[0]) <= stored:
                gone += len(held.pop(0))
            held.append(piece)
        target.put(new, Scattered(held, gone))
    except BaseException:
        target.forget(new)
        raise


def _pieces(source: Store, group: Log, at: int) -> Iterator[ObjectBytes]:
    """A segment in order, once its footer was checked against what the log says of it. Raises `Corrupt`."""
    title, size, footer = (
        group.segment_name[at : at + 1].tobytes(),
        int(group.segment_size[at]),
        int(group.segment_footer[at]),
    )
    name = segment_name(title[:16], title[16:])
    small = size <= PIECE_BYTES
    data = _fetched(source, name, 0 if small else size - footer, size)
    if footer_digest(size, data[len(data) - footer :]) != group.segment_digest[at].tobytes():
        raise Corrupt(name, "not the segment that versions refer to")
    if small:
        yield data
        return
    for start in range(0, size, PIECE_BYTES):
        yield _fetched(source, name, start, min(start + PIECE_BYTES, size))


def _fetched(source: Store, name: str, start: int, stop: int) -> ObjectBytes:
    try:
        data = source.get(name, start, stop)
    except Missing as error:
        raise Corrupt(name, "missing, and versions refer to it") from error
    if len(data) != stop - start:
        raise Corrupt(name, f"truncated: it ends before byte {stop:,}")
    return data
