"""Expressions and awkward values for which the answers of Spark are known.

``VALUES`` has a column of values for each type: nulls, NaN, -0.0, limits, text beyond ASCII, dates before 1970,
instants around changes of clocks. ``EXPRESSIONS`` are asked of the product of the columns that they name, in
the time zone that stands before them. ``answers_here`` computes them with the expressions of this project, and
``AskedSpark`` asks Spark. scripts/spark_answers.py stores what Spark says.
"""
# ruff: noqa: E501, RUF001 - values of one column stand together, and some are foreign letters

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any, Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from pointstamp.arrow.ddl import parse_ddl, type_to_ddl
from pointstamp.errors import PointstampError
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import Expression
from pointstamp.expressions.zones import in_time_zone
from pointstamp.sql_views.desugaring import rewritten
from pointstamp.sql_views.expression_translation import Translator
from pointstamp.sql_views.parsing import parse
from pointstamp.sql_views.scope import Scope, ScopeName

ERROR: Final = "error"
REJECTED: Final = "rejected"

NAN, INF = math.nan, math.inf
BERLIN, ST_JOHNS, KATHMANDU = "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"


def _instants(*texts: str) -> list[datetime | None]:
    return [None, *(datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts)]


def _clocks(*texts: str) -> list[datetime | None]:
    return [None, *map(datetime.fromisoformat, texts)]


def _decimals(*texts: str) -> list[Decimal | None]:
    return [None, *map(Decimal, texts)]


_DATES: Final = [
    None,
    *map(
        date.fromisoformat,
        ("2024-02-29", "1969-12-31", "1970-01-01", "2024-12-30", "2021-01-03", "0001-01-01", "9999-12-31",
         "1582-10-15", "2024-03-31", "2023-01-31"),
    ),
]  # fmt: skip

