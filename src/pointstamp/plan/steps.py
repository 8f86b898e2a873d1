"""Steps: the operators as a user sees them, with their physical operators.

A drawing has a box for each step, and physical operators on demand. A projection that only chooses or
renames columns belongs to the step of what it reads. An input and what makes a table of it are
one step, and so are an output and the changes that it shows.
"""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from pointstamp.errors import PointstampError
from pointstamp.expressions.tree import Column, Expression, Named
from pointstamp.flow.plan import Node, Step
from pointstamp.plan import streams
from pointstamp.plan.explain import operator_text
from pointstamp.plan.logical import LogicalOperator, Project, Recursive, Scan

_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")


def mark_steps(nodes: Sequence[Node], parts_of: Sequence[LogicalOperator | None]) -> None:
    """Let each physical operator know what it is a part of.

    Args:
        nodes: The physical operators.
        parts_of: For each of them the logical operator that it was made for.

    """
    made: dict[LogicalOperator, Step] = {}
    for node, operator in zip(nodes, parts_of, strict=True):
        node.step = None
        if operator is not None:
            shown = _shown(operator)
            if shown not in made:
                origin = _origin(shown)
                made[shown] = Step(len(made), _name(shown, origin), _words(shown), origin)
            node.step = made[shown]


def _shown(operator: LogicalOperator) -> LogicalOperator:
    """Return the operator that is drawn for one."""
    while True:
        if isinstance(operator, Project) and all(_is_plain(each) for _, each in operator.columns):
            operator = operator.input
        elif isinstance(operator, Scan) and operator.source is not None:
            operator = operator.source
        elif isinstance(operator, streams.ToTable) and isinstance(operator.input, streams.Input):
            operator = operator.input
        elif isinstance(operator, Recursive):
            operator = operator.iterate
        else:
            return operator


def _is_plain(expression: Expression) -> bool:
    while isinstance(expression, Named):
        expression = expression.inner
    return isinstance(expression, Column)


def _name(operator: LogicalOperator, origin: str) -> str:
    """Return what a user called an operator; operators of SQL are named by their kind."""
    if isinstance(operator, streams.Input | streams.Output):
        return operator.input if isinstance(operator, streams.Input) else operator.output
    is_text = " " in origin
    return operator.name if operator.name and not is_text else _WORD.sub(" ", type(operator).__name__).lower()


def _words(operator: LogicalOperator) -> str:
    try:
        return operator_text(operator)
    except PointstampError:  # a parameter that cannot be shown is no reason not to draw it
        return str(operator)


def _origin(operator: LogicalOperator) -> str:
    """Return the text that an operator comes from, or the line of a file without its folder."""
    origin = " ".join((operator.origin or "").split())
    return origin if " " in origin else PurePath(origin).name
