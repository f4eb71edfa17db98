"""Carrying out protocol steps on a real store: the only place where steps meet I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from types import MappingProxyType
from typing import TypeVar

from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import StoreError, StoreFull, StoreUnavailable
from crdtcat.protocol.publish import Outcome, Publish
from crdtcat.protocol.requests import (
    AgingStep,
    Answer,
    Created,
    Delete,
    Deleted,
    Get,
    Got,
    Listed,
    ListPage,
    Object,
    Put,
    PutIfAbsent,
    Request,
    Step,
    Stored,
)
from crdtcat.store import Store
from crdtcat.support.object_bytes import ObjectBytes

StepT = TypeVar("StepT", bound=Step)
AgingT = TypeVar("AgingT", bound=AgingStep)


Unclear = dict[str, StoreError]
"""PUTs that may have worked, by name, with what the store said last."""
Ask = Callable[[Store, Sequence[Request], Unclear, Mapping[str, ObjectBytes]], Sequence[Answer]]
"""Carries out requests, as `answers` does."""


def run(
    step: StepT,
    store: Store,
    at_hand: Mapping[str, ObjectBytes] = MappingProxyType({}),
    unclear: Unclear | None = None,
    ask: Ask | None = None,
) -> StepT:
    """Run a step to its end. Raises what the store raises, except that an unclear PUT is an answer.

    Args:
        step: where to begin.
        store: whom to ask.
        at_hand: objects that were read or written before, and are not asked for again.
        unclear: is told of unclear PUTs.
        ask: carries out requests; `answers`, if it is not given.
    """
    unclear, ask = {} if unclear is None else unclear, ask or answers
    while wants := step.wants:
        step = step.take(ask(store, wants, unclear, at_hand))
    return step


def put_all(puts: Sequence[Put], store: Store, what: str, then: str) -> None:
    """Store objects, one after the other.

    Raises:
        StoreUnavailable: `what` could not be stored, and why; `then` says what that means. Its cause is what
            the store raised.
    """
    unclear: Unclear = {}
    if puts and run(Publish(tuple(puts)), store, unclear=unclear).outcome is not Outcome.DONE:
        raise StoreUnavailable(f"{what} could not be stored ({reason(unclear)}); {then}") from cause(unclear)


def cause(unclear: Unclear) -> StoreError | None:
    """What the store said last."""
    return next(reversed(unclear.values()), None)


def reason(unclear: Unclear) -> str:
    """The same in words."""
    last = cause(unclear)
    return "the store gave no clear answer" if last is None else str(last.args[0])


def run_aging(
    step: AgingT,
    store: Store,
    is_old: Callable[[], bool],
    unclear: Unclear,
    at_hand: Mapping[str, ObjectBytes] = MappingProxyType({}),
) -> AgingT:
    """Run a step to its end, as `run` does, and tell it when what it has seen is old."""
    while wants := step.wants:
        found = answers(store, wants, unclear, at_hand)
        step = (step.aged() if is_old() else step).take(found)
    return step


def answers(
    store: Store,
    wants: Sequence[Request],
    unclear: Unclear,
    at_hand: Mapping[str, ObjectBytes] = MappingProxyType({}),
) -> Sequence[Answer]:
    """Carry out requests; GETs go out together. `unclear` collects PUTs that may have worked."""
    if all(isinstance(want, Get) for want in wants):
        names = [want.name for want in wants if isinstance(want, Get)]
        asked = [name for name in names if name not in at_hand]
        got = store.get_many([(name, 0, None) for name in asked]) if asked else ()
        found = dict(zip(asked, got, strict=True))
        return [Got(at_hand.get(name) or found[name], store_now_ms(store)) for name in names]
    return [_answer(store, want, unclear) for want in wants]


def _answer(store: Store, want: Request, unclear: Unclear) -> Answer:
    match want:
        case ListPage(prefix, after, described=True):
            page = store.list_page(prefix, after)
            objects = tuple(Object(item.name, item.size, item.modified_ms) for item in page.objects)
            return Listed(objects, page.after, store_now_ms(store))
        case ListPage(prefix, after):
            names = store.list_names(prefix, after)
            return Listed(_undescribed(names.names), names.after, store_now_ms(store))
        case Get(name):
            (found,) = store.get_many([(name, 0, None)])
            return Got(found, store_now_ms(store))
        case Put(name, data):
            return Stored(clear=_clear(name, unclear, lambda: store.put(name, data)))
        case PutIfAbsent(name, data):
            created: list[bool] = []
            clear = _clear(name, unclear, lambda: created.append(store.create(name, data)))
            return Created(created=clear and created[0], clear=clear)
        case Delete(names):
            store.delete(names)
            return Deleted()


def _undescribed(names: Sequence[str]) -> tuple[Object, ...]:
    """What is known of objects by their names alone. There may be very many."""
    made: Callable[[tuple[str, int, int]], Object] = partial(tuple.__new__, Object)
    return tuple(map(made, zip(names, repeat(0), repeat(0))))


def _clear(name: str, unclear: Unclear, put: Callable[[], None]) -> bool:
    """Whether a PUT had a clear answer. Raises where it was refused, and so not stored."""
    try:
        put()
    except StoreError as error:
        certain = isinstance(error, StoreFull) or not isinstance(error, StoreUnavailable)
        if certain and name not in unclear:
            raise
        unclear[name] = error
        return False  # if this try was refused, an earlier one may have been stored
    return True


_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed_clock() -> float:
    """Seconds by a clock that goes on while the machine sleeps, where there is one."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


def store_now_ms(store: Store) -> int:
    """The store's clock, as far as it is known."""
    return wall_ms() + (store.skew_ms() or 0)
