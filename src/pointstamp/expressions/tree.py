"""The tree of an expression, as users write it: ``ps.col("price") * 0.9 > ps.lit(10)``.

A tree is plain data. It knows no schema, so that one expression can be used on several tables; what it
means for certain columns is computed by ``pointstamp.expressions.compiler``. Operators build trees and
compare nothing: a tree in an ``if`` is refused, because ``and``, ``or`` and ``not`` cannot be overloaded in
Python.

Null has SQL's meaning: what is made of null is null, ``&`` and ``|`` know three values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import pyarrow as pa

from pointstamp.errors import FlowError

Value: TypeAlias = Any
"""An operand of an expression: an expression, or a Python value that becomes a literal."""

_ELSEWHERE = {
    "isNull": "is_null",
    "isNotNull": "is_not_null",
    "isin": "is_in",
    "startswith": "starts_with",
    "endswith": "ends_with",
    "name": "alias",
    "str": "the functions of ps.functions, for example ps.functions.upper(...)",
    "dt": "the functions of ps.functions, for example ps.functions.year(...)",
    "fill_null": "ps.functions.coalesce",
    "getField": "field",
    "astype": "cast",
}


class Expression:
    """An expression over the columns of a row; made by ``ps.col``, ``ps.lit``, ``ps.when`` and operators.

    Examples:
        >>> flow = ps.Dataflow("prices")
        >>> prices = flow.table("prices", "net long")
        >>> flow.output("out", prices.select(gross=ps.col("net") * 2 + 1))
        >>> flow.run(prices=[[{"net": 5}]]).table("out").to_pylist()
        [{'gross': 11}]

    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # equality builds an expression

    # Arithmetic.

    def __add__(self, other: Value) -> "Expression":
        return Call("add", (self, lit(other)))

    def __radd__(self, other: Value) -> "Expression":
        return Call("add", (lit(other), self))

    def __sub__(self, other: Value) -> "Expression":
        return Call("subtract", (self, lit(other)))

    def __rsub__(self, other: Value) -> "Expression":
        return Call("subtract", (lit(other), self))

    def __mul__(self, other: Value) -> "Expression":
        return Call("multiply", (self, lit(other)))

    def __rmul__(self, other: Value) -> "Expression":
        return Call("multiply", (lit(other), self))

    def __truediv__(self, other: Value) -> "Expression":
        return Call("divide", (self, lit(other)))

    def __rtruediv__(self, other: Value) -> "Expression":
        return Call("divide", (lit(other), self))

    def __mod__(self, other: Value) -> "Expression":
        return Call("mod", (self, lit(other)))

    def __rmod__(self, other: Value) -> "Expression":
        return Call("mod", (lit(other), self))

    def __neg__(self) -> "Expression":
        return Call("negate", (self,))

    # Comparison.

    def __eq__(self, other: Value) -> "Expression":  # type: ignore[override]
        return Call("equal", (self, lit(other)))

    def __ne__(self, other: Value) -> "Expression":  # type: ignore[override]
        return Call("not_equal", (self, lit(other)))

    def __lt__(self, other: Value) -> "Expression":
        return Call("less", (self, lit(other)))

    def __le__(self, other: Value) -> "Expression":
        return Call("less_equal", (self, lit(other)))

    def __gt__(self, other: Value) -> "Expression":
        return Call("greater", (self, lit(other)))

    def __ge__(self, other: Value) -> "Expression":
        return Call("greater_equal", (self, lit(other)))

    def eq_null_safe(self, other: Value) -> "Expression":
        """Return whether both are equal or both are null; never null itself.

        Examples:
            >>> flow = ps.Dataflow("eq_null_safe")
            >>> flow.output("out", flow.table("t", "x long").select(y=ps.col("x").eq_null_safe(None)))
            >>> flow.run(t=[[{"x": None}]]).table("out").to_pylist()
            [{'y': True}]

        """
        return Call("equal_null_safe", (self, lit(other)))

    def between(self, lower: Value, upper: Value) -> "Expression":
        """Return whether the value is between two values, both included.

        Examples:
            >>> flow = ps.Dataflow("between")
            >>> flow.output("out", flow.table("t", "x long").select(y=ps.col("x").between(1, 3)))
            >>> flow.run(t=[[{"x": 3}]]).table("out").to_pylist()
            [{'y': True}]

        """
        return Call("and", (self >= lower, self <= upper))

    def is_in(self, *values: Value) -> "Expression":
        """Return whether the value is one of these values.

        Args:
            *values: The values, or one list of them.

        Examples:
            >>> flow = ps.Dataflow("is_in")
            >>> flow.output("out", flow.table("t", "x string").select(y=ps.col("x").is_in("Rome", "Oslo")))
            >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
            [{'y': True}]

        """
        if len(values) == 1 and isinstance(values[0], list | tuple | set | frozenset):
            values = tuple(values[0])
        return Call("is_in", (self, *map(lit, values)))

    def is_null(self) -> "Expression":
        """Return whether the value is null.

        Examples:
            >>> flow = ps.Dataflow("is_null")
            >>> flow.output("out", flow.table("t", "x long").select(y=ps.col("x").is_null()))
            >>> flow.run(t=[[{"x": None}]]).table("out").to_pylist()
            [{'y': True}]

        """
        return Call("is_null", (self,))

    def is_not_null(self) -> "Expression":
        """Return whether the value is not null.

        Examples:
            >>> flow = ps.Dataflow("is_not_null")
            >>> flow.output("out", flow.table("t", "x long").select(y=ps.col("x").is_not_null()))
            >>> flow.run(t=[[{"x": None}]]).table("out").to_pylist()
            [{'y': False}]

        """
        return ~Call("is_null", (self,))

    # Three-valued logic.

    def __and__(self, other: Value) -> "Expression":
        return Call("and", (self, lit(other)))

    def __rand__(self, other: Value) -> "Expression":
        return Call("and", (lit(other), self))

    def __or__(self, other: Value) -> "Expression":
        return Call("or", (self, lit(other)))

    def __ror__(self, other: Value) -> "Expression":
        return Call("or", (lit(other), self))

    def __invert__(self) -> "Expression":
        return Call("not", (self,))

    # Text.

    def like(self, pattern: str) -> "Expression":
        """Return whether the text matches a pattern of SQL's LIKE: ``%`` is any text, ``_`` one character.

        Examples:
            >>> flow = ps.Dataflow("like")
            >>> flow.output("out", flow.table("t", "x string").select(y=ps.col("x").like("R%")))
            >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
            [{'y': True}]

        """
        return Call("like", (self,), {"pattern": pattern})

    def rlike(self, pattern: str) -> "Expression":
        """Return whether a regular expression matches a part of the text.

        Examples:
            >>> flow = ps.Dataflow("rlike")
            >>> flow.output("out", flow.table("t", "x string").select(y=ps.col("x").rlike("o.e")))
            >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
            [{'y': True}]

        """
        return Call("rlike", (self,), {"pattern": pattern})

    def starts_with(self, text: str) -> "Expression":
        """Return whether the text begins with another text.

        Examples:
            >>> flow = ps.Dataflow("starts_with")
            >>> flow.output("out", flow.table("t", "x string").select(y=ps.col("x").starts_with("Ro")))
            >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
            [{'y': True}]

        """
        return Call("starts_with", (self,), {"pattern": text})

    def ends_with(self, text: str) -> "Expression":
        """Return whether the text ends with another text.

        Examples:
            >>> flow = ps.Dataflow("ends_with")
            >>> flow.output("out", flow.table("t", "x string").select(y=ps.col("x").ends_with("Ro")))
            >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
            [{'y': False}]

        """
        return Call("ends_with", (self,), {"pattern": text})

    def contains(self, text: str) -> "Expression":
        """Return whether the text contains another text.

        Examples:
            >>> flow = ps.Dataflow("contains")
            >>> flow.output("out", flow.table("t", "x string").select(y=ps.col("x").contains("om")))
            >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
            [{'y': True}]

        """
        return Call("contains", (self,), {"pattern": text})

    def substr(self, start: int, length: int) -> "Expression":
        """Return a part of the text.

        Args:
            start: The position of the first character, from 1.
            length: The number of characters.

        Examples:
            >>> flow = ps.Dataflow("substr")
            >>> flow.output("out", flow.table("t", "x string").select(y=ps.col("x").substr(2, 2)))
            >>> flow.run(t=[[{"x": "Rome"}]]).table("out").to_pylist()
            [{'y': 'om'}]

        """
        return Call("substring", (self,), {"start": start, "length": length})

    # Types, names, parts.

    def cast(self, to: str | pa.DataType) -> "Expression":
        """Cast the value to another type, Spark's or Arrow's. A value that does not fit raises an error.

        Examples:
            >>> flow = ps.Dataflow("cast")
            >>> flow.output("out", flow.table("t", "x string").select(y=ps.col("x").cast("long")))
            >>> flow.run(t=[[{"x": "5"}]]).table("out").to_pylist()
            [{'y': 5}]

        """
        return CastTo(self, to, is_tried=False)

    def try_cast(self, to: str | pa.DataType) -> "Expression":
        """Cast the value to another type; null if it does not fit.

        Examples:
            >>> flow = ps.Dataflow("try_cast")
            >>> flow.output("out", flow.table("t", "x string").select(y=ps.col("x").try_cast("long")))
            >>> flow.run(t=[[{"x": "five"}]]).table("out").to_pylist()
            [{'y': None}]

        """
        return CastTo(self, to, is_tried=True)

    def field(self, name: str) -> "Expression":
        """Return a field of a struct.

        Examples:
            >>> flow = ps.Dataflow("field")
            >>> flow.output("out", flow.table("t", "x struct<a:long>").select(y=ps.col("x").field("a")))
            >>> flow.run(t=[[{"x": {"a": 1}}]]).table("out").to_pylist()
            [{'y': 1}]

        """
        return Call("field", (self,), {"name": name})

    def alias(self, name: str) -> "Expression":
        """Name the expression; a column that is made of it has this name.

        Examples:
            >>> flow = ps.Dataflow("alias")
            >>> flow.output("out", flow.table("t", "x long").select(ps.col("x").alias("y")))
            >>> flow.run(t=[[{"x": 1}]]).table("out").to_pylist()
            [{'y': 1}]

        """
        return Named(self, name)

    def __bool__(self) -> NoReturn:
        raise FlowError(
            f"{self} is an expression and has no truth value while the flow is built. Use & for 'and', | for "
            "'or', ~ for 'not', with parentheses around comparisons, and ps.when(...) for 'if'."
        )

    def __iter__(self) -> NoReturn:
        raise FlowError(f"{self} is an expression over one row and cannot be iterated.")

    def __getattr__(self, name: str) -> NoReturn:
        if name in _ELSEWHERE:
            raise AttributeError(f"an expression has no '{name}'; here it is {_ELSEWHERE[name]}.")
        raise AttributeError(f"an expression has no '{name}'. ps.functions has more.")


