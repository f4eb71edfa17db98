"""What a head costs: from ten thousand unbundled versions, and from one bundle of a million entries."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa

from benchmarks.job import Job
from benchmarks.report import Results, best, progress
from benchmarks.small_commits import FOLDER, ROWS, small_commits
from crdtcat import Catalog
from crdtcat.format.frame import digest
from crdtcat.format.ops import ColumnId
from crdtcat.format.schema_code import StoredField, encode_schema
from crdtcat.format.settings import Settings
from crdtcat.head import Head
from crdtcat.log import Log, State, encode_bundle
from crdtcat.log.log import ID, ID_FIELDS, NONE
from crdtcat.log.statistics import from_sections
from crdtcat.protocol import bundle_name
from crdtcat.store.local import LocalStore

PURPOSE = (
    "A head from versions nobody bundled, against reading and MessagePack-decoding the same files (aim: "
    "at most 4 times); and from one bundle of a million entries, against pyarrow reading the same columns "
    "(aim: at most 5 times)."
)
COLUMNS = "abcdef"


def unbundled(job: Job, results: Results) -> None:
    """Head from versions nobody bundled, against reading and MessagePack-decoding the same files."""
    rows = []
    for count in job.pick((10,), (10_000,), (1_000, 10_000, 30_000)):
        folder = small_commits(count)
        log = Path(folder) / FOLDER
        progress("reading them")

        def decode_all(log: Path = log) -> None:
            for path in sorted(log.iterdir()):
                body = path.read_bytes()
                msgpack.unpackb(memoryview(body)[10:-32], raw=False, strict_map_key=False)

        def head(folder: str = folder, count: int = count) -> None:
            found = Catalog(folder, upkeep=False).table("bench").head()
            assert (found.version, found.row_count) == (count, ROWS * count)
            assert found.snapshot.id

        raw, ours = best(decode_all), best(head)
        rows.append([count, ours * 1e6 / count, raw * 1e6 / count, ours / raw, "at most 4"])
    results.add(
        "Head from unbundled versions, local disk, everything checked",
        ["versions", "us per version", "read + MessagePack, us", "ratio", "aim"],
        rows,
    )


def bundled(job: Job, results: Results) -> None:
    """Head from one bundle, each measurement in a process of its own: what a cold start pays."""
    rows = []
    for versions, per in job.pick(
        [(10, 3)], [(10_000, 100), (1_000_000, 1)], [(10_000, 100), (1_000_000, 1)]
    ):
        with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
            progress(f"making a bundle of {versions:,} versions x {per} entries")
            log = synthetic(versions, per)
            path, plain = Path(folder) / "bundle.b", Path(folder) / "columns.arrow"
            path.write_bytes(encode_bundle(log, FOLDER))
            _write_ipc(log, plain)
            del log
            progress("opening it")
            times = job.pick(1, 2, 3)
            ours = [_child("head", path) for _ in range(times)]
            theirs = [_child("plain", plain) for _ in range(times)]
            seconds, memory = min(seconds for seconds, _ in ours), min(memory for _, memory in ours)
            pyarrow = min(seconds for seconds, _ in theirs)
            entries, size = versions * per, path.stat().st_size
            rows.append(
                [versions, entries, size / entries, seconds, pyarrow, seconds / pyarrow, memory / entries]
            )
    results.add(
        "Head from one bundle (6 columns of statistics, left unloaded)",
        [
            "versions",
            "entries",
            "file bytes/entry",
            "seconds",
            "pyarrow reads the columns",
            "ratio",
            "memory bytes/entry",
        ],
        rows,
        "Aim: ratio at most 5, memory at most 400 bytes per entry plus statistics, which are 174 of those "
        "shown. pyarrow reads the same columns from an uncompressed Arrow IPC file and touches every byte. "
        "Each in a fresh process, the least of two (full: three).",
    )


def _child(what: str, path: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.suites.heads", what, str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, memory = (float(part) for part in answer.split())
    return seconds, memory


def open_once(what: str, path: Path) -> tuple[float, float]:
    """Seconds and bytes of memory that one opening takes in this process."""
    with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
        small = Path(folder) / "small.b"  # a first one, so that what is imported late is not counted
        small.write_bytes(encode_bundle(synthetic(10, 1), FOLDER))
        _head(small)
    before = _resident_bytes()
    began = time.perf_counter()
    kept = _head(path) if what == "head" else _columns(path)
    seconds = time.perf_counter() - began
    memory = _resident_bytes() - before
    assert kept is not None
    return seconds, memory


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _head(path: Path) -> Head:
    data = LocalStore(path.parent).get(path.name)  # as a handle reads it
    state = State(FOLDER).joined([(bundle_name(FOLDER, 1, digest(data)), data)])
    assert not state.gaps()
    head = Head("bench", state.log, Settings())
    assert head.row_count
    assert head.snapshot.id
    return head


def _columns(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as source:
        columns = pa.ipc.open_file(source).read_all()
    for column in columns.columns:
        for chunk in column.chunks:
            np.frombuffer(chunk.buffers()[1], np.uint8).max()
    return columns


def _write_ipc(log: Log, path: Path) -> None:
    fixed: dict[str, Any] = {
        "hash": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(32), log.chunk_count, [None, pa.py_buffer(np.ascontiguousarray(log.hash))]
        ),
        "rows": log.rows,
        "nbytes": log.nbytes,
        "partition": log.partition,
        "schema": log.chunk_schema,
        "segment": log.place_segment,
        "group": log.place_group,
        "place": log.place_chunk,
    }
    for column in COLUMNS:
        bounds = log.statistics.bounds(column, "i")
        assert bounds is not None
        fixed |= {f"{column}.low": bounds.low, f"{column}.high": bounds.high, f"{column}.nulls": bounds.nulls}
        fixed |= {f"{column}.chunk": bounds.chunk.astype("u4"), f"{column}.known": bounds.known.astype("u1")}
    if len(log) == log.chunk_count:  # one version per chunk: its columns belong to the rows as well
        fixed |= {
            "id": pa.FixedSizeBinaryArray.from_buffers(pa.binary(36), len(log), [None, pa.py_buffer(log.ids)])
        }
        fixed |= {name: getattr(log, name) for name in ("operation", "schema", "time_min", "time_max")}
        fixed |= {"start": log.chunk_start[:-1]}
    rows = pa.table(fixed)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


def synthetic(versions: int, per: int) -> Log:
    """A log of many versions, each adding `per` chunks, eight chunks to a segment."""
    chance = np.random.default_rng(0)
    count = versions * per
    ids = np.empty(versions, ID_FIELDS)
    ids["hlc"] = (1_700_000_000_000 << 16) + np.arange(versions, dtype=np.uint64) * 70_000
    ids["writer"] = chance.integers(0, 2**63, versions, dtype=np.uint64)
    ids["seq"] = 1
    ids["digest"] = np.frombuffer(chance.bytes(16 * versions), "V16")
    segments = -(-count // 8)
    columns: dict[str, Any] = {}
    for number in range(len(COLUMNS)):
        columns |= {
            f"stat{number}.chunk": np.arange(count, dtype=np.uint32),
            f"stat{number}.nulls": np.zeros(count, np.int64),
            f"stat{number}.known": np.ones(count, np.uint8),
            f"stat{number}.low": np.arange(count),
            f"stat{number}.high": np.arange(count) + 10,
        }
    nothing = pa.nulls(versions, pa.large_binary())
    places = np.arange(count, dtype=np.uint32)
    fields = [StoredField(name, ColumnId(name), "int64") for name in COLUMNS]
    return Log(
        ids=ids.view(ID),
        operation=np.zeros(versions, np.uint8),
        number=np.zeros(versions, np.uint64),
        schema=np.zeros(versions, np.uint32),
        time_min=np.zeros(versions, np.int64),
        time_max=np.zeros(versions, np.int64),
        key=nothing,
        metadata=nothing,
        clock=nothing,
        ops=nothing,
        transaction=nothing,
        chunk_start=np.arange(versions + 1) * per,
        hash=np.frombuffer(chance.bytes(32 * count), np.uint8).reshape(-1, 32),
        kind=np.zeros(count, np.uint8),
        rows=np.full(count, 65_536, np.uint64),
        nbytes=np.full(count, 65_536 * 48, np.uint64),
        partition=np.full(count, NONE, np.uint32),
        chunk_schema=np.zeros(count, np.uint32),
        place_chunk=places,
        place_segment=places // 8,
        place_group=places % 8,
        segment_name=np.sort(np.frombuffer(chance.bytes(24 * segments), "S24")),
        segment_size=np.full(segments, 10**6, np.uint64),
        segment_digest=np.frombuffer(chance.bytes(32 * segments), np.uint8).reshape(-1, 32),
        segment_footer=np.full(segments, 900, np.uint32),
        schemas=(encode_schema(fields),),
        statistics=from_sections(columns, [(name, "i") for name in COLUMNS], count, "bench"),
    )


def run(job: Job) -> Results:
    results = Results()
    unbundled(job, results)
    bundled(job, results)
    return results


if __name__ == "__main__":
    print(*open_once(sys.argv[1], Path(sys.argv[2])))
