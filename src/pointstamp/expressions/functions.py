"""The functions of expressions, ``ps.functions``: PySpark's names in snake_case, over columns and values.

    from pointstamp import functions as F
    orders.with_columns(city=F.upper(ps.col("city")), day=F.date_trunc("day", "at"))

Where an expression is expected, text is the name of a column, as in PySpark; ``ps.lit`` says a text that is
meant as one. Null in, null out, unless documented otherwise.
"""

from datetime import timedelta
from typing import Any, TypeAlias

from pointstamp.expressions.dates import parse_duration
from pointstamp.expressions.time_windows import Span
from pointstamp.expressions.tree import Call, Expression, Literal, Value, col, lit

Operand: TypeAlias = Expression | str | Any
"""An expression, the name of a column, or another Python value that is the same for every row."""


def _of(given: Operand) -> Expression:
    return col(given) if isinstance(given, str) else lit(given)


def _call(function: str, *arguments: Operand, **options: Any) -> Expression:  # noqa: ANN401
    return Call(function, tuple(map(_of, arguments)), options or None)


def duration(length: str | timedelta) -> Expression:
    """Return a length of time, to add to a timestamp or to subtract from it.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("duration")
        >>> t = flow.table("t", "x timestamp_ntz")
        >>> flow.output("out", t.select(y=ps.col("x") + F.duration("10 minutes")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': datetime.datetime(2024, 5, 17, 8, 40, 15, 250000)}]

    """
    return Literal(parse_duration(length, "ps.functions.duration"))


def tumbling(time: Operand, size: Span, *, offset: Span | None = None) -> Expression:
    """Return the start of the window of event time in which a value lies.

    Examples:
        >>> flow = ps.Dataflow("tumbling")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.tumbling("x", 10)))
        >>> flow.run(t=[[{"x": 12}]]).table("out").to_pylist()
        [{'y': 10}]

    """
    return _call("tumbling", time, size=size, offset=offset)


# Null.


def coalesce(*values: Operand) -> Expression:
    """Return the first value that is not null.

    Examples:
        >>> flow = ps.Dataflow("coalesce")
        >>> flow.output("out", flow.table("t", "x long, z long").select(y=F.coalesce("x", "z")))
        >>> flow.run(t=[[{"x": None, "z": 2}]]).table("out").to_pylist()
        [{'y': 2}]

    """
    return _call("coalesce", *values)


def null_if(value: Operand, other: Value) -> Expression:
    """Return null if both are equal, otherwise the first.

    Examples:
        >>> flow = ps.Dataflow("null_if")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.null_if("x", 0)))
        >>> flow.run(t=[[{"x": 0}]]).table("out").to_pylist()
        [{'y': None}]

    """
    return Call("null_if", (_of(value), lit(other)))


def is_nan(value: Operand) -> Expression:
    """Return whether a float is NaN; false for null.

    Examples:
        >>> flow = ps.Dataflow("is_nan")
        >>> flow.output("out", flow.table("t", "x double").select(y=F.is_nan("x")))
        >>> flow.run(t=[[{"x": float("nan")}]]).table("out").to_pylist()
        [{'y': True}]

    """
    return _call("is_nan", value)


def greatest(*values: Operand) -> Expression:
    """Return the greatest value that is not null.

    Examples:
        >>> flow = ps.Dataflow("greatest")
        >>> flow.output("out", flow.table("t", "x long, z long").select(y=F.greatest("x", "z")))
        >>> flow.run(t=[[{"x": 1, "z": 2}]]).table("out").to_pylist()
        [{'y': 2}]

    """
    return _call("greatest", *values)


def least(*values: Operand) -> Expression:
    """Return the least value that is not null.

    Examples:
        >>> flow = ps.Dataflow("least")
        >>> flow.output("out", flow.table("t", "x long, z long").select(y=F.least("x", "z")))
        >>> flow.run(t=[[{"x": 1, "z": 2}]]).table("out").to_pylist()
        [{'y': 1}]

    """
    return _call("least", *values)


