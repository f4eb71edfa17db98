"""Import of Parquet folders: every row once, row groups as they are where they fit, errors by file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crdtcat import Catalog
from crdtcat.catalog.importing import import_here, plan_import
from crdtcat.chunks.foreign import read_foreign
from crdtcat.chunks.read import FooterCache, SegmentRef, read_footer
from crdtcat.chunks.segment import segment_name
from crdtcat.errors import Corrupt, CrdtcatError, InvalidArgument, SchemaMismatch
from crdtcat.maintenance.progress import Progress
from crdtcat.store import open_store
from tests.bounds import bounded

LEAST = 50  # rows that a row group must have to be taken as it is, in the catalogs here


def lake(path: Path, **options: Any) -> Catalog:
    sizes = {"chunk_rows_min": LEAST, "chunk_rows_target": 200, "chunk_rows_max": 400}
    return Catalog(path / "lake", upkeep=False, **{**sizes, **options})


def rows(start: int, count: int) -> pa.Table:
    number = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(number, pa.int64()),
            "x": pa.array([n / 7 for n in number]),
            "s": pa.array([None if n % 5 == 0 else f"v{n % 9}" for n in number]),
            "l": pa.array([None if n % 4 == 0 else [n, None] for n in number], pa.list_(pa.int32())),
            "m": pa.array([{"a": n, "b": str(n)} for n in number]),
            "d": pa.array([Decimal(n) for n in number], pa.decimal128(12, 2)),
            "at": pa.array([n * 1000 for n in number], pa.timestamp("us", "Europe/Berlin")),
            "c": pa.array([f"k{n % 3}" for n in number]).dictionary_encode(),
        }
    )


def same(one: pa.Table, other: pa.Table) -> bool:
    """Equal rows in equal types; dictionaries may be in another order."""
    return bool(one.schema.equals(other.schema) and one.to_pylist() == other.to_pylist())


def folder(path: Path, *tables: pa.Table, **options: Any) -> Path:
    source = path / "in"
    source.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, source / f"{number:03}.parquet", **{"row_group_size": 100, **options})
    return source


WRITERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "indexed": {"write_page_index": True, "write_page_checksum": True},
    "zstd": {"compression": "zstd", "use_dictionary": False, "data_page_version": "2.0"},
    "many pages": {"data_page_size": 64, "compression": "gzip"},
    "no schema": {"store_schema": False},
}


@pytest.mark.parametrize("how", WRITERS)
def test_row_groups_are_taken_as_they_are_encoded(tmp_path: Path, how: str) -> None:
    source = folder(tmp_path, rows(0, 350), rows(350, 250), rows(600, 20), **WRITERS[how])
    catalog = lake(tmp_path)
    done = catalog.import_parquet("t", source)
    table = catalog.table("t")
    expected = pa.concat_tables([pq.read_table(file) for file in sorted(source.iterdir())])
    assert same(table.read(), expected)
    assert (done.rows, done.files, len(done.versions)) == (620, 3, 1)
    assert done.rows_as_they_were == 600  # all but the file of 20 rows
    assert table.verify("content").ok
    taken = [file for file in (tmp_path / "lake" / "data").rglob("*.parquet") if _holds(file, source)]
    assert len(taken) == 2  # encoded bytes are the files' own
    again = catalog.import_parquet("t", source)
    assert (again.rows, again.versions, again.skipped) == (0, (), 3)
    assert same(table.read(), expected)
    table.update("id = 7", {"s": "other"})
    table.delete("id > 300")
    table.compact(rows=1000)
    assert table.read(["id", "s"], "id between 6 and 8").column("s").to_pylist() == ["v6", "other", "v8"]
    assert table.read().num_rows == 301


def _holds(segment: Path, source: Path) -> bool:
    """Whether a segment begins with the row groups of one of the files."""
    return any(
        segment.read_bytes().startswith(file.read_bytes()[: _groups_end(file)]) for file in source.iterdir()
    )


def _groups_end(file: Path) -> int:
    store = open_store(file.parent)
    return read_foreign(store, file.name, file.stat().st_size).groups[-1].stop


def test_row_groups_whose_footer_is_wrong_are_cut_anew(tmp_path: Path) -> None:
    """Spark's own reader would believe it: bounds that are too narrow, and counts of nulls."""
    column = pa.array([*range(1000, 1098), None, None], pa.int64())
    table = pa.table({"n": column, "s": pa.array([{"n": n} for n in column.to_pylist()])})
    source = folder(tmp_path, table, use_dictionary=False, compression="none")
    data = (source / "000.parquet").read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    greatest, nulls = (1097).to_bytes(8, "little"), b"\x16\x04"  # field 3 of statistics, two nulls
    lies = {
        "true": data,
        "bounds": data[:footer] + data[footer:].replace(greatest, (1001).to_bytes(8, "little")),
        "nested": data[: (at := data.rindex(greatest))] + (1001).to_bytes(8, "little") + data[at + 8 :],
        "nulls": data[:footer] + data[footer:].replace(nulls, b"\x16\x00"),
    }
    catalog = lake(tmp_path, inline_bytes=0)
    for name, lie in lies.items():
        assert (lie == data) == (name == "true")
        (source / "000.parquet").write_bytes(lie)
        done = catalog.import_parquet(name, source)
        assert (done.rows, done.rows_as_they_were) == (100, 100 if name == "true" else 0), name
        assert same(catalog.read(name), table)
        (segment,) = catalog.table(name).head().log.segment_name.tolist()
        held = pq.read_metadata(tmp_path / "lake" / segment_name(segment[:16], segment[16:])).row_group(0)
        for leaf in range(2):
            known = held.column(leaf).statistics
            assert (known.min, known.max, known.null_count) == (1000, 1097, 2)


