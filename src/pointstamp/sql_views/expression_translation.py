"""Expressions of SQL as expressions of tables.

A ``Translator`` knows the names that are in scope, and what was computed before: for subqueries, aggregates
and window functions there are columns by then (``answers``, by node), and where rows are groups, an
expression that rows were grouped by is a column (``keys``, by what it means).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyarrow import types
from sqlglot import exp

from pointstamp.arrow.ddl import parse_ddl
from pointstamp.errors import FlowError
from pointstamp.expressions import functions as F  # noqa: N812 - as PySpark's users call it
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import Call, CastTo, Choice, Expression, Literal, Named, lit, when
from pointstamp.expressions.type_rules import DOUBLE, LONG, common_of_all, is_number, is_text, is_time
from pointstamp.sql_views import literals
from pointstamp.sql_views.now_conditions import is_now, refused_now
from pointstamp.sql_views.rejection import placed, refused
from pointstamp.sql_views.scope import Scope
from pointstamp.sql_views.sql_functions import called

BINARY: Final[dict[type[exp.Expr], Callable[[Any, Any], Expression]]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: a / b,
    exp.Mod: lambda a, b: a % b,
    exp.IntDiv: lambda a, b: F.whole_quotient(a, b),
    exp.And: lambda a, b: a & b,
    exp.Or: lambda a, b: a | b,
    exp.DPipe: lambda a, b: F.concat(a, b),
}
COMPARING: Final[dict[type[exp.Expr], Callable[[Any, Any], Expression]]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
    exp.NullSafeEQ: lambda a, b: a.eq_null_safe(b),
    exp.NullSafeNEQ: lambda a, b: ~a.eq_null_safe(b),
}


@dataclass(frozen=True, slots=True)
class Translator:
    """Translates nodes in a scope."""

    scope: Scope
    parameters: Mapping[str, object] = field(default_factory=dict)
    answers: Mapping[int, Expression] = field(default_factory=dict)
    keys: Mapping[str, Expression] | None = None
    """The grouping columns by canonical text, if rows are groups."""
    rows: "Translator | None" = None
    """The translator for the grouped rows, if rows are groups."""

    def knowing(self, answers: Mapping[int, Expression]) -> "Translator":
        """The same, with more nodes that are columns by now."""
        return replace(self, answers={**self.answers, **answers})

    def knows(self, node: exp.Expr) -> bool:
        """Return whether there is a column for a node already."""
        return self._known(node) is not None

    def type_of(self, expression: Expression) -> pa.DataType:
        """The type that an expression has in this scope."""
        if isinstance(expression, Literal) and expression.value is None:
            return pa.null()
        return compile_expression(expression, self.scope.schema, "a query").type

    def __call__(self, node: exp.Expr) -> Expression:
        """The expression that a node means; SqlError says what is refused, and where."""
        if (known := self._known(node)) is not None:
            return known
        kind = type(node)
        if kind in BINARY:
            return self._binary(node)
        if kind in COMPARING:
            return COMPARING[kind](*self._met([node.this, node.expression]))
        if kind in _OTHERS:
            with placed(node):
                return _OTHERS[kind](self, node)
        raise refused(node, f"{_words(node)} is not supported here")

    def _known(self, node: exp.Expr) -> Expression | None:
        if (answer := self.answers.get(id(node))) is not None:
            return answer
        if self.keys is None or self.rows is None or isinstance(node, exp.Literal | exp.Boolean | exp.Null):
            return None
        try:
            return self.keys.get(canonical(self.rows(node)))
        except FlowError:
            return None

    def _binary(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Add | exp.Sub) and (moved := self._moved(node)) is not None:
            return moved
        one, other = self(node.this), self(node.expression)
        if not isinstance(node, exp.And | exp.Or | exp.DPipe):
            one, other = self._beside(node.this, one, other), self._beside(node.expression, other, one)
            one, other = self._without_text(one, other)
        return BINARY[type(node)](one, other)

    def _without_text(self, one: Expression, other: Expression) -> tuple[Expression, Expression]:
        """Values that are reckoned with: a text is read as a number, as Spark reads it."""
        kinds = self.type_of(one), self.type_of(other)
        if not any(map(is_text, kinds)) or any(is_time(kind) or types.is_duration(kind) for kind in kinds):
            return one, other
        known = next((kind for kind in kinds if not is_text(kind)), DOUBLE)
        as_number = LONG if types.is_integer(known) else DOUBLE
        made = [
            each.cast(as_number) if is_text(kind) else each
            for each, kind in zip((one, other), kinds, strict=True)
        ]
        return made[0], made[1]

    def _beside(self, node: exp.Expr, value: Expression, other: Expression) -> Expression:
        """A value with which another one is reckoned."""
        made = literals.as_decimal(node)
        return value if made is None or not types.is_decimal(self.type_of(other)) else made

    def _moved(self, node: exp.Expr) -> Expression | None:
        """A time that is moved by an interval, if the node is one."""
        time, interval = node.this, node.expression
        if isinstance(time, exp.Interval) and isinstance(node, exp.Add):
            time, interval = interval, time
        if not isinstance(interval, exp.Interval):
            return None
        sign = -1 if isinstance(node, exp.Sub) else 1
        moved = self(time)
        months = literals.interval_months(interval)
        if months is not None:
            if isinstance(moved, Literal) and isinstance(moved.value, pa.Scalar):
                found = moved.value.as_py()
                if isinstance(found, date):
                    return Literal(
                        pa.scalar(literals.moved_by_months(found, sign * months), moved.value.type)
                    )
            return F.move_months(moved, sign * months)
        length = sign * literals.interval_length(interval)
        if types.is_date(self.type_of(moved)) and not length.seconds and not length.microseconds:
            return F.date_add(moved, length.days)
        return moved + lit(length)

    def _met(self, nodes: list[exp.Expr]) -> list[Expression]:
        """Values that are compared: a text is read as what it is compared with, as Spark reads it."""
        made = [self(node) for node in nodes]
        kinds = []
        for node, each in zip(nodes, made, strict=True):
            with placed(node):
                kinds.append(self.type_of(each))
        others = [kind for kind in kinds if not is_text(kind) and not types.is_null(kind)]
        if not others or not any(map(is_text, kinds)) or any(map(types.is_nested, others)):
            return made
        with placed(nodes[0]):
            kind = common_of_all(others, "a comparison")
        read_as = LONG if types.is_integer(kind) else DOUBLE if is_number(kind) else kind
        return [self._read_as(node, each, read_as) if is_text(found) else each
                for node, each, found in zip(nodes, made, kinds, strict=True)]  # fmt: skip

    def _read_as(self, node: exp.Expr, value: Expression, kind: pa.DataType) -> Expression:
        if isinstance(node, exp.Literal):
            return literals.text_as(node, str(node.this), kind)
        return value.cast(kind)

    # Nodes of other kinds.

    def column(self, node: exp.Column) -> Expression:
        """A column by its name."""
        if isinstance(node.this, exp.Star):
            raise refused(node, "'*' is allowed only in a select list or in count(*)")
        if self.keys is not None and not self.scope.has(node):
            said = ".".join(part.name for part in node.parts)
            raise refused(
                node, f"'{said}' is neither in GROUP BY nor in an aggregate", "Add it to one of them."
            )
        return self.scope.find(node)

    def between(self, node: exp.Between) -> Expression:
        """Between two values, both included."""
        value, low, high = self._met([node.this, node.args["low"], node.args["high"]])
        return (value >= low) & (value <= high)

    def is_in(self, node: exp.In) -> Expression:
        """In a list of values."""
        value, *others = self._met([node.this, *node.expressions])
        return value.is_in(*others)

    def case(self, node: exp.Case) -> Expression:
        """CASE, with a value that is compared or without one."""
        made: Choice | None = None
        for branch in node.args["ifs"]:
            tested = (
                COMPARING[exp.EQ](*self._met([node.this, branch.this])) if node.this else self(branch.this)
            )
            value = self(branch.args["true"])
            made = when(tested, value) if made is None else made.when(tested, value)
        assert made is not None
        default = node.args.get("default")
        return made if default is None else made.otherwise(self(default))

    def negated(self, node: exp.Neg) -> Expression:
        """A minus: before digits it is a part of the number, as in Spark's grammar."""
        return literals.literal(node.this, -1) if literals.is_number(node.this) else -self(node.this)

    def if_(self, node: exp.If) -> Expression:
        """IF(condition, value, other value)."""
        if node.args.get("false") is None:
            raise refused(node, "if needs 3 arguments, got 2", "Write if(condition, value, null).")
        return when(self(node.this), self(node.args["true"])).otherwise(self(node.args["false"]))

    def cast(self, node: exp.Cast) -> Expression:
        """A value as another type."""
        to = data_type(node.args["to"])
        if (
            isinstance(node.this, exp.Literal)
            and node.this.is_string
            and (types.is_date(to) or types.is_timestamp(to))
            and not node.args.get("safe")
        ):
            return literals.text_as(node, str(node.this.this), to)
        inner = self(node.this)
        if is_text(to) and types.is_duration(self.type_of(inner)) and not self._is_between_times(node.this):
            raise refused(
                node,
                "the text of an interval depends on the units in which it was written, which are not stored",
                "Cast the difference of two timestamps, or compute a number.",
            )
        # What does not fit is an error in Spark since 4.0; the parser knows only the casts of before.
        return inner.try_cast(to) if node.args.get("safe") else inner.cast(to)

    def _is_between_times(self, node: exp.Expr) -> bool:
        """Return whether a node is the difference of two times of which one is a timestamp."""
        node = node.unnest()
        if not isinstance(node, exp.Sub):
            return False
        kinds = [self.type_of(self(each)) for each in (node.this, node.expression)]
        return all(map(is_time, kinds)) and any(map(types.is_timestamp, kinds))

    def is_(self, node: exp.Is) -> Expression:
        """IS NULL, IS TRUE, IS FALSE."""
        value, said = self(node.this), node.expression
        if isinstance(said, exp.Null):
            return value.is_null()
        if isinstance(said, exp.Boolean):
            return value.eq_null_safe(bool(said.this))
        raise refused(node, "IS needs NULL, TRUE or FALSE")

    def parameter(self, node: exp.Placeholder) -> Expression:
        """A parameter by its name."""
        if not node.this or node.this not in self.parameters:
            known = ", ".join(f":{each}" for each in self.parameters) or "none"
            raise refused(
                node,
                f"the parameter ':{node.this or '?'}' was not given; there are {known}",
                "Give parameters={'name': value}.",
            )
        return lit(self.parameters[node.this])