# Numbers.


def abs(value: Operand) -> Expression:  # noqa: A001 - SQL's word
    """Return the absolute value.

    Examples:
        >>> flow = ps.Dataflow("abs")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.abs("x")))
        >>> flow.run(t=[[{"x": -3}]]).table("out").to_pylist()
        [{'y': 3}]

    """
    return _call("abs", value)


def sign(value: Operand) -> Expression:
    """Return the sign: -1.0, 0.0 or 1.0.

    Examples:
        >>> flow = ps.Dataflow("sign")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.sign("x")))
        >>> flow.run(t=[[{"x": -3}]]).table("out").to_pylist()
        [{'y': -1.0}]

    """
    return _call("sign", value)


def round(value: Operand, digits: int = 0) -> Expression:  # noqa: A001 - SQL's word
    """Round to a number of decimal digits, half away from zero.

    Examples:
        >>> flow = ps.Dataflow("round")
        >>> flow.output("out", flow.table("t", "x double").select(y=F.round("x", 1)))
        >>> flow.run(t=[[{"x": 2.345}]]).table("out").to_pylist()
        [{'y': 2.3}]

    """
    return _call("round", value, digits=digits)


def floor(value: Operand) -> Expression:
    """Return the greatest integer that is not above the value.

    Examples:
        >>> flow = ps.Dataflow("floor")
        >>> flow.output("out", flow.table("t", "x double").select(y=F.floor("x")))
        >>> flow.run(t=[[{"x": 2.5}]]).table("out").to_pylist()
        [{'y': 2}]

    """
    return _call("floor", value)


def ceil(value: Operand) -> Expression:
    """Return the least integer that is not below the value.

    Examples:
        >>> flow = ps.Dataflow("ceil")
        >>> flow.output("out", flow.table("t", "x double").select(y=F.ceil("x")))
        >>> flow.run(t=[[{"x": 2.5}]]).table("out").to_pylist()
        [{'y': 3}]

    """
    return _call("ceil", value)


def sqrt(value: Operand) -> Expression:
    """Return the square root; NaN for a negative number.

    Examples:
        >>> flow = ps.Dataflow("sqrt")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.sqrt("x")))
        >>> flow.run(t=[[{"x": 9}]]).table("out").to_pylist()
        [{'y': 3.0}]

    """
    return _call("sqrt", value)


def exp(value: Operand) -> Expression:
    """Return e to the power of the value.

    Examples:
        >>> flow = ps.Dataflow("exp")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.exp("x")))
        >>> flow.run(t=[[{"x": 0}]]).table("out").to_pylist()
        [{'y': 1.0}]

    """
    return _call("exp", value)


def ln(value: Operand) -> Expression:
    """Return the natural logarithm; null if it is not defined.

    Examples:
        >>> flow = ps.Dataflow("ln")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.ln("x")))
        >>> flow.run(t=[[{"x": 1}]]).table("out").to_pylist()
        [{'y': 0.0}]

    """
    return _call("ln", value)


def log(base: float, value: Operand) -> Expression:
    """Return the logarithm to a base; null if it is not defined.

    Examples:
        >>> flow = ps.Dataflow("log")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.log(3, "x")))
        >>> flow.run(t=[[{"x": 9}]]).table("out").to_pylist()
        [{'y': 2.0}]

    """
    return _call("log", float(base), value)


def log10(value: Operand) -> Expression:
    """Return the logarithm to base 10; null if it is not defined.

    Examples:
        >>> flow = ps.Dataflow("log10")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.log10("x")))
        >>> flow.run(t=[[{"x": 100}]]).table("out").to_pylist()
        [{'y': 2.0}]

    """
    return _call("log10", value)


def log2(value: Operand) -> Expression:
    """Return the logarithm to base 2; null if it is not defined.

    Examples:
        >>> flow = ps.Dataflow("log2")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.log2("x")))
        >>> flow.run(t=[[{"x": 8}]]).table("out").to_pylist()
        [{'y': 3.0}]

    """
    return _call("log2", value)


