"""Verbs that look at the table again after their commit: a store that fails then does not undo it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from crdtcat import Catalog, Table
from crdtcat.errors import CommitUnknown
from crdtcat.store.local import LocalStore
from crdtcat.store.retry import RetryPolicy
from crdtcat.store.values import Data, NamesPage, Page


class FailsAfterwards(LocalStore):
    """Lists nothing more once something was stored, while it is armed."""

    armed = stored = False

    def _put(self, name: str, data: Data) -> None:
        super()._put(name, data)
        self.stored = self.armed

    def _list_page(self, prefix: str, after: str, limit: int) -> Page:
        if self.stored:
            raise TimeoutError
        return super()._list_page(prefix, after, limit)

    def _list_names(self, prefix: str, after: str, limit: int) -> NamesPage:
        if self.stored:
            raise TimeoutError
        return super()._list_names(prefix, after, limit)


def lake(path: Path) -> tuple[FailsAfterwards, Table]:
    store = FailsAfterwards(path, retry=RetryPolicy(attempts=1))
    table = Catalog(store, upkeep=False).create_table("t", pa.schema([("a", pa.int32()), ("b", pa.string())]))
    table.append([{"a": 1, "b": "x"}])
    return store, table


VERBS: dict[str, tuple[Callable[[Table], Any], list[str]]] = {
    "add": (lambda table: table.add_column("c", pa.int64()), ["a", "b", "c"]),
    "drop": (lambda table: table.drop_column("b"), ["a"]),
    "rename": (lambda table: table.rename_column("a", "z"), ["z", "b"]),
    "reorder": (lambda table: table.reorder_columns(["b", "a"]), ["b", "a"]),
    "widen": (lambda table: table.widen_column("a", pa.int64()), ["a", "b"]),
}


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_change_of_columns_stands(tmp_path: Path, verb: str) -> None:
    store, table = lake(tmp_path)
    change, names = VERBS[verb]
    store.armed = True
    change(table)
    assert store.stored
    store.armed = store.stored = False
    assert table.schema.names == Catalog(tmp_path).table("t").schema.names == names
    table.append([dict.fromkeys(names)])


def test_a_merge_that_could_not_be_looked_at_says_so_and_can_be_repeated(tmp_path: Path) -> None:
    store, table = lake(tmp_path)
    table.branch("b").append([{"a": 2, "b": "y"}])
    store.armed = True
    with pytest.raises(CommitUnknown, match="repeat it"):
        table.merge("b")
    store.armed = store.stored = False
    assert table.merge("b").versions == 0
    assert table.read().num_rows == 2
