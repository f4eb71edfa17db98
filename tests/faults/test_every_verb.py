"""No public verb is left out of the plays: each of them is played, so each meets every fault and Ctrl-C."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import pytest

from crdtcat import Catalog, Table
from crdtcat.scan import Scan
from crdtcat.store import open_store
from crdtcat.transaction import Transaction
from crdtcat.verbs.stream import StreamWriter
from tests.faults.more_operations import MORE_PLAYS
from tests.faults.operations import PLAYS, arrange, fresh_url, read_content

FACES: Final = (Catalog, Table, Transaction, Scan, StreamWriter)


def test_every_public_verb_is_played(monkeypatch: pytest.MonkeyPatch) -> None:
    verbs, played = set[str](), set[str]()
    for face in FACES:
        for name in dir(face):
            function = inspect.getattr_static(face, name)
            if not name.startswith("_") and inspect.isfunction(function):
                verbs.add(f"{face.__name__}.{name}")
                monkeypatch.setattr(face, name, _noted(function, f"{face.__name__}.{name}", played))
    for play in (*PLAYS, *MORE_PLAYS):
        store = open_store(fresh_url())
        arrange(store, play.settings)
        play.act(Catalog(store, **play.options))
        if not play.gone:
            assert read_content(store, play.options) == play.content, play.name
    assert verbs - played == set()


def _noted(function: Callable[..., Any], name: str, played: set[str]) -> Callable[..., Any]:
    @wraps(function)
    def noting(*arguments: Any, **named: Any) -> Any:
        played.add(name)
        return function(*arguments, **named)

    return noting
