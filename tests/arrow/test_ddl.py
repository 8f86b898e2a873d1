"""Schema strings, judged by pyspark and by themselves.

Examples of the grammar show what is read. The judge of the Arrow types is pyspark's own ``to_arrow_schema``,
over hand-made Spark types, which needs no Java; the judge of the grammar is Spark's own parser, which does.
The round trip, as a property, finds what quoting and escaping forget. Refusals are compared by their words.
"""

import os
import sys
from collections.abc import Iterator
from inspect import signature
from typing import Any

import pyarrow as pa
import pyspark.sql.types as spark_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from pointstamp.arrow.ddl import parse_ddl, to_ddl
from pointstamp.errors import SchemaError

# Before pyspark 4.2 there was no choice.
ZONE: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}

SPARK_TYPES = {
    "boolean": spark_types.BooleanType(),
    "byte": spark_types.ByteType(),
    "tinyint": spark_types.ByteType(),
    "short": spark_types.ShortType(),
    "smallint": spark_types.ShortType(),
    "int": spark_types.IntegerType(),
    "integer": spark_types.IntegerType(),
    "long": spark_types.LongType(),
    "bigint": spark_types.LongType(),
    "float": spark_types.FloatType(),
    "real": spark_types.FloatType(),
    "double": spark_types.DoubleType(),
    "string": spark_types.StringType(),
    "binary": spark_types.BinaryType(),
    "date": spark_types.DateType(),
    "timestamp": spark_types.TimestampType(),
    "timestamp_ltz": spark_types.TimestampType(),
    "timestamp_ntz": spark_types.TimestampNTZType(),
    "void": spark_types.NullType(),
    "decimal": spark_types.DecimalType(10, 0),
    "dec(5)": spark_types.DecimalType(5, 0),
    "numeric(10, 2)": spark_types.DecimalType(10, 2),
    "array<int>": spark_types.ArrayType(spark_types.IntegerType()),
    "map<string, int>": spark_types.MapType(spark_types.StringType(), spark_types.IntegerType()),
    "array<struct<k: string, v: decimal(10,2) not null>>": spark_types.ArrayType(
        spark_types.StructType(
            [
                spark_types.StructField("k", spark_types.StringType()),
                spark_types.StructField("v", spark_types.DecimalType(10, 2), nullable=False),
            ]
        )
    ),
    "struct<>": spark_types.StructType([]),
}

# What both parsers must read alike, to the last comment.
BOTH_READ = [
    "src long, dst long",
    "name string not null, tags array<struct<k: string, v: decimal(10,2)>>, `odd name` double",
    "a: int, b: string not null",
    "A INT NOT NULL COMMENT 'x', b BigInt",
    "struct<a:int,b:array<string>>",
    "not int, date date, struct int, 1a int, select string",
    "`a``b` int, `` int, `größe` int",
    "a map<array<int>, map<int, struct<x: int not null comment 'deep'>>>",
    "a int -- why\n, b /* what\n for */ int",
    r"a int comment 'it\'s', b int comment 'a''b'",
    'a int comment "say ""no", b int comment \'x""y\'',
    r"a int comment '\\ \n \t \0 \Z \% \_ \q \u0041 \101 \U0001F600 \uD83D\uDE00'",
    "a int comment 'two\nlines', b int comment ''",
]
# What both must refuse.
BOTH_REFUSE = [
    "a int,",
    "a int b int",
    "a int null",
    "a array<int not null>",
    "a array<int",
    "a array",
    "a map<int>",
    "a decimal(39)",
    "a decimal(5,6)",
    "a decimal(5,-1)",
    "a decimal()",
    "a char",
    "a int(3)",
    "a null",
    "1 int",
    "a-b int",
    "a.b int",
    "größe int",
    "a int comment 'x' not null",
    "a int not",
    "a int comment x",
    "a lng",
    "`a int",
]


