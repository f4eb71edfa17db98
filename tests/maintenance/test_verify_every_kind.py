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
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import CrdtcatError, DataError
from crdtcat.maintenance import verify_named
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


NOBODY_KNOWS = {"a version", "a branch's version", "a transaction", "a decision", "a tag"}
"""Kinds of which a loss may change what is read without a new process being able to know: the last version of
a writer which nobody had seen, a transaction whose file was its only place, a decision that may still be
made, and a name for a snapshot."""


def test_what_is_missing_is_told_by_a_new_process_or_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly the kinds named above are lost in silence, to a process that has read nothing; one that has
    read the table misses all of them but tags."""
    catalog = everything()
    store = catalog.store
    monkeypatch.setattr(verify_named, "ABANDONED_MS", -60_000)  # nobody expires anything here
    warm = handles(store)
    expected = {name: read(table) for name, table in warm.items()}
    silent = set()
    for name in objects(catalog):
        kind = next((kind for kind, pattern in KINDS.items() if _matches(name, pattern)), None)
        if kind in (None, "a segment"):  # empty files; and segments are named by the log
            continue
        data = bytes(store.get(name))
        store.delete([name])
        if not _is_told(store, name) and not _reads_the_same(store, expected):
            silent.add(kind)
            told = [problem for table in warm.values() for problem in table.verify("metadata").problems]
            assert bool(told) == (kind != "a tag"), name
        store.put(name, data)
    assert silent == NOBODY_KNOWS


def _is_told(store: Store, name: str) -> bool:
    try:
        tables = handles(store)
    except CrdtcatError:
        return True
    found = [problem for table in tables.values() for problem in table.verify("metadata").problems]
    assert all(name.startswith(problem.name) or problem.name == name for problem in found), f"{name}: {found}"
    return bool(found)


def _reads_the_same(store: Store, expected: dict[str, list[Any]]) -> bool:
    return {name: read(table) for name, table in handles(store).items()} == expected


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_a_lost_bundle_is_told_by_what_names_it(mode: Any) -> None:
    """Its versions are in no file any more: a branch that starts with them tells, and the hint of claims."""
    catalog = lake(**OPTIONS)
    table = catalog.create_table("t", SCHEMA, mode=mode)
    table.append(rows(1, 2))
    table.branch("b")
    table.checkpoint()
    table.collect()
    assert not [name for name in objects(catalog) if name.endswith((".v", ".c"))]
    (bundle,) = (name for name in objects(catalog) if name.startswith("tables/t/main/z"))
    assert another(catalog).table("t").verify("metadata").ok
    data = catalog.store.get(bundle)
    catalog.store.delete([bundle])
    problems = [problem.name for problem in another(catalog).table("t").verify("metadata").problems]
    assert problems == ["tables/t/refs/branches/b.json", *([bundle] if mode == "cas" else [])]
    catalog.store.put(bundle, data)
    table.delete_branch("b")
    catalog.store.delete([bundle])
    problems = [problem.name for problem in another(catalog).table("t").verify("metadata").problems]
    assert problems == ([bundle] if mode == "cas" else [])  # nothing names it in merge mode
