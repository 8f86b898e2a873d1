"""Check rows against a schema: accept, convert or reject them.

``fit`` brings one batch to a declared schema. Columns are found by name; a cast happens only where it keeps
every value: by the two types alone for numbers (int32 to int64, never int64 to int32, so that a stream does
not fail on the day a value grows), by the values for units of time (nanoseconds to microseconds where nothing
is cut off). Inside structs, lists and maps the same rules hold. ``to_batches`` brings whatever users have at
hand (Arrow, pandas, polars, rows) to Arrow and then fits it.

Columns that are not declared are refused in what an operator sends, where they are a mistake of the flow. At
the inputs of a flow they are treated as ``pointstamp.arrow.schema`` says, wherever it runs.

Invariant: a batch that comes out has exactly the declared types and no null where the schema says not null.
At the inputs, text is UTF-8 (``check_text``); otherwise a batch that claims the declared schema is taken on
trust.
"""

import logging
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.arrow.ddl import parse_ddl, to_ddl
from pointstamp.errors import FlowError, SchemaError

# Kinds of types whose members hold the same values, in other encodings or units.
_KINDS: Final = (
    {pa.lib.Type_STRING, pa.lib.Type_LARGE_STRING, pa.lib.Type_STRING_VIEW},
    {pa.lib.Type_BINARY, pa.lib.Type_LARGE_BINARY, pa.lib.Type_BINARY_VIEW},
    {pa.lib.Type_DATE32, pa.lib.Type_DATE64},
    {pa.lib.Type_TIME32, pa.lib.Type_TIME64},
    {pa.lib.Type_DURATION},
)
_VIEWS: Final = {pa.lib.Type_STRING_VIEW, pa.lib.Type_BINARY_VIEW, pa.lib.Type_LIST_VIEW}
_ASKED: Final = b"pointstamp asked for by"
_LISTS: Final = {pa.lib.Type_LIST, pa.lib.Type_LARGE_LIST, pa.lib.Type_FIXED_SIZE_LIST}


def as_schema(given: str | pa.Schema) -> pa.Schema:
    """A schema with at least one column and no name twice, from a DDL string or from Arrow.

    >>> as_schema("src long, dst long").names
    ['src', 'dst']
    """
    if isinstance(given, str):
        return parse_ddl(given)
    if not isinstance(given, pa.Schema):
        raise SchemaError(
            "a schema must be a string like 'src long, dst long' or a pyarrow.Schema, got "
            f"{_kind(given)}. Write it as a string."
        )
    names: list[str] = given.names
    if not names:
        raise SchemaError("a schema must have at least one column, got none. Declare one.")
    if (twice := _twice(names)) is not None:
        raise SchemaError(f"a schema must name each column once, got '{twice}' twice. Rename one.")
    for field in given:
        if _has_view(field.type):
            raise SchemaError(
                f"column '{field.name}' cannot be declared as {field.type}, which Arrow cannot partition. "
                "Declare string, binary or list; rows that arrive as views are cast."
            )
    return given


