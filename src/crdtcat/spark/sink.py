"""The streaming sink: each batch counts once, whatever fails and however often it is replayed.

Spark repeats a batch after a failure, with the query id and the batch id it had before. They make the
idempotency key: `job` commits one version per batch under (query, batch), `task` one per task under (query,
batch, partition). So a batch that was committed and not marked as done is void when it comes again, and
nothing has to be undone: aborting deletes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from crdtcat.spark import keys
from crdtcat.spark.writing import Report, WritePlan

QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"


@dataclass
class BatchMessage(WriterCommitMessage):  # type: ignore[misc]
    """A task's report, and the plan it worked by: the driver makes another for every batch."""

    report: Report
    plan: WritePlan


class StreamSink(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Carries out a write plan once per batch."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task's share of a batch."""
        task = TaskContext.get()
        query, batch = task.getLocalProperty(QUERY_PROPERTY), task.getLocalProperty(BATCH_PROPERTY)
        plan = self._plan.named(keys.batch(query, int(batch)))
        return BatchMessage(plan.run(iterator, task.partitionId()), plan)

    def commit(self, messages: list[BatchMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 (Spark's)
        """Every task of a batch is done."""
        found = [message for message in messages if message is not None]
        if found:
            found[0].plan.finish([message.report for message in found])

    def abort(self, messages: list[BatchMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Deletes nothing: the batch comes again under the same key."""
