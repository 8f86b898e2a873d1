"""The order of rows: by columns, each ascending or descending, as ``by=["price desc", "at"]`` says.

Null is less than every value and NaN greater than every number, as in Spark: ascending has nulls first,
descending has them last, unless ``nulls first`` or ``nulls last`` stands behind it. Values are compared by
their rank among all that are looked at, so that every type that Arrow can sort has an order here; those that
it cannot sort are told apart by their hashes.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.arrangement.column_arrays import kept_column, width_of
from pointstamp.arrow.row_hashing import hash_array
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions.select_columns import check_columns
from pointstamp.expressions.tree import Expression

Ranks = npt.NDArray[np.int64]

_WORDS: Final = re.compile(
    r"(?P<column>.*?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Ordered:
    """A column that rows are ordered by."""

    column: str
    descends: bool = False
    moves_nulls: bool = False
    """Whether nulls stand at the other end than usual: last where it ascends, first where it descends."""

    @property
    def nulls_last(self) -> bool:
        """Whether nulls come after all values."""
        return self.descends != self.moves_nulls


def ordering(who: str, schema: pa.Schema, by: str | Iterable[str]) -> tuple[Ordered, ...]:
    """Parse ``by=``: names of columns, each with ``asc`` or ``desc`` and ``nulls first`` or ``last``.

    >>> ordering("top", pa.schema({"price": pa.int64()}), "price desc")
    (Ordered(column='price', descends=True, moves_nulls=False),)
    """
    if isinstance(by, Expression):
        raise FlowError(
            f"{who}: by= takes names such as 'price desc', got the expression {by}. Make a column of it "
            "first, with with_columns."
        )
    made = []
    for each in [by] if isinstance(by, str) else list(by):
        if not isinstance(each, str):
            raise FlowError(f"{who}: by= takes names such as 'price desc', got {each}. Write a name.")
        ordered = _ordered(each, schema)
        check_columns(f"{who}: by=", schema, [ordered.column])
        found = schema.field(ordered.column).type
        if types.is_nested(found):
            raise SchemaError(
                f"{who}: '{ordered.column}' must have an ordered type, got {found}. Choose another column."
            )
        made.append(ordered)
    if not made:
        raise FlowError(f"{who} needs a column to order by, got none. Write by='price desc'.")
    return tuple(made)


def _ordered(text: str, schema: pa.Schema) -> Ordered:
    """A column and how it is ordered, out of words; a column that is called so comes first."""
    if text in schema.names:
        return Ordered(text)
    found = _WORDS.fullmatch(text)
    assert found is not None, "every text matches"
    descends = (found["direction"] or "asc").lower() == "desc"
    nulls = (found["nulls"] or ("last" if descends else "first")).lower()
    return Ordered(found["column"], descends, moves_nulls=(nulls == "last") != descends)


def ranks(batch: pa.RecordBatch, by: Sequence[Ordered]) -> list[Ranks]:
    """For each of these columns a number per row: the lesser comes first, equal values have the same."""
    made = []
    for each in by:
        values = batch.column(each.column)
        found = _whole_numbers(values)
        if found is None:
            found = value_ranks(values)
        if each.descends:
            found = ~found
        if each.moves_nulls and values.null_count:
            is_null = values.is_null().to_numpy(zero_copy_only=False)
            found[is_null] = len(found) + 1 if each.nulls_last else -len(found) - 1
        made.append(found)
    return made


def _whole_numbers(values: pa.Array) -> Ranks | None:
    """Integers and times without nulls, which say their order themselves; None of other values."""
    dtype = width_of(values.type)
    if values.null_count or dtype is None or dtype.kind not in "iu" or dtype == np.uint64:
        return None
    return np.asarray(kept_column(values), np.int64)


def value_ranks(values: pa.Array) -> Ranks:
    """A number for each value: the lesser value has the lesser one, equal values the same, null -1."""
    if types.is_float16(values.type):
        values = values.cast(pa.float32())  # Arrow has few kernels for halves
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
