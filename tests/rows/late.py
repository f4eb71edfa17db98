"""Commits that arrive late: made now, visible when asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from crdtcat import Table


def held_back(table: Table, act: Callable[[], object]) -> Callable[[], object]:
    """Do something, but keep its version file back until the function returned is called."""
    store = table._session.store
    kept: list[tuple[str, bytes]] = []
    real = store.put

    def put(name: str, data: Any) -> None:
        if name.endswith(".v"):
            kept.append((name, bytes(data)))
        else:
            real(name, data)

    store.put = put  # type: ignore[method-assign]
    last = table._session.writer.last
    try:
        with patch("crdtcat.session.with_own", lambda read, _: read()):  # nobody was told that it is there
            act()
    finally:
        table._session.writer.last = last
        store.put = real  # type: ignore[method-assign]
        table._session.writer._in_doubt = True  # as after a lost answer: it takes another id
    return lambda: [real(name, data) for name, data in kept]