def data_type(node: exp.DataType) -> pa.DataType:
    """A type that stands in the text."""
    with placed(node):
        return parse_ddl(f"value {node.sql(dialect='spark')}").field(0).type


def _refuse_subquery(translator: Translator, node: exp.Expr) -> Expression:
    del translator
    raise refused(node, "a subquery is not allowed here", "Define it as a separate view, and join it.")


def _refuse_clock(translator: Translator, node: exp.Expr) -> Expression:
    del translator
    if is_now(node):
        raise refused_now(node)
    raise refused(
        node,
        f"{_words(node)} changes without a change of the input, so a view of it cannot be kept up to date",
        "Use a time column of the input.",
    )


def _dot(translator: Translator, node: exp.Dot) -> Expression:
    return translator(node.this).field(node.expression.name)


def _interval(translator: Translator, node: exp.Interval) -> Expression:
    del translator
    if literals.interval_months(node) is not None:
        raise refused(node, "an interval of months or years can only be added to a date or a timestamp")
    return lit(literals.interval_length(node))


def _words(node: exp.Expr) -> str:
    return f"'{node.sql(dialect='spark')[:60]}'"


# Functions whose arguments are separated by words: LIKE with ESCAPE, EXTRACT, SUBSTRING and TRIM.

Translate: TypeAlias = Callable[[exp.Expr], Expression]
"""The function that translates a node to an expression."""


