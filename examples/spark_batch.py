"""Spark in batches: a DataFrame becomes a table, a table a DataFrame, by path, by function and by SQL.

Run with `python -m examples.spark_batch`; it needs Java 17. It works in a temporary folder.
"""

from __future__ import annotations

import tempfile

from crdtcat import Catalog
from crdtcat.spark import load, save
from examples.spark_session import quiet_session


def main() -> None:
    """Write, read, overwrite, look back."""
    with tempfile.TemporaryDirectory() as folder, Catalog(folder) as lake, quiet_session("batch") as spark:
        sales = spark.range(0, 100_000, 1, 4).selectExpr("id", "id % 10 as shop", "id * 0.25D as amount")

        # The job way: tasks store rows, the driver commits one version. All or nothing.
        (version,) = save(sales, lake, "sales")
        print(f"one version: {version.rows:,} rows")

        # Through Spark's own doors, and read back by Spark's own Parquet reader.
        sales.write.format("crdtcat").options(catalog=folder, table="copy").mode("append").save()
        print(f"the same rows: {load(spark, lake, 'copy').exceptAll(sales).count() == 0}")
        load(spark, lake, "sales").createOrReplaceTempView("sales")
        print(spark.sql("select shop, sum(amount) total from sales where shop < 2 group by shop").collect())

        # A frame stays what it was when it was loaded, whatever happens to the table.
        before = load(spark, lake, "sales")
        save(sales.where("shop = 3"), lake, "sales", mode="overwrite")
        print(f"loaded before: {before.count():,} rows, now: {load(spark, lake, 'sales').count():,}")
        first = lake.table("sales").history()[0]
        print(f"as it was first: {load(spark, lake, 'sales', at=str(first.id)).count():,} rows")

        # What Spark wrote, anybody reads: no Spark needed.
        print(lake.read("sales", columns=["id", "amount"], filter="id < 30").to_pylist())


if __name__ == "__main__":
    main()
