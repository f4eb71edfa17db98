"""Keys of rows in segments, read where two commits may have touched the same and their files do not tell.

A version's file has the range of keys of each chunk in a segment. Where the ranges of mine and theirs are
apart nothing is read. Where they meet, the key columns of those chunks are, of both sides and nothing else of
them, so that writers on keys of their own pass each other however their keys lie. Above `KEY_ROWS_MAX` rows
that is too dear, and ranges decide, which may find a conflict that is none and never miss one; so they do for
segments of theirs that cannot be read. The conflict then says that it is not exact, and why. A segment of
mine that cannot be read is an error: what would be committed is not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from crdtcat.chunks.read import FooterCache, read_chunks
from crdtcat.conflicts import WriteSet
from crdtcat.conflicts.keys import KeyPart, Keys, KeySource, meeting
from crdtcat.errors import Corrupt
from crdtcat.limits import KEY_ROWS_MAX

if TYPE_CHECKING:
    from crdtcat.session import Session


class KeyReader:
    """Reads keys for one commit, each once. What it has read of others is kept only while it judges them.

    Args:
        session: whose store, and which columns are the key.
    """

    def __init__(self, session: Session) -> None:
        self._store, self._key = session.store, session.settings.key
        self._verify, self._footers = session.options.verify, FooterCache()
        self._mine: dict[KeySource, Keys] = {}

    def exact(self, mine: WriteSet, theirs: WriteSet, *, deletes: bool) -> tuple[WriteSet, WriteSet]:
        """Both, with the keys of chunks that may share some. Nothing is read where ranges tell, nor of keys
        that both delete, unless somebody minds that (`deletes`).

        Else one GET for the footer of each segment, and one for each run of key columns in it; those of mine
        once. Where that is too much, or a segment of theirs is damaged or gone, ranges stay, and say why.

        Raises:
            StoreUnavailable: the store gives no answer.
            Corrupt: a segment of mine is damaged or gone.
        """
        if mine.ops.is_overwrite:  # compared by scope
            return mine, theirs
        unsure = [pair for pair in meeting(mine.keys, theirs.keys) if _matters(*pair, deletes=deletes)]
        ours = _unknown([pair[0] for pair in unsure])
        others = _unknown([pair[1] for pair in unsure])
        if not ours and not others:
            return mine, theirs
        count = sum(source.rows for source in (*ours, *others))
        if count > KEY_ROWS_MAX:
            why = f"{count:,} keys to be compared, at most {KEY_ROWS_MAX:,} are (KEY_ROWS_MAX)"
            return _known(mine, {}, dict.fromkeys(ours, why)), _known(theirs, {}, dict.fromkeys(others, why))
        for those in _by_segment(source for source in ours if source not in self._mine):
            self._mine |= self._read(those)
        found: dict[KeySource, Keys] = dict(self._mine)
        lost: dict[KeySource, str] = {}
        for those in _by_segment(others):
            try:
                found |= self._read(those)
            except Corrupt as error:
                lost |= dict.fromkeys(those, f"keys could not be read: {error.name}: {error.why}")
        return _known(mine, found, lost), _known(theirs, found, lost)

    def _read(self, those: Sequence[KeySource]) -> dict[KeySource, Keys]:
        """Keys of chunks of one segment."""
        tables = read_chunks(
            self._store,
            those[0].segment,
            [(source.group, source.hash) for source in those],
            self._key,
            verify=self._verify,
            footers=self._footers,
        )
        columns = (tuple(column.combine_chunks() for column in table.columns) for table in tables)
        return dict(zip(those, columns, strict=True))


def _by_segment(sources: Iterable[KeySource]) -> list[list[KeySource]]:
    found: dict[str, list[KeySource]] = {}
    for source in sources:
        found.setdefault(source.segment.name, []).append(source)
    return list(found.values())


def key_reader(session: Session) -> KeyReader | None:
    """One for a commit to a keyed table; `None` for a table without a key."""
    return KeyReader(session) if session.settings.key else None


def _matters(mine: KeyPart, theirs: KeyPart, *, deletes: bool) -> bool:
    """Whether they would be a conflict, had they a key in common, and their files do not tell whether."""
    if mine.gone and theirs.gone and not deletes:
        return False
    named = {column.name for column in theirs.columns}
    if not mine.gone and not theirs.gone and not any(column.name in named for column in mine.columns):
        return False
    return mine.exact is None or theirs.exact is None


def _unknown(parts: Sequence[KeyPart]) -> list[KeySource]:
    found = (part.source for part in parts if part.exact is None)
    return list(dict.fromkeys(source for source in found if source is not None))


def _known(writes: WriteSet, found: Mapping[KeySource, Keys], lost: Mapping[KeySource, str]) -> WriteSet:
    """With the keys that were read, and why others were not."""

    def known(part: KeyPart) -> KeyPart:
        if part.source is None or part.exact is not None:
            return part
        return replace(part, exact=found.get(part.source), unread=lost.get(part.source, part.unread))

    return replace(writes, keys=tuple(map(known, writes.keys)))
