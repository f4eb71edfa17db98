"""The benchmarks run: every suite at a tiny size, so that they cannot rot between measurements.

Only crdtcat and the raw limit take part here; peers need an environment of their own.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from benchmarks.__main__ import SUITES, estimate
from benchmarks.__main__ import run as run_suites
from benchmarks.changes import CASES, change
from benchmarks.crew import EngineFailed, crew, shared_crews
from benchmarks.engines import ENTRANTS, UNFORCED
from benchmarks.engines.base import Place
from benchmarks.engines.forcing import force
from benchmarks.engines.ours import Ours
from benchmarks.engines.raw import Raw
from benchmarks.job import Job
from benchmarks.latency_proxy import delayed
from benchmarks.places import FAR, NEAR, one_server, places
from benchmarks.plots import Plot
from benchmarks.report import Results, Table, cores_busy, is_done, load, save, seconds_before
from benchmarks.request_count import Questions, RequestCount
from benchmarks.rows import batch, found, wide
from benchmarks.small_commits import FOLDER
from benchmarks.suites import (
    chunks,
    commits,
    compaction,
    conflicts,
    contention,
    disjoint,
    heads,
    merge,
    read_cost,
    reads,
    replays,
    spark,
    storage,
    throughput,
    trees,
    writes,
)
from benchmarks.tasks import REWRITTEN, Bench
from crdtcat.log import encode_bundle

TINY = Job("tiny", ("raw", "crdtcat"))
RUNS = {
    "chunks": chunks.run,
    "commits": commits.run,
    "compaction": compaction.run,
    "conflicts": conflicts.run,
    "disjoint": disjoint.run,
    "contention": contention.run,
    "heads": heads.run,
    "merge": merge.run,
    "read-cost": read_cost.run,
    "reads": reads.run,
    "replays": replays.run,
    "spark": spark.run,
    "storage": storage.run,
    "throughput": throughput.run,
    "trees": trees.run,
    "writes": writes.run,
}


def column(table: Table, name: str) -> list[object]:
    return [row[list(table.header).index(name)] for row in table.rows]


def test_every_suite_is_run_here() -> None:
    assert set(RUNS) == set(SUITES)


@pytest.mark.parametrize("suite", ["contention", "commits"])
def test_what_was_acknowledged_is_readable(suite: str) -> None:
    (table,) = RUNS[suite](TINY).tables
    for said in column(table, "rows readable / acknowledged"):
        readable, acknowledged = str(said).split(" / ")
        assert readable == acknowledged != "0"
    assert not any(column(table, "lost rows"))
    assert not any(column(table, "rows twice"))
    assert not any(column(table, "failed"))
    assert not any(column(table, "cut off"))
    named = {"raw", "crdtcat"} | ({"raw, no fsync", "crdtcat, no fsync"} if suite == "contention" else set())
    assert set(column(table, "engine")) == named


def test_every_commit_is_read_before_and_after_upkeep() -> None:
    (table,) = read_cost.run(TINY).tables
    assert not table.note  # a row that was not found, or an engine that failed, is in the note
    assert column(table, "engine").count("raw") == 2
    assert column(table, "engine").count("crdtcat") == 3
    assert column(table, "engine").count("crdtcat, no upkeep") == 3


def test_reports_of_others_are_replayed() -> None:
    appends, tasks, opening = replays.run(TINY).tables
    assert column(appends, "acknowledged") == [6, 6]
    assert column(tasks, "acknowledged") == [3, 3]
    assert not any([*column(appends, "acknowledged rows lost"), *column(tasks, "acknowledged rows lost")])
    assert column(opening, "engine") == ["raw", "crdtcat, no upkeep", "crdtcat"]
    assert column(opening, "commits found") == [10.0, 10.0, 10.0]


def test_throughput_reads_what_it_wrote() -> None:
    (table,) = throughput.run(TINY).tables
    assert column(table, "engine") == ["raw", "raw, no fsync", "crdtcat", "crdtcat, no fsync"]
    assert column(table, "disk waits/commit") == ["4", "0", "2", "0"]
    assert "readable" not in table.note


def test_writers_of_disjoint_rows_all_commit() -> None:
    table, requests, between, overlaps = disjoint.run(TINY).tables
    assert [row[:3] for row in requests.rows] == [[0, 1, 2], [1, 3, 3], [2, 6, 4], [5, 9, 7], [10, 14, 12]]
    assert column(table, "engine") == [
        "raw",
        "raw, no fsync",
        "crdtcat",
        "crdtcat, CAS",
        "crdtcat, no fsync",
    ]
    assert column(table, "committed") == [4] * 5
    assert not any([*column(table, "failed"), *column(table, "cut off"), *column(table, "lost")])
    assert all(0 <= float(str(figure)) <= 3 for figure in column(table, "others meanwhile"))
    (row,) = between.rows
    assert row[:4] == [2, 0, 4, 0]
    assert float(row[6]) <= float(row[7]) + 2 * float(row[5]), "a race lost is a try and a look"
    assert overlaps.rows


def test_nothing_is_lost_beside_compactors() -> None:
    for table in compaction.run(TINY).tables:
        assert column(table, "engine") == ["raw", "crdtcat"]
        assert column(table, "acknowledged writes lost") == [0, 0]
        assert column(table, "failed alone") == [0, 0]
        assert column(table, "failed beside") == [None, 0]  # files with no catalog have no upkeep
        assert int(str(column(table, "upkeep runs")[1])) > 0


UPDATE_AND_DELETE = ("update / delete", "delete / update")


def test_both_of_two_changes_stand_and_in_cas_mode_those_that_do_not_meet() -> None:
    pairs, counted = conflicts.run(TINY).tables
    assert set(column(pairs, "crdtcat")) == {"both"}
    assert set(column(pairs, "raw")) == {"both", "not offered"}  # no catalog, no compaction
    refused = {title for title, *_, said in pairs.rows if said != "both"}
    assert refused == {f"{pair}, overlapping rows" for pair in ("update / update", *UPDATE_AND_DELETE)}
    assert [row[:4] for row in counted.rows] == [
        ["raw", 7, 0, 0],
        ["crdtcat", 12, 0, 0],
        ["crdtcat, CAS", 9, 3, 0],
    ]


@pytest.mark.parametrize("variant", ["default", UNFORCED])
@pytest.mark.parametrize("name", ["raw", "crdtcat"])
def test_waits_for_the_disk_are_as_the_tables_say(
    name: str, variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: Counter[str] = Counter()
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (waits.update(["fsync"]), real(descriptor)))
    engine = {"raw": Raw, "crdtcat": Ours}[name](Place(f"{tmp_path}/aside", f"{tmp_path}/table"), variant)
    try:
        engine.create(batch(0, 1_000), 0)
        engine.append(batch(0, 1_000))  # folders are forced once
        waits.clear()
        for number in range(1, 4):
            engine.append(batch(number, 1_000))
        appended = waits.pop("fsync", 0)
        for number in range(3):
            engine.open()
            engine.change({"kind": "update", "low": number, "high": number + 1, **REWRITTEN})
    finally:
        force("default")
    forced = 0 if variant == UNFORCED else 3
    assert appended == forced * int(ENTRANTS[name].disk_waits)
    assert waits["fsync"] == forced * int(ENTRANTS[name].disk_waits)
    engine.open()
    assert engine.read(["id"]).num_rows == 4_000


def test_chunks_are_found_again_as_theory_says() -> None:
    reuse, ingest, compare = chunks.run(TINY).tables
    for measured, theory in (
        ("fixed rows, run at a boundary", "theory, fixed"),
        ("by content, run anywhere", "theory, by content"),
    ):
        pairs = zip(column(reuse, measured), column(reuse, theory), strict=True)
        assert all(abs(float(str(one)) - float(str(other))) < 3 for one, other in pairs)
    assert len(ingest.rows) == 2
    assert [round(float(str(share)), 2) for share in column(compare, "rows sent / all")] == [
        0.05,
        0.05,
        0.03,
        0.0,
    ]
    assert column(compare, "rows deleted") == [0, 0, 0, 12_000]


def test_storage_counts_bytes_of_versions_that_read_back() -> None:
    narrow, table = storage.run(TINY).tables
    assert {str(case) for case in column(narrow, "case")} == {"clustered", "scattered"}
    assert {str(case) for case in column(table, "case")} == set(CASES)
    for one in (narrow, table):
        assert "WRONG" not in one.note
        assert all(float(str(ratio)) >= 0.9 for ratio in column(one, "ratio to one"))


@pytest.mark.parametrize("suite", ["heads", "merge", "reads", "trees", "writes"])  # spark: tests/spark
def test_suites_of_crdtcat_alone(suite: str) -> None:
    results = RUNS[suite](TINY)
    assert all(table.rows for table in results.tables)


def test_requests_are_counted_through_the_proxy_and_suites_share_a_server() -> None:
    with one_server():
        with places() as where, crew(ENTRANTS["crdtcat"]) as workers:
            point = contention.measure(workers, where, FAR, "default", 1, 4, 60.0)
            place = where.fresh(NEAR)
        with places() as where:
            after = where.fresh(NEAR)
    assert (after.endpoint, after.bucket) == (place.endpoint, place.bucket)
    assert after.prefix != place.prefix
    assert point.requests is not None
    assert 1.0 <= point.requests <= 2.0  # one PUT a commit, and now and then a bundle
    assert (point.lost, point.failed) == (0, 0)


def _echo(listener: socket.socket) -> None:
    """Send back what each client sends, until it has said everything."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            while data := client.recv(1 << 16):
                client.sendall(data)