@pytest.mark.parametrize("commit", ["job", "file"])
def test_files_without_rows_make_a_table_without_rows(tmp_path: Path, commit: str) -> None:
    source = folder(tmp_path, rows(0, 0))
    catalog = lake(tmp_path)
    done = catalog.import_parquet("t", source, commit=commit)
    assert (done.versions, done.rows, done.files) == ((), 0, 0)
    assert catalog.read("t").num_rows == 0
    assert catalog.table("t").schema.names == rows(0, 1).schema.names


def test_cut_anew_and_taken_are_the_same_rows(tmp_path: Path) -> None:
    source = folder(tmp_path, rows(0, 500), rows(500, 60))
    catalog = lake(tmp_path)
    taken = catalog.import_parquet("taken", source)
    anew = catalog.import_parquet("anew", source, as_they_are=False)
    assert (taken.rows_as_they_were, anew.rows_as_they_were) == (560, 0)
    assert same(catalog.read("taken"), catalog.read("anew"))
    # Equal rows have equal hashes, whoever encoded them.
    whole = catalog.create_table("whole", catalog.table("taken").schema)
    whole.append(rows(0, 100))
    hashes = {chunk.hash for chunk in catalog.table("taken").head().chunks}
    assert {chunk.hash for chunk in whole.head().chunks} <= hashes


def test_each_file_is_a_version_and_new_ones_are_added(tmp_path: Path) -> None:
    source = folder(tmp_path, rows(0, 100), rows(100, 30))
    catalog = lake(tmp_path)
    assert len(catalog.import_parquet("t", source, commit="file").versions) == 2
    folder(tmp_path, rows(0, 100), rows(100, 30), rows(130, 70))
    done = catalog.import_parquet("t", source, commit="file")
    assert (done.files, done.skipped, done.rows) == (1, 2, 70)
    assert sorted(catalog.read("t").column("id").to_pylist()) == list(range(200))
    moved = tmp_path / "moved"
    source.rename(moved)
    assert catalog.import_parquet("t", moved, commit="file", query=str(source)).rows == 0
    assert catalog.import_parquet("t", moved, commit="file").rows == 200  # other files, for all it knows


@pytest.mark.parametrize("commit", ["job", "file"])
def test_a_folder_is_one_however_it_is_spelt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit: str
) -> None:
    source = folder(tmp_path, rows(0, 100), rows(100, 30))
    (tmp_path / "link").symlink_to(source)
    monkeypatch.chdir(tmp_path)
    catalog = lake(tmp_path)
    assert catalog.import_parquet("t", source, commit=commit).rows == 130
    for spelt in (f"{source}/", f"{tmp_path}/../{tmp_path.name}/in", "in", "./in/", f"file://{source}",
                  f"local://{source}//", "link"):  # fmt: skip
        again = catalog.import_parquet("t", spelt, commit=commit)
        assert (again.rows, again.skipped) == (0, 2), spelt
    assert catalog.read("t").num_rows == 130


