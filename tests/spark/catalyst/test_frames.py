"""Views of DataFrames and Spark SQL texts are Spark's own answer after every epoch.

Families:
- texts and frames: each operator that a plan can have, over rows that are inserted, replaced and deleted; the
  oracle is Spark itself, which is asked again over the rows that are there;
- decisions: what Spark leaves open is decided by the rows alone, and said;
- runs: the same flow in this process and as a Spark job.
"""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as PySpark's users call it

import pointstamp as ps
from pointstamp.errors import FlowError
from support.batch_answers import Fed, with_deletions
from support.view_answers import asked, check, register

CITIES = ["Rome", "Oslo", "Lima", None]
EPOCHS = 3


@pytest.fixture(scope="module")
def fed() -> Fed:
    random = np.random.default_rng(5)
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)

    def orders(first: int, count: int) -> pa.Table:
        numbers = range(first, first + count)
        minutes = [int(each) for each in random.integers(0, 120, count)]
        return pa.table(
            {
                "id": pa.array(numbers, pa.int64()),
                "city": pa.array([CITIES[each] for each in random.integers(0, 4, count)]),
                "price": pa.array(
                    [None if each == 9 else float(each) for each in random.integers(0, 10, count)]
                ),
                "amount": pa.array([f"{each / 100:.2f}" for each in random.integers(-999, 9999, count)]).cast(
                    pa.decimal128(10, 2)
                ),
                "at": pa.array(
                    [start + datetime.timedelta(minutes=each) for each in minutes],
                    pa.timestamp("us", tz="UTC"),
                ),
                "tags": pa.array(
                    [[None, [], ["a"], ["b", "a"]][each] for each in random.integers(0, 4, count)],
                    pa.list_(pa.string()),
                ),
            }
        )

    shops = pa.table(
        {
            "city": ["Rome", "Oslo", "Oslo", "Kyiv", None],
            "country": ["Italy", "Norway", None, "Ukraine", "Nowhere"],
            "size": pa.array([1, 2, 3, 4, 5], pa.int32()),
        }
    )
    empty = shops.slice(0, 0)
    epochs = {
        "orders": [orders(0, 14), orders(14, 8), orders(22, 4)],
        "shops": [shops.slice(0, 3), shops.slice(3), empty],
    }
    return with_deletions(epochs, 3, {"orders": "price", "shops": "country"})


