"""The right rules on random histories: neither compaction nor bundling nor expiry can be seen.

Bundling is union, so it is played as any partition of a history into overlapping groups that are joined.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.expiry import expire
from tests.model.head import head
from tests.model.histories import history, without_compactions
from tests.model.versions import State, Version, state_of


def bundled(versions: list[Version], choose: random.Random) -> State:
    """Every version in at least one bundle, some in several; bundles of bundles; read in any order."""
    parts = [state_of(version) for version in versions]
    for _ in range(len(versions)):
        some = choose.sample(parts, min(len(parts), choose.randint(1, 3)))
        merged = State()
        for part in some:
            merged = merged.join(part)
        parts.append(merged)
    choose.shuffle(parts)
    result = State()
    for part in parts:
        result = result.join(part)
    return result


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.integers(0, 2**32), st.integers(0, 20))
def test_upkeep_changes_no_head(seed: int, order: int, horizon: int) -> None:
    versions = history(seed, steps=16)
    plain = head(state_of(*without_compactions(versions)))
    assert head(bundled(versions, random.Random(order))) == plain
    expired = head(expire(bundled(versions, random.Random(order)), horizon))
    assert (expired.rows, expired.row_ids, expired.snapshot) == (plain.rows, plain.row_ids, plain.snapshot)
