"""What upkeep lists follows what is new, not what waits for its grace period to end; what it bundles does so,
however large commits are."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.maintenance.bundling import FilesPlan
from crdtcat.maintenance.upkeep import bundle_blocks
from crdtcat.protocol import is_claim, is_version, version_name
from crdtcat.store import ObjectInfo

EVERY = 4
SCHEMA = pa.schema([("n", pa.int64())])


class Listings:
    """The names of each whole listing of a log that a catalog asks for."""

    def __init__(self, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[list[str]] = []
        original = catalog.store.list

        def listed(prefix: str, after: str = "") -> Iterator[ObjectInfo]:
            found = list(original(prefix, after))
            self.seen.append([item.name for item in found])
            return iter(found)

        monkeypatch.setattr(catalog.store, "list", listed)


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_a_block_is_listed_from_where_the_last_one_ended(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog(f"memory://upkeep-lists-{mode}", upkeep="synchronous", bundle_every=EVERY)
    table = catalog.create_table("t", SCHEMA, mode=mode)
    listings = Listings(catalog, monkeypatch)
    passes: list[tuple[int, list[list[str]]]] = []  # after how many commits, and what was listed
    commits = 300
    for n in range(commits):
        table.append(pa.table({"n": [n]}))
        if listings.seen:
            passes.append((n + 1, listings.seen))
            listings.seen = []
    is_commit = is_claim if mode == "cas" else is_version
    short = 0
    for (before, _), (after, (block, *more)) in pairwise(passes):
        if not more:  # it does not collect
            short += 1
            assert sum(map(is_commit, block)) == after - before
    assert short > 20
    everything = [listed[0] for at, listed in passes if len(listed) > 1]
    assert any(sum(map(is_commit, names)) > commits / 3 for names in everything)  # nothing was collected yet
    assert table.scan().count() == commits


def test_what_was_left_behind_is_found_by_the_pass_that_sees_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "memory://upkeep-left-behind"
    late = Catalog(url, upkeep=False).create_table("t", SCHEMA).append(pa.table({"n": [1000]}))
    time.sleep(0.002)  # of one millisecond it might lie above the first of the others
    catalog = Catalog(url, upkeep="synchronous", bundle_every=EVERY)
    table, store = catalog.table("t"), catalog.store
    name = version_name(table._session.folder, late.id)
    file = bytes(store.get(name))
    store.delete([name])
    monkeypatch.setattr(sys.modules[bundle_blocks.__module__], "ABANDONED_MS", -1)
    for n in range(40):
        table.append(pa.table({"n": [n]}))
    store.put(name, file)  # below every block, and below where this handle begins to list
    for n in range(200):
        table.append(pa.table({"n": [n]}))
    store.delete([item.name for item in store.list(table._session.folder) if is_version(item.name)])
    assert 1000 in Catalog(url).read("t")["n"].to_pylist()  # a bundle has it


@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_large_commits_are_bundled_as_small_ones_are(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer of them are in memory at once, as here one, and none waits for ever."""
    url, at_once = f"memory://upkeep-of-large-commits-{mode}", 4000
    upkeep = sys.modules[bundle_blocks.__module__]
    monkeypatch.setattr(upkeep, "INLINE_BYTES_AT_ONCE", at_once)
    read: list[int] = []
    plan = upkeep.block_plan

    def counted(folder: str, listed: Any, block: Sequence[str], summaries: Any) -> FilesPlan:
        read.append(sum(len(bytes(catalog.store.get(name))) for name in block))
        made: FilesPlan = plan(folder, listed, block, summaries)
        return made

    monkeypatch.setattr(upkeep, "block_plan", counted)
    catalog = Catalog(url, upkeep="synchronous", bundle_every=8)
    table = catalog.create_table("t", mode=mode)
    for n in range(200):
        table.append([{"n": n, "s": secrets.token_bytes(2000)}])
    assert read
    assert max(read) <= at_once
    folder = table._session.folder
    waiting = [
        one for one in catalog.store.list(folder) if (is_claim if mode == "cas" else is_version)(one.name)
    ]
    session = Catalog(url, upkeep=False).table("t")._session
    session.refresh()
    bundled = sum(
        len(session.state.read((name, catalog.store.get(name))).log)
        for name in session.state.bundles - session.state.replaced
    )
    assert len(session.state.log) == len(waiting) == 200
    assert bundled > 100  # all up to the last block
    assert len(session.state.bundles - session.state.replaced) < 12
    assert sorted(Catalog(url).read("t", ["n"])["n"].to_pylist()) == list(range(200))
