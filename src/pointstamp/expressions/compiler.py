"""Compile an expression tree to a function of a batch.

``compile_expression`` answers for certain columns which type an expression has, and gives a ``Compiled``
that works it out for any batch of them. What is wrong is said then, with the part of the expression that
is: an unknown column, types that do not meet, a function that does not exist. What only a value can do
wrong, a division by zero or a cast that does not fit, is an error of the batch.

A part that can raise is evaluated for the rows that need its value and for no others
(``pointstamp.expressions.branches``). A part that is the same for every row is a scalar all the way, and is
evaluated when the flow is built; in a branch that fails then, it fails when a row takes the branch. A scalar
that depends on the time zone is evaluated once for each zone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache, partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from pointstamp.arrow.ddl import parse_ddl
from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions import (
    arithmetic,
    comparison,
    date_arithmetic,
    dates,
    hash_functions,
    higher_order,
    json_reading,
    nested,
    numbers,
    of_groups,
    regular_expressions,
    strings,
    text,
    time_windows,
    try_functions,
    value_text,
    zones,
)
from pointstamp.expressions.branches import (
    Elements,
    RowsToEvaluate,
    Step,
    choose,
    combine,
    first_known,
    is_among,
    null_on_failure,
    strictly,
)
from pointstamp.expressions.casts import can_cast_fail, cast_datum, cast_uses_zone, tried_datum
from pointstamp.expressions.signature import (
    Datum,
    Function,
    HigherOrderFunction,
    Kernel,
    Signature,
    function_of,
    higher_order_function_of,
)
from pointstamp.expressions.tree import Call, CastTo, Choice, Column, Expression, Lambda, Literal, Named
from pointstamp.expressions.type_rules import BOOLEAN, common_of_all
from pointstamp.expressions.zones import time_zone

del (
    arithmetic,
    date_arithmetic,
    comparison,
    dates,
    hash_functions,
    higher_order,
    json_reading,
    value_text,
    nested,
    numbers,
)
del (
    of_groups,
    regular_expressions,
    strings,
    text,
    try_functions,
    time_windows,
    zones,
)  # each makes its functions known


@dataclass(frozen=True, slots=True)
class Compiled:
    """An expression for batches with certain columns: its type, and what works it out."""

    type: pa.DataType
    _step: Step
    tree: Expression = field(compare=False)
    can_fail: bool = field(default=True, compare=False)
    """Whether there are values for which it raises."""
    uses_zone: bool = field(default=False, compare=False)
    """Whether its value depends on the time zone."""

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
    """Compile an expression for these columns; ``who`` names the caller in errors."""
    part = _Compiler(schema, who).compile(expression)
    if types.is_null(part.type):
        raise SchemaError(
            f"{who}: {expression} is always null and has no type. Cast it, for example to 'long'."
        )
    return Compiled(part.type, part.step, expression, part.can_fail, part.uses_zone)


def compile_condition(expression: Expression, schema: pa.Schema, who: str) -> Compiled:
    """An expression that must be a boolean."""
    compiled = compile_expression(expression, schema, who)
    if not types.is_boolean(compiled.type):
        raise SchemaError(f"{who} needs a boolean condition, but {expression} is {compiled.type}.")
    return compiled


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression: its type, how it is evaluated, and what is known of it."""

    type: pa.DataType
    step: Step
    is_constant: bool = False
    """Whether it is the same for every row."""
    can_fail: bool = False
    uses_zone: bool = False


_Parts: TypeAlias = list[_Part]


