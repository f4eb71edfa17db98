"""Verified reads: exactly the byte ranges wanted, checked, decoded.

A read of some columns of some row groups fetches the segment's footer (one ranged GET, kept in a
`FooterCache`) and then the wanted column chunks: ranges that touch become one, nothing else is fetched but
the four magic bytes before the first. Everything wanted of a small file is fetched in one request.

The chain of trust, by depth of `verify`:

- always: the footer matches the digest in the version, and the hashes of all columns of a row group, as the
  footer lists them, give the chunk hash in the version. Next to no cost.
- "bytes" (or `True`): the encoded bytes of each column match their BLAKE3 hash in the footer, before the
  decoder sees them. So whatever happened to the file since it was written is noticed, and cannot crash the
  decoder. Costs about 5 % of a read, since encoded bytes are few.
- "content": the decoded columns also match their canonical hashes, so that a wrong writer or a wrong decoder
  is noticed too. Costs about a third more.

Damage of any kind raises `Corrupt` with the segment's name; it is never returned as data.

Nothing is written here, and nothing is known of tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from crdtcat.chunks.decode import Decoder, Verify, decode_groups, decoded
from crdtcat.chunks.footer import MAGIC, Footer, SegmentRef, decode_footer
from crdtcat.chunks.footer_cache import FooterCache
from crdtcat.errors import Corrupt, InvalidArgument
from crdtcat.store import Missing, Range, Store
from crdtcat.support.object_bytes import ObjectBytes

__all__ = [
    "WHOLE_FILE_BYTES",
    "FooterCache",
    "Group",
    "SegmentRef",
    "Verify",
    "fetch",
    "fetch_chunks",
    "fetched_bytes",
    "footer_start",
    "read_chunks",
    "read_footer",
]

Group = tuple[int, bytes]
"""A row group's number and the hash of the chunk that must be in it."""
WHOLE_FILE_BYTES = 4 * 2**20
"""Up to this size, a file of which everything is wanted is fetched in one request."""


def read_footer(store: Store, ref: SegmentRef, footers: FooterCache) -> Footer:
    """A segment's footer, checked. Cost: one ranged GET, or none if it is in the cache.

    Raises:
        Corrupt: missing, truncated or damaged.
    """
    footer = footers.get(ref)
    if footer is not None:
        return footer
    with footers.one_at_a_time(ref):
        footer = footers.get(ref)
        if footer is None:
            (tail,) = fetch(store, ref, [(footer_start(ref), ref.size)])
            footer = decode_footer(ref, tail)
            footers.put(ref, footer)
    return footer


def read_chunks(
    store: Store,
    ref: SegmentRef,
    groups: Sequence[Group],
    columns: Sequence[str] | None = None,
    *,
    verify: Verify = True,
    footers: FooterCache,
    threads: int | None = None,
    everything: bool = False,
) -> list[pa.Table]:
    """The chunks in some row groups of a segment, in the order asked for, in storage types.

    Cost, arguments and errors: as `fetch_chunks`. `threads`: how many to decode with; by default the number
    of processors, if there is enough to do. Memory: the encoded bytes wanted, up to twice, and what they
    decode to.
    """
    decoder = _fetched(store, ref, groups, columns, verify=verify, footers=footers, everything=everything)
    return decode_groups(decoder, [number for number, _ in groups], threads)


def fetch_chunks(
    store: Store,
    ref: SegmentRef,
    groups: Sequence[Group],
    columns: Sequence[str] | None = None,
    *,
    verify: Verify = True,
    footers: FooterCache,
    raw: bool = False,
    everything: bool = False,
) -> Iterator[pa.Table]:
    """As `read_chunks`: all that is wanted is fetched now, and each chunk decoded when it is asked for.

    Cost: at most one GET for the footer, and one for each run of wanted column chunks that touch in the
    file; one in all for `everything` in a small file whose footer is not known.

    Args:
        store: where the segment is.
        ref: which segment.
        groups: row group numbers, each with the hash of the chunk expected there.
        columns: names of the columns wanted, in this order; `None` means all.
        verify: `False`, "bytes" (`True` means this) or "content"; see the module's docstring.
        footers: where footers are kept from one call to the next.
        raw: leave text columns with few different values as dictionary arrays, others with wide offsets.
        everything: whether these are all row groups and columns there are, as far as the caller knows.

    Raises:
        Corrupt: the segment is missing, truncated, damaged, or holds other chunks than expected; bytes that
            are damaged are told when they are decoded.
        InvalidArgument: a column the segment does not have.
    """
    decoder = _fetched(
        store, ref, groups, columns, verify=verify, footers=footers, raw=raw, everything=everything
    )
    return decoded(decoder, [number for number, _ in groups])


