"""Common subplans once, also across outputs and views.

Law: operators that are equal but for their names, over the same inputs, make the same table; it is computed
once. Recursions are equal if their bodies are, whatever object their variables are.

Unsound for: functions of users that only look the same; a function is equal to itself only. Operators with
different names are merged, and the first name is kept.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pointstamp.plan.logical import Iterate, LogicalOperator, Variable, walk
from pointstamp.plan.rules.rewriting import Roots, own_key


def share_subplans(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with equal operators shared."""
    numbers = _Numbers(roots)
    order = list(walk(roots))
    names: dict[int, str] = {}
    for operator in order:
        if operator.name is not None:
            names.setdefault(numbers.of[id(operator)], operator.name)
    first: dict[int, LogicalOperator] = {}
    made: dict[int, LogicalOperator] = {}
    for operator in order:
        number = numbers.of[id(operator)]
        if number not in first:
            given = operator.with_inputs([made[id(each)] for each in operator.inputs])
            name = names.get(number)
            first[number] = given if given.name == name else replace(given, name=name)
        made[id(operator)] = first[number]
    return [made[id(root)] for root in roots]


class _Numbers:
    """A number for each operator; equal operators have the same."""

    def __init__(self, roots: Roots) -> None:
        self._known: dict[Any, int] = {}
        self.of: dict[int, int] = {}
        for operator in walk(roots):
            key = self._key(operator, self.of, {})
            if isinstance(operator, Iterate):
                key = ("loop", self._of_loop(operator))
            self.of[id(operator)] = self._number(key)

    def _number(self, key: Any) -> int:  # noqa: ANN401 - nested tuples
        return self._known.setdefault(key, len(self._known))

    def _key(self, operator: LogicalOperator, of: Mapping[int, int], variables: Mapping[int, int]) -> Any:  # noqa: ANN401
        if id(operator) in variables:
            return ("variable", variables[id(operator)], operator.schema.to_string())
        own = own_key(operator)
        if isinstance(operator, Iterate) and variables:
            starts = tuple(start is None for start in operator.starts)
            own = ("iterate", operator.rounds_max, starts, len(operator.results))
        return (own, tuple(of[id(each)] for each in operator.inputs))

    def _of_loop(self, loop: Iterate) -> int:
        """Return a number in which the variables of a loop stand for their places."""
        inside = list(walk([loop]))
        bound = {id(each) for one in inside if isinstance(one, Iterate) for each in one.variables}
        variables: dict[int, int] = {}
        for each in inside:
            if isinstance(each, Variable) and id(each) in bound:
                variables[id(each)] = len(variables)
        of: dict[int, int] = {}
        for each in inside:
            of[id(each)] = self._number(self._key(each, of, variables))
        return of[id(loop)]