def like(translate: Translate, node: exp.Like | exp.ILike | exp.RegexpLike) -> Expression:
    """LIKE, ILIKE and RLIKE with a pattern that stands in the text."""
    pattern, value = literals.constant_text(node.expression, "a pattern"), translate(node.this)
    if isinstance(node, exp.RegexpLike):
        return value.rlike(pattern)
    found = F.lower(value).like(pattern.lower()) if isinstance(node, exp.ILike) else value.like(pattern)
    return ~found if node.args.get("negate") else found


def escape(translate: Translate, node: exp.Escape) -> Expression:
    """LIKE with a character of its own that takes the meaning from the next one."""
    mark = literals.constant_text(node.expression, "the character of ESCAPE")
    inner = node.this
    if len(mark) != 1 or not isinstance(inner, exp.Like | exp.ILike):
        raise refused(node, "ESCAPE needs one character, after LIKE or ILIKE")
    pattern = literals.constant_text(inner.expression, "a pattern")
    made = inner.copy()
    made.set("expression", exp.Literal.string(literals.unescaped(node, pattern, mark)))
    return like(translate, made)


def extract(translate: Translate, node: exp.Extract) -> Expression:
    """EXTRACT(unit FROM time)."""
    unit = node.this.name.lower()
    made = {
        "year": F.year,
        "quarter": F.quarter,
        "month": F.month,
        "day": F.day,
        "hour": F.hour,
        "minute": F.minute,
        "second": F.second_with_fraction,
        "week": F.week_of_year,
        "doy": F.day_of_year,
        "dayofweek": F.day_of_week,
    }.get(unit)
    if made is None:
        raise refused(node, f"EXTRACT({unit.upper()} ...) is not supported")
    return made(translate(node.expression))