VALUES: Final[dict[str, tuple[str, list[Any]]]] = {
    "b": ("boolean", [None, True, False]),
    "b2": ("boolean", [None, True, False]),
    "y": ("byte", [None, 0, 1, -1, 127, -128]),
    "h": ("short", [None, 0, 1, -1, 32767, -32768]),
    "i": ("int", [None, 0, 1, -1, 7, -7, 25, -25, 2**31 - 1, -(2**31)]),
    "i2": ("int", [None, 0, -1, 3, 2**31 - 1, -(2**31)]),
    "l": ("long", [None, 0, 1, -1, 3, 2**63 - 1, -(2**63), 1_700_000_000, -5]),
    "l2": ("long", [None, 0, -1, 2, 2**63 - 1]),
    "f": ("float", [None, 0.0, -0.0, 1.5, NAN, INF, -INF, 3.4028234663852886e38, 1.401298464324817e-45, 0.1]),
    "f2": ("float", [None, 0.0, -0.0, 2.5, NAN]),
    "x": ("double", [None, 0.0, -0.0, 1.005, 2.5, -2.5, 3.5, NAN, INF, -INF, 1e300, 5e-324, 0.1, 1e7, 0.001,
                     123456789.125, 0.35, -1e-4, 9007199254740993.0, 0.25, -0.75, 2.675, 1e19]),
    "x2": ("double", [None, 0.0, -0.0, 1.0, -2.5, NAN, INF]),
    "d": ("decimal(10,2)", _decimals("0.00", "1.25", "-1.25", "0.05", "-0.05", "99999999.99", "2.50", "0.45")),
    "d2": ("decimal(10,2)", _decimals("0.00", "3.00", "-0.08", "99999999.99")),
    "e": ("decimal(38,18)", _decimals("0", "1.5", "1E-18", "-1E-18", "99999999999999999999.999999999999999999",
                                      "1E-8", "-0.000001", "2.500000000000000000")),
    "e2": ("decimal(38,18)", _decimals("0", "3", "-1E-18", "99999999999999999999.999999999999999999", "1E-7")),
    "k": ("decimal(20,10)", _decimals("0", "1E-10", "-1E-7", "1234567890.0123456789", "5.5")),
    "s": ("string", [None, "", "abc", " Ab cD ", "straße", "ÀÉÎ ñandú", "𝒳y", "ǆ", "İi", "a,b,,c", "aaa", "a.b",
                     "x1y22z", "o'neil mac-donald", "a\tb\nc", "日本", "ΣΑΣ", "%_\\"]),
    "s2": ("string", [None, "", "a", "b,", "ß"]),
    "n": ("string", [None, "1", "+3", "-3", " 7 ", "1.255", "1e3", "0x10", "", "abc", "9223372036854775808",
                     "-9223372036854775808", "2147483648", "NaN", "inf", "-Infinity", "-0", "1.", ".5", "1d", "1_0",
                     "300", "-0.0", "1E-3", "+", "99999999999999999999999999999999999999", "1 2", "0.1234567890123",
                     "-1.5", "12345678.995", "\t4\n", "5f", "١"]),
    "m": ("string", [None, "true", "T", "yes", "y", "1", "false", "f", "No", "n", "0", " tRue ", "2", "", "on",
                     "tr"]),
    "g": ("string", [None, "2024-1-5", "2024-01-05", "2024-01", "2024", "2024-01-05T12", "2024-02-30", "20240105",
                     "2024-01-05 12:30:00", "2024-01-05T12:30:00.123456Z", "2024-01-05 12:30:00+02:00",
                     "2024-01-05 1:2:3", "2024-01-05 12:30:00.1234567", "2024-01-05 12:30:00 Europe/Paris",
                     "2024-01-05 12:30:00UTC", "2024-03-31 02:30:00", "2024-10-27 02:30:00",
                     " 2024-01-05 ", "0001-01-01", "9999-12-31 23:59:59.999999", "2024-01-05 24:00:00", "abc", "",
                     "2024-01-05 12", "2024-01-05 12:30", "2024-01-05 12:30:00-3", "2024-1-5 1:2:3.5 +01:00",
                     "2024-01-05x", "2024/01/05", "2024-13-01", "1969-12-31 23:59:59.9", "2024-01-05 12:30:00 GMT+1",
                     "2024-01-05 12:30:00+02:30:15", "02024-01-05", "2024-1-5 25:00:00", "2024-01-05T"]),
    "t": ("timestamp", _instants("2024-03-31T00:59:59.999999", "2024-03-31T01:00:00", "2024-10-27T00:30:00",
                                 "2024-10-27T01:30:00", "1969-12-31T23:59:59.500000", "2024-02-29T23:59:59.123456",
                                 "1900-01-01T12:00:00", "2024-01-01T00:00:00", "2023-12-31T23:30:00",
                                 "1970-01-01T00:00:00.000001", "2021-07-04T04:05:06", "1850-06-01T10:20:30",
                                 "2024-03-10T05:30:00.250000", "2024-11-03T04:15:00")),
    "t2": ("timestamp", _instants("2024-03-31T01:00:00", "1969-12-31T23:59:59.5", "2024-10-26T23:30:00")),
    "z": ("timestamp_ntz", _clocks("2024-03-31T02:30:00", "2024-10-27T02:30:00", "1969-12-31T23:59:59.500000",
                                   "2024-02-29T23:59:59.123456", "2024-01-01T00:00:00", "2024-03-10T02:15:00",
                                   "2024-11-03T01:15:00.5", "1850-06-01T10:20:30")),
    "a": ("date", _DATES),
    "a2": ("date", _DATES[:5]),
    "w": ("array<string>", [None, [], ["a"], ["b", None, "c"]]),
    "j": ("binary", [None, b"", b"abc", "é".encode()]),
    "q": ("int", [None, 0, 1, 2, 5, -1, -2, -4]),
    "li": ("array<int>", [None, [], [1], [3, None, 1, 3], [2, 2, -7]]),
    "li2": ("array<int>", [None, [], [3], [None, 2, 9]]),
    "lx": ("array<double>", [None, [], [1.5, NAN, -0.0, None, 0.0], [NAN, NAN], [-INF, 2.0]]),
    "ll": ("array<array<int>>", [None, [], [[1], [], [2, None]], [[3], None]]),
    "mi": ("map<string, int>", [None, {}, {"a": 1}, {"": 0, "a": -3, "b": None}]),
    "mi2": ("map<string, int>", [None, {}, {"c": 5}, {"a": 7, "b": 2}]),
    "st": ("struct<p1: int, p2: string>", [None, {"p1": 1, "p2": "x"}, {"p1": None, "p2": None}]),
    "ls": ("array<struct<p1: int, p2: string>>",
           [None, [], [{"p1": 1, "p2": "x"}, None, {"p1": None, "p2": "y"}]]),
}  # fmt: skip
"""Columns by name: their type, and their values."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An expression in a time zone."""

    sql: str
    zone: str = "UTC"

    @property
    def columns(self) -> list[str]:
        """The columns that it names, in the order of ``VALUES``."""
        plain = re.sub(r"'(?:[^'\\]|\\.)*'", "", self.sql)
        words = set(re.findall(r"\b[a-z][a-z0-9_]*\b(?!\s*\()", plain))
        return [name for name in VALUES if name in words]

    def rows(self) -> pa.Table:
        """The product of the values of its columns."""
        columns = self.columns
        found = list(product(*(VALUES[name][1] for name in columns)))
        return pa.table(
            {
                "row": pa.array(range(len(found)), pa.int32()),
                **{
                    name: pa.array([row[at] for row in found], type_of(VALUES[name][0]))
                    for at, name in enumerate(columns)
                },
            }
        )


