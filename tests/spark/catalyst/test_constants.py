# ruff: noqa: E501, S608 - expressions are read best in one line, and no text is of a user
"""What has the same value for each row is computed by Spark when a view is defined.

Families:
- folding: constants of all types are Spark's values, in ANSI mode and without it, in several time zones, also
  of functions that have no translation; a constant that fails is an error in both;
- constant rows: a plan over VALUES, SELECT without FROM and ranges has Spark's rows, beside a table;
- constants that are none: times of the query and texts that mean one are rejected, not frozen.
"""

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.errors import SqlError
from pointstamp.flow.plan import NodeKind
from pointstamp.spark.catalyst import operators
from pointstamp.spark.catalyst.rules import CatalystRules, analyzed_plan, walk

FOLDED = [
    # Nested values, with nulls, times that Python does not have, and signs of zero.
    "array(1, 2, null)", "array(cast(null as string), '', 'ü€😀', 'a\\\\b')", "map('x', 1, '', null)",
    "named_struct('a', date'0001-01-01', 'b', array(timestamp'1582-10-04 23:59:59.999999'), 'c', x'00ff')",
    "array(-0.0D, double('NaN'), double('Infinity'), 5e-324D)", "array(float('-0.0'), float('1e-45'))",
    "array(date'9999-12-31', date'0001-01-01')", "array(1.10BD, cast(null as decimal(3, 2)))",
    "array(interval '1 02:03:04.5' day to second)", "map(date'2024-02-29', map('k', array(true)))",
    "named_struct('a', 127Y, 'b', -32768S, 'c', 9223372036854775807L)",
    # Functions without a translation of their own.
    "from_csv('1, 0.8', 'a INT, b DOUBLE')", "to_csv(named_struct('a', 1, 'b', 'x'))", "to_number('$78.12', '$00.00')",
    "to_char(-12454.8, '99,999.9S')", "format_number(12332.123456, 4)", "format_number(-0.0D, 2)",
    "instr('abcabc', 'b', -1)", "schema_of_json('[{\"a\": 1}]')", "schema_of_csv('1|abc', map('delimiter', '|'))",
    "extract(yearofweek from date'2021-01-01')", "xpath_int('<a><b>1</b><b>2</b></a>', 'sum(a/b)')",
    "interval '1 day' / 3", "div(interval '1 06' day to hour, interval '-1' hour)", "cast(interval '10' year as int)",
    "date_format(timestamp'2018-11-17 13:33:33.333', 'EEEE, d MMMM')", "sentences('Hi there! Good morning.')",
    "hll_sketch_estimate(cast(null as binary))", "aes_decrypt(unhex('83F16B2AA704794132802D248E6BFD4E380078182D1544813898AC97E709B28A94'), '0000111122223333')",
    # Texts that are not ASCII, empty ones, and zones.
    "upper('straße ǅ')", "initcap('ÉCOLE ß')", "hash('', 'ü', null)", "to_timestamp('2024-03-31 02:30:00')",
    "hour(timestamp'2024-10-27 01:30:00')", "to_utc_timestamp('2024-03-10 02:30:00', 'America/Los_Angeles')",
    "cast(timestamp'2024-07-01 00:00:00' as string)", "unix_timestamp('1900-01-01 00:00:00')",
]  # fmt: skip

FAILING = [
    # Errors in ANSI mode, and nulls or other values without it.
    "cast('1a' as int)", "cast('2147483648' as int)", "1 / 0", "2147483647 + 1", "element_at(array(1, 2), 5)",
    "cast('' as date)", "cast(double('NaN') as int)", "make_date(2023, 2, 29)", "cast('9' as boolean)",
    "to_timestamp('1', 'yyy')", "array(1)[3]", "abs(-2147483648)", "-(-9223372036854775807L - 1)",
]  # fmt: skip

SETTINGS = [("UTC", True), ("UTC", False), ("Europe/Berlin", True), ("Asia/Kathmandu", False)]


@pytest.fixture(autouse=True)
def table(spark: SparkSession) -> None:
    spark.createDataFrame([(1, "a"), (2, None)], "id long, s string").createOrReplaceTempView("t")


def rows_of(found: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in found.to_pylist())


