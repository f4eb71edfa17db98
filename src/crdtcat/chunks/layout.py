"""Taking Arrow arrays apart and putting them together, whatever their layout.

The same rows can lie in memory sliced, with garbage under nulls, as list views in any order, in runs or
behind a dictionary. pyarrow's own casts between these layouts are not all sound (list views with trailing
nulls became invalid lists in release 26) or not all there (no cast to large list views), so the few
conversions needed are written here on offsets, sizes and validity. Every function is vectorized: O(rows).

Knows nothing of storage types or files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crdtcat.chunks.type_codes import list_kind
from crdtcat.errors import InvalidArgument, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable

OFFSET_MAX = 2**31 - 1


class Lists(NamedTuple):
    """A list array taken apart: row `i` is `values[offsets[i]:offsets[i + 1]]`, empty where null."""

    offsets: np.ndarray[Any, np.dtype[np.int64]]
    values: pa.Array
    valid: np.ndarray[Any, np.dtype[np.bool_]] | None


def valid_rows(array: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Which rows hold a value; None if all do. For arrays that carry their own validity."""
    if array.null_count == 0:
        return None
    valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return cast("np.ndarray[Any, np.dtype[np.bool_]]", valid)


def count_nulls(array: pa.Array | pa.ChunkedArray) -> int:
    """How many rows are null: of encoded ones Arrow's own count leaves out those whose entry or run is."""
    if pa.types.is_dictionary(array.type) or pa.types.is_run_end_encoded(array.type):
        return int(pc.sum(pc.is_null(array)).as_py() or 0)
    return int(array.null_count)


def validity_buffer(valid: np.ndarray[Any, np.dtype[np.bool_]] | None) -> pa.Buffer | None:
    """Arrow's bitmap for `valid`, starting at bit 0."""
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


