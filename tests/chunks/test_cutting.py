"""Cutting: sizes are kept, boundaries follow the content, an insertion disturbs its neighbourhood only."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.chunks import cutting
from crdtcat.chunks.cutting import Sizes, boundaries, cut, deciding, fixed_boundaries
from crdtcat.errors import InvalidArgument

Numbers = npt.NDArray[np.uint64]


def slow(hashes: list[int], sizes: Sizes) -> list[int]:
    """The rule as it is stated, row by row."""
    limit = 2**64 // max(2, sizes.target - sizes.least + 1) - 1
    found, start = [0], 0
    while len(hashes) - start > sizes.least:
        allowed = range(start + sizes.least, min(start + sizes.greatest, len(hashes) - 1) + 1)
        end = next((row for row in allowed if hashes[row] <= limit), None)
        if end is None and len(hashes) - start <= sizes.greatest:
            break
        if end is None:
            end = min(allowed, key=lambda row: (hashes[row], -row))
        found.append(end)
        start = end
    return found if start == len(hashes) else [*found, len(hashes)]


def sizes() -> st.SearchStrategy[Sizes]:
    return st.lists(st.integers(1, 30), min_size=3, max_size=3).map(lambda three: Sizes(*sorted(three)))


def hashes(max_size: int = 300) -> st.SearchStrategy[list[int]]:
    few = st.sampled_from([0, 2**59, 2**62, 2**64 - 1])
    return st.lists(st.one_of(few, st.integers(0, 2**64 - 1)), max_size=max_size)


@given(hashes(), sizes())
def test_the_rule(values: list[int], wanted: Sizes) -> None:
    assert boundaries(np.array(values, np.uint64), wanted) == slow(values, wanted)


@given(hashes(), sizes())
def test_sizes_are_kept(values: list[int], wanted: Sizes) -> None:
    found = boundaries(np.array(values, np.uint64), wanted)
    rows = [end - start for start, end in pairwise(found)]
    assert found[0] == 0
    assert found[-1] == len(values)
    assert all(wanted.least <= count <= wanted.greatest for count in rows[:-1])
    assert all(1 <= count <= wanted.greatest for count in rows[-1:])


@given(hashes(), sizes(), st.lists(st.integers(1, 50), min_size=1))
def test_cutting_as_rows_come_is_cutting_them_all(
    values: list[int], wanted: Sizes, pieces: list[int]
) -> None:
    every = np.array(values, np.uint64)
    found, taken = [0], 0
    for piece in pieces:
        taken = min(len(every), taken + piece)
        found += [found[-1] + end for end in boundaries(every[found[-1] : taken], wanted, last=False)[1:]]
    found += [found[-1] + end for end in boundaries(every[found[-1] :], wanted)[1:]]
    assert found == boundaries(every, wanted)


def chunks(values: Numbers, wanted: Sizes) -> list[bytes]:
    return [values[start:end].tobytes() for start, end in pairwise(boundaries(values, wanted))]


@given(st.integers(0, 2**32), st.data())
def test_an_insertion_disturbs_only_its_neighbourhood(seed: int, data: st.DataObject) -> None:
    wanted = Sizes(16, 64, 128)
    chance = np.random.default_rng(seed)
    before: Numbers = chance.integers(0, 2**64, 20_000, np.uint64)
    at = data.draw(st.integers(0, len(before)))
    new: Numbers = chance.integers(0, 2**64, data.draw(st.integers(1, 100)), np.uint64)
    after = np.concatenate((before[:at], new, before[at:]))
    fresh = set(chunks(after, wanted)) - set(chunks(before, wanted))
    # The chance that boundaries are still apart after k more chunks falls like 2**-k or faster.
    assert sum(map(len, fresh)) // 8 <= len(new) + 24 * wanted.greatest


@pytest.mark.parametrize(("share", "aim"), [(0.01, 0.988), (0.05, 0.95), (0.10, 0.90), (0.25, 0.75)])
def test_clustered_changes_leave_the_other_chunks(share: float, aim: float) -> None:
    """100,000 rows in chunks of about 1,000; a run of rows changes. Theory: two chunks more than it."""
    wanted = Sizes(250, 1000, 2000)
    chance = np.random.default_rng(7)
    reused = []
    for _ in range(10):
        before: Numbers = chance.integers(0, 2**64, 100_000, np.uint64)
        after = before.copy()
        start = int(chance.integers(0, int(100_000 * (1 - share))))
        after[start : start + int(100_000 * share)] = chance.integers(
            0, 2**64, int(100_000 * share), np.uint64
        )
        old = set(chunks(before, wanted))
        kept = sum(len(chunk) // 8 for chunk in chunks(after, wanted) if chunk in old)
        reused.append(kept / 100_000)
    assert np.mean(reused) >= aim - 0.02  # two chunks of a thousand rows at either end of the run


def test_sizes_come_out_near_the_target() -> None:
    values = np.random.default_rng(1).integers(0, 2**64, 5_000_000, np.uint64)
    rows = np.diff(boundaries(values, Sizes()))
    assert 0.8 * Sizes().target < rows.mean() < 1.2 * Sizes().target


def test_rows_that_are_all_equal_make_the_greatest_chunks() -> None:
    rows = np.diff(boundaries(np.full(1000, 2**63, np.uint64), Sizes(16, 64, 128)))
    assert rows.tolist() == [128] * 7 + [104]


def test_a_fixed_number_of_rows() -> None:
    table = pa.table({"n": range(10)})
    assert cut(table, Sizes.fixed(3)) == [0, 3, 6, 9, 10]
    assert cut(table, Sizes.fixed(5)) == [0, 5, 10]
    assert cut(table, Sizes.fixed(3), last=False) == [0, 3, 6, 9]
    assert cut(table.slice(0, 0), Sizes.fixed(3)) == [0]
    assert fixed_boundaries(0, 3) == [0]


def test_a_short_table_is_one_chunk() -> None:
    table = pa.table({"n": range(10)})
    assert cut(table, Sizes()) == [0, 10]
    assert cut(table, Sizes(), last=False) == [0]
    assert cut(table.slice(0, 0), Sizes()) == [0]


def test_cutting_a_table_goes_by_its_rows_whatever_their_layout() -> None:
    texts = [f"row {number * 7919 % 10_007}" for number in range(5000)]
    plain = pa.table({"s": texts, "n": np.arange(5000)})
    found = cut(plain, Sizes(16, 64, 128))
    assert len(found) > 40
    pieces = pa.concat_tables([plain.slice(start, 333) for start in range(0, 5000, 333)])
    assert cut(pieces, Sizes(16, 64, 128)) == found
    coded = plain.set_column(0, "s", plain["s"].dictionary_encode())
    assert cut(coded, Sizes(16, 64, 128)) == found


def test_changes_to_columns_that_do_not_decide_move_no_boundary() -> None:
    rows = 20_000
    table = pa.table({"kind": np.arange(rows) % 4, "id": np.arange(rows) * 7, "x": np.zeros(rows)})
    assert deciding(table) == ["id"]
    changed = table.set_column(2, "x", pa.array(np.random.default_rng(1).random(rows)))
    assert cut(changed, Sizes(16, 64, 128)) == cut(table, Sizes(16, 64, 128))
    assert cut(changed.append_column("y", changed["x"]), Sizes(16, 64, 128)) == cut(table, Sizes(16, 64, 128))


@pytest.mark.parametrize("rows", [1, 1023, 1024, 1025, 4096, 10_000])
def test_where_no_column_tells_rows_apart_all_decide(rows: int) -> None:
    table = pa.table(
        {"kind": np.arange(rows) // 2, "small": np.arange(rows).astype(np.int8), "s": ["x"] * rows}
    )
    assert deciding(table) == (["kind"] if rows == 1 else ["kind", "small", "s"])


def test_wide_rows_make_chunks_of_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "CHUNK_BYTES_TARGET", 64 * 1024)
    rows = 4000
    table = pa.table({"n": np.arange(rows), "s": ["x" * 1000] * rows})
    found = np.diff(cut(table, Sizes(128, 512, 1024)))
    assert found.max() <= 128
    assert 32 < found.mean() < 96  # 512 rows would be half a megabyte, 32 to 64 rows fit


def test_a_few_huge_rows_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "CHUNK_BYTES_TARGET", 1 << 20)
    texts = ["x"] * 100_000
    for row in range(50_000, 50_008):
        texts[row] = "y" * 1_000_000
    table = pa.table({"s": texts})
    found = cut(table, Sizes(1000, 4000, 8000))
    assert all(table.slice(start, end - start).nbytes <= 2 << 20 for start, end in pairwise(found))


def test_a_dictionary_that_slices_share_does_not_shatter_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "CHUNK_BYTES_TARGET", 1 << 20)
    entries = pa.array([f"{number:0100d}" for number in range(40_000)])
    coded = pa.DictionaryArray.from_arrays(pa.array(np.arange(40_000) % 40_000, pa.int32()), entries)
    assert len(cut(pa.table({"s": coded}), Sizes.fixed(40_000))) <= 9  # 4.2 MB make 8


@pytest.mark.parametrize("wrong", [(0, 1, 2), (3, 2, 4), (1, 5, 4), (1, 2, 200_000)])
def test_sizes_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="give sizes that rise"):
        Sizes(*wrong)
