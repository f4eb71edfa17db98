"""The closed set of conflict kinds: what mine and theirs both touched, by default and by choice.

*Mine* is the commit being made, *theirs* one that took a number after mine had read. A kind is named for mine
first, theirs second; most are not symmetric, because mine comes later and can be changed, and theirs stands.

=======  ==========================================================================================
answer   what becomes of the commit
=======  ==========================================================================================
fail     `CommitConflict`; nothing is committed, the change is kept for another try
both     both stand as they are; nobody loses anything
ours     mine is committed so that it prevails where both touched
theirs   mine is committed without what theirs touched
=======  ==========================================================================================

The matrix, with the test of every cell, is in docs/contracts/conflicts.md. Constants only.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class Answer(Enum):
    """What is to be done about a conflict."""

    FAIL = "fail"
    BOTH = "both"
    OURS = "ours"
    THEIRS = "theirs"


class Rule(NamedTuple):
    """What a kind is, what happens by default, and what may be chosen."""

    meaning: str
    default: Answer
    allowed: frozenset[Answer]


class Kind(Enum):
    """What mine did and theirs did to the same thing."""

    UPDATE_UPDATE = "update-update"
    UPDATE_DELETE = "update-delete"
    DELETE_UPDATE = "delete-update"
    DELETE_DELETE = "delete-delete"
    UPDATE_OVERWRITE = "update-overwrite"
    DELETE_OVERWRITE = "delete-overwrite"
    OVERWRITE_UPDATE = "overwrite-update"
    OVERWRITE_DELETE = "overwrite-delete"
    OVERWRITE_APPEND = "overwrite-append"
    APPEND_OVERWRITE = "append-overwrite"
    OVERWRITE_OVERWRITE = "overwrite-overwrite"
    COLUMN_COLUMN = "column-column"
    WRITE_DROP = "write-drop"
    DROP_WRITE = "drop-write"
    PROPERTY_PROPERTY = "property-property"
    UPSERT_UPSERT = "upsert-upsert"
    UPSERT_DELETE = "upsert-delete"
    DELETE_UPSERT = "delete-upsert"
    READ_WRITE = "read-write"

    @property
    def rule(self) -> Rule:
        """What it means and what may be done about it."""
        return RULES[self]


_FAIL, _BOTH, _OURS, _THEIRS = Answer.FAIL, Answer.BOTH, Answer.OURS, Answer.THEIRS


def _rule(meaning: str, default: Answer, *others: Answer) -> Rule:
    return Rule(meaning, default, frozenset({default, _FAIL, *others}))


RULES: Final[dict[Kind, Rule]] = {
    Kind.UPDATE_UPDATE: _rule("both set the same cells", _FAIL, _OURS, _THEIRS),
    Kind.UPDATE_DELETE: _rule("mine sets cells of rows that theirs deleted", _FAIL, _THEIRS),
    Kind.DELETE_UPDATE: _rule("mine deletes rows that theirs updated", _FAIL, _OURS, _THEIRS),
    Kind.DELETE_DELETE: _rule("both delete the same rows", _BOTH),
    Kind.UPDATE_OVERWRITE: _rule("mine sets cells of rows that theirs overwrote", _FAIL, _THEIRS),
    Kind.DELETE_OVERWRITE: _rule("mine deletes rows that theirs overwrote", _BOTH),
    Kind.OVERWRITE_UPDATE: _rule("mine overwrites rows that theirs updated", _FAIL, _OURS),
    Kind.OVERWRITE_DELETE: _rule("mine overwrites rows that theirs deleted", _BOTH),
    Kind.OVERWRITE_APPEND: _rule("theirs added rows to what mine overwrites", _FAIL, _OURS, _THEIRS),
    Kind.APPEND_OVERWRITE: _rule("mine adds rows to what theirs overwrote", _BOTH),
    Kind.OVERWRITE_OVERWRITE: _rule("both overwrite the same partitions, or the table", _FAIL, _OURS),
    Kind.COLUMN_COLUMN: _rule(
        "both change one column, or add one of the same name and another type", _FAIL, _OURS, _THEIRS
    ),
    Kind.WRITE_DROP: _rule("mine writes to a column that theirs dropped", _FAIL, _OURS),
    Kind.DROP_WRITE: _rule("mine drops a column that theirs wrote to", _FAIL, _OURS, _THEIRS),
    Kind.PROPERTY_PROPERTY: _rule("both set the same property", _FAIL, _OURS, _THEIRS),
    Kind.UPSERT_UPSERT: _rule("both set the same cells of the same keys", _FAIL, _OURS),
    Kind.UPSERT_DELETE: _rule("mine upserts keys that theirs deleted", _FAIL, _OURS),
    Kind.DELETE_UPSERT: _rule("mine deletes keys that theirs upserted", _FAIL, _OURS),
    Kind.READ_WRITE: _rule("theirs changed what mine had read (serializable isolation)", _FAIL),
}