@pytest.mark.parametrize("http", [True, False])
def test_the_proxy_carries_every_byte_in_order_and_later(http: bool) -> None:
    put = b"PUT /b/k HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n" + os.urandom(3_000_000)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_echo, args=(listener,), daemon=True).start()
        with delayed(listener.getsockname(), 0.01, http=http) as proxy, ThreadPoolExecutor(3) as threads:

            def one(_: int) -> tuple[bytes, float]:
                with socket.create_connection(proxy.address) as client:
                    began = time.monotonic()  # before the first byte is sent, however late that thread runs
                    threading.Thread(target=client.sendall, args=(put,)).start()
                    found = client.recv(1)
                    waited = time.monotonic() - began
                    while len(found) < len(put):  # slower than it comes: some of it has to wait in the proxy
                        found += client.recv(1 << 20)
                    client.shutdown(socket.SHUT_WR)
                    assert client.recv(1) == b""  # the end travels there and back, too
                    return found, waited

            for found, waited in threads.map(one, range(3)):
                assert found == put
                assert waited >= 0.02
            assert proxy.traffic == {"up": 3 * len(put), "down": 3 * len(put)}
            assert set(proxy.requests) == ({"PUT"} if http else {"QUERY"})
            assert not http or proxy.requests["PUT"] == 3
        listener.shutdown(socket.SHUT_RDWR)


