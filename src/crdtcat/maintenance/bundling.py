"""Publishing a bundle, and choosing what it takes in.

Bundles form a log-structured merge. A new bundle takes in, from the smallest up, every live bundle that is
less than `RATIO` times what has been gathered so far. Each bundle left is then at least `RATIO` times the
next, so there are at most log base RATIO of n of them: under 2 log8 n. A version is copied each time its
bundle is taken in: O(log n) times in all.

Two that bundle the same versions at once publish two bundles; coverage is an exact set of ids, so a reader
of both has every version once, and the next bundle takes in both. A bundle of `BUNDLE_VERSIONS_MAX` is left
alone: that bounds memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from crdtcat.drive import run
from crdtcat.errors import StoreUnavailable
from crdtcat.format.frame import digest
from crdtcat.log import Log, Summary, encode_bundle
from crdtcat.protocol import Outcome, Publish, Put, bundle_name, bundle_rank, is_base
from crdtcat.session import Session
from crdtcat.writing.inlined import moved_to_segments

RATIO: Final = 3
BUNDLE_VERSIONS_MAX: Final = 1_000_000
INLINE_BYTES_AT_ONCE: Final = 64 * 2**20  # rows moved to segments in one go: bounds memory


@dataclass(frozen=True)
class CheckpointResult:
    """What bundling did.

    Attributes:
        versions: versions in the new bundle; 0 where there was nothing to do.
        newly_covered: how many of them no bundle covered before.
        replaced: bundles it takes the place of.
        bytes: its size.
        segments: segments written for rows that had been inlined.
        name: the new bundle's name.
        seconds: how long it took.
    """

    versions: int = 0
    newly_covered: int = 0
    replaced: int = 0
    bytes: int = 0
    segments: int = 0
    name: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        if not self.versions:
            return "checkpoint: every version is in a bundle already"
        return (
            f"checkpoint: {self.versions:,} versions in one bundle of {self.bytes:,} bytes "
            f"({self.newly_covered:,} newly covered, {self.replaced} bundles replaced, "
            f"{self.segments} segments written) in {self.seconds:.2f} s"
        )


def live_bundles(summaries: dict[str, Summary]) -> dict[str, Summary]:
    """Those bundles that no other replaces."""
    gone = {name for summary in summaries.values() for name in summary.replaces}
    return {name: summary for name, summary in summaries.items() if name not in gone}


def taken_in(live: dict[str, Summary], gathered: int) -> list[str]:
    """The bundles that a new one of `gathered` versions takes in, smallest first."""
    taken: list[str] = []
    bundles = [name for name in live if not is_base(name)]
    for name in sorted(bundles, key=lambda name: (live[name].versions, name)):
        size = live[name].versions
        if size >= RATIO * gathered or size + gathered > BUNDLE_VERSIONS_MAX:
            break
        taken.append(name)
        gathered += size
    return taken


def publish_bundle(
    session: Session, log: Log, replaces: Iterable[str], taken: Sequence[str]
) -> CheckpointResult:
    """Store a bundle of `log`: one PUT, and one before it for each segment of rows that were inlined.

    Raises:
        StoreUnavailable: nothing was published, or nobody knows; either way nothing is lost.
    """
    moved = moved_to_segments(log)
    data = encode_bundle(moved.log, session.folder, sorted(replaces))
    rank = 1 + max(map(bundle_rank, taken), default=0)
    name = bundle_name(session.folder, rank, digest(data), int(log.number.max(initial=0)))
    outcome = run(Publish((*moved.puts, Put(name, data))), session.store).outcome
    if outcome is not Outcome.DONE:
        raise StoreUnavailable(f"{name}: the bundle could not be stored; nothing is lost, try again later")
    return CheckpointResult(
        versions=len(moved.log), replaced=len(taken), bytes=len(data), segments=len(moved.puts), name=name
    )
