"""Python functions of Spark users, called on Arrow batches.

Values become arguments, and results values, with the conversions of the ``pyspark`` that is installed where
the function runs, so what a function is given and what becomes of its result is Spark's. A ``MapBatches``
calls ``with_result`` or ``with_rows_of_groups`` for rows that appear and for rows that disappear.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from inspect import getfullargspec
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from pointstamp.errors import FlowError, PointstampError
from pointstamp.spark.catalyst.trees import arrow_type

CallingWay: TypeAlias = Literal["pickled", "rows", "pandas", "pandas_iterator", "arrow", "arrow_iterator"]
"""What a scalar function is called with: a row (as Spark pickles it, or over Arrow) or complete columns."""


@dataclass(frozen=True, slots=True)
class Conversions:
    """What the conversions depend on."""

    zone: str
    """The time zone of the session, in which pandas shows timestamps."""
    by_name: bool = True
    """Whether the columns of a frame that a function returns are found by name."""
    is_safe: bool = False
    """Whether a conversion that loses digits is an error."""
    unusual: tuple[str, ...] = ()
    """Settings of the session that ask for conversions other than these."""


UTC_CONVERSIONS: Final = Conversions("UTC")


@dataclass(frozen=True, slots=True)
class ScalarCall:
    """A function of rows: how it is called, with which columns, and what it gives."""

    name: str
    way: CallingWay
    arguments: tuple[str, ...]
    keywords: tuple[tuple[str, str], ...]
    """Arguments that are given by name, and their columns."""
    gives: str
    """The type of the result, as Spark writes it in JSON."""
    conversions: Conversions


@dataclass(frozen=True, slots=True)
class GroupCall:
    """A function of groups: its keys, the lists with the rows of each side, and what it gives."""

    name: str
    is_arrow: bool
    keys: tuple[str, ...]
    sides: tuple[str, ...]
    """One list of rows for a group, two for groups that belong together."""
    gives: str
    conversions: Conversions


def with_result(
    function: Callable[..., Any], spec: ScalarCall, result: str, batch: pa.RecordBatch
) -> pa.RecordBatch:
    """Return a batch with a column that a scalar function makes of its rows."""
    wanted = _arrow_type(spec.gives)
    if not batch.num_rows:
        made = pa.array([], wanted)
    else:
        try:
            made = _WAYS[spec.way](function, spec, batch)
        except PointstampError:
            raise
        except Exception as error:
            raise _failed(spec.name, error) from error
        if len(made) != batch.num_rows:
            raise FlowError(
                f"the Python function '{spec.name}' returned {len(made)} values for {batch.num_rows} rows. "
                "Return one for each row."
            )
    return batch.append_column(result, _as(made, wanted))


def with_rows_of_groups(
    function: Callable[..., Any], spec: GroupCall, result: str, batch: pa.RecordBatch
) -> pa.RecordBatch:
    """Return the keys of groups with a list of the rows that a function makes of each group."""
    wanted = _arrow_type(spec.gives)
    offsets, parts = [0], []
    for place in range(batch.num_rows):
        try:
            made = _of_group(function, spec, batch.slice(place, 1))
        except PointstampError:
            raise
        except Exception as error:
            raise _failed(spec.name, error) from error
        parts.append(_as(made, wanted))
        offsets.append(offsets[-1] + len(made))
    values = pa.concat_arrays(parts) if parts else pa.array([], wanted)
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, pa.list_(wanted))
    kept = batch.select(list(spec.keys))
    return kept.append_column(result, lists) if spec.keys else pa.RecordBatch.from_arrays([lists], [result])


def _failed(name: str, error: Exception) -> FlowError:
    return FlowError(
        f"the Python function '{name}' raised {type(error).__name__}: {error}. It is called for every row of "
        "its input, also for those that a condition beside it leaves out. Handle the value in the function."
    )


# Scalar functions.


def _positional(spec: ScalarCall, columns: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    given = [columns[name] for name in spec.arguments]
    return given, {keyword: columns[name] for keyword, name in spec.keywords}


def _of_rows(function: Callable[..., Any], spec: ScalarCall, batch: pa.RecordBatch) -> list[Any]:
    from pyspark.sql.conversion import ArrowTableToRowsConversion
    from pyspark.sql.pandas.types import from_arrow_type

    values: dict[str, list[Any]] = {}
    for name in dict.fromkeys([*spec.arguments, *(name for _, name in spec.keywords)]):
        column = batch.column(name)
        convert = ArrowTableToRowsConversion._create_converter(  # noqa: SLF001 - as Spark's worker calls it
            from_arrow_type(column.type)
        )
        values[name] = [convert(each) for each in column.to_pylist()]
    made = []
    for place in range(batch.num_rows):
        row = {name: column[place] for name, column in values.items()}
        arguments, keywords = _positional(spec, row)
        made.append(function(*arguments, **keywords))
    return made


def _pickled(function: Callable[..., Any], spec: ScalarCall, batch: pa.RecordBatch) -> pa.Array:
    kind = _spark_type(spec.gives)
    made = _of_rows(function, spec, batch)
    if kind.needConversion():
        made = [kind.toInternal(each) for each in made]
    wanted = _arrow_type(spec.gives)
    plain = _STORED.get(wanted, wanted)
    return pa.array([_from_java(each, wanted) for each in made], plain)


def _rows(function: Callable[..., Any], spec: ScalarCall, batch: pa.RecordBatch) -> pa.Array:
    from pyspark.sql.conversion import LocalDataToArrowConversion

    convert = LocalDataToArrowConversion._create_converter(_spark_type(spec.gives))  # noqa: SLF001
    made = [convert(each) for each in _of_rows(function, spec, batch)]
    wanted = _arrow_type(spec.gives)
    try:
        return pa.array(made, wanted)
    except pa.ArrowInvalid:
        return pa.array(made).cast(wanted, safe=spec.conversions.is_safe)


def _pandas(function: Callable[..., Any], spec: ScalarCall, batch: pa.RecordBatch) -> pa.Array:
    arguments, keywords = _positional(spec, _series(spec, batch))
    return _from_pandas(function(*arguments, **keywords), spec)


def _pandas_iterator(function: Callable[..., Any], spec: ScalarCall, batch: pa.RecordBatch) -> pa.Array:
    arguments, _ = _positional(spec, _series(spec, batch))
    given = arguments[0] if len(arguments) == 1 else tuple(arguments)
    return pa.concat_arrays([_from_pandas(each, spec) for each in function(iter([given]))])


def _arrow(function: Callable[..., Any], spec: ScalarCall, batch: pa.RecordBatch) -> pa.Array:
    shown = _in_zone(batch, spec.conversions.zone)
    columns = {name: shown.column(name) for name in shown.schema.names}
    arguments, keywords = _positional(spec, columns)
    return _array(function(*arguments, **keywords))


def _arrow_iterator(function: Callable[..., Any], spec: ScalarCall, batch: pa.RecordBatch) -> pa.Array:
    shown = _in_zone(batch, spec.conversions.zone)
    given = [shown.column(name) for name in spec.arguments]
    return pa.concat_arrays(
        [_array(each) for each in function(iter([given[0] if len(given) == 1 else tuple(given)]))]
    )


_WAYS: Final[Mapping[CallingWay, Callable[[Any, ScalarCall, pa.RecordBatch], pa.Array]]] = {
    "pickled": _pickled,
    "rows": _rows,
    "pandas": _pandas,
    "pandas_iterator": _pandas_iterator,
    "arrow": _arrow,
    "arrow_iterator": _arrow_iterator,
}


def _series(spec: ScalarCall, batch: pa.RecordBatch) -> dict[str, Any]:
    from pyspark.sql.conversion import ArrowBatchTransformer

    names = list(dict.fromkeys([*spec.arguments, *(name for _, name in spec.keywords)]))
    if not names:
        return {}
    shown = _in_zone(batch.select(names), spec.conversions.zone)
    found = ArrowBatchTransformer.to_pandas(
        shown, timezone=spec.conversions.zone, struct_in_pandas="dict", df_for_struct=True
    )
    return dict(zip(names, found, strict=True))


def _from_pandas(made: Any, spec: ScalarCall | GroupCall) -> pa.Array:  # noqa: ANN401 - what came
    from pyspark.sql.conversion import PandasToArrowConversion
    from pyspark.sql.types import StructField, StructType

    if not hasattr(made, "__len__"):
        raise FlowError(
            f"the Python function '{spec.name}' returned a value of type {type(made).__name__}. Return a "
            "pandas.Series, or a pandas.DataFrame for a struct."
        )
    if not len(made):
        return pa.array([], _arrow_type(spec.gives))
    schema = StructType([StructField("_0", _spark_type(spec.gives))])
    batch = PandasToArrowConversion.convert(
        [made],
        schema,
        timezone=spec.conversions.zone,
        safecheck=spec.conversions.is_safe,
        arrow_cast=True,
        assign_cols_by_name=spec.conversions.by_name,
    )
    return batch.column(0)


def _array(made: Any) -> pa.Array:  # noqa: ANN401 - what came
    if isinstance(made, pa.ChunkedArray):
        return made.combine_chunks()
    return made if isinstance(made, pa.Array) else pa.array(made)


# Values that Spark pickles: a result of an unexpected type is null.

_STORED: Final = {
    pa.date32(): pa.int32(),
    pa.timestamp("us", "UTC"): pa.int64(),
    pa.timestamp("us"): pa.int64(),
}


def _from_java(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - one case for each type
    """What Spark's JVM makes of a pickled result; a value of another type becomes null."""
    if value is None:
        return None
    types = pa.types
    if types.is_boolean(kind):
        return value if isinstance(value, bool) else None
    if types.is_integer(kind):
        return _wrapped(value, kind.bit_width) if type(value) is int else None
    if types.is_floating(kind):
        return value if isinstance(value, float) else None
    if types.is_string(kind):
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if type(value) is int:
            return str(value)
        raise FlowError(
            f"a Python function returned {type(value).__name__} for a string, and Java prints it otherwise "
            "than Python. Return str(...)."
        )
    if types.is_binary(kind):
        return value.encode() if isinstance(value, str) else bytes(value) if _is_bytes(value) else None
    if types.is_decimal(kind):
        return value if isinstance(value, Decimal) else None
    if types.is_date(kind) or types.is_timestamp(kind):
        return value if type(value) is int else None
    if types.is_list(kind):
        return [_from_java(each, kind.value_type) for each in value] if isinstance(value, list) else None
    if types.is_map(kind):
        if not isinstance(value, dict):
            return None
        return [(_from_java(k, kind.key_type), _from_java(v, kind.item_type)) for k, v in value.items()]
    if not isinstance(value, tuple):
        return None
    pairs = zip(kind, value, strict=True)
    return {field.name: _from_java(each, field.type) for field, each in pairs}


