"""The functions of SQL by their names in Spark, each with what it takes and what it is here.

A signature is a letter for each argument: ``e`` an expression, ``s`` a string and ``i`` an integer that stand
in the text, ``n`` any number there; after ``?`` arguments may be left out, ``*`` repeats the last, and ``|``
separates signatures with different numbers of arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pointstamp.expressions import functions as F  # noqa: N812 - as PySpark's users call it
from pointstamp.expressions.tree import Call, Expression, lit, when


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of expressions, and its signature."""

    make: Callable[..., Expression]
    takes: str


def _if(condition: Expression, one: Expression, other: Expression) -> Expression:
    return when(condition, one).otherwise(other)


def _nvl2(value: Expression, one: Expression, other: Expression) -> Expression:
    return when(value.is_not_null(), one).otherwise(other)


def _null_if_zero(value: Expression) -> Expression:
    return F.null_if(value, 0)


def _left(text: Expression, count: int) -> Expression:
    return F.substring(text, 1, max(count, 0))


def _right(text: Expression, count: int) -> Expression:
    return F.substring(text, -count) if count > 0 else F.substring(text, 1, 0)


def _date(value: Expression) -> Expression:
    return value.cast("date")


def _date_trunc(unit: str, value: Expression) -> Expression:
    return Call("date_trunc_instant", (value,), {"unit": unit})


def _log(first: Expression, value: Expression | None = None) -> Expression:
    return F.ln(first) if value is None else Call("log", (first, value))


def _unix_timestamp(value: Expression, pattern: str = "") -> Expression:
    return Call("to_unix_timestamp", (value,), {"format": pattern}) if pattern else F.unix_timestamp(value)


def _convert_timezone(*given: Any) -> Expression:  # noqa: ANN401 - strings and, last, an expression
    *zones, time = given
    return F.convert_timezone(time, zones[-1], zones[0] if len(zones) > 1 else None)


def _add_months(value: Expression, months: Expression) -> Expression:
    return F.add_months(value, months)


def _pi() -> Expression:
    return lit(3.141592653589793)


def _hashed(values: dict[str, tuple[Callable[..., Any], str]]) -> dict[str, ScalarFunction]:
    return {name: ScalarFunction(make, takes) for name, (make, takes) in values.items()}


