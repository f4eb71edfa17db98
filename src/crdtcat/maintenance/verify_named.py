"""Verification of what must be there because something beside the log names it.

A log tells by itself that a version is missing where its writer went on, or where another version had seen
it. Of the last ones it cannot tell. But objects that are only ever put once others are stored name those:
tags and the starts of branches their snapshots, the hint a bundle and its newest claim, a decision to commit
all claims that waited for it, the proposal of a horizon a base. All of them are read before the log is
listed, so what they name was there then, and still is, or something that covers it.
"""

from __future__ import annotations

from collections.abc import Iterable

from crdtcat.cas.cold_claims import decoded_hint
from crdtcat.clock import hlc
from crdtcat.drive import store_now_ms
from crdtcat.errors import Corrupt, DataError, InvalidArgument
from crdtcat.format.decision import decided_claims, decode_decision
from crdtcat.format.refs import decode_branch_start, start_name
from crdtcat.format.sealed_json import seal_json, unseal_json
from crdtcat.head.snapshot import Snapshot, data_versions, snapshot_id
from crdtcat.lifecycle.horizons import ABANDONED_MS, proposals
from crdtcat.log import Log, select
from crdtcat.maintenance.verify_report import Problem
from crdtcat.maintenance.verify_small_files import LogCheck, why_of
from crdtcat.protocol import bundle_number, claim_name
from crdtcat.protocol.names import TRANSACTIONS, hint_name, is_decision
from crdtcat.session import Session
from crdtcat.support.object_bytes import ObjectBytes
from crdtcat.verbs.branches import lives
from crdtcat.verbs.tags import decode_tag, tag_files


class Named:
    """What other objects say of a log that is to be verified.

    Costs a GET for each tag, each branch that is there, each decision and the hint, and a LIST of their
    folders and of proposed horizons.

    Args:
        session: of which log.
        check: where damage goes.
    """

    def __init__(self, session: Session, check: LogCheck) -> None:
        self._session, self._check = session, check
        self.tags = self._read_tags()
        self._branches = self._read_branches()
        self._claims = self._read_decisions()
        (self._hint,) = session.store.get_many([(hint_name(session.folder), 0, None)])
        self._horizon = self._abandoned_horizon()

    def judge(self) -> None:
        """Tell what is not in the log that was read. No request."""
        self._judge_branches()
        self._judge_claims()
        self._judge_base()

    def _read_tags(self) -> dict[str, Snapshot]:
        tags: dict[str, Snapshot] = {}
        for name, data in self._read(tag_files(self._session)):
            self._check.files += 1
            self._check.bytes += len(data)
            try:
                content = unseal_json(data, name)
                if seal_json(content) != data:
                    raise Corrupt(name, "damaged: not the bytes that were written")
                tags[name] = decode_tag(data, name)[0]
            except DataError as error:
                self._check.problems.append(Problem(name, why_of(error), 0, 0))
        return tags

    def _read_branches(self) -> dict[str, Snapshot]:
        """Snapshots of this log that branches start with. Of damaged starts, their own verification tells."""
        session, found = self._session, {}
        table, incarnation = session.table, session.settings.incarnation
        there = [life for life, over in lives(session.store, table, incarnation).items() if not over]
        for name, data in self._read(start_name(table, incarnation, *life) for life in there):
            try:
                start = decode_branch_start(data, name)
                if (start.source, start.source_life) == (session.branch, session.life):
                    found[name] = Snapshot.parse(start.snapshot)
            except (DataError, InvalidArgument):
                continue
        return found

    def _read_decisions(self) -> dict[str, int]:
        """Numbers in this log that decisions to commit name. Of damaged ones, the claims that wait tell."""
        names = [item.name for item in self._session.store.list(TRANSACTIONS) if is_decision(item.name)]
        found = {}
        for name, data in self._read(names):
            try:
                number = (decided_claims(data, name) or {}).get(self._session.folder)
                if number is not None and decode_decision(data, name):
                    found[name] = number
            except DataError:
                continue
        return found

    def _abandoned_horizon(self) -> int:
        """The greatest horizon that was proposed and on which nobody works any more."""
        session = self._session
        if session.source is not None:
            return 0
        oldest_ms = store_now_ms(session.store) - ABANDONED_MS
        found = proposals(session.store, session.table, session.settings.incarnation)
        old = (item.horizon for item in found if item.modified_ms <= oldest_ms and not item.brings)
        return max(old, default=0)

    def _read(self, names: Iterable[str]) -> list[tuple[str, ObjectBytes]]:
        """Objects, without those that were deleted since they were listed. Who checks them counts them."""
        wanted = list(names)
        answers = self._session.store.get_many([(name, 0, None) for name in wanted])
        return [(name, data) for name, data in zip(wanted, answers, strict=True) if data is not None]

    def _judge_branches(self) -> None:
        for name, snapshot in self._branches.items():
            if not holds(self._check.state.log, snapshot):
                why = f"the branch starts with {snapshot.versions:,} versions, of which not all can be read"
                self._check.problems.append(Problem(name, why))

    def _judge_claims(self) -> None:
        log, folder = self._check.state.log, self._session.folder
        known = {*log.number.tolist()}
        folded = int(log.number.max(initial=0, where=log.is_folded))
        for name, number in self._claims.items():
            if number > folded and number not in known:
                why = f"missing: {name} says that it was committed, and no bundle has it"
                self._tell(claim_name(folder, number), why)
        hint = None if self._hint is None else decoded_hint(self._hint, hint_name(folder))
        told = max(map(bundle_number, self._check.listed), default=0)
        if hint is not None and hint.parent.number > max(told, *known, 0):
            why = f"missing: the hint names it for the claims up to {hint.parent.number:,}, which are nowhere"
            self._tell(f"{folder}{hint.bundle}", why)

    def _judge_base(self) -> None:
        log = self._check.state.log
        if log.horizon < self._horizon and not (log.id_fields["hlc"] < self._horizon).any():
            until = hlc.to_datetime(self._horizon).isoformat()
            why = f"missing: the base of an expiry up to {until}, and all that it folded"
            self._tell(self._session.folder, why)

    def _tell(self, name: str, why: str) -> None:
        if name not in {problem.name for problem in self._check.problems}:
            self._check.problems.append(Problem(name, why))


def holds(log: Log, snapshot: Snapshot) -> bool:
    """Whether a log has exactly the versions of a snapshot, among others."""
    chosen = select(log, snapshot.members(log)) if len(log) else log
    return data_versions(chosen) == snapshot.versions and snapshot_id(chosen) == snapshot.id