def power(value: Operand, exponent: Operand) -> Expression:
    """Return the power, as a double.

    Examples:
        >>> flow = ps.Dataflow("power")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.power("x", 2)))
        >>> flow.run(t=[[{"x": 3}]]).table("out").to_pylist()
        [{'y': 9.0}]

    """
    return _call("power", value, exponent)


def try_divide(value: Operand, divisor: Operand) -> Expression:
    """Return the quotient; null if the divisor is zero.

    Examples:
        >>> flow = ps.Dataflow("try_divide")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.try_divide("x", 0)))
        >>> flow.run(t=[[{"x": 3}]]).table("out").to_pylist()
        [{'y': None}]

    """
    return _call("try_divide", value, divisor)


def whole_quotient(value: Operand, divisor: Operand) -> Expression:
    """Return the integer quotient of integers or decimals, as a long; SQL's ``div``.

    Examples:
        >>> flow = ps.Dataflow("whole_quotient")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.whole_quotient("x", 2)))
        >>> flow.run(t=[[{"x": 7}]]).table("out").to_pylist()
        [{'y': 3}]

    """
    return _call("whole_quotient", value, divisor)


def try_mod(value: Operand, divisor: Operand) -> Expression:
    """Return the remainder, with the sign of the first; null if the divisor is zero.

    Examples:
        >>> flow = ps.Dataflow("try_mod")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.try_mod("x", 2)))
        >>> flow.run(t=[[{"x": -7}]]).table("out").to_pylist()
        [{'y': -1}]

    """
    return _call("try_mod", value, divisor)


# Text.


def upper(text: Operand) -> Expression:
    """Convert to upper case.

    Examples:
        >>> flow = ps.Dataflow("upper")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.upper("x")))
        >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
        [{'y': 'ROME'}]

    """
    return _call("upper", text)


def lower(text: Operand) -> Expression:
    """Convert to lower case.

    Examples:
        >>> flow = ps.Dataflow("lower")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.lower("x")))
        >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
        [{'y': 'rome'}]

    """
    return _call("lower", text)


def init_cap(text: Operand) -> Expression:
    """Capitalize the first letter of each word.

    Examples:
        >>> flow = ps.Dataflow("init_cap")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.init_cap("x")))
        >>> flow.run(t=[[{"x": "new york"}]]).table("out").to_pylist()
        [{'y': 'New York'}]

    """
    return _call("init_cap", text)


def length(text: Operand) -> Expression:
    """Return the number of characters.

    Examples:
        >>> flow = ps.Dataflow("length")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.length("x")))
        >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
        [{'y': 4}]

    """
    return _call("length", text)


def reverse(text: Operand) -> Expression:
    """Reverse the characters.

    Examples:
        >>> flow = ps.Dataflow("reverse")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.reverse("x")))
        >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
        [{'y': 'emoR'}]

    """
    return _call("reverse", text)


def trim(text: Operand, characters: str = " ") -> Expression:
    """Remove spaces, or other characters, from both ends.

    Examples:
        >>> flow = ps.Dataflow("trim")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.trim("x")))
        >>> flow.run(t=[[{"x": " Rome "}]]).table("out").to_pylist()
        [{'y': 'Rome'}]

    """
    return _call("trim", text, characters=characters)


def ltrim(text: Operand, characters: str = " ") -> Expression:
    """Remove spaces, or other characters, from the start.

    Examples:
        >>> flow = ps.Dataflow("ltrim")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.ltrim("x")))
        >>> flow.run(t=[[{"x": " Rome "}]]).table("out").to_pylist()
        [{'y': 'Rome '}]

    """
    return _call("ltrim", text, characters=characters)


