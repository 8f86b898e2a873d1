"""The 22 queries of TPC-H as operations on tables: what ``tpch_queries`` says, said without SQL.

They read tables in the order of the text, and filter what they read first. A subquery that is one value is
a table of one row, and joined with every row; one for each row is a table with a key.
"""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Final, get_type_hints

from benchmarks.sql.tpch_changes import WEIGHT
from benchmarks.sql.tpch_data import SCHEMAS

import pointstamp as ps
from pointstamp import functions as F  # noqa: N812 - as PySpark's users call it

Table = ps.Table
col = ps.col
ONE: Final = ps.lit(Decimal(1))
REVENUE: Final = col("l_extendedprice") * (ONE - col("l_discount"))
SHARE: Final = Decimal("0.0001000000")
"""Of all stock, for tables of scale 1 (Q11)."""


def flow_of(query: Callable[..., Table], *, trusted: bool = False) -> ps.Dataflow:
    """Return a flow of a query over tables with weights; its output is ``result``."""
    flow = ps.Dataflow(query.__name__)
    tables = {
        name: flow.table(name, f"{SCHEMAS[name]}, {WEIGHT} long", weight=WEIGHT, trusted=trusted)
        for name in get_type_hints(query)
        if name != "return"
    }
    flow.output("result", query(**tables))
    return flow


def _avg(column: str) -> ps.functions.Aggregate:
    """Return the mean of a column as SQL has it: that of decimals is a decimal."""
    return ps.functions.Aggregate("avg", column)


def q1(lineitem: Table) -> Table:
    """Pricing summary."""
    return (
        lineitem.filter(col("l_shipdate") <= date(1998, 9, 2))
        .group_by("l_returnflag", "l_linestatus")
        .agg(
            sum_qty=ps.sum("l_quantity"),
            sum_base_price=ps.sum("l_extendedprice"),
            sum_disc_price=ps.sum(REVENUE),
            sum_charge=ps.sum(REVENUE * (ONE + col("l_tax"))),
            avg_qty=_avg("l_quantity"),
            avg_price=_avg("l_extendedprice"),
            avg_disc=_avg("l_discount"),
            count_order=ps.count(),
        )
    )


def q2(part: Table, supplier: Table, partsupp: Table, nation: Table, region: Table) -> Table:
    """The cheapest supplier of a part."""
    brass = part.filter((col("p_size") == 15) & col("p_type").like("%BRASS"))
    europe = region.filter(col("r_name") == "EUROPE")
    near = nation.join(europe, {"n_regionkey": "r_regionkey"})
    offers = partsupp.join(supplier.join(near, {"s_nationkey": "n_nationkey"}), {"ps_suppkey": "s_suppkey"})
    least = offers.group_by("ps_partkey").agg(least=ps.min("ps_supplycost"))
    made = partsupp.join(brass, {"ps_partkey": "p_partkey"})
    named = nation.join(supplier.join(made, {"s_suppkey": "ps_suppkey"}), {"n_nationkey": "s_nationkey"})
    cheapest = (
        named.join(europe, {"n_regionkey": "r_regionkey"})
        .join(least, "ps_partkey")
        .filter(col("ps_supplycost") == col("least"))
    )
    wanted = cheapest.select(
        "s_acctbal",
        "s_name",
        "n_name",
        "p_mfgr",
        "s_address",
        "s_phone",
        "s_comment",
        p_partkey=col("ps_partkey"),
    )
    columns = "s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment"
    return wanted.select(*columns).top(100, by=["s_acctbal desc", "n_name", "s_name", "p_partkey"])


def q3(customer: Table, orders: Table, lineitem: Table) -> Table:
    """The orders of greatest value that are not shipped."""
    builders = customer.filter(col("c_mktsegment") == "BUILDING")
    early = orders.filter(col("o_orderdate") < date(1995, 3, 15))
    late = lineitem.filter(col("l_shipdate") > date(1995, 3, 15))
    return (
        early.join(builders, {"o_custkey": "c_custkey"})
        .join(late, {"o_orderkey": "l_orderkey"})
        .group_by("o_orderkey", "o_orderdate", "o_shippriority")
        .agg(revenue=ps.sum(REVENUE))
        .rename({"o_orderkey": "l_orderkey"})
        .select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
        .top(10, by=["revenue desc", "o_orderdate", "l_orderkey"])
    )


