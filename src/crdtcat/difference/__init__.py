"""What changed between two tables, row by row: the algorithm behind `write`. Pure: no tables, no I/O."""

from crdtcat.difference.find import difference
from crdtcat.difference.regions import NewChunk, OldChunk
from crdtcat.difference.script import EditScript

__all__ = ["EditScript", "NewChunk", "OldChunk", "difference"]
