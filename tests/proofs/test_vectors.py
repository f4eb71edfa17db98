"""What the model answers, the library answers: kept vectors, and the extracted program where it is built."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from proofs import model_program, replay, replay_logs, vectors
from proofs.log_questions import COMPACT, SYNC, UPDATE

KEPT = vectors.kept()
PROGRAM = model_program.built()


@pytest.mark.parametrize("operation", vectors.OPERATIONS)
def test_the_library_answers_as_the_extracted_model_did(operation: str) -> None:
    own = [(arguments, answer) for name, arguments, answer in KEPT if name == operation]
    assert len(own) == (vectors.SLOW_MAX if operation in vectors.SLOW else vectors.COUNT)
    for arguments, answer in own:
        assert replay.answer(operation, arguments) == answer, arguments


def test_the_questions_are_the_ones_that_their_seed_draws() -> None:
    assert [(name, arguments) for name, arguments, _ in KEPT] == vectors.questions(
        vectors.SEED, vectors.COUNT
    )


def test_heads_are_not_all_alike() -> None:
    """Void versions, rows that are gone, and properties that lost all occur."""
    heads = [(arguments, answer) for name, arguments, answer in KEPT if name == "head"]
    assert any(0 in standing for _, (standing, _, _) in heads)
    assert any(len(rows) < sum(bool(version[4]) for version in versions) for versions, (_, rows, _) in heads)
    assert any(properties for _, (_, _, properties) in heads)


def test_histories_and_bundles_are_not_all_alike() -> None:
    """History is not the order of the question; bundles leave out versions, and take in some twice."""
    histories = [answer for name, _, answer in KEPT if name == "history"]
    assert any(answer != sorted(answer) for answer in histories)
    bundles = [(arguments, answer) for name, arguments, answer in KEPT if name == "bundle"]
    assert any(len(covered) < len(held) < len(versions) for (versions, *_), (covered, held) in bundles)
    assert any(sum(map(len, files)) > len(covered) > 0 for (_, files, _), (covered, _) in bundles)
    assert {answer for name, _, answer in KEPT if name == "overlap"} == {0, 1}


def test_bases_pass_some_by_and_ghosts_are_among_claims() -> None:
    """An expiry did not find what is below its horizon; a number of the bundle has another's file."""
    passed = [
        any(versions[at][0] < horizon and at not in found for at in later)
        for versions, horizon, found, later in (one[1] for one in KEPT if one[0] == "expired")
    ]
    assert any(passed)
    assert not all(passed)
    claims = [arguments for name, arguments, _ in KEPT if name == "claims"]
    assert any(bundled and [whose for _, whose in files].count(9) for bundled, files in claims)


def test_forks_meet_and_do_not_and_branches_bring_what_others_brought() -> None:
    forks = [(arguments, answer) for name, arguments, answer in KEPT if name == "joined"]
    assert any(answer == [] for _, answer in forks)
    assert any(answer and not wins for (*_, wins), answer in forks)
    shared = [
        {row for start, count, _ in theirs for row in range(start, start + count)}
        & {row for start, count, _ in mine for row in range(start, start + count)}
        for (_, theirs, mine, wins), _ in forks
        if wins
    ]
    assert any(shared)
    orders = [(arguments, answer) for name, arguments, answer in KEPT if name == "orders"]
    assert any(answer == [] for _, answer in orders)
    assert any(len(answer[0]) > max(map(len, arguments)) for arguments, answer in orders if answer)
    assert any(sorted(log) != log for name, _, logs in KEPT if name == "repeated" for log in logs)
    through = [arguments[1] for name, arguments, _ in KEPT if name == "repeated"]
    assert any(len({tuple(event) for event in happened if event[1]}) > 2 for happened in through)


def test_compactions_have_not_seen_everything() -> None:
    """Some run beside an update of the other side that they have not seen, and some beside each other."""
    last: Counter[tuple[int, int]] = Counter()
    for _, happened, _ in (one for one in KEPT if one[0] == "compacted"):
        since: list[list[int]] = []  # the last exchange
        for event in happened:
            since = [] if event[0] == SYNC else [*since, event]
            others = {(COMPACT, other[0]) for other in since if other[1] != event[1] and event[0] == COMPACT}
            last.update(others)
    assert last[COMPACT, UPDATE]
    assert last[COMPACT, COMPACT]


def test_filters_leave_chunks_unread() -> None:
    """Some do, and find something in others, updated rows among it."""
    found = 0
    for _, (entries, updates, low, high), answer in (one for one in KEPT if one[0] == "pruned"):
        with replay_logs.virtual() as clock:
            table = replay_logs.pruned_table(clock, entries, updates)
            plan = table.scan(filter=f"v >= {low} and v <= {high}").plan
        found += bool(plan.pruned and answer and updates)
    assert found


@pytest.mark.skipif(
    PROGRAM is None, reason="the extracted model is not built; `make proofs` builds and runs it"
)
@pytest.mark.parametrize("seed", range(100, 103))
def test_the_library_answers_as_the_extracted_model_does(seed: int) -> None:
    assert PROGRAM is not None
    questions: list[tuple[str, list[Any]]] = vectors.questions(seed, 20)
    for (operation, arguments), expected in zip(
        questions, model_program.ask(PROGRAM, questions), strict=True
    ):
        assert replay.answer(operation, arguments) == expected, (operation, arguments)
