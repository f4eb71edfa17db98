"""Resolvers: what is to be done about a conflict, and the change as it then is.

A policy is an answer for every kind: `"fail"`, `"ours"`, `"theirs"`, `"both"`, a function that decides when
one comes, or a map from kinds to these. A kind that is not named has its default. An answer that a kind does
not allow is refused when the policy is made, not when the conflict comes. Patching never changes the caller's
change: it makes another. Pure; no data is read: what needs values is in `crdtcat.cas.resolving`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from crdtcat.clock import VersionId
from crdtcat.conflicts.kinds import Answer, Kind
from crdtcat.conflicts.overlap import Overlap
from crdtcat.conflicts.write_set import Numbering, WriteSet
from crdtcat.errors import InvalidArgument
from crdtcat.format.ops import SELF, ColumnId, Ops
from crdtcat.format.row_ids import KeyedTag, RowIds, Tags, whole_chunks
from crdtcat.intervals import RowSet
from crdtcat.support.showing import shown

_WORDS: Final = ", ".join(repr(answer.value) for answer in Answer)
Resolver = Callable[[Any], Any]
"""Given both sides (`crdtcat.cas.sides.Sides`), an answer, or values for the cells that both set."""


@dataclass(frozen=True)
class Policy:
    """What is to be done about each kind; kinds not named have their default."""

    answers: Mapping[Kind, Answer | Resolver] = field(default_factory=dict)

    @classmethod
    def of(cls, given: object) -> Policy:
        """A policy from what a caller passes: `None`, one answer or function, or a map from kinds to these.

        One answer goes for every kind that allows it: "fail" for every kind there is, also for those of
        which both stand by default. A function goes for every kind that fails by default and may be answered
        otherwise. Raises `InvalidArgument` naming what is wrong.
        """
        if given is None:
            return cls()
        if isinstance(given, Policy):
            return given
        if callable(given) and not isinstance(given, Mapping):
            open_kinds = (kind for kind in Kind if len(kind.rule.allowed) > 1)
            return cls({kind: given for kind in open_kinds if kind.rule.default is Answer.FAIL})
        if isinstance(given, str | Answer):
            answer = _answer(given)
            return cls({kind: answer for kind in Kind if answer in kind.rule.allowed})
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"on_conflict={shown(given)}: pass {_WORDS}, a function, or a map of kinds")
        return cls(
            {
                _kind(kind): answer if callable(answer) else answer_of(_kind(kind), answer)
                for kind, answer in given.items()
            }
        )

    def amended(self, given: object) -> Policy:
        """The same, with other answers for the kinds that `given` answers; `None`: none. Raises as `of`."""
        return replace(self, answers={**self.answers, **Policy.of(given).answers})

    def minds(self, kind: Kind) -> bool:
        """Whether anything is to be done about a kind."""
        return self.answers.get(kind, kind.rule.default) is not Answer.BOTH

    def answer(self, overlap: Overlap) -> Answer | Resolver:
        """What is to be done about one conflict."""
        answer = self.answers.get(overlap.kind, overlap.kind.rule.default)
        return possible(overlap, answer) if isinstance(answer, Answer) else answer


def possible(overlap: Overlap, answer: Answer) -> Answer:
    """An answer, or to fail where it cannot be had of this conflict."""
    return Answer.FAIL if overlap.by_key and answer is Answer.THEIRS else answer


def _answer(given: object) -> Answer:
    try:
        return Answer(given)
    except ValueError as error:
        raise InvalidArgument(f"on_conflict: {shown(given)} is none of {_WORDS}") from error


def _kind(given: object) -> Kind:
    try:
        return Kind(given)
    except ValueError as error:
        known = ", ".join(kind.value for kind in Kind)
        raise InvalidArgument(f"on_conflict: there is no kind {shown(given)}; there are {known}") from error


def answer_of(kind: Kind, given: object) -> Answer:
    """An answer that a kind allows. Raises `InvalidArgument` for any other."""
    answer = _answer(given)
    if answer not in kind.rule.allowed:
        may = ", ".join(sorted(item.value for item in kind.rule.allowed))
        raise InvalidArgument(f"on_conflict: {kind.value!r} cannot be answered {answer.value!r}, only {may}")
    return answer


_MADE_ANOTHER: Final = frozenset(
    {
        (Kind.UPDATE_UPDATE, Answer.THEIRS),
        (Kind.DELETE_UPDATE, Answer.THEIRS),
        (Kind.OVERWRITE_APPEND, Answer.OURS),
        (Kind.COLUMN_COLUMN, Answer.OURS),
        (Kind.COLUMN_COLUMN, Answer.THEIRS),
        (Kind.DROP_WRITE, Answer.THEIRS),
        (Kind.PROPERTY_PROPERTY, Answer.THEIRS),
    }
)
"""Answers for which another change is made."""


def settled(
    body: Mapping[str, Any], mine: WriteSet, conflicts: Sequence[tuple[Overlap, Answer]]
) -> dict[str, Any] | None:
    """The body of a version with every conflict settled as it was answered; `None` where one cannot be."""
    ops = mine.ops
    for overlap, answer in conflicts:
        patched = _patched(ops, mine, overlap, answer)
        if patched is None:
            return None
        ops = patched
    return {**body, "x": by_itself(ops, mine.id).encode()}


def by_itself(ops: Ops, author: VersionId) -> Ops:
    """Ops whose own columns are known as its own again: a change that is stamped anew has another id."""

    def own(column: ColumnId) -> ColumnId:
        return replace(column, birth=SELF) if column.birth == author else column

    return replace(
        ops,
        definitions=tuple(replace(item, column=own(item.column)) for item in ops.definitions),
        drops=tuple(map(own, ops.drops)),
    )


def stands_as_it_is(kind: Kind, answer: Answer) -> bool:
    """Whether a change that is moved past theirs says by itself what was answered: it comes later, so as it
    is it prevails, or has no effect on what is gone."""
    return answer is not Answer.FAIL and (kind, answer) not in _MADE_ANOTHER


def _patched(ops: Ops, mine: WriteSet, overlap: Overlap, answer: Answer) -> Ops | None:
    patched: Ops | None = ops  # see `stands_as_it_is`
    match overlap.kind, answer:
        case _, Answer.FAIL:
            patched = None
        case Kind.OVERWRITE_APPEND, Answer.OURS:
            patched = _removing(_leaving(ops, overlap), overlap)
        case Kind.OVERWRITE_APPEND, Answer.THEIRS:
            patched = _leaving(ops, overlap)
        case Kind.COLUMN_COLUMN, _:
            patched = _column(ops, mine, overlap, answer)
        case Kind.PROPERTY_PROPERTY, Answer.THEIRS:
            left = {name: value for name, value in ops.properties.items() if name not in overlap.properties}
            patched = replace(ops, properties=left)
        case Kind.DROP_WRITE, Answer.THEIRS:
            drops = tuple(item for item in ops.drops if item.name not in overlap.births)
            patched = replace(ops, drops=drops)
        case Kind.DELETE_UPDATE, Answer.THEIRS:
            patched = _without_deletes(ops, overlap)
    return patched


def _removing(ops: Ops, overlap: Overlap) -> Ops:
    """Mine overwrites what theirs added, too."""
    plain = [tag for tag in overlap.tags if isinstance(tag[0], bytes)]
    keyed = [KeyedTag(*tag) for tag in overlap.tags if isinstance(tag[0], str)]
    ids = np.array([tag[0] for tag in plain], ops.removed_versions.dtype)
    ordinals = np.array([tag[1] for tag in plain], np.uint32)
    return replace(
        ops,
        removed_versions=np.concatenate((ops.removed_versions, ids)),
        removed_ordinals=np.concatenate((ops.removed_ordinals, ordinals)),
        removed_keyed=(*ops.removed_keyed, *keyed),
    )


def _leaving(ops: Ops, overlap: Overlap) -> Ops:
    """Mine leaves alone what theirs added, also where it was answered before that it shall not."""
    before = [tag for item in overlap.instead for tag in item.tags]
    if not before:
        return ops
    plain = {tag for tag in before if isinstance(tag[0], bytes)}
    keyed = {KeyedTag(*tag) for tag in before if isinstance(tag[0], str)}
    named = zip(ops.removed_versions.view("V36").tolist(), ops.removed_ordinals.tolist(), strict=True)
    kept = np.array([(bytes(id), at) not in plain for id, at in named], np.bool_)
    return replace(
        ops,
        removed_versions=ops.removed_versions[kept],
        removed_ordinals=ops.removed_ordinals[kept],
        removed_keyed=tuple(tag for tag in ops.removed_keyed if tag not in keyed),
    )


def _column(ops: Ops, mine: WriteSet, overlap: Overlap, answer: Answer) -> Ops | None:
    names = set(overlap.births)
    if answer is Answer.THEIRS:
        left = tuple(item for item in ops.definitions if not {item.name, item.column.name} & names)
        if len(left) < len(ops.definitions) and mine.added:
            return None  # rows of mine are of the column that would no longer be defined
        drops = tuple(item for item in ops.drops if item.name not in names)
        return replace(ops, definitions=left, drops=drops)
    replaced = dict(overlap.definitions)
    return replace(
        ops,
        definitions=tuple(
            replace(item, replaces=(*item.replaces, replaced[item.column]))
            if item.column in replaced
            else item
            for item in ops.definitions
        ),
    )


def _without_deletes(ops: Ops, overlap: Overlap) -> Ops:
    """Mine deletes all but the rows that theirs updated: row by row, also where it removed whole chunks."""
    numbers = Numbering(overlap.tags)
    removed = whole_chunks(Tags(ops.removed_versions, ops.removed_ordinals, ops.removed_keyed))
    gone = [numbers.rows(ids) for ids in (ops.rows.deletes, removed) if ids is not None]
    left = RowSet().union(*gone) - overlap.rows
    none = Ops()
    return replace(
        ops,
        rows=replace(ops.rows, deletes=row_ids(left, numbers) if len(left) else None),
        removed_versions=none.removed_versions,
        removed_ordinals=none.removed_ordinals,
        removed_keyed=(),
    )


def row_ids(rows: RowSet, numbers: Numbering) -> RowIds:
    """A set of intervals by tag number as row ids."""
    used, tag = np.unique(rows.groups, return_inverse=True)
    tags = [numbers.tags[at] for at in used.tolist()]
    plain = [at for at, item in enumerate(tags) if isinstance(item[0], bytes)]
    keyed = [at for at, item in enumerate(tags) if isinstance(item[0], str)]
    place = np.empty(len(tags), np.uint32)
    place[plain + keyed] = np.arange(len(tags), dtype=np.uint32)
    versions = np.array([tags[at][0] for at in plain], f"S{len(VersionId(0, 0, 0, bytes(16)).to_bytes())}")
    return RowIds(
        Tags(
            versions,
            np.array([tags[at][1] for at in plain], np.uint32),
            tuple(KeyedTag(*tags[at]) for at in keyed),
        ),
        place[tag],
        rows.starts.astype(np.uint32),
        rows.stops.astype(np.uint32),
    )
