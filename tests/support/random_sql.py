# ruff: noqa: E501, S608 - a query is read best in one line, and these are made for tests
"""Queries that are drawn: valid in Spark's SQL and in DuckDB's, and with the same meaning in both.

Left out because both engines differ, and Spark's meaning is ours: the order of nulls, division (an integer by
an integer is a double in both, but by zero an error here and null there), and the length of text as a type.
"""

from hypothesis import strategies as st

Draw = st.DrawFn

_LONGS = ["k", "a"]
_TABLES = {"t": (_LONGS, ["b"]), "u": (_LONGS, ["c"])}


@st.composite
def numbers(draw: Draw, table: str, depth: int = 2) -> str:
    """An expression that is a number."""
    columns, _ = _TABLES[table]
    kind = draw(
        st.sampled_from(["column", "column", "literal", "plus", "case", "coalesce"] if depth else ["column"])
    )
    if kind == "column":
        return f"{table}.{draw(st.sampled_from(columns))}"
    if kind == "literal":
        return str(draw(st.integers(-3, 9)))
    one, other = draw(numbers(table, depth - 1)), draw(numbers(table, depth - 1))
    if kind == "plus":
        return f"({one} {draw(st.sampled_from(['+', '-', '*']))} {other})"
    if kind == "coalesce":
        return f"coalesce({one}, {other})"
    return f"case when {draw(conditions(table, depth - 1))} then {one} else {other} end"


@st.composite
def conditions(draw: Draw, table: str, depth: int = 2) -> str:
    """A condition over the columns of a table."""
    _, (text,) = _TABLES[table]
    kinds = ["compare", "compare", "null", "text", "in", "between"] + (["and", "or", "not"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind in ("and", "or"):
        return f"({draw(conditions(table, depth - 1))} {kind} {draw(conditions(table, depth - 1))})"
    if kind == "not":
        return f"not ({draw(conditions(table, depth - 1))})"
    if kind == "null":
        return (
            f"{table}.{draw(st.sampled_from(['k', 'a', text]))} is {draw(st.sampled_from(['', 'not ']))}null"
        )
    if kind == "text":
        return f"{table}.{text} {draw(st.sampled_from(['=', '<>', '<', 'like']))} {draw(st.sampled_from(['a', 'x']))!r}"
    value = draw(numbers(table, min(depth, 1)))
    if kind == "in":
        return (
            f"{value} {draw(st.sampled_from(['', 'not ']))}in (1, 3{draw(st.sampled_from(['', ', null']))})"
        )
    if kind == "between":
        return f"{value} between 0 and 3"
    other = draw(numbers(table, min(depth, 1)))
    return f"{value} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {other}"


@st.composite
def subqueries(draw: Draw) -> str:
    """A condition on t that asks u."""
    inner = draw(conditions("u", 1))
    negated = draw(st.sampled_from(["", "not "]))
    related = draw(st.sampled_from(["", " and u.k = t.k"]))
    kind = draw(st.sampled_from(["in", "exists", "scalar"]))
    if kind == "in":
        return f"t.a {negated}in (select u.a from u where {inner}{related})"
    if kind == "exists":
        return f"{negated}exists (select 1 from u where {inner}{related})"
    aggregate = draw(st.sampled_from(["max(u.a)", "count(*)", "min(u.a) + 1", "sum(u.k)"]))
    return f"t.a >= (select {aggregate} from u where {inner}{related})"


@st.composite
def sources(draw: Draw) -> tuple[str, bool]:
    """FROM, and whether u is in it."""
    kind = draw(st.sampled_from(["t", "t", "inner", "left", "right", "full", "comma"]))
    if kind == "t":
        return "t", False
    extra = f" and {draw(conditions(draw(st.sampled_from(['t', 'u'])), 0))}" if draw(st.booleans()) else ""
    if kind == "comma":
        return (
            f"t, (select k, a, c from u where {draw(conditions('u', 1))}) u where t.k = u.k{extra} and",
            True,
        )
    return f"t {kind} join u on t.k = u.k{extra}", True


@st.composite
def selects(draw: Draw) -> str:
    """A whole query, with an output that both engines name alike."""
    source, has_other = draw(sources())
    tables = ["t", "u"] if has_other else ["t"]
    one, other = (draw(numbers(draw(st.sampled_from(tables)))) for _ in range(2))
    where = [draw(conditions(draw(st.sampled_from(tables)), 1))]
    if draw(st.booleans()):
        where.append(draw(subqueries()))
    joined = " and ".join(where)
    begin = f"from {source} {'' if source.endswith('and') else 'where'} {joined}"
    kind = draw(st.sampled_from(["plain", "distinct", "group", "global", "having", "set"]))
    if kind == "plain":
        return f"select {one} as p, {other} as q, t.b {begin}"
    if kind == "distinct":
        return f"select distinct {one} as p, t.b {begin}"
    aggregates = f"count(*) as n, sum({other}) as s, max(t.b) as m, count(distinct t.a) as d"
    if kind == "global":
        return f"select {aggregates} {begin}"
    if kind == "set":
        operation = draw(st.sampled_from(["union", "union all", "except", "intersect"]))
        return f"select {one} as p, t.b {begin} {operation} select u.a, u.c from u"
    grouped = f"select {one} as p, t.b, {aggregates} {begin} group by 1, 2"
    return grouped + (" having count(*) > 1" if kind == "having" else "")
