"""A store that fails on demand, around any other store.

Every request that reaches it is numbered from 1, in order, and recorded. A *plan* looks at each request and
names a fault, or none. Four faults cover what stores do to their users, and a fifth what becomes of those
whose credentials run out between two requests:

| fault | the request took effect | what the caller sees |
|---|---|---|
| `error` | no | `StoreUnavailable` at once, as after every retry |
| `lost_answer` | yes | `StoreUnavailable` at once: the outcome is unknown |
| `transient` | no | nothing, if a repetition succeeds: the store's own retries absorb it |
| `transient_lost_answer` | yes | the same; an exclusive creation meets its own success |
| `refused` | no | `AccessDenied` at once |

"The n-th request fails, for every n" is a loop over `nth(n, fault)` until a run makes fewer than n
requests. A process that dies at its n-th request is `from_nth(n, fault)`. Pauses between retries are
skipped, and requests of one `get_many` come one by one, so that a run with the same plan is the same run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeVar

from crdtcat.errors import AccessDenied, Missing, StoreUnavailable
from crdtcat.store.base import Store
from crdtcat.store.requests import Kind
from crdtcat.store.values import Answers, Data, Names, NameTaken, Page, Range
from crdtcat.support.object_bytes import ObjectBytes

Fault = Literal["error", "lost_answer", "transient", "transient_lost_answer", "refused"]
FAULTS: tuple[Fault, ...] = ("error", "lost_answer", "transient", "transient_lost_answer")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as a plan sees it.

    Attributes:
        number: from 1, over all requests of this store object.
        kind: what kind of request.
        name: of the object, of the folder that is listed, or the first of the names deleted.
    """

    number: int
    kind: Kind
    name: str


Plan = Callable[[Call], Fault | None]


@dataclass(frozen=True, slots=True)
class nth:  # noqa: N801 (reads as a function: `nth(3, "error")`)
    """A plan: only the n-th request has the fault."""

    number: int
    fault: Fault

    def __call__(self, call: Call) -> Fault | None:
        """The fault of this request, if it is the one."""
        return self.fault if call.number == self.number else None


@dataclass(frozen=True, slots=True)
class from_nth:  # noqa: N801
    """A plan: the n-th request and all after it have the fault, as seen by the store of a killed process."""

    number: int
    fault: Fault

    def __call__(self, call: Call) -> Fault | None:
        """The fault of this request, if it is late enough."""
        return self.fault if call.number >= self.number else None


class FaultyStore(Store):
    """A store around `inner` whose requests fail as `plan` says.

    Attributes:
        inner: does the work; look into it to see what really happened.
        plan: may be replaced at any time; `None` is no faults.
        calls: every request so far, those that failed included.

    Args:
        inner: any store.
        plan: names a fault for each request, or none.
        page_limit: the most objects a page of a listing holds; small pages show races that large ones hide.
    """

    _live = (*Store._live, "calls", "_lock")

    def __init__(self, inner: Store, plan: Plan | None = None, *, page_limit: int | None = None) -> None:
        super().__init__(inner.url)
        self.inner = inner
        self.plan = plan
        self.lists_in_order, self.is_remote = inner.lists_in_order, inner.is_remote
        self.page_limit = inner.page_limit if page_limit is None else page_limit

    def _start(self) -> None:
        super()._start()
        self.calls: list[Call] = []
        self._lock = threading.Lock()

    @property
    def can_create_exclusively(self) -> bool:
        """As the inner store."""
        return self.inner.can_create_exclusively

    def skew_ms(self) -> int | None:
        """As the inner store."""
        return self.inner.skew_ms()

    def sweep(self, prefix: str) -> int:
        """As the inner store."""
        return self.inner.sweep(prefix)

    def _faulty(self, kind: Kind, name: str, effect: Callable[[], _T]) -> _T:
        with self._lock:
            call = Call(len(self.calls) + 1, kind, name)
            self.calls.append(call)
        fault = self.plan(call) if self.plan else None
        if fault in ("error", "transient", "refused"):
            raise _failure(fault, call)
        if fault is None:
            return effect()
        with suppress(Missing, NameTaken):  # these are answers too, and lost like any other
            effect()
        raise _failure(fault, call)

    def _put(self, name: str, data: Data) -> None:
        self._faulty("put", name, lambda: self.inner.put(name, data))

    def _put_if_absent(self, name: str, data: Data) -> None:
        def create() -> None:
            if not self.inner.put_if_absent(name, data):
                raise NameTaken(name)

        self._faulty("put", name, create)

    def _get(self, name: str, start: int, stop: int | None) -> ObjectBytes:
        return self._faulty("get", name, lambda: self.inner.get(name, start, stop))

    def _get_many(self, ranges: Sequence[Range]) -> Answers:
        return [self._get_or_none(each) for each in ranges]

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        return self._faulty("list", prefix, lambda: self.inner.list_page(prefix, after, limit))

    def _folders(self, prefix: str) -> Names:
        return self._attempt(
            "list", prefix, lambda: self._faulty("list", prefix, lambda: self.inner.folders(prefix))
        )

    def _delete(self, names: Names) -> None:
        self._attempt(
            "delete", names[0], lambda: self._faulty("delete", names[0], lambda: self.inner.delete(names))
        )

    def _pause(self, seconds: float) -> None:
        """Skipped: nothing is learned by waiting for an injected fault to pass."""


def _failure(fault: Fault, call: Call) -> Exception:
    what = f"injected {fault} at request {call.number}, {call.kind} of {call.name!r}"
    if fault == "refused":
        return AccessDenied(what)
    return ConnectionResetError(what) if fault.startswith("transient") else StoreUnavailable(what)
