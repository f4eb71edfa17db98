"""Every public operation, as a small play: what is there before, what is done, what must hold after.

A play is run on a store whose n-th request fails. Whatever happens, what was acknowledged must be there
whole, and what was not must be there whole or not at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from crdtcat import Catalog, Table
from crdtcat.store import Store

SCHEMA: Final = pa.schema([("n", pa.int64()), ("word", pa.string())])
OLD: Final = frozenset(range(6))
"""What is in the table before: two inlined commits of three rows."""
NEW: Final = frozenset(range(100, 104))
"""What an operation that writes rows brings."""
KEY: Final = "the-key"
OPTIONS: Final[dict[str, Any]] = {"upkeep": False, "grace_seconds": 0}
_numbers = itertools.count()


def fresh_url() -> str:
    return f"memory://faults-{next(_numbers)}"


def rows(numbers: frozenset[int]) -> pa.Table:
    ordered = sorted(numbers)
    return pa.table({"n": ordered, "word": [f"word {n}" for n in ordered]}, schema=SCHEMA)


def arrange(store: Store) -> None:
    """The state before: two commits, a tag, one of the commits in a bundle, a branch with a commit."""
    table = Catalog(store, **OPTIONS).create_table("t", SCHEMA)
    table.append(rows(frozenset(range(3))))
    table.checkpoint()
    table.append(rows(frozenset(range(3, 6))))
    table.tag("before")
    table.branch("side").append(rows(NEW))


def read(store: Store) -> frozenset[int]:
    """The rows, by a catalog that knows nothing yet; every one checked, none twice."""
    found = Catalog(store, **OPTIONS).read("t", ["n", "word"])
    numbers = found.column("n").to_pylist()
    assert len(numbers) == len(set(numbers)), f"rows twice: {sorted(numbers)}"
    assert found.column("word").to_pylist() == [f"word {n}" for n in numbers]
    return frozenset(numbers)


@dataclass(frozen=True)
class Play:
    """An operation under test.

    Attributes:
        name: for the test's name.
        act: does it, on a catalog of its own.
        after: the rows once it is done.
        keyed: whether repeating it under the same idempotency key is part of its promise.
        gone: whether the table is not there afterwards.
        done: for one that looks at the table again after its commit, whether that is there: if so, it may end
            well although the store has failed.
    """

    name: str
    act: Callable[[Catalog], Any]
    after: frozenset[int] = OLD
    keyed: bool = False
    gone: bool = False
    done: Callable[[Catalog], bool] | None = None

    def __str__(self) -> str:
        return self.name


def _table(catalog: Catalog) -> Table:
    return catalog.table("t")


def _append_large(catalog: Catalog) -> None:
    large = Catalog(catalog.store, **OPTIONS, inline_bytes=0)
    large.table("t").append(rows(NEW), key=KEY)


def _stream(catalog: Catalog) -> None:
    large = Catalog(catalog.store, **OPTIONS, inline_bytes=0)
    with large.table("t").stream(key=KEY) as stream:
        for n in sorted(NEW):
            stream.write(rows(frozenset({n})))


def _collect(catalog: Catalog) -> None:
    _table(catalog).checkpoint()
    _table(catalog).collect()


def _expire(catalog: Catalog) -> None:
    quick = Catalog(catalog.store, **OPTIONS, max_commit_delay_seconds=0)
    quick.table("t").expire(older_than=timedelta(0))


def _commit_with_upkeep(catalog: Catalog) -> None:
    """Commits until one has bundled and collected as well."""
    busy = Catalog(catalog.store, upkeep="synchronous", bundle_every=2, grace_seconds=0)
    for n in sorted(NEW):
        busy.table("t").append(rows(frozenset({n})), key=f"{KEY}-{n}")


def _create_other(catalog: Catalog) -> None:
    catalog.create_table("other", SCHEMA)


def _implicit(catalog: Catalog) -> None:
    catalog.commit("other", rows(NEW))


PLAYS: Final = (
    Play("append", lambda c: _table(c).append(rows(NEW), key=KEY), OLD | NEW, keyed=True),
    Play("append-large", _append_large, OLD | NEW, keyed=True),
    Play("overwrite", lambda c: _table(c).overwrite(rows(NEW), key=KEY), NEW, keyed=True),
    Play("stream", _stream, OLD | NEW, keyed=True),
    Play(
        "add-column",
        lambda c: _table(c).add_column("more", pa.int32()),
        done=lambda c: "more" in _table(c).schema.names,
    ),
    Play("set-properties", lambda c: _table(c).set_properties(owner="me")),
    Play("tag", lambda c: _table(c).tag("new")),
    Play("restore", lambda c: _table(c).restore(_table(c).history()[0].id), frozenset(range(3))),
    Play("compact", lambda c: _table(c).compact()),
    Play("cluster", lambda c: _table(c).compact(cluster_by=["word"])),
    Play("checkpoint", lambda c: _table(c).checkpoint()),
    Play("collect", _collect),
    Play("branch", lambda c: _table(c).branch("other").append(rows(NEW))),
    Play("commit-to-branch", lambda c: c.commit("t", rows(frozenset({7})), branch="side")),
    Play("merge", lambda c: _table(c).merge("side"), OLD | NEW, keyed=True),
    Play("delete-branch", lambda c: _table(c).delete_branch("side")),
    Play("expire", _expire),
    Play("read", lambda c: c.read("t")),
    Play("head", lambda c: _table(c).head()),
    Play("create-table", _create_other),
    Play("commit-to-new-table", _implicit),
    Play("drop-table", lambda c: c.drop_table("t"), gone=True),
    Play("tables", lambda c: c.tables()),
)
UPKEEP: Final = Play("commit-with-upkeep", _commit_with_upkeep, OLD | NEW)