def substring(translate: Translate, node: exp.Substring) -> Expression:
    """SUBSTRING(text FROM start FOR length)."""
    start = literals.constant_int(node.args["start"], "the position of SUBSTRING")
    length = node.args.get("length")
    return F.substring(
        translate(node.this),
        start,
        None if length is None else literals.constant_int(length, "the length of SUBSTRING"),
    )


def trim(translate: Translate, node: exp.Trim) -> Expression:
    """TRIM(BOTH characters FROM text)."""
    made = {"LEADING": F.ltrim, "TRAILING": F.rtrim}.get(node.text("position").upper(), F.trim)
    said = node.args.get("expression")
    return made(
        translate(node.this), " " if said is None else literals.constant_text(said, "what is trimmed")
    )


def position(translate: Translate, node: exp.StrPosition) -> Expression:
    """POSITION(part IN text)."""
    part = literals.constant_text(node.args["substr"], "the text that POSITION looks for")
    start = node.args.get("position")
    return F.instr(
        translate(node.this),
        part,
        1 if start is None else literals.constant_int(start, "where POSITION begins"),
    )


def at_time_zone(translate: Translate, node: exp.AtTimeZone) -> Expression:
    """A timestamp AT TIME ZONE zone."""
    return F.at_time_zone(translate(node.this), literals.constant_text(node.args["zone"], "a time zone"))


