"""Validate the tables, columns and ids that a graph is built from.

Everything that cannot be a graph is refused here, before anything is made of it.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import TypeAlias

import pyarrow as pa

from pointstamp import Stream, Table
from pointstamp.errors import FlowError, SchemaError

Key: TypeAlias = int | str | bytes | float | bool | date
"""The type of an id that is given as a value."""


def named(which: Iterable[Key] | Key) -> list[Key]:
    """One id or several, each once.

    >>> named("Rome"), named([4, 1, 4])
    (['Rome'], [4, 1])
    """
    if isinstance(which, Iterable) and not isinstance(which, str | bytes):
        return list(dict.fromkeys(which))
    return [which]


def given_table(what: str, given: Table | Stream) -> Table:
    """A table, or the table of all rows of a stream."""
    if isinstance(given, Stream):
        return given.to_table().named(what)
    if not isinstance(given, Table):
        raise FlowError(
            f"Graph: {what} must be a Table or a Stream, got {type(given).__name__}. Give one of these."
        )
    return given


def with_names(what: str, table: Table, names: Mapping[str, str]) -> Table:
    """The table with its ends and ids under the names that they have in this package."""
    for wanted, name in names.items():
        if name not in table.schema.names:
            raise SchemaError(
                f"Graph: {what} need a column '{name}', got {', '.join(table.schema.names)}. Name the "
                f"matching column with {wanted}=."
            )
    others = {wanted: name for wanted, name in names.items() if wanted != name}
    for wanted in others:
        if wanted in table.schema.names and wanted not in names.values():
            raise SchemaError(
                f"Graph: {what} have a column '{wanted}' besides the one that {wanted}= names. Rename it."
            )
    return table.rename({old: new for new, old in others.items()}) if others else table


def check_one_type(types: Mapping[str, pa.DataType]) -> None:
    """Ids are of one type, wherever they come from."""
    if len(set(types.values())) > 1:
        found = ", ".join(f"{name} {type_}" for name, type_ in types.items())
        raise SchemaError(f"Graph: ids must have one type, got {found}. Cast them to one.")


def check_weight(edges: pa.Schema, weight: str | None) -> None:
    """A weight is a column of numbers."""
    if weight is None:
        return
    if weight not in edges.names:
        raise SchemaError(
            f"Graph: weight= must be a column of the edges ({', '.join(edges.names)}), got '{weight}'. "
            "Name one of these."
        )
    type_ = edges.field(weight).type
    if not (pa.types.is_integer(type_) or pa.types.is_floating(type_)):
        raise SchemaError(
            f"Graph: the weight '{weight}' must be a number, got {type_}. Cast it to long or double."
        )
