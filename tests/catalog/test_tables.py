"""Creating, listing, dropping and re-creating tables; implicit creation; options; pickling."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import (
    AlreadyExists,
    Corrupt,
    InvalidArgument,
    InvalidName,
    LimitExceeded,
    NotFound,
    UnsupportedFormat,
    UserError,
)
from crdtcat.limits import COLUMN_NAME_BYTES_MAX, COLUMNS_MAX
from tests.catalog.lakes import another, lake, objects, refused, rows

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
WIDE = pa.struct([(f"{n:06}" + "x" * 240, pa.int8()) for n in range(9_000)])
HUGE = pa.schema([(f"s{n}", WIDE) for n in range(8)])


def test_a_new_catalog_has_no_tables_and_writes_nothing_until_used() -> None:
    catalog = lake()
    assert catalog.tables() == []
    assert objects(catalog) == {}


def test_create_list_and_open() -> None:
    catalog = lake()
    made = catalog.create_table("events", SCHEMA)
    assert isinstance(made, Table)
    assert catalog.table("events") is made
    catalog.create_table("Users.v2")
    assert sorted(another(catalog).tables()) == ["Users.v2", "events"]
    assert another(catalog).table("events").schema == SCHEMA


def test_a_missing_table_is_not_found_by_name() -> None:
    catalog = lake()
    for call in (catalog.table, catalog.read, catalog.drop_table):
        with refused(catalog, NotFound, "'events'", catalog.url):
            call("events")


def test_create_twice() -> None:
    catalog = lake()
    first = catalog.create_table("events", SCHEMA)
    with refused(catalog, AlreadyExists, "'events'", "exist_ok"):
        catalog.create_table("events", SCHEMA)
    assert catalog.create_table("events", SCHEMA, exist_ok=True) is first
    assert catalog.create_table("events", exist_ok=True) is first
    with refused(catalog, AlreadyExists, "'events'", "other settings"):
        catalog.create_table("events", pa.schema([("id", pa.int32())]), exist_ok=True)
    with refused(another(catalog), AlreadyExists, "'events'", "other settings"):
        another(catalog).create_table("events", SCHEMA, partition_by=["id"], exist_ok=True)


def test_settings_that_differ_are_told() -> None:
    catalog = lake()
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us")), ("s", pa.string())])
    catalog.create_table("t", schema, key=["id"], partition_by=["bucket(4, id)"])
    told = [
        "mode: 'merge' in the table, 'cas' in this call",
        "key: ['id'] in the table, [] in this call",
        "partition_by: ['bucket(4, id)'] in the table, [] in this call",
        "time_column: None in the table, 'at' in this call",
        "column 'id': int64 not null in the table, int64 in this call",
        "column 's': string in the table, none in this call",
        "column 'x': none in the table, double in this call",
    ]
    other = pa.schema([schema.field("id"), schema.field("at"), ("x", pa.float64())])
    with refused(catalog, AlreadyExists, *told):
        catalog.create_table("t", other, mode="cas", time_column="at", exist_ok=True)
    with refused(
        catalog, AlreadyExists, "other settings: order of columns: id, at, s in the table, id, s, at in"
    ):
        moved = pa.schema([schema.field(name) for name in ("id", "s", "at")])
        catalog.create_table("t", moved, key=["id"], partition_by=["bucket(4, id)"], exist_ok=True)
    catalog.commit("u", [{"id": 1}])
    with refused(catalog, AlreadyExists, "other settings: columns: declared in this call only"):
        catalog.create_table("u", schema, exist_ok=True)
    wide = pa.schema([(f"c{number}", pa.int8()) for number in range(50)])
    with refused(catalog, AlreadyExists, "and 48 columns more"):
        catalog.create_table("t", wide, exist_ok=True)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "a..b", "-a", "ä", "a b", "refs", "settings.json", "x" * 129, None, 5, "a\n"],
)
def test_bad_table_names(name: Any) -> None:
    catalog = lake()
    for call in (catalog.create_table, catalog.table, catalog.drop_table, catalog.read):
        with refused(catalog, UserError):
            call(name)
    with refused(catalog, UserError):
        catalog.commit(name, [{"a": 1}])


@pytest.mark.parametrize(
    ("arguments", "kind", "part"),
    [
        ({"schema": [("a", "int64")]}, InvalidArgument, "pyarrow.Schema"),
        ({"schema": {"a": pa.int64()}}, InvalidArgument, "pyarrow.Schema"),
        ({"schema": pa.schema([])}, InvalidArgument, "at least one"),
        ({"schema": pa.schema([("a", pa.int8()), ("a", pa.int8())])}, InvalidName, "'a'"),
        ({"schema": pa.schema([("a\x00", pa.int8())])}, InvalidName, "control"),
        ({"schema": pa.schema([("a", pa.struct([("x", pa.int8()), ("x", pa.int8())]))])}, InvalidName, "'x'"),
        ({"schema": pa.schema([("u", pa.dense_union([pa.field("x", pa.int8())]))])}, UserError, "column u"),
        ({"schema": pa.schema([(f"c{n}", pa.int8()) for n in range(10_001)])}, LimitExceeded, "10000"),
        ({"schema": SCHEMA, "partition_by": "id"}, InvalidArgument, "list"),
        ({"schema": SCHEMA, "partition_by": ["nope"]}, InvalidArgument, "'nope'"),
        ({"schema": SCHEMA, "partition_by": ["day(name)"]}, InvalidArgument, "day"),
        ({"schema": SCHEMA, "partition_by": ["bucket(0, id)"]}, InvalidArgument, "bucket"),
        ({"schema": SCHEMA, "partition_by": ["id", "id"]}, InvalidArgument, "twice"),
        ({"schema": SCHEMA, "partition_by": [5]}, InvalidArgument, "5"),
        ({"schema": SCHEMA, "time_column": "nope"}, InvalidArgument, "'nope'"),
        ({"schema": SCHEMA, "time_column": "name"}, InvalidArgument, "timestamp"),
        ({"time_column": 5}, InvalidName, "5"),
        ({"schema": HUGE}, LimitExceeded, "SETTINGS_FILE_BYTES_MAX"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(
    arguments: dict[str, Any], kind: type[UserError], part: str
) -> None:
    catalog = lake()
    with refused(catalog, kind, part):
        catalog.create_table("t", **arguments)


@pytest.mark.parametrize("letter", ["x", "\N{LATIN SMALL LETTER E WITH ACUTE}", '"', "\N{GRINNING FACE}"])
def test_as_many_columns_as_there_may_be_with_the_longest_names(letter: str) -> None:
    count = (COLUMN_NAME_BYTES_MAX - 5) // len(letter.encode())
    schema = pa.schema([(f"{n:05}" + letter * count, pa.timestamp("ns", "UTC")) for n in range(COLUMNS_MAX)])
    catalog = lake()
    catalog.create_table("t", schema)
    assert another(catalog).tables() == ["t"]
    assert another(catalog).table("t").schema == schema
    another(catalog).drop_table("t")


def test_damaged_settings_of_one_table_do_not_hide_the_others() -> None:
    catalog = lake()
    for name in ("a", "b", "c", "d"):
        catalog.commit(name, [{"n": 1}])
    catalog.drop_table("d")
    catalog.store.put("tables/b/settings.json", b"{}")
    catalog.store.put("tables/c/settings.json", b'{"format":2}')
    other = another(catalog)
    assert other.tables() == ["a", "b", "c"]
    assert rows(other.read("a")) == [{"n": 1}]
    with pytest.raises(Corrupt, match="tables/b/settings"):
        other.read("b")
    with pytest.raises(UnsupportedFormat, match="tables/c/settings"):
        other.read("c")


@pytest.mark.parametrize("again", [False, True])
def test_a_handle_that_only_appends_learns_of_a_drop_by_its_upkeep(
    again: bool, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = lake()
    catalog.commit("t", [{"n": 0}])
    appending = another(catalog, upkeep="synchronous", bundle_every=2).table("t")
    appending.append([{"n": 1}])
    catalog.drop_table("t")
    if again:
        catalog.commit("t", [{"n": -1}])
    while not appending.dropped:  # one in two is chosen for upkeep, which never raises
        appending.append([{"n": 2}])
    with pytest.raises(NotFound, match="dropped"):
        appending.append([{"n": 3}])
    assert "dropped" in caplog.text
    if again:
        assert rows(another(catalog).read("t")) == [{"n": -1}]


def test_collecting_a_dropped_table_is_not_found() -> None:
    catalog = lake()
    catalog.commit("t", [{"n": 0}])
    handle = another(catalog).table("t")
    catalog.drop_table("t")
    with pytest.raises(NotFound, match="dropped"):
        handle.collect()
    with pytest.raises(NotFound, match="dropped"):
        handle.append([{"n": 1}])


def test_the_handles_of_whoever_drops_a_table_know_at_once() -> None:
    """What they acknowledged could never be read."""
    catalog = lake()
    table = catalog.create_table("t", pa.schema([("n", pa.int64())]))
    branches = [table.branch("a"), table.branch("b")]
    table.delete_branch("a")
    with refused(catalog, NotFound, "branch 'a'", "deleted"):
        branches[0].append([{"n": 1}])
    branches[1].append([{"n": 1}])
    catalog.drop_table("t")
    with refused(catalog, NotFound, "was dropped"):
        table.append([{"n": 1}])
    with refused(catalog, NotFound, "branch 'b'"):
        branches[1].append([{"n": 1}])
    catalog.create_table("t").append([{"n": 2}])
    assert rows(catalog.read("t")) == [{"n": 2}]


def test_a_dropped_table_is_gone_for_everybody() -> None:
    catalog = lake()
    catalog.commit("t", [{"a": 1}])
    reader, idle = another(catalog), another(catalog)
    assert reader.read("t").num_rows == 1
    idle.table("t")  # opened, never read
    kept = reader.table("t")
    catalog.drop_table("t")
    assert catalog.tables() == reader.tables() == []
    for other in (catalog, reader, idle, another(catalog)):
        with pytest.raises(NotFound, match="'t'"):
            other.read("t")
    with pytest.raises(NotFound, match="dropped"):
        kept.append([{"a": 2}])
    with pytest.raises(NotFound):
        catalog.drop_table("t")


def test_a_table_created_again_starts_empty_and_old_handles_find_it() -> None:
    catalog = lake()
    catalog.commit("t", [{"a": 1}])
    catalog.table("t").tag("old")
    reader, idle = another(catalog), another(catalog)
    old = reader.table("t").head().snapshot
    idle.table("t")
    catalog.drop_table("t")
    again = catalog.create_table("t", pa.schema([("b", pa.string())]))
    assert len(again.history()) == 0
    assert again.tags() == {}
    again.append([{"b": "x"}])
    for other in (reader, idle):
        handle = other.table("t")
        with pytest.raises(NotFound, match="dropped"):
            handle.read()  # it learns it here
        assert rows(other.read("t")) == [{"b": "x"}]
    with pytest.raises(NotFound, match="'old'"):
        again.read(at="old")
    with pytest.raises(Exception, match="snapshot"):
        again.read(at=old)


def test_stragglers_of_a_dropped_table_are_not_visible() -> None:
    catalog = lake()
    catalog.commit("t", [{"a": 1}])
    straggler = another(catalog).table("t")
    catalog.drop_table("t")
    straggler.append([{"a": 2}])  # blind: nobody told it yet
    with pytest.raises(NotFound, match="dropped"):
        straggler.read()
    assert catalog.tables() == []
    catalog.commit("t", [{"a": 3}])
    assert rows(another(catalog).read("t")) == [{"a": 3}]


def test_drop_and_create_many_times() -> None:
    catalog = lake()
    for n in range(4):
        catalog.commit("t", [{"n": n}])
        assert rows(catalog.read("t")) == rows(another(catalog).read("t")) == [{"n": n}]
        catalog.drop_table("t")


def test_commit_creates_the_table() -> None:
    catalog = lake()
    version = catalog.commit("t", [{"a": 1}], metadata={"why": "first"})
    assert catalog.tables() == ["t"]
    assert catalog.table("t").history()[0] == version
    assert another(catalog).commit("t", [{"a": 2}]).id > version.id
    assert rows(catalog.read("t")) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    "data", [42, "text", None, [], {}, [1], pa.table({}), [{"a": object()}], [{"": 1}], object()]
)
def test_rows_that_cannot_be_stored_create_no_table(data: object) -> None:
    catalog = lake()
    with refused(catalog, UserError):
        catalog.commit("t", data)
    assert catalog.tables() == []


@pytest.mark.parametrize(
    "options", [{"key": ""}, {"key": 5}, {"metadata": {"x": object()}}, {"metadata": [1]}]
)
def test_options_that_cannot_be_stored_create_no_table(options: dict[str, Any]) -> None:
    catalog = lake()
    with refused(catalog, UserError):
        catalog.commit("t", [{"a": 1}], **options)


def test_two_writers_create_one_table_at_once_with_different_columns() -> None:
    catalog = lake()
    others = [another(catalog) for _ in range(4)]
    for other in others:
        with pytest.raises(NotFound):
            other.table("t")
    others[0].commit("t", pa.table({"a": pa.array([1], pa.int32())}))
    others[1].commit("t", pa.table({"a": pa.array([2**40], pa.int64()), "b": ["x"]}))
    others[2].commit("t", pa.table({"c": [1.5]}))
    others[3].commit("t", pa.table({"a": ["not a number"]}))
    shown = catalog.table("t")
    assert shown.schema == pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.float64())])
    assert rows(shown.read()) == [
        {"a": 1, "b": None, "c": None},
        {"a": 2**40, "b": "x", "c": None},
        {"a": None, "b": None, "c": 1.5},
        {"a": None, "b": None, "c": None},
    ]
    (conflict,) = shown.conflicts()
    assert conflict.kind == "misfit"
    assert conflict.loser == shown.history()[3].id
    assert "'a'" in str(conflict)
    assert shown.lost_values(conflict) == pa.table({"a": ["not a number"]})
    for other in others:
        assert other.table("t").head().snapshot == shown.head().snapshot


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"nope": 1}, "nope"),
        ({"inline_bytes": -1}, "inline_bytes"),
        ({"inline_bytes": 2**40}, "inline_bytes"),
        ({"chunk_rows": 0}, "chunk_rows"),
        ({"chunk_rows_min": 10, "chunk_rows_target": 5}, "chunk_rows_target=5"),
        ({"chunk_rows_max": 100}, "must not fall"),
        ({"chunk_rows_max": 200_000}, "chunk_rows_max"),
        ({"segment_bytes": 1}, "segment_bytes"),
        ({"bundle_every": 1}, "bundle_every"),
        ({"grace_seconds": -1}, "grace_seconds"),
        ({"grace_seconds": float("inf")}, "grace_seconds"),
        ({"grace_seconds": float("nan")}, "grace_seconds"),
        ({"grace_seconds": 1e300}, "grace_seconds"),
        ({"max_clock_skew_seconds": float("inf")}, "max_clock_skew_seconds"),
        ({"max_clock_skew_seconds": float("nan")}, "max_clock_skew_seconds"),
        ({"max_clock_skew_seconds": 0}, "max_clock_skew_seconds"),
        ({"verify": "perhaps"}, "verify"),
    ],
)
def test_options_are_checked_when_the_catalog_is_opened(options: dict[str, Any], part: str) -> None:
    with pytest.raises(InvalidArgument, match=part):
        Catalog("memory://options", **options)


def test_paths_of_all_kinds(tmp_path: Path) -> None:
    Catalog(str(tmp_path / "a")).commit("t", [{"a": 1}])
    assert Catalog(tmp_path / "a").read("t").num_rows == 1
    assert Catalog((tmp_path / "a").as_uri()).read("t").num_rows == 1


def test_catalogs_and_tables_travel_in_pickles(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path), upkeep=False)
    table = catalog.create_table("t", SCHEMA)
    table.append([{"id": 1, "name": "a"}])
    for copy in (pickle.loads(pickle.dumps(table)), pickle.loads(pickle.dumps(catalog)).table("t")):
        assert copy.read() == table.read()
        before = copy._session.store.requests.snapshot()
        version = copy.append([{"id": 2, "name": "b"}])
        used = copy._session.store.requests.snapshot() - before
        assert (used.put, used.get, used.list) == (1, 0, 0)
        assert version.id.writer != table.append([{"id": 3, "name": "c"}]).id.writer
    assert table.scan().count() == 5


def test_printing() -> None:
    catalog = lake()
    table = catalog.create_table("events", SCHEMA)
    assert repr(catalog) == f"Catalog({catalog.url!r})"
    assert "events" in repr(table)
    assert catalog.url in repr(table)


def test_credentials_are_never_printed() -> None:
    catalog = Catalog("s3://bucket/lake", {"key": "visible-id", "secret": "hidden-secret"})
    assert "hidden-secret" not in repr(catalog) + str(catalog) + catalog.url
