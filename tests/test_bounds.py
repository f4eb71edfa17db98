"""Slow suites: how much of them runs, and for how long they may."""

from __future__ import annotations

import pytest

from tests.bounds import FULL_SECONDS_MAX, given_time


@pytest.mark.timeout(40)
def test_what_runs_in_full_is_not_ended_before_it_is_through(request: pytest.FixtureRequest) -> None:
    """`timeout` of pyproject.toml is for what hangs: 10,000 histories take longer than that by themselves."""
    says_itself = request.node
    other = pytest.Function.from_parent(request.node.parent, name=request.node.name, callobj=lambda: None)
    other.own_markers.clear()
    given_time([other, says_itself], full=False)
    assert other.get_closest_marker("timeout") is None
    given_time([other, says_itself], full=True)
    limits = [item.get_closest_marker("timeout") for item in (other, says_itself)]
    assert [limit.args for limit in limits if limit is not None] == [(FULL_SECONDS_MAX,), (40,)]
    assert 10 * float(request.config.getini("timeout")) < FULL_SECONDS_MAX
