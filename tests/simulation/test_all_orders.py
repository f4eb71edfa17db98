"""Two writers, two compactors, an expiry and a collection, in every order there is, over the real code.

`orders` says who does what when, and why it is enough to try each thing once that would be told the same.
In every world a cold reader finds the rows that a row-by-row model has: a dict of rows with a stamp on every
cell, in which there is no compaction, no expiry and no collection.
"""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import numpy as np
import pytest

from crdtcat.maintenance import garbage
from tests.simulation.orders import Clocks, Orders, Sizes
from tests.simulation.row_model import DELETE, PAIRS, RESTORE, UPDATE, Verb

FULL = os.environ.get("CRDTCAT_SLOW") == "full"
by_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0].name} and {pair[1].name}")
by_clocks = pytest.mark.parametrize("clocks", ["standing", "in step"])


@pytest.mark.timeout(3600)
@by_pair
def test_every_order(pair: tuple[Verb, Verb]) -> None:
    """A sample of the worlds, drawn at random, in which the same log in other files is another moment."""
    most = 20_000 if FULL else 120
    orders = Orders(pair, (8, 2), clocks="ticking", files=True)
    assert orders.explore(most) > most
    assert orders.tables_read > most // (16 if FULL else 10)


@pytest.mark.parametrize("pair", [(UPDATE, DELETE), (RESTORE, UPDATE)], ids=lambda pair: pair[0].name)
@by_clocks
def test_every_order_of_two_writers(pair: tuple[Verb, Verb], clocks: Clocks) -> None:
    """All of them, without a compactor: hundreds of worlds."""
    orders = Orders(pair, (), clocks=clocks)
    assert orders.explore() > 300
    assert orders.tables_read > 15


def test_a_collector_that_does_not_condemn_first_is_found_out() -> None:
    """So the search finds what it is for: a restore refers to what was deleted after it had read."""

    def at_once(_: Any, __: Any, listing: Any, *___: Any) -> Any:
        return np.zeros(len(listing), np.int64)

    with (
        mock.patch.object(garbage._Collection, "_condemned_since", at_once),
        pytest.raises(AssertionError, match=r"(?s)after:.*writer 0 reads.*writer 0 commits its restore"),
    ):
        Orders((RESTORE, UPDATE), (), clocks="standing").explore()


@pytest.mark.timeout(3600)
@pytest.mark.skipif(not FULL, reason="takes minutes; a sample of larger ones is above")
@by_pair
@pytest.mark.parametrize("compactors", [(), (8,)], ids=["alone", "compacted"])
def test_every_order_to_the_last(pair: tuple[Verb, Verb], compactors: Sizes) -> None:
    """With one compactor, the same log in other files being another moment: up to 16,000 worlds."""
    orders = Orders(pair, compactors, clocks="ticking", files=True)
    assert orders.explore() > 100


@pytest.mark.timeout(3600)
@pytest.mark.skipif(not FULL, reason="takes minutes; a sample is above")
@by_pair
@by_clocks
@pytest.mark.parametrize("sizes", [(8, 8), (8, 2), (2, 16)], ids=str)
def test_every_order_with_two_compactors_to_the_last(
    pair: tuple[Verb, Verb], clocks: Clocks, sizes: Sizes
) -> None:
    """The whole scope, about an hour of one core. Of 15 of the 36: 35,440 to 91,716 worlds, 583 to 2,387
    tables, 38 to 164 seconds."""
    orders = Orders(pair, sizes, clocks=clocks)
    assert orders.explore() > 25_000
    assert orders.tables_read > 300
