# ruff: noqa: E501 - a query is read best in one line
"""Queries in SQL, each for what a view may be made of, with small random tables to ask them of.

Tables have nulls, copies of rows, and keys that are missing on the other side. Where DuckDB needs other words
than Spark for the same question, these stand beside it.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

import pyarrow as pa

from pointstamp.arrow.schema import as_schema
from support.batch_answers import WEIGHT, Fed

SCHEMAS: Final = {
    "t": "k long, a long, b string, x double",
    "u": "k long, a int, c string",
    "v": "k long, ts timestamp_ntz, d date, l array<long>",
    "w": "k long, n long not null, x double, c string",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A query, and what DuckDB is asked in its place where that must be said differently."""

    name: str
    sql: str
    duckdb: str = ""

    @property
    def theirs(self) -> str:
        return self.duckdb or self.sql


def declared(*names: str) -> str:
    """The statements that declare some of the tables, with weights."""
    return "".join(
        f"create table {name} ({SCHEMAS[name]}, {WEIGHT} long) tblproperties ('weight' = '{WEIGHT}');\n"
        for name in names or SCHEMAS
    )


def used_in(query: str) -> list[str]:
    """The tables of which a query speaks."""
    return [name for name in SCHEMAS if re.search(rf"\b{name}\b", query)]


def fed(seed: int, epochs: int = 4, size: int = 12) -> Fed:
    """Random rows that come and go."""
    random = Random(seed)
    changes: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
    there: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in SCHEMAS}
    for epoch in range(epochs):
        for name in SCHEMAS:
            # An epoch without rows of a table, and the first of them above all, is where constants come from.
            count = random.choice([0, size, size]) if epoch else random.choice([0, size])
            new = [_row(name, random) for _ in range(count)]
            gone = [each for each in rows[name] if random.random() < 0.3]
            for each in gone:
                rows[name].remove(each)
            rows[name] += new
            changed = [(*each, 1) for each in new] + [(*each, -1) for each in gone]
            changes[name].append(_table(f"{SCHEMAS[name]}, {WEIGHT} long", changed))
            there[name].append(_table(SCHEMAS[name], rows[name]))
    return Fed(changes, there)


def _table(schema: str, rows: list[tuple[Any, ...]]) -> pa.Table:
    found = as_schema(schema)
    columns = [list(each) for each in zip(*rows, strict=True)] or [[] for _ in found]
    arrays = [pa.array(values, each.type) for values, each in zip(columns, found, strict=True)]
    return pa.table(arrays, schema=found)


def _row(name: str, random: Random) -> tuple[Any, ...]:
    key = random.choice([None, 1, 2, 3, 4, 5])
    some = random.choice([None, -7, 0, 1, 2, 3, 10])
    if name == "t":
        return (
            key,
            some,
            random.choice([None, "", "a", "ab", "B c", "ä%"]),
            random.choice([None, 0.5, -1.25, 8.0]),
        )
    if name == "u":
        return key, some, random.choice([None, "x", "y"])
    if name == "w":
        x = random.choice([None, -0.0, 0.0, float("nan"), 0.5])
        return key, random.choice([0, 1, 2, 5]), x, random.choice([None, "x", "y"])
    at = datetime(2024, 3, 1, 10) + timedelta(seconds=random.randrange(7200))
    values = random.choice([None, [], [1], [2, 2], [3, None, 1]])
    return (
        key,
        random.choice([None, at, at, at]),
        random.choice([None, at.date() + timedelta(random.randrange(60))]),
        values,
    )


