"""Valid column names of tables: at least one column, no reserved names.

Names that begin with two underscores are reserved. Operators put columns of such names beside those of a
row: rounds, places, sums, the key of all rows. A column of a user under one of them would be lost.
"""

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from pointstamp.arrangement.consolidate import DIFF, DIFF_FIELD
from pointstamp.arrangement.loop_times import is_round_name
from pointstamp.errors import SchemaError

_BESIDE: Final = re.compile(
    r"__(all|is_row|row|which|value|shard|rows|until|at|is_right|round_\d+|\d+( .*)?"
    r"|(different|own|true|count|sum) .*|(left|right)_.*)",
    re.DOTALL,
)
"""What operators of tables call columns that stand beside those of a row."""


def weighed(who: str, schema: pa.Schema) -> pa.Schema:
    """The columns of a row, and the weight; SchemaError where a column is called as the weight is."""
    if DIFF in schema.names:
        raise SchemaError(
            f"{who}: a column cannot be called '{DIFF}', which is reserved for the weight. Rename it."
        )
    return pa.schema([*schema, DIFF_FIELD])


def check_new_names(who: str, names: Iterable[str]) -> None:
    """Reject new columns that are called as the weight is, or as what operators put beside a row."""
    for name in names:
        if name == DIFF:
            raise SchemaError(
                f"{who}: a column cannot be called '{DIFF}', which is reserved for the weight. Rename it."
            )
        if _BESIDE.fullmatch(name):
            raise SchemaError(
                f"{who}: a column cannot be called '{name}', because names that begin with '__' are "
                "reserved. Rename it."
            )


def weighed_columns(who: str, fields: Iterable[pa.Field]) -> pa.Schema:
    """The columns of a table, all of which may be null, and the weight; SchemaError for a taken name."""
    fields = list(fields)
    if not fields:
        raise SchemaError(f"{who} would have no columns, but a table needs at least one. Keep one.")
    for field in fields:
        if field.name == DIFF or is_round_name(field.name):
            raise SchemaError(f"{who}: a column cannot be called '{field.name}', which is taken. Rename it.")
    return pa.schema([*(pa.field(field.name, field.type) for field in fields), DIFF_FIELD])


def rows_in_words(keys: pa.RecordBatch, group: int) -> str:
    """The rows of a group as text, by its key."""
    key = keys.slice(group, 1).to_pylist()[0]
    own = {name: value for name, value in key.items() if not is_round_name(name)}
    return f"the rows of {own}" if own else "all rows"
