"""Commands that commit: tables, columns, rows from files, tags and branches."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa

from crdtcat.cli import rows_in
from crdtcat.cli.command import AT, KEY, METADATA, TABLE, WHERE, Command, Given, argument, names, pairs
from crdtcat.errors import InvalidArgument, NotFound
from crdtcat.support.showing import shown
from crdtcat.table import Table

GROUP: Final = "change"
_PARTS: Final = re.compile(r"(decimal|decimal256|timestamp)[\[(]\s*([^\])]+?)\s*[\])]")


def create(given: Given) -> object:
    """A new table."""
    schema = None
    if given.like:
        schema = rows_in.read_rows([given.like], None, None).schema
    if given.column:
        fields = pairs(given.column, "--column")
        schema = pa.schema([*(schema or ()), *((name, column_type(text)) for name, text in fields.items())])
    return given.catalog.create_table(
        given.arguments.table, schema, mode=given.mode, key=names(given.keys),
        partition_by=names(given.partition_by), time_column=given.time_column, exist_ok=given.exist_ok,
    )  # fmt: skip


def column_type(text: str) -> pa.DataType:
    """Arrow's names: `int64`, `string`, `date32`, `timestamp[us]`, `timestamp[us, UTC]`, `decimal(10, 2)`."""
    try:
        if match := _PARTS.fullmatch(text.strip()):
            kind, (first, *more) = match[1], [part.strip() for part in match[2].split(",")]
            if kind == "timestamp":
                return pa.timestamp(first, more[0].removeprefix("tz=") if more else None)
            make = pa.decimal128 if kind == "decimal" else pa.decimal256
            return make(int(first), int(more[0]) if more else 0)
        return pa.type_for_alias(text.strip())
    except (ValueError, TypeError):
        raise InvalidArgument(
            f"no type is called {shown(text)}: Arrow's names, such as int64, float64, string, bool, date32, "
            "timestamp[us], timestamp[us, UTC], decimal(10, 2); for nested ones pass --like FILE"
        ) from None


def drop(given: Given) -> str:
    """Drop a table, if it was said twice."""
    if not given.yes:
        raise InvalidArgument(f"this drops {given.arguments.table!r} for everybody: say --yes")
    given.catalog.drop_table(given.arguments.table)
    return f"dropped {given.arguments.table}"


def append(given: Given) -> object:
    """Rows of files; a table that is not there is made of them."""
    name, _, branch = given.arguments.table.partition("@")
    try:
        known = given.table.schema
    except NotFound:
        if branch:
            raise
        known = None
    rows = rows_in.read_rows(given.files, given.input_format, known)
    return given.catalog.commit(
        name, rows, branch=branch or "main", metadata=given.metadata, key=given.key, evolve=given.evolve
    )


def upsert(given: Given) -> object:
    """Rows of files, by key."""
    table = given.table
    return table.upsert(_rows(given, table), metadata=given.metadata, key=given.key, evolve=given.evolve)


def overwrite(given: Given) -> object:
    """Rows of files instead of the table's, or of some partitions'."""
    table = given.table
    return table.overwrite(
        _rows(given, table), where=given.where, metadata=given.metadata, key=given.key, evolve=given.evolve
    )


def write(given: Given) -> object:
    """The table becomes the rows of the files; only what differs is stored."""
    table = given.table
    return table.write(
        _rows(given, table), on=names(given.on) or None, metadata=given.metadata, key=given.key
    )


def _rows(given: Given, table: Table) -> pa.RecordBatchReader:
    return rows_in.read_rows(given.files, given.input_format, table.schema)


def delete(given: Given) -> object:
    """Rows that match."""
    return given.table.delete(given.where, metadata=given.metadata, key=given.key)


def update(given: Given) -> object:
    """New values for rows that match."""
    values = {name: _constant(text) for name, text in pairs(given.set, "--set").items()}
    return given.table.update(given.where, values, metadata=given.metadata, key=given.key)