def fit(batch: pa.RecordBatch, schema: pa.Schema, who: str) -> pa.RecordBatch:
    """The same rows with exactly the columns and types of the schema; the batch itself where it has them."""
    if batch.schema.equals(schema):
        return batch
    _check_names(batch.schema.names, schema, who)
    columns = [
        _fit_array(batch.column(field.name), field, f"{who}: column '{field.name}'") for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def check_text(batch: pa.RecordBatch, who: str) -> None:
    """Reject text that is not UTF-8, which readers of the output would reject."""
    for at, kind in enumerate(batch.schema.types):
        if _has_text(kind):
            try:
                batch.column(at).validate(full=True)
            except pa.ArrowInvalid as error:
                name = batch.schema.names[at]
                raise SchemaError(
                    f"{who}: column '{name}' has text that is not UTF-8 ({error}). Decode it with its own "
                    "encoding, or declare the column as binary."
                ) from error


@lru_cache(maxsize=256)
def _has_text(data_type: pa.DataType) -> bool:
    children = [data_type.field(position) for position in range(data_type.num_fields)]
    if types.is_dictionary(data_type):
        return _has_text(data_type.value_type)
    return data_type.id in _KINDS[0] or any(_has_text(child.type) for child in children)


def asked_for(column: str, kind: pa.DataType, by: str) -> pa.Field:
    """A column that no schema declares, but that the option with this name needs."""
    return pa.field(column, kind, metadata={_ASKED: by})


def check_asked(names: Sequence[str], schema: pa.Schema, who: str) -> None:
    """Reject rows without a column that an option names."""
    for field in schema:
        by = (field.metadata or {}).get(_ASKED)
        if by is not None and field.name not in names:
            option = by.decode()
            raise SchemaError(
                f"{who}: {option} names the column '{field.name}', but the columns are {_named(names)}. "
                f"Name one that all rows have, or leave {option} out."
            )


def names_of(value: Any) -> list[str] | None:  # noqa: ANN401 - whatever a user has at hand
    """The columns of rows at hand; None where that is not known without reading them."""
    if isinstance(value, pa.RecordBatch | pa.Table):
        names: list[str] = value.schema.names
        return names
    if _is_pandas(value) or hasattr(value, "__arrow_c_stream__"):
        columns = getattr(value, "columns", None)
        return None if columns is None else [str(name) for name in columns]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return list(value[0])
    return None


# Handle undeclared columns: reject, warn or ignore.
#
# A column that looks like the change of a row (``diff``, ``op``, ``_change_type``, ``is_deleted``) is an
# error: without it a deletion would be read as an insertion. Any other is a warning, once for an input and
# these columns in a process. ``extra_columns="ignore"`` on the input accepts both without a word.
#
# How an input treats them travels to its source in the metadata of the schema that rows are read with.

ExtraColumns: TypeAlias = Literal["warn", "ignore"]
"""The treatment of undeclared columns of an input: a warning, or none."""

_WEIGHTS: Final = ("diff", "weight")
_OPERATIONS: Final = (
    *("op", "operation", "op_type", "change_type", "row_kind", "rowkind"),
    *("cdc_operation", "$operation"),
)
_DELETIONS: Final = (
    *("deleted", "is_deleted", "isdeleted", "deleted_at", "deletedat", "delete_flag", "deleted_flag"),
    *("fivetran_deleted", "ab_cdc_deleted_at"),
)
CHANGE_NAMES: Final = (*_WEIGHTS, *_OPERATIONS, *_DELETIONS)
"""The names of columns with the change of a row, in any case and after underscores."""

_EXTRA: Final = b"pointstamp extra columns"
_WARNED_MAX: Final = 10_000
_warned: dict[tuple[str, frozenset[str]], None] = {}
_log = logging.getLogger("pointstamp.run")


def check_extra_columns(who: str, extra: str) -> None:
    """Reject an unknown value of ``extra_columns``."""
    if extra not in get_args(ExtraColumns):
        raise FlowError(
            f"{who}: extra_columns must be 'warn' or 'ignore', got {extra!r}. Choose one of these."
        )


def with_extra(schema: pa.Schema, extra: ExtraColumns) -> pa.Schema:
    """The schema, saying how columns beyond it are treated."""
    return schema if extra == "warn" else schema.with_metadata({_EXTRA: extra.encode()})


def extra_of(schema: pa.Schema) -> ExtraColumns:
    """The treatment of undeclared columns."""
    return "ignore" if (schema.metadata or {}).get(_EXTRA) == b"ignore" else "warn"


def is_change_name(name: str) -> bool:
    """Return whether a column of this name looks like the change of a row.

    >>> [is_change_name(name) for name in ("diff", "_change_type", "__OP", "price")]
    [True, True, True, False]
    """
    return name.lower().lstrip("_") in CHANGE_NAMES


def check_undeclared(
    names: Iterable[str],
    declared: Iterable[str],
    who: str,
    extra: ExtraColumns = "warn",
    *,
    known: Iterable[str] = (),
) -> None:
    """Reject undeclared columns that look like changes; warn once of others, except ``known``."""
    if extra == "ignore":
        return
    expected = {*declared, *known}
    undeclared = [name for name in names if name not in expected]
    if not undeclared:
        return
    if suspicious := [name for name in undeclared if is_change_name(name)]:
        raise SchemaError(_refusal(who, suspicious[0]))
    key = (who, frozenset(undeclared))
    if key in _warned:
        return
    if len(_warned) >= _WARNED_MAX:
        _warned.clear()
    _warned[key] = None
    listed = ", ".join(repr(name) for name in sorted(undeclared)[:5])
    more = f" and {len(undeclared) - 5} more" if len(undeclared) > 5 else ""
    _log.warning(
        "%s: the rows have %s%s, which the schema does not declare; these columns are not read. Declare "
        "them, or set extra_columns='ignore' on the input.",
        who,
        listed,
        more,
    )


def _refusal(who: str, name: str) -> str:
    plain = name.lower().lstrip("_")
    if plain in _WEIGHTS:
        way = f"flow.table(..., weight={name!r}), or in SQL tblproperties ('weight' = '{name}')"
    elif plain in _OPERATIONS:
        way = f"flow.table(..., operation={name!r}), or in SQL tblproperties ('operation' = '{name}')"
    else:
        way = f"flow.table(..., key=..., deleted={name!r})"
    return (
        f"{who}: the rows have a column {name!r}, which the schema does not declare and which looks like the "
        "change of each row; without it, deletions would be read as insertions. Declare the column and use "
        f"{way}. If it is not a change, set extra_columns='ignore' on the input."
    )


def input_batches(
    value: object, schema: pa.Schema, who: str, extra: ExtraColumns = "warn"
) -> list[pa.RecordBatch]:
    """The rows that a user gives an input, as batches that fit its schema; ``extra`` columns are left out.

    SchemaError for undeclared columns that look like changes, and for text that is not UTF-8.
    """
    names = _given_names(value)
    if names is not None:
        check_undeclared(names, schema.names, who, extra)
    batches = to_batches(value, schema, who, leaves_others=True)
    for batch in batches:
        check_text(batch, who)
    return batches


def _given_names(value: Any) -> list[str] | None:  # noqa: ANN401 - whatever a user has at hand
    """All columns of rows at hand, of each row if they differ."""
    if isinstance(value, list) and all(isinstance(row, dict) for row in value):
        return list(dict.fromkeys(str(name) for row in value for name in row))
    return names_of(value)


def to_batches(
    value: object, schema: pa.Schema, who: str, *, leaves_others: bool = False
) -> list[pa.RecordBatch]:
    """The rows of a batch, table, pandas or polars frame, or list of dicts, as batches that fit the schema.

    Anything that exports Arrow streams (``__arrow_c_stream__``) is taken as well. In pandas a NaN counts as
    null and the index is left out. A list of dicts is slow, one Python object per value: it is meant for
    tests and examples. Batches without rows are left out. Columns that are not declared are refused, or
    ignored with ``leaves_others``.
    """
    if isinstance(value, pa.RecordBatch):
        if value.schema.equals(schema):
            return [value] if value.num_rows else []
        batches = [value]
    elif isinstance(value, pa.Table):
        batches = _from_table(value)
    elif _is_pandas(value):
        batches = [_from_pandas(value, schema, who, leaves_others=leaves_others)]
    elif hasattr(value, "__arrow_c_stream__"):
        batches = _from_stream(value, who)
    elif isinstance(value, list) and all(isinstance(row, dict) for row in value):
        batches = [_from_rows(value, schema, who, leaves_others=leaves_others)] if value else []
    else:
        raise _not_rows(value, who)
    if leaves_others:
        batches = [_only_declared(batch, schema) for batch in batches]
    fitted = [fit(batch, schema, who) for batch in batches]
    return [batch for batch in fitted if batch.num_rows]


def _only_declared(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = batch.schema.names
    wanted = [number for number, name in enumerate(names) if name in schema.names]
    return batch if len(wanted) == len(names) else batch.select(wanted)


def _from_table(table: pa.Table) -> list[pa.RecordBatch]:
    # A table without rows may have no batch at all, and its columns are still to be checked.
    return table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]


def _is_pandas(value: object) -> bool:
    # Who has a frame has imported pandas; who has none need not wait for it.
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _from_pandas(
    frame: Any,  # noqa: ANN401  a pandas.DataFrame
    schema: pa.Schema,
    who: str,
    *,
    leaves_others: bool,
) -> pa.RecordBatch:
    positions = [
        position
        for position, name in enumerate(frame.columns)
        if not leaves_others or str(name) in schema.names
    ]
    names = [str(frame.columns[position]) for position in positions]
    _check_names(names, schema, who)
    series = [frame.iloc[:, position] for position in positions]
    # Objects have no type of their own: they are read as what is declared.
    columns = [
        _from_values(column, schema.field(name), column.dtype == object, who)
        for name, column in zip(names, series, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=names)


def _from_rows(
    rows: list[dict[str, object]], schema: pa.Schema, who: str, *, leaves_others: bool
) -> pa.RecordBatch:
    names = set(schema.names)
    for number, row in enumerate(rows):
        if row.keys() != names and not (leaves_others and row.keys() > names):
            _check_names(list(row), schema, f"{who}, row {number}", leaves_others=leaves_others)
    columns = [_from_values([row[field.name] for row in rows], field, True, who) for field in schema]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _from_values(values: Sequence[object], field: pa.Field, are_objects: bool, who: str) -> pa.Array:
    """A column of Python objects read as the declared type, or of a type that its values have already."""
    needs = f"{who}: column '{field.name}' must be {field.type}, got"
    fix = "Convert it before sending, or declare another type."
    try:
        column = pa.array(
            values, field.type if are_objects else None, from_pandas=not isinstance(values, list)
        )
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(f"{needs} a value that is not one: {error}. {fix}") from error
    if are_objects:
        # Arrow reads 1.5 as the integer 1, a datetime as its date and a naive time as UTC, without a word.
        came = column.to_pylist()
        if not _are_equal(values, came):
            for given, read in zip(values, came, strict=True):
                if not _is_same(given, read):
                    raise SchemaError(f"{needs} {given!r}, which would become {read!r}. {fix}")
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _are_equal(values: Sequence[object], came: list[object]) -> bool:
    """Return whether a list is equal as it is, which is most often so and needs no look at single values."""
    try:
        return isinstance(values, list) and values == came
    except ValueError:  # numpy does not say of arrays whether they are equal
        return False


def _is_same(given: Any, read: Any) -> bool:  # noqa: ANN401  any Python value
    """Whether what Arrow has read is the value that was given; it reads null where it was given one."""
    if read is None:
        return True
    if isinstance(read, dict):
        return (
            isinstance(given, dict)
            and given.keys() == read.keys()
            and all(_is_same(given[name], read[name]) for name in read)
        )
    if isinstance(read, list | tuple):
        parts = given.items() if isinstance(given, dict) else given
        return all(_is_same(one, other) for one, other in zip(parts, read, strict=True))
    return bool(given == read or (given != given and read != read))


def _from_stream(value: object, who: str) -> list[pa.RecordBatch]:
    try:
        return _from_table(pa.RecordBatchReader.from_stream(value).read_all())
    except (pa.ArrowException, TypeError) as error:  # a stream of single values, such as a polars Series
        raise _not_rows(value, who) from error


def _check_names(names: Sequence[str], schema: pa.Schema, who: str, *, leaves_others: bool = False) -> None:
    """Refuse columns that are missing, not declared, or there twice."""
    check_asked(names, schema, who)
    if missing := [name for name in schema.names if name not in names]:
        raise SchemaError(
            f"{who} lacks {_named(missing)}, which the schema declares; it has {_named(names)}. "
            "Add what is missing, or declare only what is there."
        )
    extra = [name for name in names if name not in schema.names]
    if extra and not leaves_others:
        raise SchemaError(
            f"{who} has {_named(extra)}, but the schema declares only {_named(schema.names)}. "
            "Drop what is not declared before sending, or declare it."
        )
    if (twice := _twice(names)) is not None:
        raise SchemaError(f"{who} has the column '{twice}' twice. Rename or drop one before sending.")


def _fit_array(array: pa.Array, field: pa.Field, where: str, nulls_above: int = 0) -> pa.Array:
    """The same values with the type of the field, and no null where it must have none.

    ``nulls_above`` of the nulls are there because the struct around them is null: they do not count.
    """
    nulls = array.null_count - nulls_above
    if nulls and not field.nullable:
        raise SchemaError(
            f"{where} must not be null, got {nulls} nulls in {len(array)} rows. Fill or drop them before "
            "sending, or declare it without 'not null'."
        )
    needed, came = field.type, array.type
    if came == needed:
        return array
    if types.is_dictionary(came):
        return _fit_array(array.dictionary, field, where).take(array.indices)
    if types.is_struct(needed) and types.is_struct(came):
        return _fit_struct(array, needed, where)
    if types.is_map(needed) and types.is_map(came):
        return _fit_map(array, needed, where)
    if types.is_list(needed) and came.id in _LISTS:
        elements = _fit_array(array.flatten(), needed.value_field, f"{where}, element")
        return pa.ListArray.from_arrays(_offsets(array), elements, type=needed)
    if not _keeps_every_value(came, needed):
        raise SchemaError(f"{where} must be {needed}, got {came}. {_what_to_do(field, came)}")
    try:
        return array.cast(needed)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"{where} must be {needed}, got {came} with values that do not fit: {error}. Round or drop "
            "them before sending, or declare another type."
        ) from error


def _fit_struct(array: pa.Array, needed: pa.DataType, where: str) -> pa.Array:
    names = [field.name for field in array.type]
    _check_names(names, pa.schema(list(needed)), where)
    # Flattened, a field is null wherever its struct is, whatever its own buffers hold there.
    came, nulls = array.flatten(), array.null_count
    columns = [
        _fit_array(came[names.index(field.name)], field, f"{where}, field '{field.name}'", nulls)
        for field in needed
    ]
    mask = array.is_null() if nulls else None
    return pa.StructArray.from_arrays(columns, fields=list(needed), mask=mask)


def _fit_map(array: pa.Array, needed: pa.DataType, where: str) -> pa.Array:
    # As the list of entries that it is: a map itself can neither be flattened nor measured.
    key_field, item_field = array.type.key_field, array.type.item_field
    entries = pa.StructArray.from_arrays([array.keys, array.items], fields=[key_field, item_field])
    lists = pa.Array.from_buffers(
        pa.list_(entries.type), len(array), array.buffers()[:2], array.null_count, array.offset, [entries]
    )
    flat = lists.flatten()
    keys = _fit_array(flat.field(0), needed.key_field, f"{where}, key")
    values = _fit_array(flat.field(1), needed.item_field, f"{where}, value")
    return pa.MapArray.from_arrays(_offsets(lists), keys, values, type=needed)


def _offsets(lists: pa.Array) -> pa.Array:
    """The offsets of lists in their flattened values; a null list has a null offset."""
    ends = np.cumsum(pc.list_value_length(lists).fill_null(0).to_numpy())
    is_null = np.append(lists.is_null().to_numpy(zero_copy_only=False), False)
    return pa.array(np.append(0, ends), pa.int32(), mask=is_null)


def _has_view(data_type: pa.DataType) -> bool:
    children = [data_type.field(position) for position in range(data_type.num_fields)]
    return data_type.id in _VIEWS or any(_has_view(child.type) for child in children)


def _keeps_every_value(came: pa.DataType, needed: pa.DataType) -> bool:
    """Return whether a safe cast from one plain type to the other keeps all that it does not refuse."""
    if types.is_integer(came) and types.is_integer(needed):
        low, high = _bounds(needed)
        return low <= _bounds(came)[0] and _bounds(came)[1] <= high
    if types.is_floating(needed) and (types.is_integer(came) or types.is_floating(came)):
        # All integers of so many bits are floats.
        bits_max = needed.bit_width if types.is_floating(came) else {16: 11, 32: 24, 64: 53}[needed.bit_width]
        return bool(came.bit_width <= bits_max)
    if types.is_decimal(came) and types.is_decimal(needed):
        grown: int = needed.scale - came.scale
        return bool(0 <= grown <= needed.precision - came.precision)
    if types.is_timestamp(came) and types.is_timestamp(needed):
        return bool((came.tz is None) == (needed.tz is None))
    return bool(types.is_null(came)) or any(came.id in kind and needed.id in kind for kind in _KINDS)


def _bounds(integer: pa.DataType) -> tuple[int, int]:
    """The lowest and the highest value of an integer type."""
    bits: int = integer.bit_width
    half = 1 << (bits - 1)
    return (-half, half - 1) if types.is_signed_integer(integer) else (0, 2 * half - 1)


def _what_to_do(field: pa.Field, came: pa.DataType) -> str:
    if types.is_timestamp(came) and types.is_timestamp(field.type):
        return "Give the times a zone before sending." if came.tz is None else "Drop the zone before sending."
    try:
        return f"Cast it before sending, or declare '{to_ddl(pa.schema([pa.field(field.name, came)]))}'."
    except SchemaError:
        return "Cast it before sending."


def _not_rows(value: object, who: str) -> SchemaError:
    return SchemaError(
        f"{who}: rows must be a pyarrow RecordBatch or Table, a pandas or polars DataFrame, or a list of "
        f"dicts, got {_kind(value)}. Convert them to one of these."
    )


def _kind(value: object) -> str:
    if isinstance(value, list) and value:
        return f"a list with {_kind(next(row for row in value if not isinstance(row, dict)))} in it"
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _named(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "no column"


def _twice(names: Sequence[str]) -> str | None:
    return next((name for position, name in enumerate(names) if name in names[:position]), None)
