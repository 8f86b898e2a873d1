"""``select`` and ``with_columns`` of streams and tables, with window expressions among their arguments."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import pyarrow as pa

from pointstamp.dataflow.record import Recorded
from pointstamp.errors import FlowError
from pointstamp.expressions.select_columns import chosen, expressions
from pointstamp.expressions.tree import Expression, Value, col
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


class RecordedColumns(Recorded):
    """Rows whose columns are computed by expressions: a stream or a table, which say how it is recorded."""

    if TYPE_CHECKING:

        @property
        def schema(self) -> pa.Schema:
            """The columns of a row."""
            ...

        def _project(self, name: str, wanted: Mapping[str, Expression]) -> Self: ...

        def _over(self, window: Window, functions: Mapping[str, WindowExpression]) -> Self: ...

    def _selected(self, columns: tuple[str | Expression, ...], named: Mapping[str, ColumnValue]) -> Self:
        rows: Self = self
        if windows := by_window(f"select of {self}", named):
            added = {name: each for window in windows.values() for name, each in window.items()}
            rows = self._with_columns((added,), {})
            named = {name: col(name) if name in added else value for name, value in named.items()}
        return rows._project("select", chosen(f"'select' of {rows}", columns, named))

    def _with_columns(
        self, columns: tuple[Mapping[str, ColumnValue], ...], named: Mapping[str, ColumnValue]
    ) -> Self:
        who = f"with_columns of {self}"
        wanted = given_columns(who, columns, named)
        rows = self
        windows = by_window(who, wanted)
        for window, functions in windows.items():
            rows = rows._over(window, functions)
        rest = {name: value for name, value in wanted.items() if not isinstance(value, WindowExpression)}
        if windows and not rest and len(windows) == 1:
            return rows
        added = expressions(f"'with columns' of {self}", rest)
        whole = {each: col(each) for each in self.schema.names}
        return rows._project("with columns", whole | {name: added.get(name, col(name)) for name in wanted})
