"""The packed schema of a version's rows: which column each field is, and its type.

A packed schema is a list of `[born, name, birth, type code, nullable]`. `name` is the field's name in the
stored chunks; `born` and `birth` name the column it belongs to: `born` is the column's name at birth (nil:
the same as `name`), `birth` is nil for `ROOT` (the table's creation, or a writer that knew no definition),
`true` for this very version, else 36 bytes. The same writer packs the same bytes in every commit, so
readers tell schemas apart by bytes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crdtcat.clock import ROOT, VersionId
from crdtcat.errors import Corrupt
from crdtcat.format.ops import SELF, ColumnId, TypeCode
from crdtcat.format.version import pack, unpack


@dataclass(frozen=True, slots=True)
class StoredField:
    """One column of a stored chunk.

    Attributes:
        name: the field's name in the chunk.
        column: the column it holds values of; its birth is `SELF` for one this version adds.
        type: type code of the values as the user gave them.
        nullable: whether the field was declared to hold nulls.
    """

    name: str
    column: ColumnId
    type: TypeCode
    nullable: bool = True


def encode_schema(fields: Sequence[StoredField]) -> bytes:
    """Packed form of `fields`."""
    return pack(
        [
            [f.column.name if f.column.name != f.name else None, f.name, _birth(f.column), f.type, f.nullable]
            for f in fields
        ]
    )


def decode_schema(data: bytes, name: str) -> tuple[StoredField, ...]:
    """The inverse. Raises `Corrupt` for anything else."""
    try:
        return tuple(
            StoredField(
                _text(field),
                ColumnId(_text(field if born is None else born), _unbirth(birth)),
                type,
                bool(nullable),
            )
            for born, field, birth, type, nullable in unpack(data, name)
        )
    except (TypeError, ValueError) as error:
        raise Corrupt(name, f"malformed schema: {error}") from error


def _text(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a column's name is text, not {type(name).__name__}")
    return name


def _birth(column: ColumnId) -> bytes | bool | None:
    if column.birth is SELF:
        return True
    return None if column.birth == ROOT else column.birth.to_bytes()


def _unbirth(birth: bytes | bool | None) -> VersionId:
    if birth is True:
        return SELF
    return ROOT if not birth else VersionId.from_bytes(birth)
