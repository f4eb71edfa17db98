"""The streaming source as Spark runs it, without Spark: offsets, partitions, reads, restarts."""

from __future__ import annotations

from typing import Any

from crdtcat.spark import CrdtcatSource


class Query:
    """A streaming query, and its checkpoint. Each `run` is a restart: it reads all there is, batch by batch.

    What Spark would pickle from process to process is used as it is; rows are checked against the schema that
    Spark would have been told."""

    def __init__(self, **options: str) -> None:
        self.options = options
        self.offset: dict[str, Any] | None = None
        self.batches: list[list[dict[str, Any]]] = []

    def start(self) -> None:
        """The query's columns are found, and its starting point."""
        source = CrdtcatSource(self.options)
        self.schema = source.schema()
        self.stream = source.streamReader(self.schema)
        if self.offset is None:
            self.offset = self.stream.initialOffset()

    def go_on(self) -> None:
        """All batches there are, by now."""
        limit = self.stream.getDefaultReadLimit()
        while True:
            assert self.offset is not None
            end = self.stream.latestOffset(self.offset, limit)
            if end == self.offset:
                return
            self.batches.append([row for part in self.stream.partitions(self.offset, end) for row in
                                 self._rows(part)])  # fmt: skip
            self.offset = end

    def _rows(self, part: Any) -> list[dict[str, Any]]:
        found = []
        for batch in self.stream.read(part):
            assert batch.schema.names == self.schema.fieldNames()
            found += batch.to_pylist()
        return found

    def run(self) -> list[dict[str, Any]]:
        """A restart; the rows of its batches."""
        before = len(self.batches)
        self.start()
        self.go_on()
        return [row for batch in self.batches[before:] for row in batch]
