"""What is wrong with an expression is said when it is compiled, with the part that is wrong."""

import pickle
from datetime import timedelta

import pyarrow as pa
import pytest

from pointstamp.errors import FlowError, SchemaError
from pointstamp.expressions import functions as F  # noqa: N812 - as users import it
from pointstamp.expressions.compiler import compile_condition, compile_expression
from pointstamp.expressions.dates import parse_duration
from pointstamp.expressions.tree import Expression, col, lit, name_of, when

SCHEMA = pa.schema({"price": pa.int64(), "city": pa.string(), "at": pa.timestamp("us"), "open": pa.bool_()})
BATCH = pa.record_batch(
    {"price": [1, 0], "city": ["Rome", "7"], "at": [None, None], "open": [True, None]}, SCHEMA
)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (col("prise") > 1, "needs the column 'prise'; there are 'price' int64"),
        (col("city") + 1, "(col('city') + 1) needs numbers, got string"),
        (col("city") > 1, "string and int32 have no common type"),
        (col("open") & col("price"), "needs booleans, got int64"),
        (F.year("price"), "needs a date or a timestamp, got int64"),
        (F.split_part("city", ",", 0), "the part number must not be 0"),
        (F.regexp_replace("city", "a", "$1"), "names group 1 of 0"),
        (F.regexp_replace("city", "a", "$"), "a number must follow '$'"),
        (F.from_utc_timestamp("at", "Mars/Base"), "'Mars/Base' is not a time zone"),
        (F.to_date("city", "EEE"), "has 'EEE', which cannot be read"),
        (col("at") + 1, "needs a time and a duration, for example ps.functions.duration('1 hour')"),
        (F.date_trunc("moon", "at"), "the unit must be one of microsecond"),
        (col("city").rlike("("), "is not a supported regular expression"),
        (when(col("price"), 1).otherwise(2), "the condition must be boolean, but col('price') is int64"),
        (when(col("open"), 1).otherwise("two"), "int32 and string have no common type"),
        (col("city").cast("moon"), "moon"),
        (col("open").cast("date"), "bool cannot be cast to date32"),
        (lit(None), "is always null and has no type"),
        (lit("x").cast("int"), "'x'"),
        (lit(1) / 0, "division by zero"),
        (F.date_format("at", "ww"), "has 'ww', which is not supported"),
        (col("price").field("x"), "needs a struct, got int64"),
        (lit(object()), "cannot be a constant"),
        (F.coalesce(), "takes 1 or more arguments, got 0"),
    ],
)
def test_a_mistake_is_said_in_words_when_the_expression_is_compiled(
    expression: Expression, words: str
) -> None:
    with pytest.raises(SchemaError, match=r"^filter 'dear'") as found:
        compile_expression(expression, SCHEMA, "filter 'dear'")
    assert words in str(found.value)
    assert str(found.value).startswith("filter 'dear'")


def test_a_condition_must_be_boolean() -> None:
    with pytest.raises(SchemaError, match="needs a boolean condition, but col\\('price'\\) is int64"):
        compile_condition(col("price"), SCHEMA, "filter")


def test_an_expression_has_no_truth_value() -> None:
    with pytest.raises(FlowError, match="Use & for 'and'"):
        bool(col("price") > 1)
    with pytest.raises(FlowError, match="cannot be iterated"):
        list(col("price"))


@pytest.mark.parametrize(
    ("theirs", "ours"), [("isNull", "is_null"), ("isin", "is_in"), ("str", "ps.functions"), ("name", "alias")]
)
def test_a_name_of_elsewhere_answers_with_the_name_here(theirs: str, ours: str) -> None:
    with pytest.raises(AttributeError, match=ours):
        getattr(col("city"), theirs)


def test_a_bad_value_raises_for_its_batch_and_a_tried_one_is_null() -> None:
    with pytest.raises(ZeroDivisionError, match="try_divide"):
        compile_expression(1 / col("price"), SCHEMA, "x")(BATCH)
    assert compile_expression(F.try_divide(1, "price"), SCHEMA, "x")(BATCH).to_pylist() == [1.0, None]
    with pytest.raises(pa.ArrowInvalid, match="'Rome' is not a value of the type int32"):
        compile_expression(col("city").cast("int"), SCHEMA, "x")(BATCH)
    assert compile_expression(col("city").try_cast("int"), SCHEMA, "x")(BATCH).to_pylist() == [None, 7]


def test_an_integer_that_overflows_is_an_error_and_not_another_number() -> None:
    batch = pa.record_batch({"x": pa.array([2**63 - 1])})
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        compile_expression(col("x") + 1, batch.schema, "x")(batch)


def test_an_expression_can_be_sent_to_another_process() -> None:
    expression = when(col("price") > 1, F.upper("city")).otherwise(lit("none")).alias("word")
    again = pickle.loads(pickle.dumps(expression))  # noqa: S301 - our own bytes
    assert str(again) == str(expression)
    assert name_of(again) == "word"
    assert compile_expression(again, SCHEMA, "x")(BATCH).to_pylist() == ["none", "none"]


def test_durations_are_read_as_people_write_them() -> None:
    assert parse_duration("10 minutes") == timedelta(minutes=10)
    assert parse_duration("1h, 30 s") == timedelta(hours=1, seconds=30)
    assert parse_duration(timedelta(days=1)) == timedelta(days=1)
    for wrong in ("ten minutes", "10", "10 moons", "", "10 minutes later"):
        with pytest.raises(FlowError, match="10 minutes"):
            parse_duration(wrong)
