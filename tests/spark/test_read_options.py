"""Options of a read, in the source as Spark's processes use it: what tasks check, and how much each reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crdtcat import Catalog
from crdtcat.errors import Corrupt
from crdtcat.spark import CrdtcatSource


def test_tasks_check_every_byte_and_read_as_much_as_they_are_told(tmp_path: Path) -> None:
    lake = Catalog(tmp_path, inline_bytes=0, upkeep=False)
    numbers = np.random.default_rng(7).random(3000)
    for part in np.split(numbers, 3):
        lake.commit("t", {"x": part})

    def read(**options: str) -> list[list[float]]:
        """The values, task by task."""
        source = CrdtcatSource({"path": f"{tmp_path}/t", **options})
        reader = source.reader(source.schema())
        return [
            [value for batch in reader.read(part) for value in batch.column(0).to_pylist()]
            for part in reader.partitions()
        ]

    assert read() == read(verify="false") == [numbers.tolist()]
    assert read(partition_bytes="16000") == [numbers[:1000].tolist(), numbers[1000:].tolist()]
    assert read(partition_bytes="8000") == [part.tolist() for part in np.split(numbers, 3)]
    file = min(tmp_path.glob("data/*/*.parquet"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(Corrupt, match=f"{file.name}: .*its bytes do not match their hash"):
        read()
    (damaged,) = read(verify="false")
    assert len(damaged) == 3000
    assert sum(one != other for one, other in zip(damaged, numbers.tolist(), strict=True)) == 1
