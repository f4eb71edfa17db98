"""A handle reads its own writes, or says that they are gone.

That a version is missing shows in its writer's later ones, and in the clocks of those who had seen it. Of the
last one, and of a whole log that was deleted, nothing in the store tells; but whoever stored it knows. In CAS
mode, where the number of a claim that is gone is free again, and others take it, that is the only trace, from
when the handle reads what is under that name, or meets a claim that follows another: while its own bytes are
at hand it does not ask.

No false alarm: what was acknowledged is in the log of whoever lists later, for ever. A version that counts
for nothing (void by its key, or because it met a switch) is in the log, too; one that an expiry has passed is
below the horizon, whether or not the base has it; of a dropped table the mark tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt
from crdtcat.log import State
from crdtcat.protocol import Reader


class Own(NamedTuple):
    """A version that was stored and acknowledged, and the file that it is in."""

    id: VersionId
    name: str


def with_own(read: Callable[[], Reader[State]], own: Own | None) -> Reader[State]:
    """What `read` reads, which must have a version that was stored before; once more if it has not: what was
    listed may be older. No request of its own.

    Raises:
        Corrupt: it is nowhere, and no expiry has passed it.
    """
    reader = read()
    if own is None or _has(reader, own.id):
        return reader
    reader = read()
    if _has(reader, own.id):
        return reader
    raise Corrupt(own.name, "was stored by this handle, and is gone")


def _has(reader: Reader[State], own: VersionId) -> bool:
    """Whether a version was read, or is below the horizon."""
    log = reader.state.log
    return own.hlc < log.horizon or log.index_of(own) >= 0
