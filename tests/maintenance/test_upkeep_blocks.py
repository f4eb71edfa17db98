"""Which versions belong to the blocks that a handle was chosen for, however many it is chosen for at once."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from crdtcat.clock import VersionId
from crdtcat.log import Summary
from crdtcat.maintenance.upkeep import ABANDONED_MS, versions_blocks
from crdtcat.protocol import version_name
from crdtcat.store import ObjectInfo

EVERY: Final = 4
FOLDER: Final = "tables/t/main/"


def id_of(place: int, chosen: bool) -> VersionId:
    return VersionId(place, place % 3, place, (EVERY * place + (not chosen)).to_bytes(8) + bytes(8))


def listed(ids: list[VersionId], modified_ms: int = 0) -> list[ObjectInfo]:
    return [ObjectInfo(version_name(FOLDER, id), 10, modified_ms) for id in ids]


def names(block: list[ObjectInfo]) -> set[str]:
    return {item.name for item in block}


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[VersionId], list[VersionId]]:
    """Version ids in order, and some of the chosen ones: those of one handle."""
    ids = [
        id_of(place + 1, chosen) for place, chosen in enumerate(draw(st.lists(st.booleans(), max_size=30)))
    ]
    chosen = [id for id in ids if id.digest[7] % EVERY == 0]
    return ids, draw(st.lists(st.sampled_from(chosen), min_size=1, unique=True)) if chosen else []


@given(logs())
def test_the_blocks_of_several_are_the_blocks_of_each(log: tuple[list[VersionId], list[VersionId]]) -> None:
    ids, mine = log
    if not mine:
        return
    together = versions_blocks(listed(ids), mine, EVERY, (), 0)
    assert [item.name for item in together] == sorted(names(together))
    assert names(together) == set().union(
        *(names(versions_blocks(listed(ids), [id], EVERY, (), 0)) for id in mine)
    )


@given(logs())
def test_a_block_goes_from_the_chosen_one_before_to_its_own(
    log: tuple[list[VersionId], list[VersionId]],
) -> None:
    ids, mine = log
    expected, open_block = set[VersionId](), set[VersionId]()
    for id in ids:
        open_block.add(id)
        if id.digest[7] % EVERY == 0:
            expected |= open_block if id in mine else set()
            open_block = set()
    found = versions_blocks(listed(ids), mine, EVERY, (), 0) if mine else []
    assert names(found) == {version_name(FOLDER, id) for id in expected}


def test_old_versions_that_no_bundle_reaches_are_picked_up_too() -> None:
    ids = [id_of(place, chosen=place % 2 == 0) for place in range(1, 9)]
    bundled = Summary(2, ids[2].to_bytes(), ids[3].to_bytes(), frozenset())
    now = ABANDONED_MS + 1
    found = versions_blocks(listed(ids), [ids[5]], EVERY, [bundled], now)
    assert names(found) == {version_name(FOLDER, ids[place]) for place in (0, 1, 4, 5)}  # none above its own
    assert names(versions_blocks(listed(ids, now), [ids[5]], EVERY, [bundled], now)) == {
        version_name(FOLDER, ids[place]) for place in (4, 5)
    }