def test_stores_have_one_place_however_they_are_spelt() -> None:
    assert open_store("memory://a/b/").place == open_store("MEMORY:///a/b").place == "memory://a/b"
    assert open_store("s3a://bucket/x/").place == open_store("s3://bucket/x").place == "s3://bucket/x"
    assert open_store("dir::file:///x/").place == open_store("dir::file:///x").place


@pytest.mark.parametrize("first", ["job", "file"])
@pytest.mark.parametrize("then", ["job", "file"])
@pytest.mark.parametrize("mode", ["merge", "cas"])
def test_of_a_folder_that_has_grown_only_new_files_are_imported(
    tmp_path: Path, first: str, then: str, mode: str
) -> None:
    source = folder(tmp_path, rows(0, 100), rows(100, 30))
    catalog = lake(tmp_path, max_commit_delay_seconds=0.01)
    catalog.create_table("t", rows(1, 1).schema, mode=mode)
    catalog.import_parquet("t", source, commit=first)
    folder(tmp_path, rows(0, 100), rows(100, 30), rows(130, 70))
    done = catalog.import_parquet("t", source, commit=then)
    assert (done.files, done.skipped, done.rows) == (1, 2, 70)
    folder(tmp_path, rows(0, 100), rows(100, 30), rows(130, 70), rows(200, 5))
    table = catalog.table("t")
    table.append(rows(1001, 1))
    table.compact()
    table.checkpoint()
    table.expire(keep_last=1)
    done = lake(tmp_path).import_parquet("t", source, commit=first)
    assert (done.files, done.skipped, done.rows) == (1, 3, 5)
    again = catalog.import_parquet("t", source, commit=then)
    assert (again.files, again.skipped, again.versions) == (0, 4, ())
    assert sorted(catalog.read("t", filter="id < 1000").column("id").to_pylist()) == list(range(205))


def test_a_file_that_was_rewritten_is_another_one(tmp_path: Path) -> None:
    source = folder(tmp_path, rows(0, 100), rows(100, 30))
    catalog = lake(tmp_path)
    catalog.import_parquet("t", source)
    pq.write_table(rows(500, 30), source / "001.parquet")
    assert catalog.import_parquet("t", source).rows == 30


def test_a_file_is_imported_as_one_of_its_folder(tmp_path: Path) -> None:
    source = folder(tmp_path, rows(0, 100), rows(100, 30))
    catalog = lake(tmp_path)
    assert catalog.import_parquet("t", source / "001.parquet").rows == 30
    assert catalog.import_parquet("t", f"file://{source}/001.parquet").rows == 0
    done = catalog.import_parquet("t", source)
    assert (done.rows, done.skipped) == (100, 1)
    for name in ("000.parquet", "001.parquet"):
        elsewhere = open_store("memory://elsewhere/in")
        elsewhere.put(name, (source / name).read_bytes())
    assert catalog.import_parquet("u", "memory://elsewhere/in/001.parquet").rows == 30


@pytest.mark.parametrize("commit", ["job", "file"])
def test_names_of_columns_are_a_list(tmp_path: Path, commit: str) -> None:
    source, catalog = folder(tmp_path, rows(0, 10)), lake(tmp_path)
    for wrong in ({"key": "id"}, {"partition_by": "id"}, {"key": 5}, {"partition_by": [5]}):
        with pytest.raises(InvalidArgument, match=f"{next(iter(wrong))}=.*(pass a list|no text)"):
            catalog.import_parquet("t", source, commit=commit, **wrong)
    assert catalog.tables() == []


def test_an_import_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    source = folder(tmp_path, rows(0, 100), rows(100, 100))
    catalog, broken = lake(tmp_path), source / "001.parquet"
    plan = plan_import(
        catalog, "t", source, storage_options=None, branch="main", commit="file", partition_by=(), key=(),
        evolve=False, as_they_are=True, query=None, metadata=None, tell=lambda _: None,
    )  # fmt: skip
    plan.run(plan.units[0])
    assert catalog.read("t").num_rows == 100
    whole = broken.read_bytes()
    broken.write_bytes(whole[:40] + b"\xff" * 60 + whole[100:])
    with pytest.raises(Corrupt, match=r"001\.parquet"):
        catalog.import_parquet("t", source, commit="file")
    with pytest.raises(Corrupt, match=r"001\.parquet"):
        catalog.import_parquet("job", source)
    assert "job" not in catalog
    broken.write_bytes(whole)
    done = catalog.import_parquet("t", source, commit="file")
    assert (done.skipped, done.rows) == (1, 100)
    assert catalog.read("t").column("id").to_pylist() == list(range(200))


