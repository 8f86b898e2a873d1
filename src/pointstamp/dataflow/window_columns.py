"""Columns that are window expressions: what ``with_columns`` and ``select`` take out of their arguments."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from pointstamp.errors import FlowError
from pointstamp.expressions.tree import Value
from pointstamp.reduce.over import Windowed, WindowExpression

ColumnValue: TypeAlias = Value | WindowExpression
Window: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], int | None]
"""The partition, the order, and the number of rows."""


def given_columns(
    who: str, mappings: tuple[Mapping[str, Any], ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the columns of mappings and keywords by name; FlowError for anything else."""
    columns: dict[str, Any] = {}
    for mapping in (*mappings, named):
        if not isinstance(mapping, Mapping):
            raise FlowError(
                f"{who} takes columns by name, got {type(mapping).__name__} {mapping}. Write "
                "with_columns(total=...), or with_columns({'total': ...})."
            )
        for name, value in mapping.items():
            if name in columns:
                raise FlowError(f"{who} got the column '{name}' twice. Remove one of them.")
            columns[name] = value
    return columns


def by_window(who: str, columns: Mapping[str, Any]) -> dict[Window, dict[str, WindowExpression]]:
    """Return the window expressions among columns, by what they are over."""
    found: dict[Window, dict[str, WindowExpression]] = {}
    for name, value in columns.items():
        if isinstance(value, Windowed):
            raise FlowError(
                f"{who}, column '{name}': {value} needs a window. Write .over(partition_by=..., "
                "order_by=...)."
            )
        if isinstance(value, WindowExpression):
            found.setdefault((value.partition_by, value.order_by, value.rows), {})[name] = value
    return found
