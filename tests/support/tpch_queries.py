"""The 22 queries of TPC-H as operations on tables: what ``tpch_sql`` says, said without SQL.

A subquery that is one value is a table of one row, and joined with every row.
"""

from datetime import date
from decimal import Decimal
from typing import Final

import pointstamp as ps
from pointstamp import functions as F  # noqa: N812 - as PySpark's users call it

Table = ps.Table
REVENUE: Final = ps.col("l_extendedprice") * (1 - ps.col("l_discount"))


def q1(lineitem: Table) -> Table:
    shipped = lineitem.filter(ps.col("l_shipdate") <= date(1996, 9, 2))
    return shipped.group_by("l_returnflag", "l_linestatus").agg(
        sum_qty=ps.sum("l_quantity"),
        sum_base_price=ps.sum("l_extendedprice"),
        sum_disc_price=ps.sum(REVENUE),
        sum_charge=ps.sum(REVENUE * (1 + ps.col("l_tax"))),
        avg_qty=ps.mean("l_quantity"),
        count_order=ps.count(),
    )


def q2(part: Table, supplier: Table, partsupp: Table, nation: Table, region: Table) -> Table:
    brass = part.filter((ps.col("p_size") < 12) & ps.col("p_type").ends_with("BRASS"))
    offers = (
        partsupp.join(brass, {"ps_partkey": "p_partkey"})
        .join(supplier, {"ps_suppkey": "s_suppkey"})
        .join(of_region(nation, region, "EUROPE"), {"s_nationkey": "n_nationkey"})
    )
    cheapest = offers.top(1, "ps_partkey", by="ps_supplycost", ties=True).select(
        "s_acctbal", "s_name", "n_name", "p_mfgr", "s_phone", p_partkey=ps.col("ps_partkey")
    )
    return cheapest.top(5, by=["s_acctbal desc", "n_name", "s_name", "p_partkey", "p_mfgr", "s_phone"])


def q3(customer: Table, orders: Table, lineitem: Table) -> Table:
    early = orders.filter(ps.col("o_orderdate") < date(1995, 3, 15))
    builders = customer.filter(ps.col("c_mktsegment") == "BUILDING")
    lines = lineitem.filter(ps.col("l_shipdate") > date(1995, 3, 15))
    # A customer that is there twice has every order twice, as in SQL.
    sold = lines.join(early, {"l_orderkey": "o_orderkey"}).join(builders, {"o_custkey": "c_custkey"})
    sums = sold.group_by("l_orderkey", "o_orderdate").agg(revenue=ps.sum(REVENUE))
    return sums.top(10, by=["revenue desc", "o_orderdate", "l_orderkey"])


def q4(orders: Table, lineitem: Table) -> Table:
    quarter = orders.filter(
        (ps.col("o_orderdate") >= date(1993, 7, 1)) & (ps.col("o_orderdate") < date(1995, 10, 1))
    )
    late = lineitem.filter(ps.col("l_commitdate") < ps.col("l_receiptdate"))
    waited = quarter.join(late, {"o_orderkey": "l_orderkey"}, how="semi")
    return waited.group_by("o_orderpriority").agg(order_count=ps.count())


def q5(
    customer: Table, orders: Table, lineitem: Table, supplier: Table, nation: Table, region: Table
) -> Table:
    years = orders.filter(
        (ps.col("o_orderdate") >= date(1993, 1, 1)) & (ps.col("o_orderdate") < date(1996, 1, 1))
    )
    sold = (
        lineitem.join(years, {"l_orderkey": "o_orderkey"})
        .join(customer, {"o_custkey": "c_custkey"})
        .join(supplier, {"l_suppkey": "s_suppkey", "c_nationkey": "s_nationkey"})
        .join(of_region(nation, region, "EUROPE", "AMERICA"), {"c_nationkey": "n_nationkey"})
    )
    return sold.group_by("n_name").agg(revenue=ps.sum(REVENUE))


def q6(lineitem: Table) -> Table:
    wanted = lineitem.filter(
        (ps.col("l_shipdate") >= date(1994, 1, 1))
        & (ps.col("l_shipdate") < date(1995, 1, 1))
        & ps.col("l_discount").between(Decimal("0.05"), Decimal("0.07"))
        & (ps.col("l_quantity") < 24)
    )
    return wanted.agg(revenue=ps.sum(ps.col("l_extendedprice") * ps.col("l_discount")))


