"""``ps.view``: expressions of Ibis and DataFrames of SQLFrame are views, and DuckDB's after every epoch.

Each package says for DuckDB what it means by the same expression, so that a text that we read differently
from its author is found.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import ibis  # type: ignore[import-untyped]
import pytest
from sqlframe.standalone import StandaloneSession, Window
from sqlframe.standalone import functions as F  # noqa: N812 - as PySpark's users call it

import pointstamp as ps
from support.batch_answers import judge
from support.sql_cases import declared, fed

AnExpression: TypeAlias = Any  # Ibis has no types
DataFrame: TypeAlias = Any  # and those of SQLFrame are not its own

T = ibis.table({"k": "int64", "a": "int64", "b": "string", "x": "float64"}, name="t")
U = ibis.table({"k": "int64", "a": "int32", "c": "string"}, name="u")
V = ibis.table({"k": "int64", "ts": "timestamp", "d": "date", "l": "array<int64>"}, name="v")


def totals() -> AnExpression:
    both = T.join(U, T.k == U.k)
    counted = both.group_by("c").agg(total=both.a.sum(), many=both.count(), kinds=both.b.nunique())
    return counted.filter(counted.many > 1)


def chosen() -> AnExpression:
    ranked = T.mutate(place=ibis.row_number().over(group_by="k", order_by=[T.a.desc(), T.b, T.x]))
    return ranked.filter(ranked.place < 2).select("k", "a", "b")


def without() -> AnExpression:
    others = T.anti_join(U, "k").select("k", "b").distinct()
    return others.union(U.select("k", b=U.c.upper()), distinct=True)


def cases_of_values() -> AnExpression:
    kind = ibis.cases((T.a > 3, "much"), (T.a.isnull(), "none"), else_="little")
    return T.select("k", kind=kind, half=T.x / 2, text=T.b.fill_null("-").length())


def optional() -> AnExpression:
    return T.left_join(U, T.k == U.k).select(k=T.k, a=T.a, other=U.a, c=U.c)


IBIS = {each.__name__: each for each in (totals, chosen, without, cases_of_values, optional)}


@pytest.mark.parametrize("name", IBIS)
def test_an_expression_of_ibis_is_duckdbs_after_every_epoch(name: str) -> None:
    expression = IBIS[name]()
    flow = ps.view(expression, inputs=declared("t", "u"))
    assert judge(flow, str(ibis.to_sql(expression, dialect="duckdb")), fed(3, epochs=3), 2) == 3


def session() -> StandaloneSession:
    made = StandaloneSession()
    made.catalog.add_table("t", {"k": "bigint", "a": "bigint", "b": "string", "x": "double"})
    made.catalog.add_table("u", {"k": "bigint", "a": "int", "c": "string"})
    return made


def frame_of_totals(t: DataFrame, u: DataFrame) -> DataFrame:
    both = t.join(u, on="k", how="inner").where(F.col("b") != "x")
    return both.groupBy("c").agg(F.sum(t["a"]).alias("total"), F.countDistinct("b").alias("kinds"))


def frame_of_first(t: DataFrame, u: DataFrame) -> DataFrame:
    by = [F.col("a").desc_nulls_last(), F.col("b").asc_nulls_first(), F.col("x").asc_nulls_first()]
    order = Window.partitionBy("k").orderBy(*by)  # the place of nulls is said, because engines differ in it
    return t.withColumn("place", F.row_number().over(order)).where(F.col("place") <= 2).drop("x")


def frame_of_sets(t: DataFrame, u: DataFrame) -> DataFrame:
    return t.select("k", "a").union(u.select("k", "a")).dropDuplicates().where(F.col("k").isNotNull())


def frame_of_values(t: DataFrame, u: DataFrame) -> DataFrame:
    kind = (
        F.when(F.col("a") > 3, F.lit("much"))
        .when(F.col("a").isNull(), F.lit("none"))
        .otherwise(F.lit("little"))
    )
    return t.select(F.col("k"), kind.alias("kind"), F.coalesce(F.col("b"), F.lit("-")).alias("text"))


def frame_of_semi(t: DataFrame, u: DataFrame) -> DataFrame:
    return t.join(u.select("k"), on="k", how="left_semi").select("k", "b")


FRAMES: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    each.__name__: each
    for each in (frame_of_totals, frame_of_first, frame_of_sets, frame_of_values, frame_of_semi)
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_of_sqlframe_is_duckdbs_after_every_epoch(name: str) -> None:
    made = session()
    frame = FRAMES[name](made.table("t"), made.table("u"))
    flow = ps.view(frame, inputs=declared("t", "u"))
    assert judge(flow, frame.sql(dialect="duckdb"), fed(5, epochs=3), 2) == 3


def test_schemas_are_those_of_the_expression_and_names_make_several_views() -> None:
    flow = ps.view({"large": T.filter(T.a > 1).select("k"), "days": V.select("k", "d", "l")})
    assert set(flow.plan.output_schemas()) == {"large", "days"}
    results = flow.run(t=[[{"k": 1, "a": 2, "b": None, "x": 0.5}]], v=[[]])
    assert results.table("large").to_pylist() == [{"k": 1}]
    frame = session().table("t").groupBy("b").agg(F.max("x").alias("most"))
    assert ps.view(frame).run(t=[[{"k": 1, "a": 2, "b": "y", "x": 0.5}]]).table("result").to_pylist() == [
        {"b": "y", "most": 0.5}
    ]


def test_what_is_no_such_expression_is_refused_in_words() -> None:
    with pytest.raises(ps.errors.PointstampError, match=r"got str\. For a text, use ps.sql"):
        ps.view("select 1")
    stranger = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()
    with pytest.raises(ps.errors.PointstampError, match="takes one DataFrame of PySpark"):
        ps.view({"one": stranger})
    with pytest.raises(
        ps.errors.PointstampError, match=r"rand\(\) .*is in the SQL of the expression:\nSELECT"
    ):
        ps.view(T.select(r=ibis.random()))
    with pytest.raises(ps.errors.PointstampError, match="the column 'i' has the Ibis type inet"):
        ps.view(ibis.table({"i": "inet"}, name="hosts"))
