# ruff: noqa: E501 - a query is read best in one line
"""What cannot be kept up to date is refused before anything runs: where, what, and what to write instead."""

import re
import subprocess
import sys

import pytest

import pointstamp as ps
from pointstamp.errors import SqlError

TABLES = {
    "t": "k long, a long, b string, at timestamp_ntz, d date, l array<long>",
    "u": "k long, a long, c string",
}

REFUSED = {
    "select k frm t": "line 1, column 14: syntax error near",
    "select k from nowhere": "line 1, column 15: there is no table or view 'nowhere'; there are 't', 'u'",
    "select\n  q\nfrom t": "line 2, column 3: there is no column 'q'; there are 't.k', 't.a', 't.b'",
    "select k from t, u where t.a = u.a": "line 1, column 8: 'k' is a column of 't', 'u'. Say which is meant",
    "select t.k from t, u": "line 1, column 20: 'u' is joined without an equality .* CROSS JOIN",
    "select t.k from t join u on t.k > 1": "'u' is joined without an equality",
    "select t.k from t left join u on t.k > 1": "a left join needs a comparison of columns of both sides in ON. Add one",
    "select * from t join u on t.k = u.k": "two columns have the name 'k'. Give one of them another name with AS",
    "select k from (select * from t join u on t.k = u.k)": "'k' is ambiguous: 2 columns of the subquery have this name. Give them different names",
    "select * except (nope) from t": "line 1, column 18: there is no column 'nope'",
    "select * except (k, k) from t": "'k' is in EXCEPT twice. Remove one",
    "select * except (k, a, b, at, d, l) from t": "EXCEPT leaves no column",
    "select u.* except (t.k) from t join u on t.k = u.k": "EXCEPT needs columns of '[*]', but 't.k' is 0 of them",
    "select null as n from t": "the column 'n' is always null and has no type. Cast it",
    "select k as n, a as n, n + 1 as m from t": "'n' is the alias of several columns before it",
    "select if(a > 1, 'a') as s from t": "if needs 3 arguments, got 2",
    "select sum(a) over (w order by k) as s from t window w as (partition by b)": "the window 'w' cannot be extended here. Declare another one",
    "select sum(a) over w as s from t window w as v, v as w": "the window 'w' refers to itself",
    "select sum(a) ignore nulls over (order by k) as s from t": "sum does not support IGNORE NULLS",
    "from t |> select k where k > 1": "'[|]> SELECT' takes columns alone",
    "from t |> aggregate count(*) as n group by 9": "there is no column 9; the input has 6",
    "select now() from t": r"line 1, column 8: now\(\) changes without a change of the input",
    "select k from t where at < current_timestamp": "changes without a change of the input",
    "select rand() as r from t": r"rand\(\) changes",
    "select sha2(b, 256) as s from t": "there is no function 'sha2' here",
    "select upper(b, b) as s from t": "upper needs 1 arguments, got 2",
    "select d + b as s from t": "line 1, column 8: .*needs a time and a duration",
    "select a from t group by k": "'a' is neither in GROUP BY nor in an aggregate",
    "select k from t where sum(a) > 1": "the aggregate sum is not allowed here. Filter groups with HAVING",
    "select k from t having k > 1": "HAVING needs GROUP BY",
    "select k, k from t": "two columns have the name 'k'",
    "select k from t where a > (select max(a) from u where u.k < t.k)": "a correlated scalar subquery needs an equality .* Add one, such as u.id = t.id",
    "select k from t where a > (select max(a) from u where t.k > 1)": "write CASE WHEN",
    "select k from t where exists (select 1 from u where u.k < t.k)": "EXISTS needs an equality .* Add one",
    "select k, exists (select 1 from u where u.k = t.k and u.a < t.a) as e from t": "must be a separate condition. Move it out",
    "select k from t where exists (select 1 from u where u.k = t.k group by c)": "GROUP in a correlated subquery of EXISTS",
    "select (select a, k from u) as s from t": "scalar subquery must have one column, got 2",
    "select k from t where a = any (1, 2)": "ANY needs a subquery in parentheses here. Write IN",
    "select k from t where a > all (select a, k from u)": "one value is compared with 2 columns",
    "select median(distinct a) as s from t": r"median\(DISTINCT ...\) of 1 values is not supported. Select distinct rows in a view first",
    "select sum(distinct a, k) as s from t": r"sum\(DISTINCT ...\) of 2 values is not supported",
    "select * from t unpivot (x for y in (k, a))": "UNPIVOT is not supported. Write a union all",
    "select * from t pivot (sum(a) for (b, k) in (('x', 1)))": "PIVOT takes one column here",
    "select b like 'a!b' escape '!' as l from t": "'!' must be followed by",
    "select b like 'a%' escape '!!' as l from t": "ESCAPE needs one character",
    "select * from (t join u on t.k = u.k) as x": "joins in parentheses cannot have an alias",
    "select interval 1 month as m from t": "can only be added to a date or a timestamp",
    "select ntile(k) over (order by k) as n from t": r"ntile needs a literal number. Write ntile\(4\)",
    "select nth_value(a, 2) over (order by k) as n from t": "over a window is not supported; there are avg, ",
    "select *": "'[*]' needs FROM",
    "with recursive x(n) as (select n from y), y(n) as (select n from x) select n from x": (
        "the column types of 'x' are unknown"
    ),
    "with recursive x(n) as (select k from t union all select n from y), y(n) as (select n from x) select n from x": (
        "'x' needs another recursion, so it cannot be a UNION ALL"
    ),
    "select k from t union select k, a from u": "one query has 1 columns and the other 2",
    "select k from t limit 0": "LIMIT must be 1 or more",
    "select k from t limit k": "LIMIT must be a literal integer",
    "select k from t tablesample (10 percent)": "TABLESAMPLE",
    "select distinct on (k) a from t": "DISTINCT ON",
    "select sum(a) over (order by b range between 2 preceding and current row) as s from t": "RANGE BETWEEN 2 PRECEDING AND CURRENT ROW does not fit the order by a string; .* Cast what is ordered by",
    "select sum(a) over (order by at range between 2 preceding and current row) as s from t": "does not fit the order by a timestamp.* an interval for timestamps",
    "select sum(a) over (order by k, a range between 2 preceding and current row) as s from t": "is a distance, so it needs one value in ORDER BY",
    "select sum(a) over (order by b range between current row and unbounded following) as s from t": "does not fit the order by a string",
    "select sum(a) over (order by k rows between a preceding and current row) as s from t": "needs a literal number of rows",
    "select sum(a) over (order by k rows between 1 following and 1 preceding) as s from t": "this frame ends before it begins",
    "select lag(a) over (order by k rows unbounded preceding) as s from t": "lag does not support a frame. Remove the frame",
    "select row_number() over (partition by k) as n from t": "row_number needs ORDER BY",
    "select explode(l) + 1 as e from t": "explode returns several rows",
    "select k from t where b like a": "a pattern must be a literal string",
    "select k from t where a = :most": "the parameter ':most' was not given",
    "select k as diff from t": "a column cannot be called 'diff'",
    "insert into t select k from u": "INSERT is not a query",
    "select k from t; select k from u": "a text must have one query, or only CREATE VIEW",
    "create view t as select k from u": "'t' already exists",
    "create table x (id long)": "declares inputs but no view",
    "create table x as select k from t": "CREATE TABLE AS is not supported",
    "create table x (id long) tblproperties ('order' = 'id'); select id from x": "without a primary key",
    "": "the text has no statement",
    "with recursive r as (select k from t) select k from r union select k from q": "no table or view 'q'",
    "with recursive r as (select k from r union select k from t) select k from r": "the base of recursive CTE 'r' refers to it",
    "with recursive r as (select k from t union select u.a from u left join r on u.k = r.k) select k from r": (
        "'r' cannot be used on the nullable side of an outer join"
    ),
    "with recursive r as (select k from t union select a from u where k not in (select k from r)) select k from r": (
        "'r' cannot be used in a subquery of its recursive term"
    ),
    "with recursive r as (select k from t union select count(*) from r group by k) select k from r": (
        "count in a recursion may not terminate"
    ),
    "with recursive r as (select k from t union all select x.k from r x join r y on x.k = y.k) select k from r": (
        "'r' is used twice in the recursive term of a UNION ALL"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_text_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(SqlError, match=r"(?s)^line \d+, column \d+: .*") as error:
        ps.sql(text, TABLES)
    pattern = REFUSED[text]
    wanted = pattern if pattern.startswith("line") else f".*{pattern}"
    assert re.match(f"(?s){wanted}", str(error.value)), str(error.value)


def test_without_sqlglot_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['sqlglot'] = None\n"
        "import pointstamp as ps\n"
        "try:\n    ps.sql('select 1')\nexcept ps.errors.PointstampError as error:\n    print(error)\n"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'pointstamp[sql]'" in made.stdout


def test_parameters_and_views_of_views() -> None:
    flow = ps.sql(
        """
        create table t (id long primary key, city string, price long);
        create temporary view dear as select * from t where price > :least;  -- no output
        create view cities (city, many) as select city, count(*) from dear group by city;
        create view largest as select city from cities order by many desc limit 1;
        """,
        parameters={"least": 3},
    )
    rows = [
        [{"id": 1, "city": "Rome", "price": 5}, {"id": 2, "city": "Oslo", "price": 4}],
        [{"id": 1, "city": "Oslo", "price": 9}],
    ]
    results = flow.run(t=rows)
    assert set(results) == {"cities", "largest"}
    added = sorted((row["diff"], row["city"], row["many"]) for row in results["cities"][1].to_pylist())
    assert added == [(-1, "Oslo", 1), (-1, "Rome", 1), (1, "Oslo", 2)]
