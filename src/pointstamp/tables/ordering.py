"""The order of rows: by columns, each ascending or descending, as ``by=["price desc", "at"]`` says.

Null is less than every value and NaN greater than every number, as in Spark: ascending has nulls first,
descending has them last. Values are compared by their rank among all that are looked at, so that every type
that Arrow can sort has an order here; those that it cannot sort are told apart by their hashes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.selecting import check_columns
from pointstamp.rows.hashing import hash_array

Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ordered:
    """A column that rows are ordered by."""

    column: str
    descends: bool = False


def ordering(who: str, schema: pa.Schema, by: str | Iterable[str]) -> tuple[Ordered, ...]:
    """What ``by=`` says: names of columns, each with ``asc`` or ``desc`` after it or not.

    >>> ordering("top", pa.schema({"price": pa.int64()}), "price desc")
    (Ordered(column='price', descends=True),)
    """
    made = []
    for each in [by] if isinstance(by, str) else list(by):
        if not isinstance(each, str):
            raise FlowError(f"{who}: by= takes names such as 'price desc', and was given {each}.")
        column, _, direction = each.rpartition(" ")
        if each in schema.names or direction.lower() not in ("asc", "desc"):
            column, direction = each, "asc"
        check_columns(f"{who}: by=", schema, [column])
        if types.is_nested(schema.field(column).type):
            raise SchemaError(f"{who}: '{column}' is {schema.field(column).type}, which has no order.")
        made.append(Ordered(column, direction.lower() == "desc"))
    if not made:
        raise FlowError(f"{who} needs a column to order by, for example by='price desc'.")
    return tuple(made)


def ranks(batch: pa.RecordBatch, by: Sequence[Ordered]) -> list[Ranks]:
    """For each of these columns a number per row: the lesser comes first, equal values have the same."""
    made = []
    for each in by:
        found = value_ranks(batch.column(each.column))
        made.append(-found if each.descends else found)
    return made


def value_ranks(values: pa.Array) -> Ranks:
    """A number for each value: the lesser value has the lesser one, equal values the same, null -1."""
    if types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 is 0.0
    if types.is_nested(values.type):
        return np.asarray(np.unique(hash_array(values), return_inverse=True)[1], np.int64)
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    encoded = values.dictionary_encode()
    place = np.empty(len(encoded.dictionary) + 1, np.int64)
    place[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    place[-1] = -1  # null
    return np.asarray(place[encoded.indices.fill_null(len(encoded.dictionary)).to_numpy()])
