"""Custom times: two sources that count independently, of which one may run ahead.

A time is a pair (position in orders, position in payments), and (3, 0) and (0, 5) are incomparable. Each
source advances its own counter. What depends on orders alone is complete as soon as orders have passed it;
what depends on both is complete when both have.
"""

from dataclasses import dataclass

import pyarrow as pa

import pointstamp as ps


@dataclass(frozen=True)
class Positions:
    """Pairs of counters in the product order."""

    def less_equal(self, a: tuple[int, int], b: tuple[int, int]) -> bool:
        """The partial order: both counters."""
        return a[0] <= b[0] and a[1] <= b[1]

    def sort_key(self, time: tuple[int, int]) -> tuple[int, int]:
        """A linear extension of it, for sorting only."""
        return time

    def minimum(self) -> tuple[int, int]:
        """Where every source starts."""
        return (0, 0)


flow = ps.Dataflow("orders and payments", times=Positions())
orders = flow.stream_input("orders", "id long")
payments = flow.stream_input("payments", "id long")
flow.output("orders seen", orders.count("id"))
flow.output("seen", orders.union(payments).count("id"))

inputs = {
    "orders": [((0, 0), pa.table({"id": [1, 2]})), ((1, 0), pa.table({"id": [3]}))],
    "payments": [((0, 0), pa.table({"id": [2]})), ((0, 4), pa.table({"id": [1]}))],
}

if __name__ == "__main__":
    with flow.open(workers=2) as run:
        run.input("orders").advance_to((1000, 0))
        run.settle()
        print(
            "orders ran ahead: orders seen",
            run.is_done("orders seen", (999, 0)),
            "seen",
            run.is_done("seen", (0, 0)),
        )
        holder = run.why("seen")[0]
        print("held back by", holder.pointstamp.time, "of", holder.place)
        run.input("payments").advance_to((0, 5))
        run.settle()
        print("payments followed: seen", run.is_done("seen", (999, 4)))

# orders ran ahead: orders seen True seen False
# held back by ((0, 0),) of output 0 of 'payments'
# payments followed: seen True
