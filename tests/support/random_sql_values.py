# ruff: noqa: E501, S608 - a query is read best in one line, and these are made for tests
"""Expressions that are drawn: numbers, texts and conditions, and the subqueries that stand in them.

Each means the same in Spark's SQL and in DuckDB's, so that one text is asked of both.
"""

from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st

Draw = st.DrawFn


@dataclass(frozen=True, slots=True)
class Named:
    """A table under a name, and what columns of which kinds it has there."""

    name: str
    longs: tuple[str, ...] = ()
    doubles: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()

    def all(self, kind: str) -> list[str]:
        """The columns of a kind, with the table's name if it has one."""
        return [f"{self.name}.{each}" if self.name else each for each in getattr(self, kind)]


T: Final = Named("t", longs=("k", "a"), doubles=("x",), texts=("b",))
U: Final = Named("u", longs=("k", "a"), texts=("c",))
V: Final = Named("v", longs=("k",), dates=("d",))


Scope = tuple[Named, ...]


def columns(scope: Scope, kind: str) -> list[str]:
    """All columns of a kind."""
    return [column for each in scope for column in each.all(kind)]


@st.composite
def numbers(draw: Draw, scope: Scope, depth: int = 2) -> str:
    """An expression that is an integer."""
    kinds = ["column", "column", "literal"]
    if depth:
        kinds += ["plus", "case", "coalesce", "nullif", "mod", "abs", "greatest", "length"]
        kinds += ["year"] if columns(scope, "dates") else []
        kinds += ["cast"]
    kind = draw(st.sampled_from(kinds))
    if kind == "column":
        return draw(st.sampled_from(columns(scope, "longs")))
    if kind == "literal":
        return str(draw(st.integers(-3, 9)))
    if kind == "length" and columns(scope, "texts"):
        return f"length({draw(texts(scope, depth - 1))})"
    if kind == "year" and columns(scope, "dates"):
        date = draw(st.sampled_from(columns(scope, "dates")))
        return f"{draw(st.sampled_from(['year', 'month', 'day', 'quarter']))}({date})"
    one, other = draw(numbers(scope, depth - 1)), draw(numbers(scope, depth - 1))
    if kind == "plus":
        return f"({one} {draw(st.sampled_from(['+', '-', '*']))} {other})"
    if kind == "mod":
        return f"({one} % {draw(st.sampled_from([2, 3, 7]))})"
    if kind == "abs":
        return f"abs({one})"
    if kind == "cast":
        return (
            f"cast(cast({one} as {draw(st.sampled_from(['string', 'double', 'decimal(20, 2)']))}) as bigint)"
        )
    if kind in ("coalesce", "nullif", "greatest"):
        word = draw(st.sampled_from(["greatest", "least"])) if kind == "greatest" else kind
        return f"{word}({one}, {other})"
    return f"case when {draw(conditions(scope, depth - 1))} then {one} else {other} end"


@st.composite
def doubles(draw: Draw, scope: Scope) -> str:
    """An expression that is a double which every engine works out alike: fractions of powers of two."""
    one = draw(st.sampled_from([*columns(scope, "doubles"), "0.5e0"]))
    other = draw(numbers(scope, 1))
    return draw(
        st.sampled_from([one, f"({one} * 2e0)", f"({other} / 4)", f"({one} - {other})", f"round({one}, 1)"])
    )


@st.composite
def texts(draw: Draw, scope: Scope, depth: int = 2) -> str:
    """An expression that is a text."""
    kind = draw(st.sampled_from(["column", "column", *(["made", "made"] if depth else [])]))
    if kind == "column" or not depth:
        return draw(st.sampled_from(columns(scope, "texts") or ["'x'"]))
    inner = draw(texts(scope, depth - 1))
    made = [
        f"upper({inner})", f"lower({inner})", f"({inner} || 'q')", f"coalesce({inner}, 'none')",
        f"substring({inner}, 1, 1)", f"substring({inner}, 2)", f"trim({inner})", f"replace({inner}, 'a', 'o')",
        f"concat_ws('-', {inner}, 'z')", f"left({inner}, 2)", f"lpad({inner}, 3, '*')",
        f"case when {draw(conditions(scope, depth - 1))} then {inner} end",
        f"cast({draw(numbers(scope, 0))} as string)", f"nullif({inner}, 'a')",
    ]  # fmt: skip
    return draw(st.sampled_from(made))


