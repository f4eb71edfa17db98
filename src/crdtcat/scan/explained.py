"""A scan in words: what is pruned, what is merged, and what will be fetched, to the byte.

How many bytes a column of a chunk takes is in the footer of its segment and nowhere else. So whoever wants to
know it reads the footers first, and the scan that follows need not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from crdtcat.chunks.footer import Footer, SegmentRef
from crdtcat.chunks.footer_cache import FooterCache
from crdtcat.chunks.read import fetched_bytes, read_footer
from crdtcat.errors import Corrupt
from crdtcat.scan.execute import Wanted, threads_of
from crdtcat.scan.plan import Plan
from crdtcat.store import Store
from crdtcat.support.pools import ThreadPool


@dataclass(frozen=True, slots=True)
class Fetches:
    """What a scan asks its store for.

    Attributes:
        chunks: how many chunks in segments.
        in_memory: how many chunks that came with the head.
        segments: how many segments.
        bytes: of columns.
        footers: how many footers had to be read to know this.
        footer_bytes: what those took.
    """

    chunks: int
    in_memory: int
    segments: int
    bytes: int
    footers: int
    footer_bytes: int

    def __str__(self) -> str:
        read = f"; {self.footers:,} footers of {self.footer_bytes:,} bytes were read to know it"
        return (
            f"{self.bytes:,} bytes of {self.chunks:,} chunks in {self.segments:,} segments"
            f"{read if self.footers else ''}\n"
            f"           {self.in_memory:,} chunks already in memory, with the head"
        )


def fetches(plan: Plan, wanted: Iterable[Wanted], store: Store, footers: FooterCache) -> Fetches:
    """Exactly what will be fetched. One ranged GET for each footer that is not kept.

    Raises `Corrupt` where a segment is missing or its footer is damaged, as reading it would.
    """
    places, in_memory = _placed(plan, wanted)
    segments = {segment: plan.segment(segment) for segment, _ in places}
    refs = list(segments.values())
    missing = [ref for ref in refs if footers.get(ref) is None]
    with ThreadPool(max(1, min(threads_of(store), len(missing))), thread_name_prefix="crdtcat-scan") as pool:
        read = pool.map(lambda ref: read_footer(store, ref, footers), refs)
        footer_of = dict(zip(segments, read, strict=True))
    total = sum(
        _bytes_of(segments[segment], footer_of[segment], groups) for (segment, _), groups in places.items()
    )
    chunks = sum(len(groups) for groups in places.values())
    lengths = sum(ref.footer_length for ref in missing)
    return Fetches(chunks, in_memory, len(refs), total, len(missing), lengths)


def roughly(plan: Plan) -> str:
    """What can be said of that without a request, and without a look at every chunk."""
    log = plan.head.log
    segments = np.unique(log.place_segment[np.isin(log.place_chunk, plan.chunks)])
    size = int(log.segment_size[segments].sum(dtype=np.uint64))
    return f"from {len(segments):,} segments of {size:,} bytes in all; explain() says how many of them"


def explained(plan: Plan, fetches: object) -> str:
    """A plan in words, with what is known of what will be fetched."""
    head, decided = plan.head, int(plan.whole.sum())
    shown = ", ".join(column.name for column in plan.columns) or "(none)"
    more = [column.name for column in plan.needed[len(plan.columns) :]]
    also = f", and {', '.join(more)} for the filter" if more else ""
    needed = [column.name for column in plan.needed]
    merges = plan.merge is not None and plan.merge.groups
    keys = [name for name in head.settings.key if merges and name not in needed]
    also += f", and {', '.join(keys)} to merge by" if keys else ""
    content = int(head.log.nbytes[plan.chunks].sum(dtype=np.uint64))
    lines = [
        f"scan of {head.table} at snapshot {head.snapshot.id[:12]}",
        f"  columns: {shown}{also} ({len(needed) + len(keys)} of {len(head.columns.all)} read)",
        f"  filter:  {plan.filter if plan.filter is not None else '(none)'}",
        f"  chunks:  {len(plan.chunks):,} of {len(head.live):,} kept, {plan.pruned:,} pruned by statistics",
    ]
    if plan.filter is not None:
        row_by_row = len(plan.chunks) - decided
        lines.append(f"           {decided:,} of them match as a whole, {row_by_row:,} row by row")
    if plan.merge is not None:
        groups, straight = plan.merge.groups, int(plan.merge.straight.sum())
        merged = sum(len(group.chunks) for group in groups)
        lines.append(
            f"  merge:   {straight:,} chunks pass straight through, {merged:,} are merged by key "
            f"in {len(groups):,} groups"
        )
    lines += [
        f"  rows:    at most {plan.rows:,} of {head.row_count:,}",
        f"  fetch:   {fetches}",
        f"  content: {content:,} bytes of Arrow if all columns were read",
    ]
    return "\n".join(lines)


_Places = dict[tuple[int, int | None], dict[int, dict[str, None]]]
"""Per segment and read, per row group, the columns. Chunks of equal content may have one place."""


def _placed(plan: Plan, wanted: Iterable[Wanted]) -> tuple[_Places, int]:
    """Where what is wanted lies, and how many chunks lie in version files."""
    places: _Places = {}
    in_memory = set()
    for number, chunk, names in wanted:
        where = plan.places(chunk)
        if not where:
            in_memory.add(chunk)
        elif names:
            segment, group = where[0]
            read = places.setdefault((segment, number), {})
            read.setdefault(group, {}).update(dict.fromkeys(names))
    return places, len(in_memory)


def _bytes_of(ref: SegmentRef, footer: Footer, groups: dict[int, dict[str, None]]) -> int:
    number = {name: at for at, name in enumerate(footer.names)}
    for group, names in groups.items():
        if group >= len(footer.places) or not names.keys() <= number.keys():
            raise Corrupt(ref.name, f"no row group {group} with columns {', '.join(names)}")
    wanted = [footer.places[group][number[name]] for group, names in groups.items() for name in names]
    return fetched_bytes((place.start, place.stop) for place in wanted)
