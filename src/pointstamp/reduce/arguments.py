"""The columns that a reduction reads: keys and distinct arguments.

What an aggregate looks at is a column of the rows, or is made one before rows are brought together by key: so
less is sent and kept, and whoever aggregates knows columns only. A condition makes the argument null where it
does not hold, and nulls have no part in an aggregate.
"""

from collections.abc import Iterable

from pointstamp.expressions.tree import Column, Expression, col, lit, when


class Arguments:
    """Columns by name, as they are asked for; for one reduction that is being written."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.columns: dict[str, Expression] = {key: col(key) for key in keys}

    def of(self, given: str | Expression | None, where: Expression | None = None) -> str | None:
        """The column of an argument, null where the condition does not hold; None if rows are counted."""
        if given is None:
            return None if where is None else self.made(when(where, lit(True)))
        expression = col(given) if isinstance(given, str) else given
        if where is not None:
            return self.made(when(where, expression))
        return self.named(expression.column) if isinstance(expression, Column) else self.made(expression)

    def named(self, column: str) -> str:
        """A column of the rows."""
        self.columns[column] = col(column)
        return column

    def made(self, expression: Expression) -> str:
        """A computed column, under a reserved name."""
        name = f"__{len(self.columns)} {expression}"
        self.columns[name] = expression
        return name
