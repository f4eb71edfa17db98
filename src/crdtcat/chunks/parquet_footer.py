"""One Parquet footer for row groups that were written as several files, or that are some of one.

Parquet's writer works in order, on one core. Row groups know nothing of each other, though: written by
several threads into files of their own and laid end to end, all that is wrong is where the footers say they
lie. So the footers are joined here: the lists of row groups one after the other, every offset in them moved
by where the rows went, everything else as the first one says it.

Row groups of somebody else's file become a file of their own in the same way (`picked_footer`): some of
them, each moved, without what lies outside row groups or speaks of the whole file.

A footer is a Thrift struct in the compact protocol. Only what has to change is looked into; all else is
copied as bytes, so fields of releases to come survive. Page indexes and Bloom filters lie outside row groups,
and are refused where footers are joined: segments have none.

Cost: one pass, about 15 microseconds for each column of each row group. No I/O here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_SHORT_LIST: Final = 15
_FILE_ROWS, _FILE_GROUPS, _FILE_NOTES, _FILE_ENCRYPTION = 3, 4, 5, 8
_GROUP_ROWS: Final = 3
_OFFSET, _ORDINAL, _NEVER = "offset", "ordinal", "never"
_Plan = Mapping[int, "str | _Plan"]
_PAGES: Final[_Plan] = {9: _OFFSET, 10: _OFFSET, 11: _OFFSET, 14: _NEVER, 15: _NEVER}
"""ColumnMetaData: data_page_offset, index_page_offset, dictionary_page_offset, then the Bloom filter's."""
_COLUMN: Final[_Plan] = {2: _OFFSET, 3: _PAGES, 4: _NEVER, 5: _NEVER, 6: _NEVER, 7: _NEVER}
"""ColumnChunk: file_offset, meta_data, offset_index_offset, _length, column_index_offset, _length."""
_GROUP: Final[_Plan] = {1: _COLUMN, 5: _OFFSET, 7: _ORDINAL}
"""RowGroup: columns, file_offset, ordinal."""


def joined_footer(footers: Sequence[bytes], moved: Sequence[int]) -> bytes:
    """The footer of a file that has the row groups of several, each `moved` by so many bytes.

    Args:
        footers: the Thrift structs, without length and magic; of one schema.
        moved: for each, how much further its row groups lie than it says.

    Raises `ValueError` for footers with indexes or filters, or that are no footers.
    """
    groups, rows, count = bytearray(), 0, 0
    for footer, shift in zip(footers, moved, strict=True):
        for id, kind, start, _ in _fields(footer, 0, last=_FILE_GROUPS):
            if id == _FILE_ROWS:
                rows += _unzigzag(_varint(footer, start)[0])
            elif id == _FILE_GROUPS and kind == _LIST:
                more, _, at = _list_header(footer, start)
                for ordinal in range(count, count + more):
                    at = _rewrite(footer, at, _GROUP, shift, ordinal, groups)
                count += more
    first, whole = footers[0], bytearray()
    done = 0
    for id, _, start, end in _fields(first, 0):
        if id == _FILE_ROWS:
            whole += first[done:start] + _to_varint(_zigzag(rows))
            done = end
        elif id == _FILE_GROUPS:
            whole += first[done:start] + _to_list_header(count) + groups
            done = end
    return bytes(whole + first[done:])


def picked_footer(footer: bytes, picks: Sequence[tuple[int, int]]) -> bytes:
    """The footer of a file that has some row groups of another, each moved.

    Page indexes and Bloom filters are left out, and so are notes of whoever wrote the file.

    Args:
        footer: the Thrift struct, without length and magic.
        picks: the row groups, and how much further each lies than `footer` says.

    Raises `ValueError` for a footer of an encrypted file, or that is none.
    """
    found = {id: (kind, start, end) for id, kind, start, end in _fields(footer, 0)}
    if _FILE_ENCRYPTION in found:
        raise ValueError("the file is encrypted")
    count, _, at = _list_header(footer, found[_FILE_GROUPS][1])
    starts = []
    for _ in range(count):
        starts.append(at)
        at = _skip(footer, at, _STRUCT)
    groups, rows = bytearray(), 0
    for ordinal, (group, shift) in enumerate(picks):
        _rewrite(footer, starts[group], _GROUP, shift, ordinal, groups, leave_out=True)
        counts = (begin for id, _, begin, _ in _fields(footer, starts[group]) if id == _GROUP_ROWS)
        rows += _unzigzag(_varint(footer, next(counts))[0])
    whole, last = bytearray(), 0
    for id, (kind, start, end) in found.items():
        if id == _FILE_NOTES:
            continue
        whole += _header(id, kind, last)
        last = id
        if id == _FILE_ROWS:
            whole += _to_varint(_zigzag(rows))
        elif id == _FILE_GROUPS:
            whole += _to_list_header(len(picks)) + groups
        else:
            whole += footer[start:end]
    return bytes(whole) + b"\0"


