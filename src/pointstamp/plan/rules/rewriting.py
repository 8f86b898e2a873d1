"""Rewriting of plans by rules: who reads an operator, equality of structure, tables without rows."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import pyarrow as pa

from pointstamp.expressions.tree import Expression, col
from pointstamp.incremental.window_functions import OrderFunction
from pointstamp.plan.logical import Iterate, LogicalOperator, Project, Recursive, Values, Variable, walk
from pointstamp.plan.rules.conditions import expression_key
from pointstamp.plan.signatures import ANNOTATIONS
from pointstamp.reduce.aggregate import Aggregate as Aggregated

Roots: TypeAlias = Sequence[LogicalOperator]
Rule: TypeAlias = Callable[[Roots], list[LogicalOperator]]
"""Makes of the roots of a plan those of an equal one; the same objects where it changes nothing."""


class Readers:
    """How many readers the operators of a plan have, while it is rewritten."""

    def __init__(self, roots: Roots) -> None:
        counts: Counter[int] = Counter(id(root) for root in roots)
        for operator in walk(roots):
            counts.update(id(each) for each in operator.inputs)
        self._counts = counts
        self._kept: list[LogicalOperator] = []

    def stands_for(self, made: LogicalOperator, operator: LogicalOperator) -> None:
        """Let an operator have the readers of another, in whose place it is."""
        if made is not operator:
            self._counts[id(made)] = max(self._counts[id(made)], self._counts[id(operator)])
            self._kept.append(made)  # a number of an object that is gone could be another's

    def is_shared(self, operator: LogicalOperator) -> bool:
        """Return whether several operators or outputs read this one."""
        return self._counts[id(operator)] > 1


def rewrite_once(
    roots: Roots,
    change: Callable[[LogicalOperator, Readers], LogicalOperator],
    kept: Collection[LogicalOperator] = (),
) -> list[LogicalOperator]:
    """Return the roots of a plan in which ``change`` was applied to every operator, inputs first.

    ``change`` may ask who reads the inputs of the operator that it is given; it is not given those of
    ``kept``.
    """
    readers = Readers(roots)
    made: dict[int, LogicalOperator] = {}
    for operator in walk(roots):
        given = operator.with_inputs([made[id(each)] for each in operator.inputs])
        readers.stands_for(given, operator)
        made[id(operator)] = changed = given if operator in kept else change(given, readers)
        readers.stands_for(changed, operator)
    return [made[id(root)] for root in roots]


def with_columns(operator: LogicalOperator, names: Iterable[str]) -> LogicalOperator:
    """Return an operator with these of its columns only, in this order."""
    wanted = list(names)
    if operator.schema.names == wanted:
        return operator
    return Project(operator, tuple((name, col(name)) for name in wanted))


def without_rows(schema: pa.Schema) -> Values:
    """Return a table that never has a row."""
    plain = pa.schema([pa.field(each.name, each.type) for each in schema])
    return Values(pa.RecordBatch.from_arrays([pa.array([], each.type) for each in plain], schema=plain))


def is_empty(operator: LogicalOperator) -> bool:
    """Return whether a table is known to never have a row."""
    return isinstance(operator, Values) and not operator.rows.num_rows


def depends_on(operator: LogicalOperator, variables: Iterable[LogicalOperator]) -> bool:
    """Return whether an operator reads one of these variables, directly or not."""
    wanted = set(map(id, variables))
    return any(id(each) in wanted for each in walk([operator]))


def own_key(operator: LogicalOperator) -> Any:  # noqa: ANN401 - nested tuples
    """Return what an operator is without its name and inputs; operators with equal keys mean the same.

    A user's function is equal to itself only, and so is a variable, and an operator that may have effects.
    """
    if isinstance(operator, Variable | Iterate) or type(operator).__module__ != LogicalOperator.__module__:
        return ("", id(operator))
    parts: list[Any] = [type(operator).__name__]
    for each in fields(operator):
        if each.name not in ANNOTATIONS:
            parts.append(_field_key(getattr(operator, each.name)))
    return tuple(parts)


def _field_key(value: Any) -> Any:  # noqa: ANN401
    match value:
        case LogicalOperator():
            return "input"
        case Expression():
            return expression_key(value)
        case tuple():
            return tuple(map(_field_key, value))
        case Aggregated():
            by = _field_key(value.by)
            return (value.kind, _field_key(value.column), by, _field_key(value.where), value.fraction)
        case OrderFunction():
            default = (type(value.default).__name__, repr(value.default))
            own = (value.kind, _field_key(value.column), value.offset, default, value.ignores_nulls)
            return (*own, value.frame)
        case pa.Schema():
            return value.to_string(show_field_metadata=False, show_schema_metadata=False)
        case pa.RecordBatch():
            return (value.schema.to_string(show_schema_metadata=False), repr(value.to_pydict()))
        case None | str() | int() | float() | bool():
            return (type(value).__name__, value)
        case _:
            try:
                hash(value)
            except TypeError:
                return ("object", id(value))
            return (type(value).__name__, value)


def is_recursive(operator: LogicalOperator) -> bool:
    """Return whether an operator belongs to the recursion itself."""
    return isinstance(operator, Variable | Iterate | Recursive)
