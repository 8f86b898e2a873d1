# ruff: noqa: E501, S608 - a query is read best in one line, and is our own text
"""Parts of SQL that are written out as others, or looked at as they run: DuckDB's after every epoch.

What only this finds: three values of ALL and ANY that are two; copies of EXCEPT ALL that are lost with the
deletion of one; a distinct value that stays in a sum when one of its copies goes.
"""

from datetime import date

import pytest

import pointstamp as ps
from support.batch_answers import judge
from support.sql_cases import Case, declared, fed

ORDER = "partition by k order by a, b, x"
THEIRS = "partition by k order by a nulls first, b nulls first, x nulls first"


def framed(name: str, columns: str) -> Case:
    """Functions over frames of one order, in which DuckDB is told that nulls come first."""
    query = f"select k, a, b, x, {columns} from t"
    return Case(name, query.replace("@", ORDER), query.replace("@", THEIRS))


CASES = [
    framed("frames before", "sum(a) over (@ rows between 2 preceding and current row) as s, count(*) over (@ rows between 1 preceding and 1 following) as c, count(b) over (@ rows between 1 following and 2 following) as d"),
    framed("frames behind", "min(a) over (@ rows between 2 preceding and 1 preceding) as s, max(x) over (@ rows between current row and unbounded following) as c, avg(a) over (@ rows between 1 preceding and 1 following) as d"),
    framed("frames of floats and texts", "sum(x) over (@ rows between 3 preceding and 1 following) as s, first_value(b) over (@ rows between 1 preceding and 1 following) as c, last_value(a) over (@ rows between current row and 2 following) as d, max(b) over (@ rows 1 preceding) as e"),
    framed("frames with all on a side", "sum(x) over (@ rows between unbounded preceding and 1 preceding) as s, min(b) over (@ rows between unbounded preceding and 1 following) as c, sum(x) over (@ rows between 1 following and unbounded following) as d, lag(a) over (@) as e, row_number() over (@) as n"),
    Case("equals of an order", "select k, a, sum(a) over (partition by k order by a desc) as s, count(*) over (partition by k order by a desc) as c, max(x) over (partition by k) as m, avg(x) over () as d from t",
         "select k, a, sum(a) over (partition by k order by a desc nulls last) as s, count(*) over "
         "(partition by k order by a desc nulls last) as c, max(x) over (partition by k) as m, avg(x) over "
         "() as d from t"),
    Case("frames by distance", "select k, a, sum(a) over (partition by k order by a range between 2 preceding and current row) as s, count(*) over (partition by k order by a range between 1 following and 3 following) as c, max(x) over (order by a range between unbounded preceding and 1 following) as m, first_value(a) over (partition by k order by a range between 1 preceding and unbounded following) as f from t",
         "select k, a, sum(a) over (partition by k order by a nulls first range between 2 preceding and "
         "current row) as s, count(*) over (partition by k order by a nulls first range between 1 following "
         "and 3 following) as c, max(x) over (order by a nulls first range between unbounded preceding and 1 "
         "following) as m, first_value(a) over (partition by k order by a nulls first range between 1 "
         "preceding and unbounded following) as f from t"),
    Case("frames by distance downwards", "select k, a, count(*) over (partition by b order by a desc range between 2 preceding and 1 preceding) as c, sum(a) over (order by a desc nulls first range between current row and 4 following) as s, avg(a) over (order by a desc range 1 preceding) as m from t",
         "select k, a, count(*) over (partition by b order by a desc nulls last range between 2 preceding "
         "and 1 preceding) as c, sum(a) over (order by a desc nulls first range between current row and 4 "
         "following) as s, avg(a) over (order by a desc nulls last range 1 preceding) as m from t"),
    Case("frames by distance of time", "select k, ts, d, count(*) over (partition by k order by ts range between interval 10 minutes preceding and interval 5 minutes following) as c, count(k) over (order by d range between 1 preceding and interval 2 days following) as n from v",
         "select k, ts, d, count(*) over (partition by k order by ts nulls first range between interval 10 "
         "minutes preceding and interval 5 minutes following) as c, count(k) over (order by d nulls first "
         "range between interval 1 day preceding and interval 2 days following) as n from v"),
    Case("value by more than equalities", "select k, a, (select max(u.a) from u where u.k = t.k and u.a < t.a) as m, (select count(*) from u where u.k = t.k and (t.a is null or u.a >= t.a)) as n from t"),
    Case("row by more than equalities", "select k, a, (select q.n from (select k, a, count(*) as n from u group by k, a) q where q.k = t.k and q.a is not distinct from t.a) as n from t"),
    Case("value by a text besides", "select k, b from t where a <= (select sum(u.a) + 1 from u where u.k = t.k and u.c <> t.b)"),
    Case("exists of the row around", "select k, a, exists (select 1 where t.a > 1) as e from t where not exists (select 1 where t.a > 5) or exists (select 1 from u where u.k = t.k and t.b = 'a')"),
    Case("exists of the row around alone", "select k, a from t where exists (select 1 from u where t.a > 1)"),
    Case("not exists of the row around alone", "select k, a from t where not exists (select 1 from u where t.a > 1 and u.c = 'x')"),
    Case("group by a subquery", "select (select max(a) from u where u.k = t.k) as m, count(*) as n from t group by (select max(a) from u where u.k = t.k)"),
    Case("group by whether there is one", "select case when exists (select 1 from u where u.k = t.k) then 'yes' else 'no' end as e, sum(a) as s from t group by e having count(*) > 1"),
    Case("except all", "select k, a from t except all select k, a from u"),
    Case("intersect all", "select k, b from t intersect all select k, c from u"),
    Case("greater than all", "select k, a from t where a > all (select a from u where a is not null and k > 1)"),
    Case("not known of all", "select k, a, a > all (select a from u) as c, a <> all (select a from u where c = 'x') as e from t"),
    Case("all of a key", "select k, a, a >= all (select a from u where u.k = t.k) as c, a = all (select a from u where u.k = t.k) as d from t"),
    Case("any and some", "select k, a, a < any (select a from u where u.k = t.k) as c, a = any (select a from u) as d, a <> some (select a from u where u.k = t.k) as e from t"),
    Case("all of a union", "select k from t where a <= all (select a from u where a is not null union select k from v where k is not null)"),
    Case("escape", "select k, b like 'a!%' escape '!' as p, b like '%!_%' escape '!' as q, b not like 'a!!%' escape '!' as r, b ilike 'A#_b' escape '#' as s from t"),
    Case("ntile", "select k, a, b, ntile(3) over (partition by k order by a, b, x) as n from t",
         "select k, a, b, ntile(3) over (partition by k order by a nulls first, b nulls first, x nulls "
         "first)::int as n from t"),
    Case("shares", "select k, a, percent_rank() over (partition by k order by a) as n, cume_dist() over (order by a desc) as m from t",
         "select k, a, percent_rank() over (partition by k order by a nulls first) as n, cume_dist() over "
         "(order by a desc nulls last) as m from t"),
    Case("ntile of a named window", "select k, a, b, ntile(2) over w as n, percent_rank() over w as p, count(*) over w as c from t window w as (partition by k order by a, b, x)",
         "select k, a, b, ntile(2) over w::int as n, percent_rank() over w as p, count(*) over w as c from t "
         "window w as (partition by k order by a nulls first, b nulls first, x nulls first)"),
    Case("all of all", "select k, a from t where a >= all (select a from u where a >= all (select k from v where k < 3) and a < 10)"),
    Case("all of a group", "select k, sum(a) as s from t group by k having sum(a) > all (select a from u where a < 3)"),
    Case("months of columns", "select d + interval 1 month as m, ts - interval 2 years as y, add_months(d, -13) as z, d - interval 1 quarter as q from v",
         "select (d + interval 1 month)::date as m, ts - interval 2 years as y, (d - interval 13 "
         "month)::date as z, (d - interval 3 month)::date as q from v"),
    Case("no from", "select 1 as one, 'x' as s union all select k, b from t"),
    Case("no from in a value", "select k, (select 5) as five from t where exists (select 1)"),
    Case("sum distinct", "select k, sum(distinct a) as s, avg(distinct a) as m, count(*) as n, count(distinct a) as c, sum(a) as f from t group by k having sum(distinct a) > 0 or k is null"),
    Case("count distinct pairs", "select count(distinct a, b) as n, sum(distinct a) filter (where b = 'a') as s, count(a) as c, max(x) as m from t",
         "select count(distinct (a, b)) filter (where a is not null and b is not null) as n, sum(distinct "
         "a) filter (where b = 'a') as s, count(a) as c, max(x) as m from t"),
    Case("sum distinct rollup", "select b, k, sum(distinct a) as s, count(*) as n from t group by rollup (b, k)",
         "select b, k, sum(distinct a) as s, count(*) as n from t group by rollup (b, k) having count(*) > "
         "0"),
    Case("sum distinct of a key", "select k, (select sum(distinct a) from u where u.k = t.k) as s from t"),
    Case("first row as a value", "select k, (select a from u order by k desc, a, c limit 1) as m from t",
         "select k, (select a from u order by k desc nulls last, a nulls first, c nulls first limit 1) as "
         "m from t"),
    Case("row of a key as a value", "select k, (select c.n from (select k, count(*) as n from u group by k) c where c.k = t.k) as n from t"),
    Case("row as a value in where", "select k from t where a > (select n - 3 from (select count(*) as n from u) q)"),
    Case("joins in parentheses", "select t.k, u.c, v.d from (t join u on t.k = u.k) left join v on v.k = t.k"),
    Case("joins in parentheses on the right", "select t.k, u.c, v.d from t left join (u join v on u.k = v.k) on t.k = u.k and t.a < u.a"),
    Case("natural left join", "select k, a, b, c from t natural left join (select k, c from u) q"),
    Case("natural full join", "select k, b, c from (select k, b from t) p natural full join (select k, c from u) q"),
    Case("pivot", "select * from (select k, a, b from t) pivot (sum(a) for b in ('a', 'ab' as two))",
         "select k, sum(a) filter (where b = 'a') as a, sum(a) filter (where b = 'ab') as two from t group "
         "by k"),
    Case("pivot of two", "select * from t pivot (sum(a) as s, count(*) as n for b in ('a', 'ab')) as p where p.k > 0",
         "select k, x, sum(a) filter (where b = 'a') as a_s, nullif(count(*) filter (where b = 'a'), 0) as "
         "a_n, "
         "sum(a) filter (where b = 'ab') as ab_s, nullif(count(*) filter (where b = 'ab'), 0) as ab_n from "
         "t where k > 0 group by k, x"),
    Case("values in a recursion", "with recursive r(n) as (select k from u union select r.n + v.d from r cross join (values (1), (2)) as v(d) where r.n < 9) select n from r"),
    Case("no from in a recursion", "with recursive r(n) as (select 1 union select r.n + 1 from r where r.n < 5) select n, t.k from r join t on t.k = r.n"),
    Case("with in a step", "with recursive r(n) as (select 0 union (with e as (select k, a from t where a is not null) select e.a from r join e on e.k = r.n)) select n from r"),
    Case("with in a recursion", "with recursive r(n) as (with s as (select k from u where c = 'x') select k from s union select t.a from r join t on r.n = t.k join s on s.k = t.k) select n from r"),
]  # fmt: skip