def open_lists(array: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> Lists:
    """Any list-like array or map, taken apart; garbage under null rows is left out.

    Args:
        array: the lists.
        convert: applied to the items before they are gathered, since not every type can be gathered.
    """
    valid = valid_rows(array)
    values = array.values
    kind = list_kind(array.type)
    if kind == "fixed_size_list":
        size = array.type.list_size
        starts = (array.offset + np.arange(len(array), dtype=np.int64)) * size
        lengths = np.full(len(array), size, dtype=np.int64)
    elif kind in {"list_view", "large_list_view"}:
        starts = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        lengths = array.sizes.to_numpy(zero_copy_only=False).astype(np.int64)
    else:
        ends = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        if valid is None:  # the common case: nothing to leave out, nothing to gather
            return Lists(ends - ends[0], convert(values.slice(int(ends[0]), int(ends[-1] - ends[0]))), None)
        starts, lengths = ends[:-1], np.diff(ends)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    offsets = np.zeros(len(array) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    filled = np.flatnonzero(lengths)
    first = int(starts[filled[0]]) if len(filled) else 0
    if bool(np.all(starts[filled] == offsets[:-1][filled] + first)):
        return Lists(offsets, convert(values.slice(first, int(offsets[-1]))), valid)
    shift = np.repeat(starts - offsets[:-1], lengths)
    return Lists(offsets, convert(values).take(pa.array(shift + np.arange(offsets[-1]))), valid)


def close_lists(
    t: pa.DataType, lists: Lists, path: str, convert: Callable[[pa.Array], pa.Array] = lambda values: values
) -> pa.Array:
    """The inverse of `open_lists` for any list type or map; `convert` makes the items what `t` says."""
    size = len(lists.offsets) - 1
    bits = validity_buffer(lists.valid)
    kind = list_kind(t)
    if kind == "fixed_size_list":
        return pa.Array.from_buffers(t, size, [bits], children=[convert(_fixed(t.list_size, lists, path))])
    large = kind in {"large_list", "large_list_view"}
    if not large and int(lists.offsets[-1]) > OFFSET_MAX:
        raise LimitExceeded(f"column {path}: more than 2^31 list items in one chunk: use smaller chunks")
    offsets = lists.offsets.astype(np.int64 if large else np.int32)
    buffers = [bits, pa.py_buffer(offsets)]
    if kind in {"list_view", "large_list_view"}:
        buffers = [bits, pa.py_buffer(offsets[:-1].copy()), pa.py_buffer(np.diff(offsets))]
    return pa.Array.from_buffers(t, size, buffers, children=[convert(lists.values)])


def _fixed(list_size: int, lists: Lists, path: str) -> pa.Array:
    """Items of lists that all have one size, with room made under null rows."""
    lengths = np.diff(lists.offsets)
    expected = lengths if lists.valid is None else lengths[lists.valid]
    if not bool(np.all(expected == list_size)):
        raise InvalidArgument(f"column {path}: a list does not have exactly {list_size} items")
    if lists.valid is None or list_size == 0:
        return lists.values
    index = np.repeat(lists.offsets[:-1], list_size) + np.tile(np.arange(list_size), len(lengths))
    return lists.values.take(pa.array(index, mask=np.repeat(~lists.valid, list_size)))


def decode_runs(array: pa.Array) -> pa.Array:
    """The rows of a run-end encoded array, of any value type, in a layout that can be gathered."""
    ends = array.run_ends.to_numpy(zero_copy_only=False)
    rows = np.arange(array.offset, array.offset + len(array))
    runs = pa.array(np.searchsorted(ends, rows, side="right"))
    try:
        return array.values.take(runs)
    except pa.ArrowNotImplementedError:
        return _gatherable(array.values).take(runs)


def decode_dictionary(array: pa.Array) -> pa.Array:
    """The rows of a dictionary array, of any value type, in a layout that can be gathered."""
    try:
        return array.dictionary_decode()
    except pa.ArrowNotImplementedError:
        return _gatherable(array.dictionary).take(array.indices)


def _gatherable(array: pa.Array) -> pa.Array:
    """The same values without views, runs and extensions, however deep: of these pyarrow gathers none."""
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        return _gatherable(array.storage)
    if t in _GATHERED_AS:
        return array.cast(_GATHERED_AS[t])
    if pa.types.is_run_end_encoded(t):
        return decode_runs(array)
    if pa.types.is_struct(t):
        children = [_gatherable(array.field(i)) for i in range(t.num_fields)]
        plain = pa.struct([field.with_type(child.type) for field, child in zip(t, children, strict=True)])
        return pa.Array.from_buffers(
            plain, len(array), [validity_buffer(valid_rows(array))], children=children
        )
    if t.num_fields and not pa.types.is_dictionary(t):
        lists = open_lists(array, _gatherable)
        return close_lists(_holding(t, lists.values.type), lists, "")
    return array


def _holding(t: pa.DataType, values: pa.DataType) -> pa.DataType:
    """Maps, or lists of one size or any, as `t` is, of other items."""
    if pa.types.is_map(t):
        key, item = (
            field.with_type(values.field(i).type) for i, field in enumerate((t.key_field, t.item_field))
        )
        return pa.map_(key, item)
    item = t.value_field.with_type(values)
    return pa.list_(item, t.list_size) if pa.types.is_fixed_size_list(t) else pa.large_list(item)


_GATHERED_AS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def encode_runs(values: pa.Array, t: pa.DataType, path: str) -> pa.Array:
    """`values` as run-end encoded type `t`: runs of equal bits, or one run per row for nested values."""
    if len(values) > 2 ** (t.run_end_type.bit_width - 1) - 1:
        raise LimitExceeded(f"column {path}: {len(values)} rows do not fit {t}: use smaller chunks")
    try:
        runs = pc.run_end_encode(_bits(values), run_end_type=t.run_end_type)
        ends, kept = runs.run_ends, runs.values.view(values.type)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        ends, kept = pa.array(np.arange(1, len(values) + 1), t.run_end_type), values
    return pa.RunEndEncodedArray.from_arrays(ends, kept, type=t)


def encode_dictionary(values: pa.Array, t: pa.DataType, path: str) -> pa.Array:
    """`values` as dictionary type `t`, entries in order of first appearance; nested values are not shared."""
    if isinstance(values.type, pa.BaseExtensionType):
        inner = encode_dictionary(values.storage, pa.dictionary(t.index_type, values.storage.type), path)
        entries = pa.ExtensionArray.from_storage(values.type, inner.dictionary)
        return pa.DictionaryArray.from_arrays(inner.indices, entries, ordered=t.ordered)
    try:
        encoded = _bits(values).dictionary_encode()
        indices, entries = encoded.indices, encoded.dictionary.view(values.type)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        valid = valid_rows(values)
        indices = pa.array(np.arange(len(values)), mask=None if valid is None else ~valid)
        entries = values
    try:
        indices = indices.cast(t.index_type)
    except pa.ArrowInvalid as error:
        raise LimitExceeded(f"column {path}: {len(entries)} distinct values do not fit {t}") from error
    return pa.DictionaryArray.from_arrays(indices, entries, ordered=t.ordered)


def _bits(values: pa.Array) -> pa.Array:
    """Floats as integers of their bits, so that -0.0, 0.0 and every NaN stay what they are."""
    if pa.types.is_floating(values.type):
        return values.view({16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[values.type.bit_width])
    return values


def convert_child(child: pa.Array, valid: Any, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """A struct's child, converted; `valid` tells which structs are not null.

    Behind a null struct `pa.array` names the first entry of a dictionary, also of an empty one. Raises
    `pa.ArrowIndexError` where an entry that is shown is not there.
    """
    try:
        return convert(child)
    except pa.ArrowIndexError:
        if valid is None:
            raise
        shown = convert(child.filter(pa.array(valid)))
        return shown.take(pa.array(np.cumsum(valid) - 1, mask=~valid))