CASES: Final = [
    Case("select", "select k, a + 1 as more, b from t"),
    Case("where", "select * from t where a > 0 and b is not null or k = 3"),
    Case("comments", "select /* all */ `k` as `odd name`, a -- one\n from t -- t", 'select k as "odd name", a from t'),
    Case("capitals", "SELECT T.K AS k, A AS a FROM t WHERE B = 'a'"),
    Case("case", "select k, case when a > 1 then 'big' when a > 0 then 'one' else 'none' end as s, "
         "case b when 'a' then 1 when 'ab' then 2 end as n from t"),
    Case("if", "select k, if(a > 1, 'x', 'y') as s from t", "select k, case when a > 1 then 'x' else 'y' end as s from t"),
    Case("in", "select k from t where a in (1, 2, null) or b not in ('a', 'ab')"),
    Case("between", "select k, a from t where a between 0 and 3 or a not between -8 and 5"),
    Case("like", "select b from t where b like 'a%' or b not like '%c' or b like '_%'"),
    Case("rlike", "select b from t where b rlike '^a'", "select b from t where regexp_matches(b, '^a')"),
    Case("null safe", "select t.k from t where a <=> null or not k <=> 3",
         "select t.k from t where a is not distinct from null or not k is not distinct from 3"),
    Case("arithmetic", "select k, a * 2 - 1 as p, a % 3 as m, -a as n, a / 4 as q, abs(a) as ab from t",
         "select k, a * 2 - 1 as p, a % 3 as m, -a as n, a / 4 as q, abs(a) as ab from t"),
    Case("div", "select a div 2 as d from t", "select trunc(a / 2)::bigint as d from t"),
    Case("rounding", "select round(x, 1) as r, floor(x) as f, ceil(x) as c from t",
         "select round(x, 1) as r, floor(x)::bigint as f, ceil(x)::bigint as c from t"),
    Case("cast", "select cast(a as string) as s, cast(x as int) as i, a::double as d, try_cast(b as int) as n from t",
         "select a::varchar as s, trunc(x)::int as i, a::double as d, try_cast(b as int) as n from t"),
    Case("strings", "select upper(b) as u, length(b) as l, b || '!' as e, concat(b, '-', b) as c, "
         "substring(b, 1, 1) as f, substring(b from 2) as r, replace(b, 'a', 'o') as p, trim(b) as t, "
         "coalesce(b, 'none') as n, nullif(b, 'a') as z, left(b, 1) as q from t",
         "select upper(b) as u, length(b)::int as l, b || '!' as e, b || '-' || b as c, "
         "substring(b, 1, 1) as f, substring(b, 2) as r, replace(b, 'a', 'o') as p, trim(b) as t, "
         "coalesce(b, 'none') as n, nullif(b, 'a') as z, left(b, 1) as q from t"),
    Case("dates", "select year(d) as y, month(ts) as m, d + interval 3 days as t, d - interval '1' week as w, "
         "date_add(d, 2) as a, datediff(d, date '2024-01-01') as n, extract(hour from ts) as h, "
         "date_trunc('hour', ts) as g, date_format(ts, 'yyyy-MM') as f from v",
         "select year(d)::int as y, month(ts)::int as m, (d + interval 3 days)::date as t, "
         "(d - interval 7 days)::date as w, (d + interval 2 days)::date as a, "
         "datediff('day', date '2024-01-01', d)::int as n, hour(ts)::int as h, date_trunc('hour', ts) as g, "
         "strftime(ts, '%Y-%m') as f from v"),
    Case("months", "select k from v where d < date '2024-01-31' + interval '1' month",
         "select k from v where d < date '2024-02-29'"),
    Case("texts as dates", "select k from v where d >= '2024-03-20' and ts < '2024-03-01 11:00:00'"),
    Case("intervals", "select k, ts + interval '1 hour 30 minutes' as later from v",
         "select k, ts + interval 90 minutes as later from v"),
    Case("inner join", "select t.k, t.b, u.c from t join u on t.k = u.k"),
    Case("comma join", "select t.k, u.c from t, u where t.k = u.k and t.a > u.a"),
    Case("join of expressions", "select t.k, u.k as l from t join u on t.k + 1 = u.k and t.a = u.a"),
    Case("left join", "select t.k, u.k as l, u.c from t left join u on t.k = u.k and u.c = 'x' and t.a > 0"),
    Case("left join and where", "select t.k, u.c from t left join u on t.k = u.k where t.a > 0 and u.c is null"),
    Case("right join", "select t.k, t.b, u.k as l from t right join u on t.k = u.k and t.a > 0 and u.a > 0"),
    Case("full join", "select t.k, u.k as l, t.b, u.c from t full outer join u on t.k = u.k and t.a < u.a"),
    Case("semi join", "select * from t left semi join u on t.k = u.k and t.a > u.a",
         "select * from t where exists (select 1 from u where t.k = u.k and t.a > u.a)"),
    Case("anti join", "select * from t left anti join u on t.k = u.k",
         "select * from t where not exists (select 1 from u where t.k = u.k)"),
    Case("cross join", "select t.b, s.c from t cross join (select distinct c from u) s where t.b < s.c"),
    Case("using", "select k, t.a, u.a as b, u.k as l from t left join u using (k)"),
    Case("full using", "select k, b, c from t full join u using (k)"),
    Case("natural", "select * from t natural join u", "select k, a, b, x, c from t natural join u"),
    Case("three", "select t.b, u.c, s.b as z from t join u on t.k = u.k left join t s on s.a = u.a where t.a > 0"),
    Case("self join", "select p.b, q.b as c from t p join t q on p.k = q.k and p.a < q.a"),
    Case("from subquery", "select s.k, s.n from (select k, count(*) as n from t group by k) s where s.n > 1"),
    Case("single beside", "select t.k from t, (select max(a) as m from u) s where t.a < s.m"),
    Case("in subquery", "select * from t where k in (select k from u where c = 'x')"),
    Case("not in subquery", "select * from t where k not in (select k from u where c = 'x')"),
    Case("not in without nulls", "select * from t where k not in (select k from u where k is not null)"),
    Case("not in of nothing", "select * from t where k not in (select k from u where c = 'zz')"),
    Case("correlated in", "select * from t where a in (select a from u where u.k = t.k)"),
    Case("correlated not in", "select * from t where a not in (select a from u where u.k = t.k)"),
    Case("in of pairs", "select * from t where (k, a) in (select k, a from u)"),
    Case("in inside or", "select * from t where k in (select k from u) or b = 'a'"),
    Case("in as a column", "select k, k in (select k from u) as i, k not in (select a from u) as n from t"),
    Case("exists", "select * from t where exists (select 1 from u where u.k = t.k and u.a <> t.a)"),
    Case("not exists", "select * from t where not exists (select * from u where u.k = t.k and u.c = 'x')"),
    Case("plain exists", "select * from t where exists (select * from u where c = 'y')"),
    Case("plain not exists", "select * from t where not exists (select * from u where c = 'y')"),
    Case("exists as a column", "select k, exists (select 1 from u where u.k = t.k) as e from t"),
    Case("scalar", "select * from t where a > (select avg(a) from u)"),
    Case("scalar as a column", "select k, (select max(a) from u) as m, (select count(*) from u where u.k = t.k) as n from t"),
    Case("correlated scalar", "select * from t where a >= (select max(u.a) - 1 from u where u.k = t.k)"),
    Case("scalar in having", "select k, sum(a) as s from t group by k having sum(a) > (select min(a) from u)"),
    Case("nested", "select * from t where k in (select k from u where a in (select a from t where b = 'a'))"),
    Case("union all", "select k, a from t union all select k, a from u"),
    Case("union", "select k from t union select k from u union select a from u"),
    Case("except", "select k from t except select k from u"),
    Case("minus", "select k, a from t minus select k, a from u", "select k, a from t except select k, a from u"),
    Case("intersect", "select k from t intersect select k from u"),
    Case("group", "select k, b, count(*) as n, count(a) as c, sum(a) as s, min(a) as l, max(b) as m, avg(a) as g "
         "from t group by k, b"),
    Case("group of expressions", "select k % 2 as r, length(b) as l, sum(a + 1) as s from t group by k % 2, length(b)",
         "select k % 2 as r, length(b)::int as l, sum(a + 1) as s from t group by all"),
    Case("group by alias", "select k + 1 as j, count(*) as n from t group by j"),
    Case("group by number", "select b, k, count(*) as n from t group by 1, 2"),
    Case("group by all", "select b, k + 1 as j, count(*) as n from t group by all"),
    Case("expressions of aggregates", "select k, sum(a) * 2 + count(*) as s, k + max(a) as m from t group by k"),
    Case("having", "select k from t group by k having count(*) > 2 and max(a) > 0"),
    Case("having alias", "select k, count(*) as n from t group by k having n > 2"),
    Case("global", "select count(*) as n, sum(a) as s, max(b) as m from t where a > 5"),
    Case("global having", "select count(*) as n from t having count(*) > 10"),
    Case("distinct", "select distinct k, b from t"),
    Case("count distinct", "select k, count(distinct b) as n, count(distinct a) as m from t group by k"),
    Case("filter", "select k, count(*) filter (where a > 0) as n, sum(a) filter (where b = 'a') as s from t group by k"),
    Case("count_if", "select k, count_if(a > 0) as n, bool_or(a > 5) as o, max_by(b, a) as m from t "
         "where a is not null and b is not null group by k",
         "select k, count_if(a > 0)::bigint as n, bool_or(a > 5) as o, max({'a': a, 'b': b}).b as m from t "
         "where a is not null and b is not null group by k"),
    Case("variance", "select k, round(stddev(a), 6) as s, round(var_pop(a), 6) as v, median(a) as m from t group by k"),
    Case("rollup", "select k, b, count(*) as n, grouping(k) as g from t group by rollup(k, b)",
         "select k, b, count(*) as n, grouping(k)::tinyint as g from t group by rollup(k, b) having count(*) > 0"),
    Case("cube", "select k, b, sum(a) as s from t group by cube(k, b)",
         "select k, b, sum(a) as s from t group by cube(k, b) having count(*) > 0"),
    Case("grouping sets", "select k, b, count(*) as n from t group by grouping sets ((k, b), (b), ())",
         "select k, b, count(*) as n from t group by grouping sets ((k, b), (b), ()) having count(*) > 0"),
    Case("with rollup", "select k, count(*) as n from t group by k with rollup",
         "select k, count(*) as n from t group by rollup(k) having count(*) > 0"),
    Case("limit", "select k, a, b, x from t order by a desc, k, b, x limit 3",
         "select k, a, b, x from t order by a desc nulls last, k nulls first, b nulls first, x nulls first limit 3"),
    Case("nulls last", "select distinct a from t order by a nulls last limit 2"),
    Case("offset", "select distinct a from t order by a limit 2 offset 1",
         "select distinct a from t order by a nulls first limit 2 offset 1"),
    Case("order of a group", "select b, count(*) as n from t group by b order by count(*) desc, b limit 2",
         "select b, count(*) as n from t group by b order by count(*) desc, b nulls first limit 2"),
    Case("union with limit", "select k from t union select a from u order by 1 limit 3",
         "select k from t union select a from u order by 1 nulls first limit 3"),
    Case("qualify", "select k, a, b, x from t qualify row_number() over (partition by k order by a, b, x) <= 2",
         "select k, a, b, x from t qualify row_number() over (partition by k "
         "order by a nulls first, b nulls first, x nulls first) <= 2"),
    Case("first rows", "select * from (select k, a, rank() over (partition by k order by a desc) as r from t) s where r <= 2",
         "select * from (select k, a, rank() over (partition by k order by a desc nulls last) as r from t) where r <= 2"),
    Case("places", "select k, a, rank() over w as r, dense_rank() over w as d from t window w as (partition by k order by a)",
         "select k, a, rank() over w as r, dense_rank() over w as d from t window w as (partition by k order by a nulls first)"),
    Case("lag", "select k, a, b, x, lag(a) over (partition by k order by b, a, x) as l, "
         "lead(a, 2, -1) over (partition by k order by b, a, x) as m from t",
         "select k, a, b, x, lag(a) over w as l, lead(a, 2, -1) over w as m from t "
         "window w as (partition by k order by b nulls first, a nulls first, x nulls first)"),
    Case("running", "select k, a, sum(a) over (partition by k order by a) as s, count(*) over (partition by k order by a) as n, "
         "max(a) over (partition by k) as m from t",
         "select k, a, sum(a) over (partition by k order by a nulls first) as s, "
         "count(*) over (partition by k order by a nulls first) as n, max(a) over (partition by k) as m from t"),
    Case("rows frame", "select distinct k, a, sum(a) over (partition by k order by a, b, x "
         "rows between unbounded preceding and current row) as s from t",
         "select distinct k, a, sum(a) over (partition by k order by a nulls first, b nulls first, x nulls first "
         "rows between unbounded preceding and current row) as s from t"),
    Case("window of groups", "select k, sum(a) as s, rank() over (order by sum(a) desc) as r from t group by k",
         "select k, sum(a) as s, rank() over (order by sum(a) desc nulls last) as r from t group by k"),
    Case("time window", "select window.start as w, count(*) as n from v group by window(ts, '10 minutes')",
         "select time_bucket(interval '10 minutes', ts) as w, count(*) as n from v where ts is not null group by 1"),
    Case("sliding window", "select k, window.end as w, count(*) as n from v group by k, window(ts, '20 minutes', '10 minutes')",
         "select k, time_bucket(interval '10 minutes', ts) + o as w, count(*) as n from v, "
         "(values (interval '10 minutes'), (interval '20 minutes')) s(o) where ts is not null group by 1, 2"),
    Case("session window", "select k, session_window.start as s, count(*) as n from v where k is not null "
         "group by k, session_window(ts, '15 minutes')",
         "with f as (select *, coalesce(ts - lag(ts) over (partition by k order by ts) > interval '15 minutes', true)::int as i "
         "from v where ts is not null and k is not null), g as (select *, sum(i) over (partition by k order by ts "
         "rows unbounded preceding) as g from f) select k, min(ts) as s, count(*) as n from g group by k, g"),
    Case("explode", "select k, e from v lateral view explode(l) s as e where e > 1",
         "select k, e from (select k, unnest(l) as e from v) where e > 1"),
    Case("explode in select", "select k, explode(l) as e from v", "select k, unnest(l) as e from v"),
    Case("outer explode", "select k, e from v lateral view outer explode(l) s as e",
         "select k, unnest(case when l is null or len(l) = 0 then [null] else l end) as e from v"),
    Case("values", "select t.k, s.n from t join (values (1, 'one'), (2, 'two')) as s(k, n) on t.k = s.k"),
    Case("values alone", "select * from values (1, 'a'), (2, null) as s(k, n) union all select k, b from t",
         "select * from (values (1, 'a'), (2, null)) as s(k, n) union all select k, b from t"),
    Case("with", "with p as (select k, a from t where a > 0), q(n) as (select count(*) from p) select p.k, q.n from p, q"),
    Case("with twice", "with t as (select k from t where a > 0) select t.k from t join u on t.k = u.k"),
    Case("stars", "select u.*, t.b from t join u on t.k = u.k"),
    Case("star except", "select * except (a, x) from t", "select * exclude (a, x) from t"),
    Case("star except of a join", "select t.* except (t.a), u.a from t join u on t.k = u.k",
         "select t.* exclude (a), u.a from t join u on t.k = u.k"),
    Case("star of a subquery with a shared name", "select b, c from (select * from t join u on t.k = u.k)",
         "select b, c from t join u on t.k = u.k"),
    Case("common table with a shared name", "with q as (select t.k, u.k, c from t join u on t.k = u.k) select c, count(*) as n from q group by c",
         "select c, count(*) as n from t join u on t.k = u.k group by c"),
    Case("factored exists", "select k, a from t where exists (select 1 from u where (u.k = t.k and u.a = 10) or (u.k = t.k and u.c = 'x' and u.a = 1))"),
    Case("factored not exists", "select k, a from t where not exists (select 1 from u where (u.k = t.k and u.a = 10) or (u.k = t.k and u.c = 'x' and u.a = 1))"),
    Case("factored in", "select k, a from t where a in (select u.a from u where (u.k = t.k and u.a > 2) or (u.k = t.k and u.c = 'z'))"),
    Case("factored not in", "select k, a from t where a not in (select u.a from u where (u.k = t.k and u.a > 2) or (u.k = t.k and u.c = 'z'))"),
    Case("factored value", "select k, a, (select count(*) from u where (u.k = t.k and u.a = 10) or (u.k = t.k and u.c = 'x' and u.a = 1)) as n from t"),
    Case("factored mark", "select k, exists (select 1 from u where (u.k = t.k and u.c = 'x') or (u.k = t.k and u.c = 'y')) as e from t"),
    Case("alternatives that imply each other", "select k, a from t where (a > 0 or (a > 0 and b = 'a')) and (k = 1 or (b = 'ab' and k = 2) or k > 2)"),
    Case("where behind a left and a full join", "select t.k as p, u.k as q, v.k as r from t left join u on t.k = u.k full join v on t.k = v.k where t.k > 2"),
    Case("where behind a left and a right join", "select t.k as p, u.k as q, v.k as r from t left join u on t.k = u.k right join v on t.k = v.k where t.a > 0"),
    Case("where behind a semi and a full join", "select t.k as p, v.k as r from t semi join u on t.k = u.k full join v on t.k = v.k where t.k > 0",
         "select t.k as p, v.k as r from (select * from t where k in (select k from u)) t full join v on t.k = v.k where t.k > 0"),
    Case("where behind an anti and a right join", "select t.k as p, v.k as r from t anti join u on t.k = u.k right join v on t.k = v.k where t.k is null",
         "select t.k as p, v.k as r from (select * from t where not exists (select 1 from u where u.k = t.k)) t "
         "right join v on t.k = v.k where t.k is null"),
    Case("right using", "select k, t.k as tk, u.k as uk, b, c from t right join u using (k)"),
    Case("full using of three", "select k, t.a, u.c, v.d from t full join u using (k) left join v using (k)"),
    Case("join on a null safe equality", "select t.k as p, u.k as q from t join u on t.k <=> u.k and t.a = u.a",
         "select t.k as p, u.k as q from t join u on t.k is not distinct from u.k and t.a = u.a"),
    Case("full join on a null safe equality", "select t.k as p, u.k as q, t.b from t full join u on t.a <=> u.a",
         "select t.k as p, u.k as q, t.b from t full join u on t.a is not distinct from u.a"),
    Case("exists with a null safe equality", "select k, a from t where exists (select 1 from u where u.k <=> t.k and u.c = 'x')",
         "select k, a from t where exists (select 1 from u where u.k is not distinct from t.k and u.c = 'x')"),
    Case("inner join on a range", "select t.k as p, u.k as q from t join u on t.a < u.a and t.k <> u.k"),
    Case("left join on a range", "select t.k as p, u.k as q from t left join u on t.a between u.k and u.a"),
    Case("full join on a range", "select t.k as p, u.k as q from t full join u on t.a < u.k"),
    Case("semi and anti join on a range", "select t.k, t.a from t semi join u on t.a < u.a union all select t.k, t.a from t anti join u on t.a > u.k",
         "select k, a from t where exists (select 1 from u where t.a < u.a) union all "
         "select k, a from t where not exists (select 1 from u where t.a > u.k)"),
    Case("text beside numbers", "select t.k, s.c from t join (select cast(a as string) as c, k from u) s on t.a = s.c where s.c <> 2",
         "select t.k, s.c from t join (select cast(a as string) as c, k from u) s on t.a = s.c::bigint where s.c::bigint <> 2"),
    Case("lateral alias", "select k + 1 as n, n * 2 as m, m - n as o from t",
         "select k + 1 as n, (k + 1) * 2 as m, (k + 1) * 2 - (k + 1) as o from t"),
    Case("lateral alias of an aggregate", "select k, sum(a) as s, count(*) as n, s / n as q from t group by k having n > 1",
         "select k, sum(a) as s, count(*) as n, sum(a) / count(*) as q from t group by k having count(*) > 1"),
    Case("null in a union", "select null as n, k from t where k = 1 union all select b, k from t union all select null, 5",
         "select null::varchar as n, k from t where k = 1 union all select b, k from t union all select null, 5"),
    Case("null in a subquery", "select coalesce(n, b) as m from (select null as n, b from t)", "select b as m from t"),
    Case("sets behind the keys", "select k, b, count(*) as n from t group by k, b grouping sets ((k), (b), (k, b))",
         "select k, b, count(*) as n from t group by grouping sets ((k), (b), (k, b))"),
    Case("sets of one meaning", "select k + a as s, count(*) as n from t group by grouping sets ((k + a), (a + k), (b))",
         "select k + a as s, count(*) as n from t group by k + a union all select k + a, count(*) from t group by k + a "
         "union all select null, count(*) from t group by b"),
    Case("key of one meaning", "select a + k as s, k * 2 + a as r, count(*) as n from t group by k + a, a + 2 * k",
         "select k + a as s, a + 2 * k as r, count(*) as n from t group by 1, 2"),
    Case("rollup in grouping sets", "select k, b, count(*) as n from t group by grouping sets (rollup(k, b), (b)) having count(*) > 0",
         "select k, b, count(*) as n from t group by grouping sets ((k, b), (k), (), (b)) having count(*) > 0"),
    Case("offset alone", "select k, a, b, x from t order by k, a, b, x offset 3",
         "select k, a, b, x from t order by k nulls first, a nulls first, b nulls first, x nulls first offset 3"),
    Case("offset of a union", "select k from t union select a from u order by 1 offset 2",
         "select k from t union select a from u order by 1 nulls first offset 2"),
    Case("window named after another", "select k, a, sum(a) over w2 as s from t window w1 as (partition by k), w2 as (w1)",
         "select k, a, sum(a) over (partition by k) as s from t"),
    Case("lag with a column as default", "select k, a, b, x, lag(a, 1, k) over (partition by b order by k, a, x) as l from t",
         "select k, a, b, x, lag(a, 1, k) over (partition by b order by k nulls first, a nulls first, x nulls first) as l from t"),
    Case("lag without nulls", "select k, a, b, x, lag(a) ignore nulls over w as l, lead(a, 2, -1) ignore nulls over w as m, "
         "lag(a, 1, k) ignore nulls over w as n from t window w as (partition by b order by k, a, x)",
         "select k, a, b, x, lag(a ignore nulls) over w as l, lead(a, 2, -1 ignore nulls) over w as m, "
         "coalesce(lag(a ignore nulls) over w, k) as n from t "
         "window w as (partition by b order by k nulls first, a nulls first, x nulls first)"),
    Case("ends without nulls", "select k, a, b, x, first_value(a) ignore nulls over w as f, last_value(a, true) over w as l, "
         "last_value(a) ignore nulls over (partition by b order by k, a, x rows between 2 preceding and 1 preceding) as m "
         "from t window w as (partition by b order by k, a, x)",
         "select k, a, b, x, first_value(a ignore nulls) over w as f, last_value(a ignore nulls) over w as l, "
         "last_value(a ignore nulls) over (partition by b order by k nulls first, a nulls first, x nulls first "
         "rows between 2 preceding and 1 preceding) as m "
         "from t window w as (partition by b order by k nulls first, a nulls first, x nulls first)"),
    Case("count of null", "select k, count(null) as z, count(1) as n, count(null, a) as y from t group by k",
         "select k, 0 as z, count(*) as n, 0 as y from t group by k"),
    Case("quotes", "select 'it\'\'s' as q, 'a' 'b' as r, k from t", "select 'it\'\'s' as q, 'ab' as r, k from t"),
    Case("concatenation and sums", "select k + 1 || b as s, '#' || k * 2 as r from t",
         "select cast(k + 1 as varchar) || b as s, '#' || cast(k * 2 as varchar) as r from t"),
    Case("column named all", "select all from (select k as all, a from t) where a > 0", 'select k as "all" from t where a > 0'),
    Case("pipes", "from t |> where a > 0 |> extend a + 1 as n |> aggregate sum(n) as s, count(*) as c group by 1 |> where c > 1",
         "select k, sum(a + 1) as s, count(*) as c from t where a > 0 group by k having count(*) > 1"),
    Case("pipes behind a limit", "from t |> order by k, a, b, x |> limit 4 |> where a > 0 |> aggregate count(*) as n",
         "select count(*) as n from (select * from t order by k nulls first, a nulls first, b nulls first, x nulls first limit 4) where a > 0"),
    Case("pipes behind a select", "select k from t |> extend k + 1 as n |> select distinct n |> union all (select k from u)",
         "select distinct k + 1 as n from t union all select k from u"),
    Case("copies that are in both", "select k from (select k from t union all select k from t) intersect all "
         "select k from (select k from u union all select k from u)"),
    Case("copies that are left", "select k from (select k from t union all select k from t) except all select k from u"),
    Case("not in of what is never null", "select n from w where n not in (select a from u)"),
    Case("never null not in", "select k, a from t where a not in (select n from w where w.k = 1)"),
    Case("join on floats", "select one.n, cast(one.x as string) as p, cast(other.x as string) as q "
         "from w one join w other on one.x = other.x",
         "select one.n, case when isnan(one.x) then 'NaN' else cast(one.x + 0.0 as varchar) end as p, "
         "case when isnan(other.x) then 'NaN' else cast(other.x + 0.0 as varchar) end as q "
         "from w one join w other on one.x = other.x"),
    Case("full join on floats", "select t.k as p, w.k as q, w.n from t full join w on t.x - 0.5e0 = w.x"),
    Case("recursive step with other names", "with recursive r(n, m) as (select coalesce(k, 3), coalesce(a, 0) from t union all "
         "select n + 1 as m, m as n from r where n < 4) select n, m, count(*) as c from r group by n, m"),
    Case("semi join using", "select k, t.a, b from t left semi join u using (k)",
         "select k, a, b from t where exists (select 1 from u where u.k = t.k)"),
    Case("anti join using", "select * from t left anti join u using (k, a)",
         "select k, a, b, x from t where not exists (select 1 from u where u.k = t.k and u.a = t.a)"),
]  # fmt: skip
