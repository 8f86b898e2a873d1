"""From a tree to a function of a batch: names found, types checked, kernels chosen, once.

``compile_expression`` answers for certain columns which type an expression has, and gives a ``Compiled``
that works it out for any batch of them. What is wrong is said then, with the part of the expression that
is: an unknown column, types that do not meet, a function that does not exist. What only a value can do
wrong, a division by zero or a cast that does not fit, is an error of the batch.

A part that is the same for every row is a scalar all the way, and is worked out when the flow is built.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions import arithmetic, comparison, dates, months, strings, windows
from pointstamp.expressions.decimals import floats_of
from pointstamp.expressions.function import Datum, function_of
from pointstamp.expressions.printing import texts_of_floats
from pointstamp.expressions.tree import Call, CastTo, Choice, Column, Expression, Literal, Named
from pointstamp.expressions.typing import BOOLEAN, common_of_all
from pointstamp.rows.ddl import parse_ddl

del arithmetic, comparison, dates, months, strings, windows  # imported because each makes its functions known

_INTEGER_DIGITS: Final = 20
"""How many digits an integer of 64 bits may have, with or without a sign."""

_Step: TypeAlias = Callable[[pa.RecordBatch], Datum]


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression for batches with certain columns: its type, and what works it out."""

    type: pa.DataType
    _step: _Step
    tree: Expression = field(compare=False)

    @property
    def text(self) -> str:
        """The expression as it was written."""
        return str(self.tree)

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """Its value for each row."""
        datum = self._step(batch)
        if isinstance(datum, pa.Scalar):
            return pa.repeat(datum, batch.num_rows)
        return datum.combine_chunks() if isinstance(datum, pa.ChunkedArray) else datum


def compile_expression(expression: Expression, schema: pa.Schema, who: str) -> Compiled:
    """What an expression is for these columns; ``who`` is who asks, for errors."""
    data_type, step, is_constant = _Compiler(schema, who).compile(expression)
    if is_constant:
        step = _constant(_scalar(step, f"{who}: {expression}"))
    if types.is_null(data_type):
        raise SchemaError(
            f"{who}: {expression} is always null and has no type. Cast it, for example to 'long'."
        )
    return Compiled(data_type, step, expression)


def compile_condition(expression: Expression, schema: pa.Schema, who: str) -> Compiled:
    """An expression that must be a boolean."""
    compiled = compile_expression(expression, schema, who)
    if not types.is_boolean(compiled.type):
        raise SchemaError(f"{who} needs a condition, and {expression} is {compiled.type}.")
    return compiled


_Part: TypeAlias = tuple[pa.DataType, _Step, bool]
"""A type, how it is worked out, and whether it is the same for every row."""


class _Compiler:
    def __init__(self, schema: pa.Schema, who: str) -> None:
        self._schema = schema
        self._who = who

    def compile(self, expression: Expression) -> _Part:
        match expression:
            case Column(name):
                return self._column(name)
            case Literal(value, data_type):
                scalar = self._literal(value, data_type)
                return scalar.type, _constant(scalar), True
            case Named(inner):
                return self.compile(inner)
            case CastTo(inner, to, is_tried):
                return self._cast(expression, self.compile(inner), self._type(to, expression), is_tried)
            case Call():
                return self._call(expression)
            case Choice():
                return self._case(expression)
            case _:
                raise FlowError(
                    f"{self._who} needs an expression, and was given {type(expression).__name__}."
                )

    def _column(self, name: str) -> _Part:
        position = self._schema.get_field_index(name)
        if position < 0:
            known = ", ".join(f"'{field.name}' {field.type}" for field in self._schema)
            raise SchemaError(f"{self._who} needs the column '{name}'; there are {known}.")
        return self._schema.field(position).type, lambda batch: batch.column(position), False

    def _literal(self, value: Any, data_type: pa.DataType | None) -> pa.Scalar:  # noqa: ANN401
        if isinstance(value, pa.Scalar):
            return value
        try:
            if isinstance(value, int) and not isinstance(value, bool) and data_type is None:
                # As Spark has it: an int where it fits, else a long.
                data_type = pa.int32() if -(2**31) <= value < 2**31 else pa.int64()
            if isinstance(value, timedelta) and data_type is None:
                data_type = pa.duration("us")
            return pa.scalar(value, data_type)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise SchemaError(f"{self._who}: {value!r} is no value of a column: {error}") from error

    def _type(self, given: str | pa.DataType, expression: Expression) -> pa.DataType:
        if isinstance(given, pa.DataType):
            return given
        try:
            return parse_ddl(f"value {given}").field(0).type
        except SchemaError as error:
            raise SchemaError(f"{self._who}: {expression}: {error}") from error

    def _call(self, call: Call) -> _Part:
        what = f"{self._who}: {call}"
        parts = [self.compile(argument) for argument in call.arguments]
        try:
            function = function_of(call.function, len(parts))
        except SchemaError as error:
            raise SchemaError(f"{what}: {error}") from error
        options = dict(call.options or {})
        signature = function.rule(what, [part[0] for part in parts], options)
        steps = [_as_type(part, taken, what)[1] for part, taken in zip(parts, signature.takes, strict=True)]
        kernel, is_constant = signature.kernel or function.kernel, all(part[2] for part in parts)

        def step(batch: pa.RecordBatch) -> Datum:
            return kernel(*[each(batch) for each in steps], **options)

        if is_constant:
            return signature.gives, _constant(_scalar(step, what)), True
        return signature.gives, step, False

    def _cast(self, whole: Expression, part: _Part, to: pa.DataType, is_tried: bool) -> _Part:
        what = f"{self._who}: {whole}"
        if is_tried:
            return to, _tried(part[1], part[0], to), part[2]
        return _as_type(part, to, what, asked=True)

    def _case(self, case: Choice) -> _Part:
        what = f"{self._who}: {case}"
        conditions = [self.compile(condition) for condition, _ in case.branches]
        for (data_type, _, _), (condition, _) in zip(conditions, case.branches, strict=True):
            if not types.is_boolean(data_type) and not types.is_null(data_type):
                raise SchemaError(f"{what}: the condition {condition} is {data_type} and not boolean.")
        values = [self.compile(value) for _, value in case.branches]
        default = self.compile(case.default) if case.default is not None else None
        met = common_of_all([part[0] for part in (*values, *([default] if default else []))], what)
        tests = [_as_type(part, BOOLEAN, what)[1] for part in conditions]
        steps = [_as_type(part, met, what)[1] for part in values]
        last = _as_type(default, met, what)[1] if default else _constant(pa.scalar(None, met))

        def step(batch: pa.RecordBatch) -> Datum:
            made = last(batch)
            for test, value in zip(reversed(tests), reversed(steps), strict=True):
                made = pc.if_else(pc.coalesce(test(batch), _NO), value(batch), made)
            return made

        return met, step, False


