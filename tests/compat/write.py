"""Writes the catalogs that every later release must be able to read: `python -m tests.compat.write`.

Run once for each release, before it is published; never again for one that was. It makes
`tests/compat/data/<version>/catalog/` with files of every kind that whole commits leave, the same in
`<version>-changes/` for changes of rows, keys, branches, expiry, claims and transactions, in
`<version>-types/` for columns of every type, in `<version>-upkeep/` for what expiry and collection leave, in
`<version>-carrying/` for claims that carry others, and in each an `expected.json` with what must be read from
them.
A folder that is there already is never touched.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from crdtcat import Catalog, Table, __version__
from tests.compat.carrying import write_carrying
from tests.compat.changes import write_changes
from tests.compat.every_type import write_types
from tests.compat.upkeep import write_upkeep

DATA = Path(__file__).parent / "data"
OPTIONS: dict[str, Any] = {"upkeep": False, "grace_seconds": 0}
EVENTS = pa.schema([("id", pa.int64()), ("kind", pa.string()), ("at", pa.timestamp("us", "UTC"))])
TYPES = pa.schema(
    [
        ("flag", pa.bool_()),
        ("small", pa.int8()),
        ("big", pa.uint64()),
        ("real", pa.float32()),
        ("price", pa.decimal128(12, 2)),
        ("text", pa.large_string()),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("naive", pa.timestamp("ns")),
        ("word", pa.dictionary(pa.int32(), pa.string())),
        ("list", pa.list_(pa.int32())),
        ("record", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("pairs", pa.map_(pa.string(), pa.float64())),
        ("nothing", pa.null()),
    ]
)


def event(number: int, kind: str) -> dict[str, Any]:
    return {"id": number, "kind": kind, "at": datetime(2024, 5, 1, 12, number % 60, tzinfo=UTC)}


def one_of_each() -> pa.Table:
    full = {
        "flag": True,
        "small": -7,
        "big": 2**64 - 1,
        "real": 0.5,
        "price": Decimal("12.34"),
        "text": "täxt",
        "raw": b"\x00\xff",
        "day": date(2024, 2, 29),
        "naive": datetime(2024, 2, 29, 1, 2, 3),  # noqa: DTZ001 (without a zone, on purpose)
        "word": "w",
        "list": [1, None, 3],
        "record": {"a": 1, "b": None},
        "pairs": [("x", 1.5)],
        "nothing": None,
    }
    return pa.Table.from_pylist([full, dict.fromkeys(full)], schema=TYPES)


def write(root: Path) -> None:
    """Every kind of version, inlined rows and segments, bundles that cover some of it, tags."""
    catalog = Catalog(str(root), **OPTIONS)
    events = catalog.create_table("events", EVENTS, partition_by=["kind"], time_column="at")
    first = events.append([event(1, "a"), event(2, "b")], metadata={"source": "test", "n": [1, 2.5, None]})
    events.append([event(3, "a")], key="batch-1")
    Catalog(str(root), **OPTIONS).table("events").append([event(3, "a")], key="batch-1")  # a retry: void
    large = Catalog(str(root), **OPTIONS, inline_bytes=0, chunk_rows=2).table("events")
    large.append([event(number, "c") for number in range(10, 15)])
    events.tag("early")
    events.checkpoint()
    events.collect()
    events.add_column("score", pa.int32())
    events.append([{**event(20, "b"), "score": 5}])
    events.widen_column("score", pa.int64())
    events.rename_column("score", "points")
    events.overwrite([{**event(30, "a"), "points": 2**40}], where="kind = 'a'")
    events.set_properties(owner="compat", retention={"days": 7})
    events.checkpoint()
    events.tag("late")
    _concurrently(root)
    events.drop_column("points")
    events.restore(first.id, metadata={"why": "undo"})
    events.append([event(40, "d")])
    types = catalog.create_table("types", TYPES)
    types.append(one_of_each())
    Catalog(str(root), **OPTIONS, inline_bytes=0).table("types").append(one_of_each())
    types.reorder_columns(["text", "flag"])
    catalog.create_table("empty", EVENTS)
    catalog.create_table("again", EVENTS).append([event(1, "a")])
    catalog.drop_table("again")
    catalog.create_table("again").append([{"x": 1}])


def _concurrently(root: Path) -> None:
    """Two writers that have not seen each other's overwrite: one of them loses, and is listed."""
    catalogs = [Catalog(str(root), **OPTIONS) for _ in range(2)]
    folder = root / "tables" / "events" / "main"
    for number, catalog in enumerate(catalogs, start=50):
        table = catalog.table("events")
        table.overwrite([{**event(number, "e"), "points": None}], where="kind = 'e'")
        if number == 50:  # out of sight while the other one looks
            hidden = max(folder.glob("*.v"))
            hidden.rename(root / hidden.name)
    (root / hidden.name).rename(hidden)


def expected(catalog: Catalog) -> dict[str, Any]:
    """What a reader must find, as JSON."""
    return {name: _table(catalog, name) for name in catalog.tables()}


def _table(catalog: Catalog, name: str) -> dict[str, Any]:
    table = catalog.table(name)
    found: dict[str, Any] = {
        "rows": _plain(table.read().to_pylist()),
        "schema": [f"{field.name}: {field.type}" for field in table.schema],
        "partition_by": list(table.partition_by),
        "properties": dict(table.properties),
        "conflicts": [
            [each.kind, each.subject, str(each.winner), str(each.loser)] for each in table.conflicts()
        ],
        "history": [
            [str(each.id), each.operation, each.rows, dict(each.metadata), each.key]
            for each in table.history()
        ],
        "tags": {
            tag: [str(snapshot), _plain(table.read(at=tag).to_pylist())]
            for tag, snapshot in table.tags().items()
        },
    }
    if branches := table.branches():
        found["branches"] = {
            branch: _plain(catalog.table(name, branch).read().to_pylist()) for branch in branches
        }
    if orders := {field.name: _order(table, field.name) for field in table.schema if _is_ordered(field.type)}:
        found["orders"] = orders
    if found["history"]:
        head = table.head()
        found |= {"snapshot": str(head.snapshot), "root_hash": head.root_hash, "void": len(head.void)}
    return found


def _is_ordered(t: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(t) and t.ordered)


def _order(table: Table, column: str) -> Any:
    """The entries of an ordered dictionary."""
    return _plain(table.read(columns=[column]).column(column).combine_chunks().dictionary.to_pylist())


def _plain(value: Any) -> Any:
    """Values as JSON shows them."""
    return json.loads(json.dumps(value, default=str))


def main() -> None:
    makers = {
        "": write,
        "-carrying": write_carrying,
        "-changes": write_changes,
        "-types": write_types,
        "-upkeep": write_upkeep,
    }
    for suffix, make in makers.items():
        folder = DATA / f"{__version__}{suffix}"
        if not folder.exists():  # what a release wrote is never written again
            _keep(folder, make)


def _keep(folder: Path, make: Callable[[Path], None]) -> None:
    try:
        make(folder / "catalog")
        with TemporaryDirectory() as copy:  # whoever reads may end what somebody else had begun
            shutil.copytree(folder / "catalog", Path(copy) / "catalog")
            content = expected(Catalog(str(Path(copy) / "catalog"), upkeep=False))
        text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
        (folder / "expected.json").write_text(text + "\n")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


if __name__ == "__main__":
    main()
