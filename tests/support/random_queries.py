"""Random trees of operations on tables, each with the same in SQL.

All results have the columns k and n, so that every operation can be applied to every tree.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import strategies as st

import pointstamp as ps
from pointstamp import functions
from support.table_queries import Query

LEAVES = (
    Query(
        "left filter",
        lambda a, b: a.filter(ps.col("v") > 0.25).select("k", n=functions.length("s").cast("long")),
        "select k, length(s)::bigint as n from a where v > 0.25",
    ),
    Query("right", lambda a, b: b.select("k", "n"), "select k, n from b"),
    Query("left", lambda a, b: a.select("k", n=ps.col("k") % 2), "select k, k % 2 as n from a"),
    Query(
        "sum of floats",
        lambda a, b: a.filter(~functions.is_nan("v")).group_by("k").agg(n=ps.sum("v"))
        .select("k", n=ps.when(ps.col("n") > 1, 1).otherwise(0).cast("long")),
        "select k, case when sum(v) > 1 then 1 else 0 end::bigint as n from a "
        "where not coalesce(isnan(v), false) group by k",
    ),
)  # fmt: skip

Unary: TypeAlias = Callable[[ps.Table], ps.Table]
Binary: TypeAlias = Callable[[ps.Table, ps.Table], ps.Table]

# What is asked of one tree q.
UNARY: dict[str, tuple[Unary, str]] = {
    "distinct": (lambda q: q.distinct(), "select distinct k, n from ({q})"),
    "filter": (lambda q: q.filter(ps.col("n") >= 0), "select * from ({q}) where n >= 0"),
    "shift": (lambda q: q.select(k=ps.col("k") + 1, n=ps.col("n")), "select k + 1 as k, n from ({q})"),
    "count": (lambda q: q.group_by("k").agg(n=ps.count()), "select k, count(*) as n from ({q}) group by k"),
    "count of values": (
        lambda q: q.group_by("k").agg(n=ps.count("n")),
        "select k, count(n) as n from ({q}) group by k",
    ),
    "min": (lambda q: q.group_by("k").agg(n=ps.min("n")), "select k, min(n) as n from ({q}) group by k"),
    "max": (lambda q: q.group_by("k").agg(n=ps.max("n")), "select k, max(n) as n from ({q}) group by k"),
    "sum": (
        lambda q: q.group_by("k").agg(n=ps.sum("n")),
        "select k, sum(n)::bigint as n from ({q}) group by k",
    ),
    "one of each": (
        lambda q: q.distinct("k"),
        "select k, n from ({q}) qualify row_number() over (partition by k order by n nulls first) = 1",
    ),
    "last of each": (
        lambda q: q.distinct("n", by="k desc nulls first"),
        "select k, n from ({q}) qualify row_number() over (partition by n order by k desc nulls first) = 1",
    ),
    "top with nulls last": (
        lambda q: q.top(2, "k", by="n asc nulls last", ties=True),
        "select k, n from ({q}) qualify rank() over (partition by k order by n nulls last) <= 2",
    ),
    "top 2": (
        lambda q: q.top(2, "k", by="n desc"),
        "select k, n from ({q}) qualify row_number() over (partition by k order by n desc nulls last) <= 2",
    ),
    "top with ties": (
        lambda q: q.top(2, "k", by="n", ties=True),
        "select k, n from ({q}) qualify rank() over (partition by k order by n nulls first) <= 2",
    ),
    "ranks": (
        lambda q: q.top(2, "k", by="n desc", rank="place").select("k", n=ps.col("place")),
        "select k, p as n from "
        "(select k, row_number() over (partition by k order by n) as p from ({q})) where p <= 2",
    ),
    "two of each": (
        lambda q: q.flat_map(lambda row: [row, {"k": 7, "n": row["n"]}], "k long, n long"),
        "select k, n from ({q}) union all select 7 as k, n from ({q})",
    ),
    "first of all": (
        lambda q: q.top(3, by=["n desc", "k"]),
        "select k, n from ({q}) order by n desc nulls last, k nulls first limit 3",
    ),
}


def _outer(how: Any, *, is_bounded: bool = False) -> tuple[Binary, str]:  # noqa: ANN401 - a kind of join
    """A join with rows that have no partner, which show as -7 in place of null."""

    def make(q: ps.Table, p: ps.Table) -> ps.Table:
        where = ps.col("n") < ps.col("m") if is_bounded else None
        ours, theirs = functions.coalesce(ps.col("n"), -7), functions.coalesce(ps.col("m"), -7)
        return q.join(p.rename({"n": "m"}), "k", how=how, where=where).select("k", n=ours * 100 + theirs)

    select = "select coalesce(q.k, p.k) as k, coalesce(q.n, -7) * 100 + coalesce(p.n, -7) as n from ({q}) q "
    return make, f"{select} {how} join ({{p}}) p on q.k = p.k" + (" and q.n < p.n" if is_bounded else "")


def _as_of(direction: Any, how: Any) -> tuple[Binary, str]:  # noqa: ANN401 - words of the join
    """A join with the row that is nearest by n; one without a partner shows as -7 in place of null."""

    def make(q: ps.Table, p: ps.Table) -> ps.Table:
        met = q.join_asof(p, "k", at="n", direction=direction, how=how)
        ours, theirs = functions.coalesce(ps.col("n"), -7), functions.coalesce(ps.col("n_right"), -7)
        return met.select("k", n=ours * 100 + theirs)

    sign, kind = ">=" if direction == "backward" else "<=", "left" if how == "left" else ""
    select = "select q.k, coalesce(q.n, -7) * 100 + coalesce(p.n, -7) as n from ({q}) q "
    return make, f"{select} asof {kind} join ({{p}}) p on q.k = p.k and q.n {sign} p.n"


# What is asked of two trees q and p.
BINARY: dict[str, tuple[Binary, str]] = {
    "union": (lambda q, p: q.union(p), "({q}) union all ({p})"),
    "minus": (lambda q, p: q.except_(p), "({q}) except ({p})"),
    "intersect": (lambda q, p: q.intersect(p), "({q}) intersect ({p})"),
    "join": (
        lambda q, p: q.join(p, "k").select("k", n=ps.col("n") + ps.col("n_right")),
        "select q.k, q.n + p.n as n from ({q}) q join ({p}) p on q.k = p.k",
    ),
    "join where": (
        lambda q, p: q.join(p, "k", where=ps.col("n") < ps.col("n_right")).select("k", n=ps.col("n_right")),
        "select q.k, p.n as n from ({q}) q join ({p}) p on q.k = p.k and q.n < p.n",
    ),
    "join of two columns": (
        lambda q, p: q.join(p.rename({"n": "m"}), {"k": "k", "n": "m"}),
        "select q.k, q.n from ({q}) q join ({p}) p on q.k = p.k and q.n = p.n",
    ),
    **{how: _outer(how) for how in ("left", "right", "full")},
    **{f"{how} where": _outer(how, is_bounded=True) for how in ("left", "right", "full")},
    "cross": (
        lambda q, p: q.join(p, how="cross").select("k", n=ps.col("n") * 10 + ps.col("k_right")),
        "select q.k, q.n * 10 + p.k as n from ({q}) q, ({p}) p",
    ),
    "cross where": (
        lambda q, p: q.join(p, how="cross", where=ps.col("k") < ps.col("n_right")).select(
            "k", n=ps.col("n_right")
        ),
        "select q.k, p.n from ({q}) q, ({p}) p where q.k < p.n",
    ),
    "as of": _as_of("backward", "inner"),
    "as of, left": _as_of("backward", "left"),
    "as of, forward": _as_of("forward", "left"),
    "semi": (
        lambda q, p: q.join(p, "k", how="semi"),
        "select k, n from ({q}) q where exists (select 1 from ({p}) p where p.k = q.k)",
    ),
    "anti": (
        lambda q, p: q.join(p, "k", how="anti"),
        "select k, n from ({q}) q where not exists (select 1 from ({p}) p where p.k = q.k)",
    ),
    "semi where": (
        lambda q, p: q.join(p, "k", how="semi", where=ps.col("n") < ps.col("n_right")),
        "select k, n from ({q}) q where exists (select 1 from ({p}) p where p.k = q.k and q.n < p.n)",
    ),
    "anti where": (
        lambda q, p: q.join(p, "k", how="anti", where=ps.col("n") < ps.col("n_right")),
        "select k, n from ({q}) q where not exists (select 1 from ({p}) p where p.k = q.k and q.n < p.n)",
    ),
}


def unary(child: Query, kind: str) -> Query:
    """An operation on what a query gives."""
    make, sql = UNARY[kind]
    return Query(f"{kind}({child})", lambda a, b: make(child.make(a, b)), sql.format(q=child.sql))


def binary(one: Query, other: Query, kind: str) -> Query:
    """An operation on what two queries give."""
    make, sql = BINARY[kind]
    return Query(
        f"{kind}({one}, {other})",
        lambda a, b: make(one.make(a, b), other.make(a, b)),
        sql.format(q=one.sql, p=other.sql),
    )


def queries(leaves_max: int = 4) -> st.SearchStrategy[Query]:
    """Trees of operations over the two tables."""
    return st.recursive(
        st.sampled_from(LEAVES),
        lambda children: st.one_of(
            st.builds(unary, children, st.sampled_from(sorted(UNARY))),
            st.builds(binary, children, children, st.sampled_from(sorted(BINARY))),
        ),
        max_leaves=leaves_max,
    )
