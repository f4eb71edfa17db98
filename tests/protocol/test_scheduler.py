"""The real protocol under every interleaving, and wrong variants that the same search must expose."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest

from crdtcat.log import State
from crdtcat.protocol import Publish, Put
from crdtcat.testing.scheduler import Actor, explore
from tests.protocol import mutants
from tests.protocol.scenes import (
    FOLDER,
    MARK,
    MARKS,
    OTHER,
    block_upkeep,
    bundle,
    bundler,
    bundles_files,
    collector,
    reader,
    transaction,
    upkeep,
    version,
    version_with_segment,
    warm_reader,
    writer,
)


class Scene(NamedTuple):
    actors: Sequence[Actor]
    objects: Mapping[str, bytes]
    page: int = 1
    faults: int = 0
    folder: str = FOLDER


V1, V2, V3 = version(1, 1), version(2, 2), version(3, 3)
TWO = dict((V1, V2))
BETWEEN = dict(
    [version(7, 7), version(9, 9)]
)  # what a reader may have listed already when an older one is stored
SEGMENT, WITH_ROWS = version_with_segment(4, 4)
STATE = State(FOLDER).joined([V1, V2])
FIRST = bundle(STATE, [], 1)
T1 = transaction(5, 5, FOLDER, OTHER)
ONLY_TRANSACTION = transaction(5, 5, FOLDER)
AFTER_TRANSACTION = version(6, 6, 1, c={5: 1})


def first_then_second(name: str) -> Actor:
    """Two commits of one writer; the clock of the first is what the second must not be seen without."""
    return writer(name, version(6, 6, 1), version(8, 6, 2))


def transacting(name: str = "transaction", *then: tuple[str, bytes]) -> Actor:
    """A table's first transaction: the mark, then the file; then whatever else that writer commits."""
    first = Publish((Put(*MARK), Put(*ONLY_TRANSACTION)))
    return Actor(name, first, writer(name, ONLY_TRANSACTION, *then).stages)


def with_rows(name: str = "writer") -> Actor:
    return Actor(name, Publish((Put(*SEGMENT), Put(*WITH_ROWS))))