TEXTS = {
    "all": "select * from orders",
    "project": "select id, upper(city) as town, price * 2 + 1 as twice from orders where id % 2 = 0",
    "group": "select city, sum(price), count(*), avg(amount), min(at), max(id) from orders group by city",
    "global": "select count(*), sum(amount), max(price) from orders where id > 5",
    "having": "select city from orders group by city having count(*) > 2 and sum(price) > 3",
    "filter": "select city, sum(price) filter (where id > 4), count(distinct price) from orders "
    "group by city",
    "distinct": "select count(distinct city), sum(distinct price), count(distinct city, price) from orders",
    "rollup": "select city, price, grouping(city) g, grouping_id() i, count(*) from orders "
    "group by rollup(city, price)",
    "cube": "select city, id % 2 as odd, sum(amount) from orders group by cube(city, id % 2)",
    "sets": "select city, price, count(*) from orders group by grouping sets ((city), (price), ())",
    "pivot": "select * from (select city, id % 3 as third, amount from orders) "
    "pivot (sum(amount), count(*) for third in (0 as none, 1 as one))",
    "inner": "select id, country from orders join shops on orders.city = shops.city",
    "comma": "select o.id, s.country from orders o, shops s where o.city = s.city and o.price > s.size",
    "left": "select id, country from orders left join shops on orders.city = shops.city and id > size",
    "right": "select id, country from orders right join shops on orders.city = shops.city and id > size",
    "full": "select id, orders.city, shops.city as other from orders full join shops on "
    "orders.city = shops.city",
    "semi": "select id from orders left semi join shops on orders.city = shops.city and price > size",
    "anti": "select id from orders left anti join shops on orders.city = shops.city",
    "band": "select id, size from orders left join shops on price < size",
    "null_safe": "select id, country from orders join shops on orders.city <=> shops.city",
    "cross": "select id, country from orders cross join shops where id < 4",
    "using": "select city, id, country from orders full join shops using (city)",
    "exists": "select id from orders o where exists (select 1 from shops s where s.city = o.city)",
    "not_exists": "select id from orders o where not exists "
    "(select 1 from shops s where s.city = o.city and s.size > o.price)",
    "in": "select id from orders where city in (select city from shops)",
    "not_in": "select id from orders where city not in (select city from shops where size < 3)",
    "not_in_null": "select id from orders where city not in (select city from shops)",
    "not_in_empty": "select id from orders where city not in (select city from shops where size > 99)",
    "in_or": "select id from orders where city in (select city from shops) or price > 5",
    "scalar": "select id, price - (select avg(price) from orders) as above from orders",
    "scalar_none": "select id, (select max(size) from shops where size > 99) as none from orders",
    "one_row": "select id from orders where price > (select size from shops where country = 'Italy')",
    "correlated": "select id from orders o where price >= (select max(price) from orders i where "
    "i.city = o.city)",
    "correlated_count": "select size, (select count(*) from orders o where o.city = s.city) as n from shops "
    "s",
    "lateral": "select country, m from shops s, lateral (select max(price) m from orders o where "
    "o.city = s.city)",
    "union": "select city from orders union select city from shops",
    "union_all": "select city, id from orders union all select city, size from shops",
    "except": "select city from orders except select city from shops",
    "except_all": "select city from orders except all select city from shops",
    "intersect": "select city from orders intersect select city from shops",
    "intersect_all": "select city from orders intersect all select city from shops",
    "common": "with t as (select city, sum(price) as s from orders group by city) "
    "select a.city, b.city as other from t a join t b on a.s <= b.s",
    "limit": "select id, price from orders order by price desc nulls last, id limit 3",
    "offset": "select id, price from orders order by price desc, id limit 3 offset 2",
    "offset_only": "select id from orders order by id offset 5",
    "no_limit": "select id from orders limit 0",
    "places": "select id, row_number() over (partition by city order by price, id) as n, "
    "rank() over (partition by city order by price) as r, dense_rank() over (order by price) as d, "
    "ntile(3) over (order by id) as t, percent_rank() over (order by price) as p, "
    "cume_dist() over (partition by city order by price) as c from orders",
    "neighbors": "select id, lag(price) over (partition by city order by id) as a, "
    "lead(price, 2, -1.0D) over (order by id) as b from orders",
    "rows": "select id, sum(price) over (partition by city order by id rows between 2 preceding "
    "and 1 following) "
    "as s, first_value(price) over (order by id rows between 1 preceding and current row) as f from orders",
    "range": "select id, sum(amount) over (order by at range between interval 10 minutes "
    "preceding and current row)"
    " as s, count(*) over (partition by city order by id range between 3 preceding and 3 following) as n "
    "from orders",
    "whole": "select id, price / sum(price) over (partition by city) as share, max(id) over () as "
    "top from orders",
    "over_groups": "select city, rank() over (order by sum(amount), city) as r from orders group by city",
    "subquery_beside_groups": "select city, sum(price) as s, (select count(*) from shops) as n, "
    "sum(price - (select min(size) from shops)) + (select max(size) from shops) as m from orders "
    "group by rollup(city)",
    "greatest_struct": "select city, max(struct(price, id)) as m, count(distinct price) as c, "
    "min(if(id % 4 = 0, null, struct(amount, city))) filter (where id > 3) as n, "
    "max_by(id, struct(price, id)) as b from orders group by city",
    "order_of_structs": "select id, city from orders "
    "order by struct(city, struct(amount, price)) desc, id limit 7",
    "rank_of_structs": "select id, rank() over (order by if(id % 3 = 0, null, struct(city)) nulls last) "
    "as r, dense_rank() over (partition by city order by struct(price, tags is null) desc nulls first) "
    "as d from orders",
    "explode": "select id, tag from orders lateral view explode(tags) as tag",
    "explode_outer": "select id, tag from orders lateral view outer explode(tags) as tag",
    "posexplode": "select id, place, tag from orders lateral view posexplode(tags) as place, tag",
    "explode_map": "select id, k, v from orders lateral view "
    "explode(map('a', id, concat('x', id), null)) as k, v",
    "posexplode_map": "select id, p, k, v from orders lateral view outer "
    "posexplode(if(id % 2 = 0, map('a', price), null)) as p, k, v",
    "stack": "select id, n, t from orders lateral view stack(3, 1L, city, 2L, null, id) s as n, t",
    "inline": "select inline(array(struct(id as a, city as b), struct(0L as a, 'x' as b))) from orders",
    "values": "select o.id, v.word from orders o join values (1, 'one'), (2, 'two') v(n, word) on o.id = v.n",
    "range_function": "select r.id, o.city from range(5) r left join orders o on r.id = o.id",
    "tumbling": "select window(at, '10 minutes') as w, city, count(*) from orders group by 1, 2",
    "sliding": "select window(at, '10 minutes', '5 minutes').start as w, sum(amount) from orders group by 1",
    "session": "select session_window(at, '7 minutes') as w, city, count(*), sum(amount) from "
    "orders group by 1, 2",
    "session_global": "select session_window(at, '3 minutes').end as e, count(*) from orders group by 1",
    "recursive": "with recursive r(n, depth) as (select id, 0 from orders where id < 3 union all "
    "select n + 5, depth + 1 from r where depth < 3) select n, depth, count(*) as c from "
    "r group by n, depth",
    "case": "select id, case when price > 5 then 'high' when price is null then 'none' else 'low' end as c "
    "from orders",
    "void": "select id, null as nothing from orders union all select id, city from orders",
    "constant": "select 'x' as x, count(*) from orders group by 'x'",
    "twice": "select id as a, id as b, city from orders order by id",
    "odd_names": "select id as `distinct`, city as `odd name, asc` from orders order by 2 nulls "
    "first, 1 limit 5",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_sparks_answer_after_every_epoch(spark: SparkSession, fed: Fed, name: str) -> None:
    answers = check(spark, TEXTS[name], fed, workers=1 + len(name) % 2)
    assert len(answers) == EPOCHS
    empty = {"no_limit"}
    assert any(answers) == (name not in empty)


def _deduplicated(spark: SparkSession) -> DataFrame:
    return spark.table("orders").dropDuplicates(["city"]).select("city")


def _by_name(spark: SparkSession) -> DataFrame:
    orders, shops = spark.table("orders").select("id", "city"), spark.table("shops").select("city", "country")
    return orders.unionByName(shops, allowMissingColumns=True)


def _last_of_each(spark: SparkSession) -> DataFrame:
    newest = Window.partitionBy("city").orderBy(F.desc("id"))
    numbered = spark.table("orders").withColumn("n", F.row_number().over(newest))
    return numbered.where("n = 1").drop("n", "tags")


def _pivoted(spark: SparkSession) -> DataFrame:
    return spark.table("orders").groupBy("city").pivot("id", [1, 2, 3]).agg(F.sum("price"))


def _self_joined(spark: SparkSession) -> DataFrame:
    orders = spark.table("orders")
    pairs = orders.alias("a").join(orders.alias("b"), F.expr("a.city = b.city and a.id < b.id"))
    return pairs.select(F.col("a.id").alias("one"), F.col("b.id").alias("other"))


def _of_a_view(spark: SparkSession) -> DataFrame:
    spark.sql("create or replace temp view dear as select id, city from orders where price > 4")
    return spark.table("dear").groupBy("city").count()


def _watermarked(spark: SparkSession) -> DataFrame:
    orders = spark.table("orders").withWatermark("at", "10 minutes")
    return orders.groupBy(F.window("at", "30 minutes")).agg(F.max("price").alias("most"))


FRAMES = [_deduplicated, _by_name, _last_of_each, _pivoted, _self_joined, _of_a_view, _watermarked]


@pytest.mark.parametrize("query", FRAMES)
def test_a_frame_is_sparks_answer_after_every_epoch(spark: SparkSession, fed: Fed, query: object) -> None:
    assert any(check(spark, query, fed, workers=2))  # type: ignore[arg-type]


def test_a_view_of_one_frame_has_one_output(spark: SparkSession, fed: Fed) -> None:
    register(spark, {"orders": fed.there["orders"][0]})
    flow = ps.view(spark.sql("select city, sum(price) from orders group by city"))
    results = flow.run({"orders": [fed.there["orders"][0]]})["result"]
    theirs = asked(spark, "select city, sum(price) from orders group by city").toArrow().to_pylist()
    ours = [{name: row[name] for name in ("city", "sum(price)")} for row in results[0].to_pylist()]
    assert sorted(map(str, ours)) == sorted(map(str, theirs))


def test_a_flow_runs_as_a_spark_job_too(spark: SparkSession, fed: Fed) -> None:
    text = "select city, count(*) as n from orders group by city"
    register(spark, {"orders": fed.there["orders"][2]})
    flow = ps.views(spark, {"counts": text})
    found = flow.run({"orders": spark.table("orders")}, on=spark, workers=2).table("counts")
    assert sorted(map(str, found.collect())) == sorted(map(str, spark.sql(text).collect()))


def test_several_views_share_their_tables(spark: SparkSession, fed: Fed) -> None:
    register(spark, {"orders": fed.there["orders"][0]})
    flow = ps.views(
        spark, {"by_city": "select city, count(*) n from orders group by city", "all": "table orders"}
    )
    assert list(flow.run({"orders": [fed.there["orders"][0]]})) == ["by_city", "all"]


def test_a_scalar_subquery_with_two_rows_is_an_error(spark: SparkSession, fed: Fed) -> None:
    register(spark, {name: tables[0].slice(0, 0) for name, tables in fed.there.items()})
    flow = ps.views(spark, {"v": "select id from orders where price > (select size from shops)"})
    with pytest.raises(FlowError, match="a scalar subquery must have one row, got 3"):
        flow.run({"orders": [fed.there["orders"][0]], "shops": [fed.there["shops"][0]]})


def test_rows_are_replaced_by_key(spark: SparkSession) -> None:
    spark.createDataFrame([], "id long, city string").createOrReplaceTempView("people")
    flow = ps.views(
        spark,
        {"n": "select city, count(*) as n from people group by city"},
        changes={"people": {"key": "id", "deleted": "gone"}},
    )
    first = pa.table({"id": [1, 2], "city": ["Rome", "Rome"], "gone": [False, False]})
    second = pa.table({"id": [1, 2], "city": ["Oslo", None], "gone": [False, True]})
    results = flow.run({"people": [first, second]})["n"]
    assert sorted(map(str, results[1].to_pylist())) == [
        "{'city': 'Oslo', 'n': 1, 'diff': 1}",
        "{'city': 'Rome', 'n': 2, 'diff': -1}",
    ]


def test_what_spark_leaves_open_is_said_by_explain(spark: SparkSession, fed: Fed) -> None:
    register(spark, {"orders": fed.there["orders"][0]})
    flow = ps.views(
        spark,
        {"one": spark.table("orders").dropDuplicates(["city"]), "two": "select id from orders order by id"},
    )
    told = flow.explain()
    assert "dropDuplicates keeps the first row of each key in the order of all columns" in told
    assert "ORDER BY without LIMIT is ignored" in told
    assert "spark.sql.ansi.enabled=true" in told