class _Compiler:
    def __init__(self, schema: pa.Schema, who: str) -> None:
        self._schema = schema
        self._who = who
        self._branches = 0
        """In how many branches the part stands that is being compiled."""

    def compile(self, expression: Expression) -> _Part:
        match expression:
            case Column(name):
                return self._column(name)
            case Literal(value, data_type):
                scalar = self._literal(value, data_type)
                return _Part(scalar.type, _constant(scalar), is_constant=True)
            case Named(inner):
                return self.compile(inner)
            case CastTo(inner, to, is_tried):
                return self._cast(expression, self.compile(inner), self._type(to, expression), is_tried)
            case Call("try_eval", (inner,)):
                return self._tried(self._in_branch(inner))
            case Call(name) if (found := higher_order_function_of(name)) is not None:
                return self._higher_order(expression, found)
            case Call():
                return self._call(expression)
            case Choice():
                return self._case(expression)
            case _:
                raise FlowError(f"{self._who} needs an expression, got {type(expression).__name__}.")

    def _in_branch(self, expression: Expression) -> _Part:
        self._branches += 1
        try:
            return self.compile(expression)
        finally:
            self._branches -= 1

    def _column(self, name: str) -> _Part:
        position = self._schema.get_field_index(name)
        if position < 0:
            known = ", ".join(f"'{field.name}' {field.type}" for field in self._schema)
            raise SchemaError(f"{self._who} needs the column '{name}'; there are {known}.")
        return _Part(self._schema.field(position).type, lambda rows: rows.column(position))

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
            raise SchemaError(f"{self._who}: {value!r} cannot be a constant: {error}") from error

    def _type(self, given: str | pa.DataType, expression: Expression) -> pa.DataType:
        if isinstance(given, pa.DataType):
            return given
        try:
            return parse_ddl(f"value {given}").field(0).type
        except SchemaError as error:
            raise SchemaError(f"{self._who}: {expression}: {error}") from error

    def _call(self, call: Call) -> _Part:
        what = f"{self._who}: {call}"
        is_lazy = call.function in _LAZY
        parts = [
            self._in_branch(argument) if is_lazy and number else self.compile(argument)
            for number, argument in enumerate(call.arguments)
        ]
        try:
            function = function_of(call.function, len(parts))
        except SchemaError as error:
            raise SchemaError(f"{what}: {error}") from error
        options = dict(call.options or {})
        signature = function.rule(what, [part.type for part in parts], options)
        taken = [self._as(part, kind, what) for part, kind in zip(parts, signature.takes, strict=True)]
        kernel = partial(_called, partial(signature.kernel or function.kernel, **options))
        can_fail = function.can_fail if signature.can_fail is None else signature.can_fail
        return self._folded(
            _Part(
                signature.gives,
                _step_of(function, kernel, taken, signature),
                all(part.is_constant for part in taken),
                can_fail or any(part.can_fail for part in taken),
                self._uses_zone(function, signature) or any(part.uses_zone for part in taken),
            ),
            what,
        )

    def _tried(self, part: _Part) -> _Part:
        return replace(part, step=null_on_failure(part.step, part.type), can_fail=False)

    def _higher_order(self, call: Call, function: HigherOrderFunction) -> _Part:
        what = f"{self._who}: {call}"
        parts = [self.compile(each) for each in call.arguments if not isinstance(each, Lambda)]
        found = [part.type for part in parts]
        bodies: list[_Part] = []
        for place, each in enumerate(each for each in call.arguments if isinstance(each, Lambda)):
            takes = function.parameters(what, found, place, len(each.parameters))
            fields = [pa.field(*pair) for pair in zip(each.parameters, takes, strict=True)]
            inner = _Compiler(pa.schema([*self._schema, *fields]), self._who)
            bodies.append(inner._in_branch(each.body))
        for place, needed in enumerate(function.needs(found)):
            if needed is not None and bodies[place].type != needed:
                bodies[place] = self._as(bodies[place], needed, what)
        gives = function.gives(what, found, [body.type for body in bodies])
        width = len(self._schema)

        def step(rows: RowsToEvaluate) -> Datum:
            def evaluate(body: _Part, owners: Any, values: Sequence[Datum]) -> Datum:  # noqa: ANN401
                datum = body.step(Elements(rows, width, owners, values))
                return pa.repeat(datum, len(owners)) if isinstance(datum, pa.Scalar) else datum

            data = [part.step(rows) for part in parts]
            arrays = [
                pa.repeat(datum, rows.num_rows) if isinstance(datum, pa.Scalar) else datum for datum in data
            ]
            return function.kernel(arrays, [partial(evaluate, body) for body in bodies], gives)

        uses_zone = any(part.uses_zone for part in (*parts, *bodies))
        return _Part(gives, step, can_fail=True, uses_zone=uses_zone)

    def _uses_zone(self, function: Function, signature: Signature) -> bool:
        if signature.uses_zone is not None:
            return signature.uses_zone
        times = [each for each in (*signature.takes, signature.gives) if types.is_timestamp(each)]
        return function.uses_zone and any(each.tz is not None for each in times)

    def _folded(self, part: _Part, what: str) -> _Part:
        """A part that is the same for every row, evaluated now; what fails in a branch fails there."""
        if not part.is_constant:
            return part
        try:
            scalar = _scalar(part.step, what)
        except SchemaError:
            if not self._branches:
                raise
            return replace(part, step=_failing(part.step, part.type), can_fail=True)
        if part.uses_zone:
            return replace(part, step=_constant_in_zone(part.step, what), can_fail=False)
        return replace(part, step=_constant(scalar), can_fail=False)

    def _cast(self, whole: Expression, part: _Part, to: pa.DataType, is_tried: bool) -> _Part:
        what = f"{self._who}: {whole}"
        if not is_tried:
            return self._as(part, to, what, asked=True)
        _check_cast(part.type, to, what)
        step = part.step
        uses_zone = part.uses_zone or cast_uses_zone(part.type, to)
        made = _Part(to, lambda rows: tried_datum(step(rows), to), part.is_constant, part.can_fail, uses_zone)
        return self._folded(made, what)

    def _as(self, part: _Part, to: pa.DataType, what: str, *, asked: bool = False) -> _Part:
        """A part as another type."""
        if part.type == to:
            return part
        _check_cast(part.type, to, what)
        step = part.step

        def cast(rows: RowsToEvaluate) -> Datum:
            return cast_datum(step(rows), to)

        can_fail = part.can_fail or can_cast_fail(part.type, to)
        uses_zone = part.uses_zone or cast_uses_zone(part.type, to)
        made = _Part(to, cast, part.is_constant, can_fail, uses_zone)
        return self._folded(made, what if asked else f"{what}: as {to}")

    def _case(self, case: Choice) -> _Part:
        what = f"{self._who}: {case}"
        conditions = [
            self._in_branch(condition) if number else self.compile(condition)
            for number, (condition, _) in enumerate(case.branches)
        ]
        for part, (condition, _) in zip(conditions, case.branches, strict=True):
            if not types.is_boolean(part.type) and not types.is_null(part.type):
                raise SchemaError(f"{what}: the condition must be boolean, but {condition} is {part.type}.")
        values = [self._in_branch(value) for _, value in case.branches]
        default = self._in_branch(case.default) if case.default is not None else None
        met = common_of_all([part.type for part in (*values, *([default] if default else []))], what)
        self._branches += 1  # a cast of a constant can fail, too
        tests = [self._as(part, BOOLEAN, what) for part in conditions]
        results = [self._as(part, met, what) for part in values]
        last = self._as(default, met, what) if default else _Part(met, _constant(pa.scalar(None, met)), True)
        self._branches -= 1
        every = [*tests, *results, last]
        steps = [part.step for part in tests], [part.step for part in results], last.step
        is_lazy = any(part.can_fail for part in every[1:])
        step = choose(*steps, met) if is_lazy else _choose_of_all(*steps)
        can_fail, uses_zone = any(part.can_fail for part in every), any(part.uses_zone for part in every)
        return _Part(met, step, can_fail=can_fail, uses_zone=uses_zone)