def q4(orders: Table, lineitem: Table) -> Table:
    """Orders by priority that waited for a line."""
    quarter = (col("o_orderdate") >= date(1993, 7, 1)) & (col("o_orderdate") < date(1993, 10, 1))
    late = lineitem.filter(col("l_commitdate") < col("l_receiptdate"))
    waited = orders.filter(quarter).join(late, {"o_orderkey": "l_orderkey"}, how="semi")
    return waited.group_by("o_orderpriority").agg(order_count=ps.count())


def q5(
    customer: Table, orders: Table, lineitem: Table, supplier: Table, nation: Table, region: Table
) -> Table:
    """Revenue of local suppliers."""
    year = (col("o_orderdate") >= date(1994, 1, 1)) & (col("o_orderdate") < date(1995, 1, 1))
    asia = nation.join(region.filter(col("r_name") == "ASIA"), {"n_regionkey": "r_regionkey"})
    local = supplier.join(asia, {"s_nationkey": "n_nationkey"})
    sold = customer.join(orders.filter(year), {"c_custkey": "o_custkey"})
    lines = sold.join(lineitem, {"o_orderkey": "l_orderkey"})
    found = lines.join(local, {"l_suppkey": "s_suppkey", "c_nationkey": "s_nationkey"})
    return found.group_by("n_name").agg(revenue=ps.sum(REVENUE))


def q6(lineitem: Table) -> Table:
    """What would be earned without discounts."""
    wanted = lineitem.filter(
        (col("l_shipdate") >= date(1994, 1, 1))
        & (col("l_shipdate") < date(1995, 1, 1))
        & col("l_discount").between(Decimal("0.05"), Decimal("0.07"))
        & (col("l_quantity") < 24)
    )
    return wanted.agg(revenue=ps.sum(col("l_extendedprice") * col("l_discount")))


def q7(supplier: Table, lineitem: Table, orders: Table, customer: Table, nation: Table) -> Table:
    """Trade between two nations."""
    one = nation.select("n_nationkey", supp_nation=col("n_name"))
    other = nation.select("n_nationkey", cust_nation=col("n_name"))
    in_years = col("l_shipdate").between(date(1995, 1, 1), date(1996, 12, 31))
    sellers = supplier.join(
        one.filter((col("supp_nation") == "FRANCE") | (col("supp_nation") == "GERMANY")),
        {"s_nationkey": "n_nationkey"},
    )
    sold = lineitem.filter(in_years).join(sellers, {"l_suppkey": "s_suppkey"})
    ordered = orders.join(sold, {"o_orderkey": "l_orderkey"})
    pair = (col("supp_nation") == "FRANCE") & (col("cust_nation") == "GERMANY")
    turned = (col("supp_nation") == "GERMANY") & (col("cust_nation") == "FRANCE")
    shipped = customer.join(ordered, {"c_custkey": "o_custkey"}).join(
        other.filter((col("cust_nation") == "GERMANY") | (col("cust_nation") == "FRANCE")),
        {"c_nationkey": "n_nationkey"},
        where=pair | turned,
    )
    years = shipped.select("supp_nation", "cust_nation", l_year=F.year("l_shipdate"), volume=REVENUE)
    return years.group_by("supp_nation", "cust_nation", "l_year").agg(revenue=ps.sum("volume"))


