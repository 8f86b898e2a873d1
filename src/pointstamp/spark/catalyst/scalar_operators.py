"""Operators of Catalyst: literals, attributes, arithmetic, comparison, logic, casts, branches and structs."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
from pyarrow import types

from pointstamp.arrow.ddl import type_to_ddl
from pointstamp.expressions.by_row import array_of
from pointstamp.expressions.tree import Call, CastTo, Choice, Expression, Literal
from pointstamp.expressions.value_text import read_date
from pointstamp.spark.catalyst.expression_context import ExpressionContext, Handler
from pointstamp.spark.catalyst.trees import TreeNode

_DAYS_MAX: Final = 2_932_896
"""9999-12-31, the last day of Python's dates."""
_DAYS_MIN: Final = -719_162


def call(name: str) -> Handler:
    """Return the handler of a class whose children are the arguments of a function of ours."""
    return lambda translator, node: Call(name, translator.all(node.children))


# Leaves.


def _literal(translator: ExpressionContext, node: TreeNode) -> Expression:
    value, kind = node.fields["value"], translator.type(node.fields["dataType"], node)
    if value is None:
        return Literal(None, kind)
    return Literal(_value(translator, node, value, kind), kind)


def _value(translator: ExpressionContext, node: TreeNode, value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401
    if types.is_boolean(kind):
        return value == "true"
    if types.is_integer(kind):
        return int(value)
    if types.is_floating(kind):
        return float(value)
    if types.is_decimal(kind):
        return Decimal(value)
    if types.is_string(kind):
        return value
    if types.is_binary(kind) and isinstance(value, bytes):
        return value
    if types.is_date(kind):
        days = read_date(value)
        if _DAYS_MIN <= days <= _DAYS_MAX:
            return date(1970, 1, 1) + timedelta(days=days)
        return array_of([days], kind)[0]
    if types.is_timestamp(kind) and (kind.tz is None or isinstance(value, int)):
        zone = None if kind.tz is None else UTC
        if _DAYS_MIN <= int(value) // 86_400_000_000 <= _DAYS_MAX:
            return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=int(value))
        return array_of([int(value)], kind)[0]
    if types.is_duration(kind):
        return timedelta(microseconds=int(value))
    if types.is_list(kind) and value == "[]":
        return pa.scalar([], kind)
    if types.is_nested(kind) and not isinstance(value, str):
        return array_of([value], kind)[0]
    raise translator.rejected(node, f"a literal of the type {node.fields['dataType']} is not supported")


# Arithmetic.


def mode_of(translator: ExpressionContext, node: TreeNode) -> str:
    """Return the evaluation mode of a node: ANSI, LEGACY or TRY."""
    found = node.fields.get("evalMode") or node.fields.get("evalContext")
    if found is None:
        raise translator.rejected(node, "the plan was not completed, so its evaluation mode is not known")
    text = str(found)
    for mode in ("ANSI", "LEGACY", "TRY"):
        if mode in text:
            if text.endswith(",false)"):
                raise translator.rejected(
                    node, "spark.sql.decimalOperations.allowPrecisionLoss=false is not supported"
                )
            return mode
    raise translator.rejected(node, f"the evaluation mode {text} is not known")


def _by_mode(ansi: str, legacy: str, tried: str) -> Handler:
    names = {"ANSI": ansi, "LEGACY": legacy, "TRY": tried}

    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        return Call(names[mode_of(translator, node)], translator.all(node.children))

    return handler


def _pmod(translator: ExpressionContext, node: TreeNode) -> Expression:
    is_tried = mode_of(translator, node) != "ANSI"
    return Call("pmod", translator.all(node.children), {"is_tried": True} if is_tried else None)


def _by_failing(ansi: str, legacy: str, field: str = "failOnError") -> Handler:
    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        return Call(ansi if node.fields[field] else legacy, translator.all(node.children))

    return handler


def _negated(translator: ExpressionContext, node: TreeNode) -> Expression:
    (value,) = translator.all(node.children)
    if types.is_duration(translator.type_of(value)):
        return Call("multiply", (value, Literal(-1)))
    return Call("negate" if node.fields["failOnError"] else "wrapping_negate", (value,))


def _round(translator: ExpressionContext, node: TreeNode) -> Expression:
    value = translator.translate(node.children[0])
    digits = 0 if len(node.children) == 1 else translator.constant(node.children[1], "the number of digits")
    if digits is None:
        raise translator.rejected(node, "the number of digits is null")
    is_ansi = node.fields.get("ansiEnabled", True)
    if not is_ansi and types.is_integer(translator.type_of(value)) and digits < 0:
        raise translator.rejected(node, "rounding integers to tens without ANSI mode is not supported")
    return Call("round", (value,), {"digits": digits})


# Casts.


def _cast(translator: ExpressionContext, node: TreeNode) -> Expression:
    inner = translator.translate(node.children[0])
    mode = mode_of(translator, node)
    found, to = _cast_types(translator, node, inner)
    _check_cast(translator, node, found, to)
    if types.is_duration(found) and types.is_string(to):
        raise translator.rejected(node, "the text of an interval depends on its unit, which is not stored")
    if found == to:
        return inner
    if mode == "LEGACY":
        return Call("legacy_cast", (inner,), {"to": type_to_ddl(to)})
    return CastTo(inner, to, is_tried=mode == "TRY")