def rtrim(text: Operand, characters: str = " ") -> Expression:
    """Remove spaces, or other characters, from the end.

    Examples:
        >>> flow = ps.Dataflow("rtrim")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.rtrim("x")))
        >>> flow.run(t=[[{"x": " Rome "}]]).table("out").to_pylist()
        [{'y': ' Rome'}]

    """
    return _call("rtrim", text, characters=characters)


def concat(*values: Operand) -> Expression:
    """Concatenate texts; null if one is null.

    Examples:
        >>> flow = ps.Dataflow("concat")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.concat("x", ps.lit("!"))))
        >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
        [{'y': 'Rome!'}]

    """
    return _call("concat", *values)


def concat_ws(separator: str, *values: Operand) -> Expression:
    """Concatenate texts with a separator; nulls are skipped.

    Examples:
        >>> flow = ps.Dataflow("concat_ws")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.concat_ws("-", "x", ps.lit("IT"))))
        >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
        [{'y': 'Rome-IT'}]

    """
    return _call("concat_ws", *values, separator=separator)


def substring(text: Operand, start: int, length: int | None = None) -> Expression:
    """Return the part of a text from a position, which counts from 1, or if negative from the end.

    Examples:
        >>> flow = ps.Dataflow("substring")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.substring("x", 2, 2)))
        >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
        [{'y': 'om'}]

    """
    return _call("substring", text, start=start, length=length)


def replace(text: Operand, old: str, new: str) -> Expression:
    """Replace every occurrence of a text.

    Examples:
        >>> flow = ps.Dataflow("replace")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.replace("x", "Ro", "ro")))
        >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
        [{'y': 'rome'}]

    """
    return _call("replace", text, old=old, new=new)


def regexp_replace(text: Operand, pattern: str, replacement: str) -> Expression:
    """Replace every match of a regular expression; ``$1`` is the first group.

    Examples:
        >>> flow = ps.Dataflow("regexp_replace")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.regexp_replace("x", "[0-9]+", "#")))
        >>> flow.run(t=[[{"x": "a1b22"}]]).table("out").to_pylist()
        [{'y': 'a#b#'}]

    """
    return _call("regexp_replace", text, pattern=pattern, replacement=replacement)


def regexp_extract(text: Operand, pattern: str, group: int = 1) -> Expression:
    """Return a group of the first match of a regular expression; empty if nothing matches.

    Examples:
        >>> flow = ps.Dataflow("regexp_extract")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.regexp_extract("x", "id=([0-9]+)")))
        >>> flow.run(t=[[{"x": "id=42"}]]).table("out").to_pylist()
        [{'y': '42'}]

    """
    return _call("regexp_extract", text, pattern=pattern, group=group)


def split(text: Operand, pattern: str) -> Expression:
    """Split a text at the matches of a regular expression; return a list.

    Examples:
        >>> flow = ps.Dataflow("split")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.split("x", ",")))
        >>> flow.run(t=[[{"x": "a,b"}]]).table("out").to_pylist()
        [{'y': ['a', 'b']}]

    """
    return _call("split", text, pattern=pattern)


def split_part(text: Operand, separator: str, number: int) -> Expression:
    """Split a text at a separator and return a part by its number: from 1, or if negative from the end.

    Examples:
        >>> flow = ps.Dataflow("split_part")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.split_part("x", ",", 2)))
        >>> flow.run(t=[[{"x": "a,b"}]]).table("out").to_pylist()
        [{'y': 'b'}]

    """
    return _call("split_part", text, separator=separator, number=number)


def instr(text: Operand, part: str, start: int = 1) -> Expression:
    """Return the position of the first occurrence of a text, from 1; 0 if there is none.

    Examples:
        >>> flow = ps.Dataflow("instr")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.instr("x", "m")))
        >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
        [{'y': 3}]

    """
    return _call("instr", text, text=part, start=start)


def repeat(text: Operand, times: int) -> Expression:
    """Repeat a text.

    Examples:
        >>> flow = ps.Dataflow("repeat")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.repeat("x", 2)))
        >>> flow.run(t=[[{"x": "ab"}]]).table("out").to_pylist()
        [{'y': 'abab'}]

    """
    return _call("repeat", text, times=times)