def q8(
    part: Table, supplier: Table, lineitem: Table, orders: Table, customer: Table, nation: Table,
    region: Table,
) -> Table:  # fmt: skip
    """Market share."""
    america = nation.join(region.filter(col("r_name") == "AMERICA"), {"n_regionkey": "r_regionkey"})
    buyers = customer.join(america, {"c_nationkey": "n_nationkey"})
    in_years = col("o_orderdate").between(date(1995, 1, 1), date(1996, 12, 31))
    bought = orders.filter(in_years).join(buyers, {"o_custkey": "c_custkey"})
    steel = part.filter(col("p_type") == "ECONOMY ANODIZED STEEL")
    lines = lineitem.join(steel, {"l_partkey": "p_partkey"}).join(bought, {"l_orderkey": "o_orderkey"})
    sold = supplier.join(lines, {"s_suppkey": "l_suppkey"}).select(
        "s_nationkey", "l_extendedprice", "l_discount", "o_orderdate"
    )
    years = sold.join(nation, {"s_nationkey": "n_nationkey"}).select(
        o_year=F.year("o_orderdate"), volume=REVENUE, nation=col("n_name")
    )
    ours = ps.when(col("nation") == "BRAZIL", col("volume")).otherwise(0)
    sums = years.group_by("o_year").agg(ours=ps.sum(ours), all=ps.sum("volume"))
    return sums.select("o_year", mkt_share=col("ours").cast("double") / col("all").cast("double"))


def q9(part: Table, supplier: Table, lineitem: Table, partsupp: Table, orders: Table, nation: Table) -> Table:
    """Profit by nation and year."""
    lines = lineitem.join(part.filter(col("p_name").like("%green%")), {"l_partkey": "p_partkey"})
    sold = (
        supplier.join(lines, {"s_suppkey": "l_suppkey"})
        .join(partsupp, {"s_suppkey": "ps_suppkey", "l_partkey": "ps_partkey"})
        .join(orders, {"l_orderkey": "o_orderkey"})
        .join(nation, {"s_nationkey": "n_nationkey"})
    )
    amount = REVENUE - col("ps_supplycost") * col("l_quantity")
    profit = sold.select(nation=col("n_name"), o_year=F.year("o_orderdate"), amount=amount)
    return profit.group_by("nation", "o_year").agg(sum_profit=ps.sum("amount"))


def q10(customer: Table, orders: Table, lineitem: Table, nation: Table) -> Table:
    """Customers who return."""
    quarter = (col("o_orderdate") >= date(1993, 10, 1)) & (col("o_orderdate") < date(1994, 1, 1))
    returned = lineitem.filter(col("l_returnflag") == "R")
    lost = orders.filter(quarter).join(returned, {"o_orderkey": "l_orderkey"})
    known = customer.join(lost, {"c_custkey": "o_custkey"}).join(nation, {"c_nationkey": "n_nationkey"})
    keys = "c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment"
    columns = "c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment"
    sums = known.group_by(*keys).agg(revenue=ps.sum(REVENUE)).select(*columns)
    return sums.top(20, by=["revenue desc", "c_custkey"])


def q11(partsupp: Table, supplier: Table, nation: Table) -> Table:
    """Stock of great value."""
    german = supplier.join(nation.filter(col("n_name") == "GERMANY"), {"s_nationkey": "n_nationkey"})
    stock = partsupp.join(german, {"ps_suppkey": "s_suppkey"})
    value = ps.sum(col("ps_supplycost") * col("ps_availqty"))
    least = stock.agg(all=value).select(least=col("all") * SHARE)
    parts = stock.group_by("ps_partkey").agg(value=value).join(least, how="cross")
    return parts.filter(col("value") > col("least")).select("ps_partkey", "value")


def q12(orders: Table, lineitem: Table) -> Table:
    """Late orders by the way that they were shipped."""
    late = lineitem.filter(
        col("l_shipmode").is_in(["MAIL", "SHIP"])
        & (col("l_commitdate") < col("l_receiptdate"))
        & (col("l_shipdate") < col("l_commitdate"))
        & (col("l_receiptdate") >= date(1994, 1, 1))
        & (col("l_receiptdate") < date(1995, 1, 1))
    )
    priority = col("o_orderpriority")
    high = ps.when((priority == "1-URGENT") | (priority == "2-HIGH"), 1).otherwise(0)
    low = ps.when((priority != "1-URGENT") & (priority != "2-HIGH"), 1).otherwise(0)
    shipped = orders.join(late, {"o_orderkey": "l_orderkey"})
    return shipped.group_by("l_shipmode").agg(high_line_count=ps.sum(high), low_line_count=ps.sum(low))


