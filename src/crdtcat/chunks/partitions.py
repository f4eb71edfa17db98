"""Partitioning: which columns, by which transforms, decide the group a row is stored in.

A partitioning is written as a list of texts: `["country", "day(ts)", "bucket(16, id)", "truncate(3, name)"]`.
A column whose name has brackets, commas or quotes is written as a JSON string: `'day("a(b)")'`. That list is
the canonical form in a table's settings.

A chunk holds rows of one partition, and its entry holds that partition's values, so whole chunks are skipped
or overwritten by value. Values are plain scalars (None, bool, int, float, str, bytes) that MessagePack holds;
their meaning, and the range of column values each implies, is in `crdtcat.chunks.transforms`. It depends on
the column's type at the time of writing (the identity of a date32 counts days).

No I/O; knows nothing about tables.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgpack
import numpy as np
import pyarrow as pa

from crdtcat import limits
from crdtcat.chunks import transforms
from crdtcat.chunks.narrow import restored
from crdtcat.chunks.storage_types import to_storage
from crdtcat.chunks.transforms import NAN, PERIODS, one_nan
from crdtcat.errors import Corrupt, InvalidArgument, LimitExceeded
from crdtcat.intervals.runs import Integers
from crdtcat.support.showing import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS_MAX: Final = 1_000  # of rows that stay in their order: each is a chunk
RUN_ROWS: Final = 256  # where there are more, in the mean

Values = tuple[Any, ...]
"""One partition: a scalar for each field."""

_CALL = re.compile(r"(year|month|day|hour|bucket|truncate)\((?:\s*([0-9]+)\s*,)?\s*(.+?)\s*\)", re.DOTALL)
_QUOTED = re.compile(r"[(),\"\x00-\x1f]|^\s|\s\Z")
_FORMS = 'use "column", "day(column)" (year, month, hour), "bucket(16, column)" or "truncate(10, column)"'


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One column of a partitioning.

    Attributes:
        column: whose values decide.
        transform: "identity", "year", "month", "day", "hour", "bucket" or "truncate".
        argument: number of buckets, or width of truncation; None for the others.
    """

    column: str
    transform: str = "identity"
    argument: int | None = None

    def __str__(self) -> str:
        column = json.dumps(self.column, ensure_ascii=False) if _QUOTED.search(self.column) else self.column
        if self.transform == "identity":
            return column
        inside = column if self.argument is None else f"{self.argument}, {column}"
        return f"{self.transform}({inside})"

    @classmethod
    def parse(cls, text: object) -> PartitionField:
        """The inverse of `str`. Raises `InvalidArgument`."""
        if not isinstance(text, str) or not text:
            raise InvalidArgument(f"partition field {shown(text, 300)} is not a text: {_FORMS}")
        call = _CALL.fullmatch(text)
        if call is None:
            return cls(_column(text, text))
        transform, number, column = call.groups()
        if (number is None) != (transform in PERIODS):
            raise InvalidArgument(f"partition field {shown(text, 300)}: {_FORMS}")
        if number is None:
            return cls(_column(column, text), transform)
        greatest = limits.BUCKETS_MAX if transform == "bucket" else 2**31
        if not 1 <= int(number) <= greatest:
            raise InvalidArgument(
                f"partition field {shown(text, 300)}: {transform} takes a number from 1 to {greatest}"
            )
        return cls(_column(column, text), transform, int(number))


def _column(text: str, whole: str) -> str:
    if not _QUOTED.search(text):
        return text
    try:
        name = json.loads(text)
    except ValueError:
        name = None
    if not isinstance(name, str):
        raise InvalidArgument(
            f"partition field {shown(whole, 300)}: {_FORMS}; quote odd column names as JSON does"
        )
    return name


