"""Ctrl-C in the commit that creates a table: no table, or one with the rows."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from crdtcat import Catalog
from crdtcat.errors import StoreUnavailable
from crdtcat.support.interrupts import carried_through
from tests.catalog.lakes import lake, rows
from tests.faults.lines import Lines
from tests.processes.test_interrupts import ALL_OF_LAST, POINTS

ROWS = [{"a": 1}, {"a": 2}]


def found(catalog: Catalog, name: str) -> list[dict[str, Any]] | None:
    """What everybody else sees of a table."""
    other = Catalog(catalog.url)
    return rows(other.read(name)) if name in other else None


@pytest.mark.parametrize("options", [{}, {"inline_bytes": 0}], ids=str)
def test_interrupted_at_every_line(options: dict[str, Any]) -> None:
    catalog = lake(upkeep=False, **options)
    catalog.commit("warm", ROWS)
    for name in ("again", "counted"):
        counter = Lines()
        counter.run(lambda name=name: catalog.commit(name, ROWS))  # type: ignore[misc]
    total, seen = counter.seen + 20, set()
    points = {*range(1, total, max(1, total // POINTS)), *range(max(1, total - ALL_OF_LAST), total)}
    for point in sorted(points):
        name = f"t{point}"
        interrupted = Lines(point).run(lambda name=name: catalog.commit(name, ROWS))  # type: ignore[misc]
        there = found(catalog, name)
        assert there in (None, ROWS), point
        assert interrupted or there == ROWS
        seen.add(there is None)
        catalog.commit(name, ROWS)  # the handle goes on
        assert found(catalog, name) == (ROWS if there is None else ROWS + ROWS)
    assert seen == {True, False}


@pytest.mark.parametrize("part", ["settings", ".v", "data/"])
def test_a_signal_while_something_is_stored(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = lake(upkeep=False, inline_bytes=0)
    catalog.commit("warm", ROWS)
    for verb in ("put", "put_if_absent"):
        real = getattr(catalog.store, verb)

        def stored(name: str, data: Any, real: Any = real) -> Any:
            if part in name:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)  # long enough for the main thread to notice
            return real(name, data)

        monkeypatch.setattr(catalog.store, verb, stored)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for what they detach
    try:
        with pytest.raises(KeyboardInterrupt):
            catalog.commit("t", ROWS)
    finally:
        signal.signal(signal.SIGINT, before)
    assert found(catalog, "t") == (None if part == "data/" else ROWS)


def test_errors_and_results_pass_through() -> None:
    def fail() -> None:
        raise StoreUnavailable("as told")

    with pytest.raises(StoreUnavailable, match="as told"):
        carried_through(fail)
    assert carried_through(lambda: threading.current_thread().name) == "crdtcat-uninterrupted"
    answers: list[str] = []
    other = threading.Thread(
        target=lambda: answers.append(carried_through(lambda: threading.current_thread().name)), name="mine"
    )
    other.start()
    other.join()
    assert answers == ["mine"]  # interrupts never come there