@pytest.mark.parametrize("name", SPARK_TYPES)
@pytest.mark.parametrize("declared", ["c {}", "c: {}", "  C\t{} NOT NULL"])
def test_the_arrow_types_are_those_of_pyspark(name: str, declared: str) -> None:
    text = declared.format(name)
    column, nullable = text.strip()[0], "NOT NULL" not in text
    if name == "void" and not nullable:
        return  # Arrow has no such column; see the refusals
    spark = spark_types.StructType([spark_types.StructField(column, SPARK_TYPES[name], nullable)])
    for case in (text, text.replace(name, name.upper()) if "<" not in name else text):
        assert parse_ddl(case).equals(to_arrow_schema(spark, **ZONE), check_metadata=True)


def test_strings_of_limited_length_are_strings() -> None:
    assert parse_ddl("a varchar(10), b char(3), c character(3)").types == [pa.string()] * 3


def test_the_names_inside_lists_and_maps_are_those_of_pyspark() -> None:
    # Arrow's == looks past these names.
    list_type, map_type = parse_ddl("a array<int>, m map<int, int>").types
    assert list_type.value_field.name == "element"
    assert (map_type.key_field.name, map_type.item_field.name) == ("key", "value")


def test_a_comment_is_kept_as_metadata() -> None:
    schema = parse_ddl("a int not null comment 'it''s', b struct<x: int COMMENT \"inside\">")
    assert schema.field("a").metadata == {b"comment": b"it's"}
    assert schema.field("b").type.field("x").metadata == {b"comment": b"inside"}


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    yield session
    session.stop()


def _comments(fields: list[spark_types.StructField]) -> list[str | None]:
    return [field.metadata.get("comment") for field in fields]


@pytest.mark.spark
def test_spark_reads_the_same_strings_as_we_do(spark: SparkSession) -> None:
    for text in BOTH_READ:
        theirs = spark_types.StructType.fromDDL(text)
        assert isinstance(theirs, spark_types.StructType)
        ours = parse_ddl(text)
        assert ours.equals(to_arrow_schema(theirs, timezone="UTC")), text
        comments = [(field.metadata or {}).get(b"comment") for field in ours]
        assert [c if c is None else c.decode() for c in comments] == _comments(theirs.fields), text
        # And what we write, Spark reads as the same again.
        assert spark_types.StructType.fromDDL(to_ddl(ours)) == theirs, text


@pytest.mark.spark
def test_spark_refuses_the_same_strings_as_we_do(spark: SparkSession) -> None:
    for text in BOTH_REFUSE:
        with pytest.raises(Exception, match=r"SQLSTATE"):
            spark_types.StructType.fromDDL(text)


@pytest.mark.parametrize("text", BOTH_REFUSE)
def test_what_spark_refuses_is_refused_with_the_text_and_a_position(text: str) -> None:
    with pytest.raises(
        SchemaError, match=r" (has .+|ends) at position \d+, where .+ was expected"
    ) as refused:
        parse_ddl(text)
    assert repr(text) in str(refused.value)