@dataclass(frozen=True, slots=True)
class Partitioning:
    """An ordered list of partition fields; empty means that all rows are in one partition `()`."""

    fields: tuple[PartitionField, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.fields)

    def validate(self, schema: pa.Schema) -> None:
        """Raises `InvalidArgument` unless every field's column is there, of a type its transform takes."""
        for field in self.fields:
            found = schema.get_all_field_indices(field.column)
            if len(found) != 1:
                raise InvalidArgument(
                    f"partition field {str(field)!r}: there is no column {field.column!r}, "
                    f"only {schema.names[:20]}"
                )
            t = schema.field(found[0]).type
            if not transforms.applies_to(field.transform, t):
                raise InvalidArgument(
                    f"partition field {str(field)!r}: {field.transform} is not defined for {t}"
                )

    @staticmethod
    def _keys(field: PartitionField, table: pa.Table) -> pa.Array:
        column = table.column(field.column)
        parts = [transforms.apply(field.transform, field.argument, chunk) for chunk in column.chunks]
        if not parts:
            parts = [transforms.apply(field.transform, field.argument, pa.nulls(0, column.type))]
        return pa.concat_arrays(parts)

    def split(self, table: pa.Table, *, in_order: bool = False) -> list[tuple[Values, pa.Table]]:
        """The rows of each partition, in their order, partitions in the order of their values (null first).

        With `in_order`, runs of rows of one partition in row order instead, unless there are more than
        `RUNS_MAX` and they have fewer than `RUN_ROWS` rows each.

        Cost: O(rows), vectorized; no copy if rows of one partition already stand together.

        Raises:
            InvalidArgument: a column is missing or of a type its transform does not take.
            LimitExceeded: more than `limits.PARTITION_VALUES_PER_COMMIT_MAX` partitions.
        """
        self.validate(table.schema)
        if table.num_rows == 0:
            return []
        groups = np.zeros(table.num_rows, np.int64)
        values: list[Values] = [()]
        for field in self.fields:
            encoded = self._keys(field, table).dictionary_encode()
            entries = [one_nan(entry) for entry in encoded.dictionary.to_pylist()]
            codes = encoded.indices.fill_null(len(entries)).to_numpy(zero_copy_only=False).astype(np.int64)
            width = len(entries) + 1
            found, groups = np.unique(groups * width + codes, return_inverse=True)
            if len(found) > limits.PARTITION_VALUES_PER_COMMIT_MAX:
                raise LimitExceeded(
                    f"these rows fall into more than {limits.PARTITION_VALUES_PER_COMMIT_MAX} partitions: "
                    "write them in parts, or partition by something coarser"
                )
            entries.append(None)
            values = [(*values[old // width], entries[old % width]) for old in found.tolist()]
        order = sorted(range(len(values)), key=lambda group: [_rank(value) for value in values[group]])
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        groups = rank[groups]
        cuts = [0, *(np.flatnonzero(np.diff(groups)) + 1).tolist(), table.num_rows] if in_order else []
        if cuts and len(cuts) <= max(RUNS_MAX, table.num_rows // RUN_ROWS):
            runs = itertools.pairwise(cuts)
            return [(values[order[groups[at]]], table.slice(at, end - at)) for at, end in runs]
        if not bool(np.all(groups[1:] >= groups[:-1])):
            table = _take(table, np.argsort(groups, kind="stable"))
        ends = np.cumsum(np.bincount(groups, minlength=len(order))).tolist()
        starts = [0, *ends[:-1]]
        return [
            (values[group], table.slice(start, end - start))
            for group, start, end in zip(order, starts, ends, strict=True)
        ]

    def numbered(self, table: pa.Table) -> Iterator[tuple[Values, Integers]]:
        """The numbers of the rows of each partition, as `split` has them."""
        names = list(dict.fromkeys(field.column for field in self.fields))
        number = "~".join(["", *names, ""])  # longer than any of them, so none of them
        rows = table.select(names).append_column(number, pa.array(np.arange(table.num_rows)))
        yield from ((values, np.asarray(part[number])) for values, part in self.split(rows))

    def bounds(self, index: int, value: Any, t: pa.DataType) -> tuple[Any, Any] | None:
        """What a partition's value of field `index` says about its column, of type `t` when it was written.

        `(lo, hi)` in the domain of the column's statistics, both included, None where open; or None as a
        whole if it says nothing. A null value says that every row is null there: not a range either.
        """
        field = self.fields[index]
        return transforms.bounds(field.transform, field.argument, value, t)

    def bucket_of(self, index: int, value: Any) -> int | None:
        """The only partition value of bucket field `index` where rows equal to a literal can be, or None."""
        field = self.fields[index]
        if field.transform != "bucket" or field.argument is None:
            return None
        return transforms.bucket_of(value, field.argument)


def parse_partitioning(spec: Partitioning | str | Sequence[str] | None) -> Partitioning:
    """A partitioning from what users write and settings hold.

    Raises:
        InvalidArgument: a text that is no field, the same field twice, or no list of texts.
        LimitExceeded: more than `limits.PARTITION_FIELDS_MAX` fields.
    """
    if isinstance(spec, Partitioning):
        return spec
    if spec is not None and not isinstance(spec, Iterable):
        raise InvalidArgument(f"partition_by={shown(spec)}: pass a list of texts, such as ['day(at)']")
    texts = [] if spec is None else [spec] if isinstance(spec, str) else list(spec)
    fields = tuple(PartitionField.parse(text) for text in texts)
    if len(fields) > limits.PARTITION_FIELDS_MAX:
        raise LimitExceeded(f"{len(fields)} partition fields; use at most {limits.PARTITION_FIELDS_MAX}")
    if len(set(fields)) != len(fields):
        raise InvalidArgument(f"partitioning {texts} has the same field twice: drop one")
    return Partitioning(fields)


def encode_values(values: Values) -> bytes:
    """One partition as canonical MessagePack: equal values, equal bytes.

    Raises `LimitExceeded` above `limits.PARTITION_VALUE_BYTES_MAX`.
    """
    data: bytes = msgpack.packb(list(values), use_bin_type=True)
    if len(data) > limits.PARTITION_VALUE_BYTES_MAX:
        raise LimitExceeded(
            f"partition values {shown(values, 60)}... take {len(data)} bytes; at most "
            f"{limits.PARTITION_VALUE_BYTES_MAX} are allowed: truncate the column in the partitioning"
        )
    return data


def decode_values(data: bytes, fields: int, name: str) -> Values:
    """The inverse of `encode_values`. Raises `Corrupt`, naming `name`, if it is not a scalar per field."""
    try:
        values = msgpack.unpackb(data)
    except (ValueError, RecursionError) as error:
        raise Corrupt(name, f"partition values {shown(data, 60)} cannot be read: {error}") from error
    if not isinstance(values, list) or len(values) != fields or not all(map(_is_scalar, values)):
        raise Corrupt(name, f"partition values {shown(data, 60)} are not a list of {fields} scalars")
    return tuple(one_nan(value) for value in values)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str | bytes)


def _rank(value: Any) -> tuple[int, Any]:
    """Null first, then values, then NaN."""
    if value is None:
        return (0, 0)
    return (2, 0) if value is NAN else (1, value)


def _take(table: pa.Table, order: Any) -> pa.Table:
    """Rows in another order; what pyarrow cannot gather goes by way of its storage.

    That is run ends, and dictionaries that cannot be unified.
    """
    indices = pa.array(order)
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        try:
            taken = column.take(indices)
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            taken = restored([to_storage(column, field.name).take(indices)], field.type, field.name)
        columns.append(taken)
    return pa.table(columns, schema=table.schema)
