"""What cannot be asked of a table is refused when the flow is written, with the operator and the column."""

from collections.abc import Callable
from typing import Any

import pytest

import pointstamp as ps
from pointstamp.errors import FlowError, SchemaError


def tables() -> tuple[ps.Table, ps.Table]:
    flow = ps.Dataflow("test")
    sales = flow.table("sales", "shop string, price long, at double")
    return sales, flow.table("shops", "shop string, city string, price long")


# What a type checker would not let through.
THREE: Any = 3
SHOP: Any = "shop"

CASES: list[tuple[Callable[[Any, Any], Any], type[Exception], str]] = [
    (
        lambda a, b: a.filter(ps.col("prise") > 1),
        SchemaError,
        "'filter' of table .* needs the column 'prise'",
    ),
    (lambda a, b: a.filter(ps.col("price")), SchemaError, "needs a boolean condition, but .* is int64"),
    (lambda a, b: a.filter(lambda batch: True), FlowError, "needs an expression .* got function"),
    (lambda a, b: a.filter(ps.col("diff") > 0), SchemaError, "needs the column 'diff'"),
    (lambda a, b: a.select(ps.col("price") * 2), FlowError, "needs a name"),
    (lambda a, b: a.select("price", price=ps.col("at")), SchemaError, "the column 'price' twice"),
    (lambda a, b: a.select(x="price"), FlowError, r"is the text 'price'\. Write ps.col\('price'\)"),
    (lambda a, b: a.with_columns(diff=ps.lit(1)), SchemaError, "cannot be called 'diff'"),
    (lambda a, b: a.drop("shop", "price", "at"), FlowError, "would have no columns"),
    (lambda a, b: a.rename({"shop": "price"}), SchemaError, "the column 'price' twice"),
    (lambda a, b: a.union(b), SchemaError, "needs the same columns on both sides"),
    (lambda a, b: a.union("b"), FlowError, "needs a table, got str"),
    (lambda a, b: a.join(b, "city"), SchemaError, "on its left side, needs the column 'city'"),
    (lambda a, b: a.join(b, {"at": "price"}), SchemaError, "'at' is double and 'price' is int64"),
    (lambda a, b: a.join(b, "shop", how="outer"), FlowError, "got 'outer'; here that is 'full'"),
    (lambda a, b: a.join(b, "shop", suffix=""), SchemaError, "both sides have a column 'price'"),
    (lambda a, b: a.join(b, ps.col("shop") == 1), FlowError, "give a condition with where="),
    (lambda a, b: a.join(b, []), FlowError, "at least one column to join on"),
    (lambda a, b: a.join(b), FlowError, "at least one column to join on, got none. Give on=, or how='cross'"),
    (lambda a, b: a.join(b, "shop", how="cross"), FlowError, "how='cross' takes no on=, got 'shop'"),
    (lambda a, b: a.join(b, how="cross", suffix=""), SchemaError, "both sides have a column 'shop'"),
    (lambda a, b: a.join("b", "shop"), FlowError, "'join' of table .* needs a table, got str"),
    (lambda a, b: a.crossJoin(b), AttributeError, r"here that is join\(other, how='cross'\)"),
    (lambda a, b: a.merge_asof(b), AttributeError, "here that is join_asof"),
    (
        lambda a, b: a.join(b, "shop", where=ps.col("rice") > 1),
        SchemaError,
        "where= .* needs the column 'rice'",
    ),
    (lambda a, b: a.group_by("city").agg(n=ps.count()), SchemaError, "needs the column 'city'"),
    (
        lambda a, b: a.group_by("shop").agg(n=ps.sum("shop")),
        SchemaError,
        "'n': sum needs a column of numbers",
    ),
    (lambda a, b: a.group_by("shop").agg(shop=ps.count()), SchemaError, "the column 'shop' already exists"),
    (lambda a, b: a.group_by("shop").agg(n="price"), FlowError, "'n' must be an aggregate"),
    (lambda a, b: a.top(0, by="price"), FlowError, "must be 1 or more, got 0"),
    (lambda a, b: a.top(1, by="prise desc"), SchemaError, "needs the column 'prise desc'|column 'prise'"),
    (lambda a, b: a.distinct(by="price"), FlowError, "but no key was given. Name one"),
    (lambda a, b: a.distinct("city"), SchemaError, "'distinct' of table .* needs the column 'city'"),
    (lambda a, b: a.distinct("shop", by="prise"), SchemaError, "by= needs the column 'prise'"),
    (lambda a, b: a.top(1, by=ps.col("price")), FlowError, "got the expression col.*with_columns"),
    (lambda a, b: a.top(1, by="price nulls"), SchemaError, "by= needs the column 'price nulls'"),
    (
        lambda a, b: a.with_columns(x=ps.sum("at", where=ps.col("at") > 1).over(order_by="at")),
        FlowError,
        r"column 'x': sum\(at\) where .* cannot be taken over a window; count, sum, mean, min and max can",
    ),
    (
        lambda a, b: a.with_columns(x=ps.median("price").over(order_by="at")),
        FlowError,
        r"column 'x': median\(price\) cannot be taken over a window",
    ),
    (
        lambda a, b: a.with_columns(x=ps.lag("price").over(order_by="at", rows=3)),
        FlowError,
        r"column 'x': lag\(price, 1\) looks at all rows of its partition, got rows=3",
    ),
    (lambda a, b: a.with_columns(x=ps.sum("at")), FlowError, r"column 'x': sum\(at\) needs a window"),
    (
        lambda a, b: a.with_columns(x=ps.sum("at").over(order_by=ps.col("at"))),
        FlowError,
        r"sum\(at\): over\(\) takes names of columns, got col\('at'\)",
    ),
    (
        lambda a, b: a.with_columns(x=ps.lag("prise").over(partition_by="shop", order_by="at")),
        SchemaError,
        "the column 'prise'",
    ),
    (
        lambda a, b: a.with_columns(at=ps.rank().over(partition_by="shop", order_by="at")),
        SchemaError,
        "the column 'at' already exists",
    ),
    (
        lambda a, b: a.with_columns(x=ps.rank().over(partition_by="city", order_by="at")),
        SchemaError,
        "needs the column 'city'",
    ),
    (
        lambda a, b: a.with_columns(x=ps.sum("shop").over(order_by="at")),
        SchemaError,
        "needs a column of numbers",
    ),
    (
        lambda a, b: a.with_columns(x=ps.lag("at", -1).over(order_by="at")),
        FlowError,
        "must be 0 or more, got -1",
    ),
    (
        lambda a, b: a.with_columns(x=ps.lag("price", 1, "x").over(order_by="at")),
        SchemaError,
        "default 'x' is not a value",
    ),
    (
        lambda a, b: a.with_columns(x=ps.lag(THREE).over(order_by="at")),
        FlowError,
        "name of a column or an expression",
    ),
    (lambda a, b: a.over("shop"), AttributeError, r"here that is with_columns\(n=ps\.row_number\(\)\.over\("),
    (lambda a, b: a.agg(n=ps.sum("prise")), SchemaError, "'agg' of .*, 'n' needs the column 'prise'"),
    (
        lambda a, b: a.agg(n=ps.sum("price", where=ps.col("shop"))),
        SchemaError,
        "where= needs a boolean condition",
    ),
    (lambda a, b: a.agg(n=ps.sum("price", where=SHOP)), FlowError, "where= must be an expression"),
    (lambda a, b: a.agg(n=ps.sum(THREE)), FlowError, "the name of a column or an expression"),
    (lambda a, b: a.agg(n=ps.bool_and("price")), SchemaError, "bool_and needs a column of booleans"),
    (lambda a, b: a.agg(n=ps.median("shop")), SchemaError, "median needs a column of numbers"),
    (lambda a, b: a.agg(n=ps.quantile("price", 2)), FlowError, "a fraction from 0 to 1, got 2"),
    (lambda a, b: a.agg(n=ps.max_by("shop", THREE)), FlowError, "to compare, got 3.*max_by"),
    (lambda a, b: a.agg(n=ps.first("shop", by=[])), FlowError, "'first' needs an order"),
    (lambda a, b: a.agg(n=ps.last("shop", by="prise")), SchemaError, "by= needs the column 'prise'"),
    (lambda a, b: a.agg(n=ps.aggregate(len, "long", "x")), SchemaError, "'n' needs the column 'x'"),
    (lambda a, b: a.agg(n=ps.aggregate(SHOP, "long")), FlowError, "needs a function from the rows"),
    (lambda a, b: a.top(1, by=[]), FlowError, "needs a column to order by"),
    (lambda a, b: a.top(1, by="price", rank="at"), SchemaError, "the column 'at' already exists"),
    (lambda a, b: a.iterate(lambda x: x.select("shop")), SchemaError, "needs the same columns on both sides"),
    (lambda a, b: a.groupBy("shop"), AttributeError, r"here that is group_by\('key'\)\.agg\("),
    (lambda a, b: a.withColumn("x", 1), AttributeError, "here that is with_columns"),
    (lambda a, b: a.jion(b), AttributeError, "has no 'jion'. Did you mean 'join'"),
]


