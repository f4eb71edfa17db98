"""What an engine must do to take part. Runs in a worker process; may import nothing of crdtcat's or the
harness's.

A peer's maintainer who thinks an adapter treats the peer badly needs to read one file of about a hundred
lines and this one. Adapters use documented calls only, open handles as a long-lived writer would, and say in
a comment why a setting is not the default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

Range = tuple[str, int, int]
"""A column and the half-open range of its values that is wanted."""


class Unsupported(Exception):
    """The engine cannot do that; the text says why, and stands in the table."""


@dataclass(frozen=True)
class Place:
    """Where one table lives: a local folder, or a prefix in a bucket of an S3 server on loopback.

    Attributes:
        aside: a local folder for what an engine keeps in a database beside the data (Iceberg, DuckLake).
        database: where a PostgreSQL listens, for an engine that keeps its catalog in one.
    """

    aside: str
    path: str = ""
    bucket: str = ""
    prefix: str = ""
    endpoint: str = ""
    key: str = ""
    secret: str = ""
    database: tuple[str, int] | None = None

    @property
    def is_s3(self) -> bool:
        return bool(self.bucket)

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}" if self.is_s3 else self.path

    @property
    def storage_options(self) -> dict[str, Any]:
        """As fsspec takes them."""
        if not self.is_s3:
            return {}
        return {
            "endpoint_url": self.endpoint,
            "key": self.key,
            "secret": self.secret,
            "client_kwargs": {"region_name": "us-east-1"},
        }

    @property
    def object_store_options(self) -> dict[str, str]:
        """As the Rust `object_store` takes them."""
        if not self.is_s3:
            return {}
        return {
            "aws_endpoint": self.endpoint,
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
        }

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Engine(ABC):
    """One table of one engine, as one process sees it."""

    fixed: ClassVar[str] = ""
    """What a reader of the tables must know about this engine."""

    def __init__(self, place: Place, variant: str = "default") -> None:
        self.place = place
        self.variant = variant
        if place.path:
            Path(place.path).mkdir(parents=True, exist_ok=True)
        Path(place.aside).mkdir(parents=True, exist_ok=True)

    @property
    def generous(self) -> bool:
        """Whether to try again and again before a commit is given up."""
        return self.variant == "generous"

    @abstractmethod
    def create(self, sample: pa.Table, rows_max: int) -> None:
        """Make the empty table. `rows_max` is for engines whose many writers must know how long it may get; 0
        where there is one writer."""

    def create_to_merge(self, sample: pa.Table, rows_max: int) -> None:
        """The same, for a table that `merge` goes to: another one only where the engine has tables with a
        key, and its documentation merges into those."""
        self.create(sample, rows_max)

    @abstractmethod
    def open(self) -> None:
        """A fresh handle, for writing or reading."""

    def open_to_read(self) -> None:
        """A fresh handle for one `read` from nothing; another one only where the documentation reads by
        another call than writers use."""
        self.open()

    def close(self) -> None:  # noqa: B027 (most have nothing to keep)
        """The handle is not used any more; what takes long to load may be kept for the next."""

    @abstractmethod
    def append(self, rows: pa.Table) -> int | None:
        """Add rows; how often it had to try again, or `None` where the engine does not say. Raises if it
        failed."""

    @abstractmethod
    def read(self, columns: list[str] | None = None, where: Range | None = None) -> pa.Table:
        """All rows, or those in a range, from a handle fresh from `open` or `open_to_read`."""

    def count(self) -> int:
        """How many rows there are, by metadata alone where the engine knows; else by reading the ids."""
        return int(self.read(["id"]).num_rows)

    def upkeep(self) -> None:
        """What the documentation says to run now and then: compaction, checkpoints, expiry."""
        raise Unsupported("no upkeep in this library")

    def prepare(self, change: dict[str, Any]) -> Callable[[], None]:
        """Get ready for a change of rows as of the handle's snapshot; the callable commits it.

        `change` has `kind` (`update`, `delete`, `compact`), `low` and `high` (ids), and `column` and its new
        `value`.
        """
        raise Unsupported("no change of rows in this library")

    def change(self, change: dict[str, Any]) -> None:
        """The same at once, by a handle fresh from `open`."""
        self.prepare(change)()

    def replace(self, rows: pa.Table) -> None:
        """Make the table equal to `rows`, as a new version."""
        raise Unsupported("no overwrite in this library")

    def merge(self, changed: pa.Table, deleted: pa.Table) -> None:
        """Upsert `changed` by `id` and delete the ids of `deleted`, as a new version or two."""
        raise Unsupported("no merge in this library")

    def counted(self) -> Callable[[int, int, float], dict[str, Any]]:
        """An update of rows from one number to another, by one handle, that tells what it cost."""
        raise Unsupported("its requests are not known")
