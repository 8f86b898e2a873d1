"""A condition on columns that no body changes restricts the recursion itself.

Law: let p be over columns C of a recursive table, and let every body pass C through unchanged: each row that
a body makes of rows of a variable has the values that these rows have in C. Then filter p (fix F) = fix
(filter p F), round by round, and what F makes without the variable can be restricted before the first round.

Unsound for: a body that changes a column of C, that compares rows with different values in C (an aggregate or
a join by other columns, a global TopK), or that is opaque; a recursion with another reader, which needs the
other rows; a condition that can raise, because it would be evaluated for rows that only an early round has. A
recursion with rounds_max can need fewer rounds than before, never more.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from pointstamp.expressions.tree import Expression, columns_of
from pointstamp.plan import logical
from pointstamp.plan.logical import Filter, Iterate, LogicalOperator, Recursive, Variable, rewrite, walk
from pointstamp.plan.properties import plain_column
from pointstamp.plan.rules.conditions import all_of, can_raise, conjuncts, renamed
from pointstamp.plan.rules.push_predicates import own_names
from pointstamp.plan.rules.rewriting import Readers, Roots, depends_on

Names: TypeAlias = Mapping[str, str]
"""The columns of the condition, and the names that they have at an operator."""


class _ChangesColumnsError(Exception):
    """A body does not pass the columns of the condition through."""


def push_into_recursion(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with recursions restricted by the only conditions under which they are read."""
    found = list(roots)
    for operator in list(walk(roots)):
        if isinstance(operator, Filter) and isinstance(operator.input, Recursive):
            made = _restrict(found, operator, operator.input)
            if made is not None:
                return push_into_recursion(_put(found, operator, made))
    return found


def _put(roots: Roots, old: LogicalOperator, new: LogicalOperator) -> list[LogicalOperator]:
    return rewrite(roots, lambda each: new if each is old else each)


def _restrict(roots: Roots, operator: Filter, recursive: Recursive) -> LogicalOperator | None:
    readers = Readers(roots)
    loop = recursive.iterate
    if readers.is_shared(recursive) or readers.is_shared(loop) or loop.results:
        return None
    conditions = conjuncts(operator.condition)
    for condition in conditions:
        names = {name: name for name in columns_of(condition)}
        if not names or can_raise(condition, operator.schema):
            continue
        try:
            inside = restricted(recursive, condition, names)
        except _ChangesColumnsError:
            continue
        left = [each for each in conditions if each is not condition]
        return replace(operator, input=inside, condition=all_of(left, inside.schema)) if left else inside
    return None


def restricted(recursive: Recursive, condition: Expression, names: Names) -> Recursive:
    """Return the rows of a recursion for which a condition holds, computed of such rows only."""
    loop = recursive.iterate
    return _Restricted(loop, condition).result(loop.variables[recursive.place], names)


class _Restricted:
    """A recursion whose variables have only rows for which a condition holds."""

    def __init__(self, loop: Iterate, condition: Expression) -> None:
        self._loop = loop
        self._condition = condition
        self._names: dict[Variable, Names] = {}
        self._variables: dict[Variable, Variable] = {}
        self._made: dict[tuple[LogicalOperator, frozenset[tuple[str, str]]], LogicalOperator] = {}

    def result(self, variable: Variable, names: Names) -> Recursive:
        """Return what the recursion makes of a variable; variables that it does not need are gone."""
        self._variable(variable, names)
        bodies: dict[Variable, LogicalOperator] = {}
        while waiting := [each for each in self._names if each not in bodies]:
            each = waiting[0]
            body = self._loop.bodies[self._loop.variables.index(each)]
            bodies[each] = self._rows(body, self._names[each])
        kept = [each for each in self._loop.variables if each in bodies]
        starts = [self._start(each) for each in kept]
        if all(start is None for start in starts):
            raise _ChangesColumnsError
        loop = replace(
            self._loop,
            variables=tuple(self._variables[each] for each in kept),
            starts=tuple(starts),
            bodies=tuple(bodies[each] for each in kept),
        )
        return Recursive(loop, kept.index(variable))

    def _start(self, variable: Variable) -> LogicalOperator | None:
        start = self._loop.starts[self._loop.variables.index(variable)]
        return None if start is None else self._filter(start, self._names[variable])

    def _variable(self, variable: Variable, names: Names) -> Variable:
        if self._names.setdefault(variable, names) != names:
            raise _ChangesColumnsError
        return self._variables.setdefault(variable, Variable(variable.declared, name=variable.name))

    def _filter(self, operator: LogicalOperator, names: Names) -> LogicalOperator:
        return Filter(operator, renamed(self._condition, names))

    def _rows(self, operator: LogicalOperator, names: Names) -> LogicalOperator:
        """Return the rows of an operator for which the condition holds, made of such rows of variables."""
        key = operator, frozenset(names.items())
        if key not in self._made:
            self._made[key] = self._restrict(operator, names)
        return self._made[key]

    def _restrict(self, operator: LogicalOperator, names: Names) -> LogicalOperator:
        if isinstance(operator, Variable) and operator in self._loop.variables:
            return self._variable(operator, names)
        if not depends_on(operator, self._loop.variables):
            return self._filter(operator, names)
        columns = set(names.values())
        match operator:
            case logical.Filter() | logical.Distinct():
                return operator.with_inputs([self._rows(operator.input, names)])
            case logical.Union() | logical.Except() | logical.Intersect():
                return operator.with_inputs([self._rows(each, names) for each in operator.inputs])
            case logical.Project():
                values = dict(operator.columns)
                given = {old: plain_column(values[new]) for old, new in names.items()}
                plain = {old: column for old, column in given.items() if column is not None}
                if len(plain) == len(names):
                    return operator.with_inputs([self._rows(operator.input, plain)])
            case logical.Explode() if not columns & {operator.column, operator.position}:
                return operator.with_inputs([self._rows(operator.input, names)])
            case logical.TimeWindow() if not columns & {operator.start, operator.end}:
                return operator.with_inputs([self._rows(operator.input, names)])
            case logical.Aggregate() | logical.TopK() | logical.WindowFunctions():
                if columns <= set(operator.keys):
                    return operator.with_inputs([self._rows(operator.input, names)])
            case logical.Join():
                return self._restrict_join(operator, names)
        raise _ChangesColumnsError

    def _restrict_join(self, operator: logical.Join, names: Names) -> LogicalOperator:
        columns, keys, own = set(names.values()), dict(operator.keys), own_names(operator)
        is_left, is_right = (depends_on(each, self._loop.variables) for each in operator.inputs)
        theirs = {old: own[new] for old, new in names.items() if new in own}
        left, right = operator.left, operator.right
        if columns <= keys.keys():
            left, right = self._rows(left, names), self._rows(right, theirs)
        elif is_left and not is_right and columns <= set(left.schema.names):
            if operator.kind in ("right", "full"):
                raise _ChangesColumnsError
            left = self._rows(left, names)
        elif (
            is_right
            and not is_left
            and columns <= own.keys()
            and operator.kind in ("inner", "cross", "right")
        ):
            right = self._rows(right, theirs)
        else:
            raise _ChangesColumnsError
        return replace(operator, left=left, right=right)