def test_round_trips_are_counted_where_nothing_is_known_of_the_protocol() -> None:
    counts: Counter[str] = Counter()
    asked = Questions(counts)
    for _ in range(2):
        asked.take(b"in")
        asked.take(b" pieces")
        asked.answered()
        asked.answered()
    assert counts == {"QUERY": 2}


def test_suites_take_over_workers_and_leave_nothing_open(tmp_path: Path) -> None:
    common = {"place": Place(f"{tmp_path}/aside", f"{tmp_path}/table").to_json(), "variant": "default"}
    with shared_crews():
        with crew(ENTRANTS["raw"]) as workers:
            workers.ask("create", **common, rows=10, rows_max=0, seconds=60)
            (first,) = workers.workers
        with crew(ENTRANTS["raw"]) as workers, crew(ENTRANTS["raw"], new=True) as others:
            assert workers.hire(1) == [first]
            assert others.hire(1) != [first]
            with pytest.raises(EngineFailed, match="Assertion"):  # the handle was closed
                workers.ask("build", first=0, commits=1, rows=10, limit=60.0)
        pids = [first.pid, others.workers[0].pid]
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return
        time.sleep(0.1)
    raise AssertionError("workers outlive their block")


def test_a_run_goes_on_where_it_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_suites(("trees",), TINY, tmp_path) == []
    assert is_done("trees", tmp_path, TINY)
    assert not is_done("writes", tmp_path, TINY)
    assert not is_done("trees", tmp_path, replace(TINY, size="full"))
    assert not is_done("trees", tmp_path, replace(TINY, engines=("raw",)))
    assert seconds_before("trees", tmp_path, "tiny") is not None
    assert "2 suites" in estimate(("trees", "writes"), "tiny", tmp_path)
    assert "About 1 minutes, full: trees 0.5, writes 0.5." in estimate(("trees", "writes"), "full", tmp_path)
    monkeypatch.setattr("benchmarks.report.sources", lambda: "others")
    assert not is_done("trees", tmp_path, TINY)


