"""The 22 queries of TPC-H in SQL, for DuckDB and for views, with constants that fit small tables.

Half of them are those of the benchmark, with other constants. The others look at columns that the small
tables do not have, or leave open which rows come first there: ``limit`` is said with the order of all
columns, so that there is one answer. Ratios are those of doubles.
"""

from typing import Final

from benchmarks.sql.tpch_queries import queries

_OTHER_CONSTANTS: Final[dict[str, dict[str, str]]] = {
    "q4": {"1993-10-01": "1995-10-01"},
    "q5": {"r_name = 'ASIA'": "r_name <> 'ASIA'", "1995-01-01": "1996-01-01", "1994-01-01": "1993-01-01"},
    "q6": {},
    "q7": {},
    "q8": {
        "p_type = 'ECONOMY ANODIZED STEEL'": "p_type like '%STEEL'",
        "1995-01-01": "1992-01-01",
        "1996-12-31": "1998-12-31",
    },
    "q9": {},
    "q12": {"1995-01-01": "1996-01-01"},
    "q13": {},
    "q14": {"1995-09-01": "1995-01-01", "1995-10-01": "1996-01-01"},
    "q16": {"Brand#45": "Brand#12", "(49, 14, 23, 45, 19, 3, 36, 9)": "(1, 3, 4, 5, 8, 9, 10, 12, 14)"},
    "q21": {"n_name = 'SAUDI ARABIA'": "n_name <> 'JAPAN'", "limit 100": "limit 5"},
}
"""What stands in a query of the benchmark, and what fits small tables."""


def _adapted(name: str) -> str:
    text = queries(1.0)[name]
    for old, new in _OTHER_CONSTANTS[name].items():
        if text.count(old) != 1:
            raise LookupError(f"{name} has {old!r} {text.count(old)} times.")
        text = text.replace(old, new)
    return text


SQL: Final[dict[str, str]] = {
    **{name: _adapted(name) for name in _OTHER_CONSTANTS},
    "q1": """
        select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
            sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
            sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
            avg(l_quantity) as avg_qty, count(*) as count_order
        from lineitem where l_shipdate <= date '1996-09-02' group by l_returnflag, l_linestatus""",
    "q2": """
        with offers as (
            select * from part, supplier, partsupp, nation, region
            where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size < 12 and p_type like '%BRASS'
            and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE')
        select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_phone from offers o
        where ps_supplycost = (select min(ps_supplycost) from offers i where i.p_partkey = o.p_partkey)
        order by s_acctbal desc, n_name, s_name, p_partkey, p_mfgr, s_phone limit 5""",
    "q3": """
        select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate
        from customer, orders, lineitem
        where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
        and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
        group by l_orderkey, o_orderdate order by revenue desc, o_orderdate, l_orderkey limit 10""",
    "q10": """
        select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name,
            c_phone
        from customer, orders, lineitem, nation
        where c_custkey = o_custkey and l_orderkey = o_orderkey and c_nationkey = n_nationkey
        and o_orderdate >= date '1993-10-01' and o_orderdate < date '1995-01-01' and l_returnflag = 'R'
        group by c_custkey, c_name, c_acctbal, c_phone, n_name
        order by revenue desc, c_custkey, c_name, c_acctbal, c_phone, n_name limit 4""",
    "q11": """
        with stock as (
            select ps_partkey, ps_supplycost * ps_availqty as value from partsupp, supplier, nation
            where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY')
        select ps_partkey, sum(value) as value from stock group by ps_partkey
        having sum(value) > (select sum(value) * 0.2 from stock)""",
    "q15": """
        with revenue as (
            select l_suppkey, sum(l_extendedprice * (1 - l_discount)) as total_revenue from lineitem
            where l_shipdate >= date '1994-01-01' and l_shipdate < date '1996-04-01' group by l_suppkey)
        select s_suppkey, s_name, s_phone, total_revenue from supplier, revenue
        where s_suppkey = l_suppkey and total_revenue = (select max(total_revenue) from revenue)""",
    "q17": """
        select sum(l_extendedprice)::double / 7.0::double as avg_yearly from lineitem l, part
        where p_partkey = l_partkey and p_brand like 'Brand#2%'
        and l_quantity < (
            select 0.9::double * avg(l_quantity) from lineitem i where i.l_partkey = p_partkey)""",
    "q18": """
        select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) as quantity
        from customer, orders, lineitem
        where o_orderkey in (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 80)
        and c_custkey = o_custkey and o_orderkey = l_orderkey
        group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        order by o_totalprice desc, o_orderdate, c_name, c_custkey, o_orderkey limit 6""",
    "q19": """
        select sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem, part
        where p_partkey = l_partkey and l_shipmode in ('AIR', 'AIR REG')
        and l_shipinstruct = 'DELIVER IN PERSON'
        and ((p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX', 'SM BAG')
                and l_quantity between 1 and 31 and p_size between 1 and 15)
            or (p_brand = 'Brand#23' and p_container in ('MED BAG', 'MED BOX')
                and l_quantity between 10 and 40 and p_size between 1 and 15)
            or (p_brand = 'Brand#13' and l_quantity between 20 and 50))""",
    "q20": """
        select s_name, s_phone from supplier, nation
        where s_suppkey in (
            select ps_suppkey from partsupp
            where ps_partkey in (select p_partkey from part where p_name like 'forest%')
            and ps_availqty > (
                select 0.5::double * sum(l_quantity) from lineitem
                where l_partkey = ps_partkey and l_suppkey = ps_suppkey and l_shipdate >= date '1994-01-01'))
        and s_nationkey = n_nationkey and n_name <> 'CANADA'""",
    "q22": """
        with rich as (
            select substring(c_phone, 1, 2) as cntrycode, c_acctbal, c_custkey from customer
            where substring(c_phone, 1, 2) in ('13', '31', '23'))
        select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal from rich
        where c_acctbal > (select sum(c_acctbal)::double / count(*)::double from rich where c_acctbal > 0)
        and not exists (select * from orders where o_custkey = c_custkey)
        group by cntrycode""",
}
