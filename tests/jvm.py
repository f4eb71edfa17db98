"""How tests start JVMs."""

from __future__ import annotations

from typing import Final

QUICK: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A JVM that lives for minutes compiles for nobody: half the processor time of a short Spark program."""
MEMORY: Final = "2g"
"""Of one that all Spark tests of a process share: with half of it one ended in the middle of them."""
SUBMITTED: Final = {"SPARK_SUBMIT_OPTS": QUICK, "SPARK_DRIVER_MEMORY": MEMORY}
"""The same as an environment, for programs that start Spark by themselves."""