def type_of(ddl: str) -> pa.DataType:
    """The Arrow type of a type's name."""
    return parse_ddl(f"value {ddl}").field(0).type


@dataclass(frozen=True, slots=True)
class Answers:
    """What an expression is: its type, and its value for each row as text; or that it is rejected."""

    type: str
    values: list[Any]


def _tree(asked: Asked, schema: pa.Schema) -> Expression:
    (statement,) = parse(f"select {asked.sql} as v from grid")  # noqa: S608
    node = rewritten(statement, {}).expressions[0].unalias()
    assert isinstance(node, exp.Expr)
    scope = Scope(tuple(ScopeName(None, name, name) for name in schema.names), schema)
    return Translator(scope)(node)


def tree_of(asked: Asked) -> Expression | None:
    """The expression as a tree; None if it is rejected."""
    try:
        return _tree(asked, asked.rows().schema)
    except PointstampError:
        return None


def answers_here(asked: Asked, translate: Callable[[], Expression] | None = None) -> Answers:
    """What the expressions of this project say: those of the SQL text, or of another front end."""
    rows = asked.rows().combine_chunks()
    schema = rows.schema
    try:
        tree = _tree(asked, schema) if translate is None else translate()
        compiled = compile_expression(tree, schema, "grid")
    except PointstampError as error:
        return Answers(REJECTED, [str(error)])
    batch = pa.record_batch([column.chunk(0) for column in rows.columns], schema=schema)

    def evaluate(first: int, count: int) -> Iterator[Any]:
        try:
            with in_time_zone(asked.zone):
                found = compiled(batch.slice(first, count))
            assert found.type == compiled.type, f"{asked.sql}: {found.type} is not {compiled.type}"
            found.validate(full=True)
            assert len(found) == count
            yield from (written(value) for value in _plain(found))
        except (pa.ArrowException, ArithmeticError, PointstampError):
            if count == 1:
                yield ERROR
                return
            yield from evaluate(first, count // 2)
            yield from evaluate(first + count // 2, count - count // 2)

    return Answers(type_to_ddl(compiled.type) if not pa.types.is_duration(compiled.type) else "interval",
                   list(evaluate(0, batch.num_rows)))  # fmt: skip


def _plain(found: pa.Array) -> list[Any]:
    """Python values; timestamps with a zone as microseconds."""
    if pa.types.is_timestamp(found.type) and found.type.tz is not None:
        found = found.cast(pa.int64())
    if pa.types.is_timestamp(found.type):
        return [None if each is None else _clock(each) for each in found.cast(pa.int64()).to_pylist()]
    if pa.types.is_date(found.type):
        return [None if each is None else _day(each) for each in found.cast(pa.int32()).to_pylist()]
    if pa.types.is_float32(found.type):
        return [None if each is None else np.float32(each) for each in found.to_pylist()]
    return list(found.to_pylist())


def _clock(micros: int) -> Any:  # noqa: ANN401 - a number where there is no such year
    try:
        return datetime(1970, 1, 1) + timedelta(microseconds=micros)
    except OverflowError:
        return micros


def _day(days: int) -> Any:  # noqa: ANN401 - a number where there is no such year
    try:
        return date(1970, 1, 1) + timedelta(days=days)
    except OverflowError:
        return days


def written(value: Any) -> Any:  # noqa: ANN401 - any value
    """A value as JSON that tells apart what is different: -0.0 from 0.0, 1.0 from 1, text from numbers."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, list):
        return [written(each) for each in value]
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, bytes | bytearray):
        return f"x{bytes(value).hex()}"
    if isinstance(value, np.float32):
        return str(value)
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    if isinstance(value, date):
        return value.isoformat()
    return repr(value) if isinstance(value, float) else str(value)


class AskedSpark:
    """Asks Spark for expressions, row by row in its JVM: a job for each row that fails would take a second."""

    def __init__(self, spark: Any) -> None:  # noqa: ANN401 - a session
        self._spark = spark
        self._rows: dict[tuple[str, ...], tuple[Any, list[Any]]] = {}

    def __call__(self, asked: Asked) -> Answers:
        """What Spark says."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import AnalysisException, ParseException, PySparkException

        self._spark.conf.set("spark.sql.session.timeZone", asked.zone)
        frame, rows = self._input(asked)
        try:
            made = frame.selectExpr(f"{asked.sql} as v")
            kind = made.schema["v"].dataType.simpleString()
        except (AnalysisException, ParseException) as error:
            return Answers(REJECTED, [str(error).split("\n")[0]])
        if kind.startswith("array"):
            made = made.selectExpr("to_json(v) as v")
        jvm = self._spark._jvm
        attributes = frame._jdf.queryExecution().analyzed().output()
        projected = made._jdf.queryExecution()
        values: list[Any] = []
        try:
            plan = projected.optimizedPlan()
            expressions = jvm.org.apache.spark.sql.catalyst.expressions
            project = expressions.InterpretedMutableProjection(plan.expressions(), attributes)
            result_type = plan.output().head().dataType()
        except (Py4JJavaError, PySparkException):
            return Answers(_kind(kind), [ERROR] * len(rows))
        for row in rows:
            try:
                values.append(_value(project.apply(row).get(0, result_type), kind))
            except (Py4JJavaError, PySparkException):
                values.append(ERROR)
        return Answers(_kind(kind), values)

    def _input(self, asked: Asked) -> tuple[Any, list[Any]]:
        columns = tuple(asked.columns)
        if columns not in self._rows:
            rows = asked.rows()
            frame = self._spark.createDataFrame(_rows_of(rows), schema=_spark_schema(rows.schema))
            internal = list(frame._jdf.queryExecution().executedPlan().executeCollect())
            assert [each.getInt(0) for each in internal] == list(range(rows.num_rows))
            self._rows[columns] = frame, internal
        return self._rows[columns]


def _kind(kind: str) -> str:
    return "interval" if kind.startswith("interval") else type_to_ddl(type_of(kind))


def _value(value: Any, kind: str) -> Any:  # noqa: ANN401 - any value
    """A value of Catalyst's as ``written`` writes it."""
    if value is None or isinstance(value, bool):
        return value
    if kind.startswith("array"):
        return written(json.loads(str(value.toString())))
    if kind == "string":
        return written(str(value.toString()))
    if kind == "binary":
        return written(bytes(value))
    if kind.startswith("decimal"):
        return written(value.toJavaBigDecimal())
    if kind == "float":
        return written(np.float32(value))
    if kind == "date":
        return written(_day(value))
    if kind == "timestamp_ntz":
        return written(_clock(value))
    if kind.startswith("interval"):
        return f"{value}us"
    return written(value)


def _spark_schema(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {type_to_ddl(field.type)}" for field in schema)


def _rows_of(rows: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows.to_pylist()]
