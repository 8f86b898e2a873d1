"""Every function of expressions beside DuckDB's, over columns with nulls, NaN, foreign text and odd dates.

- one case per function; DuckDB is asked in SQL and shares no code with us. Where Spark's meaning is ours and
  DuckDB's differs, the SQL says Spark's meaning, with a comment.
- random expressions: trees of arithmetic, comparison and logic, so that what each function does with what
  another one gives is tried, too.
"""

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointstamp.expressions import functions as F  # noqa: N812 - as users import it
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.signature import known_functions
from pointstamp.expressions.tree import Call, Expression, col, columns_of, lit, when
from support.catalyst_answers import ASKED_LIVE, functions_of_trees
from support.spark_expressions import EXPRESSIONS
from support.spark_grid import tree_of

NAN = float("nan")
ENGINE = duckdb.connect(config={"threads": 1})
ENGINE.execute("set timezone = 'UTC'")

ROWS = pa.table(
    {
        "i": pa.array([0, 1, -7, 12, None, 2**31 - 1, -(2**31)], pa.int32()),
        "l": pa.array([3, -1, 5, None, 9, 2**40, -(2**40)], pa.int64()),
        "x": pa.array([0.5, -2.5, NAN, None, 1e300, 0.0, -0.0], pa.float64()),
        "y": pa.array([2.0, 3.0, NAN, 1.0, None, NAN, 7.25], pa.float64()),
        "d": pa.array([None, *map(Decimal, ("1.25", "-0.05", "99.99", "0.00", "7.10", "-3.33"))],
                      pa.decimal128(8, 2)),
        "e": pa.array([*map(Decimal, ("2.500", "0.125", "3.333", "1.000")), None, Decimal("-4.000"),
                       Decimal("0.001")],
                      pa.decimal128(10, 3)),
        "s": pa.array(["", "Rome", "São Paulo", None, " padded  ", "a-b-c", "aXbXc"]),
        "t": pa.array(["Rome", None, "são", "", "pad", "b", "x"]),
        "b": pa.array([True, False, None, True, None, False, True]),
        "c": pa.array([None, True, None, False, True, False, True]),
        "when": pa.array([datetime(2024, 2, 29, 23, 59, 59, 999999),
                          datetime(1969, 12, 31, 23, 59, 59, 500000), None,
                          datetime(2000, 1, 1), datetime(2023, 12, 31, 12, 30), datetime(2021, 1, 3, 4, 5, 6),
                          datetime(1970, 1, 1)], pa.timestamp("us")),
        "day": pa.array([date(2024, 2, 29), None, date(1969, 12, 31), date(2000, 1, 1), date(2023, 1, 1),
                         date(2021, 1, 3), date(1970, 1, 1)], pa.date32()),
        "then": pa.array([date(2024, 3, 1), date(2024, 1, 1), None, date(1999, 12, 31), date(2023, 1, 1),
                          date(2020, 1, 3), date(1970, 1, 2)], pa.date32()),
        "words": pa.array([["a"], [], None, ["b", None], ["c"] * 3, [""], ["x", "y"]], pa.list_(pa.string())),
        "place": pa.array([{"city": "Rome", "n": 1}, {"city": None, "n": 2}, None, {"city": "", "n": None},
                           {"city": "a", "n": 5}, {"city": "b", "n": 6}, {"city": "c", "n": 7}],
                          pa.struct([("city", pa.string()), ("n", pa.int32())])),
    }
)  # fmt: skip

