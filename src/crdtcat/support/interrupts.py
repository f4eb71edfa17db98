"""Ctrl-C in the middle of what must not stay half done, and of what would not hear it.

Python delivers an interrupt to the main thread, at any instruction. Where each request is whole by itself
nothing else is needed; where only all of them together are, they are made in a thread that no interrupt
reaches, and the main one waits for it before it lets the interrupt go on its way. Killing the process is
another matter: what it leaves behind then, the callers say. Work that hears an interrupt late or never, since
it does not come back to Python, runs in such a thread too; the main one tells it to stop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from crdtcat.support.pools import threads_can_start

_T = TypeVar("_T")


def carried_through(call: Callable[[], _T]) -> _T:
    """What a call returns or raises. A Ctrl-C meanwhile is raised after its end, or before it began.

    A second one is raised at once; the call goes on, and ends by itself.
    """
    return _in_a_thread(call, lambda work: work.over.wait())


def stopped_by(call: Callable[[], _T], stop: Callable[[], object]) -> _T:
    """What a call returns or raises. A Ctrl-C meanwhile is raised once the call has ended.

    `stop` asks for that until it happens: a call that is only about to begin may not know that it was told.
    """

    def end(work: _Work) -> None:
        while not work.over.is_set():
            stop()
            work.over.wait(0.05)

    return _in_a_thread(call, end)


def _in_a_thread(call: Callable[[], _T], ended: Callable[[_Work], object]) -> _T:
    if threading.current_thread() is not threading.main_thread() or not threads_can_start():
        return call()
    work = _Work(call)
    thread = threading.Thread(target=work.run, name="crdtcat-uninterrupted")
    try:
        thread.start()
        work.over.wait()  # an interrupted join takes its thread for ended
    except BaseException:
        if work.has_begun_or_never_will():
            ended(work)
        raise
    answer: _T = work.done.result()
    return answer


class _Work:
    def __init__(self, call: Callable[[], Any]) -> None:
        self._call, self._lock = call, threading.Lock()
        self._begun = self._given_up = False
        self.done: Future[Any] = Future()
        self.over = threading.Event()

    def run(self) -> None:
        with self._lock:
            if self._given_up:
                return
            self._begun = True
        try:
            self.done.set_result(self._call())
        except BaseException as error:  # noqa: BLE001 (it is raised where the call was made)
            self.done.set_exception(error)
        finally:
            self.over.set()

    def has_begun_or_never_will(self) -> bool:
        """Whether it has begun; if not, it will not begin any more."""
        with self._lock:
            self._given_up = not self._begun
            return self._begun
