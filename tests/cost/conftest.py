"""`place`: the same promises about cost are held on every kind of store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bounds import FULL
from tests.cost.places import Place, fresh


@pytest.fixture(
    params=["local", "memory", pytest.param("s3", marks=pytest.mark.s3), *(["moto"] if FULL else [])]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        return Place(str(tmp_path / "catalog"))
    if request.param == "memory":
        return Place(f"memory://{fresh('cost')}")
    server = request.getfixturevalue(f"{request.param}_server")
    return Place(request.getfixturevalue(f"{request.param}_url"), server.storage_options, page_objects=1000)
