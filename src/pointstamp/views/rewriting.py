"""Parts of SQL that are short for others, written out before anything is compiled.

``x > all (select ...)`` is a question about the greatest value, how many values there are and how many of
them are null; ``ntile``, ``percent_rank`` and ``cume_dist`` are arithmetic over ``row_number``, ``rank`` and
``count`` of the same window; a select without FROM is one over a row of the text.
"""

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from pointstamp.views.refusing import refused
from pointstamp.views.scope import ONE_ROW

_EXTREME: Final[dict[type[exp.Expr], tuple[str, ...]]] = {
    exp.GT: ("max",),
    exp.GTE: ("max",),
    exp.LT: ("min",),
    exp.LTE: ("min",),
    exp.EQ: ("min", "max"),
}
_OPPOSITE: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}
_NOT_PLAIN: Final = ("group", "having", "limit", "offset", "qualify", "laterals")


def rewritten(statement: exp.Expr) -> exp.Expr:
    """The same statement without these parts."""
    for node in list(statement.find_all(exp.Select)):
        if node.args.get("from_") is None:
            for star in node.expressions:
                if isinstance(star.unalias(), exp.Star):
                    raise refused(node, "'*' needs FROM", "Write the columns that are meant.")
            node.set("from_", exp.From(this=_one_row()))
    return statement.transform(_changed, copy=False)


def _one_row() -> exp.Values:
    alias = exp.TableAlias(this=exp.to_identifier(ONE_ROW, quoted=True))
    return exp.Values(expressions=[exp.Tuple(expressions=[exp.Literal.number(0)])], alias=alias)


def _changed(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Window) and isinstance(node.this, exp.Anonymous):
        make = _OVER.get(str(node.this.this).lower())
        return node if make is None else exp.Paren(this=make(node))
    if type(node) in _OPPOSITE and isinstance(node.expression, exp.All | exp.Any):
        return _quantified(node, node.this, type(node), node.expression)
    return node


# ALL, ANY and SOME.


def _quantified(node: exp.Expr, value: exp.Expr, kind: type[exp.Expr], asked: exp.Expr) -> exp.Expr:
    query = asked.this.unnest() if isinstance(asked.this, exp.Subquery) else asked.this
    if not isinstance(query, exp.Query):
        words = "ALL" if isinstance(asked, exp.All) else "ANY"
        raise refused(node, f"{words} takes a query in parentheses here", "Write IN for a list of values.")
    if isinstance(asked, exp.All):
        return _of_all(node, value, kind, query)
    if kind is exp.EQ:
        return _is_in(value, query)
    return exp.Not(this=exp.Paren(this=_of_all(node, value, _OPPOSITE[kind], query)))


def _of_all(node: exp.Expr, value: exp.Expr, kind: type[exp.Expr], query: exp.Query) -> exp.Expr:
    """Whether a comparison holds for all values: true if there are none, null if that is not known."""
    if kind is exp.NEQ:
        return exp.Not(this=_is_in(value, query))
    if isinstance(query, exp.Select) and len(query.expressions) != 1:
        raise refused(node, f"a value is compared with {len(query.expressions)} columns of the subquery")

    def asked(function: str, *, of_rows: bool = False) -> exp.Expr:
        return _aggregate_of(query, function, of_rows=of_rows)

    is_false = [
        exp.Not(this=exp.Paren(this=kind(this=value.copy(), expression=asked(each))))
        for each in _EXTREME[kind]
    ]
    failed = is_false[0] if len(is_false) == 1 else exp.Or(this=is_false[0], expression=is_false[1])
    zero = exp.Literal.number(0)
    is_empty = exp.EQ(this=asked("count", of_rows=True), expression=zero)
    has_null = exp.LT(this=asked("count"), expression=asked("count", of_rows=True))
    is_null = exp.Is(this=value.copy(), expression=exp.Null())
    return exp.Case(
        ifs=[
            exp.If(this=is_empty, true=exp.Boolean(this=True)),
            exp.If(this=failed, true=exp.Boolean(this=False)),
            exp.If(this=exp.Or(this=is_null, expression=has_null), true=exp.Null()),
        ],
        default=exp.Boolean(this=True),
    )


