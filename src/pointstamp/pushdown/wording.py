"""Expressions as Spark SQL, if their meaning there is the same.

This is an allow-list. What is on it cannot fail for any row, so that a mistake in the data is found where it
always is, and gives the same for nulls, NaN and the ends of every range, whatever Spark's settings are
(``spark.sql.ansi.enabled``, its zone, its parser). Not on it, and why:

- integers that could overflow: each part is given the range of its values, and must fit its type;
- comparisons of floats: Spark lets Parquet's statistics leave rows out, and they know no NaN;
- division, decimals, text functions, times that are cut or moved, casts that can fail.

A column as it is may have any type.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from math import isfinite
from typing import Final

import pyarrow as pa
from pyarrow import types

from pointstamp.arrow.ddl import parse_ddl
from pointstamp.errors import SchemaError
from pointstamp.expressions.signature import function_of
from pointstamp.expressions.tree import Call, CastTo, Choice, Column, Expression, Literal, Named
from pointstamp.expressions.type_rules import BOOLEAN, common_of_all
from pointstamp.pushdown.steps import quoted

_NAMES: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.date32(): "DATE",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP_NTZ",
}
ORDERED: Final = frozenset(_NAMES) - {pa.float64(), pa.bool_()}
"""The types whose values have the same order, and are equal at the same time, here and there."""

_COMPARISONS: Final = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal_null_safe": "<=>",
}
_ARITHMETIC: Final = {"add": "+", "subtract": "-", "multiply": "*"}
_LOGIC: Final = {"and": "AND", "or": "OR"}


@dataclass(frozen=True, slots=True)
class Worded:
    """An expression in SQL, its type, and, of an integer, its least and its greatest value."""

    text: str
    type: pa.DataType
    range: tuple[int, int] | None = None


class _NotAllowed(Exception):  # noqa: N818 - it never leaves this module
    pass


def worded(expression: Expression, schema: pa.Schema) -> Worded | None:
    """An expression over these columns in SQL; None if it is not on the list."""
    try:
        return _word(expression, schema)
    except (_NotAllowed, SchemaError):
        return None


def _word(expression: Expression, schema: pa.Schema) -> Worded:
    match expression:
        case Column(name):
            kind = schema.field(name).type
            return Worded(quoted(name), kind, _range_of(kind))
        case Literal(value, data_type):
            return _literal(value, data_type)
        case Named(inner):
            return _word(inner, schema)
        case CastTo(inner, to, _):
            kind = to if isinstance(to, pa.DataType) else parse_ddl(f"value {to}").field(0).type
            return _widened(_word(inner, schema), kind)
        case Choice(branches, default):
            return _choice(branches, default, schema)
        case Call(function, arguments, options):
            return _call(function, [_known(_word(each, schema)) for each in arguments], options)
        case _:
            raise _NotAllowed


def _known(part: Worded) -> Worded:
    if part.type not in _NAMES:
        raise _NotAllowed
    return part


def _literal(value: object, data_type: pa.DataType | None) -> Worded:
    if data_type is not None:
        raise _NotAllowed
    if isinstance(value, bool):
        return Worded(str(value).upper(), BOOLEAN)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        kind = pa.int32() if -(2**31) <= value < 2**31 else pa.int64()
        return Worded(f"CAST({value} AS {_NAMES[kind]})", kind, (value, value))
    if isinstance(value, float) and isfinite(value):
        return Worded(f"CAST('{value!r}' AS DOUBLE)", pa.float64())
    if isinstance(value, str):
        # As bytes, because what a backslash means in a text is one of Spark's settings.
        return Worded(f"CAST(X'{value.encode().hex()}' AS STRING)", pa.string())
    if isinstance(value, date) and not isinstance(value, datetime):
        return Worded(f"DATE'{value.isoformat()}'", pa.date32())
    raise _NotAllowed


def _call(function: str, parts: list[Worded], options: object) -> Worded:
    if options:
        raise _NotAllowed
    signature = function_of(function, len(parts)).rule("", [part.type for part in parts], {})
    taken = [_widened(part, kind) for part, kind in zip(parts, signature.takes, strict=True)]
    texts = [part.text for part in taken]
    if function in _COMPARISONS and taken[0].type in ORDERED | {BOOLEAN}:
        return Worded(f"({texts[0]} {_COMPARISONS[function]} {texts[1]})", BOOLEAN)
    if function == "is_in" and taken[0].type in ORDERED and len(texts) > 1:
        return Worded(f"({texts[0]} IN ({', '.join(texts[1:])}))", BOOLEAN)
    if function in _LOGIC:
        return Worded(f"({texts[0]} {_LOGIC[function]} {texts[1]})", BOOLEAN)
    if function == "not":
        return Worded(f"(NOT {texts[0]})", BOOLEAN)
    if function == "is_null":
        return Worded(f"({texts[0]} IS NULL)", BOOLEAN)
    if function == "coalesce":
        return Worded(f"coalesce({', '.join(texts)})", signature.gives, _range_of(signature.gives))
    if function in _ARITHMETIC:
        return _reckoned(function, taken, signature.gives)
    if function == "mod" and types.is_integer(signature.gives):
        return _remainder(taken, signature.gives)
    raise _NotAllowed


def _reckoned(function: str, parts: Sequence[Worded], gives: pa.DataType) -> Worded:
    one, other = parts
    text = f"({one.text} {_ARITHMETIC[function]} {other.text})"
    if gives == pa.float64():
        return Worded(text, gives)
    if one.range is None or other.range is None or not types.is_integer(gives):
        raise _NotAllowed
    results = [_ON_INTEGERS[function](a, b) for a in one.range for b in other.range]
    reached, allowed = (min(results), max(results)), _range_of(gives)
    if allowed is None or reached[0] < allowed[0] or reached[1] > allowed[1]:
        raise _NotAllowed
    return Worded(text, gives, reached)


_ON_INTEGERS: Final = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
}


def _remainder(parts: Sequence[Worded], gives: pa.DataType) -> Worded:
    """By a number above zero that is the same for every row."""
    divided, by = parts
    if by.range is None or by.range[0] != by.range[1] or by.range[0] < 1:
        raise _NotAllowed
    most = by.range[0] - 1
    return Worded(f"({divided.text} % {by.text})", gives, (-most, most))


def _choice(
    branches: Sequence[tuple[Expression, Expression]], default: Expression | None, schema: pa.Schema
) -> Worded:
    conditions = [_word(condition, schema) for condition, _ in branches]
    values = [_known(_word(value, schema)) for _, value in branches]
    last = None if default is None else _known(_word(default, schema))
    met = common_of_all([part.type for part in (*values, *([last] if last else []))], "")
    if any(condition.type != BOOLEAN for condition in conditions):
        raise _NotAllowed
    whens = " ".join(
        f"WHEN {condition.text} THEN {_widened(value, met).text}"
        for condition, value in zip(conditions, values, strict=True)
    )
    otherwise = f"CAST(NULL AS {_NAMES[met]})" if last is None else _widened(last, met).text
    return Worded(f"CASE {whens} ELSE {otherwise} END", met, _range_of(met))


def _widened(part: Worded, to: pa.DataType) -> Worded:
    """The same values in a type that holds all of them."""
    if part.type == to:
        return part
    is_wider = types.is_signed_integer(to) and types.is_signed_integer(part.type)
    if not is_wider or to.bit_width < part.type.bit_width:
        raise _NotAllowed
    return Worded(f"CAST({part.text} AS {_NAMES[to]})", to, part.range)


def _range_of(kind: pa.DataType) -> tuple[int, int] | None:
    if not types.is_signed_integer(kind):
        return None
    most = 1 << (kind.bit_width - 1)
    return -most, most - 1
