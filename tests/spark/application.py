"""A Spark application of its own whose driver dies at the instruction before its commit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from crdtcat import Catalog
from crdtcat.spark import save
from crdtcat.spark.writing import WritePlan
from tests.spark.conftest import new_session


def main(url: str) -> None:
    """Stage everything, and die."""
    spark = new_session("local[2]")

    def killed(*_: Any, **__: Any) -> Any:
        print(f"staged {len(list(Path(url).glob('data/*/*')))}", flush=True)  # noqa: T201 (the test reads it)
        os._exit(9)

    WritePlan.finish = killed  # type: ignore[method-assign]
    save(spark.range(5000, 5100, 1, 2), Catalog(url, inline_bytes=0), "t")


if __name__ == "__main__":
    main(sys.argv[1])