RIGHT: dict[str, Callable[[], Scene]] = {
    "a reader beside a bundler and its collection": lambda: Scene([reader(), upkeep()], TWO),
    "a writer, a reader, upkeep": lambda: Scene([reader(), upkeep(), writer("w", V3)], TWO),
    "pages of two": lambda: Scene([reader(), upkeep(), writer("w", V3)], TWO, page=2),
    "a writer of two commits": lambda: Scene([reader(), first_then_second("w"), bundler()], BETWEEN),
    "lost answers, lost and late requests": lambda: Scene(
        [reader(), upkeep(), writer("w", V3)], dict([V1]), faults=2
    ),
    "every try of a bundle fails": lambda: Scene([reader(), upkeep()], TWO, faults=3),
    "rows in a segment": lambda: Scene([reader(), with_rows(), upkeep()], dict([V1]), faults=1),
    "small bundles of equal rank": lambda: Scene(
        [bundler("b1", bundles_files), upkeep("b2", bundles_files), reader()], TWO
    ),
    "bundles of bundles": lambda: Scene([reader(), upkeep()], dict([V1, V2, FIRST, V3])),
    "a block bundled after a commit": lambda: Scene([reader(), block_upkeep()], TWO),
    "a block with a bundle": lambda: Scene([reader(), block_upkeep()], dict([V1, V2, FIRST, V3])),
    "a block beside a checkpoint": lambda: Scene([block_upkeep("block"), bundler()], dict([V1, FIRST, V3])),
    "two collectors": lambda: Scene(
        [collector("c1"), collector("c2"), reader()], dict([V1, V2, FIRST, bundle(STATE, [FIRST[0]], 2)])
    ),
    "a reader that knows something, upkeep": lambda: Scene([warm_reader(), upkeep()], TWO),
    "a reader that knows something, a writer, upkeep": lambda: Scene(
        [warm_reader(), upkeep(), writer("w", V3)], TWO, page=2
    ),
    "a reader that knows something, a first transaction that is collected": lambda: Scene(
        [warm_reader(), transacting(), upkeep(kind=mutants.AnyPlaceCollector)], dict([V1]), page=2
    ),
    "a transaction over two tables": lambda: Scene([reader(), upkeep()], dict([V1, T1]) | MARKS),
    "a transaction, read from the other table": lambda: Scene(
        [upkeep()], dict([V1, T1]) | MARKS, folder=OTHER
    ),
    "a first transaction": lambda: Scene([reader(), transacting()], dict([V1, V2])),
    "a first transaction, lost answers": lambda: Scene([reader(), transacting()], dict([V1]), faults=2),
    "a first transaction, then a version that saw it": lambda: Scene(
        [reader(), transacting("w", AFTER_TRANSACTION)], BETWEEN
    ),
    "a first transaction, bundled and collected": lambda: Scene(
        [reader(), transacting(), upkeep(kind=mutants.AnyPlaceCollector)], dict([V1])
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_the_protocol_holds_in_every_interleaving(name: str) -> None:
    scene = RIGHT[name]()
    found = explore(
        scene.actors, scene.objects, scene.folder, page=scene.page, faults=scene.faults, worlds_max=200_000
    )
    assert found.problem is None, str(found)
    assert found.worlds > 10


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("CRDTCAT_SLOW") != "full", reason="a minute; CRDTCAT_SLOW=full")
@pytest.mark.parametrize(
    "actors",
    [
        lambda: [reader(), upkeep("u1"), upkeep("u2")],
        lambda: [reader(), upkeep("u1"), collector(), writer("w", V3)],
    ],
)
def test_the_protocol_holds_in_larger_scopes(actors: Callable[[], Any]) -> None:
    found = explore(actors(), TWO, FOLDER, worlds_max=3_000_000)
    assert found.problem is None, str(found)


SECOND = bundle(STATE, [], 2)
# A bundle between those two by name, so that a page can end there.
FILLER = next(
    found
    for salt in range(100)
    if (found := bundle(State(FOLDER).joined([V3]), [f"{salt}"], 1))[0] > FIRST[0]
)
WRONG: dict[str, tuple[Callable[[], Scene], str]] = {
    "the folder not listed again after transactions": (
        lambda: Scene(
            [reader(kind=mutants.FolderOnceReader), upkeep(kind=mutants.AnyPlaceCollector)],
            dict([V1, ONLY_TRANSACTION, MARK]),
        ),
        "a reader misses",
    ),
    "marks passed over": (
        lambda: Scene([reader(kind=mutants.MarksAreNothingReader), transacting()], dict([V1])),
        "a reader misses",
    ),
    "the mark stored after the transaction": (
        lambda: Scene(
            [
                reader(),
                Actor(
                    "transaction",
                    Publish((Put(*ONLY_TRANSACTION),)),
                    (lambda _: Publish((Put(*MARK),)),),
                ),
            ],
            dict([V1]),
        ),
        "misses what was acknowledged",
    ),
    "the mark collected": (
        lambda: Scene([Actor("tidy", mutants.Deletion((MARK[0],)))], dict([V1, ONLY_TRANSACTION, MARK])),
        "a cold read misses",
    ),
    "bundles listed before versions": (
        lambda: Scene([reader(kind=partial(mutants.BundlesFirstReader, marked=True)), upkeep()], TWO),
        "a reader misses",
    ),
    "a vanished file is skipped": (
        lambda: Scene([reader(kind=mutants.SkippingReader), upkeep()], TWO),
        "a reader misses",
    ),
    "gaps are passed over": (
        lambda: Scene([reader(kind=mutants.GapsAreFineReader), first_then_second("w")], BETWEEN),
        "without those before it",
    ),
    "a bundle deleted for one of lower rank": (
        lambda: Scene(
            [
                reader(),
                Actor("bundler", Publish((Put(*FIRST),))),
                collector(kind=mutants.AnyRankCollector),
            ],
            dict([V3, FILLER, SECOND]),
        ),
        "a reader misses",
    ),
    "a transaction collected for one table": (
        lambda: Scene([upkeep(kind=mutants.AnyPlaceCollector)], dict([V1, T1]) | MARKS, folder=OTHER),
        "a cold read misses",
    ),
    "deleted without reading the bundle back": (
        lambda: Scene([bundler(plan=mutants.hasty(deletes_first=False))], TWO, faults=3),
        "a cold read misses",
    ),
    "deleted before the bundle is stored": (
        lambda: Scene([bundler(plan=mutants.hasty(deletes_first=True))], TWO),
        "a cold read misses",
    ),
    "a name stored again after it was deleted": (
        lambda: Scene(
            [Actor("writer", mutants.Deletion((V3[0],)), (lambda _: Publish((Put(*V3),)),))], TWO, faults=1
        ),
        "a cold read misses",
    ),
    "the version stored before its segment": (
        lambda: Scene([reader(), Actor("writer", Publish((Put(*WITH_ROWS), Put(*SEGMENT))))], TWO),
        "whose rows are nowhere",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_search_exposes_wrong_variants(name: str) -> None:
    make, problem = WRONG[name]
    scene = make()
    found = explore(scene.actors, scene.objects, scene.folder, page=scene.page, faults=scene.faults)
    assert found.problem is not None
    assert problem in found.problem, str(found)
    assert found.schedule


def test_the_right_reader_copes_with_what_exposes_the_wrong_ones() -> None:
    collecting = upkeep(kind=mutants.AnyPlaceCollector)  # the only table: its transactions may go
    found = explore([reader(), collecting], dict([V1, ONLY_TRANSACTION, MARK]), FOLDER)
    assert found.problem is None, str(found)


def test_too_large_a_scope_is_refused() -> None:
    with pytest.raises(OverflowError, match="worlds"):
        explore([reader(), upkeep()], TWO, FOLDER, worlds_max=10)


def test_a_reader_finds_what_was_acknowledged_while_it_was_at_work_or_not_but_never_less() -> None:
    found = explore([reader(), writer("w", V3)], {}, FOLDER)
    assert found.problem is None, str(found)
