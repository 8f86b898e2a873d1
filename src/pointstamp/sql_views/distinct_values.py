"""Aggregates of distinct values: ``sum(distinct x)``, ``count(distinct a, b)``.

The distinct values of each group are a table of their own. Its rows are put beside the rows of the group,
each with a mark that says of which aggregate it is; so one reduction by the same keys has them all, groups
whose key is null among them, and without a join.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pointstamp.dataflow.table import Table
from pointstamp.expressions.compiling import compile_expression
from pointstamp.expressions.tree import Expression, col, lit
from pointstamp.reduce.aggregate import Aggregate, AggregateKind
from pointstamp.sql_views.conditions import all_of

_MARK: Final = "of distinct values"


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """An aggregate of distinct values: which one, of what, and of which rows."""

    kind: AggregateKind
    values: tuple[Expression, ...]
    where: Expression | None

    def __str__(self) -> str:
        return ", ".join(map(str, (self.kind, "distinct", *self.values, self.where)))


@dataclass(slots=True)
class RowsBeside:
    """A table and the distinct values that are put beside its rows."""

    table: Table
    keys: Sequence[str]
    prefix: str
    _asked: dict[str, tuple[int, DistinctValues]] = field(default_factory=dict)

    def aggregate(self, asked: DistinctValues) -> Aggregate:
        """The aggregate of the marked rows that is this one."""
        number, _ = self._asked.setdefault(str(asked), (len(self._asked) + 1, asked))
        mine = col(_MARK) == number
        if asked.kind == "count":
            return Aggregate("count", where=mine)
        return Aggregate(asked.kind, col(self._column(number, 0)), where=mine)

    def of_rows(self, aggregate: Aggregate) -> Aggregate:
        """Another aggregate, which does not see the rows that were put beside."""
        if not self._asked:
            return aggregate
        where = col(_MARK) == 0 if aggregate.where is None else (col(_MARK) == 0) & aggregate.where
        return Aggregate(
            aggregate.kind, aggregate.column, by=aggregate.by, where=where, fraction=aggregate.fraction
        )

    def made(self) -> Table:
        """The rows with a mark, and the distinct values of each group, marked with their number."""
        if not self._asked:
            return self.table
        own = [col(each.name).cast(each.type).alias(each.name) for each in self.table.schema]
        added = {
            self._column(number, n): compile_expression(value, self.table.schema, "a distinct value").type
            for number, asked in self._asked.values()
            for n, value in enumerate(asked.values)
        }
        nothing = [lit(None).cast(kind).alias(name) for name, kind in added.items()]
        whole = self.table.select(*own, *nothing, lit(0).cast("int").alias(_MARK)).named("rows")
        for number, asked in self._asked.values():
            values = {self._column(number, n): value for n, value in enumerate(asked.values)}
            distinct = self._distinct(asked, values)
            columns = [
                (col(each.name) if each.name in distinct.schema.names else lit(None).cast(each.type)).alias(
                    each.name
                )
                for each in whole.schema
                if each.name != _MARK
            ]
            whole = whole.union(distinct.select(*columns, lit(number).cast("int").alias(_MARK)))
        return whole

    def _distinct(self, asked: DistinctValues, values: dict[str, Expression]) -> Table:
        present = all_of([each.is_not_null() for each in asked.values])
        assert present is not None
        # A value is computed only for rows that take part, so that it can fail for no others.
        rows = self.table.filter(present if asked.where is None else asked.where & present)
        named = [each.alias(name) for name, each in values.items()]
        return rows.select(*dict.fromkeys(self.keys), *named).named("distinct values").distinct()

    def _column(self, number: int, position: int) -> str:
        return f"{self.prefix}.distinct{number}.{position}"