def test_requests(tmp_path: Path) -> None:
    """Footers once to plan and once to stage, row groups once; a segment for each run, and the version."""
    source = folder(tmp_path, rows(0, 350), rows(350, 250), rows(600, 20))
    catalog = lake(tmp_path)
    catalog.create_table("t", rows(1, 1).schema)
    catalog.table("t").append(rows(1, 1))
    before = catalog.store.requests.snapshot()
    plan = plan_import(
        catalog, "t", source, storage_options=None, branch="main", commit="job", partition_by=(), key=(),
        evolve=False, as_they_are=True, query=None, metadata=None, tell=lambda _: None,
    )  # fmt: skip
    planned = plan.source.requests.snapshot()
    assert (planned.list, planned.get) == (2, 3)  # files and folders; three footers
    assert catalog.store.requests.since(before).put == 0
    import_here(plan, lambda _: None)
    staged = plan.source.requests.since(planned)
    assert (staged.list, staged.get) == (0, 6)  # three footers, and the row groups of three files in one each
    made = catalog.store.requests.since(before)
    assert made.put == 3  # two segments as they are, and a version that holds the small file's rows


def test_files_that_change_meanwhile_are_named(tmp_path: Path) -> None:
    source = folder(tmp_path, rows(0, 100), rows(100, 100))

    def change(progress: Progress) -> None:
        if progress.what == "reading footers" and progress.done == 2:
            pq.write_table(rows(7, 100), source / "001.parquet")

    with pytest.raises(Corrupt, match=r"001\.parquet.*(another file|truncated|vanished)"):
        lake(tmp_path).import_parquet("t", source, progress=change)


def test_partition_folders_are_columns(tmp_path: Path) -> None:
    source = tmp_path / "in"
    for shop, day in (("north", 1), ("south%20west", 2), ("__HIVE_DEFAULT_PARTITION__", 2)):
        (source / f"shop={shop}" / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"n": [day, 7]}), source / f"shop={shop}" / f"day={day}" / "a.parquet")
    (source / "_SUCCESS").touch()
    catalog = lake(tmp_path)
    done = catalog.import_parquet("t", source, partition_by=["shop"])
    found = catalog.read("t").to_pylist()
    expected = {("north", 1, 1), ("north", 1, 7), ("south west", 2, 2), ("south west", 2, 7), (None, 2, 2),
                (None, 2, 7)}  # fmt: skip
    assert {(row["shop"], row["day"], row["n"]) for row in found} == expected
    assert done.rows_as_they_were == 0
    catalog.create_table("u", pa.schema([("n", pa.int64()), ("shop", pa.string()), ("day", pa.date32())]))
    with pytest.raises(SchemaMismatch, match=r"shop=.*a\.parquet.*day="):
        catalog.import_parquet("u", source)


def test_row_groups_of_one_partition_are_taken_others_are_split(tmp_path: Path) -> None:
    one = pa.table({"p": ["a"] * 100, "n": range(100)})
    two = pa.table({"p": ["a", "b"] * 50, "n": range(100)})
    catalog = lake(tmp_path)
    done = catalog.import_parquet("t", folder(tmp_path, one, two), partition_by=["p"])
    assert done.rows_as_they_were == 100
    table = catalog.table("t")
    assert table.read(filter="p = 'b'").num_rows == 50
    assert table.read(filter="p = 'a'").num_rows == 150
    assert len(np.unique(table.head().log.partition)) == 2


def test_a_table_with_a_key_takes_the_last_of_each(tmp_path: Path) -> None:
    source = folder(
        tmp_path, pa.table({"k": [3, 1, 2] * 40, "n": range(120)}), pa.table({"k": [1], "n": [-1]})
    )
    catalog = lake(tmp_path)
    done = catalog.import_parquet("t", source, key=["k"])
    assert done.rows_as_they_were == 0
    assert catalog.read("t").to_pylist() == [{"k": 1, "n": -1}, {"k": 2, "n": 119}, {"k": 3, "n": 117}]


