"""The shop of ``pointstamp demo``: its tables, the changes that arrive, and its three views.

``Shop`` keeps the rows of each table as they are, and writes them twice: each change as a file that the query
follows, and all rows as they are then as a folder that Spark recomputes the views from. So what Spark is
asked shares nothing with what the query read. Amounts are whole cents: sums have one answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEED: Final = 20_130_611
TABLES: Final = {
    "orders": "order_id long, customer long, city string, month int, cents long",
    "returns": "order_id long, cents long",
    "referrals": "customer long, referred_by long",
}
CITIES: Final = ("Amsterdam", "Bergen", "Cork", "Dresden", "Erfurt", "Faro", "Ghent", "Hull")
CHANGE: Final = "_change_type"
_EDITED: Final = 0.01
"""The part of the orders that a step changes."""
_REFERRERS: Final = 400
"""Customers who came by themselves; the first of them is the one whose circle is followed."""

LOYAL: Final = """
    select customer, count(*) as orders, sum(cents) as cents, max(month) as last_month
    from orders group by customer having count(*) >= 3
"""
CIRCLE: Final = """
    with recursive circle(customer, degree) as (
        select customer, 1 from referrals where referred_by = 0
        union all
        select r.customer, c.degree + 1 from circle c join referrals r on r.referred_by = c.customer
    )
    select degree, count(*) as customers from circle group by degree
