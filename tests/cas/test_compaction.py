"""A compaction changes no row: it passes every verb, and every verb passes it, as if there were none."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from crdtcat import Catalog, Table
from crdtcat.maintenance.compact import CompactResult
from tests.cas.scenes import meanwhile, rows, two
from tests.cas.test_matrix import VERBS

CLUSTERED = pytest.mark.parametrize("cluster_by", [None, ["n"]], ids=["folded", "clustered"])


def prepared() -> tuple[Table, Table]:
    """Two handles on a table with chunks to join, cells to fold and a row to leave out."""
    mine, theirs = two(inline_bytes=0)
    theirs.update("n = 2", {"x": 3})
    theirs.append(rows("mo", 70))
    theirs.delete("n = 4")
    mine.head()
    return mine, theirs


def shown(table: Table) -> list[str]:
    return sorted(map(str, table.read().to_pylist()))


@cache
def without(verb: str) -> list[str]:
    """What the verb leaves where nobody compacts."""
    _, theirs = prepared()
    VERBS[verb](theirs)
    return shown(theirs)


def before_its_first_write(table: Table, action: Any) -> list[str]:
    """Let something happen before the next object that a handle stores; the name of that object."""
    store, met = table._session.store, list[str]()

    def wrapped(plain: Any) -> Any:
        def call(name: Any, *args: Any, **options: Any) -> Any:
            if not met:
                met.append(str(name))
                action()
            return plain(name, *args, **options)

        return call

    for method in ("put", "create", "put_if_absent"):
        setattr(store, method, wrapped(getattr(store, method)))
    return met


@CLUSTERED
@pytest.mark.parametrize("verb", VERBS)
def test_a_compaction_passes_every_verb(verb: str, cluster_by: list[str] | None) -> None:
    mine, theirs = prepared()
    met = before_its_first_write(mine, lambda: VERBS[verb](theirs))
    assert mine.compact(cluster_by=cluster_by).versions > 0
    assert len(met) == 1, "it had something to compact, and was interrupted"
    assert shown(mine) == shown(Catalog(mine._session.store.url).table("t")) == without(verb)
    assert not mine.conflicts()


@CLUSTERED
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_passes_a_compaction(verb: str, cluster_by: list[str] | None) -> None:
    mine, theirs = prepared()
    done: list[CompactResult] = []
    meanwhile(mine, lambda: done.append(theirs.compact(cluster_by=cluster_by)))
    VERBS[verb](mine)
    assert done[0].versions > 0, "it compacted"
    assert shown(mine) == shown(theirs) == without(verb)
    assert not mine.conflicts()
