"""Several threads end one transaction, or try one change again: it is committed once."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitConflict, InvalidArgument

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def at_once(work: Callable[[], Any], threads: int = 4) -> list[Any]:
    """What each thread gave or raised, all of them begun together."""
    together, found = threading.Barrier(threads), list[Any]()

    def run() -> None:
        together.wait()
        try:
            found.append(work())
        except InvalidArgument as error:
            found.append(error)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return found


def lake(mode: str) -> Catalog:
    catalog = Catalog(f"memory://ended-{secrets.token_hex(8)}", upkeep=False)
    catalog.create_table("t", mode=mode).append([{"k": 1, "v": 0}])
    return catalog


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_a_transaction_is_committed_once(mode: str) -> None:
    catalog = lake(mode)
    for n in range(10):
        transaction = catalog.transaction()
        transaction.table("t").append([{"k": n + 2, "v": n}])
        found = at_once(transaction.commit)
        assert sum(isinstance(item, InvalidArgument) for item in found) == 3
    assert sorted(catalog.read("t")["k"].to_pylist()) == list(range(1, 12))


def test_a_transaction_is_tried_again_by_one() -> None:
    catalog = lake("cas")
    other = Catalog(catalog.url, upkeep=False)
    transaction = other.transaction()
    transaction.table("t").update("k = 1", {"v": 10})
    catalog.table("t").update("k = 1", {"v": 1})
    with pytest.raises(CommitConflict) as caught:
        transaction.commit()
    found = at_once(lambda: caught.value.retry("ours"))
    assert sum(isinstance(item, InvalidArgument) for item in found) == 3
    assert catalog.read("t").to_pylist() == [{"k": 1, "v": 10}]
    assert len(catalog.table("t").history()) == 3


def test_a_change_of_a_handle_is_tried_again_by_one() -> None:
    catalog = Catalog(f"memory://ended-{secrets.token_hex(8)}", upkeep=False)
    table = catalog.create_table("t", SCHEMA, key=["k"], mode="cas")
    table.upsert([{"k": 1, "v": 0}])
    mine = Catalog(catalog.url, upkeep=False).table("t")
    mine.head()
    table.upsert([{"k": 1, "v": 1}])
    with pytest.raises(CommitConflict) as caught:
        mine.upsert([{"k": 1, "v": 10}])
    found = at_once(lambda: caught.value.retry("ours"))
    assert sum(isinstance(item, InvalidArgument) for item in found) == 3
    assert catalog.read("t").to_pylist() == [{"k": 1, "v": 10}]
    assert len(catalog.table("t").history()) == 3