def _fetched(
    store: Store,
    ref: SegmentRef,
    groups: Sequence[Group],
    columns: Sequence[str] | None,
    *,
    verify: Verify,
    footers: FooterCache,
    raw: bool = False,
    everything: bool,
) -> Decoder:
    whole: ObjectBytes | None = None
    if everything and ref.size <= WHOLE_FILE_BYTES and footers.get(ref) is None:
        (whole,) = fetch(store, ref, [(0, ref.size)])
        footers.put(ref, decode_footer(ref, memoryview(whole)[footer_start(ref) :]))
    footer = read_footer(store, ref, footers) if whole is None else _cached(footers, ref, whole)
    _check_groups(ref, footer, groups)
    wanted = _column_numbers(ref, footer, columns)
    if whole is not None:
        data = pa.py_buffer(whole)
    else:
        places = [footer.places[group][column] for group, _ in groups for column in wanted]
        data = _fetch_sparse(store, ref, [(place.start, place.stop) for place in places])
    return Decoder(ref, footer, data, wanted, verify=verify, raw=raw)


def _cached(footers: FooterCache, ref: SegmentRef, whole: ObjectBytes) -> Footer:
    """The footer just put, or parsed again if the cache is too small for it."""
    return footers.get(ref) or decode_footer(ref, memoryview(whole)[footer_start(ref) :])


def footer_start(ref: SegmentRef) -> int:
    """Where a segment's footer begins. Raises `Corrupt` where the log says something impossible."""
    start = ref.size - ref.footer_length
    if ref.footer_length <= 0 or start < len(MAGIC):
        raise Corrupt(ref.name, f"a footer of {ref.footer_length} bytes does not fit a file of {ref.size}")
    return start


def _check_groups(ref: SegmentRef, footer: Footer, groups: Sequence[Group]) -> None:
    for number, expected in groups:
        if not 0 <= number < len(footer.rows):
            raise Corrupt(ref.name, f"no row group {number}: there are {len(footer.rows)}")
        if footer.chunk_hash(number) != expected:
            raise Corrupt(ref.name, f"row group {number} is not chunk {expected.hex()}")


def _column_numbers(ref: SegmentRef, footer: Footer, columns: Sequence[str] | None) -> list[int]:
    if columns is None:
        return list(range(len(footer.names)))
    numbers = {name: number for number, name in enumerate(footer.names)}
    unknown = [name for name in columns if name not in numbers]
    if unknown:
        raise InvalidArgument(f"{ref.name} has no column {', '.join(unknown)}; it has {list(footer.names)}")
    return [numbers[name] for name in columns]


def fetch(store: Store, ref: SegmentRef, ranges: Sequence[tuple[int, int]]) -> list[ObjectBytes]:
    """Bytes of a segment. Raises `Corrupt` if it is missing or shorter than it should be."""
    wanted: list[Range] = [(ref.name, start, stop) for start, stop in ranges]
    answers: list[ObjectBytes | None]
    try:
        answers = store.get_many(wanted) if len(wanted) != 1 else [store.get(*wanted[0])]
    except Missing:
        answers = [None]
    fetched = []
    for answer, (start, stop) in zip(answers, ranges, strict=True):
        if answer is None:
            raise Corrupt(ref.name, "missing: the store has no such object")
        if len(answer) != stop - start:
            raise Corrupt(ref.name, f"truncated: {len(answer)} of {stop - start} bytes from {start} on")
        fetched.append(answer)
    return fetched


def _fetch_sparse(store: Store, ref: SegmentRef, ranges: Iterable[tuple[int, int]]) -> pa.Buffer:
    """A buffer in which the given ranges of the file are filled in at their places.

    The rest is memory that was never touched, so it costs address space only.
    """
    runs = _coalesce(ranges)
    if not runs:
        return pa.py_buffer(b"")
    if len(runs) == 1 and runs[0][0] == 0:
        return pa.py_buffer(fetch(store, ref, runs)[0])
    sparse = np.empty(runs[-1][1], np.uint8)
    if not store.get_into(sparse.data, ref.name, runs):
        for (start, stop), part in zip(runs, fetch(store, ref, runs), strict=True):
            sparse[start:stop] = np.frombuffer(part, np.uint8)
    return pa.py_buffer(sparse)


def fetched_bytes(ranges: Iterable[tuple[int, int]]) -> int:
    """How many bytes are fetched of a segment for some of its column chunks."""
    return sum(stop - start for start, stop in _coalesce(ranges))


def _coalesce(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted runs of ranges that touch. One that begins right after the magic takes it along, so that
    reading a whole file needs no copy."""
    runs: list[tuple[int, int]] = []
    for start, stop in sorted(set(ranges)):
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(stop, runs[-1][1]))
        else:
            runs.append((0 if start == len(MAGIC) else start, stop))
    return runs
