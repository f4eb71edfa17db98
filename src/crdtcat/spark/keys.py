"""Idempotency keys of writes from Spark: what makes a task, a job or a batch that comes again count once.

A key says what kind of write it is of, and holds every part of its name as JSON writes it, so that no two
writes share one by accident: a job named `load/0` is not the first task of a job named `load`."""

from __future__ import annotations

import json
from typing import Any, Final

from crdtcat.errors import InvalidArgument
from crdtcat.support.showing import shown

TASKS_MAX: Final = 2**31 - 1  # Spark's partitions are numbered in 32 bits

WriteName = tuple[str | int, ...]
"""What names a write for ever: its kind, then its parts."""


def saved(query: str) -> WriteName:
    """A write with a name of its own: the option `query`. Raises `InvalidArgument` for what is no name: of
    two writes under an empty one, by a variable that nobody set, the second would not count."""
    given: Any = query
    if not isinstance(given, str) or not given:
        raise InvalidArgument(
            f"query={shown(query)}: a text that is not empty, which names this write and no other"
        )
    return ("save", query)


def batch(query: str, number: int, part: str | None = None) -> WriteName:
    """A batch of a stream; `part` tells writes of one batch to one table apart."""
    return ("batch", query, number) if part is None else ("batch", query, number, part)


def job_key(name: WriteName) -> str:
    """The key of all rows of a write together."""
    return _key("job", name)


def task_key(name: WriteName, partition: int) -> str:
    """The key of one task's rows."""
    return _key("task", (*name, partition))


def _key(way: str, parts: WriteName) -> str:
    return "spark" + json.dumps([way, *parts], ensure_ascii=False, separators=(",", ":"))
