# ruff: noqa: E501, S608 - a query is read best in one line, and these are made for tests
"""Queries that are drawn: valid in Spark's SQL and in DuckDB's, and with the same meaning in both.

What both mean differently is left out, or said so that there is one meaning, and docs/reference/sql/index.md lists it:
the place of nulls is said with every order, divisors are constants, texts have no length as a type, and of no
rows ROLLUP has no total, which DuckDB has and Spark has not.
"""

from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st

from support.random_sql_values import (
    Draw,
    Named,
    Scope,
    T,
    U,
    V,
    columns,
    conditions,
    doubles,
    numbers,
    scalars,
    subqueries,
    texts,
)


@dataclass(frozen=True, slots=True)
class From:
    """FROM and WHERE up to a condition that comes next, and the tables that may be spoken of."""

    text: str
    scope: Scope
    has_where: bool = False

    def where(self, *parts: str) -> str:
        """The clause with conditions; one that FROM has already continues."""
        joined = " and ".join(f"({part})" for part in parts)
        return f"{self.text} {'and' if self.has_where else 'where'} {joined}"


_SIDES: Final = ["inner", "left", "right", "full"]
_MERGED: Final = Named("", longs=("k",))
"""The column that a join USING has merged."""


@st.composite
def sources(draw: Draw) -> From:
    """FROM: one table, or joins of all kinds."""
    kinds = ["t", "t", "inner", "left", "right", "full", "semi", "anti", "comma", "cross", "three", "using"]
    kinds += ["three", "using of three", "floats", "range", "both nulls", "never null"]
    kind = draw(st.sampled_from([*kinds, "subquery", "grouped", "common factor"]))
    if kind == "t":
        return From("t", (T,))
    if kind == "comma":
        return From(
            f"t, (select k, a, c from u where {draw(conditions((U,), 1))}) u where t.k = u.k",
            (T, U),
            has_where=True,
        )
    if kind == "cross":
        return From("t cross join (select k, max(a) as a, min(c) as c from u group by k) u", (T, U))
    if kind == "three":
        one, two = (draw(st.sampled_from(_SIDES)) for _ in range(2))
        by = draw(st.sampled_from(["t", "u"]))
        return From(f"t {one} join u on t.k = u.k {two} join v on {by}.k = v.k", (T, U, V))
    if kind == "using":
        return From(f"t {draw(st.sampled_from(_SIDES))} join u using (k)", (T, U, _MERGED))
    if kind == "using of three":
        one, two = (draw(st.sampled_from(_SIDES)) for _ in range(2))
        return From(f"t {one} join u using (k) {two} join v using (k)", (T, U, _MERGED))
    if kind == "floats":
        sums = "(select x, n, max(k) as k, count(*) as a, max(c) as c from w group by x, n)"
        return From(f"t {draw(st.sampled_from(_SIDES))} join {sums} u on t.x = u.x and t.a >= u.n", (T, U))
    if kind == "range":
        how = draw(st.sampled_from(_SIDES))
        return From(
            f"t {how} join u on t.a {draw(st.sampled_from(['<', '<>', '>=']))} u.a and t.k <> u.k", (T, U)
        )
    if kind == "both nulls":
        how = draw(st.sampled_from(_SIDES))
        return From(
            f"t {how} join u on t.k is not distinct from u.k and t.a is not distinct from u.a", (T, U)
        )
    if kind == "never null":
        return From("(select n as k, n + 1 as a, c as b, x from w) t", (T,))
    if kind == "subquery":
        inner = f"select t.k, {draw(numbers((T,)))} as a, {draw(texts((T,)))} as b, t.x from t where {draw(conditions((T,), 1))}"
        return From(f"({inner}) t", (T,))
    if kind == "grouped":
        inner = (
            f"select t.k, count(*) as a, max({draw(texts((T,), 1))}) as b, max(t.x) as x from t group by t.k"
        )
        return From(f"({inner}) t join u on t.k = u.k", (T, U))
    if kind == "common factor":
        one, two = draw(conditions((T, U), 1)), draw(conditions((T, U), 1))
        return From(f"t, u where ((t.k = u.k and {one}) or (t.k = u.k and {two}))", (T, U), has_where=True)
    extra = (
        f" and {draw(conditions(draw(st.sampled_from([(T,), (U,), (T, U)])), 0))}"
        if draw(st.booleans())
        else ""
    )
    scope = (T,) if kind in ("semi", "anti") else (T, U)
    return From(f"t {kind} join u on t.k = u.k{extra}", scope)


@st.composite
def selects(draw: Draw) -> str:
    """A whole query, with an output that both engines name alike."""
    source = draw(sources())
    scope = source.scope
    where = [draw(conditions(scope, 1))]
    if T in scope and draw(st.booleans()):
        where.append(draw(subqueries()))
    begin = f"from {source.where(*where)}"
    kinds = [_plain, _distinct, _grouped, _grouped, _global, _set, _copies, _sets_of_groups, _first, _lateral]
    kinds += [_recursive] if T in scope else []
    kinds += [_over, _over] if source.text == "t" else []
    text = draw(draw(st.sampled_from(kinds))(begin, scope))
    if draw(st.integers(0, 5)) == 0:
        return f"with q as ({text}) select * from q"
    return text


@st.composite
def _plain(draw: Draw, begin: str, scope: Scope) -> str:
    asked = f", {draw(scalars())} as v" if T in scope and draw(st.integers(0, 3)) == 0 else ""
    columns = f"{draw(numbers(scope))} as p, {draw(doubles(scope))} as q, {draw(texts(scope))} as r"
    return f"select {columns}{asked} {begin}"


