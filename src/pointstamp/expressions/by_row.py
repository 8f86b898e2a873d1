"""Functions that are computed in Python, once for each different combination of arguments.

Arrow has no kernel for them. Times and durations reach a function as integers in their unit, also inside of
lists, maps and structs, because Python has no dates before the year 1. A map is a list of pairs.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import types

from pointstamp.expressions.signature import Datum, Signature, TypeRule, register
from pointstamp.expressions.type_rules import STRING

RowFunction: TypeAlias = Callable[..., Any]


def storage_type(given: pa.DataType) -> pa.DataType:
    """The type with integers in place of times.

    >>> storage_type(pa.list_(pa.date32()))
    ListType(list<element: int32>)
    """
    if types.is_date32(given):
        return pa.int32()
    if types.is_timestamp(given) or types.is_duration(given):
        return pa.int64()
    if types.is_list(given):
        return pa.list_(pa.field("element", storage_type(given.value_type)))
    if types.is_map(given):
        return pa.map_(storage_type(given.key_type), storage_type(given.item_type))
    if types.is_struct(given):
        return pa.struct([pa.field(field.name, storage_type(field.type)) for field in given])
    return given


def python_values(datum: Datum) -> list[Any]:
    """The values of an array, or the one value of a scalar, as Python has them."""
    array = pa.repeat(datum, 1) if isinstance(datum, pa.Scalar) else datum
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    plain = storage_type(array.type)
    return list((array if plain == array.type else _as_storage(array, plain)).to_pylist())


def array_of(values: Sequence[Any], gives: pa.DataType) -> pa.Array:
    """An array of values as ``python_values`` has them; ArrowInvalid for one that does not fit."""
    plain = storage_type(gives)
    try:
        made = pa.array(values, plain)
    except OverflowError as error:
        raise pa.ArrowInvalid(str(error)) from error
    return made if plain == gives else _as_storage(made, gives)


def _as_storage(array: pa.Array, to: pa.DataType) -> pa.Array:
    """An array with other types of the same bytes, at any depth."""
    found = array.type
    if found == to:
        return array
    if types.is_nested(found) and array.offset:
        array = array.take(pa.array(range(len(array)), pa.int64()))
    if types.is_list(found):
        values = _as_storage(array.values, to.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, to, mask=_mask(array))
    if types.is_map(found):
        keys, items = _as_storage(array.keys, to.key_type), _as_storage(array.items, to.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, to, mask=_mask(array))
    if types.is_struct(found):
        fields = [_as_storage(array.field(place), to.field(place).type) for place in range(to.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(to), mask=_mask(array))
    return array.cast(to)


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def by_row(function: RowFunction, gives: pa.DataType, is_strict: bool, *data: Datum) -> Datum:
    """The result of a function for each row; a strict function is null if an argument is null."""
    count = max((len(datum) for datum in data if not isinstance(datum, pa.Scalar)), default=1)
    columns = [
        values * count if isinstance(datum, pa.Scalar) else values
        for datum, values in zip(data, map(python_values, data), strict=True)
    ]
    rows = zip(*columns, strict=True) if columns else iter([()] * count)
    memo: dict[tuple[Any, ...], Any] | None = {} if all(map(_is_hashable, data)) else None
    made: list[Any] = []
    for row in rows:
        if is_strict and None in row:
            made.append(None)
        elif memo is None:
            made.append(function(*row))
        else:
            if row not in memo:
                memo[row] = function(*row)
            made.append(memo[row])
    return array_of(made, gives)


def _is_hashable(datum: Datum) -> bool:
    """Return whether values that are equal in Python are the same; 0.0 equals -0.0, and 1.0 equals 1."""
    return not types.is_floating(datum.type) and not types.is_nested(datum.type)


def rule_of(
    gives: pa.DataType | Callable[..., pa.DataType], function: RowFunction, is_strict: bool
) -> TypeRule:
    """The rule of a function of rows; a type that is null is taken as text."""

    def rule(what: str, found: Sequence[pa.DataType], options: Mapping[str, Any]) -> Signature:
        taken = tuple(STRING if types.is_null(each) else each for each in found)
        result = gives if isinstance(gives, pa.DataType) else gives(what, taken, options)
        made = partial(function, **options) if options else function
        return Signature(taken, result, lambda *data, **_: by_row(made, result, is_strict, *data))

    return rule


def register_by_row(
    name: str,
    function: RowFunction,
    gives: pa.DataType | Callable[..., pa.DataType] = STRING,
    *,
    least: int = 1,
    most: int | None = None,
    can_fail: bool = True,
    is_strict: bool = True,
    uses_zone: bool = False,
) -> None:
    """Make a function of rows known; ``most`` (default: ``least``) is the largest number of arguments."""
    register(
        name,
        rule_of(gives, function, is_strict),
        lambda *data, **options: by_row(function, STRING, is_strict, *data),
        least=least,
        most=least if most is None else (None if most < 0 else most),
        can_fail=can_fail,
        is_strict=is_strict,
        uses_zone=uses_zone,
        is_by_row=True,
    )
