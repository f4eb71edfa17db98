"""Everything a reader does with metadata files, end to end, without a catalog around it."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from crdtcat import Catalog, Table
from crdtcat.chunks.footer_cache import FooterCache
from crdtcat.errors import CrdtcatError
from crdtcat.format.frame import digest
from crdtcat.format.settings import Settings
from crdtcat.format.version import unpack
from crdtcat.head import Head
from crdtcat.log import State
from crdtcat.protocol import bundle_name
from crdtcat.scan import Scan
from crdtcat.store.memory import MemoryStore
from tests.format.mutate import body_of

FOLDER = "tables/t/main/"
OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 0}


def at(second: int) -> datetime:
    return datetime(2024, 1, 1, 0, 0, second, tzinfo=UTC)


Built = tuple[MemoryStore, list[tuple[str, bytes]], list[tuple[str, bytes]]]


def build() -> Built:
    """A store with segments, version files of every kind, and a bundle of all of them."""
    store = MemoryStore(f"memory://format-{secrets.token_hex(6)}")
    catalog = Catalog(store, **OPTIONS)
    schema = pa.schema([("n", pa.int64()), ("word", pa.string()), ("when", pa.timestamp("us", "UTC"))])
    table = catalog.create_table("t", schema, partition_by=["word"])
    first = table.append(
        [{"n": 1, "word": "a", "when": at(0)}, {"n": 2, "word": "b", "when": at(1)}], key="k"
    )
    table.add_column("x", pa.float32())
    table.set_properties(owner="me", limits=[1, 2, {"a": None}])
    table.append([{"n": 3, "word": "a", "when": None, "x": 0.5}], metadata={"by": ["you", 1.5]})
    large = Catalog(store, **OPTIONS, inline_bytes=0).table("t")
    large.append([{"n": 4, "word": "c", "when": at(2), "x": None}])
    table.overwrite([{"n": 5, "word": "a", "when": at(3), "x": 1.0}], where="word = 'a'")
    table.rename_column("x", "y")
    table.restore(first.id)
    table.drop_column("when")
    _change_rows(table)
    return _built(store, table)


def build_keyed() -> Built:
    """The same of a table with a key."""
    store = MemoryStore(f"memory://format-{secrets.token_hex(6)}")
    catalog = Catalog(store, **OPTIONS)
    schema = pa.schema([("n", pa.int64()), ("word", pa.string())])
    table = catalog.create_table("t", schema, key=["n"])
    large = Catalog(store, **OPTIONS, inline_bytes=0).table("t")
    table.upsert([{"n": at, "word": "a"} for at in range(6)])
    large.upsert([{"n": 2, "word": "b"}, {"n": 7, "word": "c"}])
    table.delete(keys=[{"n": 1}])
    table.compact()
    table.upsert([{"n": 3, "word": "d"}])
    return _built(store, table)


def _change_rows(table: Table) -> None:
    """Every change of rows, half of them below a compaction and half above it."""
    table.append([{"n": at, "word": "d"} for at in range(10, 18)])
    for number in (10, 12):
        table.update(f"n >= {number} and n < {number + 3}", {"n": number})
        table.delete(f"n = {number + 4}")
        if number == 10:
            table.compact()
    shown = table.read()
    table.write(pa.concat_tables([shown.slice(2), pa.table({"n": [99], "word": ["e"]}), shown.slice(0, 1)]))


def _built(store: MemoryStore, table: Table) -> Built:
    versions = [(item.name, bytes(store.get(item.name))) for item in store.list(FOLDER)]
    table.checkpoint()
    bundles = [(i.name, bytes(store.get(i.name))) for i in store.list(FOLDER) if i.name.endswith(".b")]
    return store, versions, bundles


def renamed(name: str, data: bytes) -> str:
    """The name a broken file would have if its writer had named it by its content."""
    if name.endswith(".b"):
        return bundle_name(FOLDER, 1, digest(data))
    try:
        body = unpack(body_of(data), name)
        h, w, s = body["h"], body["w"], body["s"]
        return f"{FOLDER}{h:016x}-{w:016x}-{s:08x}-{digest(data).hex()}.v"
    except (CrdtcatError, KeyError, TypeError, ValueError):
        return name


def consume(store: MemoryStore, files: list[tuple[str, bytes]], settings: Settings) -> CrdtcatError | None:
    """Join, fold, plan, filter, read. What it was refused with: errors of ours only."""
    try:
        state = State(FOLDER).joined(files)
        state.gaps()
        head = Head("t", state.log, settings)
        _look(head)
        for filter in (None, "n > 2", "word = 'a'"):
            if filter is not None and not {"n", "word"} <= set(head.schema.names):
                continue
            scan = Scan(head, store, columns=None, filter=filter, verify=True, footers=FooterCache())
            scan.explain()
            scan.to_table()
            scan.count()
    except CrdtcatError as error:
        return error
    return None


def _look(head: Head) -> None:
    repr(head)
    str(head.snapshot)
    head.properties, head.conflicts, head.root_hash, head.commits  # noqa: B018
    for version in head.history:
        str(version)
        version.metadata, version.time_range, version.key  # noqa: B018
    list(head.chunks)