CASES: list[tuple[Expression, str]] = [
    (col("l") + col("i"), "l + i"),
    (col("l") - 2, "l - 2"),
    (2 - col("l"), "2 - l"),
    (col("x") * col("y"), "x * y"),
    (col("l") / 4, "l / 4"),
    (1 / (col("y") + 1), "1 / (y + 1)"),
    (F.try_divide("l", "x"), "case when x = 0 then null else l / x end"),
    (col("l") % 4, "l % 4"),
    (F.try_mod("l", "i"), "case when i = 0 then null else l % i end"),
    (col("x") % 2, "case when isnan(x) then 'nan'::double else x - trunc(x / 2) * 2 end"),
    (-col("x"), "-x"),
    (col("d") + col("e"), "d + e"),
    (col("d") - col("e"), "d - e"),
    (col("d") * col("e"), "d * e"),
    (col("d") * 3, "d * 3"),
    (col("d") + col("x"), "d + x"),
    (F.abs("l"), "abs(l)"),
    (F.sign("x"), "case when isnan(x) then 'nan'::double else sign(x) end"),
    (F.round("y", 1), "round(y, 1)"),
    (F.round("d", 1), "round(d, 1)"),
    (F.floor(col("l") / 4), "floor(l / 4)::bigint"),
    (F.ceil("d"), "ceil(d)::bigint"),
    (F.sqrt(F.abs("l")), "sqrt(abs(l))"),
    (F.exp(col("l") % 5), "exp(l % 5)"),
    (F.ln("l"), "case when l > 0 then ln(l) end"),
    (F.log(3, "l"), "case when l > 0 then ln(l) / ln(3) end"),
    (F.log10("l"), "case when l > 0 then log10(l) end"),
    (F.log2("l"), "case when l > 0 then log2(l) end"),
    (F.power(col("y"), 2), "pow(y, 2)"),
    (col("x") == col("y"), "x = y"),
    (col("x") != col("y"), "x <> y"),
    (col("x") < col("y"), "x < y"),
    (col("x") <= col("y"), "x <= y"),
    (col("x") > col("y"), "x > y"),
    (col("x") >= col("y"), "x >= y"),
    (col("s") == col("t"), "s = t"),
    (col("s") < col("t"), "s < t"),
    (col("day") < col("when"), "day < \"when\""),
    (col("i") == col("l"), "i = l"),
    (col("d") < col("e"), "d < e"),
    (col("x").eq_null_safe(col("y")), "x is not distinct from y"),
    (col("l").between(-1, 5), "l between -1 and 5"),
    (col("l").is_in(3, 5), "l in (3, 5)"),
    (col("l").is_in(3, None), "l in (3, null)"),
    (col("s").is_in("Rome", col("t")), "s in ('Rome', t)"),
    (col("l").is_null(), "l is null"),
    (col("l").is_not_null(), "l is not null"),
    (F.is_nan("x"), "coalesce(isnan(x), false)"),
    (col("b") & col("c"), "b and c"),
    (col("b") | col("c"), "b or c"),
    (~col("b"), "not b"),
    (col("b") & lit(None), "b and null"),
    (F.coalesce("s", "t", lit("none")), "coalesce(s, t, 'none')"),
    (F.coalesce("i", "l"), "coalesce(i, l)"),
    (F.greatest("x", "y"), "greatest(x, y)"),
    (F.least("l", "i", lit(4)), "least(l, i, 4)"),
    (F.null_if("l", 5), "nullif(l, 5)"),
    (when(col("b"), "yes").when(col("c"), "maybe").otherwise("no"),
     "case when b then 'yes' when c then 'maybe' else 'no' end"),
    (when(col("b"), col("i")).when(col("c"), col("x")), "case when b then i when c then x end"),
    (F.upper("s"), "upper(s)"),
    (F.lower("s"), "lower(s)"),
    (F.init_cap(F.lower("t")), "upper(lower(t)[1]) || lower(t)[2:]"),
    (F.length("s"), "length(s)::int"),
    (F.reverse("s"), "reverse(s)"),
    (F.trim("s"), "trim(s)"),
    (F.ltrim("s"), "ltrim(s)"),
    (F.rtrim("s"), "rtrim(s)"),
    (F.trim("s", "ac"), "trim(s, 'ac')"),
    (F.concat("s", lit("/"), "l"), "case when s is null or l is null then null else s || '/' || l end"),
    (F.concat_ws("-", "s", "t"), "concat_ws('-', s, t)"),
    (F.substring("s", 2, 3), "substring(s, 2, 3)"),
    (F.substring("s", -3), "substring(s, -3)"),
    (col("s").substr(1, 2), "substring(s, 1, 2)"),
    (col("s").like("%o%"), "s like '%o%'"),
    (col("s").like("R_me"), "s like 'R_me'"),
    (col("s").rlike("[A-Z]o"), "regexp_matches(s, '[A-Z]o')"),
    (col("s").starts_with("R"), "starts_with(s, 'R')"),
    (col("s").ends_with("e"), "suffix(s, 'e')"),
    (col("s").contains("ã"), "contains(s, 'ã')"),
    (F.replace("s", "o", "00"), "replace(s, 'o', '00')"),
    (F.regexp_replace("s", "[aeiou]+", "_"), "regexp_replace(s, '[aeiou]+', '_', 'g')"),
    (F.regexp_extract("s", "(\\w)-(\\w)", 2), "regexp_extract(s, '(\\w)-(\\w)', 2)"),
    (F.regexp_extract("s", "[A-Z]\\w+", 0), "regexp_extract(s, '[A-Z]\\w+', 0)"),
    (F.split("s", "[-X]"), "regexp_split_to_array(s, '[-X]')"),
    (F.split_part("s", "-", 2), "split_part(s, '-', 2)"),
    (F.instr("s", "o"), "instr(s, 'o')::int"),
    (F.repeat("s", 2), "repeat(s, 2)"),
    (F.lpad("s", 6, "*"), "lpad(s, 6, '*')"),
    (F.rpad("s", 6, "*"), "rpad(s, 6, '*')"),
    (F.lpad("s", 7, "ab"), "lpad(s, 7, 'ab')"),
    (F.year("when"), "year(\"when\")::int"),
    (F.quarter("when"), "quarter(\"when\")::int"),
    (F.month("day"), "month(day)::int"),
    (F.day("when"), "day(\"when\")::int"),
    (F.day_of_week("when"), "(dayofweek(\"when\") + 1)::int"),  # DuckDB counts from 0
    (F.day_of_year("day"), "dayofyear(day)::int"),
    (F.week_of_year("when"), "week(\"when\")::int"),
    (F.hour("when"), "hour(\"when\")::int"),
    (F.minute("when"), "minute(\"when\")::int"),
    (F.second("when"), "second(\"when\")::int"),
    (F.date_trunc("month", "when"), "date_trunc('month', \"when\")"),
    (F.date_trunc("week", "when"), "date_trunc('week', \"when\")"),
    (F.date_trunc("minute", "when"), "date_trunc('minute', \"when\")"),
    (F.tumbling("when", "7 minutes"), "time_bucket(interval '7 minutes', \"when\", timestamp '1970-01-01')"),
    (F.date_trunc("quarter", "day"), "date_trunc('quarter', day)::timestamptz"),
    (F.date_add("day", 31), "day + 31"),
    (F.add_months("day", 1), "(day + interval 1 month)::date"),
    (F.add_months("when", -13), "(\"when\" - interval 13 month)::date"),
    (F.move_months("when", -13), "\"when\" - interval 13 month"),
    (F.date_sub("day", col("l") % 10), "day - (l % 10)::int"),
    (F.date_diff("then", "day"), "(\"then\" - day)::int"),
    (F.unix_timestamp("when"), "trunc(epoch_us(\"when\") / 1e6)::bigint"),  # Spark cuts
    (F.unix_micros("when"), "epoch_us(\"when\")"),
    (F.date_format("when", "yyyy/MM/dd HH:mm"), "strftime(\"when\", '%Y/%m/%d %H:%M')"),
    (F.to_date(F.date_format("day", "dd.MM.yyyy"), "dd.MM.yyyy"), "day"),
    (F.to_timestamp(F.date_format("day", "yyyy-MM-dd HH:mm:ss")), "day::timestamptz"),
    (F.timestamp_seconds("i"), "to_timestamp(i)"),
    (col("when") + F.duration("1 hour 30 minutes"), "\"when\" + interval '90 minutes'"),
    (col("when") - F.duration("2 days"), "\"when\" - interval '2 days'"),
    (F.size("words"), "len(words)::int"),
    (col("place").field("city"), "place.city"),
    (col("l").cast("string"), "l::varchar"),
    (col("b").cast("string"), "b::varchar"),
    (col("d").cast("int"), "trunc(d)::int"),  # Spark cuts digits, DuckDB rounds
    (col("s").try_cast("double"), "try_cast(s as double)"),
    (col("x").try_cast("int"), "try_cast(case when isnan(x) then null else trunc(x) end as int)"),
    (col("when").cast("date"), "\"when\"::date"),
    (col("day").cast("timestamp_ntz"), "day::timestamp"),
    (lit("12").cast("int") + col("i") % 2, "12 + i % 2"),
]  # fmt: skip


