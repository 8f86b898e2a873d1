"""Plans as text: as written, optimized, the rules between them, and the physical operators.

A plan is a tree for each output; an operator with several readers has a number, and is written out once.
Every field of an operator that differs from its default is shown, so a new operator needs no code here.
``format="json"`` gives the same as data, with the signature of each operator.

>>> from pointstamp.expressions.tree import col
>>> from pointstamp.plan.logical import Filter, Project, Scan
>>> import pyarrow as pa
>>> orders = Scan("orders", pa.schema({"city": pa.string(), "price": pa.int64()}))
>>> large = Filter(orders, (col("price") > 10) & (col("city") != "Rome"), name="large")
>>> print(plan_text({"double": Project(large, (("city", col("city")), ("double", col("price") * 2)))}))
output 'double'
└─ Project city, double = price * 2
   └─ Filter 'large' price > 10 and city != 'Rome'
      └─ Scan orders
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, Literal, Protocol

import pyarrow as pa

from pointstamp.errors import PointstampError
from pointstamp.expressions import tree
from pointstamp.expressions.tree import Expression
from pointstamp.plan.arrow_json import Json
from pointstamp.plan.logical import Iterate, LogicalOperator, Scan, Variable, walk
from pointstamp.plan.signatures import ANNOTATIONS, has_state, signatures
from pointstamp.reduce.aggregate import Aggregate

_PLAIN: Final = ("input", "columns", "condition", "aggregates", "functions", "function", "rows", "count")
"""Fields that are shown without their names, because the operator says what they are."""
_NOT_SHOWN: Final = (*ANNOTATIONS, "declared")
_LINE_MAX: Final = 160
_TRUSTED: Final = "trusted: keeps no rows to check deletions, which saves up to 16 bytes of each"
_INFIX: Final = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "mod": "%",
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "and",
    "or": "or",
    "equal_null_safe": "is not distinct from",
}
_TIGHTNESS: Final = {"or": 1, "and": 2, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
"""How tightly an infix operator binds; comparisons are 3."""


class FiredRule(Protocol):
    """A rule that changed a plan, and the operators that it removed and added, as text."""

    @property
    def rule(self) -> str:
        """Return the name of the rule."""
        ...

    @property
    def removed(self) -> Sequence[str]:
        """Return the operators that are no longer in the plan."""
        ...

    @property
    def added(self) -> Sequence[str]:
        """Return the operators that are in the plan since then."""
        ...


@dataclass(frozen=True, slots=True)
class PhysicalOperator:
    """One operator that runs: what it reads, what it keeps and costs, and which outputs need it."""

    name: str
    kind: str
    reads: tuple[str, ...]
    by: tuple[str, ...] = ()
    """By which columns rows come to the worker that has their state."""
    keeps: str | None = None
    """Its state, and what a change costs; None: no state."""
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PhysicalPlan:
    """The operators that run, and a text of those with state."""

    text: str
    operators: tuple[PhysicalOperator, ...]
    spark: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What Spark computes of the rows of an input in a bounded run, as SQL, before workers read them."""


def explain_plan(
    roots: Mapping[str, LogicalOperator],
    optimized: Mapping[str, LogicalOperator] | None = None,
    fired: Sequence[FiredRule] = (),
    physical: PhysicalPlan | None = None,
    format: Literal["text", "json"] = "text",  # noqa: A002 - the word that other engines use
) -> str:
    """Return what a plan is, what the optimizer makes of it, and what runs.

    Args:
        roots: The operator of each output, as written.
        optimized: The same after optimization. Default: the plan is not optimized.
        fired: The rules that changed the plan, in order.
        physical: The operators that run. Default: not shown.
        format: ``"text"``, or ``"json"`` for the data.

    """
    if format == "json":
        data = {
            "logical": plan_data(roots),
            "optimized": None if optimized is None else plan_data(optimized),
            "rules": [
                {"rule": each.rule, "removed": list(each.removed), "added": list(each.added)}
                for each in fired
            ],
            "spark": None
            if physical is None
            else {name: list(each) for name, each in physical.spark.items()},
            "physical": None if physical is None else [_physical_data(each) for each in physical.operators],
        }
        return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    sections = {"Logical plan": plan_text(roots)}
    if optimized is not None:
        after = plan_text(optimized)
        is_same = after == sections["Logical plan"]
        sections["Optimized plan"] = "the same" if is_same else after
        sections["Rules that fired"] = "\n".join(_rule_lines(fired)) or "none"
    if physical is not None and physical.spark:
        steps = (f"input '{name}': {'; '.join(each)}" for name, each in physical.spark.items())
        sections["Computed by Spark in a bounded run"] = "\n".join(steps)
    if physical is not None:
        sections["Physical operators with state"] = physical.text.rstrip("\n")
    return "\n\n".join(f"== {title} ==\n{text}" for title, text in sections.items()) + "\n"


def _rule_lines(fired: Sequence[FiredRule]) -> Iterator[str]:
    for each in fired:
        yield each.rule
        yield from (f"  - {operator}" for operator in each.removed)
        yield from (f"  + {operator}" for operator in each.added)


