"""`verify` finds every damaged byte and every missing object, names it, and says how many rows rest on it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.chunks.footer import SegmentRef, decode_footer
from crdtcat.chunks.hashing import hash_table
from crdtcat.chunks.stretch import encode_stretch
from crdtcat.errors import CrdtcatError, DataError, InvalidArgument, NotFound, StoreUnavailable
from crdtcat.format.condemned import condemned_name, encode_condemned, encode_let_go, let_go_name
from crdtcat.log import State
from crdtcat.maintenance import Progress, VerifyReport
from crdtcat.store import Store, open_store
from crdtcat.testing.faulty import Call, Fault, FaultyStore, nth
from crdtcat.writing import prepared, stage
from tests.catalog.lakes import another, lake, objects
from tests.faults.operations import OPTIONS, SCHEMA, fresh_url, rows

DEPTHS: Any = ("metadata", "bytes", "content")
EVERY_BYTE = os.environ.get("CRDTCAT_SLOW") == "full"


def numbers(start: int, count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(start, start + count), pa.int64())})


def everything() -> Catalog:
    """A small catalog: the second life of a table, bundles, tags, dead chunks, lists of garbage."""
    catalog = lake(grace_seconds=0)
    catalog.create_table("t", SCHEMA)
    catalog.drop_table("t")
    table = catalog.create_table("t", SCHEMA)
    table.append(rows(frozenset({0, 1})))
    table.set_properties(owner="me")
    table.checkpoint()
    table.append(rows(frozenset({2})), metadata={"by": "someone"}, key="k")
    table.tag("tag")
    another(catalog, inline_bytes=0).table("t").append(rows(frozenset({3, 4})))
    for name, encode in ((condemned_name, encode_condemned), (let_go_name, encode_let_go)):
        catalog.store.put(name(bytes(8)), encode([bytes(24)]))
    return catalog


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_whole_table_is_ok(depth: Any) -> None:
    report = everything().table("t").verify(depth)
    assert report.ok
    assert report.problems == ()
    assert (report.table, report.depth, report.rows, report.segments) == ("t", depth, 5, 2)
    assert (
        report.files == 3 + 3 + 1 + 1 + 1 + 2
    )  # settings and marker, versions, transaction, bundle, tag, lists
    assert str(report).startswith(f"verify t ({depth}): 11 log files, 2 segments, 5 rows, ")
    assert str(report).endswith(": ok")


def test_an_empty_table_is_ok() -> None:
    table = lake().create_table("t")
    assert all(table.verify(depth).ok for depth in DEPTHS)


def _read(store: Store) -> list[Any]:
    table = Catalog(store, **OPTIONS).table("t")
    return [table.read().to_pylist(), table.read(at="tag").to_pylist(), dict(table.properties)]


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :]


def _stride(name: str) -> int:
    return 1 if EVERY_BYTE else {"b": 29, "v": 5, "parquet": 2}.get(name.rpartition(".")[2], 1)


def _kind(name: str) -> str:
    """Objects of one kind are named whatever else of that kind is damaged. A segment is looked for by the
    log, so the two are not damaged at once."""
    return {"v": "log", "b": "log", "parquet": "segments"}.get(name.rpartition(".")[2], "small files")


def test_every_damaged_byte_of_every_object_is_found_and_none_is_read() -> None:
    catalog = everything()
    with catalog.transaction() as transaction:
        transaction.append("t", rows(frozenset({5})))
    store, table = catalog.store, catalog.table("t")
    expected = _read(store)
    whole = {name: data for name in objects(catalog) if (data := bytes(store.get(name)))}
    assert {name.rpartition(".")[2] for name in whole} == {"json", "v", "b", "parquet", "g", "l"}
    for kind in ("log", "segments", "small files"):
        mine = {name: data for name, data in whole.items() if _kind(name) == kind}
        for turn in range(max(-(-len(data) // _stride(name)) for name, data in mine.items())):
            places = {name: turn * _stride(name) for name, data in mine.items()}
            places = {name: at for name, at in places.items() if at < len(mine[name])}
            for name, at in places.items():
                store.put(name, _flipped(mine[name], at))
            report = table.verify("bytes")
            found = {problem.name for problem in report.problems}
            assert found >= set(places), f"{places}: {report}"
            for name in places:
                store.put(name, mine[name])
    for name, data in whole.items():
        for at in range(0, len(data), _stride(name) * (1 if EVERY_BYTE else 3)):
            store.put(name, _flipped(data, at))
            with suppress(DataError):
                assert _read(store) == expected, f"byte {at} of {name} was read"
        store.put(name, data)
    assert table.verify("content").ok


def test_no_log_file_with_any_damaged_byte_is_taken_for_one() -> None:
    """Every byte, at the one place where readers and `verify` alike learn that a file is damaged."""
    catalog = everything()
    folder = catalog.table("t")._session.folder
    files = {name: bytes(catalog.store.get(name)) for name in objects(catalog) if _kind(name) == "log"}
    assert len(files) == 5
    for name, data in files.items():
        State(folder).joined([(name, data)])
        for at in range(len(data)):
            with pytest.raises(DataError):
                State(folder).joined([(name, _flipped(data, at))])


def test_every_damaged_byte_of_a_strict_table_with_a_transaction_and_of_a_branch_is_found() -> None:
    catalog = lake(grace_seconds=0, max_commit_delay_seconds=0)
    strict = [catalog.create_table(name, SCHEMA, mode="cas") for name in ("s", "u")]
    with catalog.transaction() as transaction:
        for table in strict:
            transaction.append(table.name, rows(frozenset({0})))
    main = catalog.create_table("t", SCHEMA)
    main.append(rows(frozenset({0, 1})))
    time.sleep(0.002)  # what was committed in the millisecond of an expiry is not below it
    main.expire(older_than=timedelta(0))
    branch = main.branch("b")
    branch.append(rows(frozenset({2})))
    handles, store = [*strict, main, branch], catalog.store
    whole = {name: data for name in objects(catalog) if (data := bytes(store.get(name)))}
    ends = {name.rpartition(".")[2] for name in whole}
    assert ends == {"json", "v", "b", "c", "decision", "parquet"}
    for name, data in whole.items():
        for at in range(0, len(data), 1 if EVERY_BYTE else 1 + len(data) // 10):
            store.put(name, _flipped(data, at))
            reports = [table.verify("bytes") for table in handles]
            named = {problem.name for report in reports for problem in report.problems}
            assert name in named, f"byte {at} of {name}"
        store.put(name, data)
    assert all(table.verify("content").ok for table in handles)


def test_damage_of_claims_that_a_bundle_has_and_of_the_hint_is_found_and_costs_nothing() -> None:
    catalog = lake()
    table = catalog.create_table("s", SCHEMA, mode="cas")
    for number in range(3):
        table.append(rows(frozenset({number})))
    table.checkpoint()
    store = catalog.store
    whole = {name: bytes(store.get(name)) for name in objects(catalog) if name.endswith((".c", "/hint"))}
    assert len(whole) == 4
    for name, data in whole.items():
        for damaged in (_flipped(data, len(data) // 2), data[:-1], b""):
            store.put(name, damaged)
            for handle in (table, Catalog(store).table("s")):
                (problem,) = handle.verify("metadata").problems
                assert (problem.name, problem.rows) == (name, 0)
            assert Catalog(store).table("s").append(rows(frozenset())).rows == 0  # whoever starts by the hint
        store.put(name, data)
    assert table.verify("content").ok


def test_truncated_and_grown_objects_are_found() -> None:
    catalog = everything()
    store, table = catalog.store, catalog.table("t")
    for name in objects(catalog):
        data = bytes(store.get(name))
        if not data:
            continue
        for other in (b"", data[:-1], data[: len(data) // 2], data + b"\0", data + data):
            store.put(name, other)
            report = table.verify("metadata")  # sizes are enough
            assert name in [problem.name for problem in report.problems], f"{name}: {len(other)} bytes"
        store.put(name, data)
    assert table.verify().ok


def test_every_missing_object_is_named() -> None:
    """By a handle that has read the table: what it has seen must be somewhere."""
    catalog = everything()
    store = catalog.store
    table = catalog.table("t")
    assert table.head().row_count == 5
    nobody_knows = ("/dropped", ".b", "/tag.json", ".g", ".l")
    names = [name for name in objects(catalog) if not name.endswith(nobody_knows)]
    covered = {f"tables/t/main~2/{version.id}.v" for version in list(table.history())[:2]}
    for name in names:
        data = store.get(name)
        store.delete([name])
        report = table.verify("metadata")
        if name in covered:
            assert report.ok  # nothing rests on it: a bundle holds the same version
        else:
            assert name in [problem.name for problem in report.problems], f"{name}: {report}"
        store.put(name, data)
    assert table.verify().ok


def test_a_missing_transaction_is_looked_for_where_it_was() -> None:
    catalog = everything()
    with catalog.transaction() as transaction:
        transaction.append("t", rows(frozenset({5})))
    table = catalog.table("t")
    assert table.head().row_count == 6
    (name,) = (name for name in objects(catalog) if name.startswith("transactions/"))
    catalog.store.delete([name])
    (problem,) = table.verify("metadata").problems
    assert (problem.name, problem.rows, problem.past_rows) == ("transactions/", 1, 0)
    assert str(table.head().history[-1].id) in problem.why


def test_a_missing_bundle_is_told_by_the_versions_it_held() -> None:
    catalog = everything()
    table = catalog.table("t")
    table.checkpoint()
    table.collect()
    head = table.head()
    bundles = [name for name in objects(catalog) if name.endswith(".b")]
    assert not [name for name in objects(catalog) if name.endswith(".v")]
    catalog.store.delete(bundles)
    report = table.verify("metadata")
    assert [problem.name for problem in report.problems][:4] == [
        f"tables/t/main~2/{version.id}.v" for version in head.history
    ]
    assert [problem.rows for problem in report.problems[:4]] == [2, 0, 1, 2]
    (tag,) = report.problems[4:]  # a handle that has not seen it knows by the tag
    assert tag.name.endswith("tag.json")
    cold = another(catalog).table("t").verify("metadata")
    assert [problem.name for problem in cold.problems] == [tag.name]


def test_a_gap_is_told_by_a_cold_handle() -> None:
    catalog = lake()
    table = catalog.create_table("t", SCHEMA)
    versions = [table.append(rows(frozenset({n}))) for n in range(3)]
    catalog.store.delete([f"tables/t/main/{versions[1].id}.v"])
    (problem,) = another(catalog).table("t").verify().problems
    assert problem.name == "tables/t/main/"
    assert f"version 2 of writer {versions[1].id.writer:016x} is missing" in problem.why
    assert "not known" in str(problem)


def in_segments(**options: Any) -> tuple[Catalog, Table]:
    catalog = lake(inline_bytes=0, chunk_rows=10, **options)
    return catalog, catalog.create_table("t")


def segment(catalog: Catalog) -> str:
    (name,) = (name for name in objects(catalog) if name.endswith(".parquet"))
    return name


def damage(catalog: Catalog, name: str, *at: int) -> None:
    data = bytearray(catalog.store.get(name))
    for place in at:
        data[place] ^= 1
    catalog.store.put(name, bytes(data))


def footer(table: Table) -> Any:
    log, store = table.head().log, table._session.store
    ref = SegmentRef(
        "x", int(log.segment_size[0]), int(log.segment_footer[0]), log.segment_digest[0].tobytes()
    )
    (name,) = (name for name in objects(Catalog(store)) if name.endswith(".parquet"))
    return decode_footer(ref, store.get(name)[-ref.footer_length :])


def test_rows_affected_are_those_of_the_damaged_row_groups() -> None:
    catalog, table = in_segments()
    table.append(numbers(0, 95))
    places = footer(table).places
    name = segment(catalog)
    damage(catalog, name, places[2][0].start, places[9][0].start)
    (problem,) = table.verify().problems
    assert (problem.name, problem.rows, problem.past_rows) == (name, 15, 0)
    assert "row group 2, column 'n'" in problem.why
    assert "1 more like it" in problem.why
    assert str(problem).endswith("(affects 15 rows)")
    assert table.verify("metadata").ok
    table.overwrite(numbers(1000, 5))
    (problem,) = table.verify().problems
    assert (problem.rows, problem.past_rows) == (0, 15)
    assert str(problem).endswith("(affects 0 rows, 15 of earlier snapshots)")
    catalog.store.delete([name])
    report = table.verify("metadata")
    assert [(item.why, item.past_rows) for item in report.problems] == [
        ("missing: the store has no such object", 95)
    ]
    assert "1 PROBLEMS, 0 rows affected" in str(report)


def test_damage_that_only_other_readers_would_meet_affects_no_rows() -> None:
    catalog, table = in_segments()
    table.append(numbers(0, 10))
    damage(catalog, segment(catalog), 0)  # the magic: ours does not look at it
    (problem,) = table.verify().problems
    assert problem.rows == 0
    assert table.read().num_rows == 10


def test_a_damaged_copy_beside_a_good_one_affects_no_rows() -> None:
    catalog = lake()
    table = catalog.create_table("t")
    table.append(numbers(0, 10))
    first, second = (another(catalog).table("t") for _ in range(2))
    first.head()
    second.head()
    first.checkpoint()
    (bundle,) = (name for name in objects(catalog) if name.endswith(".b"))
    kept = catalog.store.get(bundle)
    catalog.store.delete([bundle])
    second.checkpoint()
    catalog.store.put(bundle, kept)
    segments = [name for name in objects(catalog) if name.endswith(".parquet")]
    assert len(segments) == 2
    damage(catalog, segments[0], 10)
    (problem,) = table.verify().problems
    assert (problem.name, problem.rows, problem.past_rows) == (segments[0], 0, 0)
    damage(catalog, segments[1], 10)
    assert [item.rows for item in table.verify().problems] == [10, 10]


def test_a_damaged_version_that_a_bundle_holds_affects_no_rows() -> None:
    catalog = lake()
    table = catalog.create_table("t")
    version = table.append(numbers(0, 10))
    name = f"tables/t/main/{version.id}.v"
    damage(catalog, name, 50)
    (cold,) = another(catalog).table("t").verify().problems
    assert (cold.name, cold.rows) == (name, None)
    damage(catalog, name, 50)
    table.checkpoint()
    damage(catalog, name, 50)
    (covered,) = another(catalog).table("t").verify().problems
    assert (covered.name, covered.rows) == (name, 0)


def test_a_writer_whose_hashes_lie_is_found_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, table = in_segments()

    def lying(chunks: list[pa.Table], hashes: Any, **options: Any) -> Any:
        return encode_stretch([numbers(7, chunk.num_rows) for chunk in chunks], hashes, **options)

    monkeypatch.setattr(stage, "encode_stretch", lying)
    table.append(numbers(0, 20))
    monkeypatch.undo()
    assert table.verify("bytes").ok
    (problem,) = table.verify("content").problems
    assert problem.name == segment(catalog)
    assert problem.rows == 20
    assert "its values do not match" in problem.why


def test_a_writer_that_inlines_other_rows_is_found_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake().create_table("t")
    monkeypatch.setattr(prepared, "hash_table", lambda chunk: hash_table(numbers(9, chunk.num_rows)))
    version = table.append(numbers(0, 4))
    monkeypatch.undo()
    assert table.verify("bytes").ok
    (problem,) = table.verify("content").problems
    assert (problem.name, problem.rows) == (f"tables/t/main/{version.id}.v", 4)


def test_a_segment_fetched_in_pieces_is_checked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog, table = in_segments()
    table.append(numbers(0, 95))
    monkeypatch.setattr("crdtcat.chunks.check.UNIT_BYTES", 300)
    assert table.verify("content").ok
    name = segment(catalog)
    data = bytes(catalog.store.get(name))
    for at in range(0, len(data), 3):
        damage(catalog, name, at)
        assert [problem.name for problem in table.verify().problems] == [name], f"byte {at}"
        catalog.store.put(name, data)
    catalog.store.put(name, data[:200] + bytes(len(data) - 200))
    assert not table.verify().ok


class Meanwhile:
    """A plan that lets others commit, bundle and collect just before the n-th request."""

    def __init__(self, inner: Store, number: int) -> None:
        self.inner, self.number = inner, number

    def __call__(self, call: Call) -> Fault | None:
        if call.number == self.number:
            table = Catalog(self.inner, **OPTIONS).table("t")
            table.append(rows(frozenset({100})))
            table.tag("new")
            table.checkpoint()
            table.collect()
        return None


def test_what_others_do_meanwhile_is_no_damage() -> None:
    number, requests = 0, 1
    while number <= requests:
        number += 1
        store = FaultyStore(open_store(fresh_url()), page_limit=2)
        table = Catalog(store.inner, **OPTIONS).create_table("t", SCHEMA)
        for n in range(4):
            table.append(rows(frozenset({n})))
        handle = Catalog(store, **OPTIONS).table("t")
        assert handle.head().row_count == 4
        before = len(store.calls)
        store.plan = Meanwhile(store.inner, before + number)
        report = handle.verify("content")
        assert report.ok, f"request {number}: {report}"
        requests = len(store.calls) - before
    assert number > 10


def test_a_store_that_cannot_be_asked_is_no_damage() -> None:
    store = FaultyStore(open_store(fresh_url()))
    Catalog(store, **OPTIONS, inline_bytes=0).create_table("t", SCHEMA).append(rows(frozenset({1})))
    table = Catalog(store, **OPTIONS).table("t")
    before = len(store.calls)
    assert table.verify().ok
    for number in range(1, len(store.calls) - before + 1):
        store.plan = nth(len(store.calls) + number, "error")
        with pytest.raises(StoreUnavailable):
            table.verify()
        store.plan = None


def test_a_dropped_table_is_not_found() -> None:
    catalog = everything()
    table = catalog.table("t")
    table.head()
    another(catalog).drop_table("t")
    with pytest.raises(NotFound):
        table.verify()


def test_progress() -> None:
    _, table = in_segments()
    for start in range(3):
        table.append(numbers(start * 10, 10))
    told: list[Progress] = []
    assert table.verify(progress=told.append).ok
    assert {item.unit for item in told} == {"log files", "folders of segments", "segments"}
    for unit in ("log files", "segments"):
        done = [item.done for item in told if item.unit == unit]
        assert done == sorted(done)
        assert done[-1] == 3
        assert all(item.done <= item.total for item in told)
    assert str(told[-1]).startswith("verify t: 3 of 3 segments, 0.0 MB")

    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table.verify(progress=stop)


def test_progress_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    _, table = in_segments()
    table.append(numbers(0, 10))
    table.verify(progress=True)
    assert "verify t: 1 of 1 segments" in capsys.readouterr().err
    table.verify()
    assert not capsys.readouterr().err


@pytest.mark.parametrize(("name", "value"), [("depth", "deep"), ("depth", None), ("progress", 5)])
def test_wrong_arguments(name: str, value: Any) -> None:
    table = lake().create_table("t")
    with pytest.raises(InvalidArgument, match=name):
        table.verify(**{name: value})


def test_many_problems_print_short() -> None:
    catalog, table = in_segments()
    for start in range(60):
        table.append(numbers(start * 10, 10))
    catalog.store.delete([name for name in objects(catalog) if name.endswith(".parquet")])
    report = table.verify()
    assert isinstance(report, VerifyReport)
    assert len(report.problems) == 60
    assert len(str(report).splitlines()) == 52
    assert "60 PROBLEMS, 600 rows affected" in str(report)
    assert str(report).endswith("... and 10 more")
    with pytest.raises(CrdtcatError):
        table.read()


def test_a_branch_rests_on_its_source() -> None:
    catalog = lake(grace_seconds=0)
    table = catalog.create_table("t", SCHEMA)
    first = table.append(rows(frozenset({0, 1})))
    branch = table.branch("b")
    version = branch.append(rows(frozenset({2})))
    branch.tag("on the branch".replace(" ", "-"))
    twig = branch.branch("twig")
    twig.append(rows(frozenset({3})))
    assert all(handle.verify(depth).ok for handle in (table, branch, twig) for depth in DEPTHS)
    for handle, name, by in (
        (table, f"tables/t/main/{first.id}.v", (table, branch, twig)),
        (branch, f"tables/t/b/{version.id}.v", (branch, twig)),
        (branch, "tables/t/refs/branches/b.json", (branch, twig)),
    ):
        data = bytes(catalog.store.get(name))
        for other in (data[:-1], data[:20] + bytes([data[20] ^ 4]) + data[21:]):
            catalog.store.put(name, other)
            for each in by:
                assert name in [problem.name for problem in each.verify("metadata").problems]
        catalog.store.put(name, data)
        assert handle.verify().ok
    catalog.store.delete([f"tables/t/b/{version.id}.v"])
    assert not branch.verify("metadata").ok
    assert not twig.verify("metadata").ok
    cold = another(catalog).table("t").verify("metadata")
    assert [problem.name for problem in cold.problems] == ["tables/t/refs/tags/on-the-branch.json"]
