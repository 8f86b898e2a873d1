"""Hints for lowering: opportunities for less state, as data.

- ``single_values``: a ``min`` or ``max`` (``max_by``, ``first`` and the like) of a table that never loses a
  row needs its present value and no other: no row can be deleted that was better.
- ``partial``: an aggregate may be computed in parts before rows are exchanged by key, and the parts combined.
  Counts and sums of integers may for every table, because a deletion subtracts; ``min`` and ``max`` for
  a table that never loses a row.
- ``short``: of a table that never loses a row, each worker needs to keep and send the first rows of a TopK
  only.

Law: what is kept determines the result after every further insertion. It is unsound for a table that loses
rows, in a loop whose rounds replace rows, and for sums of floats, which depend on the order in which they are
added.

The physical operators of tables keep all values and exchange rows before they aggregate them. To use this
they need an accumulator that takes no deletions, a combining step behind the exchange, and a TopK of one
worker.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyarrow import types

from pointstamp.plan.logical import Aggregate, LogicalOperator, TopK, loops_of, walk
from pointstamp.plan.properties import properties_of
from pointstamp.plan.rules.rewriting import Roots
from pointstamp.reduce.aggregate import Aggregate as Aggregated

_BEST: Final = ("min", "max", "min_by", "max_by", "first", "last", "bool_and", "bool_or")


@dataclass(frozen=True, slots=True)
class Advice:
    """Aggregates and first rows that need less state; operators by identity."""

    single_values: Mapping[Aggregate, tuple[str, ...]]
    """For each reduction the columns of which one value per key is enough."""
    partial: tuple[Aggregate, ...]
    """Reductions that may be computed in parts before the exchange."""
    short: tuple[TopK, ...]
    """First rows that a worker may choose among its own rows."""


def advise(roots: Roots) -> Advice:
    """Return what lowering may do with the operators of a plan."""
    found, loops = properties_of(roots), loops_of(roots)
    single: dict[Aggregate, tuple[str, ...]] = {}
    partial: list[Aggregate] = []
    short: list[TopK] = []
    for operator in walk(roots):
        if loops[operator]:
            continue
        if isinstance(operator, Aggregate):
            grows = found[operator.input].is_append_only
            best = tuple(name for name, each in operator.aggregates if _is_best(each))
            if grows and best:
                single[operator] = best
            if all(
                (grows and _is_best(each)) or _is_sum(operator, name, each)
                for name, each in operator.aggregates
            ):
                partial.append(operator)
        if isinstance(operator, TopK) and found[operator.input].is_append_only:
            short.append(operator)
    return Advice(single, tuple(partial), tuple(short))


def _is_best(asked: object) -> bool:
    return isinstance(asked, Aggregated) and asked.kind in _BEST


def _is_sum(operator: LogicalOperator, name: str, asked: object) -> bool:
    if not isinstance(asked, Aggregated) or asked.kind not in ("count", "sum"):
        return False
    return not types.is_floating(operator.schema.field(name).type)
