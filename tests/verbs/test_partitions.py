"""Partitioned tables: every transform, pruning by it, and overwriting what a filter selects."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Table
from crdtcat.errors import InvalidArgument, InvalidFilter, NotFound, UserError
from crdtcat.verbs import rows as row_verbs
from tests.bounds import bounded
from tests.catalog.lakes import another, lake, refused, rows
from tests.verbs.test_rows import Interrupted

SCHEMA = pa.schema(
    [("id", pa.int64()), ("country", pa.string()), ("ts", pa.timestamp("us")), ("zip", pa.string())]
)
MOMENTS = [dt.datetime(2024, month, day, hour) for month in (1, 2) for day in (1, 2) for hour in (0, 13)]  # noqa: DTZ001
ROWS = [
    {"id": n, "country": ("de", "fr", None)[n % 3], "ts": moment, "zip": f"{n % 4}00{n}"}
    for n, moment in enumerate(MOMENTS)
]


def made(*partition_by: str, **options: Any) -> Table:
    table = lake(**options).create_table("t", SCHEMA, partition_by=list(partition_by))
    table.append(ROWS)
    return table


def by_id(table: Table, **options: Any) -> list[int]:
    return sorted(table.read(["id"], **options)["id"].to_pylist())


PRUNED = [
    ("country", "country = 'de'", 1),
    ("country", "country is null", 1),
    ("year(ts)", "ts >= '2024-01-01'", 1),
    ("month(ts)", "ts < '2024-02-01'", 1),
    ("day(ts)", "ts >= '2024-01-02' and ts < '2024-02-01'", 1),
    ("hour(ts)", "ts >= '2024-01-02 13:00:00' and ts < '2024-01-02 14:00:00'", 1),
    ("truncate(1, zip)", "zip like '3%'", 1),
    ("truncate(2, id)", "id >= 2 and id < 4", 1),
]


@pytest.mark.parametrize(("transform", "filter", "kept"), PRUNED)
def test_partitions_are_pruned_and_rows_are_right(transform: str, filter: str, kept: int) -> None:
    plain = lake().create_table("plain", SCHEMA)
    plain.append(ROWS)
    table = made(transform)
    scan = table.scan(filter=filter)
    assert len(scan.plan.chunks) == kept
    assert by_id(table, filter=filter) == by_id(plain, filter=filter) != []
    assert scan.count() == plain.scan(filter=filter).count()


@pytest.mark.parametrize(("transform", "filter"), [case[:2] for case in PRUNED])
@pytest.mark.parametrize("inline_bytes", [0, 65536])
def test_overwrite_where(transform: str, filter: str, inline_bytes: int) -> None:
    table = made(transform, inline_bytes=inline_bytes)
    doomed = table.read(filter=filter)
    kept = sorted(set(range(len(ROWS))) - set(by_id(table, filter=filter)))
    version = table.overwrite(doomed.slice(0, 1), where=filter)
    assert version.rows == 1
    assert by_id(table) == sorted([*kept, doomed["id"][0].as_py()])
    table.overwrite(SCHEMA.empty_table(), where=filter)  # nothing in its place
    assert by_id(table) == kept


def test_two_fields_and_a_bucket() -> None:
    table = made("country", "bucket(4, id)")
    assert by_id(table) == list(range(len(ROWS)))
    assert by_id(table, filter="id = 5") == [5]
    table.overwrite(SCHEMA.empty_table(), where="country = 'fr'")
    assert by_id(table) == [0, 2, 3, 5, 6]
    assert table.partition_by == ("country", "bucket(4, id)")


@pytest.mark.parametrize(
    ("transform", "filter"),
    [
        ("country", "id = 3"),
        ("country", "country = 'de' and id = 3"),
        ("day(ts)", "ts > '2024-01-01 12:00:00'"),
        ("month(ts)", "ts < '2024-02-02'"),
        ("bucket(4, id)", "id = 3"),
        ("truncate(1, zip)", "zip = '3003'"),
    ],
)
def test_a_filter_that_cuts_through_a_partition_is_refused(transform: str, filter: str) -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA, partition_by=[transform])
    table.append(ROWS)
    with refused(catalog, InvalidArgument, "part of", transform):
        table.overwrite(SCHEMA.empty_table(), where=filter)


def test_new_rows_must_match_the_filter() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA, partition_by=["country"])
    table.append(ROWS)
    with refused(catalog, InvalidArgument, "1 of 2", "country"):
        table.overwrite([{"id": 1, "country": "de"}, {"id": 2, "country": "fr"}], where="country = 'de'")
    with refused(catalog, UserError, "country"):
        table.overwrite([{"id": 1}], where="country = 'de'")
    with refused(catalog, InvalidFilter, "nope"):
        table.overwrite(ROWS, where="nope = 'de'")


def test_where_needs_partitions_and_columns() -> None:
    catalog = lake()
    plain = catalog.create_table("plain", SCHEMA)
    with refused(catalog, InvalidArgument, "partition_by", "'plain'"):
        plain.overwrite(ROWS, where="country = 'de'")
    bare = catalog.create_table("bare", partition_by=["country"])
    with refused(catalog, NotFound, "'bare'", "append"):
        bare.overwrite(ROWS, where="country = 'de'")
    bare.append(ROWS)
    bare.overwrite([{**ROWS[0], "id": 100}], where=[("country", "=", "de")])
    assert by_id(bare, filter="country = 'de'") == [100]


def test_where_takes_rows_in_types_that_fit() -> None:
    table = made("id")
    table.overwrite(pa.table({"id": pa.array([3], pa.int8()), "country": ["it"]}), where="id = 3")
    assert rows(table.read(["country"], "id = 3")) == [{"country": "it"}]


def test_overwrites_of_different_partitions_both_hold_and_appends_survive() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA, partition_by=["country"])
    table.append(ROWS)
    other = another(catalog).table("t")

    def meanwhile() -> None:
        other.overwrite([{"id": 200, "country": "fr"}], where="country = 'fr'")
        other.append([{"id": 300, "country": "de"}, {"id": 301, "country": "fr"}])

    row_verbs.overwrite(
        table._session, Interrupted([{"id": 100, "country": "de"}], meanwhile), where="country = 'de'"
    )
    assert by_id(table, filter="country = 'de'") == [100, 300]
    assert by_id(table, filter="country = 'fr'") == [200, 301]
    assert by_id(table, filter="country is null") == [2, 5]
    assert table.conflicts() == ()


def test_overwrites_of_one_partition_meet() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA, partition_by=["country"])
    table.append(ROWS)
    other = another(catalog).table("t")
    lost = []

    def meanwhile() -> None:
        lost.append(other.overwrite([{"id": 200, "country": "de"}], where="country = 'de'"))

    won = row_verbs.overwrite(
        table._session, Interrupted([{"id": 100, "country": "de"}], meanwhile), where="country = 'de'"
    )
    assert by_id(table, filter="country = 'de'") == by_id(other, filter="country = 'de'") == [100]
    (conflict,) = table.conflicts()
    assert (conflict.winner, conflict.loser) == (won.id, lost[0].id)


def test_a_whole_overwrite_meets_one_of_a_partition() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA, partition_by=["country"])
    table.append(ROWS)
    other = another(catalog).table("t")
    row_verbs.overwrite(
        table._session,
        Interrupted(
            [{"id": 100, "country": "de"}],
            lambda: other.overwrite([{"id": 200, "country": "fr"}, {"id": 201, "country": "it"}]),
        ),
        where="country = 'de'",
    )
    # The whole overwrite is smaller: the greater one's scope is only 'de', so the rest of the other stands.
    assert by_id(table) == by_id(other) == [100, 200, 201]
    assert [conflict.kind for conflict in table.conflicts()] == ["overwrite"]


def test_partition_columns_keep_name_and_type() -> None:
    table = made("day(ts)", "country")
    wrongs: list[Any] = [
        lambda: table.drop_column("ts"),
        lambda: table.rename_column("country", "land"),
        lambda: table.widen_column("country", pa.large_string()),
    ]
    for wrong in wrongs:
        with pytest.raises(InvalidArgument, match="partitioned by"):
            wrong()
    table.reorder_columns(["country", "ts"])
    table.append([{"id": 9, "country": "de", "ts": MOMENTS[0]}])
    assert by_id(table, filter="country = 'de'") == [0, 3, 6, 9]


TRANSFORMS = [
    "id",
    "country",
    "year(ts)",
    "month(ts)",
    "day(ts)",
    "hour(ts)",
    "bucket(3, id)",
    "truncate(2, zip)",
]
ANY_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.none() | st.integers(-5, 5),
            "country": st.none() | st.sampled_from(("de", "fr", "")),
            "ts": st.none() | st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2040, 1, 1)),  # noqa: DTZ001
            "zip": st.none() | st.text("019", max_size=4),
        }
    ),
    max_size=12,
)


@settings(max_examples=bounded(60, 2), deadline=None)
@given(ANY_ROWS, st.sampled_from(TRANSFORMS), st.integers(-5, 5), st.sampled_from(("de", "fr", "it")))
def test_partitioning_changes_no_answer(given_rows: Any, transform: str, number: int, country: str) -> None:
    catalog = lake(chunk_rows=3)
    plain, cut = (
        catalog.create_table("plain", SCHEMA),
        catalog.create_table("cut", SCHEMA, partition_by=[transform]),
    )
    for half in (given_rows[::2], given_rows[1::2]):
        plain.append(pa.Table.from_pylist(half, SCHEMA))
        cut.append(pa.Table.from_pylist(half, SCHEMA))
    for filter in (
        f"id = {number}",
        f"country = '{country}'",
        "ts < '2000-06-01'",
        "zip >= '1'",
        "id is null",
    ):
        expected = sorted(map(repr, rows(plain.read(filter=filter))))
        assert sorted(map(repr, rows(cut.read(filter=filter)))) == expected
        assert cut.scan(filter=filter).count() == plain.scan(filter=filter).count() == len(expected)
