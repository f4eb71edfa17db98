"""What the bundles of a log are about, from the first few kilobytes of each, remembered by the session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from crdtcat.errors import Corrupt
from crdtcat.log import Summary, read_summary
from crdtcat.session import Session

SUMMARY_BYTES: Final = 16 * 1024  # enough for the summary of a bundle that replaces a hundred others


def summaries_of(session: Session, names: Sequence[str]) -> dict[str, Summary]:
    """Summaries of the bundles `names`. One small GET for each not seen before.

    A bundle's name never stands for other content, so what is known stays true. One whose summary is longer
    than we look, or damaged, is left out: that costs work, never rows.
    """
    seen = session.summaries  # never changed, only replaced: other threads may be reading it
    known = {name: seen[name] for name in names if name in seen}
    unknown = [name for name in names if name not in known]
    answers = session.store.get_many([(name, 0, SUMMARY_BYTES) for name in unknown])
    for name, data in zip(unknown, answers, strict=True):
        if data is not None:
            try:
                known[name] = read_summary(data, name)
            except Corrupt:
                continue
    session.summaries = known
    return known