def _same(ours: Any, theirs: Any) -> bool:  # noqa: ANN401 - any value
    if isinstance(ours, float) and isinstance(theirs, float):
        return (math.isnan(ours) and math.isnan(theirs)) or math.isclose(ours, theirs, rel_tol=1e-12)
    return bool(ours == theirs)


@pytest.mark.parametrize(("expression", "sql"), CASES, ids=[sql for _, sql in CASES])
def test_a_function_gives_what_duckdb_gives_for_it(expression: Expression, sql: str) -> None:
    batch = ROWS.combine_chunks().to_batches()[0]
    compiled = compile_expression(expression, ROWS.schema, "test")
    made = compiled(batch)
    assert made.type == compiled.type
    ENGINE.register("rows", ROWS)
    expected = [row[0] for row in ENGINE.execute(f"select {sql} from rows").fetchall()]  # noqa: S608
    for ours, theirs in zip(made.to_pylist(), expected, strict=True):
        assert _same(ours, theirs), f"{expression}: {made.to_pylist()} here, {expected} there"


def test_a_float_is_rounded_to_the_nearest_that_there_is() -> None:
    nearly = [15.040000000000001, 0.1 + 0.2, -2.5, 1e300, 12345678901234567.0, float("inf"), None]
    made = pa.record_batch({"x": pa.array(nearly, pa.float64())})
    rounded = compile_expression(F.round("x", 6), made.schema, "test")(made).to_pylist()
    assert rounded == [15.04, 0.3, -2.5, 1e300, 12345678901234567.0, float("inf"), None]


