"""Every verb of a transaction as a play, in both modes where it is for both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from crdtcat import Catalog
from crdtcat.transaction import Transaction
from tests.faults.operations import (
    BY_KEY,
    CHANGED,
    OLD,
    STRICT,
    WIDE,
    Content,
    Play,
    changed_rows,
    content,
    rows,
)

MORE: Final = frozenset({7, 8})
OTHER: Final = frozenset({50, 51})
"""Rows that no other part of a play brings."""
QUICK: Final = {"max_commit_delay_seconds": 0, "lease_seconds": 0.01}


class _Refusal(Exception):
    """What a savepoint is left with."""


def _words(*numbers: int) -> pa.Table:
    return pa.table({"word": [CHANGED.get(n, f"word {n}") for n in numbers]})


def _committed(stage: Callable[[Transaction], Any]) -> Callable[[Catalog], None]:
    """What is staged is committed, together with two rows more."""

    def act(catalog: Catalog) -> None:
        with catalog.transaction(["t"]) as changes:
            stage(changes)
            changes.append("t", rows(MORE))

    return act


def _updated(changes: Transaction) -> None:
    for number, word in CHANGED.items():
        changes.update("t", f"n = {number}", {"word": word})
    assert read_of(changes) == content(OLD, CHANGED)


def read_of(changes: Transaction) -> Content:
    """What a transaction sees."""
    found = changes.read("t", ["n", "word"])
    return frozenset(zip(found["n"].to_pylist(), found["word"].to_pylist(), strict=True))


def _written(changes: Transaction) -> None:
    numbers = [1, 2, 50, 3, 4, 5]
    data = _words(*numbers).add_column(0, "n", [numbers])
    changes.write("t", data.append_column("more", pa.nulls(6, pa.int32())).cast(WIDE))


def _joined(changes: Transaction) -> None:
    """Two forks, and what is staged beside them."""
    first, second = changes.fork(), changes.fork()
    first.update("t", "n = 1", {"word": CHANGED[1]})
    second.update("t", "n = 4", {"word": CHANGED[4]})
    changes.join(first, second)


def _forgotten(changes: Transaction) -> None:
    """What was staged in a savepoint that is left with an error does not count."""
    try:
        with changes.savepoint():
            changes.overwrite("t", rows(OTHER))
            raise _Refusal
    except _Refusal:
        assert read_of(changes) == content(OLD)


def _aborted(catalog: Catalog) -> None:
    changes = catalog.transaction(["t"])
    changes.table("t").overwrite(rows(OTHER))
    changes.abort()


def _decided(catalog: Catalog) -> None:
    changes = catalog.transaction(["t"])
    changes.append("t", rows(MORE))
    changes.commit()
    assert changes.id is not None
    assert catalog.transaction_status(changes.id) == "committed"


def _collected(catalog: Catalog) -> None:
    _committed(lambda _: None)(catalog)
    for _ in range(2):  # the first bundles what the second deletes
        catalog.collect_transactions()


STAGED: Final[dict[str, tuple[Callable[[Transaction], Any], frozenset[int], dict[int, str]]]] = {
    "update": (_updated, OLD, CHANGED),
    "update-rows": (lambda changes: changes.update_rows("t", 1, 5, _words(1, 2, 3, 4)), OLD, CHANGED),
    "overwrite": (lambda changes: changes.overwrite("t", rows(OTHER)), OTHER, {}),
    "write": (_written, OLD - {0} | {50}, CHANGED),
    "fork-join": (_joined, OLD, CHANGED),
    "savepoint": (_forgotten, OLD, {}),
}
TRANSACTION_PLAYS: Final = (
    *(
        Play(f"{mode}transaction-{name}", _committed(stage), after | MORE, changed, settings, extra=QUICK)
        for name, (stage, after, changed) in STAGED.items()
        for mode, settings in (("", {}), ("cas-", STRICT))
    ),
    Play(
        "transaction-upsert",
        _committed(lambda changes: changes.upsert("t", changed_rows())),
        OLD | MORE,
        CHANGED,
        BY_KEY,
        extra=QUICK,
    ),
    Play("transaction-abort", _aborted, extra=QUICK),
    Play("cas-transaction-abort", _aborted, settings=STRICT, extra=QUICK),
    Play("cas-transaction-status", _decided, OLD | MORE, settings=STRICT, extra=QUICK),
    Play("collect-transactions", _collected, OLD | MORE, extra=QUICK),
)