def lpad(text: Operand, width: int, padding: str = " ") -> Expression:
    """Pad a text at the start, or cut it, to a number of characters.

    Examples:
        >>> flow = ps.Dataflow("lpad")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.lpad("x", 3, "0")))
        >>> flow.run(t=[[{"x": "7"}]]).table("out").to_pylist()
        [{'y': '007'}]

    """
    return _call("lpad", text, width=width, padding=padding)


def rpad(text: Operand, width: int, padding: str = " ") -> Expression:
    """Pad a text at the end, or cut it, to a number of characters.

    Examples:
        >>> flow = ps.Dataflow("rpad")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.rpad("x", 3, "0")))
        >>> flow.run(t=[[{"x": "7"}]]).table("out").to_pylist()
        [{'y': '700'}]

    """
    return _call("rpad", text, width=width, padding=padding)


# Time.


def year(time: Operand) -> Expression:
    """Return the year.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("year")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.year("x")))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': 2024}]

    """
    return _call("year", time)


def quarter(time: Operand) -> Expression:
    """Return the quarter of the year, 1 to 4.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("quarter")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.quarter("x")))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': 2}]

    """
    return _call("quarter", time)


def month(time: Operand) -> Expression:
    """Return the month, 1 to 12.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("month")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.month("x")))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': 5}]

    """
    return _call("month", time)


def day(time: Operand) -> Expression:
    """Return the day of the month.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("day")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.day("x")))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': 17}]

    """
    return _call("day", time)


def day_of_week(time: Operand) -> Expression:
    """Return the day of the week, 1 for Sunday to 7 for Saturday.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("day_of_week")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.day_of_week("x")))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': 6}]

    """
    return _call("day_of_week", time)


def day_of_year(time: Operand) -> Expression:
    """Return the day of the year, from 1.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("day_of_year")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.day_of_year("x")))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': 138}]

    """
    return _call("day_of_year", time)


def week_of_year(time: Operand) -> Expression:
    """Return the ISO week of the year.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("week_of_year")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.week_of_year("x")))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': 20}]

    """
    return _call("week_of_year", time)


def hour(time: Operand) -> Expression:
    """Return the hour, 0 to 23.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("hour")
        >>> flow.output("out", flow.table("t", "x timestamp_ntz").select(y=F.hour("x")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': 8}]

    """
    return _call("hour", time)


def minute(time: Operand) -> Expression:
    """Return the minute, 0 to 59.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("minute")
        >>> flow.output("out", flow.table("t", "x timestamp_ntz").select(y=F.minute("x")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': 30}]

    """
    return _call("minute", time)


def second(time: Operand) -> Expression:
    """Return the second, 0 to 59.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("second")
        >>> flow.output("out", flow.table("t", "x timestamp_ntz").select(y=F.second("x")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': 15}]

    """
    return _call("second", time)


def second_with_fraction(time: Operand) -> Expression:
    """Return the second with its fraction, as a decimal.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("second_with_fraction")
        >>> flow.output("out", flow.table("t", "x timestamp_ntz").select(y=F.second_with_fraction("x")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': Decimal('15.250000')}]

    """
    return _call("second_with_fraction", time)


def trunc(date: Operand, unit: str) -> Expression:
    """Truncate a date to the first day of its year, quarter, month or week.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("trunc")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.trunc("x", "month")))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': datetime.date(2024, 5, 1)}]

    """
    return _call("trunc", date, unit=unit)


def date_trunc(unit: str, time: Operand) -> Expression:
    """Truncate a timestamp to a unit: ``"hour"``, ``"day"``, ``"month"`` and others.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("date_trunc")
        >>> flow.output("out", flow.table("t", "x timestamp_ntz").select(y=F.date_trunc("hour", "x")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': datetime.datetime(2024, 5, 17, 8, 0)}]

    """
    return _call("date_trunc", time, unit=unit)