def _wrapped(value: int, bits: int) -> int | None:
    if not -(2**63) <= value < 2**63:
        return None
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _is_bytes(value: Any) -> bool:  # noqa: ANN401 - any value
    return isinstance(value, bytes | bytearray)


# Functions of groups.


def _of_group(function: Callable[..., Any], spec: GroupCall, row: pa.RecordBatch) -> pa.Array:
    zone = spec.conversions.zone
    sides = [
        _in_zone(pa.RecordBatch.from_struct_array(row.column(name)[0].values), zone) for name in spec.sides
    ]
    keys = _in_zone(row.select(list(spec.keys)), zone)
    takes_key = len(getfullargspec(function).args) > len(sides)
    if spec.is_arrow:
        tables = [pa.Table.from_batches([each]) for each in sides]
        key = (tuple(column[0] for column in keys.columns),) if takes_key else ()
        return _struct_of(function(*key, *tables), spec)
    frames = [_frame(each, zone) for each in sides]
    key = (tuple(each.iloc[0] for each in _plain_series(keys, zone)),) if takes_key else ()
    return _from_pandas(function(*key, *frames), spec)


def _plain_series(batch: pa.RecordBatch, zone: str) -> list[Any]:
    from pyspark.sql.conversion import ArrowBatchTransformer

    return list(ArrowBatchTransformer.to_pandas(batch, timezone=zone)) if batch.num_columns else []


