"""The verbs of a table that change columns and properties, each in a line over the layers below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from crdtcat.head import Version
from crdtcat.table.kept_up import KeptUp
from crdtcat.verbs import columns as column_verbs


class Columns(KeptUp):
    """Columns and properties."""

    def add_column(self, name: str, type: pa.DataType) -> Version:
        """Add a column; existing rows are null there. Raises `AlreadyExists`, `InvalidName`."""
        return self._kept_up(column_verbs.add_column(self._session, name, type))

    def drop_column(self, name: str) -> Version:
        """Drop a column. Values that others write to it meanwhile survive and are listed as a conflict."""
        return self._kept_up(column_verbs.drop_column(self._session, name))

    def rename_column(self, name: str, to: str) -> Version:
        """Rename a column. Raises `AlreadyExists`, `NotFound`, `InvalidName`."""
        return self._kept_up(column_verbs.rename_column(self._session, name, to))

    def widen_column(self, name: str, type: pa.DataType) -> Version:
        """Let a column hold a wider type. Raises `SchemaMismatch` where that could lose a value."""
        return self._kept_up(column_verbs.widen_column(self._session, name, type))

    def reorder_columns(self, names: Sequence[str]) -> Version:
        """Put columns in this order; those not named follow."""
        return self._kept_up(column_verbs.reorder_columns(self._session, names))

    def set_properties(self, properties: Mapping[str, Any] | None = None, /, **more: Any) -> Version:
        """Set properties, given as a map, by keyword, or both; `None` removes one."""
        return self._kept_up(column_verbs.set_properties(self._session, properties, more))