def date_add(date: Operand, days: Operand) -> Expression:
    """Add days to a date.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("date_add")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.date_add("x", 3)))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': datetime.date(2024, 5, 20)}]

    """
    return _call("date_add", date, days)


def date_sub(date: Operand, days: Operand) -> Expression:
    """Subtract days from a date.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("date_sub")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.date_sub("x", 3)))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': datetime.date(2024, 5, 14)}]

    """
    return _call("date_sub", date, days)


def add_months(date: Operand, months: Operand) -> Expression:
    """Add months to a date; the last day of the month if the day does not exist.

    The result is a date, as in Spark also for a timestamp. To keep the time of day, add an interval in SQL:
    ``at + interval 1 month``.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("add_months")
        >>> flow.output("out", flow.table("t", "x date").select(y=F.add_months("x", 1)))
        >>> flow.run(t=[[{"x": date(2024, 1, 31)}]]).table("out").to_pylist()
        [{'y': datetime.date(2024, 2, 29)}]

    """
    return _call("add_months", date, months)


def move_months(time: Operand, months: int) -> Expression:
    """Add months to a date or a timestamp, which keeps its time of day.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("move_months")
        >>> flow.output("out", flow.table("t", "x timestamp_ntz").select(y=F.move_months("x", 1)))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': datetime.datetime(2024, 6, 17, 8, 30, 15, 250000)}]

    """
    return _call("move_months", time, months=months)


def date_diff(end: Operand, start: Operand) -> Expression:
    """Return the number of days from the second date to the first.

    Examples:
        >>> from datetime import date
        >>> flow = ps.Dataflow("date_diff")
        >>> t = flow.table("t", "x date")
        >>> flow.output("out", t.select(y=F.date_diff("x", ps.lit(date(2024, 5, 1)))))
        >>> flow.run(t=[[{"x": date(2024, 5, 17)}]]).table("out").to_pylist()
        [{'y': 16}]

    """
    return _call("date_diff", end, start)


def unix_timestamp(time: Operand) -> Expression:
    """Return the seconds since 1970, without a fraction.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("unix_timestamp")
        >>> flow.output("out", flow.table("t", "x timestamp_ntz").select(y=F.unix_timestamp("x")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': 1715934615}]

    """
    return _call("unix_timestamp", time)


def unix_micros(time: Operand) -> Expression:
    """Return the microseconds since 1970.

    Examples:
        >>> from datetime import datetime, timezone
        >>> flow = ps.Dataflow("unix_micros")
        >>> flow.output("out", flow.table("t", "x timestamp").select(y=F.unix_micros("x")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, tzinfo=timezone.utc)}]]).table("out").to_pylist()
        [{'y': 1715904000000000}]

    """
    return _call("unix_micros", time)


def timestamp_seconds(seconds: Operand) -> Expression:
    """Return the timestamp these seconds after 1970, in UTC.

    Examples:
        >>> flow = ps.Dataflow("timestamp_seconds")
        >>> flow.output("out", flow.table("t", "x long").select(y=F.timestamp_seconds("x").cast("string")))
        >>> flow.run(t=[[{"x": 60}]]).table("out").to_pylist()
        [{'y': '1970-01-01 00:01:00'}]

    """
    return _call("timestamp_seconds", seconds)


def date_format(time: Operand, format: str) -> Expression:  # noqa: A002 - Spark's word
    """Format a date or a timestamp by a pattern of Spark, such as ``"yyyy-MM-dd"``.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("date_format")
        >>> t = flow.table("t", "x timestamp_ntz")
        >>> flow.output("out", t.select(y=F.date_format("x", "dd.MM.yyyy")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': '17.05.2024'}]

    """
    return _call("date_format", time, format=format)