@dataclass(frozen=True, slots=True, eq=False)
class Column(Expression):
    """A column of the row, by name."""

    column: str

    def __str__(self) -> str:
        return f"col('{self.column}')"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Literal(Expression):
    """A constant."""

    value: Any
    type: pa.DataType | None = None

    def __repr__(self) -> str:
        """Return a text that tells this literal from all others."""
        return f"Literal({value_text(self.value)}, {self.type!r})"

    def __str__(self) -> str:
        return "null" if self.value is None else value_text(self.value)


def value_text(value: Any) -> str:  # noqa: ANN401 - any value
    """Return the text of a value of a literal; dates after the year 9999 are none of Python's.

    >>> value_text(pa.scalar(10_000_000, pa.date32()))
    "date32[day] '29349-01-26'"
    """
    if isinstance(value, pa.Scalar) and pa.types.is_temporal(value.type):
        return f"{value.type} '{value.cast(pa.string())}'"
    return repr(value)


@dataclass(frozen=True, slots=True, eq=False)
class Call(Expression):
    """A function of other expressions; ``options`` are the same for every row."""

    function: str
    arguments: tuple[Expression, ...]
    options: Any = None

    def __str__(self) -> str:
        symbol = _SYMBOLS.get(self.function)
        if symbol is not None and len(self.arguments) == 2:
            return f"({self.arguments[0]} {symbol} {self.arguments[1]})"
        words = [*map(str, self.arguments), *(repr(value) for value in (self.options or {}).values())]
        return f"{self.function}({', '.join(words)})"