@st.composite
def _distinct(draw: Draw, begin: str, scope: Scope) -> str:
    return f"select distinct {draw(numbers(scope))} as p, {draw(texts(scope))} as r {begin}"


@st.composite
def _aggregates(draw: Draw, scope: Scope) -> str:
    filtered = f" filter (where {draw(conditions(scope, 1))})" if draw(st.booleans()) else ""
    return (
        f"count(*) as n, sum({draw(numbers(scope))}){filtered} as s, max({draw(texts(scope))}) as m, "
        f"count(distinct {draw(numbers(scope, 1))}) as d, avg({draw(numbers(scope, 0))}) as g, "
        f"min({draw(doubles(scope))}) as l, count({draw(texts(scope, 1))}) as c"
    )


@st.composite
def _grouped(draw: Draw, begin: str, scope: Scope) -> str:
    text = (
        f"select {draw(numbers(scope))} as p, {draw(texts(scope, 1))} as r, {draw(_aggregates(scope))} "
        f"{begin} group by 1, 2"
    )
    having = ["", "", " having count(*) > 1", " having max(t.a) > (select min(u.a) from u)"]
    return text + draw(st.sampled_from(having))


@st.composite
def _global(draw: Draw, begin: str, scope: Scope) -> str:
    return f"select {draw(_aggregates(scope))} {begin}"


@st.composite
def _set(draw: Draw, begin: str, scope: Scope) -> str:
    operation = draw(st.sampled_from(["union", "union all", "except", "intersect"]))
    other = f"select {draw(numbers((U,), 1))}, u.c from u where {draw(conditions((U,), 1))}"
    return f"select {draw(numbers(scope))} as p, {draw(texts(scope))} as r {begin} {operation} {other}"


@st.composite
def _copies(draw: Draw, begin: str, scope: Scope) -> str:
    """EXCEPT ALL and INTERSECT ALL of rows that are there several times on both sides."""
    operation = draw(st.sampled_from(["except all", "intersect all"]))
    one = draw(st.sampled_from(columns(scope, "longs")))
    mine, theirs = f"select {one} as p {begin}", "select u.k from u"
    twice = draw(st.sampled_from([theirs, f"({theirs} union all select t.k from t)"]))
    return f"({mine} union all {mine}) {operation} {twice}"


@st.composite
def _lateral(draw: Draw, begin: str, scope: Scope) -> str:
    """Names of the select in columns behind them."""
    return f"select {draw(numbers(scope))} as p, p + 1 as q, case when q > 1 then {draw(texts(scope))} end as r {begin}"


@st.composite
def _recursive(draw: Draw, begin: str, scope: Scope) -> str:
    """A recursion whose step has other names, and may have the columns in another order."""
    del scope
    start = f"select coalesce(t.k, 3) as k, coalesce(t.a, 0) as a {begin}"
    step = draw(st.sampled_from(["n + 1 as m, m as n", "n + 1 as x, m + n as n", "m + 9 as n, n as m"]))
    return (
        f"with recursive r(n, m) as ({start} union all select {step} from r where n < 4) "
        "select n, m, count(*) as c from r group by n, m"
    )


@st.composite
def _sets_of_groups(draw: Draw, begin: str, scope: Scope) -> str:
    one, other = scope[0].all("longs")[-1], (scope[0].all("texts") or ["t.b"])[0]
    sets = ["rollup(1, 2)", "cube(1, 2)", "grouping sets ((1, 2), (2), ())"]
    how = draw(st.sampled_from(sets)).replace("1", one).replace("2", other)
    return f"select {one} as p, {other} as r, {draw(_aggregates(scope))} {begin} group by {how} having count(*) > 0"


@st.composite
def _first(draw: Draw, begin: str, scope: Scope) -> str:
    columns = f"{draw(numbers(scope))} as p, {draw(texts(scope))} as r"
    nulls = [
        draw(st.sampled_from([f"{way} nulls {end}" for way in ("asc", "desc") for end in ("first", "last")]))
        for _ in range(2)
    ]
    offset = draw(st.sampled_from(["", " offset 1"]))
    return f"select distinct {columns} {begin} order by p {nulls[0]}, r {nulls[1]} limit {draw(st.integers(1, 4))}{offset}"


@st.composite
def _over(draw: Draw, begin: str, scope: Scope) -> str:
    """Functions over windows of rows; where places are asked for, all columns decide."""
    whole = "t.a nulls first, t.b desc nulls last, t.x nulls first, t.k nulls first"
    by = draw(st.sampled_from(["partition by t.k", "partition by t.b", ""]))
    ranked = f"over ({by} order by {draw(numbers(scope, 1))} nulls first)"
    placed = f"over ({by} order by {whole})"
    functions = [
        f"rank() {ranked}", f"dense_rank() {ranked}", f"sum(t.a) {ranked}", f"count(*) {ranked}",
        f"row_number() {placed}", f"lag(t.a) {placed}", f"lead(t.a, 2, -1) {placed}", f"max(t.b) {ranked}",
        f"sum(t.a) over ({by} order by {whole} rows between unbounded preceding and current row)",
        f"min(t.a) over ({by})", f"first_value(t.a) {placed}",
    ]  # fmt: skip
    one, other = draw(st.sampled_from(functions)), draw(st.sampled_from(functions))
    text = f"select t.k, t.a, t.b, t.x, {one} as f, {other} as g {begin}"
    return (
        draw(st.sampled_from([text, f"select k, a, f from ({text}) s where g <= 2 or f is null"]))
        if "t.b" not in other
        else text
    )