SCALARS: Final = _hashed(
    {
        "abs": (F.abs, "e"),
        "add_months": (_add_months, "ee"),
        "bigint": (lambda e: e.cast("long"), "e"),
        "boolean": (lambda e: e.cast("boolean"), "e"),
        "ceil": (F.ceil, "e"),
        "ceiling": (F.ceil, "e"),
        "char_length": (F.length, "e"),
        "character_length": (F.length, "e"),
        "coalesce": (F.coalesce, "e*"),
        "concat": (F.concat, "e*"),
        "concat_ws": (F.concat_ws, "se*"),
        "contains": (lambda e, s: e.contains(s), "es"),
        "convert_timezone": (_convert_timezone, "se|sse"),
        "date": (_date, "e"),
        "date_add": (F.date_add, "ee"),
        "date_diff": (F.date_diff, "ee"),
        "date_format": (F.date_format, "es"),
        "date_sub": (F.date_sub, "ee"),
        "date_trunc": (_date_trunc, "se"),
        "dateadd": (F.date_add, "ee"),
        "datediff": (F.date_diff, "ee"),
        "day": (F.day, "e"),
        "dayofmonth": (F.day, "e"),
        "dayofweek": (F.day_of_week, "e"),
        "dayofyear": (F.day_of_year, "e"),
        "double": (lambda e: e.cast("double"), "e"),
        "endswith": (lambda e, s: e.ends_with(s), "es"),
        "exp": (F.exp, "e"),
        "float": (lambda e: e.cast("float"), "e"),
        "floor": (F.floor, "e"),
        "from_utc_timestamp": (F.from_utc_timestamp, "es"),
        "greatest": (F.greatest, "ee*"),
        "hour": (F.hour, "e"),
        "if": (_if, "eee"),
        "ifnull": (F.coalesce, "ee"),
        "iff": (_if, "eee"),
        "initcap": (F.init_cap, "e"),
        "instr": (F.instr, "es"),
        "int": (lambda e: e.cast("int"), "e"),
        "isnan": (F.is_nan, "e"),
        "isnotnull": (lambda e: e.is_not_null(), "e"),
        "isnull": (lambda e: e.is_null(), "e"),
        "lcase": (F.lower, "e"),
        "least": (F.least, "ee*"),
        "left": (_left, "ei"),
        "len": (F.length, "e"),
        "length": (F.length, "e"),
        "ln": (F.ln, "e"),
        "locate": (lambda s, e, start=1: F.instr(e, s, start), "se?i"),
        "log": (_log, "e?e"),
        "log10": (F.log10, "e"),
        "log2": (F.log2, "e"),
        "lower": (F.lower, "e"),
        "lpad": (F.lpad, "ei?s"),
        "ltrim": (F.ltrim, "e"),
        "minute": (F.minute, "e"),
        "mod": (lambda a, b: a % b, "ee"),
        "month": (F.month, "e"),
        "negative": (lambda e: -e, "e"),
        "nullif": (F.null_if, "ee"),
        "nullifzero": (_null_if_zero, "e"),
        "nvl": (F.coalesce, "ee"),
        "nvl2": (_nvl2, "eee"),
        "pi": (_pi, ""),
        "position": (lambda s, e, start=1: F.instr(e, s, start), "se?i"),
        "pow": (F.power, "ee"),
        "power": (F.power, "ee"),
        "quarter": (F.quarter, "e"),
        "regexp_extract": (F.regexp_extract, "es?i"),
        "regexp_like": (lambda e, s: e.rlike(s), "es"),
        "regexp_replace": (F.regexp_replace, "ess"),
        "repeat": (F.repeat, "ei"),
        "replace": (lambda e, old, new="": F.replace(e, old, new), "es?s"),
        "reverse": (F.reverse, "e"),
        "right": (_right, "ei"),
        "round": (F.round, "e?i"),
        "rpad": (F.rpad, "ei?s"),
        "rtrim": (F.rtrim, "e"),
        "second": (F.second, "e"),
        "sign": (F.sign, "e"),
        "signum": (F.sign, "e"),
        "size": (F.size, "e"),
        "split": (F.split, "es"),
        "split_part": (F.split_part, "esi"),
        "sqrt": (F.sqrt, "e"),
        "startswith": (lambda e, s: e.starts_with(s), "es"),
        "string": (lambda e: e.cast("string"), "e"),
        "substr": (F.substring, "ei?i"),
        "substring": (F.substring, "ei?i"),
        "timestamp": (lambda e: e.cast("timestamp"), "e"),
        "timestamp_seconds": (F.timestamp_seconds, "e"),
        "to_date": (F.to_date, "e?s"),
        "to_timestamp": (F.to_timestamp, "e?s"),
        "to_utc_timestamp": (F.to_utc_timestamp, "es"),
        "trim": (F.trim, "e"),
        "trunc": (F.trunc, "es"),
        "try_divide": (F.try_divide, "ee"),
        "try_mod": (F.try_mod, "ee"),
        "ucase": (F.upper, "e"),
        "unix_micros": (F.unix_micros, "e"),
        "unix_timestamp": (_unix_timestamp, "e?s"),
        "upper": (F.upper, "e"),
        "weekofyear": (F.week_of_year, "e"),
        "year": (F.year, "e"),
        "zeroifnull": (lambda e: F.coalesce(e, 0), "e"),
    }
)

CHANGING: Final = frozenset(
    [
        "now",
        "current_timestamp",
        "current_date",
        "curdate",
        "localtimestamp",
        "current_time",
        "rand",
        "random",
        "randn",
        "uuid",
        "shuffle",
        "monotonically_increasing_id",
        "input_file_name",
        "spark_partition_id",
        "current_user",
        "user",
        "session_user",
        "unix_timestamp()",
        "current_timezone",
        "randstr",
        "uniform",
    ]
)
"""What has another value each time it is asked for: a view made of it could not be kept up to date."""

GENERATORS: Final = frozenset(["explode", "explode_outer", "posexplode", "posexplode_outer"])
"""Functions that make several rows of one."""
