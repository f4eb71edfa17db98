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
from typing import Any, Final

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


_UNEXPECTED: Final = (pa.ArrowException, ArithmeticError, LookupError, TypeError, ValueError)


def take_apart(expression: Any) -> Node | None:
    """The tree of an expression, or None if it cannot be had (references by position)."""
    try:
        pairs, batch = _opened(expression)
        return _tree(pairs, batch)
    except _UNEXPECTED:
        return None


def conditions(expression: Any) -> int:
    """How many conditions "and" and "or" join; or, if that is more, how many calls are inside each other.

    1 for what cannot be taken apart. O(size), without recursion of our own.
    """
    try:
        pairs, _ = _opened(expression)
    except _UNEXPECTED:
        return 1
    joined = depth = deepest = 0
    for key, text in pairs:
        depth += (key == "call") - (key == "end")
        deepest = max(deepest, depth)
        joined += key == "call" and text in _JOINING
    return max(1 + joined, deepest - 1)


_JOINING: Final = frozenset(("and_kleene", "or_kleene", "and", "or", "and_not", "and_not_kleene", "xor"))


def references(node: Node) -> Iterator[Reference]:
    """Every field reference in the tree, in order."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Reference):
            yield node
        elif isinstance(node, Call):
            waiting.extend(reversed(node.arguments))


def _opened(expression: Any) -> tuple[list[tuple[str, str]], Any]:
    _, (data, *_rest) = expression.__reduce__()
    with pa.ipc.open_file(data) as reader:
        return _metadata(reader.schema), reader.get_batch(0)


def _tree(listed: list[tuple[str, str]], batch: Any) -> Node:
    """The tree from its prefix order. By a list of open calls: expressions are deeper than Python's stack."""
    open_calls: list[tuple[list[Node], dict[str, Any] | None]] = [([], None)]
    pairs = iter(listed)
    for key, text in pairs:
        arguments, options = open_calls[-1]
        if key == "call":
            open_calls.append(([], None))
        elif key == "end":
            open_calls.pop()
            open_calls[-1][0].append(Call(text, tuple(arguments), options))
        elif key == "options":
            open_calls[-1] = (arguments, dict(batch.column(int(text))[0].items()))
        elif key == "literal":
            arguments.append(Literal(batch.column(int(text))[0]))
        elif key == "field_ref":
            arguments.append(Reference((text,)))
        elif key == "nested_field_ref":
            path = [next(pairs, ("", "")) for _ in range(int(text))]
            arguments.append(Reference(tuple(_expect("field_ref", pair) for pair in path)))
        else:
            raise ValueError(key)
    ((whole,), _), *left = open_calls
    if left:
        raise ValueError("a call without an end")
    return whole


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