@dataclass(frozen=True, slots=True, eq=False)
class CastTo(Expression):
    """An expression as another type."""

    inner: Expression
    to: str | pa.DataType
    is_tried: bool

    def __str__(self) -> str:
        return f"{'try_' if self.is_tried else ''}cast({self.inner} as {self.to})"


@dataclass(frozen=True, slots=True, eq=False)
class Named(Expression):
    """An expression with a name."""

    inner: Expression
    alias_name: str

    def __str__(self) -> str:
        return f"{self.inner} as {self.alias_name}"


@dataclass(frozen=True, slots=True, eq=False)
class Choice(Expression):
    """The value of the first branch whose condition holds; made by ``ps.when``."""

    branches: tuple[tuple[Expression, Expression], ...]
    default: Expression | None = None

    def when(self, condition: Expression, value: Value) -> "Choice":
        """Add a branch, for rows for which no earlier condition is true.

        Examples:
            >>> sign = ps.when(ps.col("x") > 0, "up").when(ps.col("x") < 0, "down")
            >>> print(sign)
            case when (col('x') > 0) then 'up' when (col('x') < 0) then 'down' end

        """
        if self.default is not None:
            raise FlowError(f"{self} already has otherwise(...). Write when(...) before it.")
        return Choice((*self.branches, (_condition(condition), lit(value))))

    def otherwise(self, value: Value) -> "Expression":
        """Set the value of all other rows; without it they are null.

        Examples:
            >>> print(ps.when(ps.col("x") > 0, "up").otherwise("down"))
            case when (col('x') > 0) then 'up' else 'down' end

        """
        if self.default is not None:
            raise FlowError(f"{self} already has otherwise(...). Remove one of them.")
        return Choice(self.branches, lit(value))

    def __str__(self) -> str:
        whens = " ".join(f"when {condition} then {value}" for condition, value in self.branches)
        return f"case {whens}" + ("" if self.default is None else f" else {self.default}") + " end"