def test_old_timestamps_are_moments(tmp_path: Path) -> None:
    moment = datetime(2026, 11, 16, 12)  # noqa: DTZ001 (Parquet's old form has no zone)
    table = pa.table({"at": pa.array([moment] * 60, pa.timestamp("us"))})
    source = folder(tmp_path, table, use_deprecated_int96_timestamps=True)
    catalog = lake(tmp_path)
    catalog.import_parquet("t", source)
    found = catalog.read("t").column("at")
    assert found.type == pa.timestamp("us", "UTC")
    assert found[0].as_py().replace(tzinfo=None) == moment


def test_old_timestamps_within_others_are_moments(tmp_path: Path) -> None:
    """In structs, lists and maps, as Spark writes them by default; beyond what nanoseconds hold, too."""
    moments = [datetime(1, 1, 1), datetime(2026, 11, 16, 12, 0, 0, 7), datetime(9999, 12, 31)]  # noqa: DTZ001
    at = pa.timestamp("us")
    types = [
        pa.struct([("n", pa.int64()), ("at", at)]),
        pa.list_(pa.struct([("at", at)])),
        pa.map_(pa.string(), at),
    ]
    shown = [({"n": 1, "at": when}, [{"at": when}, None], [("k", when)]) for when in [*moments, None] * 20]
    columns = [pa.array(values, type) for values, type in zip(zip(*shown, strict=True), types, strict=True)]
    table = pa.table([*columns, pa.array(range(80))], names=["s", "l", "m", "id"])
    source = folder(tmp_path, table, use_deprecated_int96_timestamps=True, store_schema=False)
    catalog = lake(tmp_path)
    done = catalog.import_parquet("t", source)
    assert (done.rows, done.rows_as_they_were) == (80, 0)
    found = catalog.read("t")
    utc = pa.timestamp("us", "UTC")
    assert found.schema.types == [
        pa.struct([("n", pa.int64()), ("at", utc)]),
        pa.list_(pa.struct([("at", utc)])),
        pa.map_(pa.string(), utc),
        pa.int64(),
    ]
    wanted = table.cast(found.schema)
    assert found.to_pylist() == wanted.to_pylist()


OLD_DAYS: list[tuple[Any, pa.DataType]] = [
    (date(1582, 10, 14), pa.date32()),
    (datetime(1899, 12, 31, tzinfo=UTC), pa.timestamp("us", "UTC")),
    ({"d": date(1, 1, 1)}, pa.struct([("d", pa.date32())])),
    ([{"k": datetime(1, 1, 1, tzinfo=UTC)}], pa.list_(pa.struct([("k", pa.timestamp("ms", "UTC"))]))),
    ([("k", date(1200, 1, 1))], pa.map_(pa.string(), pa.date32())),
]


@pytest.mark.parametrize("note", ["legacyDateTime", "legacyINT96"])
@pytest.mark.parametrize(("old", "type"), OLD_DAYS)
def test_days_of_another_calendar_are_refused(tmp_path: Path, note: str, old: Any, type: pa.DataType) -> None:
    """Spark notes in a file that it counted so; younger values of such a file are what they are."""
    notes = {f"org.apache.spark.{note}": ""}
    fine = pa.table({"d": pa.array([date(1582, 10, 15), None] * 40), "n": [datetime(1, 1, 1)] * 80})  # noqa: DTZ001
    catalog = lake(tmp_path)
    done = catalog.import_parquet("fine", folder(tmp_path / "fine", fine.replace_schema_metadata(notes)))
    assert (done.rows, done.rows_as_they_were) == (80, 0)
    assert same(catalog.read("fine"), fine)
    table = pa.table({"c": pa.array([None, old] * 40, type)})
    source = folder(tmp_path / "old", fine, table.replace_schema_metadata(notes))
    (source / "000.parquet").unlink()
    with pytest.raises(InvalidArgument, match=r"001\.parquet: column 'c' has values before .* calendar"):
        catalog.import_parquet("t", source)
    assert catalog.tables() == ["fine"]
    catalog.import_parquet("t", folder(tmp_path / "plain", table))  # without the note they are what they are
    assert same(catalog.read("t"), table)


