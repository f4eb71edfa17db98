"""A chunk that lies in several places is read from one where it is whole, whatever became of the others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import Corrupt
from tests.catalog.lakes import another, lake, objects

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string())])


def in_two_places(*, changed: bool) -> tuple[Catalog, list[str], list[dict[str, Any]]]:
    """A table that two bundlers tended at once: each stored all rows in a segment of its own."""
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    for number in range(4):
        table.append([{"id": 10 * number + at, "v": f"{number}"} for at in range(10)])
    if changed:
        table.update("id % 3 = 0", {"v": "new"})
    other = another(catalog).table("t")
    arrive = bundle_held_back(other)
    table.checkpoint()
    arrive()
    segments = [name for name in objects(catalog) if name.startswith("data/")]
    assert len(segments) == (4 if changed else 2)
    return catalog, segments, table.read().to_pylist()


def bundle_held_back(table: Table) -> Any:
    """Checkpoint, but keep the bundle back until the function returned is called."""
    table.head()
    store = table._session.store
    kept: list[tuple[str, bytes]] = []
    real = store.put

    def put(name: str, data: Any) -> None:
        if name.endswith(".b"):
            kept.append((name, bytes(data)))
        else:
            real(name, data)

    store.put = put  # type: ignore[method-assign]
    try:
        table.checkpoint()
    finally:
        store.put = real  # type: ignore[method-assign]
    return lambda: [real(name, data) for name, data in kept]


def rows(catalog: Catalog) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = another(catalog).table("t").read().to_pylist()
    return found


@pytest.mark.parametrize("changed", [False, True])
def test_damage_in_one_of_them_is_passed_over(changed: bool) -> None:
    """Damage to any chunk, the first or a later one of those that are read together, or to the footer."""
    catalog, segments, expected = in_two_places(changed=changed)
    for name in segments:
        data = bytes(catalog.store.get(name))
        for at in range(0, len(data), 37):
            catalog.store.put(name, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
            assert rows(catalog) == expected
        catalog.store.delete([name])
        assert rows(catalog) == expected
        catalog.store.put(name, data)


@pytest.mark.parametrize("changed", [False, True])
def test_damage_in_all_of_them_is_told(changed: bool) -> None:
    catalog, segments, expected = in_two_places(changed=changed)
    held = {name: bytes(catalog.store.get(name)) for name in segments}
    for name, data in held.items():
        catalog.store.put(name, data[:10] + bytes([data[10] ^ 1]) + data[11:])
    with pytest.raises(Corrupt, match=r"data/.*\.parquet"):
        rows(catalog)
    for name, data in held.items():
        catalog.store.put(name, data)
    assert rows(catalog) == expected