_LAZY = frozenset(["and", "or", "coalesce", "is_in"])


def _step_of(function: Function, kernel: Kernel, parts: _Parts, signature: Signature) -> Step:
    """The step of a call: for all rows at once, if no argument could raise for rows that do not need it."""
    steps = [part.step for part in parts]
    if any(part.can_fail for part in parts[1:]):
        if function.name in ("and", "or"):
            return combine(kernel, *steps, decided_by=function.name == "or")
        if function.name == "coalesce":
            return first_known(steps, signature.gives)
        if function.name == "is_in":
            return is_among(function_of("equal", 2).kernel, steps[0], steps[1:])
    order = function.order or tuple(range(len(parts)))
    if function.is_strict and any(parts[position].can_fail for position in order[1:]):
        return strictly(kernel, steps, signature.takes, order)
    return lambda rows: kernel(*[each(rows) for each in steps])


def _called(kernel: Kernel, *data: Datum) -> Datum:
    """The result of a kernel; a scalar if all arguments are scalars."""
    if data and all(isinstance(datum, pa.Scalar) for datum in data):
        return kernel(*[pa.repeat(datum, 1) for datum in data])[0]
    return kernel(*data)


def _choose_of_all(tests: list[Step], values: list[Step], last: Step) -> Step:
    """The value of the first test that holds, where every branch can be evaluated for every row."""

    def step(rows: RowsToEvaluate) -> Datum:
        made = last(rows)
        for test, value in zip(reversed(tests), reversed(values), strict=True):
            made = pc.if_else(pc.coalesce(test(rows), _NO), value(rows), made)
        return made

    return step


_NO = False  # no Arrow scalar: to make one here would load pandas wherever this is imported


def _constant(scalar: pa.Scalar) -> Step:
    return lambda rows: scalar


def _constant_in_zone(step: Step, what: str) -> Step:
    found: dict[str, pa.Scalar] = {}

    def constant(rows: RowsToEvaluate) -> Datum:
        del rows
        zone = time_zone()
        if zone not in found:
            found[zone] = _scalar(step, what)
        return found[zone]

    return constant


def _failing(step: Step, gives: pa.DataType) -> Step:
    """A constant that cannot be evaluated: it raises where a row needs it."""

    def fail(rows: RowsToEvaluate) -> Datum:
        return step(rows) if rows.num_rows else pa.scalar(None, gives)

    return fail


@cache
def _one_row() -> pa.RecordBatch:
    return pa.record_batch({"": pa.array([0])})


def _scalar(step: Step, what: str) -> pa.Scalar:
    """The value of a part that reads no column, computed now."""
    try:
        datum = step(_one_row())
    except (pa.ArrowException, ArithmeticError, ValueError) as error:
        raise SchemaError(f"{what}: {error}") from error
    return datum if isinstance(datum, pa.Scalar) else datum[0]


def _check_cast(found: pa.DataType, to: pa.DataType, what: str) -> None:
    try:
        cast_datum(pa.array([], found), to)
    except (pa.ArrowException, TypeError) as error:
        raise SchemaError(f"{what}: {found} cannot be cast to {to}.") from error