def ours(spark: SparkSession, query: str) -> Counter[str]:
    """The rows of a view, next to one that reads a table."""
    flow = ps.views(spark, {"v": query, "other": "table t"})
    results = flow.run({"t": spark.table("t").toArrow()})
    return rows_of(results.table("v"))


def spark_gives(spark: SparkSession, query: str) -> Counter[str] | None:
    """Spark's rows, or None if Spark raises."""
    try:
        return rows_of(spark.sql(query).toArrow())
    except PySparkException:
        return None


@pytest.mark.parametrize(("zone", "is_ansi"), SETTINGS)
def test_a_constant_is_sparks_value(spark: SparkSession, zone: str, is_ansi: bool) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.ansi.enabled", str(is_ansi).lower())
    wrong, good = [], []
    try:
        values = {sql: spark_gives(spark, f"select id, {sql} as v from t") for sql in (*FOLDED, *FAILING)}
        for sql, theirs in values.items():
            if theirs is None:
                with pytest.raises(SqlError, match="Spark's rule ConstantFolding does not apply"):
                    ps.views(spark, {"v": f"select id, {sql} as v from t"})
            else:
                good.append(sql)
        columns = ", ".join(f"{sql} as v{place}" for place, sql in enumerate(good))
        (row, *others) = spark.sql(f"select {columns} from t").toArrow().to_pylist()
        flow = ps.views(spark, {"v": f"select id, {columns} from t"})
        here = flow.run({"t": spark.table("t").toArrow()}).table("v").drop_columns("id").to_pylist()
        assert len(here) == len(others) + 1 == 2
        for each in here:
            wrong += [
                (sql, each[name], row[name])
                for sql, name in zip(good, row, strict=True)
                if repr(each[name]) != repr(row[name])
            ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.ansi.enabled", "true")
    assert wrong == []
    assert set(FOLDED) <= set(good)
    assert is_ansi == (len(good) == len(FOLDED))


def test_a_constant_in_a_branch_that_no_row_takes_does_not_fail(spark: SparkSession) -> None:
    text = "select id, case when id > 9 then cast('x' as int) end as v, if(id < 9, 1, 1 / 0) as w from t"
    assert ours(spark, text) == spark_gives(spark, text)


def test_a_constant_string_that_is_not_utf_8_is_rejected(spark: SparkSession) -> None:
    for value in ("cast(x'61ff' as string)", "array('a', cast(x'61ff' as string))"):
        with pytest.raises(SqlError, match=r"has bytes that are not UTF-8: b'a\\xff'\. Use a binary value"):
            ps.views(spark, {"v": f"select id, {value} as v from t"})
    text = "select id, length('\ufffd') as n, '\ufffd' as v from t"
    assert ours(spark, text) == spark_gives(spark, text)


CONSTANT_ROWS = [
    "select 1 as a, 'x' as b",
    "select count(*) as n, sum(col1) as s from values (1), (2), (null)",
    "select a, count(*) as n from values (1, 'x'), (1, 'y'), (null, 'z') as v(a, b) group by a having n > 0",
    "select explode(sequence(1, 3)) as a",
    "select * from range(5) where id % 2 = 0",
    "select a.id as x, b.id as y from range(3) a left join range(2) b on a.id = b.id",
    "with c as (select 1 as a union all select 1) select c.a, d.a as b from c, c as d",
    "with recursive r(n) as (values (1) union all select n + 1 from r where n < 5) select n from r",
    "select col1 from values (1), (2) except select 2",
    "select approx_count_distinct(col1) as n from values (1), (2), (1)",
    "select stack(2, 1, 2, 3) as (a, b)",
    "select * from values (1, 'a'), (2, 'b') as v(x, y) pivot (max(x) for y in ('a', 'b'))",
    "select a from (values (3), (1), (2)) as v(a) order by a desc limit 2",
    "select a, from_csv(b, 'x int').x as x from values (1, '7'), (2, '') as v(a, b)",
    "select col1 as a from values (date'0001-01-01'), (date'9999-12-31'), (null)",
    "select id, x from t join (select max(col1) as x from values (1), (7)) on id < x",
    "select id from t where id in (select col1 + 1 from values (0), (1))",
    "select id, (select count(*) from values (1), (2)) as n from t",
    "select id, n from t, lateral (select id + col1 as n from values (1), (2))",
    "select count(distinct col1) filter (where col1 > 1) as n from values (1), (2), (2)",
    "select array_agg(b) as b from values (1, 'x') as v(a, b)",
]  # fmt: skip


@pytest.mark.parametrize("query", CONSTANT_ROWS)
def test_constant_rows_are_sparks(spark: SparkSession, query: str) -> None:
    assert ours(spark, query) == spark_gives(spark, query)


def test_the_rows_of_a_temporary_view_are_no_constants(spark: SparkSession) -> None:
    """A table that a view reads is an input, also if the session has its rows."""
    spark.createDataFrame(pa.table({"a": [1, 2], "b": [3, 4]})).createOrReplaceTempView("two")
    flow = ps.views(spark, {"v": "select sum(a) as s from two"})
    assert list(flow.plan.named(NodeKind.INPUT)) == ["two"]
    found = flow.run({"two": [pa.table({"a": [5], "b": [6]})]})
    assert found.table("v").to_pylist() == [{"s": 5}]


def test_constant_rows_have_one_plan_however_spark_orders_them(spark: SparkSession) -> None:
    one = "select col1 as a, count(*) as n from values (3), (1), (2), (1) group by 1"
    other = "select col1 as a, count(*) as n from values (1), (1), (2), (3) group by 1"
    plans = [ps.views(spark, {"v": each, "o": "table t"}).explain(format="json") for each in (one, other)]
    assert plans[0] == plans[1]


def test_constant_rows_that_fail_are_an_error(spark: SparkSession) -> None:
    with pytest.raises(
        SqlError, match=r"Spark cannot compute the constant rows of the query: .*CAST_INVALID"
    ):
        ps.views(spark, {"v": "select cast(col1 as int) as a from values ('x')", "o": "table t"})


def test_too_many_constant_rows_are_rejected(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "_ROWS_MAX", 3)
    with pytest.raises(SqlError, match=r"has more constant rows than the maximum of 3\. Make it an input"):
        ps.views(spark, {"v": "select a.id as x, b.id as y from range(2) a, range(2) b", "o": "table t"})


CHANGING = [
    ("current_date() > date'2000-01-01'", r"current_date\(\)"),
    ("date_trunc('day', now())", r"now\(\)|current_timestamp\(\)"),
    ("localtimestamp() is null", r"localtimestamp\(\)"),
    ("unix_timestamp()", "current_timestamp"),
    ("current_user()", "current_user"),
    ("cast('today' as date)", "a text such as 'now' or 'today' is cast to a time"),
    ("cast(concat('n', 'ow') as timestamp)", "a text such as 'now' or 'today' is cast to a time"),
    ("try_cast('tomorrow' as date)", "a text such as 'now' or 'today' is cast to a time"),
    ("rand() < 2", r"rand\(\)"),
    ("uuid() is null", r"uuid\(\)"),
]


@pytest.mark.parametrize("expression", [each for each, _ in CHANGING])
@pytest.mark.parametrize("source", ["from t", "", "from values (1)"])
def test_what_changes_is_not_frozen(spark: SparkSession, expression: str, source: str) -> None:
    message = dict(CHANGING)[expression]
    with pytest.raises(SqlError, match=message):
        ps.views(spark, {"v": f"select {expression} as v {source}", "o": "table t"})


def test_what_changes_in_a_subquery_is_not_frozen(spark: SparkSession) -> None:
    for text in (
        "select id from t where exists (select 1 from values (current_timestamp()) as v(a) where a is null)",
        "select id, (select max(current_date()) from values (1)) as d from t",
        "with c as (select now() as n) select n from c",
    ):
        with pytest.raises(
            SqlError, match=r"changes without a change of the input|ResolvedInlineTable is not"
        ):
            ps.views(spark, {"v": text, "o": "table t"})


def test_after_folding_no_deterministic_expression_over_constants_is_left(spark: SparkSession) -> None:
    """The plan of a query has literals where an expression has no column."""
    values = ", ".join(f"{sql} as v{place}" for place, sql in enumerate(FOLDED))
    plan: Any = analyzed_plan(spark.sql(f"select id, {values} from t"))
    tree = CatalystRules(spark).prepare(plan).tree
    for each in tree.fields["projectList"]:
        kinds = {inner.kind for inner in walk(each)}
        assert kinds <= {"Alias", "Literal", "AttributeReference"}, each.fields["name"]
