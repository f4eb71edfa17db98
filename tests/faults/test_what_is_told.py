"""Whatever requests fail, together or alone, what a commit says is true: in CAS mode, a merge in any.

No error: it is there. `CommitUnknown`: nobody knows. Any other error: it is not there, and never will be. A
single request that fails is not enough to see this: where an answer is lost, what tells is the next request.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitUnknown, CrdtcatError
from crdtcat.store.memory import MemoryStore
from crdtcat.testing.faulty import Call, Fault, FaultyStore

SCHEMA: Final = pa.schema([("n", pa.int64()), ("x", pa.int64())])
OPTIONS: Final[dict[str, Any]] = {"upkeep": False, "base_delay": 0, "lease_seconds": 0}


def _transaction(catalog: Catalog) -> None:
    with catalog.transaction(isolation="serializable") as tx:
        tx.read("a")
        tx.append("a", [{"n": 9, "x": 9}])
        tx.update("b", "n = 1", {"x": 9})


def _stream(catalog: Catalog) -> None:
    with catalog.table("a").stream() as stream:
        stream.write([{"n": 9, "x": 9}])


COMMITS: Final[dict[str, tuple[Callable[[Catalog], object], str]]] = {
    "append": (lambda catalog: catalog.table("a").append([{"n": 9, "x": 9}]), "a"),
    "update": (lambda catalog: catalog.table("a").update("n = 1", {"x": 9}), "a"),
    "upsert": (lambda catalog: catalog.table("k").upsert([{"n": 1, "x": 9}]), "k"),
    "stream": (_stream, "a"),
    "merge": (lambda catalog: catalog.table("a").merge("side"), "a"),
    "transaction": (_transaction, "ab"),
    "merge in merge mode": (lambda catalog: catalog.table("a").merge("side"), "a"),
}


def lake(tables: str, *, branched: bool, mode: str) -> str:
    url = f"memory://told-{secrets.token_hex(6)}"
    catalog = Catalog(MemoryStore(url), **OPTIONS)
    for name in tables:
        catalog.create_table(name, SCHEMA, mode=mode, key=["n"] if name == "k" else [])
        put(catalog, name, {"n": 1, "x": 0})
    if branched:
        catalog.table("a").branch("side")
        catalog.table("a", branch="side").append([{"n": 9, "x": 9}])
    return url


def put(catalog: Catalog, name: str, row: dict[str, int]) -> None:
    table = catalog.table(name)
    (table.upsert if name == "k" else table.append)([row])


def told(
    url: str, commit: Callable[[Catalog], object], tables: str, faults: tuple[Fault, ...], first: int
) -> tuple[str, int]:
    """What a commit said some of whose requests failed, from the first on, and how many it made."""
    made = 0

    def plan(call: Call) -> Fault | None:
        nonlocal made
        made = call.number - before
        return faults[made - first] if 0 <= made - first < len(faults) else None

    store = FaultyStore(MemoryStore(url))
    catalog = Catalog(store, **OPTIONS)
    for name in tables:
        catalog.table(name).head()
    before = len(store.calls)
    store.plan = plan
    try:
        commit(catalog)
    except CommitUnknown:
        return "unknown", made
    except CrdtcatError:
        return "failed", made
    return "committed", made


ONE: Final[tuple[Fault, ...]] = ("error", "lost_answer", "refused")
FAULTS: Final = [(fault,) for fault in ONE] + list(product(ONE, ONE))


@pytest.mark.parametrize("name", COMMITS)
def test_what_a_commit_says_is_true(name: str) -> None:
    commit, tables = COMMITS[name]
    branched, mode = name.startswith("merge"), "merge" if "mode" in name else "cas"
    for faults in FAULTS:
        first, made = 0, 0
        while made >= first:  # the request was made that was to fail
            first += 1
            url = lake(tables, branched=branched, mode=mode)
            said, made = told(url, commit, tables, faults, first)
            others = Catalog(MemoryStore(url), **OPTIONS)
            for table in tables:  # whoever comes next decides what was left undecided
                put(others, table, {"n": 2, "x": 0})
            there = {9 in others.read(table)["x"].to_pylist() for table in tables}
            right = {"committed": [{True}], "failed": [{False}], "unknown": [{True}, {False}]}[said]
            assert there in right, f"{faults} from request {first} on: {said}"
        assert (said, first > 1) == ("committed", True)
