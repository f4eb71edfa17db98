"""Names of a log's files: made, recognized, read back, and in the order that listings rest on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.clock import VersionId
from crdtcat.protocol import names
from tests.protocol.scenes import FOLDER

ID = VersionId(1, 2, 3, bytes(range(16)))
HASH = bytes(range(16))
LATE = VersionId(0xFEDCBA9876543210, 0x123456789ABCDEF0, 3, HASH)
KINDS = {
    "version": (names.version_name(FOLDER, ID), f"{FOLDER}{1:016x}-{2:016x}-{3:08x}-{HASH.hex()}.v"),
    "claim": (names.claim_name(FOLDER, 42), f"{FOLDER}{42:016d}.c"),
    "bundle": (names.bundle_name(FOLDER, 7, HASH), f"{FOLDER}z00000007-{HASH.hex()}.b"),
    "bundle of claims": (
        names.bundle_name(FOLDER, 7, HASH, 42),
        f"{FOLDER}z00000007-{HASH.hex()}-0000000000000042.b",
    ),
    "base": (names.base_name(FOLDER, 9), f"{FOLDER}zz00000009.b"),
    "boundary": (names.boundary_name(FOLDER, 42), f"{FOLDER}zy{42:016d}"),
    "decision": (names.decision_name(255), "transactions/00000000000000ff.decision"),
    "mark": (names.mark_name(FOLDER), f"{FOLDER}transacted"),
    "hint": (names.hint_name(FOLDER), f"{FOLDER}hint"),
    "transaction": (
        names.transaction_name(LATE),
        f"transactions/{0xFEDCBA9876543210:016x}-{0x123456789ABCDEF0:016x}-{3:08x}-{HASH.hex()}.v",
    ),
    "closing": (names.closing_name(0x1F, bytes(range(8))), "transactions/y000000000000001f-0001020304050607"),
    "closed": (names.closed_name(12), "transactions/z00000012"),
}
RECOGNIZED: dict[Callable[[str], bool], set[str]] = {
    names.is_version: {"version", "transaction"},
    names.is_claim: {"claim"},
    names.is_commit: {"version", "claim", "transaction"},
    names.is_bundle: {"bundle", "bundle of claims", "base"},
    names.is_base: {"base"},
    names.is_boundary: {"boundary"},
    names.is_decision: {"decision"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_is_what_the_format_says(kind: str) -> None:
    made, written = KINDS[kind]
    assert made == written


@pytest.mark.parametrize("recognizes", RECOGNIZED, ids=lambda one: one.__name__)
def test_a_name_is_recognized_as_its_kind_and_no_other(recognizes: Callable[[str], bool]) -> None:
    assert {kind for kind, (name, _) in KINDS.items() if recognizes(name)} == RECOGNIZED[recognizes]
    assert not recognizes(FOLDER)
    assert not any(recognizes(name + "x") for name, _ in KINDS.values())
    # Nobody's, although they end as ours do, or are ours but for their ends.
    for ending in (".v", ".c", ".b", ".decision"):
        assert not recognizes(f"{FOLDER}backup{ending}")
        assert not any(recognizes(f"{name}{ending}") for name, _ in KINDS.values())
    assert not any(recognizes(f"{FOLDER}x{name[len(FOLDER) :]}") for name, _ in KINDS.values())


def test_numbers_and_ranks_are_read_back() -> None:
    made = {kind: name for kind, (name, _) in KINDS.items()}
    assert names.claim_number(made["claim"]) == 42
    assert names.decided_transaction(made["decision"]) == 255
    assert names.bundle_rank(made["bundle"]) == 7
    assert (names.bundle_number(made["bundle"]), names.bundle_number(made["bundle of claims"])) == (0, 42)
    assert names.bundle_number(made["boundary"]) == 42
    assert (names.bundle_number(made["base"]), names.base_number(made["base"]), names.base_number("")) == (
        0,
        9,
        0,
    )
    assert names.last("a/b/c") == "c"
    assert names.last("c") == "c"
    with pytest.raises(ValueError, match="not a bundle"):
        names.bundle_rank(made["claim"])


def test_times_and_numbers_in_the_folder_of_transactions_are_read_back() -> None:
    made = {kind: name for kind, (name, _) in KINDS.items()}
    assert names.transaction_of(made["transaction"]) == (0xFEDCBA9876543210, 0x123456789ABCDEF0)
    times = {kind: time for kind, name in made.items() if (time := names.closing_until(name)) is not None}
    assert times == {"closing": 0x1F}
    assert {kind: number for kind, name in made.items() if (number := names.closed_number(name))} == {
        "closed": 12
    }
    assert names.closed_number(f"{FOLDER}z00000012") == 0, "a number in a log's folder settles nothing"


def test_closings_come_after_transactions_and_what_settles_them_after_those() -> None:
    """A listing that shows a transaction and no closing after it was begun before the closing."""
    ordered = [
        names.transaction_name(VersionId(2**64 - 1, 2**64 - 1, 2**32 - 1, b"\xff" * 16)),
        names.decision_name(2**64 - 1),
        names.closing_name(0, bytes(8)),
        names.closing_name(2**64 - 1, bytes(8)),
        names.closed_name(1),
        names.closed_name(2),
        names.closed_name(99_999_999),
    ]
    assert sorted(ordered) == ordered


def test_every_base_outranks_every_bundle() -> None:
    assert names.bundle_rank(names.base_name(FOLDER, 0)) == 1 + names.bundle_rank(
        names.bundle_name(FOLDER, 99_999_999, HASH)
    )


@given(st.lists(st.integers(0, 99_999_999), min_size=2, max_size=2), st.binary(min_size=16, max_size=16))
def test_commits_come_before_bundles_and_those_by_rising_rank(ranks: list[int], hash: bytes) -> None:
    low, high = sorted(ranks)
    listed = sorted(
        [
            names.version_name(FOLDER, VersionId(2**64 - 1, 2**64 - 1, 2**32 - 1, hash)),
            names.claim_name(FOLDER, 10**16 - 1),
            names.bundle_name(FOLDER, low, hash),
            names.bundle_name(FOLDER, high, hash, 1),
            names.base_name(FOLDER, low),
        ]
    )
    assert [names.is_commit(name) for name in listed] == [True, True, False, False, False]
    found = [names.bundle_rank(name) for name in listed[2:]]
    assert found == sorted(found)
