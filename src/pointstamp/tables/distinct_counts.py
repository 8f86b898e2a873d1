"""How many different values there are, as a sum: the different values are found first, and then counted.

``count_distinct`` asked of all rows of a key would cost the key whenever one of them changes. So the values
of each such aggregate become rows of their own, with the key, are made distinct, and are counted beside the
other rows in the one reduction that is left: each with a mark for its aggregate, and null in all else,
so that nothing else counts it. What is kept is each different value once, and a change costs its rows.

A key is there as long as it has rows, which its different values never outlast: both are changes of one time.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Final

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.tree import Expression, col, lit, when
from pointstamp.flow.stream import Stream
from pointstamp.tables import deltas
from pointstamp.tables.aggregates.asked_aggregates import TableAggregate
from pointstamp.tables.aggregates.sums import is_linear

_ROW: Final = "__row"
"""True in the rows themselves, null in those of different values."""
_WHICH: Final = "__which"
_VALUE: Final = "__value"


def can_be_apart(schema: pa.Schema, found: Mapping[str, TableAggregate]) -> bool:
    """Whether there are different values to count, and nothing that looks at whole rows besides."""
    kinds = {each.kind for each in found.values()}
    return "count_distinct" in kinds and all(_fits(schema, each) for each in found.values())


def _fits(schema: pa.Schema, asked: TableAggregate) -> bool:
    if asked.where is not None:
        return False
    data_type = None if asked.column is None else schema.field(asked.column).type
    if asked.kind == "count_distinct":
        return data_type is not None and not (types.is_nested(data_type) or types.is_dictionary(data_type))
    return asked.kind in ("min", "max") or is_linear(asked.kind, data_type)


def counted_apart(
    changes: Stream, keys: tuple[str, ...], found: Mapping[str, TableAggregate], name: str
) -> tuple[Stream, dict[str, TableAggregate]]:
    """Rows and aggregates that give the same, without a ``count_distinct``."""
    arguments = [each.column for each in found.values() if each.kind == "count_distinct"]
    marks = {column: f"__different {number}" for number, column in enumerate(dict.fromkeys(arguments))}
    kept = {column: column for column in _kept(changes.schema, found)}
    kept |= {f"__own {key}": kept.pop(key) for key in keys if key in kept}  # a key is in every row's columns
    at = {column: name for name, column in kept.items()}
    nothing = {name: lit(None).cast(changes.schema.field(column).type) for name, column in kept.items()}
    no_marks: dict[str, Expression] = {mark: lit(None).cast(pa.bool_()) for mark in marks.values()}
    own: dict[str, Expression] = {key: col(key) for key in keys}
    own |= {name: col(column).alias(name) for name, column in kept.items()} | {_ROW: lit(True)} | no_marks
    streams = [deltas.selected(changes, f"{name}: rows", own, name)]
    for data_type, columns in _by_type(changes.schema, [each for each in marks if each is not None]).items():
        different = _different(changes, keys, columns, f"{name}: different {data_type}")
        shares: dict[str, Expression] = {key: col(key) for key in keys}
        shares |= nothing | {_ROW: lit(None).cast(pa.bool_())} | no_marks
        for number, column in enumerate(columns):
            shares[marks[column]] = when(col(_WHICH) == number, lit(True)).otherwise(None)
        streams.append(deltas.selected(different, f"{name}: counts of {data_type}", shares, name))
    made = {
        column: replace(each, kind="count", column=marks[each.column])
        if each.kind == "count_distinct"
        else replace(each, column=_ROW)
        if each.column is None
        else replace(each, column=at[each.column])
        for column, each in found.items()
    }
    return reduce(lambda one, other: deltas.together(one, other, f"{name}: all"), streams), made


def _kept(schema: pa.Schema, found: Mapping[str, TableAggregate]) -> list[str]:
    """The columns that aggregates of rows look at."""
    looked_at = {each.column for each in found.values() if each.kind != "count_distinct"}
    return [column for column in schema.names if column in looked_at]


def _by_type(schema: pa.Schema, columns: list[str]) -> dict[pa.DataType, list[str]]:
    """Columns of one type are made distinct together, so that there are few operators."""
    found: dict[pa.DataType, list[str]] = {}
    for column in columns:
        found.setdefault(schema.field(column).type, []).append(column)
    return found


def _different(changes: Stream, keys: tuple[str, ...], columns: list[str], name: str) -> Stream:
    """Each different value of each of these columns once, with its key and the number of the column."""
    parts = []
    for number, column in enumerate(columns):
        wanted: dict[str, Expression] = {key: col(key) for key in keys}
        wanted |= {_WHICH: lit(number, pa.int16()), _VALUE: col(column)}
        there = deltas.filtered(changes, f"{name}: not null", col(column).is_not_null(), name)
        parts.append(deltas.selected(there, f"{name}: values", wanted, name))
    return deltas.once(reduce(lambda one, other: deltas.together(one, other, f"{name}: both"), parts), name)
