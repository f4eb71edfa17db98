"""Names and ids are looked at many at once, which gives what looking at them one by one does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat.clock import VersionId
from crdtcat.errors import Corrupt
from crdtcat.format.settings import Settings, decode_settings
from crdtcat.log import empty_log
from crdtcat.log.files import files_without, ids_of
from crdtcat.log.log import ID, Log
from crdtcat.protocol.names import (
    TRANSACTIONS,
    base_name,
    bundle_name,
    claim_name,
    is_bundle,
    is_commit,
    mark_name,
    sorted_out,
    version_name,
)

FOLDERS = ("tables/t/main/", "tables/a_longer_name/main~2/")
ids = st.builds(
    VersionId,
    st.integers(0, 3),  # few: many share a time, as where many write at once
    st.integers(0, 3),
    st.integers(0, 2**32 - 1),
    st.binary(min_size=16, max_size=16) | st.just(bytes(16)),
)
versions = st.builds(version_name, st.sampled_from((*FOLDERS, TRANSACTIONS)), ids)
others = st.one_of(
    st.builds(claim_name, st.sampled_from(FOLDERS), st.integers(1, 10)),
    st.builds(bundle_name, st.sampled_from(FOLDERS), st.integers(1, 9), st.binary(min_size=16, max_size=16)),
    st.builds(base_name, st.sampled_from(FOLDERS), st.integers(1, 9)),
    st.sampled_from((mark_name(FOLDERS[0]), FOLDERS[0] + "hint", "data/x.v", "x.b", "v", "", ".c")),
)


def log_of(found: list[VersionId]) -> Log:
    """A log that has these ids, and claims of numbers 1 to as many."""
    rising = np.array(sorted(id.to_bytes() for id in set(found)), ID)
    return empty_log().with_(ids=rising, number=np.arange(1, len(rising) + 1, dtype=np.uint64))


@settings(deadline=None)
@given(st.lists(versions | others))
def test_names_are_sorted_out_as_one_by_one(names: list[str]) -> None:
    bundles, commits = sorted_out(names)
    assert bundles == [name for name in names if is_bundle(name)]
    assert commits == [name for name in names if is_commit(name)]


@settings(deadline=None)
@given(st.lists(versions))
def test_ids_of_names_are_those_that_each_has(names: list[str]) -> None:
    each = [VersionId.parse(name.rsplit("/", 1)[-1][:-2]).to_bytes() for name in names]
    assert ids_of(names).tobytes() == b"".join(each)


@settings(deadline=None)
@given(st.lists(ids, unique=True), st.lists(ids))
def test_an_id_is_found_as_many_are(known: list[VersionId], asked: list[VersionId]) -> None:
    log = log_of(known)
    for wanted in (known, [*known, *asked], asked):
        found = log.find(np.array([id.to_bytes() for id in wanted], ID))
        assert found.tolist() == [log.index_of(id) for id in wanted]
        assert [log.id_at(at) if at >= 0 else None for at in found] == [
            id if id in known else None for id in wanted
        ]


@settings(deadline=None)
@given(st.lists(ids, unique=True), st.lists(ids), st.lists(st.integers(1, 10)), st.integers(0, 3))
def test_files_that_a_log_lacks(
    known: list[VersionId], asked: list[VersionId], claims: list[int], horizon: int
) -> None:
    log = log_of(known)
    names = [version_name(FOLDERS[0], id) for id in (*known, *asked)]
    lacking = [version_name(FOLDERS[0], id) for id in asked if id not in known and id.hlc >= horizon]
    assert files_without(log, names, horizon) == lacking
    claimed = [claim_name(FOLDERS[0], number) for number in claims]
    free = [claim_name(FOLDERS[0], number) for number in claims if number > len(log)]
    assert sorted(files_without(log, [*names, *claimed], horizon)) == sorted(lacking + free)


def test_settings_are_checked_whenever_they_are_other_bytes() -> None:
    data, name = Settings(time_column="at").encode(), "tables/t/settings.json"
    assert decode_settings(data, name) == Settings(time_column="at")
    assert decode_settings(memoryview(data), name) == Settings(time_column="at")
    damaged = data.replace(b'"at"', b'"It"')
    for _ in range(2):
        with pytest.raises(Corrupt, match="does not match its checksum"):
            decode_settings(damaged, name)
    assert decode_settings(data, name).time_column == "at"
