"""Which columns a table can have: at least one, and none that is called as what tables are counted by."""

from collections.abc import Iterable

import pyarrow as pa

from pointstamp.errors import SchemaError
from pointstamp.tables.kept.rounds import is_round_name
from pointstamp.tables.kept.weights import DIFF, DIFF_FIELD


def weighed_columns(who: str, fields: Iterable[pa.Field]) -> pa.Schema:
    """The columns of a table, all of which may be null, and the weight; SchemaError for a taken name."""
    fields = list(fields)
    if not fields:
        raise SchemaError(f"{who} would have no columns; a table needs at least one.")
    for field in fields:
        if field.name == DIFF or is_round_name(field.name):
            raise SchemaError(f"{who}: a column cannot be called '{field.name}', which is taken. Rename it.")
    return pa.schema([*(pa.field(field.name, field.type) for field in fields), DIFF_FIELD])


def rows_in_words(keys: pa.RecordBatch, group: int) -> str:
    """The rows of a group in words, by its key."""
    key = keys.slice(group, 1).to_pylist()[0]
    own = {name: value for name, value in key.items() if not is_round_name(name)}
    return f"the rows of {own}" if own else "all rows"
