"""Versions taken out of a log and put into another are what they were."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.format.version import encode_version, unpack
from crdtcat.log import Log
from crdtcat.log.bodies import bodies_of
from crdtcat.log.build import LogBuilder
from crdtcat.testing.strategies_log import FOLDER, History, histories
from crdtcat.writing.inlined import moved_to_segments
from tests.bounds import bounded


def plain(log: Log) -> dict[str, Any]:
    """Everything in a log, as values that can be compared."""
    found: dict[str, Any] = {}
    for item in fields(log):
        value = getattr(log, item.name)
        if item.name == "statistics":
            value = {
                column: sorted(zip(*(part.tolist() for part in value.bounds(*column)), strict=True))
                for column in value.columns()
            }
        elif isinstance(value, np.ndarray | pa.Array | pa.ChunkedArray):
            value = value.tolist()
        found[item.name] = value
    return found


@given(histories(), st.booleans())
@settings(max_examples=bounded(400, 10), deadline=None)
def test_bodies_of_a_log_make_the_same_log(history: History, stored: bool) -> None:
    log = history.state().log
    if stored:
        log = moved_to_segments(log).log
    builder = LogBuilder(FOLDER)
    for at, body in enumerate(bodies_of(log)):
        id, clock = log.id_at(at), log.clock[at].as_py()
        if clock is not None:
            parent, beyond = unpack(clock, "clock")
            body |= {"p": parent, "c": beyond}
        assert encode_version({**body, "h": 1, "w": 1, "s": 1})
        builder.add(id, {**body, "l": FOLDER}, str(id))
    assert plain(builder.build()) == plain(log)
