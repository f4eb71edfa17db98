"""CAS mode with real processes: on local disk and on a real S3 server, racing, and killed at any moment."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import CommitContended
from crdtcat.testing.invariants import check_claims
from crdtcat.testing.s3_server import S3Server
from tests.apart import processes_apart
from tests.cas.scenes import in_processes, meet

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64())])
TURNS = 5


def work(url: str, options: dict[str, Any], n: int) -> tuple[int, int]:
    """Update a row of one's own again and again; how often it was rebased, and how many requests it made.

    All have read before any of them makes its first commit, so they meet.
    """
    catalog = Catalog(url, options, upkeep=False)
    table = catalog.table("t")
    table.head()
    before, rebases = catalog.store.requests.snapshot(), 0
    meet(table)
    for turn in range(TURNS):
        rebases += table.update(f"n = {n}", {"x": turn + 1}).rebases
    cost = catalog.store.requests.since(before)
    return rebases, cost.put + cost.get + cost.list


def raced(url: str, options: dict[str, Any], writers: int) -> list[tuple[int, int]]:
    catalog = Catalog(url, options)
    catalog.create_table("t", SCHEMA, mode="cas").append([{"n": n, "x": 0} for n in range(writers)])
    found = in_processes(work, [(url, options, n) for n in range(writers)])
    assert sum(rebases for rebases, _ in found) >= writers - 1, "all but one met others"
    table = Catalog(url, options).table("t")
    assert table.read()["x"].to_pylist() == [TURNS] * writers
    numbers = [version.number for version in table.history()]
    assert numbers == list(range(1, writers * TURNS + 2))
    check_claims(table.head().log, "everybody")
    return found


def test_processes_on_disjoint_rows_all_commit_on_local_disk(tmp_path: Path) -> None:
    raced(str(tmp_path), {}, 4)


@pytest.mark.s3
def test_processes_on_disjoint_rows_all_commit_on_s3(s3_url: str, s3_server: S3Server) -> None:
    raced(s3_url, dict(s3_server.storage_options), 3)


def commit_for_ever(url: str, child: int) -> None:
    """Transactions over two tables, and now and then upkeep, until killed."""
    catalog = Catalog(url, lease_seconds=0.2, grace_seconds=0.2, bundle_every=4)
    turn = 0
    while True:
        with suppress(CommitContended), catalog.transaction() as tx:
            tx.append("a", [{"n": child, "x": turn}])
            tx.append("b", [{"n": child, "x": turn}])
        turn += 1
        if turn % 10 == 0:
            catalog.table("a").checkpoint()
            catalog.table("a").collect()


def test_killed_processes_leave_tables_that_agree(tmp_path: Path) -> None:
    url = str(tmp_path)
    catalog = Catalog(url, lease_seconds=0.2)
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode="cas")
    context = processes_apart()
    for round in range(2):
        children = [context.Process(target=commit_for_ever, args=(url, 10 * round + at)) for at in range(2)]
        for child in children:
            child.start()
        wanted = Catalog(url).table("a").scan().count() + 10
        for _ in range(600):
            if Catalog(url).table("a").scan().count() >= wanted:
                break
            time.sleep(0.1)
        for child in children:
            child.kill()
        for child in children:
            child.join()
        with Catalog(url).transaction() as tx:
            rows = {name: sorted(map(str, tx.read(name).to_pylist())) for name in ("a", "b")}
        assert rows["a"] == rows["b"], "half of a transaction is visible"
        assert rows["a"]
        assert len(set(rows["a"])) == len(rows["a"])
    for name in ("a", "b"):
        table = Catalog(url, lease_seconds=0.2).table(name)
        table.append([{"n": -1, "x": -1}])  # past whatever the dead left prepared
        check_claims(table.head().log, "the survivor")
        assert table.verify().ok
