"""Scenes for the scheduler around closing transactions: two of them, closers, and bundlers that settle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from crdtcat.errors import StoreUnavailable
from crdtcat.format.closed import decode_closed
from crdtcat.log import State
from crdtcat.maintenance.checkpoint import CheckpointPlan
from crdtcat.protocol import Get, Got, Reader, Request
from crdtcat.protocol.bundler import Bundler
from crdtcat.protocol.closer import Closer
from crdtcat.protocol.names import closed_number, closing_name, closing_until, transaction_of
from crdtcat.testing.scheduler import Actor, Exploration, explore
from tests.protocol.scenes import FOLDER, MARKS, OTHER, transaction

EARLY, LATE = transaction(5, 5, FOLDER, OTHER), transaction(7, 7, FOLDER, OTHER)
UNIQUE = bytes(8)


def _version(file: tuple[str, bytes]) -> str:
    """What a transaction brings to the log, as if it were in a file of its own."""
    return f"{FOLDER}{State(FOLDER).joined([file]).log.id_at(0)}.v"


VERSIONS = {transaction_of(file[0])[1]: _version(file) for file in (EARLY, LATE)}
"""By writer."""


def closer(until: int, *, kind: Any = Closer, unique: bytes = UNIQUE) -> Actor:
    return Actor(f"closer of {until}", kind(closing_name(until, unique), until))


def may_fail(kind: Any = Closer) -> Any:
    """Makes closers that end where the store gives no clear answer, as `crdtcat.drive` lets them."""
    return lambda name, until: Doubtful(kind(name, until))


@dataclass(frozen=True)
class Doubtful:
    """A closer that may fail; what it has found settled to count is acknowledged, for ever."""

    closer: Closer
    acknowledges: tuple[str, ...] = ()
    failed: bool = False

    @property
    def wants(self) -> tuple[Request, ...]:
        return () if self.failed else self.closer.wants

    def take(self, answers: Sequence[Any]) -> Doubtful:
        (want,), (answer,) = self.closer.wants, answers
        known = self.acknowledges
        if isinstance(want, Get) and isinstance(answer, Got) and answer.data is not None:
            said = decode_closed(answer.data, want.name, closed_number(want.name))
            known = tuple(name for writer, name in VERSIONS.items() if writer in said.admitted)
        try:
            return Doubtful(self.closer.take(answers), known)
        except StoreUnavailable:
            return replace(self, failed=True)


def bundler(folder: str, *, settles: bool = True, kind: Any = Closer) -> Actor:
    """Reads a log as a session does, settles what is being closed, and bundles what nobody has bundled."""

    def settle(done: Reader[State]) -> Any:
        until = _closing(done)
        return kind(closing_name(until, b"settling"), until) if until and settles else _Known(done)

    def read_again(done: Any) -> Any:
        if isinstance(done, Doubtful) and done.failed:
            return None
        return done if isinstance(done, _Known) else Reader(folder, State(folder), marked=True)

    def bundle(done: Any) -> Any:
        reader = done.reader if isinstance(done, _Known) else done
        if settles and _closing(reader):
            return None  # somebody closes further: another time
        return Bundler.begin(CheckpointPlan(reader.state, tuple(item.name for item in reader.listing)))

    return Actor(
        f"bundler of {folder}", Reader(folder, State(folder), marked=True), (settle, read_again, bundle)
    )


def _closing(done: Reader[State]) -> int:
    """The time that somebody is closing above a transaction that was read; 0: none."""
    until = max((closing_until(item.name) or 0 for item in done.listing), default=0)
    return until if any(transaction_of(name)[0] < until for name in done.state.loose) else 0


@dataclass(frozen=True)
class _Known:
    """A reading that needs nothing more."""

    reader: Reader[State]
    wants: tuple[()] = ()


def explored(*actors: Actor, page: int = 100, **more: Any) -> Exploration:
    return explore(actors, {**MARKS, EARLY[0]: EARLY[1]}, FOLDER, others=[OTHER], page=page, **more)