_OTHERS: Final[dict[type[exp.Expr], Callable[[Translator, Any], Expression]]] = {
    exp.Column: Translator.column,
    exp.Literal: lambda translator, node: literals.literal(node),
    exp.Boolean: lambda translator, node: lit(bool(node.this)),
    exp.Null: lambda translator, node: lit(None),
    exp.Paren: lambda translator, node: translator(node.this),
    exp.Alias: lambda translator, node: translator(node.this),
    exp.Not: lambda translator, node: ~translator(node.this),
    exp.Neg: Translator.negated,
    exp.Between: Translator.between,
    exp.In: lambda translator, node: (
        translator.is_in(node) if node.args.get("query") is None else _refuse_subquery(translator, node)
    ),
    exp.Case: Translator.case,
    exp.If: Translator.if_,
    exp.Cast: Translator.cast,
    exp.TryCast: Translator.cast,
    exp.Is: Translator.is_,
    exp.Like: like,
    exp.ILike: like,
    exp.RegexpLike: like,
    exp.Escape: escape,
    exp.Placeholder: Translator.parameter,
    exp.Extract: extract,
    exp.Substring: substring,
    exp.StrPosition: position,
    exp.AtTimeZone: at_time_zone,
    exp.Trim: trim,
    exp.Interval: _interval,
    exp.Anonymous: lambda translator, node: called(node, translator),
    exp.Dot: _dot,
    exp.Subquery: _refuse_subquery,
    exp.Exists: _refuse_subquery,
    exp.CurrentDate: _refuse_clock,
    exp.CurrentTimestamp: _refuse_clock,
    exp.CurrentUser: _refuse_clock,
}


# Which expressions have one meaning: ``a + b`` and ``b + a`` are one value to group by, as in Spark.

_REORDERED: Final = ("add", "multiply", "and", "or")
"""Functions whose arguments may come in any order, also those of the same function inside of them."""
_SYMMETRIC: Final = ("equal", "not_equal", "equal_null_safe")
_TURNED: Final = {"greater": "less", "greater_equal": "less_equal"}
_NEGATED: Final = {
    "less": "greater_equal",
    "less_equal": "greater",
    "greater": "less_equal",
    "greater_equal": "less",
}


def canonical(expression: Expression) -> str:
    """A text that expressions with one meaning share.

    >>> from pointstamp.expressions.tree import col
    >>> canonical(col("a") + col("b")) == canonical(col("b") + col("a"))
    True
    >>> canonical(~(col("a") < col("b"))) == canonical(col("b") <= col("a"))
    True
    >>> canonical(col("a") - col("b")) == canonical(col("b") - col("a"))
    False
    """
    match expression:
        case Call("not", (Call(function, arguments),)) if function in _NEGATED:
            return canonical(Call(_NEGATED[function], arguments))
        case Call(function, arguments) if function in _TURNED:
            return canonical(Call(_TURNED[function], arguments[::-1]))
        case Call(function, arguments, options):
            words = _operands(function, arguments)
            if function in _REORDERED or function in _SYMMETRIC:
                words.sort()
            elif function == "is_in":
                words[1:] = sorted(words[1:])
            return f"{function}({', '.join(words)}; {sorted((options or {}).items(), key=repr)})"
        case CastTo(inner, to, is_tried):
            return f"{'try_' if is_tried else ''}cast({canonical(inner)} as {to})"
        case Named(inner):
            return canonical(inner)
        case Choice(branches, default):
            chosen = [f"when {canonical(one)} then {canonical(two)}" for one, two in branches]
            return f"case {' '.join(chosen)} else {'' if default is None else canonical(default)} end"
        case _:
            return str(expression)


def _operands(function: str, arguments: tuple[Expression, ...]) -> list[str]:
    """The operands of a function; of one that may come in any order, through all of its own calls."""
    if function not in _REORDERED:
        return [canonical(each) for each in arguments]
    found, waiting = [], list(arguments)
    while waiting:
        each = waiting.pop()
        if isinstance(each, Call) and each.function == function:
            waiting.extend(each.arguments)
        else:
            found.append(canonical(each))
    return found
