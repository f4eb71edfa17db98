"""Tables that are needed for long, kept in temporary files instead of memory.

Where every chunk of a keyed table spans all keys, merging needs all of them at once, a few rows of each at a
time. What is more than fits is written as it was decoded, in Arrow's own layout, and mapped: reading it back
copies nothing, and the system takes pages away and brings them back as it likes. The file has no name any
more once it is mapped, so nothing of it outlives the process.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pyarrow as pa

from crdtcat.errors import StoreUnavailable


def spilled(table: pa.Table) -> pa.Table:
    """The same rows, mapped from a file in the temporary folder (`TMPDIR`). Cost: one write of them.

    Raises `StoreUnavailable` if there is no room.
    """
    path = None
    try:
        handle, path = tempfile.mkstemp(prefix="crdtcat-spill-")
        os.close(handle)
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        with pa.memory_map(path) as source:
            return pa.ipc.open_file(source).read_all()
    except OSError as error:
        raise StoreUnavailable(
            f"rows that overlap by key could not be kept in {tempfile.gettempdir()}: {error}; make room "
            "there, set TMPDIR to another folder, or compact the table more often"
        ) from error
    finally:
        if path is not None:
            Path(path).unlink()