def to_timestamp(text: Operand, format: str | None = None) -> Expression:  # noqa: A002 - Spark's word
    """Parse a timestamp, by a pattern of Spark or as a cast. A text that does not fit raises an error.

    Examples:
        >>> flow = ps.Dataflow("to_timestamp")
        >>> t = flow.table("t", "x string")
        >>> flow.output("out", t.select(y=F.to_timestamp("x", "dd.MM.yyyy").cast("string")))
        >>> flow.run(t=[[{"x": "17.05.2024"}]]).table("out").to_pylist()
        [{'y': '2024-05-17 00:00:00'}]

    """
    return _of(text).cast("timestamp") if format is None else _call("to_timestamp", text, format=format)


def to_date(text: Operand, format: str | None = None) -> Expression:  # noqa: A002 - Spark's word
    """Parse a date, by a pattern of Spark or as a cast. A text that does not fit raises an error.

    Examples:
        >>> flow = ps.Dataflow("to_date")
        >>> flow.output("out", flow.table("t", "x string").select(y=F.to_date("x", "dd.MM.yyyy")))
        >>> flow.run(t=[[{"x": "17.05.2024"}]]).table("out").to_pylist()
        [{'y': datetime.date(2024, 5, 17)}]

    """
    return _of(text).cast("date") if format is None else _call("to_date", text, format=format)


def from_utc_timestamp(time: Operand, zone: str) -> Expression:
    """Convert a timestamp from UTC to the local time of a zone.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("from_utc_timestamp")
        >>> t = flow.table("t", "x timestamp_ntz")
        >>> flow.output("out", t.select(y=F.from_utc_timestamp("x", "Europe/Rome").cast("string")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': '2024-05-17 10:30:15.25'}]

    """
    return _call("from_utc_timestamp", time, zone=zone)


def to_utc_timestamp(time: Operand, zone: str) -> Expression:
    """Convert a timestamp from the local time of a zone to UTC.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("to_utc_timestamp")
        >>> t = flow.table("t", "x timestamp_ntz")
        >>> flow.output("out", t.select(y=F.to_utc_timestamp("x", "Europe/Rome").cast("string")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': '2024-05-17 06:30:15.25'}]

    """
    return _call("to_utc_timestamp", time, zone=zone)


def at_time_zone(time: Operand, zone: str) -> Expression:
    """Return the local time of a zone at an instant; for a timestamp without zone, the instant.

    Examples:
        >>> from datetime import datetime, timezone
        >>> flow = ps.Dataflow("at_time_zone")
        >>> flow.output("out", flow.table("t", "x timestamp").select(y=F.at_time_zone("x", "Europe/Rome")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, tzinfo=timezone.utc)}]]).table("out").to_pylist()
        [{'y': datetime.datetime(2024, 5, 17, 2, 0)}]

    """
    return _call("at_time_zone", time, zone=zone)


def convert_timezone(time: Operand, target: str, source: str | None = None) -> Expression:
    """Convert the local time of a zone to the local time of another one, without a zone.

    Args:
        time: A timestamp without zone.
        target: The zone of the result.
        source (str, default the time zone of the flow): The zone of the timestamp.

    Examples:
        >>> from datetime import datetime
        >>> flow = ps.Dataflow("convert_timezone")
        >>> t = flow.table("t", "x timestamp_ntz")
        >>> flow.output("out", t.select(y=F.convert_timezone("x", "Europe/Rome", "UTC")))
        >>> flow.run(t=[[{"x": datetime(2024, 5, 17, 8, 30, 15, 250000)}]]).table("out").to_pylist()
        [{'y': datetime.datetime(2024, 5, 17, 10, 30, 15, 250000)}]

    """
    return _call("convert_timezone", time, source=source, target=target)


# Structs and lists.


def size(values: Operand) -> Expression:
    """Return the number of elements of a list.

    Examples:
        >>> flow = ps.Dataflow("size")
        >>> flow.output("out", flow.table("t", "x array<long>").select(y=F.size("x")))
        >>> flow.run(t=[[{"x": [5, 3]}]]).table("out").to_pylist()
        [{'y': 2}]

    """
    return _call("size", values)
