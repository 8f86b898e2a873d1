"""Columns by expressions: what ``select``, ``with_columns``, ``drop`` and ``rename`` mean.

Streams and tables have them alike.

A keyword is the name of a column, whatever it is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.compiler import Compiled, compile_expression
from pointstamp.expressions.tree import Column, Expression, col, lit, name_of


@dataclass(frozen=True, slots=True)
class Selection:
    """The columns of a result: how each is computed, and its type."""

    columns: tuple[Compiled, ...]
    schema: pa.Schema

    def of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Their values, for each row of a batch."""
        return [column(batch) for column in self.columns]


def chosen(
    who: str, columns: Iterable[str | Expression], named: Mapping[str, object]
) -> dict[str, Expression]:
    """The columns of a ``select``, by name; FlowError for what has no name, or twice the same."""
    wanted: dict[str, Expression] = {}
    for column in columns:
        if not isinstance(column, str | Expression):
            raise FlowError(f"{who} takes names of columns and expressions, got {type(column).__name__}.")
        expression = col(column) if isinstance(column, str) else column
        known = name_of(expression)
        if known is None:
            raise FlowError(
                f"{who}: {expression} needs a name. Write x={expression}, or {expression}.alias('x')."
            )
        _put(who, wanted, known, expression)
    for column, value in expressions(who, named).items():
        _put(who, wanted, column, value)
    return wanted


def expressions(who: str, named: Mapping[str, object]) -> dict[str, Expression]:
    """Convert keywords to expressions; reject a text, which could mean a column or a literal."""
    for column, value in named.items():
        if isinstance(value, str):
            raise FlowError(
                f"{who}: column '{column}' is the text {value!r}. Write ps.col({value!r}) for the "
                f"column, or ps.lit({value!r}) for the text."
            )
    return {column: lit(value) for column, value in named.items()}


def others(who: str, schema: pa.Schema, dropped: Iterable[str]) -> dict[str, Expression]:
    """All columns but these."""
    check_columns(who, schema, dropped := list(dropped))
    return {each: col(each) for each in schema.names if each not in dropped}


def renamed(who: str, schema: pa.Schema, names: Mapping[str, str]) -> dict[str, Expression]:
    """All columns, some with other names: a mapping from old to new."""
    given: object = names
    if not isinstance(given, Mapping):
        raise FlowError(
            f"{who} needs a mapping from old to new names, got {names!r}. Write {{'old': 'new'}}."
        )
    check_columns(who, schema, names)
    wanted: dict[str, Expression] = {}
    for each in schema.names:
        _put(who, wanted, names.get(each, each), col(each))
    return wanted


def selection(who: str, schema: pa.Schema, wanted: Mapping[str, Expression]) -> Selection:
    """Expressions for rows of a schema, compiled; SchemaError names the column that cannot be."""
    compiled, fields = [], []
    for name, expression in wanted.items():
        found = compile_expression(expression, schema, f"{who}, column '{name}'")
        compiled.append(found)
        is_kept = isinstance(expression, Column)
        field = schema.field(expression.column) if is_kept else pa.field(name, found.type)
        fields.append(field.with_name(name))
    return Selection(tuple(compiled), pa.schema(fields))


def check_columns(who: str, schema: pa.Schema, columns: Iterable[str]) -> None:
    """Refuse columns that are not there."""
    for column in columns:
        if column not in schema.names:
            raise SchemaError(f"{who} needs the column '{column}'; it has {shown(schema)}.")


def shown(schema: pa.Schema) -> str:
    """The columns of a schema as text."""
    return ", ".join(f"'{field.name}' {field.type}" for field in schema) or "no columns"


def _put(who: str, wanted: dict[str, Expression], name: str, expression: Expression) -> None:
    if name in wanted:
        raise SchemaError(f"{who} would have the column '{name}' twice. Give one of them another name.")
    wanted[name] = expression
