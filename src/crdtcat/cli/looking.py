"""Commands that read: what is there, how it came to be, and its rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from crdtcat.cli import rows_out
from crdtcat.cli.command import AT, TABLE, WHERE, Command, Given, argument, names
from crdtcat.cli.rows_out import plain, write_rows
from crdtcat.errors import NoSnapshots

GROUP: Final = "look"
OUTPUT: Final = (
    argument("-f", "--format", choices=rows_out.FORMATS, help="text where nothing else is said"),
    argument("-o", "--output", metavar="FILE", help="write there; the format is that of its ending"),
    argument("-n", "--limit", type=int, metavar="ROWS", help="no more rows than so many"),
)


def _show(given: Given, rows: pa.RecordBatchReader) -> None:
    write_rows(rows, given.format, given.output, given.limit)


def _listed(given: Given, columns: Sequence[tuple[str, pa.DataType]], rows: Iterable[Sequence[Any]]) -> None:
    """Facts, as rows."""
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(list(cells), type) for cells, (_, type) in zip(values, columns, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(columns))
    write_rows(table.to_reader(), given.format, given.output, given.limit, whole=True)


_TEXT, _COUNT, _MOMENT = pa.string(), pa.int64(), pa.timestamp("ms", "UTC")


def tables(given: Given) -> None:
    """Names, and what they are."""
    catalog = given.catalog
    found = [catalog.table(name) for name in catalog.tables()]
    columns = [("table", _TEXT), ("mode", _TEXT), ("key", _TEXT), ("partitioned_by", _TEXT)]
    rows = [(one.name, one.mode, ", ".join(one.key), ", ".join(map(str, one.partition_by))) for one in found]
    _listed(given, columns, rows)


def show(given: Given) -> str:
    """A head, its columns and properties."""
    table = given.table
    try:
        head = table.head(given.at)
    except NoSnapshots:
        return f"{table.name}: no commit yet\n\n{table.schema.to_string(show_schema_metadata=False)}"
    lines = [str(head), "", head.schema.to_string(show_schema_metadata=False), ""]
    facts = {
        "mode": table.mode,
        "key": ", ".join(table.key),
        "partitioned by": ", ".join(map(str, table.partition_by)),
        "root hash": head.root_hash,
        "conflicts": str(len(head.conflicts)) if head.conflicts else "",
        "properties": json.dumps(plain(dict(head.properties)), ensure_ascii=False) if head.properties else "",
    }
    return "\n".join([*lines, *(f"{name}: {fact}" for name, fact in facts.items() if fact)])


def history(given: Given) -> None:
    """Commits, the newest last; with a limit, the newest so many."""
    versions = list(given.table.history(given.at))
    if given.limit is not None:
        versions = versions[max(0, len(versions) - given.limit) :]
    columns = [
        ("time", _MOMENT), ("operation", _TEXT), ("added", _COUNT), ("updated", _COUNT), ("deleted", _COUNT),
        ("id", _TEXT), ("metadata", _TEXT), ("stands", pa.bool_()),
    ]  # fmt: skip
    rows = [
        (
            one.time, one.operation, one.rows_added, one.rows_updated, one.rows_deleted, str(one.id),
            json.dumps(plain(dict(one.metadata)), ensure_ascii=False) if one.metadata else None, one.stands,
        )
        for one in versions
    ]  # fmt: skip
    _listed(given, columns, rows)


def read(given: Given) -> None:
    """Rows."""
    _show(given, given.table.scan(names(given.columns) or None, given.where, at=given.at).to_reader())


def count(given: Given) -> str:
    """How many rows."""
    return str(given.table.scan(filter=given.where, at=given.at).count())


def explain(given: Given) -> str:
    """What a read would fetch."""
    return str(given.table.scan(names(given.columns) or None, given.where, at=given.at).explain())


def sql(given: Given) -> None:
    """The answer to a question."""
    answer = given.catalog.sql(given.query, at=given.at)
    if answer is not None:  # DuckDB answers some statements with nothing
        _show(given, pa.RecordBatchReader.from_stream(answer))


def changes(given: Given) -> None:
    """Rows inserted, updated and deleted."""
    feed = given.table.changes(given.since, given.until)
    _show(given, feed.to_reader())
    if not given.quiet:
        print(f"to go on from here: {feed.new}", file=sys.stderr)


def diff(given: Given) -> object:
    """Chunks that differ."""
    return given.table.diff(given.a, given.b)


def conflicts(given: Given) -> None:
    """What lost, to whom."""
    found = given.table.conflicts(given.at)
    columns = [
        ("kind", _TEXT),
        ("subject", _TEXT),
        ("rows", _COUNT),
        ("winner", _TEXT),
        ("loser", _TEXT),
        ("message", _TEXT),
    ]
    rows = [
        (
            one.kind, one.subject, sum(stop - start for _, _, start, stop in one.rows),
            str(one.winner or ""), str(one.loser), one.message,
        )
        for one in found
    ]  # fmt: skip
    _listed(given, columns, rows)


def refs(given: Given) -> None:
    """Tags and branches."""
    table = given.table
    rows = [("tag", name, str(snapshot)) for name, snapshot in table.tags().items()]
    rows += [("branch", name, str(branch.snapshot)) for name, branch in table.branches().items()]
    _listed(given, [("kind", _TEXT), ("name", _TEXT), ("snapshot", _TEXT)], rows)


def stats(given: Given) -> object:
    """What is stored, and what upkeep would gain."""
    return given.table.stats() if given.arguments.table else given.catalog.stats()


_COLUMNS: Final = argument("-s", "--columns", metavar="A,B", help="only these columns")
_SOME_TABLE: Final = argument("table", nargs="?", help="a table, or TABLE@BRANCH; all tables")

COMMANDS: Final = (
    Command("tables", GROUP, "the tables of a catalog", tables, OUTPUT),
    Command("show", GROUP, "what a table is: snapshot, columns, properties", show, (TABLE, AT)),
    Command("history", GROUP, "the commits of a table, in order", history, (TABLE, AT, *OUTPUT)),
    Command("read", GROUP, "rows of a table", read, (TABLE, _COLUMNS, WHERE, AT, *OUTPUT)),
    Command(
        "count", GROUP, "how many rows, without reading them where statistics tell", count, (TABLE, WHERE, AT)
    ),
    Command("explain", GROUP, "what a read would fetch, and why", explain, (TABLE, _COLUMNS, WHERE, AT)),
    Command(
        "sql",
        GROUP,
        "the answer to a question over all tables (needs crdtcat[sql])",
        sql,
        (argument("query", help="SQL, as DuckDB speaks it"), AT, *OUTPUT),
    ),
    Command(
        "changes",
        GROUP,
        "rows inserted, updated and deleted between two snapshots",
        changes,
        (
            TABLE,
            argument("since", nargs="?", help="where to start; before the first commit"),
            argument("until", nargs="?", help="where to end; now"),
            *OUTPUT,
        ),
    ),
    Command(
        "diff",
        GROUP,
        "chunks that differ between two snapshots",
        diff,
        (TABLE, argument("a", help="the one snapshot"), argument("b", nargs="?", help="the other; now")),
    ),
    Command(
        "conflicts", GROUP, "what lost to concurrent writes, and to whose", conflicts, (TABLE, AT, *OUTPUT)
    ),
    Command("refs", GROUP, "tags and branches of a table", refs, (TABLE, *OUTPUT)),
    Command("stats", GROUP, "bytes, sharing, and what upkeep would gain", stats, (_SOME_TABLE,)),
)  # fmt: skip
