"""Inside a transaction rows are checked against the columns that its tables have there, also by whoever has
only opened them: what is pinned was read."""

from __future__ import annotations

import secrets

import pyarrow as pa
import pytest

from crdtcat import Catalog
from crdtcat.errors import SchemaMismatch
from crdtcat.transaction import Transaction

SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.int64()), ("y", pa.int64())])
MODES = pytest.mark.parametrize("mode", ["cas", "merge"])


def begun(mode: str) -> tuple[Catalog, Transaction]:
    """A table two of whose columns have exchanged their names, and a transaction of somebody who is new."""
    url = f"memory://columns-{secrets.token_hex(6)}"
    catalog = Catalog(url, upkeep=False)
    table = catalog.create_table("t", SCHEMA, mode=mode)
    for name, to in (("x", "z"), ("y", "x"), ("z", "y")):
        table.rename_column(name, to)
    return catalog, Catalog(url, upkeep=False).transaction(["t"])


@MODES
@pytest.mark.parametrize("forked", [False, True])
def test_rows_go_to_the_columns_of_these_names(mode: str, *, forked: bool) -> None:
    catalog, tx = begun(mode)
    row = {"n": 1, "x": 2, "y": 3}
    if forked:
        fork = tx.fork()
        fork.append("t", [row])
        tx.join(fork)
    else:
        tx.append("t", [row])
    assert tx.read("t").to_pylist() == [row]
    tx.commit()
    assert catalog.read("t").to_pylist() == [{"n": 1, "y": 3, "x": 2}]
    assert not catalog.table("t").conflicts()


@MODES
def test_rows_with_others_are_refused(mode: str) -> None:
    _, tx = begun(mode)
    with pytest.raises(SchemaMismatch, match="'z' is not in the table"):
        tx.append("t", [{"n": 1, "z": 2}])
    tx.commit()
