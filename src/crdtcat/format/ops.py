"""Ops: what a version does besides adding chunks. Rare, so kept as values rather than columns.

====  ==========================================================================================
key   value
====  ==========================================================================================
d     column definitions: [column, display name, type code, nullable, position, replaced definitions]
u     columns dropped
v     properties: map of name to value; nil removes
-     removals: {"v": version ids, 36 bytes each; "i": chunk ordinals, 4 bytes each}
=     removals under an idempotency key: list of [key, chunk hash, ordinal]
w     scope of an overwrite: nil for the whole table, else a list of packed partition values
R     changes of single rows, see crdtcat.format.row_ops
&     of a version that a merge in CAS mode committed again: its id where it was committed first
i     of an import: what each imported file is known by, 16 bytes each
====  ==========================================================================================

A column is `[name at birth, 36 bytes of the version that added it]`; nil instead of the bytes means this
very version. A definition is named by `[36 bytes of its version, its index there]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from crdtcat.clock import ROOT, VersionId
from crdtcat.clock.version_id import ID_BYTES
from crdtcat.errors import Corrupt
from crdtcat.format.row_ids import KeyedTag, unpack_keyed
from crdtcat.format.row_ops import NO_ROW_OPS, RowOps, unpack_row_ops
from crdtcat.format.version import as_bytes, pack, unpack
from crdtcat.lattice import LWWRegister

TypeCode = Any
"""A type in MessagePack: text, or a list that begins with text. See `crdtcat.chunks.type_codes`."""

FILE_BYTES = 16
"""What an imported file is known by."""

EVERYTHING = None
"""The scope of an overwrite of the whole table."""


@dataclass(frozen=True, slots=True, order=True)
class ColumnId:
    """A column for life: the name it was born with and the version that added it (`ROOT`: the table's
    creation, or blind use)."""

    name: str
    birth: VersionId = ROOT

    def __reduce__(self) -> tuple[Any, ...]:
        """`SELF` is known by its identity, which a pickle would lose."""
        return _unpickled, (self.name, None if self.birth is SELF else self.birth)


def _unpickled(name: str, birth: VersionId | None) -> ColumnId:
    return ColumnId(name, SELF if birth is None else birth)


@dataclass(frozen=True, slots=True, order=True)
class DefinitionId:
    """One definition of one column: the version that made it, and its place there."""

    version: VersionId
    index: int


@dataclass(frozen=True, slots=True)
class Definition:
    """What a column is called and holds, according to one version.

    Attributes:
        column: which column.
        name: what it is called from now on.
        type: its type code.
        nullable: whether it may hold nulls.
        position: where it stands among the columns; ties go by name.
        replaces: the definitions its author had seen, which it ends.
    """

    column: ColumnId
    name: str
    type: TypeCode
    nullable: bool = True
    position: float = 0.0
    replaces: tuple[DefinitionId, ...] = ()


@dataclass(frozen=True, slots=True)
class Ops:
    """The decoded ops of one version.

    Attributes:
        definitions: column definitions, in order; a definition's index is its place here.
        drops: columns this version ends, for every version in its clock.
        properties: values set; `None` removes.
        removed_versions: ids, one per removal, as an array of 36-byte strings.
        removed_ordinals: the chunk's place in that version, one per removal.
        removed_keyed: removals of chunks that were added under an idempotency key.
        is_overwrite: whether `scope` counts.
        scope: `EVERYTHING`, or the packed partition values that are overwritten.
        rows: changes of single rows, compactions, insertions.
        files: what each imported file is known by, end to end (`crdtcat.verbs.imported_files`).
    """

    definitions: tuple[Definition, ...] = ()
    drops: tuple[ColumnId, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    removed_versions: np.ndarray[Any, np.dtype[np.bytes_]] = field(
        default_factory=lambda: np.empty(0, f"S{ID_BYTES}")
    )
    removed_ordinals: np.ndarray[Any, np.dtype[np.uint32]] = field(
        default_factory=lambda: np.empty(0, np.uint32)
    )
    removed_keyed: tuple[KeyedTag, ...] = ()
    is_overwrite: bool = False
    scope: frozenset[bytes] | None = EVERYTHING
    rows: RowOps = NO_ROW_OPS
    files: bytes = b""

    def encode(self) -> bytes | None:
        """Packed ops, or `None` where there are none."""
        body: dict[str, Any] = {}
        if self.definitions:
            body["d"] = [_pack_definition(definition) for definition in self.definitions]
        if self.drops:
            body["u"] = [_pack_column(column) for column in self.drops]
        if self.properties:
            body["v"] = dict(self.properties)
        if len(self.removed_versions):
            body["-"] = {
                "v": self.removed_versions.tobytes(),
                "i": self.removed_ordinals.astype("<u4").tobytes(),
            }
        if self.removed_keyed:
            body["="] = [[tag.key, tag.hash, tag.ordinal] for tag in self.removed_keyed]
        if self.is_overwrite:
            body["w"] = None if self.scope is None else sorted(self.scope)
        if self.rows:
            body["R"] = self.rows.packed()
        if self.files:
            body["i"] = self.files
        return pack(body) if body else None


def decode_ops(data: bytes, author: VersionId, name: str) -> Ops:
    """The ops of version `author`. Raises `Corrupt` where they are not what the table above says."""
    body = unpack(data, name)
    try:
        removals = body.get("-", {"v": b"", "i": b""})
        ids = np.frombuffer(removals["v"], f"S{ID_BYTES}")
        ordinals = np.frombuffer(removals["i"], "<u4")
        if len(ids) != len(ordinals):
            raise Corrupt(name, "removals name more versions than chunks")
        return Ops(
            definitions=tuple(_unpack_definition(item, author) for item in body.get("d", ())),
            drops=tuple(_unpack_column(item, author) for item in body.get("u", ())),
            properties=_properties(body.get("v", {})),
            removed_versions=ids,
            removed_ordinals=ordinals,
            removed_keyed=unpack_keyed(body.get("=", ())),
            is_overwrite="w" in body,
            scope=None if body.get("w") is None else frozenset(as_bytes(values) for values in body["w"]),
            rows=unpack_row_ops(body["R"], name) if "R" in body else NO_ROW_OPS,
            files=_files(body.get("i", b"")),
        )
    except Corrupt:
        raise
    except Exception as error:
        raise Corrupt(name, f"malformed ops: {error}") from error


def origin_of(data: bytes, name: str) -> bytes | None:
    """Which version the one with these packed ops repeats, if it does. Raises `Corrupt`."""
    body = unpack(data, name)
    found = body.get("&") if isinstance(body, dict) else None
    if found is not None and (not isinstance(found, bytes) or len(found) != ID_BYTES):
        raise Corrupt(name, "the version that it repeats is not named by an id")
    return found


def with_origin(data: bytes | None, origin: bytes, name: str) -> bytes:
    """Packed ops of a version that repeats another."""
    return pack({**({} if data is None else unpack(data, name)), "&": origin})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, not {type(value).__name__}")
    return value


def _files(value: object) -> bytes:
    found = as_bytes(value)
    if len(found) % FILE_BYTES:
        raise ValueError(f"imported files are named by {FILE_BYTES} bytes each")
    return found


def _properties(value: Any) -> dict[str, Any]:
    for item in value.values():
        require_register_value(item)
    return {_text(name): item for name, item in value.items()}


def require_register_value(value: Any) -> None:
    """That a property may have this value, as it comes out of a file: the head makes a register of it.

    Raises `InvalidArgument`: keys of maps that are no text, bytes or whole numbers, values that are none of
    MessagePack's own, nesting deeper than `crdtcat.lattice.canonical.NESTING_MAX`.
    """
    LWWRegister(ROOT, value)


def _pack_column(column: ColumnId) -> Sequence[Any]:
    return [column.name, None if column.birth is SELF else column.birth.to_bytes()]


def _unpack_column(item: Sequence[Any], author: VersionId) -> ColumnId:
    name, birth = item
    return ColumnId(_text(name), author if birth is None else VersionId.from_bytes(birth))


def _pack_definition(definition: Definition) -> Sequence[Any]:
    replaces = [[replaced.version.to_bytes(), replaced.index] for replaced in definition.replaces]
    column = _pack_column(definition.column)
    return [column, definition.name, definition.type, definition.nullable, definition.position, replaces]


def _unpack_definition(item: Sequence[Any], author: VersionId) -> Definition:
    column, name, type, nullable, position, replaces = item
    return Definition(
        _unpack_column(column, author),
        _text(name),
        type,
        bool(nullable),
        float(position),
        tuple(DefinitionId(VersionId.from_bytes(version), int(index)) for version, index in replaces),
    )


SELF = VersionId(0, 0, 0, b"\xff" * 16)
"""Stands for the version being written, whose id is known only once it is sealed. Compared by identity."""
