"""Requests that are counted, repeated as the retry policy says, and whose failures become errors of ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from crdtcat.errors import CrdtcatError
from crdtcat.store import naming
from crdtcat.store.requests import Kind, RequestCounter
from crdtcat.store.retry import Fault, RetryPolicy, classify
from crdtcat.store.values import NameTaken, translate

_T = TypeVar("_T")


class Attempts:
    """What stores do around each request."""

    url: str
    requests: RequestCounter
    _retry: RetryPolicy
    _options: Mapping[str, Any]

    def _classify(self, error: Exception) -> Fault:
        return classify(error)

    def _attempt(self, kind: Kind, name: str, call: Callable[[], _T]) -> _T:
        """Make one request, counted, as often as the retry policy allows."""
        failures = 0
        while True:
            self.requests.add(kind)
            try:
                return call()
            except Exception as error:  # noqa: BLE001 (each backend raises its own; all are translated)
                failures += 1
                pause = self._after_failure(kind, name, failures, error)
            self._pause(pause)

    def _after_failure(self, kind: Kind, name: str, failures: int, error: Exception) -> float:
        """How long to pause before another try. Raises our own error where there shall be none."""
        # Only unclear tries are repeated, so an earlier PUT may have been stored although this one was not.
        unclear = kind == "put" and failures > 1
        if isinstance(error, NameTaken) or (isinstance(error, CrdtcatError) and not unclear):
            raise error
        fault = self._classify(error)
        if fault is Fault.EXISTS:
            raise NameTaken(name) from error
        if fault is Fault.TRANSIENT and failures < self._retry.attempts:
            return self._retry.pause_seconds(failures)
        why = naming.hide_secrets(f"{type(error).__name__}: {error}", self._options)[:500]
        if unclear:
            fault = Fault.TRANSIENT
        translated = translate(fault, f"{kind} of {name!r} in {self.url}", name, failures, why)
        # The cause helps whoever reads the traceback, unless a text in it gives a secret away.
        raise translated from (None if naming.tells_secrets(error, self._options) else error)

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)
