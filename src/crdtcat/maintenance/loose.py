"""Which files of a log upkeep would do something about: those no bundle has, and those it may delete by now.

A file that a bundle covers stays for a grace period, because somebody may be about to read it. Until that is
over nothing is to be done about it, so it is in neither count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crdtcat.drive import store_now_ms
from crdtcat.log import State
from crdtcat.protocol import Object, is_bundle, is_commit
from crdtcat.session import Session


@dataclass(frozen=True, slots=True)
class Loose:
    """Files of a log beside its bundles.

    Attributes:
        files: bundles, versions and claims.
        commits: of these, versions and claims.
        waiting: of these, those that no bundle has: what `checkpoint` would put into one.
        collectable: files that bundles older than the grace period stand for: what `collect` would delete.
    """

    files: int
    commits: int
    waiting: int
    collectable: int


def loose_files(session: Session, listing: Sequence[Object]) -> Loose:
    """Count them in a listing of the log. One GET per bundle that no other replaces, where files lie beside
    it; O(versions in these). One that vanishes meanwhile counts as if it had not been there."""
    ours = [item for item in listing if item.name.startswith(session.folder)]
    commits = [item.name for item in ours if is_commit(item.name)]
    bundles = [item for item in ours if is_bundle(item.name)]
    waiting, collectable = set(commits), set[str]()
    if len(commits) + len(bundles) > 1:
        live = [item for item in bundles if item.name not in session.state.replaced]
        answers = session.store.get_many([(item.name, 0, None) for item in live])
        listed = {item.name for item in bundles}
        for item, data in zip(live, answers, strict=True):
            if data is not None:
                bundle = (item.name, data)
                covered = set(State(session.folder).covered(bundle, commits))
                waiting -= covered
                if _is_old(session, item):
                    collectable |= covered | (State(session.folder).read(bundle).replaces & listed)
    return Loose(len(bundles) + len(commits), len(commits), len(waiting), len(collectable))


def _is_old(session: Session, bundle: Object) -> bool:
    return store_now_ms(session.store) - bundle.modified_ms >= session.options.grace_seconds * 1000
