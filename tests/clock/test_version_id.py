"""Version ids: text, bytes and tuples sort alike; everything else is refused."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crdtcat.clock import ROOT, VersionId, hlc
from crdtcat.clock.version_id import ID_BYTES, TEXT_CHARACTERS
from crdtcat.errors import InvalidArgument

# Small fields so that ties happen, the full range so that widths are tried.
sixty_four = st.integers(0, 2) | st.integers(0, 2**64 - 1)
version_ids = st.builds(
    VersionId,
    sixty_four,
    sixty_four,
    st.integers(0, 2) | st.integers(0, 2**32 - 1),
    st.binary(min_size=16, max_size=16),
)


@given(version_ids, version_ids)
def test_text_and_bytes_sort_as_tuples_do(a: VersionId, b: VersionId) -> None:
    assert (a < b) == (str(a) < str(b)) == (a.to_bytes() < b.to_bytes())
    assert (a == b) == (str(a) == str(b)) == (a.to_bytes() == b.to_bytes())


@given(version_ids)
def test_both_forms_round_trip_at_fixed_width(version: VersionId) -> None:
    assert VersionId.parse(str(version)) == version
    assert VersionId.from_bytes(version.to_bytes()) == version
    assert pickle.loads(pickle.dumps(version)) == version
    assert len(str(version)) == TEXT_CHARACTERS
    assert len(version.to_bytes()) == ID_BYTES
    assert version >= ROOT


@given(version_ids, version_ids)
def test_the_order_is_total(a: VersionId, b: VersionId) -> None:
    assert [a < b, a == b, a > b].count(True) == 1


def test_ties_are_broken_by_writer_then_count_then_content() -> None:
    ordered = [
        VersionId(1, 9, 9, b"\xff" * 16),
        VersionId(2, 1, 9, b"\xff" * 16),
        VersionId(2, 2, 1, b"\xff" * 16),
        VersionId(2, 2, 2, b"\x00" * 16),
        VersionId(2, 2, 2, b"\x01" * 16),
    ]
    assert sorted(ordered) == ordered


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        str(ROOT)[:-1],
        str(ROOT) + "0",
        str(ROOT) + "\n",
        str(ROOT).replace("-", "_"),
        str(VersionId(0xABC, 0, 0, bytes(16))).upper(),
        "\N{ARABIC-INDIC DIGIT ZERO}" + str(ROOT)[1:],
        "+" + str(ROOT)[1:],
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="not a version id"):
        VersionId.parse(text)


@pytest.mark.parametrize("size", [0, ID_BYTES - 1, ID_BYTES + 1])
def test_other_lengths_are_refused(size: int) -> None:
    with pytest.raises(InvalidArgument, match="36 bytes"):
        VersionId.from_bytes(bytes(size))


@pytest.mark.parametrize(
    "version",
    [
        VersionId(0, 0, 0, b"short"),
        VersionId(0, 0, 0, bytes(17)),
        VersionId(2**64, 0, 0, bytes(16)),
        VersionId(0, -1, 0, bytes(16)),
        VersionId(0, 0, 2**32, bytes(16)),
    ],
)
def test_a_field_that_does_not_fit_is_refused_not_cut(version: VersionId) -> None:
    with pytest.raises(InvalidArgument):
        version.to_bytes()


def test_time_and_repr_read_well() -> None:
    version = VersionId(hlc.pack(1_000), 1, 1, bytes(16))
    assert version.time.isoformat() == "1970-01-01T00:00:01+00:00"
    assert repr(version) == f"VersionId('{version}')"
