"""A table's state as a handle holds it: a log, and which files went into it.

The protocol's reader and collector see a state through `missing`, `unread`, `unsettled`, `joined`, `gaps`,
`covered`, `contains` and `boundary`, and nothing else. Immutable: a refresh makes a new one, and readers of
the old one go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from crdtcat.clock import VectorClock, VersionId
from crdtcat.errors import Corrupt
from crdtcat.format.carried import own_frame
from crdtcat.format.closed import NOTHING_CLOSED, Closed, decode_closed
from crdtcat.format.decision import decode_decision
from crdtcat.format.frame import digest
from crdtcat.format.version import decode_version
from crdtcat.log.build import LogBuilder
from crdtcat.log.commits import add_commit, built
from crdtcat.log.files import files_without, is_transaction, passed_by
from crdtcat.log.gaps import gaps_of, require
from crdtcat.log.horizon import above, require_claims_above
from crdtcat.log.join import join, join_all, select
from crdtcat.log.log import Log, empty_log
from crdtcat.log.serialize import Bundle, decode_bundle
from crdtcat.log.transactions import transactions_in
from crdtcat.protocol.names import (
    TRANSACTIONS,
    base_number,
    boundary_name,
    bundle_name,
    bundle_rank,
    claim_name,
    closed_name,
    closed_number,
    decided_transaction,
    decision_name,
    is_base,
    is_bundle,
    is_claim,
    is_commit,
    is_decision,
    last,
    transaction_of,
    version_name,
)
from crdtcat.support.cached import cached_property
from crdtcat.support.object_bytes import ObjectBytes


@dataclass(frozen=True, eq=False)
class State:
    """Everything read of one log folder.

    Attributes:
        folder: the log's folder, ending in a slash.
        log: the versions.
        bundles: names of bundles joined.
        replaced: names of bundles that those take the place of.
        elsewhere: transactions that do not touch this table, or were passed by when theirs were closed.
        needs: what the clocks of the versions say must exist.
        pending: claims of transactions that are not decided, with their version files.
        decided: transactions that are, by writer, and whether they were committed.
        base: name of the base that everything below its horizon comes from.
        closed: which transactions count, as far as that was settled.
        loose: files of transactions that were taken in, and that neither a bundle nor `closed` settles.
    """

    folder: str
    log: Log = field(default_factory=empty_log)
    bundles: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    needs: VectorClock = field(default_factory=VectorClock)
    pending: tuple[tuple[str, bytes], ...] = ()
    decided: tuple[tuple[int, bool], ...] = ()
    base: str = ""
    closed: Closed = NOTHING_CLOSED
    loose: frozenset[str] = frozenset()

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        places = np.stack((self.log.place_chunk, self.log.place_segment, self.log.place_group)).tobytes()
        return (
            self.folder,
            self.log.id_bytes,
            self.bundles,
            self.elsewhere,
            places,
            self.pending,
            self.decided,
            self.base,
            self.closed,
            self.loose,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def latest(self) -> int:
        """The greatest stamp there is, or time below which nothing more counts: commits come after it."""
        return max(int(self.log.id_fields["hlc"].max(initial=0)), self.log.horizon, self.closed.until)

    def missing(self, versions: Sequence[str]) -> Sequence[str]:
        """Version files not in the log, and claims of numbers not in the log. What a base did not admit below
        its horizon is dead, and not missing. O(k log n)."""
        known = self.elsewhere.union(name for name, _ in self.pending)
        if known or self.closed.until:
            versions = [name for name in versions if name not in known and not passed_by(self.closed, name)]
        return files_without(self.log, versions, self.log.horizon if self.base else 0)

    def unsettled(self, names: Sequence[str]) -> Sequence[str]:
        """The file that settles which transactions count, if there is a later one than was read."""
        settling = [name for name in names if name.startswith(TRANSACTIONS)]
        latest = max(map(closed_number, settling), default=0)
        return [closed_name(latest)] if latest > self.closed.number else []

    def unread(self, bundles: Sequence[str]) -> Sequence[str]:
        """Bundles neither joined nor replaced; a base replaces those of lower numbers."""
        number = base_number(self.base)
        return [
            name
            for name in bundles
            if name not in self.bundles
            and name not in self.replaced
            and not (is_base(name) and base_number(name) <= number)
        ]

    def joined(self, files: Sequence[tuple[str, ObjectBytes]]) -> State:
        """This state with more files. Raises `Corrupt` or `UnsupportedFormat`, naming the file.

        Theorem: `strong_eventual_consistency`.
        """
        if not files:
            return self
        closings = [
            decode_closed(data, name, closed_number(name)) for name, data in files if closed_number(name)
        ]
        if closings:
            latest = max((self.closed, *closings), key=lambda each: each.number)
            return self.joined([file for file in files if not closed_number(file[0])])._closed_by(latest)
        needs, bundles, replaced = dict(self.needs), set(self.bundles), set(self.replaced)
        elsewhere, loose, builder = set(self.elsewhere), set(self.loose), LogBuilder(self.folder)
        bundled: set[int] = set()
        found = {name: self.read((name, data)) for name, data in files if is_bundle(name)}
        for name, bundle in found.items():
            bundles.add(name)
            replaced |= bundle.replaces
            bundled |= transactions_in(bundle.log).keys()
            require(needs, bundle.log, name)
        base, log = self._grounded(found)
        horizon = log.horizon if base else 0
        decided = dict(self.decided)
        decided.update(
            (decided_transaction(name), decode_decision(data, name))
            for name, data in files
            if is_decision(name)
        )
        commits = [(name, data) for name, data in files if is_commit(name)]
        given = {name for name, _ in commits}
        commits += [file for file in self.pending if file[0] not in given]
        taken = set(files_without(log, [name for name, _ in commits if is_claim(name)]))
        pending = []
        for name, data in commits:
            # A number that a bundle has is taken for ever, whatever stands under its name by now.
            if is_claim(name) and name not in taken:
                continue
            if passed_by(self.closed, name):
                decode_version(data, name)
                elsewhere.add(name)
                continue
            added = add_commit(builder, self.folder, name, data, decided)
            if added is None:
                pending.append((name, bytes(own_frame(data, name))))  # small, and kept
            elif not added:
                elsewhere.add(name)
            elif is_transaction(name) and transaction_of(name)[0] >= self.closed.until:
                loose.add(name)
        fresh = built(builder, needs, self.folder, commits, decided) if commits else empty_log()
        require_claims_above(fresh, horizon, self.folder)
        return State(
            self.folder,
            join(log, above(fresh, horizon)),
            frozenset(bundles),
            frozenset(replaced),
            frozenset(elsewhere),
            VectorClock(needs),
            tuple(pending),
            tuple(sorted(decided.items())),
            base,
            self.closed,
            frozenset(name for name in loose if transaction_of(name)[1] not in bundled),
        )

    def _closed_by(self, closed: Closed) -> State:
        """Without what was taken in and then passed by; nobody built on it (`crdtcat.lifecycle.closing`)."""
        passed = {name for name in self.loose if passed_by(closed, name)}
        left = frozenset(name for name in self.loose if transaction_of(name)[0] >= closed.until)
        if not passed:
            return replace(self, closed=closed, loose=left)
        writers = {transaction_of(name)[1] for name in passed}
        gone = np.isin(self.log.id_fields["writer"].astype(np.uint64), np.array(sorted(writers), np.uint64))
        return replace(
            self,
            log=select(self.log, ~gone),
            elsewhere=self.elsewhere | passed,
            needs=VectorClock({writer: seq for writer, seq in self.needs.items() if writer not in writers}),
            closed=closed,
            loose=left,
        )

    def _grounded(self, found: Mapping[str, Bundle]) -> tuple[str, Log]:
        """The highest base there is now, and the log with these bundles; below its horizon, only the base."""
        base = max((self.base, *filter(is_base, found)), key=base_number)
        ground = found[base].log if base in found and base != self.base else self.log
        parts = [bundle.log for name, bundle in found.items() if not is_base(name)]
        if ground is not self.log:
            parts.append(self.log)
        horizon = ground.horizon if base else 0
        return base, join_all([ground, *(above(part, horizon) for part in parts)])

    def undecided(self) -> Sequence[str]:
        """Names of the decisions that claims of transactions wait for."""
        return [
            decision_name(writer)
            for writer in dict.fromkeys(decode_version(data, name)[0].writer for name, data in self.pending)
        ]

    def gaps(self) -> frozenset[tuple[int, int]]:
        """Versions that must exist, by their writers' counts and the clocks of others, and are not here.

        With a horizon, a writer's numbers are looked at from its first version above it on: before that, one
        that is missing may be dead.
        """
        return self._gaps

    @cached_property
    def _gaps(self) -> frozenset[tuple[int, int]]:
        return gaps_of(self.log, self.needs)

    def covered(self, bundle: tuple[str, ObjectBytes], names: Sequence[str]) -> Sequence[str]:
        """Version files that the bundle holds and claims of numbers it has, by a fresh read of its bytes; a
        base has those that are dead behind it, too."""
        log = self.read(bundle).log
        missing = set(files_without(log, names, log.horizon))
        return [name for name in names if name not in missing]

    def contains(self, bundle: tuple[str, ObjectBytes], other: tuple[str, ObjectBytes]) -> bool:
        """Whether everything `other` covers is in the bundle."""
        log, others = self.read(bundle).log, self.read(other).log
        return bool(((log.find(others.ids) >= 0) | (others.id_fields["hlc"] < log.horizon)).all())

    def boundary(self, bundle: tuple[str, ObjectBytes]) -> str:
        """The name of the boundary of a base that has claims, by a fresh read of its bytes; else empty."""
        name, _ = bundle
        number = int(self.read(bundle).log.number.max(initial=0)) if is_base(name) else 0
        return boundary_name(self.folder, number) if number else ""

    def file_of(self, id: VersionId) -> str:
        """The file in which a version of this log was committed."""
        number = int(self.log.number[self.log.index_of(id)])
        return claim_name(self.folder, number) if number else version_name(self.folder, id)

    def read(self, bundle: tuple[str, ObjectBytes]) -> Bundle:
        """A bundle, by a fresh read of its bytes. Raises `Corrupt` where another one is under its name."""
        name, data = bundle
        found = decode_bundle(data, self.folder, name)
        if is_base(name):
            right = found.number == base_number(name)
        else:
            claims = int(found.log.number.max(initial=0))
            expected = bundle_name(self.folder, bundle_rank(name), digest(data), claims)
            right = not found.number and last(name) == last(expected)
        if not right:
            raise Corrupt(name, "holds another bundle: the file was renamed or its name damaged")
        if not found.log.horizon and not found.log.is_placed.all():  # a base lets go of what nothing reads
            raise Corrupt(name, "malformed bundle: a chunk without a place")
        return found