def q7(supplier: Table, lineitem: Table, orders: Table, customer: Table, nation: Table) -> Table:
    pair = (ps.col("supp_nation") == "FRANCE") & (ps.col("cust_nation") == "GERMANY")
    other = (ps.col("supp_nation") == "GERMANY") & (ps.col("cust_nation") == "FRANCE")
    shipped = (
        lineitem.filter(ps.col("l_shipdate").between(date(1995, 1, 1), date(1996, 12, 31)))
        .with_columns(l_year=F.year("l_shipdate"))
        .join(supplier, {"l_suppkey": "s_suppkey"})
        .join(orders, {"l_orderkey": "o_orderkey"})
        .join(customer, {"o_custkey": "c_custkey"})
        .join(nation.select("n_nationkey", supp_nation=ps.col("n_name")), {"s_nationkey": "n_nationkey"})
        .join(nation.select("n_nationkey", cust_nation=ps.col("n_name")), {"c_nationkey": "n_nationkey"})
        .filter(pair | other)
    )
    return shipped.group_by("supp_nation", "cust_nation", "l_year").agg(revenue=ps.sum(REVENUE))


def q8(
    part: Table, supplier: Table, lineitem: Table, orders: Table, customer: Table, nation: Table,
    region: Table,
) -> Table:  # fmt: skip
    ours = ps.when(ps.col("supp_nation") == "BRAZIL", REVENUE).otherwise(Decimal(0))
    sold = (
        lineitem.join(part.filter(ps.col("p_type").ends_with("STEEL")), {"l_partkey": "p_partkey"})
        .join(supplier, {"l_suppkey": "s_suppkey"})
        .join(orders, {"l_orderkey": "o_orderkey"})
        .join(customer, {"o_custkey": "c_custkey"})
        .join(of_region(nation, region, "AMERICA"), {"c_nationkey": "n_nationkey"})
        .join(nation.select("n_nationkey", supp_nation=ps.col("n_name")), {"s_nationkey": "n_nationkey"})
        .with_columns(o_year=F.year("o_orderdate"))
    )
    sums = sold.group_by("o_year").agg(ours=ps.sum(ours), all=ps.sum(REVENUE))
    return sums.select("o_year", mkt_share=ps.col("ours").cast("double") / ps.col("all").cast("double"))


def q9(part: Table, supplier: Table, lineitem: Table, partsupp: Table, orders: Table, nation: Table) -> Table:
    sold = (
        lineitem.join(part.filter(ps.col("p_name").contains("green")), {"l_partkey": "p_partkey"})
        .join(partsupp, {"l_suppkey": "ps_suppkey", "l_partkey": "ps_partkey"})
        .join(supplier, {"l_suppkey": "s_suppkey"})
        .join(orders, {"l_orderkey": "o_orderkey"})
        .join(nation, {"s_nationkey": "n_nationkey"})
        .with_columns(nation=ps.col("n_name"), o_year=F.year("o_orderdate"))
    )
    profit = REVENUE - ps.col("ps_supplycost") * ps.col("l_quantity")
    return sold.group_by("nation", "o_year").agg(sum_profit=ps.sum(profit))


def q10(customer: Table, orders: Table, lineitem: Table, nation: Table) -> Table:
    quarter = orders.filter(
        (ps.col("o_orderdate") >= date(1993, 10, 1)) & (ps.col("o_orderdate") < date(1995, 1, 1))
    )
    returned = lineitem.filter(ps.col("l_returnflag") == "R")
    lost = (
        returned.join(quarter, {"l_orderkey": "o_orderkey"})
        .rename({"o_custkey": "c_custkey"})
        .join(customer, "c_custkey")
        .join(nation, {"c_nationkey": "n_nationkey"})
        .group_by("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name")
        .agg(revenue=ps.sum(REVENUE))
    )
    return lost.top(4, by=["revenue desc", "c_custkey", "c_name", "c_acctbal", "c_phone", "n_name"])


