"""How tests start JVMs."""

from __future__ import annotations

from typing import Final

QUICK: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A JVM that lives for minutes compiles for nobody: half the processor time of a short Spark program."""
SUBMITTED: Final = {"SPARK_SUBMIT_OPTS": QUICK}
"""The same as an environment, for programs that start Spark by themselves."""
