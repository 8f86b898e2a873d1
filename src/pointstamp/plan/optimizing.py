"""Optimizing: the rules that a plan goes through between what was written and what is lowered.

A rule is a function from the roots of a plan to the roots of one that means the same.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from pointstamp.plan.logical import LogicalOperator

Rule: TypeAlias = Callable[[Sequence[LogicalOperator]], Sequence[LogicalOperator]]

RULES: Final[list[Rule]] = []
"""The rules, in the order in which they are applied."""

SWITCH: Final = "POINTSTAMP_OPTIMIZE"
"""The environment variable that switches rules off, with ``off``."""


def is_switched_on() -> bool:
    """Return whether plans are optimized in this process."""
    return os.environ.get(SWITCH, "on") != "off"


def optimize(roots: Sequence[LogicalOperator]) -> list[LogicalOperator]:
    """Return the roots of the optimized plan; what no rule has changed is the same object."""
    made = list(roots)
    for rule in RULES:
        made = list(rule(made))
    return made
