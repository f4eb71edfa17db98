"""Damage in every kind of object there is: `verify` finds it, and no read returns it.

A small catalog with keyed chunks and deleted keys, overlays, deleted rows, compactions, bundles, bases,
branches, tags, claims, decisions, transactions, what was closed of these, and lists of garbage. A few bytes
of each object by default, every byte with CRDTCAT_SLOW=full.
"""

from __future__ import annotations

import os
import random
from contextlib import suppress
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import pyarrow as pa

from crdtcat import Catalog, Table
from crdtcat.errors import CrdtcatError, DataError
from crdtcat.store import Store
from tests.catalog.lakes import another, lake, objects

EVERY_BYTE = os.environ.get("CRDTCAT_SLOW") == "full"
OPTIONS: dict[str, Any] = {"grace_seconds": 0, "max_commit_delay_seconds": 0, "chunk_rows": 4}
SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.string())])
KINDS = {
    "a version": "tables/*/main/*.v",
    "a bundle": "tables/plain/main/z0*.b",
    "a base": "tables/*/main/zz*.b",
    "a claim": "tables/*/main/*.c",
    "a transaction": "transactions/*.v",
    "a decision": "transactions/*.decision",
    "what was closed": "transactions/z*",
    "a branch's start": "tables/plain/refs/branches/*.json",
    "a branch's version": "tables/plain/b/*.v",
    "a tag": "tables/plain/refs/tags/*.json",
    "settings": "tables/*/settings.json",
    "the marker": "crdtcat.json",
    "a segment": "data/*/*.parquet",
    "a list of garbage": "garbage/*",
}
NOT_OF_A_TABLE = ("hint", "dropped", "transacted", "deleted")  # advice, or empty files whose name says it all


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": numbers, "x": [f"row {number}" for number in numbers]}, schema=SCHEMA)


def everything() -> Catalog:
    catalog = lake(**OPTIONS, inline_bytes=0)
    inlining = another(catalog, **OPTIONS)
    keyed = catalog.create_table("keyed", SCHEMA, key=["n"])
    keyed.upsert(rows(1, 2, 3))
    keyed.upsert(rows(3, 4))
    keyed.delete(keys=[1])
    keyed.compact(rows=8)
    keyed.expire(older_than=timedelta(0))
    keyed.collect()
    inlining.table("keyed").upsert(rows(4, 5))
    plain = catalog.create_table("plain", SCHEMA)
    plain.append(rows(1, 2, 3, 4))
    plain.update("n = 2", {"x": "changed"})
    plain.delete("n = 3")
    plain.tag("tag")
    plain.checkpoint()
    plain.branch("b").append(rows(7))
    plain.compact(rows=8)
    inlining.table("plain").append(rows(5))
    for name in ("strict", "stricter"):
        catalog.create_table(name, SCHEMA, mode="cas").append(rows(1, 2))
    catalog.create_table("other", SCHEMA)
    with catalog.transaction() as both:
        both.append("plain", rows(8))
        both.append("other", rows(8))
    catalog.table("other").expire(older_than=timedelta(0))
    with catalog.transaction() as both:
        both.append("strict", rows(9))
        both.append("stricter", rows(9))
    for _ in range(2):
        catalog.collect(grace=0)  # what the expiry let go is nobody's
    late = catalog.create_table("late", SCHEMA)
    late.append(rows(1, 2))
    late.overwrite(rows(3))
    late.expire(older_than=timedelta(0))
    other = catalog.table("other")  # and what one of two tables let go of a transaction whose file is kept
    other.overwrite(rows(9))
    other.expire(older_than=timedelta(0))
    catalog.collect(grace=3600)  # what these let go is condemned
    return catalog


def handles(store: Store) -> dict[str, Table]:
    catalog = Catalog(store, upkeep=False, **OPTIONS)
    found = {name: catalog.table(name) for name in ("keyed", "plain", "strict", "stricter", "other", "late")}
    return {**found, "plain b": catalog.table("plain", "b")}


def read(table: Table) -> list[Any]:
    tagged = [table.read(at=name).to_pylist() for name in sorted(table.tags())]
    return [table.read().to_pylist(), *tagged]


def test_there_is_one_of_each_kind() -> None:
    names = list(objects(everything()))
    for kind, pattern in KINDS.items():
        assert any(_matches(name, pattern) for name in names), kind
    known = [name for name in names if any(_matches(name, pattern) for pattern in KINDS.values())]
    strange = {name for name in names if name.rpartition("/")[2].rpartition(".")[2] not in NOT_OF_A_TABLE}
    assert not {name for name in strange - {*known} if "/horizons/" not in name}


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")


def test_damage_in_every_kind_of_object_is_found_and_never_read() -> None:
    catalog = everything()
    store = catalog.store
    expected = {name: read(table) for name, table in handles(store).items()}
    assert all(table.verify("content").ok for table in handles(store).values())
    chance = random.Random(0)
    nobodys = {item.name for item in catalog.collect(dry_run=True, grace=0).garbage}
    for name in objects(catalog):
        data = bytes(store.get(name))
        if not data or name in nobodys or not any(_matches(name, pattern) for pattern in KINDS.values()):
            continue
        everywhere = range(len(data))
        for at in everywhere if EVERY_BYTE else {0, len(data) - 1, *chance.choices(everywhere, k=2)}:
            store.put(name, data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
            _check(store, name, at, expected)
        store.put(name, data)
    assert all(table.verify("content").ok for table in handles(store).values())


def _check(store: Store, name: str, at: int, expected: dict[str, list[Any]]) -> None:
    try:
        opened = handles(store)
    except DataError:
        return  # named when the table is opened
    found = set()
    for who, table in opened.items():
        if name.startswith("tables/") and f"/{who.split()[0]}/" not in name:
            continue
        try:
            found |= {problem.name for problem in table.verify("bytes").problems}
        except CrdtcatError as error:
            found |= {name} if name in str(error) else set()
        with suppress(DataError):
            assert read(table) == expected[who], f"byte {at} of {name} was read"
    assert name in found, f"byte {at} of {name} was not found: {sorted(found)}"
