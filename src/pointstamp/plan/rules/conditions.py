"""Conditions in rules: conjuncts, substitution, errors, nulls."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from pointstamp.errors import PointstampError
from pointstamp.expressions import functions
from pointstamp.expressions.compiler import Compiled, compile_expression
from pointstamp.expressions.tree import (
    Call,
    CastTo,
    Choice,
    Column,
    Expression,
    Literal,
    Named,
    columns_of,
    lit,
    value_text,
)

_STRICT: Final = frozenset(
    [
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "add",
        "subtract",
        "multiply",
        "negate",
    ]
)
"""Functions that are null if one argument is null."""


def conjuncts(condition: Expression) -> list[Expression]:
    """Return conditions that all hold exactly where this one holds, in the order of evaluation.

    >>> from pointstamp.expressions.tree import col
    >>> [str(each) for each in conjuncts((col("a") > 1) & (col("b") > 2))]
    ["(col('a') > 1)", "(col('b') > 2)"]
    """
    match condition:
        case Named(inner):
            return conjuncts(inner)
        case Call("and", arguments):
            return [part for each in arguments for part in conjuncts(each)]
        case _:
            return [condition]


def all_of(conditions: Sequence[Expression], schema: pa.Schema) -> Expression:
    """Return one condition that holds where all of these do.

    The conditions are evaluated one after the other, each for rows for which all before it hold. ``and``
    evaluates its other side where this side is null: a null is made false before a condition that can raise.
    """
    if len(conditions) > _CHAIN_MAX and not any(can_raise(each, schema) for each in conditions):
        half = len(conditions) // 2  # a tree that is as high as a chain is long cannot be evaluated
        return all_of(conditions[:half], schema) & all_of(conditions[half:], schema)
    made = conditions[0]
    for each in conditions[1:]:
        if can_raise(each, schema) and not _is_never_null(made):
            made = functions.coalesce(made, lit(False))
        made = made & each
    return made


def _is_never_null(condition: Expression) -> bool:
    match condition:
        case Call("coalesce", arguments):
            return isinstance(arguments[-1], Literal) and arguments[-1].value is not None
        case Call("is_null" | "equal_null_safe"):
            return True
        case Call("not" | "and" | "or", arguments):
            return all(map(_is_never_null, arguments))
        case _:
            return False


def can_raise(expression: Expression, schema: pa.Schema) -> bool:
    """Return whether there are rows for which an expression raises."""
    return _compiled(expression, schema).can_fail


def can_be(expression: Expression, schema: pa.Schema, found: pa.DataType) -> bool:
    """Return whether an expression is right for these columns, and of this type."""
    try:
        return bool(_compiled(expression, schema).type == found)
    except PointstampError:
        return False


_known: Final[ContextVar[dict[Any, tuple[Expression, Compiled]] | None]] = ContextVar(
    "expressions that were compiled while a plan is optimized", default=None
)


@contextmanager
def compiling_once() -> Iterator[None]:
    """Compile an expression once for columns of the same types, however many operators it passes."""
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def _compiled(expression: Expression, schema: pa.Schema) -> Compiled:
    known = _known.get()
    if known is None or isinstance(expression, Column):
        return compile_expression(expression, schema, "a rule")
    places = {name: schema.get_field_index(name) for name in columns_of(expression)}
    kinds = ((name, place < 0 or schema.field(place).type) for name, place in places.items())
    key = (id(expression), *kinds)
    if key not in known:  # the expression is kept, so that no other one has its number
        known[key] = expression, compile_expression(expression, schema, "a rule")
    return known[key][1]


def substitute(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Return an expression with others in place of columns; a column without one stays."""
    match expression:
        case Column(name):
            found = values.get(name, expression)
            while isinstance(found, Named):
                found = found.inner
            return expression if isinstance(found, Column) and found.column == name else found
        case Call(function, arguments, options):
            made = tuple(substitute(each, values) for each in arguments)
            is_same = all(new is old for new, old in zip(made, arguments, strict=True))
            return expression if is_same else Call(function, made, options)
        case CastTo(inner, to, is_tried):
            changed = substitute(inner, values)
            return expression if changed is inner else CastTo(changed, to, is_tried)
        case Named(inner, name):
            changed = substitute(inner, values)
            return expression if changed is inner else Named(changed, name)
        case Choice(branches, default):
            pairs = tuple((substitute(one, values), substitute(other, values)) for one, other in branches)
            return Choice(pairs, None if default is None else substitute(default, values))
        case _:
            return expression


_CHAIN_MAX: Final = 16
_SIZE_MAX: Final = 30
"""An expression with more parts is not put into another: a chain of steps would make it as long as it is."""


def is_small(expression: Expression) -> bool:
    """Return whether an expression has few parts."""
    waiting, count = [expression], 0
    while waiting and count <= _SIZE_MAX:
        count += 1
        match waiting.pop():
            case Call(_, arguments):
                waiting.extend(arguments)
            case CastTo(inner) | Named(inner):
                waiting.append(inner)
            case Choice(branches, default):
                waiting.extend(part for branch in branches for part in branch)
                waiting.extend([] if default is None else [default])
    return count <= _SIZE_MAX


def renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Return an expression over columns with other names."""
    return substitute(expression, {old: Column(new) for old, new in names.items()})


def is_over(expression: Expression, columns: Iterable[str]) -> bool:
    """Return whether an expression looks at these columns only, and at one of them."""
    looked_at = set(columns_of(expression))
    return bool(looked_at) and looked_at <= set(columns)


def rejects_nulls(condition: Expression, columns: Iterable[str]) -> bool:
    """Return whether a condition is false or null whenever all of these columns are null."""
    nulls = frozenset(columns)
    match condition:
        case Named(inner):
            return rejects_nulls(inner, nulls)
        case Call("and", arguments):
            return any(rejects_nulls(each, nulls) for each in arguments)
        case Call("or", arguments):
            return all(rejects_nulls(each, nulls) for each in arguments)
        case Call("not", (Call("is_null", (inner,)),)):
            return _is_null_of(inner, nulls)
        case _:
            return _is_null_of(condition, nulls)


def _is_null_of(expression: Expression, nulls: frozenset[str]) -> bool:
    """Return whether an expression is null whenever all of these columns are."""
    match expression:
        case Column(name):
            return name in nulls
        case Named(inner) | CastTo(inner):
            return _is_null_of(inner, nulls)
        case Call("not", (inner,)):
            return _is_null_of(inner, nulls)
        case Call("is_in", arguments):
            return bool(arguments) and _is_null_of(arguments[0], nulls)
        case Call(function, arguments) if function in _STRICT:
            return any(_is_null_of(each, nulls) for each in arguments)
        case _:
            return False


def expression_key(expression: Expression) -> Any:  # noqa: ANN401 - nested tuples
    """Return a value that is equal for expressions of the same structure."""
    match expression:
        case Column(name):
            return ("column", name)
        case Literal(value, data_type):
            return ("literal", type(value).__name__, value_text(value), str(data_type))
        case Call(function, arguments, options):
            return (function, tuple(map(expression_key, arguments)), repr(sorted((options or {}).items())))
        case CastTo(inner, to, is_tried):
            return ("cast", expression_key(inner), str(to), is_tried)
        case Named(inner, name):
            return ("named", expression_key(inner), name)
        case Choice(branches, default):
            made = tuple((expression_key(one), expression_key(other)) for one, other in branches)
            return ("case", made, None if default is None else expression_key(default))
        case _:
            return ("object", id(expression))


_PLAIN: Final = (
    types.is_boolean,
    types.is_integer,
    types.is_string,
    types.is_date32,
    types.is_decimal,
    types.is_float64,
)


def fold(expression: Expression) -> Expression:
    """Return an expression in which parts that are the same for every row are values.

    A part that raises, or that depends on the time zone, stays. ``and`` and ``or`` lose sides that do not
    decide; a side that is lost is not evaluated any more.

    >>> from pointstamp.expressions.tree import col
    >>> print(fold(col("a") > lit(2) * 3))
    (col('a') > 6)
    """
    match expression:
        case Named(inner, name):
            made = fold(inner)
            return expression if made is inner else Named(made, name)
        case Call(function, arguments, options):
            folded = tuple(map(fold, arguments))
            is_logic = function in ("and", "or") and len(folded) == 2
            if is_logic and (side := _decided(function, *folded)) is not None:
                return side
            is_same = all(new is old for new, old in zip(folded, arguments, strict=True))
            return _value_of(expression if is_same else Call(function, folded, options))
        case CastTo(inner, to, is_tried):
            made = fold(inner)
            return _value_of(expression if made is inner else CastTo(made, to, is_tried))
        case Choice(branches, default):
            pairs = tuple((fold(one), fold(other)) for one, other in branches)
            last = None if default is None else fold(default)
            is_same = last is default and all(
                one is first and other is second
                for (one, other), (first, second) in zip(pairs, branches, strict=True)
            )
            return expression if is_same else Choice(pairs, last)
        case _:
            return expression


def _decided(function: str, one: Expression, other: Expression) -> Expression | None:
    deciding, neutral = (False, True) if function == "and" else (True, False)
    for side, opposite in ((one, other), (other, one)):
        if isinstance(side, Literal) and side.value is deciding:
            return Literal(deciding)
        is_null = isinstance(opposite, Literal) and opposite.value is None
        if isinstance(side, Literal) and side.value is neutral and not is_null:
            return opposite
    return None


def _value_of(expression: Expression) -> Expression:
    """Return the value of an expression without columns, or the expression."""
    if next(columns_of(expression), None) is not None:
        return expression
    try:
        compiled = compile_expression(expression, _NOTHING, "a rule")
        if compiled.can_fail or compiled.uses_zone or not any(is_plain(compiled.type) for is_plain in _PLAIN):
            return expression
        value = compiled(pa.RecordBatch.from_arrays([pa.array([0])], schema=_NOTHING))[0]
    except (PointstampError, pa.ArrowException, ArithmeticError, ValueError):
        return expression
    return Literal(value.as_py(), compiled.type)


_NOTHING: Final = pa.schema({"": pa.int64()})
