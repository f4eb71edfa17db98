"""Ctrl-C in the middle of any call: all of it is there or nothing, and the same catalog goes on.

As the plays of the n-th request, but what fails is the caller's patience, at the n-th line of our own code.
Lines are taken with a stride, but for the last ones, where commits happen. Real signals are sent by
`tests/processes/test_interrupts.py`.
"""

from __future__ import annotations

import os
from functools import partial

import pytest

from crdtcat import Catalog
from crdtcat.errors import NotFound
from crdtcat.store import Store, open_store
from tests.faults.lines import Lines
from tests.faults.operations import (
    NEW,
    OLD,
    OPTIONS,
    PLAYS,
    Play,
    arrange,
    content,
    fresh_url,
    read_content,
    rows,
)

FULL = os.environ.get("CRDTCAT_SLOW") == "full"
POINTS = 400 if FULL else 10
OF_THE_LAST = 100 if FULL else 4


def _arranged(play: Play) -> Store:
    store = open_store(fresh_url())
    arrange(store, play.settings)
    return store


def _lines(play: Play) -> int:
    """How many lines it runs, once nothing is imported any more."""
    play.act(Catalog(_arranged(play), **play.options))
    counter = Lines()
    counter.run(partial(play.act, Catalog(_arranged(play), **play.options)))
    return counter.seen


@pytest.mark.parametrize("play", PLAYS, ids=str)
def test_interrupted_in_any_call(play: Play) -> None:
    interrupted_at_points(play)


def interrupted_at_points(play: Play) -> None:
    """Play it again and again, each time up to another line."""
    total = _lines(play)
    assert total > OF_THE_LAST
    for point in sorted({*range(1, total, max(1, total // POINTS)), *range(total - OF_THE_LAST, total + 1)}):
        store = _arranged(play)
        catalog = Catalog(store, **play.options)
        interrupted = Lines(point).run(partial(play.act, catalog))
        if play.gone:
            _check_gone(store)
            continue
        found = read_content(store, play.options)
        assert found in (content(OLD), play.content), f"half of it is visible after line {point} of {total}"
        assert interrupted or found == play.content
        _check_goes_on(play, catalog)


def _check_goes_on(play: Play, catalog: Catalog) -> None:
    """The very catalog that was interrupted: what was begun can be repeated, or something else be done."""
    if play.keyed:
        play.act(catalog)
        assert read_content(catalog.store, play.options) == play.content
    found = read_content(catalog.store, play.options)
    catalog.commit("t", rows(frozenset({500})))
    assert read_content(catalog.store, play.options) == found | content(frozenset({500}))


def _check_gone(store: Store) -> None:
    catalog = Catalog(store, **OPTIONS)
    try:
        assert read_content(store) == content(OLD)
    except NotFound:
        assert catalog.tables() == []
    else:
        catalog.drop_table("t")
    catalog.create_table("t")
    catalog.commit("t", rows(NEW))
    assert read_content(store) == content(NEW)