def check(case: Case, seed: int, epochs: int, size: int) -> None:
    assert judge(ps.sql(declared() + case.sql), case.theirs, fed(seed, epochs, size), 1 + seed % 2) == epochs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_it_is_duckdbs_after_every_epoch(case: Case) -> None:
    check(case, CASES.index(case), epochs=3, size=12)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "_"))
def test_it_is_duckdbs_on_many_tables(case: Case) -> None:
    for seed in range(6):
        check(case, seed, epochs=5, size=20)


def test_copies_of_a_row_with_a_value_below_zero_are_all_in_the_sum_of_their_window() -> None:
    """The last of two copies was once looked for by the sum so far, which is the least of them here."""
    flow = ps.sql(
        "create table t (k long, a long);"
        "select sum(a) over (partition by k) as s, sum(a) over (partition by k order by a) as r from t"
    )
    found = flow.run(t=[[{"k": 1, "a": -1}, {"k": 1, "a": -1}]]).table("result")
    assert found.to_pylist() == [{"s": -2, "r": -2}, {"s": -2, "r": -2}]


def test_a_value_with_two_rows_is_an_error_as_it_runs() -> None:
    rows = [[{"k": 1, "a": 2, "c": None, "w": 1}], [{"k": 1, "a": 3, "c": None, "w": 1}]]
    for query in (
        "select (select a from u) as s from t",
        "select (select a from u where u.k = t.k) as s from t",
    ):
        flow = ps.sql(declared("t", "u") + query)
        there = [{"k": 1, "a": 1, "b": None, "x": None, "w": 1}]
        epochs = flow.stream(t=[there, []], u=rows)
        assert next(epochs)[1]["result"].to_pylist() == [{"s": 2, "diff": 1}]
        with pytest.raises(
            ps.errors.PointstampError,
            match=r"line 3, column \d+: a scalar subquery must have one row, got 2",
        ):
            next(epochs)


def test_one_row_that_replaces_another_in_an_epoch_is_one() -> None:
    flow = ps.sql(declared("t", "u") + "select t.k, (select a from u where u.k = t.k) as s from t")
    changed = [{"k": 1, "a": 2, "c": None, "w": -1}, {"k": 1, "a": 3, "c": None, "w": 1}]
    results = flow.run(
        t=[[], [{"k": 1, "a": 1, "b": None, "x": None, "w": 1}]],
        u=[[{"k": 1, "a": 2, "c": None, "w": 1}], changed],
        workers=2,
    )
    assert results.table("result").to_pylist() == [{"k": 1, "s": 3}]


def test_a_parameter_that_is_a_text_or_an_integer_is_a_literal() -> None:
    query = "select id from t where day >= :day and id > :least order by id limit :most offset :skipped"
    given = {"day": "2024-05-02", "least": -3, "most": 2, "skipped": 1}
    flow = ps.sql(query, t="id long, day date", parameters=given)
    rows = [{"id": number, "day": date(2024, 5, number)} for number in range(1, 6)]
    found = flow.run(t=[rows])["result"][0].to_pylist()
    assert sorted(row["id"] for row in found) == [3, 4]