def _physical_data(operator: PhysicalOperator) -> Json:
    return {each.name: getattr(operator, each.name) for each in fields(operator)}


# Plans.


def plan_text(roots: Mapping[str, LogicalOperator]) -> str:
    """Return a plan as a tree for each output."""
    return "\n".join(_Tree(roots).lines())


def plan_data(roots: Mapping[str, LogicalOperator]) -> Json:
    """Return a plan as data: operators by position, inputs before those that read them."""
    operators = list(walk(list(roots.values())))
    places = {each: place for place, each in enumerate(operators)}
    found = signatures(operators)
    return {
        "outputs": {name: places[root] for name, root in roots.items()},
        "operators": [
            {
                "is": type(each).__name__,
                "name": each.name,
                "origin": each.origin,
                "text": operator_text(each),
                "inputs": [places[above] for above in each.inputs],
                "columns": _columns(each),
                "has_state": has_state(each),
                "signature": found.get(each),
            }
            for each in operators
        ],
    }


def _columns(operator: LogicalOperator) -> dict[str, str] | None:
    try:
        return {each.name: str(each.type) for each in operator.schema}
    except PointstampError:  # a function that was not given is needed to know them
        return None


class _Tree:
    """The lines of one plan."""

    def __init__(self, roots: Mapping[str, LogicalOperator]) -> None:
        self._roots = roots
        operators = list(walk(list(roots.values())))
        self._readers = Counter(above for each in operators for above in set(each.inputs))
        self._readers.update(roots.values())
        self._numbers: dict[LogicalOperator, int] = {}
        self._variables = {
            variable: variable.name or f"variable {place + 1}"
            for loop in operators
            if isinstance(loop, Iterate)
            for place, variable in enumerate(loop.variables)
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of all outputs."""
        for name, root in self._roots.items():
            yield f"output '{name}'"
            # A chain can be long, so nothing here calls itself.
            waiting: list[tuple[str, str, str, LogicalOperator, str | None]]
            waiting = [("└─ ", "   ", "", root, None)]
            while waiting:
                first, rest, label, operator, origin = waiting.pop()
                heading, is_known = self._heading(operator, origin)
                yield f"{first}{label}{heading}"
                if is_known:
                    continue
                below = self._below(operator)
                for place, (what, each) in reversed(list(enumerate(below))):
                    is_last = place == len(below) - 1
                    mark, indent = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
                    waiting.append((rest + mark, rest + indent, what, each, operator.origin or origin))

    def _heading(self, operator: LogicalOperator, origin: str | None) -> tuple[str, bool]:
        """Return the text of an operator whose reader has this origin, and whether it was shown before."""
        if operator in self._variables:
            return f"{self._variables[operator]} of the round before", True
        known = self._numbers.get(operator)
        if known is not None:
            return f"#{known} {operator}, as above", True
        mark = ""
        if self._readers[operator] > 1:
            self._numbers[operator] = len(self._numbers) + 1
            mark = f"#{len(self._numbers)} "
        text = operator_text(operator)
        is_elsewhere = operator.origin is not None and operator.origin != origin
        return f"{mark}{text}{_origin_text(operator) if is_elsewhere else ''}", False

    def _below(self, operator: LogicalOperator) -> list[tuple[str, LogicalOperator]]:
        """Return the operators that one reads, with what each is to it."""
        if isinstance(operator, Scan):
            plain = f"Input {operator.input}"
            return [("", each) for each in operator.inputs if operator_text(each) != plain]
        if not isinstance(operator, Iterate):
            return [("", each) for each in operator.inputs if not isinstance(operator, Variable)]
        names = [self._variables[each] for each in operator.variables]
        starts = zip(names, operator.starts, strict=True)
        bodies = zip(names, operator.bodies, strict=True)
        others = [each for each in operator.inputs if each not in {*operator.variables, *operator.bodies}]
        return [
            *((f"{name} begins as ", each) for name, each in starts if each is not None),
            *((f"{name} becomes ", each) for name, each in bodies),
            *(("also ", each) for each in others if each not in operator.starts),
        ]


def operator_text(operator: LogicalOperator) -> str:
    """Return an operator as one line: its kind, its name, and every field that differs from its default."""
    parts = [str(operator)]
    for each in fields(operator):
        value = getattr(operator, each.name)
        is_default = each.default is not MISSING and repr(value) == repr(each.default)
        if each.name in _NOT_SHOWN or is_default or value is None or _is_read(value):
            continue
        if each.name == "trusted":
            parts.append(_TRUSTED)
        elif value is True:
            parts.append(each.name.removeprefix("is_").replace("_", " "))
        elif each.name in _PLAIN and (each.name, type(operator)) != ("columns", Scan):
            parts.append(value_text(value))
        else:
            text = value_text(value)
            is_list = isinstance(value, tuple) and not text.startswith("[")
            parts.append(f"{each.name}=[{text}]" if is_list else f"{each.name}={text}")
    return " ".join(each for each in parts if each)


def _origin_text(operator: LogicalOperator) -> str:
    """Return where an operator was written: of a file its name, of a text the text."""
    origin = _one_line(operator.origin or "")
    if origin.startswith("<"):
        return ""  # it was typed, and is in no file
    return f" ({origin if ' ' in origin else origin.rpartition('/')[2]})"


def _is_read(value: object) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return not parts or any(isinstance(each, LogicalOperator) for each in parts)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LINE_MAX else f"{line[: _LINE_MAX - 3]}..."


def value_text(value: Any) -> str:  # noqa: ANN401 - a parameter of an operator
    """Return a parameter of an operator as text.

    >>> value_text((("total", tree.col("price") + 1), ("city", tree.col("city"))))
    'total = price + 1, city'
    """
    if isinstance(value, Expression):
        return expression_text(value)
    if isinstance(value, Aggregate):
        found = [each for each in (value.column, value.by, value.fraction) if each is not None]
        where = "" if value.where is None else f" filter (where {expression_text(value.where)})"
        return f"{value.kind}({', '.join(map(value_text, found)) or '*'}){where}"
    if isinstance(value, tuple):
        return _tuple_text(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={value_text(each)}" for key, each in value.items())
    if isinstance(value, pa.RecordBatch | pa.Table):
        return f"{value.num_rows} {'row' if value.num_rows == 1 else 'rows'}"
    if isinstance(value, pa.Schema):
        return f"({', '.join(f'{each.name} {each.type}' for each in value)})"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__qualname__}()"
    text = str(value)
    return type(value).__name__ if text.startswith("<") else _one_line(text)


def _tuple_text(value: tuple[Any, ...]) -> str:
    pairs = [each for each in value if isinstance(each, tuple) and len(each) == 2]
    if len(pairs) < len(value) or not all(isinstance(name, str) for name, _ in pairs):
        return f"[{', '.join(map(value_text, value))}]"
    named = ((name, each.inner if isinstance(each, tree.Named) else each) for name, each in pairs)
    texts = ((name, value_text(each)) for name, each in named)
    return ", ".join(name if text == name else f"{name} = {text}" for name, text in texts)


def expression_text(expression: Expression) -> str:
    """Return an expression as SQL would have it, with no more parentheses than it needs.

    >>> expression_text(~(tree.col("a") + 1 > 2) & tree.col("b").is_in(1, 2))
    'not (a + 1 > 2) and b in (1, 2)'
    """
    return _text(expression)[0]


_ATOM: Final = 9


def _text(expression: Expression) -> tuple[str, int]:
    """Return the text of an expression, and how tightly it binds."""
    match expression:
        case tree.Column(name):
            return (name if re.fullmatch(r"[\w.#]+", name) else f'"{name}"'), _ATOM
        case tree.Literal(value):
            return _literal_text(value), _ATOM
        case tree.Named(inner, name):
            return f"{_text(inner)[0]} as {name}", 0
        case tree.CastTo(inner, to, is_tried):
            return f"{'try_' if is_tried else ''}cast({_text(inner)[0]} as {to})", _ATOM
        case tree.Choice(branches, default):
            whens = " ".join(f"when {_text(one)[0]} then {_text(other)[0]}" for one, other in branches)
            otherwise = "" if default is None else f" else {_text(default)[0]}"
            return f"case {whens}{otherwise} end", _ATOM
        case tree.Call(function, (one, other)) if function in _INFIX:
            symbol = _INFIX[function]
            binds = _TIGHTNESS.get(symbol, 3)
            # The right side of a - (b - c) needs its parentheses.
            return f"{_inside(one, binds)} {symbol} {_inside(other, binds + 1)}", binds
        case tree.Call("not", (tree.Call("is_null", (inner,)),)):
            return f"{_inside(inner, 4)} is not null", 3
        case tree.Call("not", (inner,)):
            return f"not {_inside(inner, 4)}", 3
        case tree.Call("is_null", (inner,)):
            return f"{_inside(inner, 4)} is null", 3
        case tree.Call("is_in", (inner, *among)):
            return f"{_inside(inner, 4)} in ({', '.join(_text(each)[0] for each in among)})", 3
        case tree.Call("like" | "rlike" as function, (inner,), {"pattern": pattern, **rest}) if not rest:
            return f"{_inside(inner, 4)} {function} {_literal_text(pattern)}", 3
        case tree.Call(function, arguments, options):
            words = [*(_text(each)[0] for each in arguments), *map(_literal_text, (options or {}).values())]
            return f"{function}({', '.join(words)})", _ATOM
        case _:
            return str(expression), 0


def _inside(expression: Expression, binds: int) -> str:
    text, own = _text(expression)
    return text if own >= binds else f"({text})"


def _literal_text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return "'" + _one_line(value).replace("'", "''") + "'"
    if isinstance(value, int | float):
        return repr(value)
    return _one_line(str(value) if hasattr(value, "as_tuple") else f"{type(value).__name__} '{value}'")