_NO = False  # no Arrow scalar: to make one here would load pandas wherever this is imported


def _constant(scalar: pa.Scalar) -> _Step:
    return lambda batch: scalar


@cache
def _one_row() -> pa.RecordBatch:
    return pa.record_batch({"": pa.array([0])})


def _scalar(step: _Step, what: str) -> pa.Scalar:
    """What a part that asks for no column is, worked out now."""
    try:
        datum = step(_one_row())
    except (pa.ArrowException, ArithmeticError) as error:
        raise SchemaError(f"{what}: {error}") from error
    return datum if isinstance(datum, pa.Scalar) else datum[0]


def _as_type(part: _Part, to: pa.DataType, what: str, *, asked: bool = False) -> _Part:
    data_type, step, is_constant = part
    if data_type == to:
        return part
    _check_cast(data_type, to, what)

    def cast(batch: pa.RecordBatch) -> Datum:
        return cast_datum(step(batch), to)

    if is_constant:
        return to, _constant(_scalar(cast, what if asked else f"{what}: as {to}")), True
    return to, cast, False


def cast_datum(datum: Datum, to: pa.DataType) -> Datum:
    """A datum as another type; what does not fit raises, digits after the point are cut as Spark cuts."""
    found = datum.type
    if types.is_integer(to) and (types.is_floating(found) or types.is_decimal(found)):
        return pc.cast(pc.trunc(datum), to)
    if types.is_decimal(to) and types.is_integer(found):  # Arrow looks at what the type could hold
        return pc.cast(pc.cast(datum, pa.decimal256(_INTEGER_DIGITS + to.scale, to.scale)), to)
    if types.is_decimal(to) and types.is_floating(found):
        datum = pc.round(datum, ndigits=to.scale, round_mode="half_towards_infinity")
    if types.is_decimal(to) and types.is_decimal(found) and to.scale < found.scale:
        datum = pc.round(datum, ndigits=to.scale, round_mode="half_towards_infinity")
    if types.is_date(to) and types.is_timestamp(found):
        return pc.cast(pc.floor_temporal(datum, unit="day"), to)
    if types.is_string(to) and types.is_floating(found):
        return texts_of_floats(datum)
    if types.is_timestamp(to) and types.is_timestamp(found):
        return pc.cast(datum, to, safe=False)
    if types.is_floating(to) and (types.is_integer(found) or types.is_floating(found)):
        return pc.cast(datum, to, safe=False)
    if types.is_floating(to) and types.is_decimal(found):
        return floats_of(datum, to)
    if types.is_string(found) and not types.is_string(to):
        datum = pc.utf8_trim_whitespace(datum)
    return pc.cast(datum, to)


def _check_cast(found: pa.DataType, to: pa.DataType, what: str) -> None:
    try:
        cast_datum(pa.array([], found), to)
    except (pa.ArrowException, TypeError) as error:
        raise SchemaError(f"{what}: {found} cannot become {to}.") from error


def _tried(step: _Step, found: pa.DataType, to: pa.DataType) -> _Step:
    """Null for each value that does not fit: all at once if all do, and else one by one."""

    def one(value: pa.Scalar) -> pa.Scalar:
        try:
            return cast_datum(value, to)
        except (pa.ArrowException, ArithmeticError):
            return pa.scalar(None, to)

    def tried(batch: pa.RecordBatch) -> Datum:
        datum = step(batch)
        try:
            return cast_datum(datum, to)
        except (pa.ArrowException, ArithmeticError):
            if isinstance(datum, pa.Scalar):
                return one(datum)
            return pa.array([one(value).as_py() for value in datum], to)

    del found
    return tried