@dataclass(frozen=True, slots=True, eq=False)
class Lambda(Expression):
    """A function of elements of a list or of entries of a map: an argument of a higher-order function.

    Its parameters are columns inside of its body. A name of a parameter is not the name of a column of the
    rows, nor of a parameter of a function around it.
    """

    parameters: tuple[str, ...]
    body: Expression

    def __str__(self) -> str:
        return f"({', '.join(self.parameters)}) -> {self.body}"


_SYMBOLS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "mod": "%",
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "&",
    "or": "|",
}


def col(name: str) -> Expression:
    """Return a column of the row, as an expression.

    Examples:
        >>> print(ps.col("price") * 2 > 10)
        ((col('price') * 2) > 10)

    """
    if not isinstance(name, str):
        raise FlowError(f"ps.col needs the name of a column, got {type(name).__name__}.")
    return Column(name)


def lit(value: Value, type: str | pa.DataType | None = None) -> Expression:  # noqa: A002
    """Return a constant, as an expression; an expression stays as it is.

    Args:
        value: The value.
        type (str | pyarrow.DataType, default None): Its type. Default: the type of the Python value.

    Examples:
        >>> print(ps.lit(5, "double"))
        cast(5 as double)

    """
    if isinstance(value, Expression):
        return value
    if isinstance(type, str):
        return CastTo(Literal(value), type, is_tried=False)
    return Literal(value, type)


def when(condition: Expression, value: Value) -> Choice:
    """Return the value of the first branch whose condition is true.

    Args:
        condition: A boolean expression.
        value: A value or an expression.

    Examples:
        >>> flow = ps.Dataflow("when")
        >>> word = ps.when(ps.col("x") > 0, "up").otherwise("down")
        >>> flow.output("out", flow.table("t", "x long").select(word=word))
        >>> flow.run(t=[[{"x": 3}]]).table("out").to_pylist()
        [{'word': 'up'}]

    """
    return Choice(((_condition(condition), lit(value)),))


def columns_of(expression: Expression) -> Iterator[str]:
    """The names of the columns that an expression asks for, with repetitions.

    >>> list(columns_of(col("a") + col("b") * col("a")))
    ['a', 'b', 'a']
    """
    match expression:
        case Column(name):
            yield name
        case Call(_, arguments):
            for argument in arguments:
                yield from columns_of(argument)
        case CastTo(inner) | Named(inner):
            yield from columns_of(inner)
        case Lambda(parameters, body):
            yield from (column for column in columns_of(body) if column not in parameters)
        case Choice(branches, default):
            for condition, value in branches:
                yield from columns_of(condition)
                yield from columns_of(value)
            if default is not None:
                yield from columns_of(default)
        case _:
            return


def name_of(expression: Expression) -> str | None:
    """The name that a column made of this expression has: its alias, or the column that it is."""
    match expression:
        case Named(_, name) | Column(name):
            return name
        case CastTo(inner):
            return name_of(inner)
        case _:
            return None


def _condition(given: Value) -> Expression:
    if isinstance(given, Expression):
        return given
    raise FlowError(f"ps.when needs a condition over columns, got {given!r}.")
