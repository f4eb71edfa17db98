"""A `pyarrow.compute.Expression` taken apart into calls, literals and field references.

Theory. Python gives no way into an expression, but it can be pickled, and the pickle is Arrow's own IPC form:
a record batch whose columns are the literals and function options, and whose schema metadata is the tree in
prefix order, as a list of pairs:

    call equal; field_ref a; literal 0; end equal

Keys repeat, so `schema.metadata`, a dict, cannot hold them; the C data interface, a stable binary interface
that every Arrow library exports, can. Printing the expression and parsing that is ambiguous (names are not
quoted), and Substrait knows only some of the functions.

Anything unexpected is `None`: the caller then knows nothing about the expression, and keeps everything.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Literal:
    """An Arrow scalar."""

    value: Any


@dataclass(frozen=True, slots=True)
class Reference:
    """A field, by the names that lead to it."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A compute function with its arguments and its options, as a dict of Arrow scalars."""

    function: str
    arguments: tuple[Node, ...]
    options: dict[str, Any] | None


Node = Literal | Reference | Call


def take_apart(expression: Any) -> Node | None:
    """The tree of an expression, or None if it cannot be had (references by position)."""
    try:
        _, (data, *_rest) = expression.__reduce__()
        with pa.ipc.open_file(data) as reader:
            batch = reader.get_batch(0)
            pairs = iter(_metadata(reader.schema))
            return _node(next(pairs), pairs, batch)
    except (
        pa.ArrowException,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        StopIteration,
        RecursionError,
    ):
        return None


def references(node: Node) -> Iterator[Reference]:
    """Every field reference in the tree."""
    if isinstance(node, Reference):
        yield node
    elif isinstance(node, Call):
        for argument in node.arguments:
            yield from references(argument)


def _node(pair: tuple[str, str], pairs: Iterator[tuple[str, str]], batch: Any) -> Node:
    key, text = pair
    if key == "literal":
        return Literal(batch.column(int(text))[0])
    if key == "field_ref":
        return Reference((text,))
    if key == "nested_field_ref":
        return Reference(tuple(_expect("field_ref", next(pairs)) for _ in range(int(text))))
    if key != "call":
        raise ValueError(key)
    arguments: list[Node] = []
    options: dict[str, Any] | None = None
    for inner in pairs:
        if inner[0] == "end":
            return Call(text, tuple(arguments), options)
        if inner[0] == "options":
            scalar = batch.column(int(inner[1]))[0]
            options = dict(scalar.items())
        else:
            arguments.append(_node(inner, pairs, batch))
    raise ValueError(text)


def _expect(key: str, pair: tuple[str, str]) -> str:
    if pair[0] != key:
        raise ValueError(pair[0])
    return pair[1]


class _ArrowSchema(ctypes.Structure):
    """The first members of `struct ArrowSchema` in Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """A schema's metadata in order, repeated keys included: a count, then sized keys and values."""
    capsule = schema.__arrow_c_schema__()  # owns the memory read below
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    place = _ArrowSchema.from_address(pointer_of(capsule, b"arrow_schema")).metadata
    if place is None:
        return []

    def text() -> str:
        nonlocal place
        (length,) = struct.unpack("=i", ctypes.string_at(place, 4))
        data = ctypes.string_at(place + 4, length)
        place += 4 + length
        return data.decode()

    (count,) = struct.unpack("=i", ctypes.string_at(place, 4))
    place += 4
    return [(text(), text()) for _ in range(count)]
