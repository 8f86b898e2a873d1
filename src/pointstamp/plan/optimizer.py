"""Optimizing: the rules are applied to a plan until none of them changes it.

>>> from pointstamp.expressions.tree import col
>>> from pointstamp.plan.logical import Filter, Project, Scan
>>> import pyarrow as pa
>>> orders = Scan("orders", pa.schema({"city": pa.string(), "price": pa.int64(), "note": pa.string()}))
>>> cities = Project(Filter(orders, col("price") > 10), (("city", col("city")),))
>>> print(plan_text(optimize([cities]).roots))
Project(columns=[city: col('city')])
  Filter(condition=(col('price') > 10))
    Scan(input=orders, columns=[city, price])
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from itertools import cycle, islice
from typing import Any, Final

import pyarrow as pa

from pointstamp.expressions.tree import Expression
from pointstamp.plan.logical import LogicalOperator, Scan, Values, Variable, rewrite, walk
from pointstamp.plan.rules.aggregate_in_parts import aggregate_in_parts
from pointstamp.plan.rules.conditions import compiling_once
from pointstamp.plan.rules.first_rows import first_rows
from pointstamp.plan.rules.fold_constants import fold_constants
from pointstamp.plan.rules.fuse_rows import fuse_rows
from pointstamp.plan.rules.narrow_joins import narrow_joins
from pointstamp.plan.rules.order_joins import order_joins
from pointstamp.plan.rules.plain_names import plain_names
from pointstamp.plan.rules.prune_columns import prune_columns
from pointstamp.plan.rules.push_into_recursion import push_into_recursion
from pointstamp.plan.rules.push_predicates import push_predicates
from pointstamp.plan.rules.push_top import push_top
from pointstamp.plan.rules.rewriting import Roots, Rule
from pointstamp.plan.rules.share_subplans import share_subplans
from pointstamp.plan.rules.single_values import single_values
from pointstamp.plan.rules.use_keys import use_keys
from pointstamp.plan.signatures import ANNOTATIONS

ALL: Final[tuple[Rule, ...]] = (
    fold_constants,
    push_predicates,
    push_into_recursion,
    narrow_joins,
    use_keys,
    order_joins,
    push_top,
    first_rows,
    single_values,
    plain_names,
    share_subplans,
    prune_columns,
    fuse_rows,
    aggregate_in_parts,
)
"""The rules, in the order in which they are applied."""

RULES: Final[list[Rule]] = list(ALL)
"""The rules that every flow goes through."""

SWITCH: Final = "POINTSTAMP_OPTIMIZE"
"""The environment variable that switches rules off, with ``off``."""

_ROUNDS_MAX: Final = 10
_RECURSION_MAX: Final = 50_000


def is_switched_on() -> bool:
    """Return whether plans are optimized in this process."""
    return os.environ.get(SWITCH, "on") != "off"


@dataclass(frozen=True)
class Fired:
    """A rule that changed a plan, and the operators that it removed and added, as text."""

    rule: str
    before: Roots
    after: Roots

    @cached_property
    def removed(self) -> tuple[str, ...]:
        """Return the operators that are no longer there."""
        return _missing(self.before, self.after)

    @cached_property
    def added(self) -> tuple[str, ...]:
        """Return the operators that are new."""
        return _missing(self.after, self.before)

    def __str__(self) -> str:
        return f"{self.rule}: {'; '.join(self.removed) or 'nothing'} -> {'; '.join(self.added) or 'nothing'}"


@dataclass(frozen=True, slots=True)
class Optimized:
    """The roots of an optimized plan, and the rules that fired, in order."""

    roots: tuple[LogicalOperator, ...]
    fired: tuple[Fired, ...]


def optimize(roots: Roots, rules: Sequence[Rule] = ALL) -> Optimized:
    """Return an equal plan that costs less, and which rules made it."""
    with _deep_recursion(), compiling_once():
        return _optimize(roots, rules)


def _optimize(roots: Roots, rules: Sequence[Rule]) -> Optimized:
    found = list(roots)
    fired: list[Fired] = []
    quiet = 0
    for rule in islice(cycle(rules), _ROUNDS_MAX * len(rules)):
        made = rule(found)
        if any(new is not old for new, old in zip(made, found, strict=True)):
            fired.append(Fired(rule.__name__, tuple(found), tuple(made)))
            found, quiet = made, 0
        else:
            quiet += 1
        if quiet == len(rules):
            break  # no rule changes this plan
    return Optimized(tuple(_with_epochs(found, roots)), tuple(fired))


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Let rules go down expressions that are as deep as a text was long."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_MAX))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _with_epochs(found: list[LogicalOperator], roots: Roots) -> list[LogicalOperator]:
    """Return roots of which one reads an input: a plan has epochs because its inputs have."""
    if any(isinstance(each, Scan) for each in walk(found)):
        return found
    scan = next((each for each in walk(roots) if isinstance(each, Scan)), None)
    if scan is None:
        return found
    return rewrite(
        found,
        lambda each: replace(each, anchor=scan) if isinstance(each, Values) and each.anchor is None else each,
    )


def _missing(roots: Roots, others: Roots) -> tuple[str, ...]:
    """Return the operators of a plan that another one does not have, as text."""
    one, other = (Counter(_with_inputs(each) for each in walk(plan)) for plan in (roots, others))
    return tuple((one - other).elements())


def _with_inputs(operator: LogicalOperator) -> str:
    below = ", ".join(str(each) for each in operator.inputs)
    return f"{describe(operator)} of {below}" if below else describe(operator)


# Plans as text.


def plan_text(roots: Roots) -> str:
    """Return a plan as lines, inputs below those who read them; an operator that is shared has a number."""
    readers = Counter(id(each) for operator in walk(roots) for each in operator.inputs)
    readers.update(id(root) for root in roots)
    numbers: dict[int, int] = {}
    lines: list[str] = []

    def write(operator: LogicalOperator, depth: int) -> None:
        indent = "  " * depth
        known = numbers.get(id(operator))
        if known is not None:
            lines.append(f"{indent}#{known}")
            return
        mark = ""
        if readers[id(operator)] > 1 or isinstance(operator, Variable):
            numbers[id(operator)] = len(numbers) + 1
            mark = f"#{len(numbers)} = "
        lines.append(f"{indent}{mark}{describe(operator)}")
        for each in operator.inputs:
            write(each, depth + 1)

    for root in roots:
        write(root, 0)
    return "\n".join(lines)


def describe(operator: LogicalOperator) -> str:
    """Return an operator as one line, without its inputs and what is as by default."""
    parts = []
    for each in fields(operator):
        value = getattr(operator, each.name)
        is_default = each.default is not MISSING and value is each.default
        if each.name in ANNOTATIONS or each.name == "declared" or is_default or _reads(value):
            continue
        parts.append(f"{each.name}={_text(value)}")
    return f"{operator}({', '.join(parts)})" if parts else str(operator)


def _reads(value: object) -> bool:
    parts = value if isinstance(value, tuple) else (value,)
    return value is None or not parts or any(isinstance(each, LogicalOperator) for each in parts)


def _text(value: Any) -> str:  # noqa: ANN401
    match value:
        case (str(name), Expression() as expression):
            return f"{name}: {expression}"
        case (str(one), str(other)) if one == other:
            return one
        case tuple():
            return f"[{', '.join(map(_text, value))}]"
        case pa.RecordBatch():
            return f"{value.num_rows} rows"
        case _:
            return str(value)