@st.composite
def conditions(draw: Draw, scope: Scope, depth: int = 2) -> str:
    """A condition over the columns of some tables."""
    kinds = ["compare", "compare", "null", "text", "in", "between", "distinct", "double"]
    kinds += ["date"] if columns(scope, "dates") else []
    kind = draw(st.sampled_from(kinds + (["and", "or", "or", "not", "common"] if depth else [])))
    if kind == "common":  # alternatives with a common part, of which one may imply the other
        one, other = draw(conditions(scope, depth - 1)), draw(conditions(scope, depth - 1))
        third = draw(st.sampled_from([one, f"{one} and {draw(conditions(scope, depth - 1))}"]))
        return draw(
            st.sampled_from([f"({third} or ({one} and {other}))", f"(({one} and {other}) or {third})"])
        )
    if kind in ("and", "or"):
        return f"({draw(conditions(scope, depth - 1))} {kind} {draw(conditions(scope, depth - 1))})"
    if kind == "not":
        return f"not ({draw(conditions(scope, depth - 1))})"
    negated = draw(st.sampled_from(["", "not "]))
    if kind == "null":
        some = columns(scope, "longs") + columns(scope, "texts")
        return f"{draw(st.sampled_from(some))} is {negated}null"
    if kind == "text":
        text = draw(texts(scope, min(depth, 1)))
        return draw(
            st.sampled_from(
                [
                    f"{text} {draw(st.sampled_from(['=', '<>', '<', '>=']))} {draw(st.sampled_from(['a', 'x', '']))!r}",
                    f"{text} {negated}like {draw(st.sampled_from(['a%', '%b', '_', '%%c']))!r}",
                    f"{text} {negated}in ('a', 'x', 'ab')",
                ]
            )
        )
    if kind == "date":
        date = draw(st.sampled_from(columns(scope, "dates")))
        return f"{date} {draw(st.sampled_from(['<', '>=']))} date '2024-03-{draw(st.integers(2, 30)):02d}'"
    if kind == "double":
        return f"{draw(doubles(scope))} {draw(st.sampled_from(['<', '>=', '=']))} {draw(st.integers(-2, 3))}"
    value = draw(numbers(scope, min(depth, 1)))
    if kind == "in":
        return f"{value} {negated}in (1, 3{draw(st.sampled_from(['', ', null']))})"
    if kind == "between":
        return f"{value} {negated}between 0 and 3"
    other = draw(numbers(scope, min(depth, 1)))
    if kind == "distinct":
        return f"{value} is {negated}distinct from {other}"
    return f"{value} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {other}"


@st.composite
def related(draw: Draw, outer: Named = T, *, by_equalities: bool = False) -> str:
    """How rows of u belong to a row of another table: an equality, one of both nulls, or one in every branch."""
    key = draw(st.sampled_from([f"u.k = {outer.name}.k", f"u.k is not distinct from {outer.name}.k"]))
    one, other = (
        draw(conditions((U,), 0)),
        draw(conditions(draw(st.sampled_from([(U,)] if by_equalities else [(U,), (outer,)])), 0)),
    )
    return draw(
        st.sampled_from(
            ["", f" and {key}", f" and {key}", f" and (({key} and {one}) or ({key} and {other}))"]
        )
    )


@st.composite
def subqueries(draw: Draw, outer: Named = T) -> str:
    """A condition on a table that asks another one."""
    inner = draw(conditions((U,), 1))
    if draw(st.integers(0, 4)) == 0:  # a subquery in a subquery
        inner = f"{inner} and u.k in (select v.k from v where {draw(conditions((V,), 1))})"
    negated = draw(st.sampled_from(["", "not "]))
    kind = draw(st.sampled_from(["in", "in", "exists", "scalar", "or"]))
    correlation = draw(related(outer, by_equalities=kind == "in"))
    if kind == "in":
        value = draw(
            st.sampled_from([f"{outer.name}.a", f"{outer.name}.a", "2", f"coalesce({outer.name}.a, 1)"])
        )
        values = draw(st.sampled_from([f"u.a from u where {inner}{correlation}", "w.n from w", "w.k from w"]))
        return f"{value} {negated}in (select {values})"
    if kind == "exists":
        extra = draw(st.sampled_from(["", f" and u.a <> {outer.name}.a"])) if correlation else ""
        return f"{negated}exists (select * from u where {inner}{correlation}{extra})"
    if kind == "or":
        return f"({outer.name}.k in (select u.k from u where {inner}) or {draw(conditions((outer,), 0))})"
    return f"{outer.name}.a >= {draw(scalars(outer))}"


@st.composite
def scalars(draw: Draw, outer: Named = T) -> str:
    """A subquery that is one value."""
    inner = draw(conditions((U,), 1))
    aggregate = draw(
        st.sampled_from(["max(u.a)", "count(*)", "min(u.a) + 1", "sum(u.k)", "count(distinct u.a)"])
    )
    return f"(select {aggregate} from u where {inner}{draw(related(outer))})"
