"""A Spark application of its own that loses the files of a shuffle while it writes, for each way to commit.

Not in the session that the other tests share: a driver that has lost such files takes the only executor of
local mode for dead, does not let it register again, and ends after sixty heartbeats, which is ten minutes."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.spark.conftest import new_session
from tests.spark.rows import FAILING


def write(spark: Any, folder: str, commit: str) -> list[int]:
    """Write a table by four tasks, one of which loses the files; how often each stage ran again."""
    metadata = json.dumps({"folder": f"{folder}/local", "mark": f"{folder}/{commit}.mark"})
    spark.sparkContext.setJobGroup(commit, "a stage that runs again")
    writer = spark.range(0, 400, 1, 2).repartition(4, "id").write.format("crdtcat_lost")
    writer.options(commit=commit, metadata=metadata).mode("append").save(f"{folder}/lake/{commit}")
    tracker = spark.sparkContext.statusTracker()
    jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(commit))
    stages = {stage for job in jobs for stage in job.stageIds}
    return [tracker.getStageInfo(stage).currentAttemptId for stage in stages]


def main(folder: str) -> None:
    """Write both tables, and say how often their stages ran again."""
    spark = new_session("local[2,4]", {"spark.local.dir": f"{folder}/local"})
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(FAILING["lost"])
    print(json.dumps({commit: write(spark, folder, commit) for commit in ("job", "task")}))  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