def test_what_a_file_lacks_of_its_frame_is_refused(tmp_path: Path) -> None:
    """pandas stores no values of an index that counts up, as since pandas 3 any is that can be."""
    frame = pd.DataFrame({"id": [1, 2, 3], "s": ["a", "b", "c"]})
    counting = frame.set_index(pd.RangeIndex(1, 4, name="id"))[["s"]]
    counting.to_parquet(tmp_path / "lacks.parquet")
    catalog = lake(tmp_path)
    with pytest.raises(InvalidArgument, match=r"lacks.parquet lacks the values of 'id'"):
        catalog.import_parquet("t", tmp_path / "lacks.parquet")
    assert catalog.tables() == []
    counting.to_parquet(tmp_path / "t.parquet", index=True)
    frame.to_parquet(tmp_path / "plain.parquet")  # whose index has no name
    for name in ("t", "plain"):
        catalog.import_parquet(name, tmp_path / f"{name}.parquet")
        assert catalog.read(name, ["id", "s"]).to_pylist() == frame.to_dict("records")
    pq.write_table(pa.table({}), tmp_path / "none.parquet")
    with pytest.raises(InvalidArgument, match=r"none.parquet has no columns$"):
        catalog.import_parquet("none", tmp_path / "none.parquet")


def test_columns_that_a_file_requires_are_read_with_others(tmp_path: Path) -> None:
    strict = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string(), nullable=False)]
    )
    required = pa.table({"id": range(100), "s": ["x"] * 100}, schema=strict)
    optional = pa.table({"id": range(100, 200), "s": [None, "y"] * 50})
    catalog = lake(tmp_path)
    done = catalog.import_parquet("t", folder(tmp_path, required, optional, optional.slice(0, 5)))
    assert done.rows_as_they_were == 200
    table = catalog.table("t")
    table.append({"id": [7], "s": [None]})
    table.update("id < 3", {"s": None})
    expected = pa.concat_tables([required.cast(optional.schema), optional, optional.slice(0, 5)])
    assert table.read(filter="id >= 3 and id != 7").equals(
        expected.filter((pc.field("id") >= 3) & (pc.field("id") != 7))
    )
    before = table.read()
    table.compact(rows=1000)
    assert table.read().equals(before)
    assert before.column("s").null_count == 50 + 3 + 3 + 1
    assert table.verify("content").ok


def _text(source: Path) -> None:
    (source / "readme.txt").write_text("not a table, and long enough to be looked at")


def _short(source: Path) -> None:
    (source / "zz.parquet").write_bytes(b"PAR1")


def _other_type(source: Path) -> None:
    pq.write_table(pa.table({"id": ["text"]}), source / "zz.parquet")


def _other_column(source: Path) -> None:
    pq.write_table(pa.table({"id": [1], "more": [1]}), source / "zz.parquet")


def _damaged(source: Path) -> None:
    whole = (source / "000.parquet").read_bytes()
    (source / "zz.parquet").write_bytes(whole[:-60] + bytes(52) + whole[-8:])


def _delta(source: Path) -> None:
    (source / "_delta_log").mkdir()
    (source / "_delta_log" / "0.json").touch()


