"""SQL functions by their Spark names.

A signature is a letter for each argument: ``e`` an expression, ``s`` a string and ``i`` an integer that stand
in the text, ``n`` any number there; after ``?`` arguments may be left out, ``*`` repeats the last, and ``|``
separates signatures with different numbers of arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias

from sqlglot import exp

from pointstamp.expressions import functions as F  # noqa: N812 - as PySpark's users call it
from pointstamp.expressions.tree import Call, Expression, lit, when
from pointstamp.reduce.aggregate import Aggregate, AggregateKind
from pointstamp.sql_views.literals import constant_int, constant_text
from pointstamp.sql_views.now_conditions import is_now, refused_now
from pointstamp.sql_views.rejection import placed, refused


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
"""Nondeterministic functions: a view of them could not be kept up to date."""

GENERATORS: Final = frozenset(["explode", "explode_outer", "posexplode", "posexplode_outer"])
"""Functions that make several rows of one."""


# The aggregates of SQL by their names in Spark, each for a value and the rows that take part.

MakeAggregate: TypeAlias = Callable[[Expression, Expression | None], Aggregate]


def _plain(kind: AggregateKind, value: Expression, where: Expression | None) -> Aggregate:
    return Aggregate(kind, value, where=where)


def _count_if(value: Expression, where: Expression | None) -> Aggregate:
    return Aggregate("count", where=value if where is None else value & where)


_KINDS: Final[dict[str, AggregateKind]] = {
    "count": "count",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "avg": "avg",
    "mean": "avg",
    "median": "median",
    "variance": "var_samp",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
    "stddev": "stddev_samp",
    "std": "stddev_samp",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
    "bool_and": "bool_and",
    "every": "bool_and",
    "bool_or": "bool_or",
    "some": "bool_or",
    "any": "bool_or",
    "collect_list": "collect_list",
    "array_agg": "collect_list",
    "collect_set": "collect_set",
}

ONE_VALUE: Final[dict[str, MakeAggregate]] = {
    **{name: partial(_plain, kind) for name, kind in _KINDS.items()},
    "count_if": _count_if,
}

OF_DISTINCT: Final[dict[str, AggregateKind]] = {
    name: kind
    for name, kind in _KINDS.items()
    if kind in ("sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop", "collect_list")
}
"""Aggregates that may be of distinct values, where copies make a difference."""

BY_ANOTHER: Final[dict[str, AggregateKind]] = {"max_by": "max_by", "min_by": "min_by"}
"""Aggregates of one value in the row in which another is extreme."""

QUANTILES: Final = ("percentile", "percentile_cont")

AGGREGATES: Final = frozenset([*ONE_VALUE, *BY_ANOTHER, *QUANTILES])


# Calls of functions: the arguments of a function are matched with its signature.


def called(node: exp.Anonymous, translate: Callable[[exp.Expr], Expression]) -> Expression:
    """Translate a call of a function; SqlError if the function or the types of its arguments are unknown."""
    name = str(node.this).lower()
    _check_known(node, name)
    function = SCALARS[name]
    given = list(node.expressions)
    signatures = function.takes.split("|")
    takes = next((each for each in signatures if len(each) == len(given)), signatures[0])
    required, _, optional = takes.partition("?")
    letters = required + optional
    if letters.endswith("*"):
        letters = letters[:-1] + letters[-2] * (len(given) - len(letters) + 1)
        required = required.removesuffix("*")
    if not len(required) <= len(given) <= len(letters):
        wanted = f"{len(required)}" if len(required) == len(letters) else f"{len(required)} to {len(letters)}"
        raise refused(node, f"{name} needs {wanted} arguments, got {len(given)}")
    made: list[Any] = []
    for position, (letter, argument) in enumerate(zip(letters, given, strict=False), 1):
        words = f"argument {position} of {name}"
        if letter == "e":
            made.append(translate(argument))
        else:
            made.append((constant_text if letter == "s" else constant_int)(argument, words))
    with placed(node):
        return function.make(*made)


def constant_number(node: exp.Expr, words: str) -> float:
    """A number that stands in the text."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return float(Decimal(str(node.this)))
    raise refused(node, f"{words} must be a literal number")


def _check_known(node: exp.Anonymous, name: str) -> None:
    if is_now(node):
        raise refused_now(node)
    if name in CHANGING:
        raise refused(
            node,
            f"{name}() changes without a change of the input, so a view of it cannot be kept up to date",
            "Use a column of the input instead.",
        )
    if name in GENERATORS:
        raise refused(
            node,
            f"{name} returns several rows, so it cannot be part of an expression",
            "Write lateral view explode(...) t as x, or select explode(...) as x.",
        )
    if name in AGGREGATES:
        raise refused(node, f"the aggregate {name} is not allowed here", "Filter groups with HAVING.")
    if name not in SCALARS:
        raise refused(node, f"there is no function '{name}' here", "The SQL reference lists the functions.")