def test_a_worker_that_cannot_start_is_named() -> None:
    broken = ENTRANTS["Delta"].__class__("none", "no_such_adapter", (), is_peer=False)
    with crew(broken) as workers, pytest.raises(EngineFailed, match="no_such_adapter"):
        workers.ask("warm", seconds=60)


def test_a_worker_that_overstays_is_ended_and_what_it_told_counts(tmp_path: Path) -> None:
    common = {"place": Place(f"{tmp_path}/aside", f"{tmp_path}/table").to_json(), "variant": "default"}
    with crew(ENTRANTS["raw"], overtime=1.0) as workers:
        workers.ask("create", **common, rows=10, rows_max=0, seconds=60)
        workers.ask("ready", **common, first=0, commits=9, rows=10, seconds=60)
        (answer,) = workers.together("appends", [{"seconds": 60, "pause": 60.0}], seconds=1.0)
        assert (answer.cut, answer.done) == (True, None)
        assert [event["commit"] for event in answer.events] == [0]
        assert workers.workers == []


def test_a_worker_that_died_is_named_once_and_replaced(tmp_path: Path) -> None:
    common = {"place": Place(f"{tmp_path}/aside", f"{tmp_path}/table").to_json(), "variant": "default"}
    with crew(ENTRANTS["raw"]) as workers:
        (worker,) = workers.hire(1)
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(EngineFailed, match="the worker died"):
            workers.ask("create", **common, rows=10, rows_max=0, seconds=60)
        workers.ask("create", **common, rows=10, rows_max=0, seconds=60)


def test_a_writer_that_may_not_open_at_once_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []
    refusals = iter([True, True, False, False])

    class Locked(Raw):
        def open(self) -> None:
            if next(refusals, False):
                raise OSError("locked")
            super().open()

        def append(self, rows: pa.Table) -> int | None:
            if rows["id"][0].as_py() == 0:
                raise OSError("refused")
            return super().append(rows)

    bench = Bench(Locked, told.append)
    monkeypatch.setattr(bench, "_warm", True)
    place = Place(f"{tmp_path}/aside", f"{tmp_path}/table").to_json()
    bench.ready(place=place, variant="default", first=0, commits=2, rows=10)
    refusals = iter([True, False])
    assert bench.appends(seconds=60)["done"] == 1
    assert ["error" in event for event in told] == [True, False]


def test_a_suite_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Job) -> Results:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(writes, "run", broken)
    assert run_suites(("writes", "trees"), TINY, tmp_path) == ["writes"]
    assert {path.name for path in tmp_path.iterdir()} == {"trees.md", "trees.json"}
    said = capsys.readouterr().out
    assert "## Seconds" in said
    assert "All: 0 min" in said


def test_other_programs_are_said_as_cores() -> None:
    assert 0 <= cores_busy(0.05) <= (os.cpu_count() or 1)
    assert "otherwise idle" in load(0.1)
    assert "a loaded machine" in load(1.9)


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(AssertionError, match="one of two columns"):
        Results().add("Title", ["a", "x raw", "x raw"], [[1, 2, 3]])


def test_serial_orders_decide_what_is_wrong() -> None:
    pair = conflicts.PAIRS["update / delete, overlapping rows"]
    before = [0.0] * 200
    right = conflicts.after(before, pair)
    report = {"outcomes": ["committed", "committed"], "before": before}
    shown = {**report, "ids": list(right), "values": list(right.values())}
    assert conflicts.verdict(pair, shown) == "both"
    back = {**right, 60: -1.0}  # the deleted row is alive again
    alive = {**report, "ids": list(back), "values": list(back.values())}
    assert conflicts.verdict(pair, alive) == "WRONG (no order explains it)"
    twice = {**shown, "ids": [*right, 0], "values": [*right.values(), right[0]]}
    assert conflicts.verdict(pair, twice) == "WRONG (rows twice)"
    first = conflicts.after(before, pair[:1])
    shown = {**shown, "ids": list(first), "values": list(first.values())}
    refused = {**shown, "outcomes": ["committed", "Conflict: no"]}
    assert conflicts.verdict(pair, refused) == "refused (Conflict)"


