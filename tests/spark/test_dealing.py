"""Tests that take the Spark session all run in one process, and no others do: CI waits for that one."""

from __future__ import annotations

import pytest

from tests.conftest import with_session


def test_those_with_the_session_are_known_by_what_they_take(request: pytest.FixtureRequest) -> None:
    """Also where a fixture takes it: such a test takes it by itself, too."""
    here = [item for item in request.session.items if item.nodeid.startswith("tests/spark/")]
    assert here
    for item in here:
        assert isinstance(item, pytest.Function)
        file, _, _ = item.nodeid.partition("::")
        takes = "spark" in item.fixturenames
        assert takes == (item.originalname in with_session(file)), item.nodeid
