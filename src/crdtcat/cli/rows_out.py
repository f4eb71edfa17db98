"""Rows, shown or written: as text for people, or as CSV, JSON lines, Parquet or an Arrow stream for programs.

All but text is written batch by batch, in bounded memory. A file appears under its name when it is whole.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final
from uuid import UUID

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from crdtcat.errors import InvalidArgument

FORMATS: Final = ("text", "csv", "jsonl", "parquet", "arrow")
ROWS_SHOWN: Final = 40
WIDTH: Final = 60
"""Letters of one cell that text shows of rows."""
_BY_ENDING: Final = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
}


def write_rows(
    rows: pa.RecordBatchReader,
    format: str | None,
    output: str | None,
    limit: int | None = None,
    *,
    whole: bool = False,
) -> None:
    """Show rows, or write them to a file whose format is that of its ending unless one is given.

    Text ends after `ROWS_SHOWN` rows unless `limit` says otherwise, and says so; the rest writes all. With
    `whole`, text leaves nothing out: neither rows nor letters.
    """
    if output is not None and output != "-":
        format = format or _BY_ENDING.get(Path(output).suffix.lower())
        if format is None:
            raise InvalidArgument(f"how to write {output!r}: pass --format {'|'.join(FORMATS[1:])}")
        with _file(Path(output)) as file:
            _write(rows, format, file, limit, whole=whole)
    else:
        sys.stdout.flush()
        _write(rows, format or "text", sys.stdout.buffer, limit, whole=whole)
        sys.stdout.buffer.flush()


def _write(
    rows: pa.RecordBatchReader, format: str, file: BinaryIO, limit: int | None, *, whole: bool
) -> None:
    if format == "text":
        most = sys.maxsize if whole else ROWS_SHOWN
        file.write(as_text(rows, most if limit is None else limit, sys.maxsize if whole else WIDTH).encode())
        return
    schema = _flat_schema(rows.schema) if format == "csv" else rows.schema
    batches = _first(rows, limit)
    if format == "jsonl":
        for batch in batches:
            file.writelines(_line(row) for row in _readable(batch).to_pylist())
    elif format == "csv":
        with pyarrow.csv.CSVWriter(file, schema) as csv:
            for batch in batches:
                csv.write_batch(_flat(batch, schema))
    elif format == "parquet":
        with pyarrow.parquet.ParquetWriter(file, schema) as parquet:
            for batch in batches:
                parquet.write_batch(batch)
    else:
        with pa.ipc.new_stream(file, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)


def _first(rows: pa.RecordBatchReader, limit: int | None) -> Iterator[pa.RecordBatch]:
    left = math.inf if limit is None else limit
    for batch in rows:
        if left <= 0:
            return
        yield batch if batch.num_rows <= left else batch.slice(0, int(left))
        left -= batch.num_rows


def as_text(rows: pa.RecordBatchReader, limit: int, letters: int = WIDTH) -> str:
    """The first rows in columns, numbers to the right, `letters` of each cell; and whether there are more."""
    batches = list(_first(rows, limit + 1))
    found = pa.Table.from_batches(map(_readable, batches)) if batches else rows.schema.empty_table()
    columns = []
    for name, column in zip(found.column_names, found.columns, strict=True):
        cells = [_cell(value, letters) for value in column.slice(0, limit).to_pylist()]
        width = max(map(len, [name, *cells]))
        right = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        columns.append([cell.rjust(width) if right else cell.ljust(width) for cell in [name, *cells]])
        columns[-1].insert(1, "-" * width)
    lines = ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]
    if found.num_rows > limit:
        lines.append(f"... more rows: --limit N, or --format {'|'.join(FORMATS[1:])}")
    elif not found.num_rows:
        lines.append("(no rows)")
    return "\n".join(lines) + "\n"


def _cell(value: Any, letters: int) -> str:
    if value is None:
        return ""
    value = plain(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(letter if letter.isprintable() else "\N{MIDDLE DOT}" for letter in text)
    return text if len(text) <= letters else f"{text[: letters - 3]}..."


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(plain(row), ensure_ascii=False).encode() + b"\n"


def _readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Columns of nanoseconds as text: Python's own times have none."""
    columns = [
        column.cast(pa.string()) if getattr(column.type, "unit", "") == "ns" else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def plain(value: Any) -> Any:  # noqa: PLR0911 (a table of cases)
    """A value of Arrow's in what JSON has. What it lacks is text: moments by ISO 8601, decimals by their
    digits, bytes in base 64, and the numbers that are none as "NaN", "Infinity" and "-Infinity"."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return (
                value
                if math.isfinite(value)
                else {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
            )
        case dict():
            return {str(plain(name)): plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta() | Decimal() | UUID():
            return str(value)
        case _:
            return str(value)


def _flat_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, field.type if _is_flat(field.type) else pa.string()) for field in schema])


def _is_flat(type: pa.DataType) -> bool:
    """Whether Arrow writes it to CSV as it is."""
    kinds = pa.types
    return any(
        is_kind(type)
        for is_kind in (
            kinds.is_integer,
            kinds.is_floating,
            kinds.is_boolean,
            kinds.is_string,
            kinds.is_large_string,
        )
    )


def _flat(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Columns that CSV has no form for as text, in the words of `plain`."""
    columns = [
        column if column.type == field.type else pa.array(map(_text, column.to_pylist()), pa.string())
        for field, column in zip(schema, _readable(batch).columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _text(value: Any) -> str | None:
    value = plain(value)
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@contextmanager
def _file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes its name when all is written; nothing is left of one that was not."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with beside.open("wb") as file:
            yield file
        beside.replace(path)
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
