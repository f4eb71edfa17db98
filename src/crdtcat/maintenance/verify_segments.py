"""Verification of a log's segments: are they there, are their bytes and values what was written, and which
rows rest on those that are not?

Segments are looked at side by side by a few threads, each in pieces, so memory does not grow with the table.
Rows are affected by a damaged place only where no other place of their chunk is good.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Final

import numpy as np

from crdtcat.chunks.check import EVERYTHING, NOTHING, Damage, Expected, check_segment
from crdtcat.chunks.footer import SegmentRef
from crdtcat.chunks.inline import decode_inline
from crdtcat.chunks.segment import segment_name
from crdtcat.errors import Corrupt, DataError
from crdtcat.format.sections import Array
from crdtcat.log import Log
from crdtcat.maintenance.progress import Progress, Tell
from crdtcat.maintenance.verify_report import Depth, Problem
from crdtcat.protocol import version_name
from crdtcat.store import Store
from crdtcat.support.pools import ThreadPool

THREADS: Final = 4  # each holds one piece of a segment
WAITING: Final = 4 * THREADS  # segments handed out before the first of them is done


class SegmentCheck:
    """Checks every segment of a log once.

    Args:
        store: where they are.
        log: what refers to them.
        table: its name, for progress.
        folder: of the log, for the names of versions.
        tell: takes progress.

    Attributes:
        bytes: how many bytes were read.
    """

    def __init__(self, store: Store, log: Log, *, table: str, folder: str, tell: Tell) -> None:
        self._store, self._log, self._table, self._folder, self._tell = store, log, table, folder, tell
        titles = log.segment_name.tobytes()
        self._names = [
            segment_name(titles[at : at + 16], titles[at + 16 : at + 24]) for at in range(0, len(titles), 24)
        ]
        self._order = np.argsort(log.place_segment, kind="stable")
        self._starts = np.searchsorted(log.place_segment[self._order], np.arange(len(self._names) + 1))
        self._damage: dict[int, list[Damage]] = {}
        self.bytes = 0

    def run(self, depth: Depth, alive: Array) -> list[Problem]:
        """Every segment, and with "content" every inlined chunk, that is not what it should be.

        Costs one LIST page per 1,000 objects of each folder of `data/` that holds one of them; below
        "metadata" one GET per segment of up to 8 MiB, and one per 8 MiB of larger ones.
        """
        self._check_sizes()
        if depth != "metadata":
            self.check_bytes(content=depth == "content")
        return [*self._segment_problems(alive), *self._inline_problems(alive, content=depth == "content")]

    def _check_sizes(self) -> None:
        numbers = {name: number for number, name in enumerate(self._names)}
        sizes = np.full(len(self._names), -1, np.int64)
        folders = sorted({f"{name.rpartition('/')[0]}/" for name in self._names})

        def look(folder: str) -> list[tuple[int, int]]:
            found = ((numbers.get(item.name), item.size) for item in self._store.list(folder))
            return [(number, size) for number, size in found if number is not None]

        with ThreadPool(THREADS, thread_name_prefix="crdtcat-verify") as pool:
            for done, found in enumerate(pool.map(look, folders), start=1):
                for number, size in found:
                    sizes[number] = size
                self._tell(Progress(f"verify {self._table}", done, len(folders), "folders of segments"))
        wanted = self._log.segment_size.astype(np.int64)
        for number in np.flatnonzero(sizes != wanted).tolist():
            size, should = int(sizes[number]), int(wanted[number])
            if size < 0:
                damage = Damage(EVERYTHING, "missing: the store has no such object")
            else:
                why = f"{size:,} bytes long, where {should:,} were written"
                damage = Damage(EVERYTHING if size < should else NOTHING, why)
            self._damage[number] = [damage]

    def readable(self) -> list[int]:
        """The segments that are there, by number."""
        return [
            number
            for number in range(len(self._names))
            if not any(damage.group == EVERYTHING for damage in self._damage.get(number, ()))
        ]

    def note(self, number: int, found: Sequence[Damage], size: int) -> None:
        """Remember what was found wrong with a segment, and how much was read."""
        self.bytes += size
        if found:
            self._damage.setdefault(number, []).extend(found)

    def check_bytes(self, *, content: bool) -> None:
        """Look into every segment that is there, in threads; other engines do it their own way."""
        todo = self.readable()
        done = 0
        running: deque[tuple[int, Future[tuple[list[Damage], int]]]] = deque()

        def finish() -> None:
            number, future = running.popleft()
            self.note(number, *future.result())
            what, damaged = f"verify {self._table}", len(self._damage)
            self._tell(Progress(what, done, len(todo), "segments", self.bytes, damaged))

        with ThreadPool(THREADS, thread_name_prefix="crdtcat-verify") as pool:
            try:
                for number in todo:
                    running.append((number, pool.submit(self._look, number, content=content)))
                    if len(running) >= WAITING:
                        done += 1
                        finish()
                while running:
                    done += 1
                    finish()
            finally:
                for _, future in running:
                    future.cancel()

    def _look(self, number: int, *, content: bool) -> tuple[list[Damage], int]:
        """What is wrong with a segment, and how many bytes were read to find out."""
        sizes: list[int] = []
        found = check_segment(self._store, *self.expected(number), content=content, looked_at=sizes.append)
        return found, sum(sizes)

    def expected(self, number: int) -> tuple[SegmentRef, list[Expected]]:
        """A segment, and what the log says is in it."""
        log = self._log
        ref = SegmentRef(
            self._names[number],
            int(log.segment_size[number]),
            int(log.segment_footer[number]),
            log.segment_digest[number].tobytes(),
        )
        places = self._places(number)
        expected = [
            Expected(int(log.place_group[at]), log.hash[chunk].tobytes(), int(log.rows[chunk]))
            for at, chunk in zip(places.tolist(), log.place_chunk[places].tolist(), strict=True)
        ]
        return ref, expected

    def _places(self, segment: int) -> Array:
        """Where in the log's places those of a segment are."""
        found: Array = self._order[self._starts[segment] : self._starts[segment + 1]]
        return found

    def _segment_problems(self, alive: Array) -> Iterator[Problem]:
        log = self._log
        bad = np.zeros(len(log.place_chunk), bool)
        for number, damages in self._damage.items():
            places = self._places(number)
            groups = [damage.group for damage in damages]
            bad[places] |= np.isin(log.place_group[places], groups) | (EVERYTHING in groups)
        lost = np.zeros(log.chunk_count, bool)
        lost[log.place_chunk[bad]] = True
        lost[log.place_chunk[~bad]] = False  # another place is good
        for number in sorted(self._damage, key=lambda number: self._names[number]):
            places = self._places(number)
            chunks = np.unique(log.place_chunk[places[bad[places]]])
            chunks = chunks[lost[chunks]]
            why = _together(self._damage[number])
            yield Problem(self._names[number], why, *_rows(log, chunks, alive))

    def _inline_problems(self, alive: Array, *, content: bool) -> Iterator[Problem]:
        log = self._log
        stored = np.zeros(log.chunk_count, bool)
        stored[log.place_chunk] = True
        let_go = log.is_folded[log.chunk_version] & ~alive  # by an expiry: nothing reads them any more
        for chunk in np.flatnonzero(~stored & ~let_go).tolist():
            version = int(log.chunk_version[chunk])
            id, hash = log.id_at(version), log.hash[chunk].tobytes()
            name = version_name(self._folder, id)
            data = log.inline.get((id.to_bytes(), chunk - int(log.chunk_start[version])))
            try:
                if data is None:
                    raise Corrupt(name, f"chunk {hash.hex()} has no place to be read from")
                if content:
                    rows = decode_inline(data, name, hash, verify=True).num_rows
                    if rows != int(log.rows[chunk]):
                        raise Corrupt(name, f"holds {rows:,} rows, and says {int(log.rows[chunk]):,}")
            except DataError as error:
                why = error.why if isinstance(error, Corrupt) else str(error)
                yield Problem(name, why, *_rows(log, np.array([chunk]), alive))


def _together(damages: Sequence[Damage]) -> str:
    first = damages[0].why
    return first if len(damages) == 1 else f"{first}; and {len(damages) - 1:,} more like it"


def _rows(log: Log, chunks: Array, alive: Array) -> tuple[int, int]:
    """Rows of chunks that are in the table now, and of those that are not."""
    rows, living = log.rows[chunks], alive[chunks]
    return int(rows[living].sum()), int(rows[~living].sum())
