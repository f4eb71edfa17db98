"""Operations that look at much or touch several logs, as plays: imports, queries, transactions, exchange."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crdtcat import Catalog
from crdtcat.errors import StoreUnavailable
from crdtcat.verbs.stream import StreamWriter
from tests.faults.operations import (
    BY_KEY,
    CHANGED,
    COLUMN_PLAYS,
    DELETED,
    IN_PARTITIONS,
    KEY,
    NEW,
    OLD,
    OPTIONS,
    STRICT,
    Play,
    changed_rows,
    fresh_url,
    rows,
    update_rows,
)
from tests.faults.transaction_plays import MORE, QUICK, TRANSACTION_PLAYS


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
    except duckdb.Error as error:
        raise _ours(error) from error


def _ours(error: duckdb.Error) -> BaseException:
    """What is raised while DuckDB reads is its own kind, with our text in it."""
    return KeyboardInterrupt() if "KeyboardInterrupt" in str(error) else StoreUnavailable(str(error))


def _looked_at(catalog: Catalog) -> None:
    table = catalog.table("t")
    table.diff("before", None)
    table.stats()
    table.tags()
    table.branches()
    table.conflicts()
    catalog.stats()


def _read_in_every_way(catalog: Catalog) -> None:
    scan = catalog.table("t").scan(["n", "word"], "n > 1")
    _ = scan.explain(), scan.count(), scan.first(2), list(scan.tables())
    _ = scan.to_reader().read_all(), scan.to_pandas(), scan.to_polars()
    assert scan.narrowed(["n"], pc.field("n") > 2).to_table().num_rows == 3
    try:
        scan.to_duckdb().fetchall()
    except duckdb.Error as error:
        raise _ours(error) from error


def _proved(catalog: Catalog) -> None:
    head = catalog.table("t").head()
    proof = catalog.table("t").proof(0, at=head.snapshot)
    assert proof.root_hash == head.root_hash
    assert catalog.verify("t").ok
    assert catalog.settle()


def _lost(catalog: Catalog) -> None:
    """Two who have not seen each other write one cell, of a column that is not among those that are read."""
    stale = Catalog(catalog.store, **OPTIONS).transaction(["t"])
    table = catalog.table("t")
    table.update("n = 0", {"more": 1})
    stale.update("t", "n = 0", {"more": 2})
    stale.commit()
    (lost,) = table.lost_cells() if table.key else table.conflicts()
    assert table.lost_values(lost)["more"].to_pylist() == [1]


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


def _streams_that_come_to_nothing(catalog: Catalog) -> None:
    large = Catalog(catalog.store, **OPTIONS, inline_bytes=0).table("t")
    for end in (StreamWriter.abort, StreamWriter.close):
        stream = large.stream()
        stream.write(rows(NEW))
        end(stream)


def _expire(catalog: Catalog) -> None:
    catalog.table("t").expire(older_than=timedelta(0))


def _and_back(catalog: Catalog) -> None:
    catalog.table("t").switch_mode("merge")


def _strict(play: Play) -> Play:
    """The same, of a table in CAS mode."""
    return replace(play, name=f"cas-{play.name}", settings={**play.settings, **STRICT}, extra=QUICK)


LOOKING_PLAYS: Final = (
    Play("scan-in-every-way", _read_in_every_way),
    Play("proof-verify", _proved),
    Play("lost-values", _lost, extra=QUICK),
    Play("lost-cells", _lost, settings=BY_KEY, extra=QUICK),
    Play("stream-aborted", _streams_that_come_to_nothing),
)
STRICT_PLAYS: Final = (
    *map(_strict, COLUMN_PLAYS),
    Play("cas-update-rows", update_rows, OLD, CHANGED, STRICT, keyed=True),
    Play(
        "cas-overwrite-partition",
        lambda c: c.table("t").overwrite(rows(frozenset({4})), where="n >= 3 and n < 6", key=KEY),
        frozenset({0, 1, 2, 4}),
        settings={**STRICT, **IN_PARTITIONS},
        keyed=True,
    ),
    Play(
        "cas-upsert",
        lambda c: c.table("t").upsert(changed_rows(), key=KEY),
        OLD,
        CHANGED,
        {**STRICT, "key": ["n"]},
        keyed=True,
    ),
    Play(
        "cas-set-properties",
        lambda c: c.table("t").set_properties(owner="me"),
        settings=STRICT,
        done=lambda c: c.table("t").properties == {"owner": "me"},
    ),
    Play(
        "cas-restore",
        lambda c: c.table("t").restore(c.table("t").history()[0].id),
        frozenset(range(3)),
        settings=STRICT,
    ),
    Play("cas-checkpoint", lambda c: c.table("t").checkpoint(), settings=STRICT),
    Play("cas-drop-table", lambda c: c.drop_table("t"), settings=STRICT, gone=True),
    Play("cas-switch-mode", _and_back, settings=STRICT, extra=QUICK),
)
MORE_PLAYS: Final = (
    *LOOKING_PLAYS,
    *STRICT_PLAYS,
    *TRANSACTION_PLAYS,
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
