"""What a comparison looks at: a column, a field inside a struct, or something computed from columns.

Theory. Arrow has many layouts for one kind of value (dictionaries, views, half floats, narrow decimals) and
few of them have every kernel. So an operand says which *comparison type* its values are compared in: the
plainest type that holds each value exactly. Literals are fitted to that type, and the column is cast to it
where it is stored otherwise. The cast is exact and keeps order, so statistics of the column hold for it.

Only a whole top-level column can be pruned by statistics: `statistics_of` names it, or is None.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from crdtcat.errors import InvalidFilter
from crdtcat.support.showing import shown


@dataclass(frozen=True, slots=True)
class Field:
    """A top-level column, or a field inside struct columns.

    Attributes:
        path: names from the top-level column down to the field.
        declared: its Arrow type in the schema.
    """

    path: tuple[str, ...]
    declared: pa.DataType

    @property
    def type(self) -> pa.DataType:
        """The type its values are compared in."""
        return comparison_type(self.declared)

    @property
    def columns(self) -> tuple[str, ...]:
        """The top-level column that must be read."""
        return self.path[:1]

    @property
    def statistics_of(self) -> str | None:
        """The column whose statistics bound this operand."""
        return self.path[0] if len(self.path) == 1 else None

    def reference(self) -> Any:
        """The bare Arrow field reference, in the declared type."""
        return pc.field(self.path[0]) if len(self.path) == 1 else pc.field(*self.path)

    def expression(self) -> Any:
        """The Arrow expression, in the comparison type."""
        reference = self.reference()
        return reference if self.type == self.declared else reference.cast(self.type)

    def __str__(self) -> str:
        return ".".join(quote(name) for name in self.path)


@dataclass(frozen=True, slots=True)
class Computed:
    """The result of arithmetic or a function on columns. Nothing is known about it without reading.

    Attributes:
        text: how it prints.
        type: its Arrow type, as Arrow derived it.
        columns: the top-level columns that must be read.
        arrow: the Arrow expression.
    """

    text: str
    type: pa.DataType
    columns: tuple[str, ...]
    arrow: Any = field(compare=False, repr=False)

    @property
    def statistics_of(self) -> str | None:
        """Always None: no statistics are kept of computed values."""
        return None

    def reference(self) -> Any:
        """The Arrow expression."""
        return self.arrow

    def expression(self) -> Any:
        """The Arrow expression."""
        return self.arrow

    def __str__(self) -> str:
        return self.text


Operand = Field | Computed


def quote(name: str) -> str:
    """A column name as SQL would write it: bare if it is a plain lower-case word."""
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'


def comparison_type(declared: pa.DataType) -> pa.DataType:  # noqa: PLR0911 (one case per layout)
    """The plainest type that holds every value of `declared` exactly and has comparison kernels."""
    if pt.is_dictionary(declared) or pt.is_run_end_encoded(declared):
        return comparison_type(declared.value_type)
    if isinstance(declared, pa.BaseExtensionType):
        return comparison_type(declared.storage_type)
    if pt.is_float16(declared):
        return pa.float32()
    if pt.is_string_view(declared):
        return pa.string()
    if pt.is_binary_view(declared):
        return pa.binary()
    if pt.is_decimal32(declared) or pt.is_decimal64(declared):
        return pa.decimal128(declared.precision, declared.scale)
    return declared


def resolve(path: Sequence[str], schema: pa.Schema, where: str = "", hint: str = "") -> Field:
    """The field that `path` names in `schema`.

    Raises:
        InvalidFilter: there is none; the message holds the nearest names, `where`, and `hint` at its end.
    """
    names = schema.names
    found: pa.DataType | None = None
    for depth, name in enumerate(path):
        if found is not None:
            if not pt.is_struct(found):
                inside = ".".join(quote(part) for part in path[:depth])
                raise InvalidFilter(
                    f"column {inside}{where} is {found}, not a struct: it has no field {shown(name, 300)}"
                )
            names = [inner.name for inner in found.fields]
        if names.count(name) != 1:
            raise _unknown(name, names, where, hint)
        found = (schema if found is None else found).field(name).type
    return Field(tuple(path), found)


def _unknown(name: str, names: Sequence[str], where: str, more: str) -> InvalidFilter:
    if name in names:
        return InvalidFilter(f"column {name!r}{where} is ambiguous: the schema has it more than once")
    folded = {candidate.casefold(): candidate for candidate in names}
    close = [folded[match] for match in difflib.get_close_matches(name.casefold(), list(folded), n=3)]
    hint = f"did you mean {' or '.join(map(repr, close))}?" if close else f"there are {_some(names)}"
    return InvalidFilter(f"no column {shown(name, 300)}{where}; {hint}{more}")


def _some(names: Sequence[str], limit: int = 10) -> str:
    shown = ", ".join(map(repr, names[:limit])) or "none"
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")