"""


def revenue(spark: "SparkSession") -> "DataFrame":
    """Return the revenue of each city and month, less what was returned."""
    from pyspark.sql import functions as F  # noqa: N812 - as PySpark's users call it

    returned = spark.table("returns").groupBy("order_id").agg(F.sum("cents").alias("returned"))
    net = F.col("cents") - F.coalesce(F.col("returned"), F.lit(0))
    return (
        spark.table("orders")
        .join(returned, "order_id", "left")
        .groupBy("city", "month")
        .agg(F.sum(net).alias("cents"), F.count("returned").alias("returns"))
    )


def views_of(spark: "SparkSession") -> "dict[str, DataFrame | str]":
    """Return the views: a DataFrame, a text, and a recursive text."""
    return {"revenue": revenue(spark), "loyal": LOYAL, "circle": CIRCLE}


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """The number of rows that a step inserts, updates and deletes, over all tables."""

    inserted: int
    updated: int
    deleted: int

    def __str__(self) -> str:
        """Return the numbers as text, without those that are 0."""
        parts = {"+": self.inserted, "~": self.updated, "-": self.deleted}
        return " ".join(f"{sign}{count:,}" for sign, count in parts.items() if count)


class Shop:
    """The rows of the tables as they are; changed by ``step`` only."""

    def __init__(self, folder: Path, orders: int) -> None:
        self.folder = folder
        self._random = np.random.default_rng(SEED)
        self._steps = 0
        self._next_order = 0
        customers = max(50, orders // 8)
        self._customers = customers
        self._rows: dict[str, pa.Table] = {
            "orders": self._orders(orders),
            "returns": self._returns(np.arange(orders), orders // 20),
            "referrals": self._referrals(range(_REFERRERS, _REFERRERS + max(20, orders // 100))),
        }
        for name in TABLES:
            (folder / "changes" / name).mkdir(parents=True, exist_ok=True)

    def begin(self) -> ChangedRows:
        """Let all rows arrive."""
        rows = dict(self._rows)
        return self._written({name: [("insert", table)] for name, table in rows.items()})

    def step(self) -> ChangedRows:
        """Let rows arrive, change and be deleted; the files are complete when this returns."""
        orders, returns, referrals = (self._rows[name] for name in TABLES)
        count = max(3, int(orders.num_rows * _EDITED))
        chosen = self._random.permutation(orders.num_rows)
        edited, gone = chosen[: count // 3], chosen[count // 3 : 2 * count // 3]
        old = orders.take(edited)
        new = old.set_column(4, "cents", pa.array(self._cents(len(edited))))
        added = self._orders(count - 2 * (count // 3))
        kept = pa.concat_tables([orders.take(np.setdiff1d(np.arange(len(chosen)), np.r_[edited, gone])), new])
        self._rows["orders"] = pa.concat_tables([kept, added])
        back = self._returns(added["order_id"].to_numpy(), max(1, count // 10))
        self._rows["returns"] = pa.concat_tables([returns, back])
        # Of the referrals one in fifty is deleted: all that came by it leave the circle.
        left = self._random.random(referrals.num_rows) < 0.02
        least = int(max(referrals["customer"].to_pylist(), default=_REFERRERS)) + 1
        more = self._referrals(range(least, least + max(1, referrals.num_rows // 100)))
        lost = referrals.filter(pa.array(left))
        self._rows["referrals"] = pa.concat_tables([referrals.filter(pa.array(~left)), more])
        return self._written(
            {
                "orders": [
                    ("update_preimage", old),
                    ("update_postimage", new),
                    ("delete", orders.take(gone)),
                    ("insert", added),
                ],
                "returns": [("insert", back)],
                "referrals": [("delete", lost), ("insert", more)],
            }
        )

    def register(self, spark: "SparkSession") -> None:
        """Let the names of the tables mean their rows as they are now, in Spark."""
        for name, schema in TABLES.items():
            place = self.folder / "now" / f"{self._steps}" / name
            spark.read.schema(schema).parquet(str(place)).createOrReplaceTempView(name)

    def inputs(self) -> dict[str, Any]:
        """Return the sources of changes."""
        import pointstamp as ps

        return {
            name: ps.io.files(self.folder / "changes" / name, "parquet", in_order=True, settle_seconds=0)
            for name in TABLES
        }

    def _written(self, changes: Mapping[str, list[tuple[str, pa.Table]]]) -> ChangedRows:
        self._steps += 1
        for name, table in self._rows.items():
            place = self.folder / "now" / f"{self._steps}" / name
            place.mkdir(parents=True)
            pq.write_table(table, place / "rows.parquet")
        counts = dict.fromkeys(("insert", "update_postimage", "delete"), 0)
        for name, parts in changes.items():
            marked = []
            for change, rows in parts:
                marked.append(rows.append_column(CHANGE, pa.array([change] * rows.num_rows, pa.string())))
                counts[change] = counts.get(change, 0) + rows.num_rows
            folder = self.folder / "changes" / name
            pq.write_table(pa.concat_tables(marked), folder / f".step-{self._steps:05d}.parquet")
            (folder / f".step-{self._steps:05d}.parquet").rename(folder / f"step-{self._steps:05d}.parquet")
        return ChangedRows(counts["insert"], counts["update_postimage"], counts["delete"])

    def _orders(self, count: int) -> pa.Table:
        first, self._next_order = self._next_order, self._next_order + count
        random = self._random
        return pa.table(
            {
                "order_id": pa.array(np.arange(first, first + count)),
                "customer": pa.array(random.integers(0, self._customers, count)),
                "city": pa.array(np.array(CITIES)[random.integers(0, len(CITIES), count)]),
                "month": pa.array(random.integers(1, 13, count).astype(np.int32)),
                "cents": pa.array(self._cents(count)),
            }
        )

    def _returns(self, order_ids: "np.ndarray[Any, Any]", count: int) -> pa.Table:
        chosen = self._random.choice(order_ids, min(count, len(order_ids)), replace=False)
        return pa.table({"order_id": pa.array(chosen), "cents": pa.array(self._cents(len(chosen)))})

    def _referrals(self, customers: range) -> pa.Table:
        # Each by somebody who was there before, so there is no cycle and nobody comes twice.
        by = [int(self._random.integers(0, max(1, each // 2))) if each % 3 else 0 for each in customers]
        return pa.table({"customer": pa.array(list(customers)), "referred_by": pa.array(by, pa.int64())})

    def _cents(self, count: int) -> "np.ndarray[Any, Any]":
        return self._random.integers(100, 50_000, count)