def _is_in(value: exp.Expr, query: exp.Query) -> exp.Expr:
    return exp.In(this=value.copy(), query=exp.Subquery(this=query.copy()))


def _aggregate_of(query: exp.Query, function: str, *, of_rows: bool) -> exp.Subquery:
    """A subquery that is one value: an aggregate of the values, or how many rows there are."""
    if isinstance(query, exp.Select) and not any(query.args.get(part) for part in _NOT_PLAIN):
        made = query.copy()
        made.set("distinct", None)
        value = made.expressions[0].unalias()
    else:
        alias = exp.TableAlias(this=exp.to_identifier("asked"), columns=[exp.to_identifier("value")])
        made = exp.Select().from_(exp.Subquery(this=query.copy(), alias=alias), copy=False)
        value = exp.column("value", table="asked")
    of = exp.Star() if of_rows else value.copy()
    made.set("expressions", [exp.alias_(exp.Anonymous(this=function, expressions=[of]), "value")])
    return exp.Subquery(this=made)


# Functions over windows.


def _over(node: exp.Window, function: str, *arguments: exp.Expr, is_whole: bool = False) -> exp.Expr:
    """Another function over the same window, or over its whole partition."""
    made: exp.Window = node.copy()
    made.set("this", exp.Anonymous(this=function, expressions=list(arguments)))
    if is_whole:
        made.set("order", None)
        made.set("spec", None)
    return made


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def _ntile(node: exp.Window) -> exp.Expr:
    """In which of n parts of nearly one size a row is: the first parts have one row more, if it must be."""
    said = node.this.expressions
    if len(said) != 1 or not isinstance(said[0], exp.Literal) or not said[0].name.isdigit():
        raise refused(node, "ntile takes a number that stands in the text", "Write ntile(4).")
    if not int(said[0].name):
        raise refused(node, "ntile takes a number of 1 or more")
    parts = said[0]
    place, rows = _over(node, "row_number"), _over(node, "count", exp.Star(), is_whole=True)
    small = exp.IntDiv(this=rows.copy(), expression=parts.copy())
    larger = exp.Mod(this=rows.copy(), expression=parts.copy())  # how many parts have one row more
    large = exp.Paren(this=exp.Add(this=small.copy(), expression=_number(1)))
    in_large = exp.Mul(this=exp.Paren(this=larger.copy()), expression=large.copy())
    before = exp.Paren(this=exp.Sub(this=place.copy(), expression=_number(1)))
    first = exp.Add(this=exp.IntDiv(this=before.copy(), expression=large.copy()), expression=_number(1))
    rest = exp.Paren(this=exp.Sub(this=before.copy(), expression=in_large.copy()))
    # Where no part has fewer rows than one, the divisor is not looked at; it must not be 0 all the same.
    least = exp.Anonymous(this="greatest", expressions=[small.copy(), _number(1)])
    second = exp.Add(
        this=exp.Add(this=exp.IntDiv(this=rest, expression=least), expression=exp.Paren(this=larger.copy())),
        expression=_number(1),
    )
    found = exp.Case(
        ifs=[exp.If(this=exp.LTE(this=place, expression=in_large), true=first)],
        default=second,
    )
    return exp.Cast(this=found, to=exp.DataType.build("int"))


def _percent_rank(node: exp.Window) -> exp.Expr:
    """The share of rows before a row, of all others: 0 for the first."""
    rows = _over(node, "count", exp.Star(), is_whole=True)
    rank = exp.Sub(this=_over(node, "rank"), expression=_number(1))
    others = exp.Anonymous(
        this="greatest", expressions=[exp.Sub(this=rows, expression=_number(1)), _number(1)]
    )
    return exp.Div(this=exp.Paren(this=rank), expression=others)


def _cume_dist(node: exp.Window) -> exp.Expr:
    """The share of rows up to a row, with those that are equal to it in the order."""
    return exp.Div(
        this=_over(node, "count", exp.Star()), expression=_over(node, "count", exp.Star(), is_whole=True)
    )


_OVER: Final[dict[str, Callable[[exp.Window], exp.Expr]]] = {
    "ntile": _ntile,
    "percent_rank": _percent_rank,
    "cume_dist": _cume_dist,
}
REWRITTEN_FUNCTIONS: Final = frozenset(_OVER)
"""Functions over windows that are written out as others."""