def _rewrite(  # noqa: PLR0917 (all of them say how one struct changes)
    data: bytes, at: int, plan: _Plan, shift: int, ordinal: int, out: bytearray, *, leave_out: bool = False
) -> int:
    """Copy the struct at `at` to `out`, changed as `plan` says, in one pass. Gives where it ends."""
    id = last = 0
    while data[at]:
        id, kind, at = _field(data, at, id)
        change = plan.get(id)
        if change == _NEVER:
            if not leave_out:
                raise ValueError("row groups with page indexes or Bloom filters cannot be joined")
            at = _skip(data, at, kind)
            continue
        out += _header(id, kind, last)
        last = id
        if change is None:
            end = _skip(data, at, kind)
            out += data[at:end]
            at = end
        elif isinstance(change, str):
            number, at = _varint(data, at)
            offset = _unzigzag(number)
            moved = offset + shift if offset else 0  # 0 stands for not known
            out += _to_varint(_zigzag(ordinal if change == _ORDINAL else moved))
        elif kind == _LIST:
            count, _, each = _list_header(data, at)
            out += data[at:each]
            at = each
            for _ in range(count):
                at = _rewrite(data, at, change, shift, ordinal, out, leave_out=leave_out)
        else:
            at = _rewrite(data, at, change, shift, ordinal, out, leave_out=leave_out)
    out.append(0)
    return at + 1


def _header(id: int, kind: int, last: int) -> bytes:
    """How a field begins: by how far its number is from that of the one before."""
    if 0 < id - last < 16:
        return bytes([(id - last) << 4 | kind])
    return bytes([kind]) + _to_varint(_zigzag(id))


def _fields(data: bytes, at: int, *, last: int | None = None) -> Iterator[tuple[int, int, int, int]]:
    """The fields of the struct at `at`: number, type, and where the value begins and ends.

    With `last`, those up to the one of that number, whose end is not looked for.
    """
    id = 0
    while data[at]:
        id, kind, at = _field(data, at, id)
        end = at if id == last else _skip(data, at, kind)
        yield id, kind, at, end
        if id == last:
            return
        at = end


def _field(data: bytes, at: int, before: int) -> tuple[int, int, int]:
    """The header of a field: its number, its type, and where its value begins."""
    kind, step = data[at] & 15, data[at] >> 4
    if step:
        return before + step, kind, at + 1
    number, at = _varint(data, at + 1)
    return _unzigzag(number), kind, at


def _skip(data: bytes, at: int, kind: int) -> int:
    """Where the value of a field ends that begins at `at`."""
    if _I16 <= kind <= _I64:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == _BINARY:
        size, at = _varint(data, at)
        return at + size
    if kind == _STRUCT:
        while byte := data[at]:
            at = at + 1 if byte > 15 else _varint(data, at + 1)[1]
            at = _skip(data, at, byte & 15)
        return at + 1
    if kind in (_LIST, _SET):
        count, inside, at = _list_header(data, at)
        for _ in range(count):
            at = at + 1 if inside in (_TRUE, _FALSE) else _skip(data, at, inside)
        return at
    if kind in (_TRUE, _FALSE):
        return at
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    raise ValueError(f"not a Parquet footer: a value of kind {kind}")


def _list_header(data: bytes, at: int) -> tuple[int, int, int]:
    count, kind = data[at] >> 4, data[at] & 15
    at += 1
    if count == _SHORT_LIST:
        count, at = _varint(data, at)
    return count, kind, at


def _to_list_header(count: int) -> bytes:
    if count < _SHORT_LIST:
        return bytes([count << 4 | _STRUCT])
    return bytes([_SHORT_LIST << 4 | _STRUCT]) + _to_varint(count)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7


def _to_varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _unzigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)
