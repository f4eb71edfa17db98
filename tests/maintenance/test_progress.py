"""Upkeep tells how far it is: every verb that looks after a table does, in the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Table
from crdtcat.errors import InvalidArgument
from crdtcat.maintenance import Progress
from tests.catalog.lakes import lake, objects

VERBS: dict[str, Callable[[Table, Any], object]] = {
    "collect": lambda table, progress: table.collect(progress=progress),
    "compact": lambda table, progress: table.compact(progress=progress),
    "expire": lambda table, progress: table.expire(older_than=timedelta(0), progress=progress),
    "verify": lambda table, progress: table.verify("bytes", progress=progress),
}


def bundled() -> Table:
    """Its versions are in a bundle that is old enough to delete them."""
    catalog = lake(grace_seconds=0, max_commit_delay_seconds=0)
    table = catalog.create_table("t", pa.schema([("n", pa.int64())]))
    for number in range(5):
        table.append([{"n": number}])
    table.checkpoint()
    return table


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_tells_how_far_it_is(verb: str) -> None:
    told: list[Progress] = []
    VERBS[verb](bundled(), told.append)
    assert all(progress.what.startswith(verb) for progress in told)
    assert told[-1].done == told[-1].total


def test_an_expiry_that_has_nothing_to_do_or_only_says_what_it_would_is_done_too() -> None:
    table = bundled()
    for dry_run in (True, False, False):
        told: list[Progress] = []
        table.expire(older_than=timedelta(0), dry_run=dry_run, progress=told.append)
        assert told[-1].done == told[-1].total


@pytest.mark.parametrize("verb", VERBS)
def test_what_cannot_be_told_anything_is_refused_before_anything_is_done(verb: str) -> None:
    table = bundled()
    before = objects(_catalog(table))
    with pytest.raises(InvalidArgument, match="progress=7"):
        VERBS[verb](table, 7)
    assert objects(_catalog(table)) == before


@pytest.mark.parametrize("verb", VERBS)
def test_true_prints(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    VERBS[verb](bundled(), True)
    assert verb in capsys.readouterr().err


def test_a_collection_that_only_says_what_it_would_delete() -> None:
    table = bundled()
    before = objects(_catalog(table))
    would = table.collect(dry_run=True)
    assert objects(_catalog(table)) == before
    assert "5 version files and 0 bundles would be deleted" in str(would)
    done = table.collect()
    assert replace(done, seconds=0) == replace(would, seconds=0, dry_run=False)
    assert (done.versions, done.bundles, done.kept) == (5, 0, 1)
    with pytest.raises(InvalidArgument, match="dry_run"):
        table.collect(dry_run=1)  # type: ignore[arg-type]


def test_a_dry_run_of_claims_says_nothing_in_the_store() -> None:
    """Which numbers are taken is written down before claims are deleted: not by somebody who deletes none."""
    catalog = lake(grace_seconds=0)
    table = catalog.create_table("t", pa.schema([("n", pa.int64())]), mode="cas")
    for number in range(5):
        table.append([{"n": number}])
    table.checkpoint()
    before = objects(catalog)
    table.collect(dry_run=True)
    assert objects(catalog) == before


def _catalog(table: Table) -> Any:
    class Of:
        store = table._session.store

    return Of
