"""Aggregates as plain values, before they are bound to rows.

An aggregate looks at a column or at an expression, and with ``where`` only at the rows for which a condition
holds (SQL's ``filter``). What users write, ``ps.sum("amount")`` and the like, is in ``constructors``.

A custom aggregate is a function of the rows of a group, ``ps.aggregate(function, type)``, or, where groups
are large and only grow, an object with the methods of ``Accumulator``. It works on complete arrays:

>>> class GeometricMean:
...     def __init__(self, column):
...         self.column = column
...
...     def result_type(self, column_type):
...         return pa.float64()
...
...     def empty(self):
...         return {"logarithms": 0.0, "rows": 0}
...
...     def update(self, state, slots, values):
...         np.add.at(state["logarithms"], slots, np.log(values))
...         np.add.at(state["rows"], slots, 1)
...
...     def merge(self, state, slots, other):
...         for name in state:
...             state[name][slots] += other[name]
...
...     def result(self, state):
...         return np.exp(state["logarithms"] / state["rows"])

It is used like the others, ``stream.group_by("shop").agg(typical=GeometricMean("price"))``. To see what it
does:

>>> mean, state = GeometricMean("price"), {"logarithms": np.zeros(2), "rows": np.zeros(2, int)}
>>> mean.update(state, np.array([0, 1, 0]), pa.array([2.0, 5.0, 8.0]))
>>> mean.result(state).round(3).tolist()
[4.0, 5.0]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np  # noqa: F401 - the example above uses it
import pyarrow as pa

from pointstamp.arrow.hash_table import Slots
from pointstamp.errors import FlowError
from pointstamp.expressions.tree import Expression
from pointstamp.reduce.accumulators import State
from pointstamp.reduce.over import Windowed

AggregateKind: TypeAlias = Literal[
    "count",
    "sum",
    "min",
    "max",
    "mean",
    "avg",
    "count_distinct",
    "max_by",
    "min_by",
    "first",
    "last",
    "median",
    "quantile",
    "var_samp",
    "var_pop",
    "stddev_samp",
    "stddev_pop",
    "bool_and",
    "bool_or",
    "collect_list",
    "collect_set",
]


class Accumulates(Protocol):
    """The methods of an ``Accumulator``."""

    def result_type(self, column_type: pa.DataType) -> pa.DataType:
        """Return the type of the result for a column type; raise TypeError if it is not supported."""
        ...

    def empty(self) -> Mapping[str, Any]:
        """Return the columns of the state, with the initial value of a key.

        A Python or numpy number makes a numpy column of its type; anything else one of Python objects, which
        all start as that same object: replace it, and do not change it.
        """
        ...

    def update(self, state: State, slots: Slots, values: pa.Array) -> None:
        """Add values: ``values[i]`` belongs to the key ``slots[i]``; keys may repeat.

        ``np.add.at(state["sum"], slots, values)`` adds all; ``state["sum"][slots] += values`` only the last.
        """
        ...

    def merge(self, state: State, slots: Slots, other: State) -> None:
        """Merge other states: ``other[...][i]`` belongs to the key ``slots[i]``; keys are unique."""
        ...

    def result(self, state: State) -> Any:  # noqa: ANN401 - an Arrow or numpy array, or a list
        """Return the results, one for each row of this state."""
        ...


class Accumulator(Accumulates, Protocol):
    """A custom aggregate over one column; to read several, make one struct of them first.

    The state of all keys is a set of numpy columns, kept and grown by the operator. A slot is the number of a
    key: its place in these columns. Only values that are not null arrive, and the result of a key that had
    none is null. An accumulator itself keeps nothing: one object serves many times. It may declare the types
    of its state, too (``DeclaresTypes``).
    """

    @property
    def column(self) -> str:
        """The column it looks at."""
        ...


class DeclaresTypes(Protocol):
    """An accumulator that says what the Python objects in its state are; default: anything."""

    def state_types(self) -> Mapping[str, Any]:
        """Return the types by the names of the state's columns, as annotations or of Arrow."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Windowed):
    """A built-in aggregate of a column or an expression; ``count`` without one counts rows."""

    kind: AggregateKind
    column: str | Expression | None = None
    by: str | Expression | tuple[str, ...] | None = None
    """The column that max_by, min_by, first and last compare."""
    where: Expression | None = None
    """The condition on rows; null counts as false."""
    fraction: float | None = None
    """The fraction of a quantile, from 0 to 1."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(AggregateKind):
            known = ", ".join(get_args(AggregateKind))
            raise FlowError(f"unknown aggregate '{self.kind}'. Choose one of {known}, or a custom one.")
        if self.column is None and self.kind != "count":
            raise FlowError(
                f"the aggregate '{self.kind}' needs a column, got none. Write {self.kind}('amount')."
            )
        if self.column is not None and not isinstance(self.column, str | Expression):
            raise FlowError(
                f"the aggregate '{self.kind}' needs the name of a column or an expression, got "
                f"{type(self.column).__name__} {self.column}. Write {self.kind}('amount') or "
                f"{self.kind}(ps.col('price') * 2)."
            )
        check_where(self.kind, self.where)

    def __str__(self) -> str:
        words = [str(each) for each in (self.column, self.by, self.fraction) if each is not None]
        where = "" if self.where is None else f" where {self.where}"
        return f"{self.kind}({', '.join(words)}){where}"


@dataclass(frozen=True, slots=True, eq=False)
class FunctionAggregate(Windowed):
    """A custom aggregate: a function of all rows of a group."""

    function: Callable[[pa.RecordBatch], Any]
    type: pa.DataType
    columns: tuple[str, ...] = ()
    """The columns that the function gets; all columns if none is named."""
    where: Expression | None = None

    def __str__(self) -> str:
        where = "" if self.where is None else f" where {self.where}"
        return f"{getattr(self.function, '__name__', 'function')}({', '.join(self.columns)}){where}"


Aggregation: TypeAlias = Aggregate | FunctionAggregate | Accumulator
"""An argument of ``agg``: a built-in or custom aggregate."""


def check_where(who: str, where: object) -> None:
    """Reject a condition that is not an expression."""
    if where is not None and not isinstance(where, Expression):
        raise FlowError(
            f"the aggregate '{who}': where= must be an expression such as ps.col('price') > 1, got "
            f"{type(where).__name__} {where!r}. Write one."
        )
