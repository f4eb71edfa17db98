"""Every public operation, as a small play: what is there before, what is done, what must hold after.

A play is run on a store whose n-th request fails. Whatever happens, what was acknowledged must be there
whole, and what was not must be there whole or not at all.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from crdtcat import Catalog, Table
from crdtcat.store import Store, open_store
from tests.catalog.lakes import objects

SCHEMA: Final = pa.schema([("n", pa.int64()), ("word", pa.string())])
WIDE: Final = SCHEMA.append(pa.field("more", pa.int32()))
"""What the table has: a column more than the rows that are read, for changes of columns."""
OLD: Final = frozenset(range(6))
"""What is in the table before: two inlined commits of three rows."""
NEW: Final = frozenset(range(100, 104))
"""What an operation that writes rows brings."""
KEY: Final = "the-key"
STRICT: Final = {"mode": "cas"}
OPTIONS: Final[dict[str, Any]] = {"upkeep": False, "grace_seconds": 0}
_numbers = itertools.count()


def fresh_url() -> str:
    return f"memory://faults-{next(_numbers)}"


def rows(numbers: frozenset[int]) -> pa.Table:
    ordered = sorted(numbers)
    return pa.table({"n": ordered, "word": [f"word {n}" for n in ordered]}, schema=SCHEMA)


def arrange(store: Store, settings: Mapping[str, Any] | None = None) -> None:
    """The state before: two commits, tags, one of the commits in a bundle, a branch with a commit."""
    for name, data in _arranged(json.dumps(settings or {})).items():
        store.put(name, data)


@cache
def _arranged(settings: str) -> dict[str, bytes]:
    """The objects of that state, made once for each kind of table."""
    store = open_store(fresh_url())
    table = Catalog(store, upkeep=False).create_table("t", WIDE, **json.loads(settings))
    table.append(rows(frozenset(range(3))))
    table.checkpoint()
    table.append(rows(frozenset(range(3, 6))))
    table.tag("before")
    table.tag("another")
    table.branch("side").append(rows(NEW))
    return {name: bytes(store.get(name)) for name in objects(Catalog(store, **OPTIONS))}


Content = frozenset[tuple[int, str]]
"""The rows of a table as a set: their numbers and words."""


def content(numbers: frozenset[int], changed: Mapping[int, str] | None = None) -> Content:
    """The rows with these numbers, some of them with other words than `rows` gives."""
    return frozenset((n, (changed or {}).get(n, f"word {n}")) for n in numbers)


def read_content(store: Store, options: Mapping[str, Any] = OPTIONS) -> Content:
    """The rows, by a catalog that knows nothing yet; none twice."""
    found = Catalog(store, **options).read("t", ["n", "word"])
    numbers = found.column("n").to_pylist()
    assert len(numbers) == len(set(numbers)), f"rows twice: {sorted(numbers)}"
    return frozenset(zip(numbers, found.column("word").to_pylist(), strict=True))


def read(store: Store) -> frozenset[int]:
    """The numbers of the rows, every one checked."""
    found = read_content(store)
    numbers = frozenset(n for n, _ in found)
    assert found == content(numbers)
    return numbers


@dataclass(frozen=True)
class Play:
    """An operation under test.

    Attributes:
        name: for the test's name.
        act: does it, on a catalog of its own.
        after: the rows once it is done.
        changed: the words that they then have, where it is not the ones that `rows` gives.
        settings: of the table it is done to.
        keyed: whether repeating it under the same idempotency key is part of its promise.
        gone: whether the table is not there afterwards.
        extra: further options of its catalogs.
        done: whether it has done what it is for, where that is not told by the rows; must hold once it ended
            well. One that looks at the table again after its commit may do so although the store has failed.
    """

    name: str
    act: Callable[[Catalog], Any]
    after: frozenset[int] = OLD
    changed: Mapping[int, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    keyed: bool = False
    gone: bool = False
    done: Callable[[Catalog], bool] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def options(self) -> dict[str, Any]:
        """Of the catalogs that take part. Without a grace period nobody can tell that a claim is fresh."""
        strict = {"grace_seconds": 60} if self.settings.get("mode") == "cas" else {}
        return {**OPTIONS, **strict, **self.extra}

    @property
    def content(self) -> Content:
        """The rows once it is done."""
        return content(self.after, self.changed)


def _table(catalog: Catalog) -> Table:
    return catalog.table("t")


def _numbers_in(catalog: Catalog, table: str, branch: str = "main") -> frozenset[int]:
    return frozenset(catalog.read(table, branch=branch).column("n").to_pylist())


def _logged(catalog: Catalog, ending: str) -> list[str]:
    return [item.name for item in catalog.store.list("tables/t/main/") if item.name.endswith(ending)]


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


CHANGED: Final = {1: "uno", 4: "quattro"}
"""New words for some of the old rows."""
BY_KEY: Final = {"key": ["n"]}
IN_PARTITIONS: Final = {"partition_by": ["truncate(3, n)"]}


def changed_rows() -> pa.Table:
    """Those rows."""
    return pa.table({"n": list(CHANGED), "word": list(CHANGED.values())}, schema=SCHEMA)


def _update(catalog: Catalog) -> None:
    word = pc.if_else(pc.field("n") == 1, pc.scalar(CHANGED[1]), pc.scalar(CHANGED[4]))
    _table(catalog).update("n = 1 or n = 4", {"word": word}, key=KEY)


def update_rows(catalog: Catalog) -> None:
    """Some old rows get their new words, by their places."""
    words = [CHANGED.get(n, f"word {n}") for n in range(1, 5)]
    _table(catalog).update_rows(1, 5, pa.table({"word": words}), key=KEY)


def _delete(catalog: Catalog) -> None:
    _table(catalog).delete("n < 2", key=KEY)


def _write(catalog: Catalog) -> None:
    """The first row goes, one has another word, one is new in the middle."""
    numbers = [1, 2, 100, 3, 4, 5]
    words = [CHANGED.get(n, f"word {n}") for n in numbers]
    data = pa.table({"n": numbers, "word": words, "more": pa.nulls(6, pa.int32())}, schema=WIDE)
    _table(catalog).write(data, key=KEY)


def _upsert(catalog: Catalog) -> None:
    _table(catalog).upsert(pa.concat_tables([changed_rows(), rows(NEW)]), key=KEY)


DELETED: Final = OLD - {0, 1}
WRITTEN: Final = OLD - {0} | {100}
COLUMN_PLAYS: Final = (
    Play(
        "add-column",
        lambda c: _table(c).add_column("extra", pa.int32()),
        done=lambda c: "extra" in _table(c).schema.names,
    ),
    Play(
        "drop-column",
        lambda c: _table(c).drop_column("more"),
        done=lambda c: "more" not in _table(c).schema.names,
    ),
    Play(
        "rename-column",
        lambda c: _table(c).rename_column("more", "other"),
        done=lambda c: _table(c).schema.names == ["n", "word", "other"],
    ),
    Play(
        "reorder-columns",
        lambda c: _table(c).reorder_columns(["more", "word", "n"]),
        done=lambda c: _table(c).schema.names == ["more", "word", "n"],
    ),
    Play(
        "widen-column",
        lambda c: _table(c).widen_column("more", pa.int64()),
        done=lambda c: _table(c).schema.field("more").type == pa.int64(),
    ),
)
ROW_PLAYS: Final = (
    Play("update", _update, OLD, CHANGED, keyed=True),
    Play("update-rows", update_rows, OLD, CHANGED, keyed=True),
    Play("delete", _delete, DELETED, keyed=True),
    Play("write", _write, WRITTEN, CHANGED, keyed=True),
    Play(
        "overwrite-partition",
        lambda c: _table(c).overwrite(rows(frozenset({4})), where="n >= 3 and n < 6", key=KEY),
        frozenset({0, 1, 2, 4}),
        settings=IN_PARTITIONS,
        keyed=True,
    ),
    Play("upsert", _upsert, OLD | NEW, CHANGED, BY_KEY, keyed=True),
    Play("update-keyed", _update, OLD, CHANGED, BY_KEY, keyed=True),
    Play("delete-keyed", lambda c: _table(c).delete("n < 2", key=KEY), OLD - {0, 1}, {}, BY_KEY, keyed=True),
    Play(
        "delete-keys", lambda c: _table(c).delete(keys=[0, 1], key=KEY), OLD - {0, 1}, {}, BY_KEY, keyed=True
    ),
    Play("write-keyed", _write, WRITTEN, CHANGED, BY_KEY, keyed=True),
    Play("compact-keyed", lambda c: _table(c).compact(), settings=BY_KEY),
)
STRICT_PLAYS: Final = (
    Play("cas-append", lambda c: _table(c).append(rows(NEW), key=KEY), OLD | NEW, {}, STRICT, keyed=True),
    Play("cas-overwrite", lambda c: _table(c).overwrite(rows(NEW), key=KEY), NEW, {}, STRICT, keyed=True),
    Play("cas-update", _update, OLD, CHANGED, STRICT, keyed=True),
    Play("cas-delete", _delete, DELETED, {}, STRICT, keyed=True),
    Play("cas-write", _write, WRITTEN, CHANGED, STRICT, keyed=True),
    Play("cas-compact", lambda c: _table(c).compact(), settings=STRICT),
)
PLAYS: Final = (
    Play("append", lambda c: _table(c).append(rows(NEW), key=KEY), OLD | NEW, keyed=True),
    Play("append-large", _append_large, OLD | NEW, keyed=True),
    Play("overwrite", lambda c: _table(c).overwrite(rows(NEW), key=KEY), NEW, keyed=True),
    Play("stream", _stream, OLD | NEW, keyed=True),
    *COLUMN_PLAYS,
    *ROW_PLAYS,
    *STRICT_PLAYS,
    Play(
        "set-properties",
        lambda c: _table(c).set_properties(owner="me"),
        done=lambda c: _table(c).properties == {"owner": "me"},
    ),
    Play("tag", lambda c: _table(c).tag("new"), done=lambda c: "new" in _table(c).tags()),
    Play(
        "delete-tag",
        lambda c: _table(c).delete_tag("another"),
        done=lambda c: [*_table(c).tags()] == ["before"],
    ),
    Play("restore", lambda c: _table(c).restore(_table(c).history()[0].id), frozenset(range(3))),
    Play("compact", lambda c: _table(c).compact(), done=lambda c: len(_table(c).head().chunks) == 1),
    Play(
        "cluster",
        lambda c: _table(c).compact(cluster_by=["word"]),
        done=lambda c: len(_table(c).head().chunks) == 1,
    ),
    Play("checkpoint", lambda c: _table(c).checkpoint(), done=lambda c: len(_logged(c, ".b")) == 2),
    Play("collect", _collect, done=lambda c: not _logged(c, ".v")),
    Play(
        "branch",
        lambda c: _table(c).branch("other").append(rows(NEW)),
        done=lambda c: _numbers_in(c, "t", "other") == OLD | NEW,
    ),
    Play(
        "commit-to-branch",
        lambda c: c.commit("t", rows(frozenset({7})), branch="side"),
        done=lambda c: _numbers_in(c, "t", "side") == OLD | NEW | {7},
    ),
    Play("merge", lambda c: _table(c).merge("side"), OLD | NEW, keyed=True),
    Play(
        "delete-branch",
        lambda c: _table(c).delete_branch("side"),
        done=lambda c: "side" not in _table(c).branches(),
    ),
    Play("expire", _expire, done=lambda c: len(_table(c).history()) < 2),
    Play("read", lambda c: c.read("t")),
    Play("head", lambda c: _table(c).head()),
    Play("create-table", _create_other, done=lambda c: c.tables() == ["other", "t"]),
    Play("commit-to-new-table", _implicit, done=lambda c: _numbers_in(c, "other") == NEW),
    Play("drop-table", lambda c: c.drop_table("t"), gone=True),
    Play("tables", lambda c: c.tables()),
)
UPKEEP: Final = Play("commit-with-upkeep", _commit_with_upkeep, OLD | NEW)
