"""Flows whose rows say their epochs in a column: one table of cases for every way to run, and its oracle.

Of the two inputs, ``sales`` declares the column, which stays in its rows, and ``visits`` does not, whose
column is taken away. The oracle knows the rows alone and shares no code with what it judges.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

import pointstamp as ps
from support.streams import Rows

Dated: TypeAlias = Sequence[tuple[int, int]]
"""Rows of a day and an amount."""

Outputs: TypeAlias = dict[str, dict[int, Rows]]
"""The rows of each output and epoch that has some, sorted."""

TYPES: Final = {"byte": pa.int8(), "short": pa.int16(), "int": pa.int32(), "long": pa.int64()}


@dataclass(frozen=True, slots=True)
class Case:
    """Rows in the items in which they come, and the type of which their column is declared."""

    name: str
    declared: str
    items: Sequence[Dated]
    is_keyed: bool = False
    """Whether everybody who reads the sales exchanges them by the column first."""

    @property
    def rows(self) -> list[tuple[int, int]]:
        """The rows of all items together."""
        return [row for item in self.items for row in item]

    def sales(self, rows: Dated) -> pa.Table:
        """Rows for the input that declares the column."""
        return pa.table(
            {
                "day": pa.array([day for day, _ in rows], TYPES[self.declared]),
                "amount": pa.array([amount for _, amount in rows], pa.int64()),
            }
        )

    def visits(self, rows: Dated) -> pa.Table:
        """The same rows for the input that does not; a column of any integer type says their epochs."""
        return self.sales(rows).select(["amount", "day"])

    def flow(self) -> ps.Dataflow:
        """What is copied, counted over all epochs, and summed up by the column itself."""
        flow = ps.Dataflow("dated")
        sales = flow.stream_input("sales", f"day {self.declared}, amount long")
        flow.output("days", sales.group_by("day").agg(total=ps.sum("amount")))
        flow.output("visits", flow.stream_input("visits", "amount long"))
        if not self.is_keyed:
            flow.output("copied", sales)
            flow.output("counts", sales.group_by("amount", running=True).count())
        return flow

    def expected(self) -> Outputs:
        """What every way to run must publish."""
        seen: Counter[int] = Counter()
        found: Outputs = {name: {} for name in self.flow().plan.output_schemas()}
        for day in sorted({day for day, _ in self.rows}):
            amounts = [amount for at, amount in self.rows if at == day]
            seen.update(amounts)
            found["days"][day] = [(day, sum(amounts))]
            found["visits"][day] = sorted((amount,) for amount in amounts)
            if not self.is_keyed:
                found["copied"][day] = sorted((day, amount) for amount in amounts)
                found["counts"][day] = sorted((amount, seen[amount]) for amount in set(amounts))
        return found


CASES: Final = (
    Case("any order in one item", "long", [[(2, 10), (0, 20), (2, 10), (1, 20), (0, 30)]]),
    Case("an epoch in two items", "int", [[(3, 1), (0, 2)], [(3, 1), (4, 2)], [(4, 1)]]),
    Case("exchanged by the column", "short", [[(5, 1), (1, 2), (5, 3)], [(9, 1), (8, 4)]], is_keyed=True),
    Case("not from 0 on", "byte", [[(127, 1), (127, 1)]]),
    Case("a wide gap", "long", [[(1, 5), (192, 5)], [(192, 6)]]),
    Case("days written as numbers", "int", [[(20240131, 7), (20231231, 7)], [(20240201, 8)]]),
    Case("nothing", "long", [[], []]),
)


def by_epoch(outputs: Mapping[str, Iterable[Mapping[str, Any]]]) -> Outputs:
    """Rows with their epochs as the table of expectations has them."""
    found: Outputs = {name: {} for name in outputs}
    for name, rows in outputs.items():
        for row in rows:
            epoch, *values = row.values()
            found[name].setdefault(epoch, []).append(tuple(values))
    return {
        name: {epoch: sorted(epochs[epoch]) for epoch in sorted(epochs)} for name, epochs in found.items()
    }