def _frame(batch: pa.RecordBatch, zone: str) -> Any:  # noqa: ANN401 - a pandas.DataFrame
    import pandas as pd

    return pd.concat(_plain_series(batch, zone), axis=1)


def _struct_of(made: Any, spec: GroupCall) -> pa.Array:  # noqa: ANN401 - what came
    if not isinstance(made, pa.Table):
        raise FlowError(
            f"the Python function '{spec.name}' returned {type(made).__name__}. Return a pyarrow.Table."
        )
    wanted = _arrow_type(spec.gives)
    names = [field.name for field in wanted]
    if spec.conversions.by_name and sorted(made.column_names) != sorted(names):
        raise FlowError(
            f"the Python function '{spec.name}' returned the columns {', '.join(made.column_names)}, and its "
            f"schema has {', '.join(names)}. Return these."
        )
    table = made.select(names) if spec.conversions.by_name else made.rename_columns(names)
    columns = [
        _as(table.column(field.name).combine_chunks(), field.type, spec.conversions.is_safe)
        for field in wanted
    ]
    return pa.StructArray.from_arrays([_array(each) for each in columns], fields=list(wanted))


# Types.


def _as(made: pa.Array, wanted: pa.DataType, is_safe: bool = True) -> pa.Array:
    """The same values with a type of ours: other names of elements, other zones of instants."""
    made = _array(made)
    return made if made.type == wanted else made.cast(wanted, safe=is_safe)


def _in_zone(batch: pa.RecordBatch, zone: str) -> pa.RecordBatch:
    """A batch whose instants say the zone of the session, as Spark's batches do."""
    columns = [
        column.cast(pa.timestamp("us", zone))
        if pa.types.is_timestamp(column.type) and column.type.tz is not None
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names) if columns else batch


@cache
def _spark_type(given: str) -> Any:  # noqa: ANN401 - a type of pyspark
    from pyspark.sql.types import _parse_datatype_json_string

    return _parse_datatype_json_string(given)


@cache
def _arrow_type(given: str) -> pa.DataType:
    return arrow_type(json.loads(given), "the type of a Python function")
