"""Every verb on a table that is expired, compacted and collected all the time, beside one that never is."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.log.modes import Mode
from crdtcat.table import Table
from crdtcat.testing.simulated_store import VirtualClock, all_time
from tests.bounds import bounded
from tests.catalog.lakes import another, lake

QUICK: dict[str, Any] = {"max_commit_delay_seconds": 0, "grace_seconds": 0, "chunk_rows": 4}
STRICT_GRACE = 20
VERBS = (
    "append",
    "append",
    "keyed",
    "update",
    "update",
    "delete",
    "overwrite",
    "column",
    "restore",
    "property",
)
UPKEEP = ("expire", "expire", "compact", "collect", "checkpoint")


def _do(table: Table, verb: str, number: int) -> None:
    match verb:
        case "append":
            table.append([{"n": number * 10 + at, "x": at} for at in range(6)])
        case "keyed":
            table.append([{"n": number % 2, "x": 0}], key=str(number % 2))
        case "update":
            table.update(f"n % {2 + number % 3} = 0", {"x": number})
        case "delete":
            table.delete(f"n % 7 = {number % 7}")
        case "overwrite":
            table.overwrite([{"n": number, "x": number}])
        case "column":
            table.append([{"n": number, "x": 0, f"c{number % 3}": number}], evolve=True)
        case "restore":
            history = table.history()
            if len(history) > 1:
                table.restore(history[-2])
        case "property":
            table.set_properties(**{f"p{number % 2}": number})


def _keep_up(table: Table, verb: str) -> None:
    match verb:
        case "expire":
            table.expire(keep_last=2)
        case "compact":
            table.compact()
        case "collect":
            table.collect()
        case _:
            table.checkpoint()


def _value(catalog: Catalog, options: dict[str, Any]) -> tuple[Any, ...]:
    table = another(catalog, **options).table("t")
    head = table.head()
    return (
        table.read().to_pylist(),
        head.schema,
        dict(head.properties),
        head.row_count,
        head.version,
        [item.number for item in head.history[-2:]],
        [item.operation for item in head.history[-2:]],
    )


steps = st.lists(st.tuples(st.sampled_from((*VERBS, *UPKEEP, *UPKEEP)), st.booleans()), max_size=14)


@settings(max_examples=bounded(300, 15), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
@example(
    [
        ("column", True),
        *[("append", False)] * 4,
        ("column", False),
        ("expire", False),
        *[("append", False)] * 2,
        ("column", False),
    ]
)
def test_nothing_is_different(drawn: list[tuple[str, bool]]) -> None:
    _compare(drawn, "merge")


@settings(max_examples=bounded(150, 10), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_nothing_is_different_in_cas_mode(drawn: list[tuple[str, bool]]) -> None:
    """By a clock that stands still during a step: whether a claim is fresh is no matter of luck."""
    clock = VirtualClock()
    with all_time(clock, random.Random()):
        _compare(drawn, "cas", clock)


def _compare(drawn: list[tuple[str, bool]], mode: Mode, clock: VirtualClock | None = None) -> None:
    options = {**QUICK, "grace_seconds": STRICT_GRACE} if clock is not None else QUICK
    tended, left = lake(**options), lake(**options)
    for catalog in (tended, left):
        catalog.create_table("t", mode=mode).append([{"n": 1, "x": 1}])
        catalog.table("t").append([{"n": 2, "x": 2}])
    for number, (verb, fresh) in enumerate(drawn):
        if clock is not None:
            clock.now_ms += 2000 * STRICT_GRACE  # all that was known is stale, and what is covered may go
        if verb in UPKEEP:
            _keep_up((another(tended, **options) if fresh else tended).table("t"), verb)
            if not fresh:
                left.table("t").head()  # upkeep reads: both know the same columns now
        else:
            for catalog in (tended, left):
                _do((another(catalog, **options) if fresh else catalog).table("t"), verb, number)
        assert _value(tended, options) == _value(left, options)
