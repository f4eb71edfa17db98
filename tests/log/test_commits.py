"""The log of one commit's file, made directly, is what an empty state joined with it has."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import Corrupt
from crdtcat.format.version import decode_version
from crdtcat.log import Log, State, encode_bundle
from crdtcat.log.commits import log_of_commit
from crdtcat.protocol.names import claim_name, is_commit
from crdtcat.store.memory import MemoryStore

ROWS = pa.table({"id": pa.array(range(20), pa.int64()), "text": [f"t{n % 3}" for n in range(20)]})


def assert_same(one: Log, other: Log) -> None:
    assert encode_bundle(replace(one, inline={}), "f/") == encode_bundle(replace(other, inline={}), "f/")
    for each in fields(Log):
        mine, theirs = getattr(one, each.name), getattr(other, each.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == theirs.dtype, each.name
            assert np.array_equal(mine, theirs), each.name
        elif each.name != "statistics":  # lazy: the bundles have them
            assert mine == theirs, each.name


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_the_log_of_one_commit_is_what_an_empty_state_joins(mode: str) -> None:
    store = MemoryStore("memory://one-commit-" + mode)
    catalog = Catalog(store, upkeep=False)
    tables = [catalog.create_table(name, ROWS.schema, mode=mode) for name in ("a", "b")]
    for table in tables:
        table.append(ROWS, key="once")
        table.update([("id", "<", 3)], {"text": "new"})
        table.delete([("id", "==", 7)])
        table.add_column("more", pa.float64())
        table.overwrite(ROWS.slice(5))
    with catalog.transaction(["a", "b"]) as transaction:
        transaction.append("a", ROWS)
        transaction.delete("b", [("id", ">", 15)])
    with catalog.transaction(["b"]) as transaction:
        transaction.append("b", ROWS)
    tables[0].compact()
    folders = [table._session.folder for table in tables]
    files = [item.name for folder in (*folders, "transactions/") for item in store.list(folder)]
    compared = 0
    for name, folder in product(filter(is_commit, files), folders):
        if not name.startswith((folder, "transactions/")):
            continue
        data = store.get(name)
        writer = decode_version(data, name)[0].writer
        for decided in ({}, {writer: True}, {writer: False}):
            slow = State(folder, decided=tuple(decided.items())).joined([(name, data)]).log
            assert_same(log_of_commit(folder, name, data, decided), slow)
            compared += len(slow)
    assert compared > 30


def test_a_claim_under_another_number_is_damage() -> None:
    store = MemoryStore("memory://another-number")
    table = Catalog(store, upkeep=False).create_table("t", ROWS.schema, mode="cas")
    table.append(ROWS)
    folder = table._session.folder
    name = next(item.name for item in store.list(folder) if is_commit(item.name))
    with pytest.raises(Corrupt, match="renamed"):
        log_of_commit(folder, claim_name(folder, 99), store.get(name), {})
