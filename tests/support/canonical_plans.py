"""Canonical text of a logical plan: equal for plans that compute the same in the same way.

A column is what it is made of, and has no name: a column of an input is ``input.column``, one that a
projection computes is its expression. So projections that rename, reorder or leave out columns vanish. An
operator with state is written with all columns that it reads, because these are kept. Conditions
are sets. The sides of an inner join are in alphabetical order, and each column of a pair says its side.

Names of operators, places where they were written, and names of columns that no output shows do not count. An
output counts by the names, the order and the meaning of its columns. A recursion is not supported.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from pointstamp.expressions.tree import Call, CastTo, Choice, Column, Expression, Literal, Named
from pointstamp.plan import logical
from pointstamp.plan.logical import LogicalOperator
from pointstamp.plan.properties import right_names
from pointstamp.plan.streams import SessionWindow
from pointstamp.reduce.aggregate import Aggregate

Columns = Mapping[str, str]
"""What each column of an operator is."""

_MIRRORED: Final = {"greater": "less", "greater_equal": "less_equal"}
_TYPES: Final = {"long": "int64"}
_SYMMETRIC: Final = ("equal", "not_equal", "add", "multiply", "equal_null_safe")


def canonical(root: LogicalOperator, output: Sequence[str] | None = None) -> str:
    """Return the canonical text of a plan and of its result, whose columns may be told by others."""
    text, columns = _Canonical().of(root)
    names = root.schema.names
    shown = output or names
    return "\n".join(
        [*(f"{new} = {columns[name]}" for new, name in zip(shown, names, strict=True)), "of", *text]
    )


class _Canonical:
    """The texts of the operators of one plan."""

    def __init__(self) -> None:
        self._made: dict[LogicalOperator, tuple[list[str], Columns]] = {}

    def of(self, operator: LogicalOperator) -> tuple[list[str], Columns]:
        """Return the lines of an operator, and what its columns are."""
        if operator not in self._made:
            self._made[operator] = self._of(operator)
        return self._made[operator]

    def _of(self, operator: LogicalOperator) -> tuple[list[str], Columns]:
        match operator:
            case logical.Scan():
                own = {name: f"{operator.input}.{name}" for name in operator.schema.names}
                options = (operator.kind, operator.marker, operator.keys, operator.order, operator.trusted)
                # Without deletions there is nothing to check, and nothing is kept.
                is_kept = operator.kind != "append"
                read = ", ".join(sorted(operator.schema.names)) if is_kept else "rows"
                return [f"scan {operator.input} {options} of {read}"], own
            case logical.Project():
                text, below = self.of(operator.input)
                return text, {name: _text(each, below) for name, each in operator.columns}
            case logical.Filter():
                return self._filter(operator)
            case logical.Join():
                return self._join(operator)
            case logical.Union():
                return self._union(operator)
            case logical.Aggregate():
                return self._aggregate(operator)
            case logical.WindowFunctions():
                text, columns = self._one_input(operator, operator.input)
                below = self.of(operator.input)[1]
                added = {
                    name: f"{_value(each, below)} by {_value(operator.keys, below, are_columns=True)} in "
                    f"{_value(operator.by, below, are_columns=True)}"
                    for name, each in operator.functions
                }
                return text, {**columns, **added}
            case _ if len(operator.inputs) == 1 or isinstance(operator, SessionWindow):
                return self._one_input(operator, operator.inputs[0])
            case _:
                raise NotImplementedError(type(operator).__name__)

    def _one_input(
        self, operator: LogicalOperator, read: LogicalOperator
    ) -> tuple[list[str], dict[str, str]]:
        text, columns = self.of(read)
        parts = []
        for each in fields(operator):
            value = getattr(operator, each.name)
            if each.name in ("name", "origin", "written", "declared", "functions", "clock") or value is read:
                continue
            if isinstance(value, str) and value in set(operator.schema.names) - set(columns):
                value = True  # how a column is called that the operator adds
            are_columns = each.name in ("keys", "column", "at")
            found = (
                _order(value, columns)
                if each.name == "by"
                else _value(value, columns, are_columns=are_columns)
            )
            parts.append(f"{each.name}={found}")
        # All columns, in their order, decide what an order leaves open.
        is_open = isinstance(operator, logical.TopK | logical.DistinctOn)
        kept = list(dict.fromkeys(columns.values())) if is_open else sorted(set(columns.values()))
        if isinstance(operator, logical.TimeWindow | logical.Explode):
            kept = ["rows"]  # it keeps none
        added = {
            name: f"{type(operator).__name__}.{getattr(operator, each.name) and each.name}({parts})"
            for each in fields(operator)
            if isinstance(name := getattr(operator, each.name), str)
            and name in operator.schema.names
            and name not in columns
        }
        passed = {name: columns[name] for name in operator.schema.names if name in columns}
        head = [f"{type(operator).__name__} {' '.join(parts)} of {', '.join(kept)}"]
        return [*head, *_indented(text)], {**passed, **added}

    def _filter(self, operator: logical.Filter) -> tuple[list[str], Columns]:
        text, columns = self.of(operator.input)
        conditions = set(_conjuncts(operator.condition, columns))
        if text[0].startswith("filter "):
            inner, text = text[0], [line[2:] for line in text[1:]]
            conditions |= set(inner.removeprefix("filter ").split(" AND "))
        return [f"filter {' AND '.join(sorted(conditions))}", *_indented(text)], columns

    def _join(self, operator: logical.Join) -> tuple[list[str], Columns]:
        (left, mine), (right, theirs) = self.of(operator.left), self.of(operator.right)
        kind = operator.kind
        is_turned = kind == "right" or (
            kind in ("inner", "cross", "full")
            and (right, sorted(theirs.values())) < (left, sorted(mine.values()))
        )
        one, other = ("second", "first") if is_turned else ("first", "second")
        columns = {name: f"{one}<{each}>" for name, each in mine.items()}
        told = right_names(operator)
        for own, name in told.items():
            columns.setdefault(name, f"{other}<{theirs[own]}>")
        pairs = []
        for a, b in operator.keys:
            pairs.append(" = ".join((theirs[b], mine[a]) if is_turned else (mine[a], theirs[b])))
            if kind == "inner":
                columns[a] = f"key<{pairs[-1]}>"
                if told.get(b) not in (None, a):
                    columns[told[b]] = columns[a]
            elif kind in ("right", "full"):
                columns[a] = f"{kind} key<{pairs[-1]}>"
        conditions = [] if operator.condition is None else sorted(_conjuncts(operator.condition, columns))
        sides = [(left, mine), (right, theirs)]
        (first, first_columns), (second, second_columns) = reversed(sides) if is_turned else sides
        head = f"{'left' if kind == 'right' else kind} join on {' AND '.join(sorted(pairs))}"
        if conditions:
            head += f" where {' AND '.join(conditions)}"
        return [
            head,
            *_indented([f"of {', '.join(sorted(set(first_columns.values())))}", *first]),
            *_indented([f"of {', '.join(sorted(set(second_columns.values())))}", *second]),
        ], {name: columns[name] for name in operator.schema.names}

    def _union(self, operator: logical.Union) -> tuple[list[str], Columns]:
        parts = sorted((self.of(each) for each in operator.parts), key=lambda each: each[0])
        columns = {
            name: f"any<{'; '.join(part[1][name] for part in parts)}>" for name in operator.schema.names
        }
        return ["union", *(line for text, _ in parts for line in _indented(text))], columns

    def _aggregate(self, operator: logical.Aggregate) -> tuple[list[str], Columns]:
        text, columns = self.of(operator.input)
        values = {name: _value(each, columns) for name, each in operator.aggregates}
        keys = sorted({columns[each] for each in operator.keys})
        asked = sorted(set(values.values()))
        own = {each: columns[each] for each in operator.keys}
        head = f"aggregate {'; '.join(asked)} by {', '.join(keys)}"
        return [head, *_indented(text)], {
            **own,
            **{name: f"{each} by {keys}" for name, each in values.items()},
        }


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _conjuncts(condition: Expression, columns: Columns) -> list[str]:
    match condition:
        case Named(inner):
            return _conjuncts(inner, columns)
        case Call("and", arguments):
            return [part for each in arguments for part in _conjuncts(each, columns)]
        case _:
            return [_text(condition, columns)]


def _text(expression: Expression, columns: Columns) -> str:
    match expression:
        case Column(name):
            return columns[name]
        case Literal(value, data_type):
            found = value.as_py() if hasattr(value, "as_py") else value
            kind = "" if data_type is None or found is not None else f":{data_type}"
            return f"{found!r}{kind}"
        case Named(inner):
            return _text(inner, columns)
        case CastTo(inner, to, is_tried):
            return f"{'try ' if is_tried else ''}cast({_text(inner, columns)} to {_TYPES.get(str(to), to)})"
        case Choice(branches, default):
            whens = [f"when {_text(one, columns)} then {_text(other, columns)}" for one, other in branches]
            return f"case {' '.join(whens)} else {'null' if default is None else _text(default, columns)}"
        case Call("and" | "or" as function, arguments):
            parts = _conjuncts(expression, columns) if function == "and" else _either(expression, columns)
            return f"({f' {function} '.join(sorted(parts))})"
        case Call(function, arguments, options):
            parts = [_text(each, columns) for each in arguments]
            if function in _MIRRORED:
                function, parts = _MIRRORED[function], parts[::-1]
            if function in _SYMMETRIC:
                parts.sort()
            more = "".join(f", {key}={each!r}" for key, each in sorted((options or {}).items()))
            return f"{function}({', '.join(parts)}{more})"
        case _:
            return repr(expression)


def _either(expression: Expression, columns: Columns) -> list[str]:
    if isinstance(expression, Call) and expression.function == "or":
        return [part for each in expression.arguments for part in _either(each, columns)]
    return [_text(expression, columns)]


def _value(value: Any, columns: Columns, *, are_columns: bool = False) -> str:  # noqa: ANN401
    match value:
        case Expression():
            return _text(value, columns)
        case Aggregate():
            column = _value(value.column, columns, are_columns=True)
            by = "" if value.by is None else f" by {_value(value.by, columns, are_columns=True)}"
            where = "" if value.where is None else f" where {_text(value.where, columns)}"
            return f"{value.kind}({column}){by}{where} {value.fraction or ''}".rstrip()
        case tuple():
            return f"[{', '.join(_value(each, columns, are_columns=are_columns) for each in value)}]"
        case str() if are_columns and value in columns:
            return columns[value]
        case _ if hasattr(value, "__dataclass_fields__"):
            parts = [
                _value(getattr(value, each.name), columns, are_columns=each.name in ("column", "by"))
                for each in fields(value)
            ]
            return f"{type(value).__name__}({', '.join(parts)})"
        case _:
            return repr(value)


def _order(by: Sequence[str], columns: Columns) -> str:
    """Return an order with what it is by default: nulls are the least values."""
    made = []
    for each in by:
        name = next(known for known in sorted(columns, key=len, reverse=True) if each.startswith(known))
        words = each[len(name) :].split()
        direction = "desc" if "desc" in words else "asc"
        usual = "last" if direction == "desc" else "first"
        nulls = next((word for word in ("first", "last") if word in words), usual)
        made.append(f"{columns[name]} {direction} nulls {nulls}")
    return ", ".join(made)