@pytest.mark.parametrize("case", CASES)
def test_changes_say_what_they_changed(case: str) -> None:
    before = wide(1_000, 0)
    after, changed, deleted = change(before, case, 1)
    kept = {row["id"]: row for row in before.to_pylist()}
    for row in deleted.to_pylist():
        del kept[row["id"]]
    kept |= {row["id"]: row for row in changed.to_pylist()}
    assert kept == {row["id"]: row for row in after.to_pylist()}
    assert after.num_rows == len(kept)


def test_rows_tell_which_commits_are_there() -> None:
    ids = batch(1, 10)["id"].combine_chunks().to_pylist()
    seen = found(pa.chunked_array([[*ids, ids[0], 25]]), 10, 4)
    assert seen == {"present": [0, 10, 1, 0], "repeated": 1, "rows": 12}


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_http_requests_are_counted_in_a_stream(step: int) -> None:
    body = b"GET /b/in-a-body HTTP/1.1\r\nHost: x\r\n\r\n"
    put = b"PUT /b/k HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    listing = b"GET /b?list-type=2&prefix=x HTTP/1.1\r\nHost: x\r\n\r\n"
    parts = b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    get = b"GET /b/k HTTP/1.1\r\n\r\n"
    stream = put + listing + parts + get
    counts: Counter[str] = Counter()
    counter = RequestCount(counts)
    for at in range(0, len(stream), step):
        counter.take(stream[at : at + step])
    assert counts == {"PUT": 2, "LIST": 1, "GET": 1}


def test_results_are_kept_as_pages_data_and_plots(tmp_path: Path) -> None:
    results = Results()
    results.add("Title", ["a", "b"], [[1, 2.5], ["x", None], [1234567, 0.01]], "a note")
    results.plots.append(Plot("1", "Plot <1>", "x", "y", {"crdtcat": [(1, 1), (10, 1000)], "a & b, c": []}))
    save("suite", "Purpose.", results, tmp_path, TINY, seconds=1, busy=0.0)
    page = (tmp_path / "suite.md").read_text()
    assert "| 1,234,567 | 0.0100 |" in page
    assert "![Plot <1>](suite-1.svg)" in page
    assert json.loads((tmp_path / "suite.json").read_text())["tables"][0]["rows"][1] == {"a": "x", "b": None}
    picture = (tmp_path / "suite-1.svg").read_text()
    assert "Plot &lt;1&gt;" in picture
    assert picture.count("<circle") == 2
    bars = Plot("1", "Rate", "processes", "commits/s", {"crdtcat": [(16, 220)], "Delta, generous": [(16, 3)]})
    assert "Rate, 16 processes" in bars.svg()
    assert bars.svg().count("<rect") == 3
    rows = [["crdtcat", 8, 200.0], ["Delta", 8, 3.0], ["Delta", 32, 1.0], ["Icechunk", 8, None]]
    results.add("Updates", ["engine", "processes", "updates/s"], rows)
    results.bars("updates/s", where={"processes": 8})
    drawn = results.plots[-1]
    assert drawn.series == {"crdtcat": [(1.0, 200.0)], "Delta": [(1.0, 3.0)]}
    assert "Updates, 8<" in drawn.svg()


def test_a_suite_whose_page_was_not_written_to_its_end_is_not_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results()
    results.plots.append(Plot("1", "Rate", "x", "y", {"crdtcat": [(1, 1), (10, 1000)]}))

    def ended(_: Plot) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Plot, "svg", ended)
        with pytest.raises(KeyboardInterrupt):
            save("suite", "Purpose.", results, tmp_path, TINY, seconds=1, busy=0.0)
    assert not is_done("suite", tmp_path, TINY)
    save("suite", "Purpose.", results, tmp_path, TINY, seconds=1, busy=0.0)
    assert is_done("suite", tmp_path, TINY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["suite-1.svg", "suite.json", "suite.md"]


@pytest.mark.parametrize(("versions", "per"), [(10, 3), (40, 1)])
def test_a_head_from_a_synthetic_bundle(tmp_path: Path, versions: int, per: int) -> None:
    log = heads.synthetic(versions, per)
    (tmp_path / "bundle.b").write_bytes(encode_bundle(log, FOLDER))
    heads._write_ipc(log, tmp_path / "columns.arrow")
    assert heads.open_once("head", tmp_path / "bundle.b")[0] > 0
    assert heads.open_once("plain", tmp_path / "columns.arrow")[0] > 0