def q13(customer: Table, orders: Table) -> Table:
    """Customers by their number of orders."""
    plain = orders.filter(~col("o_comment").like("%special%requests%"))
    theirs = customer.join(plain, {"c_custkey": "o_custkey"}, how="left")
    counts = theirs.group_by("c_custkey").agg(c_count=ps.count("o_orderkey"))
    return counts.group_by("c_count").agg(custdist=ps.count())


def q14(lineitem: Table, part: Table) -> Table:
    """The share of promotions."""
    month = (col("l_shipdate") >= date(1995, 9, 1)) & (col("l_shipdate") < date(1995, 10, 1))
    promo = ps.when(col("p_type").like("PROMO%"), REVENUE).otherwise(0)
    sold = lineitem.filter(month).join(part, {"l_partkey": "p_partkey"})
    share = Decimal("100.00") * col("promo").cast("double") / col("all").cast("double")
    return sold.agg(promo=ps.sum(promo), all=ps.sum(REVENUE)).select(promo_revenue=share)


def q15(lineitem: Table, supplier: Table) -> Table:
    """The best supplier."""
    quarter = (col("l_shipdate") >= date(1996, 1, 1)) & (col("l_shipdate") < date(1996, 4, 1))
    revenue = lineitem.filter(quarter).group_by("l_suppkey").agg(total_revenue=ps.sum(REVENUE))
    most = revenue.agg(most=ps.max("total_revenue"))
    sold = supplier.join(revenue, {"s_suppkey": "l_suppkey"}).join(most, how="cross")
    best = sold.filter(col("total_revenue") == col("most"))
    return best.select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")


def q16(partsupp: Table, part: Table, supplier: Table) -> Table:
    """Suppliers of parts, without those of whom customers complain; a null among these excludes all."""
    wanted = part.filter(
        (col("p_brand") != "Brand#45")
        & ~col("p_type").like("MEDIUM POLISHED%")
        & col("p_size").is_in([49, 14, 23, 45, 19, 3, 36, 9])
    )
    bad = supplier.filter(col("s_comment").like("%Customer%Complaints%"))
    counts = bad.agg(bad=ps.count(), unknown=ps.count(where=col("s_suppkey").is_null()))
    offers = partsupp.join(wanted, {"ps_partkey": "p_partkey"}).join(
        bad, {"ps_suppkey": "s_suppkey"}, how="anti"
    )
    good = offers.join(counts, how="cross").filter(
        (col("bad") == 0) | (col("ps_suppkey").is_not_null() & (col("unknown") == 0))
    )
    return good.group_by("p_brand", "p_type", "p_size").agg(supplier_cnt=ps.count_distinct("ps_suppkey"))


def q17(lineitem: Table, part: Table) -> Table:
    """Revenue of small orders."""
    boxes = part.filter((col("p_brand") == "Brand#23") & (col("p_container") == "MED BOX"))
    means = lineitem.group_by("l_partkey").agg(mean=_avg("l_quantity"))
    lines = lineitem.join(boxes, {"l_partkey": "p_partkey"}).join(means, "l_partkey")
    small = lines.filter(col("l_quantity") < Decimal("0.2") * col("mean"))
    return small.agg(all=ps.sum("l_extendedprice")).select(
        avg_yearly=col("all").cast("double") / Decimal("7.0")
    )


def q18(customer: Table, orders: Table, lineitem: Table) -> Table:
    """Large orders."""
    large = lineitem.group_by("l_orderkey").agg(sum=ps.sum("l_quantity")).filter(col("sum") > 300)
    wanted = orders.join(large, {"o_orderkey": "l_orderkey"}, how="semi")
    sold = customer.join(wanted, {"c_custkey": "o_custkey"}).join(lineitem, {"o_orderkey": "l_orderkey"})
    keys = "c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice"
    sums = sold.group_by(*keys).agg(quantity=ps.sum("l_quantity"))
    return sums.top(100, by=["o_totalprice desc", "o_orderdate", "o_orderkey"])


