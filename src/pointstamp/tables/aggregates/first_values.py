"""Aggregates that take a value from the first row of a group in an order, and so need not look at the others.

The greatest value is that of the first row when the greatest comes first; ``max_by`` orders by another column
and then by the value, ``last`` by the reverse of its order. So all of them are one thing.
"""

from dataclasses import dataclass, replace

import pyarrow as pa

from pointstamp.reduce.binding import plain_type
from pointstamp.tables.aggregates.asked_aggregates import TableAggregate
from pointstamp.tables.kept.ordering import Ordered


@dataclass(frozen=True, slots=True)
class FirstValue:
    """The value of a column in the first row of each group, among the rows that take part."""

    column: str
    by: tuple[Ordered, ...]
    """The order; it decides between all values of the column."""
    not_null: str | None = None
    """A column that is not null in rows that take part."""
    where: str | None = None
    """A column that is true in rows that take part."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What is looked at of a row that takes part, each once."""
        return tuple(dict.fromkeys([*(each.column for each in self.by), self.column]))

    def __str__(self) -> str:
        """What it is, as text: the name under which its rows are saved and shown."""
        rows = "" if self.where is None else f" where {self.where}"
        if self.by == (Ordered(self.column, self.by[0].descends),):
            return f"{'greatest' if self.by[0].descends else 'least'} of {self.column}{rows}"
        order = [
            f"{each.column}{' desc' * each.descends}{' nulls moved' * each.moves_nulls}" for each in self.by
        ]
        known = "" if self.not_null is None else f" that has {self.not_null}"
        return f"{self.column} of the first{known}{rows} by {', '.join(order)}"


def first_value_asked(asked: TableAggregate, schema: pa.Schema) -> FirstValue | None:
    """An aggregate as the value of a first row, if it is one."""
    column, by = asked.column, asked.by
    if column is None:
        return None
    own = Ordered(column, asked.kind in ("max", "max_by", "last"))
    made: FirstValue | None = None
    if asked.kind in ("min", "max"):
        made = FirstValue(column, (own,), column, asked.where)
    elif asked.kind in ("min_by", "max_by") and by is not None:
        made = FirstValue(column, (Ordered(by, own.descends), own), by, asked.where)
    elif asked.kind in ("first", "last"):
        order = asked.order if asked.kind == "first" else tuple(map(_reversed, asked.order))
        made = FirstValue(column, (*order, own), where=asked.where)
    if made is None:
        return None
    kinds = [schema.field(name).type for name in made.columns]
    return made if all(plain_type(kind) == kind for kind in kinds) else None


def _reversed(each: Ordered) -> Ordered:
    """The same order from its end, nulls too."""
    return replace(each, descends=not each.descends)
