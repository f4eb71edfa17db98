"""Operations that look at much or touch several logs, as plays: imports, queries, transactions, exchange."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from crdtcat import Catalog
from crdtcat.errors import StoreUnavailable
from tests.faults.operations import (
    DELETED,
    KEY,
    NEW,
    OLD,
    STRICT,
    Play,
    fresh_url,
    rows,
)

MORE: Final = frozenset({7, 8})
QUICK: Final = {"max_commit_delay_seconds": 0, "lease_seconds": 0.01}


@cache
def _folder() -> str:
    """A folder of Parquet files, on a disk that does not fail."""
    folder = tempfile.mkdtemp(prefix="crdtcat-plays-")
    for number in sorted(NEW):
        pq.write_table(rows(frozenset({number})), Path(folder) / f"{number}.parquet")
    return folder


def _append_evolving(catalog: Catalog) -> None:
    wide = rows(NEW).append_column("late", pa.nulls(len(NEW), pa.int64()))
    catalog.table("t").append(wide, evolve=True, key=KEY)


def _queried(catalog: Catalog) -> None:
    try:
        catalog.sql("select count(*), max(word) from t where n > 1").fetchall()
    except duckdb.Error as error:  # what is raised while DuckDB reads is its own kind, with our text in it
        if "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from error
        raise StoreUnavailable(str(error)) from error


def _looked_at(catalog: Catalog) -> None:
    table = catalog.table("t")
    table.diff("before", None)
    table.stats()
    table.tags()
    table.branches()
    table.conflicts()
    catalog.stats()


def _changes(catalog: Catalog) -> None:
    catalog.table("t").changes(None).to_table()


def _transaction(catalog: Catalog) -> None:
    with catalog.transaction() as changes:
        changes.delete("t", "n < 2")
        changes.append("t", rows(MORE))


def _sync(catalog: Catalog) -> None:
    catalog.sync(fresh_url())


def _switch(catalog: Catalog) -> None:
    catalog.table("t").switch_mode("cas")


def _stream(catalog: Catalog) -> None:
    with catalog.table("t").stream(key=KEY) as stream:
        stream.write(rows(NEW))


def _expire(catalog: Catalog) -> None:
    catalog.table("t").expire(older_than=timedelta(0))


MORE_PLAYS: Final = (
    Play("import-parquet", lambda c: c.import_parquet("t", _folder()), OLD | NEW, keyed=True),
    Play("append-evolving", _append_evolving, OLD | NEW, keyed=True),
    Play("changes", _changes),
    Play("sql", _queried),
    Play("diff-stats-tags-branches", _looked_at),
    Play("verify", lambda c: c.table("t").verify("content")),
    Play("collect-catalog", lambda c: c.collect()),
    Play("sync", _sync),
    Play("transaction", _transaction, DELETED | MORE, extra=QUICK),
    Play("switch-mode", _switch, extra={**QUICK, "grace_seconds": 60}),
    Play("cas-stream", _stream, OLD | NEW, {}, STRICT, keyed=True),
    Play("cas-merge", lambda c: c.table("t").merge("side"), OLD | NEW, {}, STRICT, keyed=True, extra=QUICK),
    Play("cas-expire", _expire, settings=STRICT, extra=QUICK),
    Play("cas-transaction", _transaction, DELETED | MORE, {}, STRICT, extra=QUICK),
)
