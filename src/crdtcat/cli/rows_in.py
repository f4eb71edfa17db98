"""Rows from files: Parquet, CSV, JSON lines and Arrow streams, by their endings, or from standard input.

Files are read batch by batch; of standard input, Parquet and JSON are read whole first. Text has no types:
the table's own are taken for columns that it has, and the rest is what the text looks like.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from crdtcat.errors import InvalidArgument

_FIRST_BYTES: Final = 1 << 20
FORMATS: Final = ("parquet", "csv", "jsonl", "arrow")
_BY_ENDING: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".arrow": "arrow",
    ".arrows": "arrow",
}


def read_rows(files: Sequence[str], format: str | None, known: pa.Schema | None) -> pa.RecordBatchReader:
    """The rows of all files, one after the other. `known` are the columns of the table they go to.

    Raises `InvalidArgument` for what is no file, not of its format, or of other columns than the first.
    """
    first = _open(files[0], format, known)
    return pa.RecordBatchReader.from_batches(first.schema, _batches(first, files, format))


def _batches(
    first: pa.RecordBatchReader, files: Sequence[str], format: str | None
) -> Iterator[pa.RecordBatch]:
    for number, file in enumerate(files):
        reader = _open(file, format, first.schema) if number else first
        if reader.schema.names != first.schema.names:
            raise InvalidArgument(
                f"{file} has the columns {reader.schema.names}, and {files[0]} has {first.schema.names}"
            )
        try:
            for batch in reader:
                yield batch.cast(first.schema) if number else batch
        except pa.ArrowInvalid as error:
            raise InvalidArgument(f"{file} cannot be read: {error}") from None


def _open(file: str, format: str | None, known: pa.Schema | None) -> pa.RecordBatchReader:
    format = format or _BY_ENDING.get(Path(file).suffix.lower())
    if format is None:
        raise InvalidArgument(f"what {file!r} holds: pass --input-format {'|'.join(FORMATS)}")
    if file != "-" and not Path(file).is_file():
        raise InvalidArgument(f"there is no file {file!r}")
    try:
        source: Any = _standard_input(format) if file == "-" else pa.OSFile(file)
        return _reader(source, format, known)
    except (OSError, pa.ArrowInvalid) as error:
        raise InvalidArgument(f"{file} cannot be read as {format}: {error}") from None


def _standard_input(format: str) -> Any:
    whole = format in ("parquet", "jsonl")
    return io.BytesIO(sys.stdin.buffer.read()) if whole else sys.stdin.buffer


def _reader(source: Any, format: str, known: pa.Schema | None) -> pa.RecordBatchReader:
    types = {} if known is None else {field.name: field.type for field in known}
    if format == "csv":
        options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        return pyarrow.csv.open_csv(source, convert_options=options)
    if format == "jsonl":
        # A column that Arrow is told of is there, as nulls, in rows that lack it: tell of none that all lack.
        found = pyarrow.json.open_json(pa.BufferReader(_first_bytes(source))).schema.names
        schema = pa.schema([(name, types[name]) for name in found if name in types])
        options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer")
        return pyarrow.json.open_json(source, parse_options=options)
    if format == "arrow":
        return pa.ipc.open_stream(source)
    parquet = pyarrow.parquet.ParquetFile(source)
    return pa.RecordBatchReader.from_batches(parquet.schema_arrow, parquet.iter_batches())


def _first_bytes(source: Any) -> bytes:
    """The first whole lines, without moving on."""
    data: bytes = source.read(_FIRST_BYTES)
    more = len(data) == _FIRST_BYTES
    source.seek(0)
    return data[: data.rfind(b"\n") + 1] if more and b"\n" in data else data
