"""Parts of SQL that are short for others, written out before anything is compiled.

``x > all (select ...)`` is a question about the greatest value, how many values there are and how many of
them are null; ``ntile``, ``percent_rank`` and ``cume_dist`` are arithmetic over ``row_number``, ``rank`` and
``count`` of the same window; a window that has a name is what the name stands for; a select without FROM is
one over a row of the text; a parameter that is a text or an integer is a literal, wherever one may stand.

Chains of AND, OR, ``||`` and UNION become trees of least height, so that a thousand alternatives are not
nested deeply. A statement that is nested more deeply than ``DEPTH_MAX`` is refused, because expressions are
computed by functions that call each other, on every worker.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from pointstamp.sql_views.parsing import TOO_DEEP
from pointstamp.sql_views.rejection import refused
from pointstamp.sql_views.scope import ONE_ROW

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
_WINDOW_PARTS: Final = ("partition_by", "order", "spec")
_OF_ENDS: Final = ("first_value", "last_value", "first", "last")
_CHAINED: Final = (exp.And, exp.Or, exp.DPipe)
_UNION_PARTS: Final = ("this", "expression", "distinct")
_NOT_PLAIN: Final = ("group", "having", "limit", "offset", "qualify", "laterals")


DEPTH_MAX: Final = 100
"""The maximum depth of nested nodes of a statement."""


def rewritten(statement: exp.Expr, parameters: Mapping[str, object]) -> exp.Expr:
    """The same statement without these parts."""
    statement = _with_low_chains(_with_parameters(statement, parameters))
    _check_depth(statement)
    for select in list(statement.find_all(exp.Select)):
        _resolve_windows(select)
    for select in list(statement.find_all(exp.Select)):
        if select.args.get("from_") is None:
            for star in select.expressions:
                if isinstance(star.unalias(), exp.Star):
                    raise refused(select, "'*' needs FROM", "Name the columns.")
            select.set("from_", exp.From(this=_one_row()))
    # What stands deeper comes first, because what stands around it is written out with copies of it.
    for node in reversed(list(statement.find_all(exp.Window, *_OPPOSITE))):
        if isinstance(node, exp.Window) and isinstance(node.this, exp.Anonymous):
            make = _OVER.get(str(node.this.this).lower())
            if make is not None:
                node.replace(exp.Paren(this=make(node)))
            elif _has_other_default(node):
                node.replace(exp.Paren(this=_with_default(node)))
        elif isinstance(node, exp.Window) and _has_other_default(node):
            node.replace(exp.Paren(this=_with_default(node)))
        elif isinstance(node.args.get("expression"), exp.All | exp.Any):
            node.replace(exp.Paren(this=_quantified(node, node.this, type(node), node.expression)))
    return statement


def _with_parameters(statement: exp.Expr, parameters: Mapping[str, object]) -> exp.Expr:
    """A statement in which parameters that are texts or integers are literals, as in Spark."""
    for node in list(statement.find_all(exp.Placeholder)):
        value = parameters.get(str(node.this))
        made: exp.Expr
        if isinstance(value, str):
            made = exp.Literal.string(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            made = exp.Literal.number(abs(value))
        else:
            continue
        made.meta.update(node.meta)
        node.replace(exp.Paren(this=exp.Neg(this=made)) if isinstance(value, int) and value < 0 else made)
    return statement


def _with_low_chains(statement: exp.Expr) -> exp.Expr:
    """A statement in which the operands of a chain of AND, OR, ``||`` or UNION are a tree of least height."""
    for node in list(statement.find_all(*_CHAINED, exp.Union)):
        if node.parent is not None and _is_chained(node, node.parent):
            continue
        operands: list[exp.Expr] = []
        waiting: list[exp.Expr] = [node.expression, node.this]
        while waiting:
            each = waiting.pop()
            if _is_chained(each, node):
                waiting += [each.expression, each.this]
            else:
                operands.append(each)
        if len(operands) > 2:
            half = (len(operands) + 1) // 2
            node.set("this", _tree(node, operands[:half]))
            node.set("expression", _tree(node, operands[half:]))
    return statement


def _is_chained(node: exp.Expr, chain: exp.Expr) -> bool:
    """Return whether the operands of a node are operands of the chain in which it stands."""
    if type(node) is not type(chain):
        return False
    if not isinstance(node, exp.Union):
        return isinstance(node, _CHAINED)
    has_more = any(found for part, found in node.args.items() if part not in _UNION_PARTS)
    return not has_more and node.args.get("distinct") == chain.args.get("distinct")


def _tree(chain: exp.Expr, operands: Sequence[exp.Expr]) -> exp.Expr:
    if len(operands) == 1:
        return operands[0]
    half = (len(operands) + 1) // 2
    parts: dict[str, exp.Expr | bool | None] = {
        "this": _tree(chain, operands[:half]),
        "expression": _tree(chain, operands[half:]),
    }
    if isinstance(chain, exp.Union):
        parts["distinct"] = chain.args.get("distinct")
    return type(chain)(**parts)


def _check_depth(statement: exp.Expr) -> None:
    waiting = [(statement, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > DEPTH_MAX:
            raise refused(node, f"the query is nested more than {DEPTH_MAX} levels deep", TOO_DEEP)
        waiting += [(each, depth + 1) for each in node.iter_expressions()]


def _one_row() -> exp.Values:
    alias = exp.TableAlias(this=exp.to_identifier(ONE_ROW, quoted=True))
    return exp.Values(expressions=[exp.Tuple(expressions=[exp.Literal.number(0)])], alias=alias)


# ALL, ANY and SOME.


def _quantified(node: exp.Expr, value: exp.Expr, kind: type[exp.Expr], asked: exp.Expr) -> exp.Expr:
    query = asked.this.unnest() if isinstance(asked.this, exp.Subquery) else asked.this
    if not isinstance(query, exp.Query):
        words = "ALL" if isinstance(asked, exp.All) else "ANY"
        raise refused(node, f"{words} needs a subquery in parentheses here", "Write IN for a list of values.")
    if isinstance(asked, exp.All):
        return _of_all(node, value, kind, query)
    if kind is exp.EQ:
        return _is_in(value, query)
    return exp.Not(this=exp.Paren(this=_of_all(node, value, _OPPOSITE[kind], query)))


def _of_all(node: exp.Expr, value: exp.Expr, kind: type[exp.Expr], query: exp.Query) -> exp.Expr:
    """Return whether a comparison holds for all values: true if there are none, null if that is not known."""
    if kind is exp.NEQ:
        return exp.Not(this=_is_in(value, query))
    if isinstance(query, exp.Select) and len(query.expressions) != 1:
        raise refused(node, f"one value is compared with {len(query.expressions)} columns of the subquery")

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


def _resolve_windows(select: exp.Select) -> None:
    """Put in place of each name of a window what it stands for; a window may be named after another one."""
    declared = {each.name.lower(): each for each in select.args.get("windows") or []}
    for node in list(select.find_all(exp.Window)):
        if not isinstance(node.this, exp.Identifier) and node.find_ancestor(exp.Select) is select:
            _normalize_nulls(node)
            if node.args.get("alias") is not None:
                _take_over(node, _declared(node, declared))


def _take_over(node: exp.Window, declared: exp.Window) -> None:
    for part in _WINDOW_PARTS:
        found = declared.args.get(part)
        copied = [each.copy() for each in found] if isinstance(found, list) else found and found.copy()
        node.set(part, copied)
    node.set("alias", None)


def _declared(node: exp.Window, declared: Mapping[str, exp.Window]) -> exp.Window:
    """The window for which a name stands, through names that are names of others."""
    seen: list[str] = []
    while (alias := node.args.get("alias")) is not None:
        if any(node.args.get(part) for part in _WINDOW_PARTS):
            raise refused(
                node,
                f"the window '{alias.name}' cannot be extended here",
                "Declare another one: WINDOW w AS (...).",
            )
        name = alias.name.lower()
        if name not in declared:
            raise refused(node, f"there is no window '{alias.name}'", "Declare it: WINDOW w AS (...).")
        if name in seen:
            raise refused(node, f"the window '{alias.name}' refers to itself")
        seen.append(name)
        node = declared[name]
    return node


def _normalize_nulls(node: exp.Window) -> None:
    """Write ``first_value(x, true)`` as IGNORE NULLS, and leave RESPECT NULLS out, which is the default."""
    call = node.this
    if isinstance(call, exp.RespectNulls):
        node.set("this", call.this)
    elif (
        isinstance(call, exp.Anonymous) and str(call.this).lower() in _OF_ENDS and len(call.expressions) == 2
    ):
        value, ignores = call.expressions
        if not isinstance(ignores, exp.Boolean):
            raise refused(call, f"the second argument of {call.this} must be the literal true or false")
        made = exp.Anonymous(this=call.this, expressions=[value.copy()])
        node.set("this", exp.IgnoreNulls(this=made) if ignores.this else made)


def _has_other_default(node: exp.Window) -> bool:
    """Return whether a function is lag or lead with a default that is not the same for every row."""
    call = node.this.this if isinstance(node.this, exp.IgnoreNulls) else node.this
    is_neighbour = isinstance(call, exp.Anonymous) and str(call.this).lower() in ("lag", "lead")
    return is_neighbour and len(call.expressions) == 3 and call.expressions[2].find(exp.Column) is not None


def _with_default(node: exp.Window) -> exp.Expr:
    """The value of another row, or the default where there is no such row; a null that is there stays."""
    ignores = isinstance(node.this, exp.IgnoreNulls)
    call = node.this.this if ignores else node.this
    value, offset, default = call.expressions

    def over(argument: exp.Expr) -> exp.Window:
        made: exp.Window = node.copy()
        neighbour = exp.Anonymous(this=call.this, expressions=[argument.copy(), offset.copy()])
        made.set("this", exp.IgnoreNulls(this=neighbour) if ignores else neighbour)
        return made

    is_there = over(value if ignores else exp.Boolean(this=True))
    none = exp.Is(this=is_there, expression=exp.Null())
    return exp.Case(ifs=[exp.If(this=none, true=default.copy())], default=over(value))


def _over(node: exp.Window, function: str, *arguments: exp.Expr, is_whole: bool = False) -> exp.Expr:
    """Another function over the same window, or over its complete partition."""
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
        raise refused(node, "ntile needs a literal number", "Write ntile(4).")
    if not int(said[0].name):
        raise refused(node, "ntile needs a number of 1 or more")
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
