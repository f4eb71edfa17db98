"""Carrying out protocol steps on a real store: the only place where steps meet I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from crdtcat.clock.hlc import wall_ms
from crdtcat.errors import StoreError, StoreUnavailable
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

StepT = TypeVar("StepT", bound=Step)
AgingT = TypeVar("AgingT", bound=AgingStep)


def run(step: StepT, store: Store, at_hand: Mapping[str, bytes] = MappingProxyType({})) -> StepT:
    """Run a step to its end. Raises what the store raises, except that an unclear PUT is an answer.

    `at_hand`: objects that were read or written before, and are not asked for again.
    """
    unclear: set[str] = set()
    while wants := step.wants:
        step = step.take(answers(store, wants, unclear, at_hand))
    return step


def run_aging(step: AgingT, store: Store, is_old: Callable[[], bool]) -> AgingT:
    """Run a step to its end, as `run` does, and tell it when what it has seen is old."""
    unclear: set[str] = set()
    while wants := step.wants:
        found = answers(store, wants, unclear)
        step = (step.aged() if is_old() else step).take(found)
    return step


def answers(
    store: Store,
    wants: Sequence[Request],
    unclear: set[str],
    at_hand: Mapping[str, bytes] = MappingProxyType({}),
) -> Sequence[Answer]:
    """Carry out requests; GETs go out together. `unclear` collects the names of PUTs that may have worked."""
    if all(isinstance(want, Get) for want in wants):
        names = [want.name for want in wants if isinstance(want, Get)]
        asked = [name for name in names if name not in at_hand]
        found = dict(zip(asked, store.get_many([(name, 0, None) for name in asked]), strict=True))
        return [Got(at_hand.get(name) or found[name], store_now_ms(store)) for name in names]
    return [_answer(store, want, unclear) for want in wants]


def _answer(store: Store, want: Request, unclear: set[str]) -> Answer:
    match want:
        case ListPage(prefix, after):
            page = store.list_page(prefix, after)
            objects = tuple(Object(item.name, item.size, item.modified_ms) for item in page.objects)
            return Listed(objects, page.after, store_now_ms(store))
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


def _clear(name: str, unclear: set[str], put: Callable[[], None]) -> bool:
    """Whether a PUT had a clear answer. Raises where it was refused, and so not stored."""
    try:
        put()
    except StoreUnavailable:
        unclear.add(name)
        return False
    except StoreError:
        if name not in unclear:
            raise
        return False  # this try was refused; an earlier one may have been stored
    return True


_CLOCK = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed_clock() -> float:
    """Seconds by a clock that goes on while the machine sleeps, where there is one."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


def store_now_ms(store: Store) -> int:
    """The store's clock, as far as it is known."""
    return wall_ms() + (store.skew_ms() or 0)
