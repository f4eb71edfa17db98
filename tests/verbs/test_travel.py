"""Time travel: `at=` in every form, tags, snapshots that stay what they were."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Snapshot, Table, VersionId
from crdtcat.errors import AlreadyExists, Expired, InvalidArgument, InvalidName, NotFound, UserError
from tests.catalog.lakes import another, lake, refused, rows


def three() -> tuple[Table, list[VersionId], list[Snapshot]]:
    """A table with three commits, a few milliseconds apart."""
    table = lake().create_table("t", pa.schema([("n", pa.int64())]))
    ids, snapshots = [], []
    for n in range(3):
        ids.append(table.append([{"n": n}]).id)
        snapshots.append(table.head().snapshot)
        time.sleep(0.003)
    return table, ids, snapshots


def count(table: Table, at: Any) -> int:
    assert table.scan(at=at).count() == table.read(at=at).num_rows == table.head(at=at).row_count
    assert len(table.history(at)) == table.head(at).version
    return table.read(at=at).num_rows  # type: ignore[no-any-return]


def test_at_in_every_form() -> None:
    table, ids, snapshots = three()
    table.tag("two", at=ids[1])
    moment = ids[1].time
    forms: list[Any] = [
        snapshots[1],
        str(snapshots[1]),
        ids[1],
        str(ids[1]),
        "two",
        moment,
        moment.replace(tzinfo=None),
        moment.astimezone(dt.timezone(dt.timedelta(hours=-7))),
        moment.isoformat(),
        moment.replace(tzinfo=None).isoformat(),
        moment.astimezone(dt.timezone(dt.timedelta(hours=5))).isoformat(sep=" "),
        moment + dt.timedelta(milliseconds=1),
    ]
    for at in forms:
        assert count(table, at) == 2, at
        assert table.head(at).snapshot == snapshots[1]
    assert count(table, None) == 3
    assert count(table, dt.datetime(2200, 1, 1, tzinfo=dt.UTC)) == 3


@pytest.mark.parametrize(
    ("at", "kind", "part"),
    [
        ("nope", NotFound, "no tag 'nope'"),
        ("", NotFound, "no tag"),
        ("../../settings", NotFound, "no tag"),
        (VersionId(1, 2, 3, b"x" * 16), NotFound, "no version"),
        (str(VersionId(1, 2, 3, b"x" * 16)), NotFound, "no version"),
        (dt.datetime(1999, 1, 1, tzinfo=dt.UTC), NotFound, "as old as"),
        (dt.datetime(1, 1, 1, tzinfo=dt.UTC), NotFound, "as old as"),
        ("1999-01-01", NotFound, "as old as"),
        ("s1.damaged", InvalidArgument, "token"),
        ("0" * 16 + "-" + "0" * 16 + "-" + "0" * 8 + "-" + "g" * 32, InvalidArgument, "version id"),
        (5, InvalidArgument, "at=5"),
        (pd.NaT, InvalidArgument, "at=NaT is no moment"),
        (dt.date(1999, 1, 1), NotFound, "as old as"),
        (VersionId(1, 2, 3, b"short"), UserError, "16 bytes"),
    ],
)
def test_at_nothing(at: Any, kind: Any, part: str) -> None:
    catalog = lake()
    catalog.commit("t", [{"n": 1}])
    with refused(catalog, kind, part):
        catalog.read("t", at=at)


def test_a_snapshot_of_another_table_is_refused() -> None:
    catalog = lake()
    catalog.commit("a", [{"n": 1}])
    catalog.commit("b", [{"n": 1}])
    other = catalog.table("a").head().snapshot
    with pytest.raises((Expired, NotFound), match="snapshot"):
        catalog.read("b", at=other)


def test_snapshots_and_scans_stay_what_they_were() -> None:
    catalog = lake(upkeep="synchronous", bundle_every=2)
    table = catalog.create_table("t", pa.schema([("n", pa.int64())]))
    other = another(catalog, grace_seconds=0).table("t")
    kept: list[tuple[str, Any, list[dict[str, Any]], str]] = []
    for n in range(12):
        match n % 6:
            case 3:
                other.overwrite([{"n": -n}])
            case 4:
                other.add_column(f"c{n}", pa.string())
            case 5:
                other.checkpoint()
                other.collect()
            case _:
                other.append([{"n": n}])
        head = table.head()
        kept.append((str(head.snapshot), table.scan(), rows(table.read()), head.root_hash))
        for token, scan, expected, root in kept:
            assert rows(scan.to_table()) == expected
            assert rows(another(catalog).read("t", at=token)) == expected
            assert another(catalog).table("t").head(token).root_hash == root
            assert table.head(token).snapshot == Snapshot.parse(token)


def test_tokens_are_text_that_can_be_kept() -> None:
    table, _, snapshots = three()
    for snapshot in snapshots:
        assert Snapshot.parse(str(snapshot)) == snapshot
        assert snapshot.id[:12] in repr(snapshot)
        assert table.head(str(snapshot)).snapshot.clock == snapshot.clock


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.text(max_size=60).map(lambda text: f"s1.{text}"))
def test_no_text_breaks_at(text: str) -> None:
    table = READ_ONLY
    try:
        head = table.head(at=text)
    except (NotFound, InvalidArgument):
        return
    assert head.version == 1  # a moment, as fromisoformat reads it


READ_ONLY = lake().create_table("t", pa.schema([("n", pa.int64())]))
READ_ONLY.append([{"n": 1}])


def test_tags() -> None:
    table, ids, snapshots = three()
    assert table.tags() == {}
    assert table.tag("now") == snapshots[2]
    assert table.tag("first", at=ids[0]) == snapshots[0]
    assert table.tag("2001-01-01", at="first") == snapshots[0]  # a tag goes before a date
    assert count(table, "2001-01-01") == 1
    with pytest.raises(NotFound, match="as old as 2001-01-01"):
        table.read(at=dt.date(2001, 1, 1))  # which is always the day
    table.append([{"n": 9}])
    assert count(table, "now") == 3
    assert table.tags() == {"now": snapshots[2], "first": snapshots[0], "2001-01-01": snapshots[0]}
    with pytest.raises(AlreadyExists, match="'now'"):
        table.tag("now")
    assert table.tag("now", replace=True).versions == 4
    table.delete_tag("now")
    with pytest.raises(NotFound, match="'now'"):
        table.delete_tag("now")
    with pytest.raises(NotFound, match="'now'"):
        table.read(at="now")
    assert count(table, snapshots[2]) == 3  # the snapshot outlives its name


@pytest.mark.parametrize("name", ["", "a/b", "..", "s1.x", "ä", "x" * 200, 5, "0" * 72 + "---"])
def test_bad_tag_names(name: Any) -> None:
    catalog = lake()
    catalog.commit("t", [{"n": 1}])
    with refused(catalog, UserError, "tag"):
        catalog.table("t").tag(name)


def test_a_tag_that_would_hide_a_version_is_refused() -> None:
    table, ids, _ = three()
    with pytest.raises(InvalidName, match="choose another"):
        table.tag(str(ids[0]))


def test_a_tag_of_a_table_without_commits() -> None:
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("n", pa.int64())]))
    table.tag("empty")
    table.append([{"n": 1}])
    assert table.read(at="empty").num_rows == 0
    table.restore("empty")
    assert table.read() == table.schema.empty_table()


def test_late_versions_may_sort_into_the_past_and_snapshots_do_not_mind() -> None:
    table, ids, snapshots = three()
    late = another_in_the_past(table)
    late.append([{"n": 99}])
    assert [row["n"] for row in rows(table.read())] == [99, 0, 1, 2]
    assert count(table, snapshots[0]) == 1
    assert count(table, ids[0]) == 2  # by id: resolved against what is known now


def another_in_the_past(table: Table) -> Table:
    from crdtcat.clock import HybridClock  # noqa: PLC0415

    catalog = another(SameStore(table))  # type: ignore[arg-type]
    catalog._clock = HybridClock(lambda: int(time.time() * 1000) - 3_600_000)
    return catalog.table("t")


class SameStore:
    def __init__(self, table: Table) -> None:
        self.store = table._session.store
        self._clock = table._session.clock


def test_a_token_that_was_cut_off_or_altered_is_refused() -> None:
    table, _, snapshots = three()
    table.tag("kept")
    token = str(snapshots[1])
    letters = [
        token[:at] + ("B" if token[at] != "B" else "C") + token[at + 1 :] for at in range(3, len(token))
    ]
    wrong = [*(token[:end] for end in range(3, len(token))), *letters]
    wrong += [
        token + "A",
        token + "AAAA",
        token + "=",
        token[:20] + " " + token[20:],
        token + token[3:],
        token + "\n",
    ]
    for text in wrong:
        with pytest.raises(InvalidArgument, match="not a snapshot token, or not a whole one"):
            table.read(at=text)
    assert table.read(at=token).num_rows == 2