def q11(partsupp: Table, supplier: Table, nation: Table) -> Table:
    stock = (
        partsupp.join(supplier, {"ps_suppkey": "s_suppkey"})
        .join(nation.filter(ps.col("n_name") == "GERMANY"), {"s_nationkey": "n_nationkey"})
        .select("ps_partkey", value=ps.col("ps_supplycost") * ps.col("ps_availqty"))
    )
    return (
        stock.group_by("ps_partkey")
        .agg(value=ps.sum("value"))
        .join(stock.agg(all=ps.sum("value")), how="cross")
        .filter(ps.col("value") > ps.col("all") * Decimal("0.2"))
        .select("ps_partkey", "value")
    )


def q12(orders: Table, lineitem: Table) -> Table:
    late = lineitem.filter(
        ps.col("l_shipmode").is_in(["MAIL", "SHIP"])
        & (ps.col("l_commitdate") < ps.col("l_receiptdate"))
        & (ps.col("l_shipdate") < ps.col("l_commitdate"))
        & (ps.col("l_receiptdate") >= date(1994, 1, 1))
        & (ps.col("l_receiptdate") < date(1996, 1, 1))
    )
    high = ps.col("o_orderpriority").is_in(["1-URGENT", "2-HIGH"])
    return (
        late.join(orders, {"l_orderkey": "o_orderkey"})
        .group_by("l_shipmode")
        .agg(high_line_count=ps.count(where=high), low_line_count=ps.count(where=~high))
    )


def q13(customer: Table, orders: Table) -> Table:
    plain = orders.filter(~ps.col("o_comment").like("%special%requests%"))
    theirs = customer.join(plain, {"c_custkey": "o_custkey"}, how="left")
    return (
        theirs.group_by("c_custkey")
        .agg(c_count=ps.count("o_orderkey"))
        .group_by("c_count")
        .agg(custdist=ps.count())
    )


def q14(lineitem: Table, part: Table) -> Table:
    year = lineitem.filter(
        (ps.col("l_shipdate") >= date(1995, 1, 1)) & (ps.col("l_shipdate") < date(1996, 1, 1))
    )
    promo = ps.when(ps.col("p_type").starts_with("PROMO"), REVENUE).otherwise(Decimal(0))
    sold = year.join(part, {"l_partkey": "p_partkey"})
    share = 100.0 * ps.col("promo").cast("double") / ps.col("all").cast("double")
    return sold.agg(promo=ps.sum(promo), all=ps.sum(REVENUE)).select(promo_revenue=share)


def q15(lineitem: Table, supplier: Table) -> Table:
    lines = lineitem.filter(
        (ps.col("l_shipdate") >= date(1994, 1, 1)) & (ps.col("l_shipdate") < date(1996, 4, 1))
    )
    revenue = lines.group_by("l_suppkey").agg(total_revenue=ps.sum(REVENUE))
    best = revenue.top(1, by="total_revenue desc", ties=True)
    return supplier.join(best, {"s_suppkey": "l_suppkey"}).select(
        "s_suppkey", "s_name", "s_phone", "total_revenue"
    )


def q16(partsupp: Table, part: Table, supplier: Table) -> Table:
    wanted = part.filter(
        (ps.col("p_brand") != "Brand#12")
        & ~ps.col("p_type").starts_with("MEDIUM POLISHED")
        & ps.col("p_size").is_in([1, 3, 4, 5, 8, 9, 10, 12, 14])
    )
    bad = supplier.filter(ps.col("s_comment").like("%Customer%Complaints%"))
    offers = partsupp.join(wanted, {"ps_partkey": "p_partkey"}).join(
        bad, {"ps_suppkey": "s_suppkey"}, how="anti"
    )
    return offers.group_by("p_brand", "p_type", "p_size").agg(supplier_cnt=ps.count_distinct("ps_suppkey"))


def q17(lineitem: Table, part: Table) -> Table:
    means = lineitem.group_by("l_partkey").agg(mean=ps.mean("l_quantity"))
    small = (
        lineitem.join(part.filter(ps.col("p_brand").starts_with("Brand#2")), {"l_partkey": "p_partkey"})
        .join(means, "l_partkey", where=ps.col("l_quantity").cast("double") < 0.9 * ps.col("mean"))
        .agg(all=ps.sum("l_extendedprice"))
    )
    return small.select(avg_yearly=ps.col("all").cast("double") / 7.0)