@pytest.mark.parametrize(("asked", "kind", "said"), CASES)
def test_what_cannot_be_asked_is_refused_in_words(
    asked: Callable[[Any, Any], Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        asked(*tables())


def test_a_column_may_be_named_as_an_option() -> None:
    sales, _ = tables()
    assert sales.select("shop", name=ps.col("price")).schema.names == ["shop", "name"]
    made = sales.group_by("shop").agg({"name": ps.count()}, running=ps.max("price"))
    assert made.schema.names == ["shop", "name", "running"]


def test_streams_have_the_same_verbs_for_columns() -> None:
    flow = ps.Dataflow("test")
    sales = flow.stream_input("sales", "shop string, price long")
    made = sales.filter(ps.col("price") > 1).with_columns(twice=ps.col("price") * 2).drop("price")
    flow.output("sales", made.rename({"shop": "store"}).select("twice", "store"))
    rows = [{"shop": "a", "price": 1}, {"shop": "b", "price": 2}]
    assert flow.run(sales=[rows])["sales"][0].to_pylist() == [{"twice": 4, "store": "b"}]


def test_streams_split_by_an_expression() -> None:
    flow = ps.Dataflow("test")
    cheap, dear = flow.stream_input("sales", "price long").split(ps.col("price") < 5)
    flow.output("cheap", cheap)
    flow.output("dear", dear)
    found = flow.run(sales=[[{"price": 1}, {"price": None}, {"price": 9}]])
    assert found["cheap"][0]["price"].to_pylist() == [1]
    assert found["dear"][0]["price"].to_pylist() == [None, 9]


def test_without_keys_a_reduction_is_one_row_also_when_all_are_gone() -> None:
    flow = ps.Dataflow("test")
    sales = flow.table("sales", "price long, w long", weight="w")
    flow.output("all", sales.agg(sales=ps.count(), most=ps.max("price")))
    epochs = [[{"price": 3, "w": 1}, {"price": 4, "w": 1}], [{"price": 4, "w": -1}, {"price": 3, "w": -1}]]
    found = flow.run(sales=epochs, workers=2)["all"]
    assert found[0].to_pylist() == [{"sales": 2, "most": 4, "diff": 1}]
    assert sorted(map(str, found[1].to_pylist())) == [
        "{'sales': 0, 'most': None, 'diff': 1}",
        "{'sales': 2, 'most': 4, 'diff': -1}",
    ]
