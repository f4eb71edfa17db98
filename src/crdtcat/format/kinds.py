"""Kinds of chunks: what the rows of a chunk are to the table.

======  ========  ============================================================================
number  name      its rows
======  ========  ============================================================================
0       rows      new rows; in a keyed table, cells to be upserted
1       overlay   new values for cells of rows that are there; which rows, the ops say
2       copy      rows that a compaction wrote again, under the ids they had; the ops say which
3       gone      keys whose rows are deleted (keyed tables)
======  ========  ============================================================================
"""

from __future__ import annotations

from typing import Final

ROWS: Final = 0
OVERLAY: Final = 1
COPY: Final = 2
GONE: Final = 3

KINDS: Final = ("rows", "overlay", "copy", "gone")
