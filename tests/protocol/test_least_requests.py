"""What a commit past others must cost: every scheme there is, held against the claimer.

k others came since a handle last looked, and it does not know k. A scheme is a rule for the next request, by
all answers so far: it tries the next number (once it has read all below), looks at any number, or lists. Its
cost is a row of figures, one for each k. Which rows can be had is found here by going through all schemes:
a game against a k that is not known, up to a bound that the scheme even knows. What it says is told in
docs/design/008-cas.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product

import pytest

from crdtcat.protocol.claimer import ClaimOutcome
from crdtcat.protocol.requests import PutIfAbsent
from tests.protocol.test_catching_up import answered, begun, chain, rounds

Costs = tuple[int, ...]
"""Requests for each k that is still possible, the least first."""
MOST = 6  # others that came, at most


def least(rows: Iterable[Costs]) -> frozenset[Costs]:
    """Those that no other one is as good as for every k."""
    kept: list[Costs] = []
    for row in sorted(set(rows), key=sum):
        if not any(all(a <= b for a, b in zip(one, row, strict=True)) for one in kept):
            kept.append(row)
    return frozenset(kept)


class Schemes:
    """All schemes; with `carrying`, where a claim also tells what those before it wrote."""

    def __init__(self, *, carrying: bool = False) -> None:
        self._carrying = carrying
        self._from = cache(self._searched)

    def all(self) -> frozenset[Costs]:
        """The rows that can be had, without those that another one is as good as everywhere."""
        return self._from(frozenset(), 0, MOST)

    def warm(self) -> frozenset[Costs]:
        """... with one request where nobody came: the first one is a try, and refused where anybody did."""
        return least((1, *(cost + 1 for cost in row)) for row in self._from(frozenset(), 1, MOST))

    def _searched(self, read: frozenset[int], low: int, high: int) -> frozenset[Costs]:
        """Rows for k from `low` to `high`, with some claims read."""
        known = next(number for number in range(MOST + 1) if number + 1 not in read)
        found: list[Costs] = []
        if known == low:  # a try: it stands if nobody came above what is known
            rest = self._from(read, known + 1, high) if known < high else frozenset({()})
            found += ((1, *(cost + 1 for cost in row)) for row in rest)
        for number in set(range(1, high + 1)) - read:
            found += self._looked(read, low, high, number)
        if low < high:  # a listing tells k
            each = product(*(self._from(read, k, k) for k in range(low, high + 1)))
            found += (tuple(cost + 1 for (cost,) in row) for row in each)
        return least(found)

    def _looked(self, read: frozenset[int], low: int, high: int, number: int) -> Iterator[Costs]:
        """A look: it is there, or not."""
        told = range(1, number + 1) if self._carrying else (number,)
        there = self._from(read.union(told), max(low, number), high)
        gone = self._from(read, low, number - 1) if low < number else frozenset({()})
        for first, second in product(gone, there):
            yield tuple(cost + 1 for cost in (*first, *second))


def above(row: Costs) -> int:
    """How far a row is above k, at most."""
    return max(cost - k for k, cost in enumerate(row))


def made(k: int, *, listing: bool = False, carried: int = 0) -> int:
    """The requests of the claimer past k others, each of which carries so many."""
    return sum(map(len, rounds(begun(listing=listing), chain(k, carried=carried))))


@pytest.mark.parametrize("carrying", [False, True])
def test_one_request_alone_and_k_and_two_always_cannot_be_had(*, carrying: bool) -> None:
    rows = Schemes(carrying=carrying).warm()
    assert not any(above(row) <= 2 for row in rows)
    assert min(row[1] for row in rows) == 3
    assert min(row[2] for row in rows if row[1] == 3) == 5, "past one in 3: past two in 5, or more"


def test_the_least_that_can_be_had_always_is_one_more() -> None:
    """A try, and then a listing; the bound that a scheme knows helps it past the last two only."""
    rows = Schemes().warm()
    assert min(map(above, rows)) == 3
    assert {row[:-2] for row in rows if above(row) == 3} == {(1, *(k + 3 for k in range(1, MOST - 1)))}


def test_the_claimer_makes_the_least_of_those_that_pass_one_in_three() -> None:
    ours = tuple(map(made, range(MOST + 1)))
    assert ours == (1, 3, *(k + 4 for k in range(2, MOST + 1)))
    rows = [row for row in Schemes().warm() if row[1] == 3]
    assert min(above(row) for row in rows) == above(ours) == 4
    as_good = {row[:-2] for row in rows if all(a <= b for a, b in zip(row, ours, strict=True))}
    assert as_good == {ours[:-2]}
    assert all(above(row) > 4 for row in rows if row[2] == 5), "past two in 5 is dearer above"


@pytest.mark.parametrize(
    "row", [(1, 4, 5, 6, 7), (1, 3, 6, 7, 8), (1, 3, 5, 8, 9), (1, 3, 5, 7, 9)], ids=lambda row: str(row[1:])
)
def test_what_the_page_shows_can_be_had_and_no_other_is_as_good(row: Costs) -> None:
    assert row in {found[: len(row)] for found in Schemes().warm()}


@pytest.mark.parametrize("writers", [2, 4, 8, 32])
def test_beside_others_in_random_order_a_list_at_once_would_save_less_than_one_request(writers: int) -> None:
    """Every one of them is as likely to be next, so k is as a die falls: what the first meeting costs on
    average, here, and with a list after the first try that is refused. Beside one other it is the same."""
    above = {k: made(k) - (k + 3) for k in range(1, MOST + 1)}  # 1 from there on
    chances = {k: (1 - 1 / writers) ** (k - 1) / writers for k in range(1, 24 * writers)}
    saved = sum(chance * above.get(k, above[MOST]) for k, chance in chances.items())
    assert saved == pytest.approx(1 - 2 / writers, abs=1e-6)


def test_beside_those_that_carry_it_makes_six_at_most_and_no_scheme_that_passes_one_in_three_beats_five() -> (
    None
):
    """Where the newest claim tells of all, 4 past any number can be had, for 4 past one."""
    ours = tuple(made(k, carried=MOST) for k in range(MOST + 1))
    assert ours == (1, 3, *[6] * (MOST - 1))
    rows = Schemes(carrying=True).warm()
    assert (1, *[4] * MOST) in rows
    assert min(max(row) for row in rows if row[1] == 3) >= 5
    assert all(cost <= k + 2 for k, cost in enumerate(ours) if k >= 4)


def test_who_lists_first_makes_k_and_two_and_no_scheme_less_for_every_k() -> None:
    assert [made(k, listing=True) for k in range(MOST + 1)] == [k + 2 for k in range(MOST + 1)]
    assert min(map(above, Schemes().all())) == 2


def test_beside_those_that_carry_who_lists_first_makes_three_and_no_scheme_less_for_every_k() -> None:
    ours = tuple(made(k, listing=True, carried=MOST) for k in range(MOST + 1))
    assert ours == (2, *[3] * MOST)
    rows = Schemes(carrying=True).all()
    assert ours in rows
    assert not any(sum(row) < sum(ours) for row in rows if row[0] == 2)


def test_a_race_lost_is_two_requests_and_sometimes_a_look_or_a_listing() -> None:
    """Others who come right before every try, m times: no scheme makes fewer than 2m + 1 requests."""
    files = sorted(chain(40).items())
    for races in range(12):
        step, there, requests = begun(), dict(files[:0]), 0
        while step.outcome is not ClaimOutcome.DONE:
            if step.outcome is ClaimOutcome.CONTENDED:
                step = step.resumed()
                continue
            if isinstance(step.wants[0], PutIfAbsent) and len(there) < races:
                there = dict(files[: len(there) + 1])
            requests += len(step.wants)
            step = step.take(answered(there, step.wants))
        assert step.rebases == step.passed == races
        assert 2 * races + 1 <= requests <= 2 * races + 1 + max(0, races - 1)