def test_an_unknown_type_is_refused_with_all_known_ones() -> None:
    with pytest.raises(SchemaError, match="has 'lng' at position 4") as refused:
        parse_ddl("src lng, dst long")
    assert str(refused.value).startswith(
        "the schema 'src lng, dst long' has 'lng' at position 4, where a type was expected. "
        "Known types: boolean, byte, tinyint, "
    )
    assert "long, bigint" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the schema '' ends at position 0, where a column name was expected."),
        (
            "a int, a long",
            "has 'a' at position 7, where a name other than 'a', which is taken, was expected.",
        ),
        ("a struct<x int, x int>", "at position 16, where a name other than 'x'"),
        ("a-b int", "was expected. Put a name with characters other than a-z, 0-9 and _ in `backquotes`."),
        ("a map<int>", "has '>' at position 9, where ',' after the type of the keys was expected."),
        ("a void not null", "at position 2, where a type other than void, which is always null, before"),
        ("a map<void, int>", "at position 6, where a type other than void, which is always null, for the"),
        ("a decimal(39)", "has '39' at position 10, where a number of digits between 1 and 38 was expected."),
        ("a decimal(0)", "has '0' at position 10, where a number of digits between 1 and 38 was expected."),
        (
            "a decimal(5,6)",
            "has '6' at position 12, where a number of at most 5 digits after the point was expected.",
        ),
        ("a int null", "has 'null' at position 6, where ',' or the end was expected."),
    ],
)
def test_a_refusal_says_what_was_expected_where_and_what_was_found(text: str, words: str) -> None:
    with pytest.raises(
        SchemaError, match=r"^the schema .* was expected|where a type was expected|ends"
    ) as refused:
        parse_ddl(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (pa.schema([]), "a schema without columns"),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), "two columns have the name 'a'"),
        (pa.schema([("a", pa.uint8())]), "'a' has the type uint8, which a schema string cannot express"),
        (pa.schema([("a", pa.large_string())]), "'a' has the type large_string"),
        (pa.schema([("a", pa.timestamp("us", tz="Europe/Paris"))]), "'a' has the type timestamp"),
        (pa.schema([("a", pa.decimal128(3, -1))]), "'a' has the type decimal"),
        (
            pa.schema([("a", pa.list_(pa.field("element", pa.int8(), nullable=False)))]),
            "'a.element' is not nullable, which a schema string cannot express",
        ),
        (pa.schema([("a", pa.struct([("x", pa.uint8())]))]), "'a.x' has the type uint8"),
    ],
)
def test_what_a_string_cannot_say_is_refused_and_not_widened(schema: pa.Schema, words: str) -> None:
    with pytest.raises(SchemaError, match=r"schema string|written as a string|have the name") as refused:
        to_ddl(schema)
    assert words in str(refused.value)


text = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.one_of(st.sampled_from(["a", "b", "not", "comment", "struct", "date", "1", "a b", "`", ""]), text)
plain_types = st.one_of(
    st.sampled_from([parse_ddl(f"c {name}").field("c").type for name in SPARK_TYPES if "<" not in name]),
    st.integers(1, 38).flatmap(
        lambda digits: st.integers(0, digits).map(lambda scale: pa.decimal128(digits, scale))
    ),
)


def fields_of(types: st.SearchStrategy[pa.DataType], min_size: int) -> st.SearchStrategy[list[pa.Field]]:
    comments = st.none() | text.map(lambda comment: {b"comment": comment.encode()})
    field = st.builds(
        lambda name, kind, nullable, comment: pa.field(name, kind, nullable or kind == pa.null(), comment),
        names,
        types,
        st.booleans(),
        comments,
    )
    return st.lists(field, min_size=min_size, max_size=4, unique_by=lambda field: field.name)


data_types = st.recursive(
    plain_types,
    lambda inner: st.one_of(
        inner.map(lambda element: pa.list_(pa.field("element", element))),
        st.tuples(inner.filter(lambda key: key != pa.null()), inner).map(
            lambda kv: pa.map_(pa.field("key", kv[0], nullable=False), pa.field("value", kv[1]))
        ),
        fields_of(inner, 0).map(pa.struct),
    ),
    max_leaves=6,
)


@given(fields_of(data_types, 1).map(pa.schema))
def test_what_is_written_is_read_as_the_same_schema(schema: pa.Schema) -> None:
    assert parse_ddl(to_ddl(schema)).equals(schema, check_metadata=True)


@given(st.text("ab<>(),:`'\" \\\nint array<struct<not null comment", max_size=30))
def test_any_text_is_either_read_or_refused_in_words(text: str) -> None:
    try:
        schema = parse_ddl(text)
    except SchemaError:
        return
    assert parse_ddl(to_ddl(schema)).equals(schema, check_metadata=True)