def q18(customer: Table, orders: Table, lineitem: Table) -> Table:
    large = lineitem.group_by("l_orderkey").agg(sum=ps.sum("l_quantity")).filter(ps.col("sum") > 80)
    lines = lineitem.join(large, "l_orderkey", how="semi").rename({"l_orderkey": "o_orderkey"})
    sold = lines.join(orders, "o_orderkey").rename({"o_custkey": "c_custkey"}).join(customer, "c_custkey")
    sums = sold.group_by("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice").agg(
        quantity=ps.sum("l_quantity")
    )
    return sums.top(6, by=["o_totalprice desc", "o_orderdate", "c_name", "c_custkey", "o_orderkey"])


def q19(lineitem: Table, part: Table) -> Table:
    quantity, size, box = ps.col("l_quantity"), ps.col("p_size").between(1, 15), ps.col("p_container")
    small = box.is_in(["SM CASE", "SM BOX", "SM BAG"]) & quantity.between(1, 31) & size
    medium = box.is_in(["MED BAG", "MED BOX"]) & quantity.between(10, 40) & size
    wanted = (
        ((ps.col("p_brand") == "Brand#12") & small)
        | ((ps.col("p_brand") == "Brand#23") & medium)
        | ((ps.col("p_brand") == "Brand#13") & quantity.between(20, 50))
    )
    by_air = lineitem.filter(
        ps.col("l_shipmode").is_in(["AIR", "AIR REG"]) & (ps.col("l_shipinstruct") == "DELIVER IN PERSON")
    )
    sold = by_air.join(part, {"l_partkey": "p_partkey"}, where=wanted)
    return sold.agg(revenue=ps.sum(REVENUE))


def q20(supplier: Table, nation: Table, partsupp: Table, part: Table, lineitem: Table) -> Table:
    forest = part.filter(ps.col("p_name").starts_with("forest"))
    shipped = (
        lineitem.filter(ps.col("l_shipdate") >= date(1994, 1, 1))
        .group_by("l_partkey", "l_suppkey")
        .agg(sum=ps.sum("l_quantity"))
    )
    plenty = partsupp.join(forest, {"ps_partkey": "p_partkey"}, how="semi").join(
        shipped,
        {"ps_partkey": "l_partkey", "ps_suppkey": "l_suppkey"},
        how="semi",
        where=ps.col("ps_availqty").cast("double") > 0.5 * ps.col("sum").cast("double"),
    )
    return (
        supplier.join(plenty, {"s_suppkey": "ps_suppkey"}, how="semi")
        .join(nation.filter(ps.col("n_name") != "CANADA"), {"s_nationkey": "n_nationkey"})
        .select("s_name", "s_phone")
    )


def q21(supplier: Table, lineitem: Table, orders: Table, nation: Table) -> Table:
    another = ps.col("l_suppkey_right") != ps.col("l_suppkey")
    late = lineitem.filter(ps.col("l_receiptdate") > ps.col("l_commitdate"))
    guilty = (
        late.join(lineitem, "l_orderkey", how="semi", where=another)
        .join(late, "l_orderkey", how="anti", where=another)
        .join(orders.filter(ps.col("o_orderstatus") == "F"), {"l_orderkey": "o_orderkey"})
        .join(supplier, {"l_suppkey": "s_suppkey"})
        .join(nation.filter(ps.col("n_name") != "JAPAN"), {"s_nationkey": "n_nationkey"})
    )
    return guilty.group_by("s_name").agg(numwait=ps.count()).top(5, by=["numwait desc", "s_name"])


def q22(customer: Table, orders: Table) -> Table:
    rich = customer.select("c_custkey", "c_acctbal", cntrycode=F.substring("c_phone", 1, 2)).filter(
        ps.col("cntrycode").is_in(["13", "31", "23"])
    )
    sums = rich.filter(ps.col("c_acctbal") > 0).agg(all=ps.sum("c_acctbal"), count=ps.count())
    mean = sums.select(mean=ps.col("all").cast("double") / ps.col("count").cast("double"))
    idle = rich.join(mean, how="cross").filter(ps.col("c_acctbal").cast("double") > ps.col("mean"))
    idle = idle.join(orders, {"c_custkey": "o_custkey"}, how="anti")
    return idle.group_by("cntrycode").agg(numcust=ps.count(), totacctbal=ps.sum("c_acctbal"))


def of_region(nation: Table, region: Table, *names: str) -> Table:
    """The nations of regions."""
    there = region.filter(ps.col("r_name").is_in(names))
    return nation.join(there, {"n_regionkey": "r_regionkey"}).select("n_nationkey", "n_name")