def _both(source: Path) -> None:
    (source / "id=1").mkdir()
    pq.write_table(pa.table({"id": [1]}), source / "id=1" / "zz.parquet")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_text, r"readme\.txt is not a Parquet file"),
        (_short, r"zz\.parquet is not a Parquet file"),
        (_other_type, r"zz\.parquet: column 'id'"),
        (_other_column, r"zz\.parquet: column 'more' is not in the table"),
        (_damaged, r"zz\.parquet is not a Parquet file"),
        (_delta, r"is a Delta table"),
        (_both, r"id=1/zz\.parquet: column 'id' is in the file, and in the name of its folder"),
    ],
)
def test_what_does_not_fit_is_told_by_file_before_anything_is_written(
    tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    source = folder(tmp_path, pa.table({"id": range(100)}))
    spoil(source)
    catalog = lake(tmp_path)
    with pytest.raises((InvalidArgument, SchemaMismatch), match=message):
        catalog.import_parquet("t", source)
    assert catalog.tables() == []
    assert not (tmp_path / "lake" / "data").exists()


def test_other_errors(tmp_path: Path) -> None:
    catalog = lake(tmp_path)
    with pytest.raises(InvalidArgument, match="nowhere: there is no such folder or file"):
        catalog.import_parquet("t", tmp_path / "nowhere")
    with pytest.raises(InvalidArgument, match="patterns are not expanded"):
        catalog.import_parquet("t", tmp_path / "in" / "*.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidArgument, match="no Parquet files in this folder"):
        catalog.import_parquet("t", tmp_path / "empty")
    source = folder(tmp_path, pa.table({"id": range(100)}))
    with pytest.raises(InvalidArgument, match="commit='task'"):
        catalog.import_parquet("t", source, commit="task")
    catalog.import_parquet("t", source)
    with pytest.raises(InvalidArgument, match="partitioned by"):
        catalog.import_parquet("t", source, partition_by=["id"])
    with pytest.raises(InvalidArgument, match="key"):
        catalog.import_parquet("t", source, key=["id"])
    pq.write_table(pa.table({"id": [1], "more": ["x"]}), source / "zz.parquet")
    catalog.import_parquet("t", source, evolve=True)
    assert catalog.table("t").schema.names == ["id", "more"]


CELLS = {
    pa.int8(): st.integers(-128, 127),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.string(): st.text(max_size=5),
    pa.large_binary(): st.binary(max_size=5),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.time64("us"): st.times(),
    pa.list_(pa.string()): st.lists(st.none() | st.text(max_size=3), max_size=3),
    pa.map_(pa.string(), pa.int32()): st.dictionaries(
        st.text(max_size=3), st.integers(-9, 9), max_size=2
    ).map(lambda found: list(found.items())),
    pa.struct([("a", pa.int64()), ("b.c", pa.list_(pa.float64()))]): st.fixed_dictionaries(
        {"a": st.none() | st.integers(-9, 9), "b.c": st.none() | st.lists(st.floats(), max_size=2)}
    ),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    types = draw(st.lists(st.sampled_from(list(CELLS)), min_size=1, max_size=4))
    count = draw(st.integers(1, 30))
    columns = {
        f"c{at}": pa.array(draw(st.lists(st.none() | CELLS[type], min_size=count, max_size=count)), type)
        for at, type in enumerate(types)
    }
    return pa.table(columns)


@settings(max_examples=bounded(200, 25), deadline=None)
@given(
    table=tables(),
    group=st.integers(1, 40),
    options=st.fixed_dictionaries(
        {
            "compression": st.sampled_from(["none", "snappy", "zstd", "gzip"]),
            "use_dictionary": st.booleans(),
            "write_page_index": st.booleans(),
            "store_schema": st.booleans(),
            "data_page_version": st.sampled_from(["1.0", "2.0"]),
            "data_page_size": st.sampled_from([32, 2**20]),
        }
    ),
)
def test_any_file_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, group: int, options: dict[str, Any]
) -> None:
    """Whatever the types and however encoded: the rows pyarrow reads are those of the table."""
    path = tmp_path_factory.mktemp("import")
    source = folder(path, table, row_group_size=group, **options)
    catalog = Catalog(path / "lake", upkeep=False, chunk_rows_min=1, chunk_rows_target=1, chunk_rows_max=40)
    done = catalog.import_parquet("t", source)
    assert done.rows_as_they_were == table.num_rows
    expected = pq.read_table(source / "000.parquet")
    assert catalog.table("t").verify("content").ok
    found = catalog.read("t")
    assert found.schema.names == expected.schema.names
    for name in found.column_names:
        mine, theirs = found.column(name).combine_chunks(), expected.column(name).combine_chunks()
        assert _bits(mine.cast(theirs.type)) == _bits(theirs)


def _bits(array: pa.Array) -> str:
    return repr(array.to_pylist())


def test_single_bit_flips_are_noticed(tmp_path: Path) -> None:
    """A segment of taken row groups is covered by hashes as any other is, wherever a bit flips."""
    source = folder(tmp_path, rows(0, 100))
    catalog = lake(tmp_path)
    catalog.import_parquet("t", source)
    (segment,) = (tmp_path / "lake" / "data").rglob("*.parquet")
    whole = segment.read_bytes()
    head = catalog.table("t").head()
    ref = SegmentRef(
        f"data/{segment.parent.name}/{segment.name}",
        int(head.log.segment_size[0]),
        int(head.log.segment_footer[0]),
        head.log.segment_digest[0].tobytes(),
    )
    assert sum(read_footer(catalog.store, ref, FooterCache()).rows) == 100
    rng = np.random.default_rng(0)
    for at in rng.choice(len(whole), 60, replace=False).tolist():
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        segment.write_bytes(damaged)
        report = Catalog(tmp_path / "lake", upkeep=False).table("t").verify("bytes")
        assert not report.ok, at
        try:
            found = Catalog(tmp_path / "lake", upkeep=False).read("t")
        except CrdtcatError:
            continue
        assert same(found, rows(0, 100)) or at < 4  # the magic is not read
