"""What a head costs: from ten thousand unbundled versions, and from one bundle of a million entries."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import msgpack
import numpy as np
import pyarrow as pa

from benchmarks.commits import batch
from benchmarks.report import best, progress, table
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

FOLDER = "tables/bench/main/"
COLUMNS = "abcdef"


def unbundled(*, full: bool) -> str:
    """Head from versions nobody bundled, against reading and MessagePack-decoding the same files."""
    rows = []
    for count in (1_000, 10_000) if not full else (1_000, 10_000, 30_000):
        with tempfile.TemporaryDirectory(prefix="crdtcat-bench-") as folder:
            progress(f"writing {count:,} versions")
            with mock.patch("os.fsync"):  # ten thousand waits for the disk are not what is measured
                handle = Catalog(folder, upkeep=False).create_table("bench")
                small = batch(1).slice(0, 10)
                for _ in range(count):
                    handle.append(small)
            log = Path(folder) / FOLDER
            progress("reading them")

            def decode_all(log: Path = log) -> None:
                for path in sorted(log.iterdir()):
                    body = path.read_bytes()
                    msgpack.unpackb(memoryview(body)[10:-32], raw=False, strict_map_key=False)

            def head(folder: str = folder) -> None:
                found = Catalog(folder).table("bench").head()
                assert (found.version, found.row_count) == (count, 10 * count)  # noqa: B023
                assert found.snapshot.id

            raw, ours = best(decode_all), best(head)
            rows.append([count, ours * 1e6 / count, raw * 1e6 / count, ours / raw, "at most 4"])
    return table(
        "Head from unbundled versions, local disk, everything checked",
        ["versions", "us per version", "read + MessagePack, us", "ratio", "aim"],
        rows,
    )


def bundled() -> str:
    """Head from one bundle, in a process of its own so that its memory can be seen."""
    rows = []
    shapes = [(10_000, 100), (1_000_000, 1)]
    for versions, per in shapes:
        with tempfile.NamedTemporaryFile(suffix=".b") as file:
            progress(f"making a bundle of {versions:,} versions x {per} entries")
            file.write(encode_bundle(synthetic(versions, per), FOLDER))
            file.flush()
            size = Path(file.name).stat().st_size
            command = [sys.executable, "-m", "benchmarks.heads", file.name]
            answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            seconds, plain, memory = (float(part) for part in answer.split())
            entries = versions * per
            rows.append(
                [versions, entries, size / entries, seconds, plain, seconds / plain, memory / entries]
            )
    return table(
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
        "Aim: ratio at most 5, memory at most 400 bytes per entry. pyarrow reads the same columns from an "
        "uncompressed Arrow IPC file and touches every byte.",
    )


def open_bundle(path: str) -> None:
    """In a child process: time and memory of a head from a bundle file."""
    data = Path(path).read_bytes()
    name = bundle_name(FOLDER, 1, digest(data))
    log = State(FOLDER).joined([(name, data)]).log
    ipc = Path(path).with_suffix(".arrow")
    _write_ipc(log, ipc)
    del log, data

    def plain() -> None:
        with pa.OSFile(str(ipc)) as source:
            columns = pa.ipc.open_file(source).read_all()
        for column in columns.columns:
            for chunk in column.chunks:
                np.frombuffer(chunk.buffers()[1], np.uint8).max()

    pyarrow_seconds = best(plain)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept: list[Head] = []

    def head() -> None:
        kept.clear()
        state = State(FOLDER).joined([(name, Path(path).read_bytes())])
        assert not state.gaps()
        kept.append(Head("bench", state.log, Settings()))
        assert kept[0].row_count
        assert kept[0].snapshot.id

    head()
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(best(head), pyarrow_seconds, max(memory, Path(path).stat().st_size))
    ipc.unlink()


def _write_ipc(log: Log, path: Path) -> None:
    fixed = {
        "hash": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(32), log.chunk_count, [None, pa.py_buffer(np.ascontiguousarray(log.hash))]
        ),
        "rows": log.rows,
        "nbytes": log.nbytes,
        "partition": log.partition,
        "schema": log.chunk_schema,
        "segment": log.place_segment,
        "group": log.place_group,
    }
    for column in COLUMNS:
        bounds = log.statistics.bounds(column, "i")
        assert bounds is not None
        fixed |= {f"{column}.low": bounds.low, f"{column}.high": bounds.high, f"{column}.nulls": bounds.nulls}
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
        schema=np.zeros(versions, np.uint32),
        time_min=np.zeros(versions, np.int64),
        time_max=np.zeros(versions, np.int64),
        key=nothing,
        metadata=nothing,
        clock=nothing,
        ops=nothing,
        chunk_start=np.arange(versions + 1) * per,
        hash=np.frombuffer(chance.bytes(32 * count), np.uint8).reshape(-1, 32),
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


def run(*, full: bool) -> list[str]:
    return [unbundled(full=full), bundled()]


if __name__ == "__main__":
    open_bundle(sys.argv[1])