def _cast_types(
    translator: ExpressionContext, node: TreeNode, inner: Expression
) -> tuple[pa.DataType, pa.DataType]:
    to = translator.type(node.fields["dataType"], node)
    if isinstance(inner, Literal) and inner.value is None:
        return inner.type or pa.null(), to
    return translator.type_of(inner), to


def _check_cast(translator: ExpressionContext, node: TreeNode, found: pa.DataType, to: pa.DataType) -> None:
    zone = node.fields.get("timeZoneId")
    if zone is not None and zone != translator.session.time_zone:
        raise translator.rejected(node, f"its time zone {zone} is not that of the session")
    if types.is_duration(found) != types.is_duration(to) and not types.is_null(found):
        raise translator.rejected(node, "casts of intervals are not supported")


# Comparison and branches.


def _in_set(translator: ExpressionContext, node: TreeNode) -> Expression:
    raise translator.rejected(node, "a set of values is not in the plan before it is optimized")


def _case(translator: ExpressionContext, node: TreeNode) -> Expression:
    parts = translator.all(node.children)
    pairs = tuple(zip(parts[0::2], parts[1::2], strict=False))
    default = parts[-1] if len(parts) % 2 else None
    return Choice(pairs, default)


def _if(translator: ExpressionContext, node: TreeNode) -> Expression:
    condition, one, other = translator.all(node.children)
    return Choice(((condition, one),), other)


def _is_not_null(translator: ExpressionContext, node: TreeNode) -> Expression:
    return Call("not", (Call("is_null", translator.all(node.children)),))


def _nan_or(translator: ExpressionContext, node: TreeNode) -> Expression:
    one, other = translator.all(node.children)
    return Choice(((Call("is_nan", (one,)), other),), one)


# Structs.


def _struct(translator: ExpressionContext, node: TreeNode) -> Expression:
    names = [translator.constant(each, "the name of a field") for each in node.children[0::2]]
    if len(set(names)) < len(names):
        raise translator.rejected(node, "a struct has two fields of one name")
    return Call("struct", translator.all(node.children[1::2]), {"names": tuple(names)})


def _field(translator: ExpressionContext, node: TreeNode) -> Expression:
    struct = translator.translate(node.children[0])
    kind = translator.type_of(struct)
    return Call("field", (struct,), {"name": kind.field(node.fields["ordinal"]).name})


def _inner(translator: ExpressionContext, node: TreeNode) -> Expression:
    return translator.translate(node.children[0])


OPERATORS: Final[Mapping[str, Handler]] = {
    "Literal": _literal,
    "AttributeReference": lambda translator, node: translator.attribute(node),
    "NamedLambdaVariable": lambda translator, node: translator.parameter(node),
    "With": lambda translator, node: translator.shared(node),
    "CommonExpressionRef": lambda translator, node: translator.reference(node),
    "ScalarSubquery": lambda translator, node: translator.subquery(node),
    "AggregateExpression": lambda translator, node: translator.column_of(node),
    "WindowExpression": lambda translator, node: translator.column_of(node),
    "Alias": _inner,
    "KnownFloatingPointNormalized": _inner,
    "KnownNullable": _inner,
    "KnownNotNull": _inner,
    "KnownNotContainsNull": _inner,
    "TaggingExpression": _inner,
    "UnaryPositive": _inner,
    "Add": _by_mode("add", "wrapping_add", "try_add"),
    "Subtract": _by_mode("subtract", "wrapping_subtract", "try_subtract"),
    "Multiply": _by_mode("multiply", "wrapping_multiply", "try_multiply"),
    "Divide": _by_mode("divide", "divide_or_null", "divide_or_null"),
    "IntegralDivide": _by_mode("whole_quotient", "wrapping_whole_quotient", "wrapping_whole_quotient"),
    "Remainder": _by_mode("mod", "mod_or_null", "mod_or_null"),
    "Pmod": _pmod,
    "UnaryMinus": _negated,
    "Abs": _by_failing("abs", "wrapping_abs"),
    "Round": _round,
    "Ceil": call("ceil"),
    "Floor": call("floor"),
    "Cast": _cast,
    "TryEval": lambda translator, node: Call("try_eval", translator.all(node.children)),
    "EqualTo": call("equal"),
    "EqualNullSafe": call("equal_null_safe"),
    "LessThan": call("less"),
    "LessThanOrEqual": call("less_equal"),
    "GreaterThan": call("greater"),
    "GreaterThanOrEqual": call("greater_equal"),
    "And": call("and"),
    "Or": call("or"),
    "Not": call("not"),
    "In": call("is_in"),
    "InSet": _in_set,
    "IsNull": call("is_null"),
    "IsNotNull": _is_not_null,
    "IsNaN": call("is_nan"),
    "NaNvl": _nan_or,
    "CaseWhen": _case,
    "If": _if,
    "Coalesce": call("coalesce"),
    "Greatest": call("greatest"),
    "Least": call("least"),
    "CreateNamedStruct": _struct,
    "GetStructField": _field,
}
