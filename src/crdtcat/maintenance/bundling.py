"""Making bundles of logs: what `crdtcat.protocol.bundler` publishes, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from crdtcat.cas.cold_claims import to_be_followed
from crdtcat.drive import Unclear, cause, reason, run
from crdtcat.errors import StoreUnavailable
from crdtcat.format.frame import digest
from crdtcat.log import Log, State, Summary, encode_bundle
from crdtcat.protocol import Outcome, Publish, Put, bundle_name, is_bundle, is_claim
from crdtcat.protocol.bundler import Bundler, Made, P, rank_above, replaced_by
from crdtcat.protocol.names import is_decision
from crdtcat.session import Session
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.writing.inlined import moved_to_segments

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

    def then(self, next: CheckpointResult) -> CheckpointResult:
        """This and the bundle after it, which may have taken this one in."""
        return replace(
            next,
            newly_covered=self.newly_covered + next.newly_covered,
            replaced=self.replaced + next.replaced,
            segments=self.segments + next.segments,
        )

    def __str__(self) -> str:
        if not self.versions:
            return "checkpoint: every version is in a bundle already"
        return (
            f"checkpoint: {self.versions:,} versions in one bundle of {self.bytes:,} bytes "
            f"({self.newly_covered:,} newly covered, {self.replaced} bundles replaced, "
            f"{self.segments} segments written) in {self.seconds:.2f} s"
        )


@dataclass(frozen=True, slots=True)
class FilesPlan:
    """Bundle some files of commits, and take in some bundles. Implements `crdtcat.protocol.bundler.Plan`.

    Attributes:
        folder: the log's folder.
        names: files of versions or claims.
        taken: bundles to take in.
        live: what is known of the bundles that no other replaces.
        listed: names that were listed.
        at_once: how many files to ask for at a time.
    """

    folder: str
    names: tuple[str, ...]
    taken: tuple[str, ...] = ()
    live: tuple[tuple[str, Summary], ...] = ()
    listed: tuple[str, ...] = ()
    at_once: int = 256

    def wanted(self, files: Sequence[tuple[str, ObjectBytes]]) -> Sequence[str]:
        """Its files, then the decisions that claims among them wait for."""
        claims = [file for file in files if is_claim(file[0])]
        return [*self.taken, *self.names, *State(self.folder).joined(claims).undecided()]

    def made(self, files: Sequence[tuple[str, ObjectBytes]], *, old: bool) -> Made | None:
        """One bundle of all that was found; what is gone was collected, so a bundle of higher rank covers it.

        A claim that is not decided waits for the next time. So does all of it where decisions took long:
        they may have been collected, and made again, with another word, by somebody who slept.
        """
        state = State(self.folder).joined(files)
        decisions = any(is_decision(name) for name, _ in files)
        if state.pending or not len(state.log) or (decisions and old):
            return None
        taken = tuple(name for name, _ in files if is_bundle(name))
        newly = sum(not is_bundle(name) and not is_decision(name) for name, _ in files)
        return made_bundle(
            self.folder, state.log, replaced_by(taken, dict(self.live), self.listed), taken, newly
        )


def made_bundle(
    folder: str, log: Log, replaces: Iterable[str], taken: Sequence[str] = (), newly_covered: int = 0
) -> Made:
    """A bundle of a log: its file, and before it one segment for each layout of rows that were inlined."""
    moved = moved_to_segments(log)
    data = encode_bundle(moved.log, folder, sorted(replaces))
    name = bundle_name(folder, rank_above(taken), digest(data), int(log.number.max(initial=0)))
    puts = (*moved.puts, Put(name, data))
    return Made(puts, len(moved.log), newly_covered, tuple(taken), to_be_followed(log))


def publish_bundle(session: Session, log: Log) -> CheckpointResult:
    """Store a bundle of `log`, in place of none: one PUT, and one before it for each segment of rows that
    were inlined.

    Raises:
        StoreUnavailable: nothing was published, or nobody knows; either way nothing is lost.
    """
    made = made_bundle(session.folder, log, ())
    unclear: Unclear = {}
    return published(made, run(Publish(made.puts), session.store, unclear=unclear), unclear)


def result_of(step: Bundler[P], unclear: Unclear | None = None) -> CheckpointResult:
    """What a bundler that is done has done. Raises as `publish_bundle` does."""
    if step.bundle is None or step.publish is None:
        return CheckpointResult()
    return published(step.bundle, step.publish, unclear or {})


def published(made: Made, publish: Publish, unclear: Unclear) -> CheckpointResult:
    """What became of a bundle. Raises as `publish_bundle` does."""
    if publish.outcome is not Outcome.DONE:
        raise StoreUnavailable(
            f"{made.name}: the bundle could not be stored ({reason(unclear)}); nothing is lost, try again "
            "later"
        ) from cause(unclear)
    return CheckpointResult(
        versions=made.versions,
        newly_covered=made.newly_covered,
        replaced=len(made.taken),
        bytes=len(made.puts[-1].data),
        segments=len(made.puts) - 1,
        name=made.name,
    )