def test_every_registered_function_is_compared() -> None:
    def functions(expression: Any) -> set[str]:  # noqa: ANN401 - any node
        found = {expression.function} if isinstance(expression, Call) else set()
        for name in getattr(expression, "__match_args__", ()):
            value = getattr(expression, name)
            for each in _flat(value):
                if isinstance(each, Expression):
                    found |= functions(each)
        return found

    compared = set().union(*(functions(expression) for expression, _ in CASES))
    # test_spark_answers.py compares all functions of SQL with Spark.
    of_sql = set().union(*(functions(tree) for each in EXPRESSIONS if (tree := tree_of(each)) is not None))
    # tests/spark/test_catalyst_expressions.py compares those that only Catalyst's trees have.
    of_trees = functions_of_trees()
    found = set(known_functions()) - compared - of_sql - of_trees - ASKED_LIVE
    assert found == {"at_time_zone"}  # test_zones.py has it


def _flat(value: Any) -> list[Any]:  # noqa: ANN401 - any field of a node
    return [each for part in value for each in _flat(part)] if isinstance(value, tuple) else [value]


_NUMBERS = st.one_of(st.none(), st.integers(-20, 20))
_FLOATS = st.one_of(st.none(), st.sampled_from([NAN, 0.0, -0.0, 1.5, -2.25, 1e10]))
_LEAVES = st.sampled_from(
    [(col("a"), "a"), (col("b"), "b"), (col("f"), "f"), (lit(3), "3"), (lit(2.5), "2.5::double")]
)
_CONDITIONS = ("<", "<=", "=", "<>", ">", ">=")


def _grow(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def combine(operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - pairs of expression and SQL
        (one, first), (other, second) = left, right
        made = {"+": one + other, "-": one - other, "*": one * other}[operator]
        return made, f"({first} {operator} {second})"

    def choose(condition: str, parts: Any) -> Any:  # noqa: ANN401 - pairs of expression and SQL
        (a, sa), (b, sb), (x, sx), (y, sy) = parts
        tests = dict(zip(_CONDITIONS, (a < b, a <= b, a == b, a != b, a > b, a >= b), strict=True))
        return (
            when(tests[condition], x).otherwise(y),
            f"(case when {sa} {condition} {sb} then {sx} else {sy} end)",
        )

    return st.one_of(
        st.builds(combine, st.sampled_from("+-*"), children, children),
        st.builds(choose, st.sampled_from(_CONDITIONS), st.tuples(children, children, children, children)),
        st.builds(lambda a, b: (F.coalesce(a[0], b[0]), f"coalesce({a[1]}, {b[1]})"), children, children),
        st.builds(lambda a, b: (F.greatest(a[0], b[0]), f"greatest({a[1]}, {b[1]})"), children, children),
    )


@settings(max_examples=150, deadline=None)
@given(
    tree=st.recursive(_LEAVES, _grow, max_leaves=8),
    rows=st.lists(st.tuples(_NUMBERS, _NUMBERS, _FLOATS), min_size=1, max_size=6),
)
def test_random_expressions_are_what_duckdb_says(
    tree: tuple[Expression, str], rows: list[tuple[Any, ...]]
) -> None:
    expression, sql = tree
    columns = list(zip(*rows, strict=True))
    table = pa.table(
        {
            "a": pa.array(columns[0], pa.int64()),
            "b": pa.array(columns[1], pa.int64()),
            "f": pa.array(columns[2], pa.float64()),
        }
    )
    made = compile_expression(expression, table.schema, "test")(table.to_batches()[0]).to_pylist()
    ENGINE.register("rows", table)
    expected = [row[0] for row in ENGINE.execute(f"select {sql} from rows").fetchall()]  # noqa: S608
    assert all(_same(*pair) for pair in zip(made, map(_plain, expected), strict=True)), (made, expected)
    assert set(columns_of(expression)) <= {"a", "b", "f"}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value
    return float(value) if isinstance(value, Decimal) else value
