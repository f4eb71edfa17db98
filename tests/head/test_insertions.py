"""Which chunks are inserted rows: what a version says of chunks that it does not have counts for nothing."""

from __future__ import annotations

import numpy as np
import pytest

from crdtcat.format.kinds import OVERLAY
from crdtcat.format.ops import ColumnId, Ops
from crdtcat.format.row_ids import RowIds, Tags
from crdtcat.format.row_ops import Insertion, RowOps
from crdtcat.format.schema_code import StoredField
from crdtcat.format.version import OPERATIONS, encode_version
from crdtcat.head.insertions import insertions
from crdtcat.log import State
from crdtcat.protocol import version_name
from crdtcat.testing.made_versions import FOLDER, chunk_columns, chunk_of

FIELDS = (StoredField("a", ColumnId("a"), "int64"),)
NOWHERE = RowIds(
    Tags(np.empty(0, "S36"), np.empty(0, np.uint32)), *(np.empty(0, np.uint32) for _ in range(3))
)
ROWS_EACH = 2


def _file(time: int, ops: Ops, kinds: list[int]) -> tuple[str, bytes]:
    """A version with one chunk of two rows for each kind."""
    chunks = chunk_columns([chunk_of(FIELDS, b"\x91\x01", at + 1, ROWS_EACH) for at in range(len(kinds))])
    stamp = {"h": time, "w": time, "s": 1, "l": FOLDER, "o": OPERATIONS.index("write"), "b": kinds}
    id, data = encode_version({**chunks, **stamp, "x": ops.encode()})
    return version_name(FOLDER, id), data


@pytest.mark.parametrize(
    ("ordinal", "starts", "kinds", "found"),
    [
        (0, [0], [0], {0}),
        (0, [0, 1], [0], {0}),
        (1, [0], [0, 0], {1}),
        (1, [0], [0], set()),  # the next version's first chunk, and not its own
        (2, [0], [0], set()),
        (0, [0, ROWS_EACH], [0], set()),
        (0, [0, ROWS_EACH + 1], [0], set()),
        (0, [0], [OVERLAY], set()),
    ],
)
def test_only_rows_of_its_own_are_inserted(
    ordinal: int, starts: list[int], kinds: list[int], found: set[int]
) -> None:
    said = RowOps(insertions=(Insertion(ordinal, np.array(starts, np.uint32), NOWHERE),))
    files = [_file(1, Ops(), kinds), _file(2, Ops(), [0, 0, 0])]
    log = State(FOLDER).joined(files).log
    assert insertions(log, {0: said}).keys() == found