def _constant(text: str) -> Any:
    """JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def bring(given: Given) -> object:
    """A folder of Parquet files."""
    name, _, branch = given.arguments.table.partition("@")
    return given.catalog.import_parquet(name, given.folder, branch=branch or "main", evolve=given.evolve)


def add_column(given: Given) -> object:
    """One column more."""
    return given.table.add_column(given.name, column_type(given.type))


def drop_column(given: Given) -> object:
    """One column less."""
    return given.table.drop_column(given.name)


def rename_column(given: Given) -> object:
    """The same column by another name."""
    return given.table.rename_column(given.name, given.to)


def tag(given: Given) -> str:
    """A name for a snapshot."""
    return f"{given.name}: {given.table.tag(given.name, given.at, replace=given.replace)!r}"


def untag(given: Given) -> None:
    """The name goes; the snapshot stays until it expires."""
    given.table.delete_tag(given.name)


def restore(given: Given) -> object:
    """The table as it was."""
    return given.table.restore(given.snapshot, metadata=given.metadata)


def branch(given: Given) -> object:
    """A branch."""
    return given.table.branch(given.name, given.at)


def merge(given: Given) -> object:
    """What a branch has and the table has not."""
    return given.table.merge(given.name)


def delete_branch(given: Given) -> None:
    """A branch goes."""
    given.table.delete_branch(given.name)


_FILES: Final = argument(
    "files", nargs="+", metavar="FILE", help="Parquet, CSV, JSON lines or Arrow; - is standard input"
)
_INPUT: Final = argument(
    "--input-format", choices=rows_in.FORMATS, help="what the files hold; by their endings"
)
_EVOLVE: Final = argument("--evolve", action="store_true", help="add columns that the table lacks")
_NAME: Final = argument("name")
_TO_COMMIT: Final = (METADATA, KEY)
_FROM_FILES: Final = (TABLE, _FILES, _INPUT, *_TO_COMMIT)
_WHICH: Final = argument(
    "-w", "--where", metavar="SQL", required=True, help="which rows, as in docs/filters.md"
)

COMMANDS: Final = (
    Command(
        "create", GROUP, "a new table", create,
        (
            argument("table"),
            argument("--column", metavar="NAME=TYPE", action="append", default=[], help="one each"),
            argument("--like", metavar="FILE", help="the columns of this file"),
            argument("--keys", metavar="A,B", help="columns that identify a row: upserts"),
            argument("--partition-by", metavar="A,B", help="such as shop,day(at)"),
            argument("--time-column", metavar="NAME", help="the one whose range history shows"),
            argument("--mode", choices=("merge", "cas"), default="merge"),
            argument("--exist-ok", action="store_true", help="no error if it is there, the same"),
        ),
    ),
    Command("drop", GROUP, "drop a table", drop, (argument("table"), argument("--yes", action="store_true"))),
    Command("append", GROUP, "add the rows of files", append, (*_FROM_FILES, _EVOLVE)),
    Command("upsert", GROUP, "add or replace rows by key", upsert, (*_FROM_FILES, _EVOLVE)),
    Command("overwrite", GROUP, "replace all rows, or partitions", overwrite, (*_FROM_FILES, WHERE, _EVOLVE)),
    Command(
        "write", GROUP, "make the table these rows; only what differs is stored", write,
        (*_FROM_FILES, argument("--on", metavar="A,B", help="columns that tell which row is which")),
    ),
    Command("delete", GROUP, "delete rows", delete, (TABLE, _WHICH, *_TO_COMMIT)),
    Command(
        "update", GROUP, "give rows new values", update,
        (
            TABLE, _WHICH,
            argument("--set", metavar="NAME=JSON", action="append", required=True, help="JSON, or text"),
            *_TO_COMMIT,
        ),
    ),
    Command("import", GROUP, "take over Parquet files", bring, (TABLE, argument("folder"), _EVOLVE)),
    Command("add-column", GROUP, "add a column", add_column, (TABLE, _NAME, argument("type"))),
    Command("drop-column", GROUP, "drop a column", drop_column, (TABLE, _NAME)),
    Command("rename-column", GROUP, "rename a column", rename_column, (TABLE, _NAME, argument("to"))),
    Command(
        "tag", GROUP, "name a snapshot", tag,
        (TABLE, _NAME, AT, argument("--replace", action="store_true", help="move a tag that is there")),
    ),
    Command("untag", GROUP, "delete a tag", untag, (TABLE, _NAME)),
    Command("restore", GROUP, "make the table what it was", restore, (TABLE, argument("snapshot"), METADATA)),
    Command("branch", GROUP, "begin a branch", branch, (TABLE, _NAME, AT)),
    Command("merge", GROUP, "take over what a branch has", merge, (TABLE, _NAME)),
    Command("delete-branch", GROUP, "delete a branch", delete_branch, (TABLE, _NAME)),
)  # fmt: skip
