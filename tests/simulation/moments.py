"""What is there at a moment of an exploration, and which moments are alike.

Two moments are alike that hold the same log and, outside of the log, the same objects: then they differ in
the files only that the log is in, one bundle or several, or none. That these make no difference to whoever
reads is not believed: the log of every set of files that occurs is read from them, by the protocol's own
reader, and the whole of it is compared. What is believed is that upkeep, which begins by reading the log,
makes the same of the same log; `files=True` does not believe that, and takes every set of files as another.

How old something is counts as long as somebody will ask: see `Asked`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple
from unittest import mock

from blake3 import blake3

from crdtcat.chunks.segment import segment_name
from crdtcat.drive import run
from crdtcat.log import State
from crdtcat.log.serialize import encode_bundle
from crdtcat.protocol import Reader
from crdtcat.support.cached import cached_property
from crdtcat.testing.paused_store import PausedStore
from crdtcat.testing.simulated_store import Objects, VirtualClock
from tests.simulation.row_model import Model

FOLDER: Final = "tables/t/main/"
AGING: Final = ("data/", "garbage/")

Asked = Literal["all", "garbage", "nothing"]
"""Whose age will be asked for. Only a collection asks, for those of its lists and of segments that nothing
refers to. A segment that something refers to may become such a one by an expiry, and by nothing else: so
before the expiry the ages of all count, after it those of garbage, and when the collection is over, none.
"""


class Log(NamedTuple):
    """What is remembered of a log: a digest of all of it, its horizon, and the segments it refers to."""

    digest: bytes
    horizon: int
    segments: frozenset[str]


@contextmanager
def remembered_joins() -> Iterator[None]:
    """While this lasts, files are decoded and joined once for all who join the same to the same. These are
    functions of immutable values, which is what `test_scheduler` rests on, too."""
    with (
        mock.patch.object(State, "joined", _remembered(State.joined, tuple)),
        mock.patch.object(State, "read", _remembered(State.read, lambda bundle: bundle)),
    ):
        yield


def _remembered(
    real: Callable[[State, Any], Any], value: Callable[[Any], Any]
) -> Callable[[State, Any], Any]:
    known: dict[tuple[Any, ...], Any] = {}

    def call(state: State, given: Any) -> Any:
        key = (state, state.log.horizon, state.replaced, value(given))
        if key not in known:
            known[key] = real(state, given)
        return known[key]

    return call


@dataclass(frozen=True, eq=False)
class Moment:
    """What was there, and the rows it meant. There is one for all that are alike: numbers tell them apart."""

    number: int
    objects: Objects
    log: bytes
    model: Model

    @cached_property
    def segments(self) -> frozenset[str]:
        """Names of the segments there are; a name has the hash of what it holds in it."""
        return frozenset(name for name in self.objects if name.startswith("data/"))


class Moments:
    """All moments there have been."""

    def __init__(self, *, files: bool) -> None:
        self.files = files
        self.logs: dict[frozenset[Any], Log] = {}
        self._found: dict[Any, Moment] = {}
        self._read: dict[bytes, Moment] = {}

    def __len__(self) -> int:
        return len(self._found)

    def log_of(self, objects: Objects) -> Log:
        """The log, whichever files it is in: versions, horizon, and where rows are."""
        files = frozenset((name, data) for name, (data, _) in objects.items() if name.startswith(FOLDER))
        if files not in self.logs:
            store = PausedStore(dict(objects), VirtualClock())
            log = run(Reader(FOLDER, State(FOLDER)), store).state.log
            digest = blake3(encode_bundle(log, FOLDER, number=1)).digest()
            segments = frozenset(
                segment_name(name.tobytes()[:16], name.tobytes()[16:]) for name in log.segment_name
            )
            self.logs[files] = Log(digest, log.horizon, segments)
        return self.logs[files]

    def read(self, now: Moment) -> Moment:
        """What whoever reads now has read: the first moment of the same log."""
        found = self._read.setdefault(now.log, now)
        assert found.model.rows == now.model.rows, "two moments of the same log, which mean different rows"
        return found

    def of(self, objects: Objects, model: Model, asked: Asked) -> Moment:
        """The moment at which these objects are there, of whose ages some will be asked for."""
        log = self.log_of(objects)
        young = frozenset() if asked == "all" else log.segments
        told = (
            (name, data, at if asked != "nothing" and name.startswith(AGING) and name not in young else 0)
            for name, (data, at) in objects.items()
            if self.files or not name.startswith(FOLDER)
        )
        key = (log.digest, asked, frozenset(told))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = Moment(len(self._found), objects, log.digest, model)
        assert found.model.rows == model.rows, "two ways to the same objects, which mean different rows"
        return found