def q19(lineitem: Table, part: Table) -> Table:
    """Revenue of some brands."""
    kinds = [
        ("Brand#12", ["SM CASE", "SM BOX", "SM PACK", "SM PKG"], (1, 11), 5),
        ("Brand#23", ["MED BAG", "MED BOX", "MED PKG", "MED PACK"], (10, 20), 10),
        ("Brand#34", ["LG CASE", "LG BOX", "LG PACK", "LG PKG"], (20, 30), 15),
    ]
    boxes, amounts, both = [], [], []
    for brand, containers, (least, most), size in kinds:
        box = (col("p_brand") == brand) & col("p_container").is_in(containers) & (col("p_size") <= size)
        amount = (col("l_quantity") >= least) & (col("l_quantity") <= most)
        boxes.append(box)
        amounts.append(amount)
        both.append(box & amount)
    by_air = col("l_shipmode").is_in(["AIR", "REG AIR"]) & (col("l_shipinstruct") == "DELIVER IN PERSON")
    lines = lineitem.filter(by_air & (amounts[0] | amounts[1] | amounts[2]))
    parts = part.filter((col("p_size") >= 1) & (boxes[0] | boxes[1] | boxes[2]))
    sold = lines.join(parts, {"l_partkey": "p_partkey"}, where=both[0] | both[1] | both[2])
    return sold.agg(revenue=ps.sum(REVENUE))


def q20(supplier: Table, nation: Table, partsupp: Table, part: Table, lineitem: Table) -> Table:
    """Suppliers with more than enough parts."""
    forest = part.filter(col("p_name").like("forest%"))
    year = (col("l_shipdate") >= date(1994, 1, 1)) & (col("l_shipdate") < date(1995, 1, 1))
    shipped = lineitem.filter(year).group_by("l_partkey", "l_suppkey").agg(sum=ps.sum("l_quantity"))
    plenty = (
        partsupp.join(forest, {"ps_partkey": "p_partkey"}, how="semi")
        .join(shipped, {"ps_partkey": "l_partkey", "ps_suppkey": "l_suppkey"})
        .filter(col("ps_availqty") > Decimal("0.5") * col("sum"))
    )
    there = supplier.join(nation.filter(col("n_name") == "CANADA"), {"s_nationkey": "n_nationkey"})
    return there.join(plenty, {"s_suppkey": "ps_suppkey"}, how="semi").select("s_name", "s_address")


def q21(supplier: Table, lineitem: Table, orders: Table, nation: Table) -> Table:
    """Suppliers who kept orders waiting."""
    late = lineitem.filter(col("l_receiptdate") > col("l_commitdate"))
    failed = late.join(orders.filter(col("o_orderstatus") == "F"), {"l_orderkey": "o_orderkey"})
    there = supplier.join(failed, {"s_suppkey": "l_suppkey"}).join(
        nation.filter(col("n_name") == "SAUDI ARABIA"), {"s_nationkey": "n_nationkey"}
    )
    another = col("l_suppkey") != col("s_suppkey")
    guilty = there.join(lineitem, "l_orderkey", how="semi", where=another).join(
        late, "l_orderkey", how="anti", where=another
    )
    return guilty.group_by("s_name").agg(numwait=ps.count()).top(100, by=["numwait desc", "s_name"])


def q22(customer: Table, orders: Table) -> Table:
    """Rich customers without orders."""
    code = F.substring("c_phone", 1, 2)
    wanted = code.is_in(["13", "31", "23", "29", "30", "18", "17"])
    mean = customer.filter((col("c_acctbal") > Decimal("0.00")) & wanted).agg(mean=_avg("c_acctbal"))
    rich = customer.filter(wanted).join(mean, how="cross").filter(col("c_acctbal") > col("mean"))
    idle = rich.join(orders, {"c_custkey": "o_custkey"}, how="anti").select("c_acctbal", cntrycode=code)
    return idle.group_by("cntrycode").agg(numcust=ps.count(), totacctbal=ps.sum("c_acctbal"))
