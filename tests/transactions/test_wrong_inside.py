"""Files of transactions with a right checksum and a wrong inside: who needs them says so, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import Corrupt, CrdtcatError
from crdtcat.format.frame import digest, seal
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.format.version import decode_version
from tests.format.mutate import body_of

Change = Callable[[Any], Any]
LOG = "tables/a/main/"
SCHEMA = pa.schema([("n", pa.int64())])


def part_with(parts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The same, but that the first version for a log has something else in it."""
    inner = msgpack.unpackb(body_of(parts[LOG][0]), strict_map_key=False)
    return {**parts, LOG: [seal(b"V", msgpack.packb({**inner, **changes}))]}


PARTS: dict[str, Change] = {
    "a list": lambda parts: list(parts.values()),
    "nothing": lambda _: None,
    "numbers by folder": lambda parts: dict.fromkeys(parts, 7),
    "a number for a version": lambda parts: {**parts, LOG: [7]},
    "bytes for a version": lambda parts: {**parts, LOG: [b"x"]},
    "numbers for folders": lambda parts: {**parts, 3: parts[LOG]},
    "another folder": lambda parts: {**parts, "nowhere": parts[LOG]},
    "a folder above": lambda parts: {**parts, "tables/../main/": parts[LOG]},
    "numbers for segments": lambda parts: part_with(parts, g=[7]),
    "a number for a segment's name": lambda parts: part_with(parts, g=[[7, 1, b"", 1]]),
    "a short name of a segment": lambda parts: part_with(parts, g=[[b"short", 1, b"", 1]]),
}


def verbs(catalog: Catalog) -> dict[str, Callable[[], object]]:
    table = catalog.table("a")
    return {
        "collect": catalog.collect,
        "collect_transactions": catalog.collect_transactions,
        "read": table.read,
        "verify": lambda: table.verify("content"),
        "append": lambda: table.append([{"n": 9}]),
    }


def refused(call: Callable[[], object]) -> str:
    """What it is refused with, if it is."""
    try:
        call()
    except CrdtcatError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("wrong", PARTS)
def test_in_merge_mode(wrong: str) -> None:
    catalog = Catalog("memory://wrong-inside", upkeep=False, grace_seconds=0)
    for name in ("a", "b"):
        catalog.commit(name, [{"n": 1}])
    with catalog.transaction() as tx:
        for name in ("a", "b"):
            tx.append(name, [{"n": 2}])
    (item,) = (item for item in catalog.store.list("transactions/") if item.name.endswith(".v"))
    body = msgpack.unpackb(body_of(bytes(catalog.store.get(item.name))), strict_map_key=False)
    data = seal(b"V", msgpack.packb({**body, "t": PARTS[wrong](body["t"])}))
    name = f"transactions/{decode_version(data, '')[0]}.v"
    catalog.store.delete([item.name])
    catalog.store.put(name, data)
    for verb, call in verbs(Catalog("memory://wrong-inside", upkeep=False, grace_seconds=0)).items():
        error = refused(call)
        if error or verb.startswith("collect"):
            assert digest(data).hex() in error or (not error and "segment" in wrong), (verb, error)


@pytest.mark.parametrize("wrong", ["a list", "nothing", "numbers by folder", "a number for a version"])
def test_in_claims(wrong: str) -> None:
    catalog = Catalog("memory://wrong-claims", upkeep=False, grace_seconds=0)
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode="cas").append([{"n": 1}])
    with catalog.transaction() as tx:
        for name in ("a", "b"):
            tx.append(name, [{"n": 2}])
    name = max(item.name for item in catalog.store.list(LOG) if item.name.endswith(".c"))
    body = msgpack.unpackb(body_of(bytes(catalog.store.get(name))), strict_map_key=False)
    catalog.store.put(name, seal(b"V", msgpack.packb({**body, "t": PARTS[wrong](body["t"])})))
    with pytest.raises(Corrupt, match=name.rpartition("/")[2]):
        Catalog("memory://wrong-claims").table("a").read()


def test_in_decisions() -> None:
    catalog = Catalog("memory://wrong-decisions", upkeep=False, grace_seconds=0)
    for name in ("a", "b"):
        catalog.create_table(name, SCHEMA, mode="cas").append([{"n": 1}])
    with catalog.transaction() as tx:
        for name in ("a", "b"):
            tx.append(name, [{"n": 2}])
    (item,) = (item for item in catalog.store.list("transactions/") if item.name.endswith(".decision"))
    content = unseal_json(bytes(catalog.store.get(item.name)), item.name)
    for folder in ("nowhere", "tables/../main/", ""):
        catalog.store.put(item.name, seal_json({**content, "claims": {folder: 3}}))
        with pytest.raises(Corrupt, match="which is no folder of a log"):
            catalog.collect_transactions()
        for call in verbs(Catalog("memory://wrong-decisions", upkeep=False)).values():
            error = refused(call)
            assert not error or item.name in error
