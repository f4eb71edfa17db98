"""Partitions and filters: read little, replace little.

Run with `python -m examples.partitions_and_filters`. It works in a temporary folder.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from crdtcat import Catalog
from crdtcat.errors import InvalidArgument

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("country", pa.string()), ("amount", pa.float64())])
START = datetime(2024, 3, 1, tzinfo=UTC)


def sales(days: range) -> pa.Table:
    """A sale an hour."""
    hours = [START + timedelta(days=day, hours=hour) for day in days for hour in range(24)]
    countries = [("de", "fr", "it")[n % 3] for n in range(len(hours))]
    return pa.table([hours, countries, [float(n) for n in range(len(hours))]], schema=SCHEMA)


def main() -> None:
    """Write two weeks, read a day, replace a day."""
    with tempfile.TemporaryDirectory() as folder, Catalog(folder) as cat:
        table = cat.create_table("sales", SCHEMA, partition_by=["day(at)"])
        table.append(sales(range(14)))

        # Filters as SQL text, as tuples, as a pyarrow expression: the same rows.
        day = START + timedelta(days=3)
        text = "at >= '2024-03-04' and at < '2024-03-05' and country = 'de'"
        tuples = [("at", ">=", day), ("at", "<", day + timedelta(days=1)), ("country", "=", "de")]
        at = pc.field("at")
        expression = (at >= day) & (at < day + timedelta(days=1)) & (pc.field("country") == "de")
        print([table.scan(filter=form).count() for form in (text, tuples, expression)])

        # What a scan will fetch, before it does.
        print(table.scan(["amount"], text).explain())

        # Count without reading, where statistics decide.
        print(table.scan(filter="at < '2024-03-08'").count(), "sales in the first week")

        # Replace one day; rows that others append meanwhile survive.
        table.overwrite(sales(range(3, 4)).slice(0, 2), where="at >= '2024-03-04' and at < '2024-03-05'")
        print(table.scan(filter="at >= '2024-03-04' and at < '2024-03-05'").count(), "sales that day now")
        try:
            table.overwrite(SCHEMA.empty_table(), where="at >= '2024-03-04 12:00:00'")
        except InvalidArgument as error:
            print("half a day is no partition:", error)


if __name__ == "__main__":
    main()
