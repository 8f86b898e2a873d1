"""Properties of logical operators: what is true of every table that an operator can make.

``properties_of`` derives them for all operators of a plan at once.

    property            meaning
    ------------------  ------------------------------------------------------------------------------------
    keys                sets of columns; no two rows, copies included, have the same values in all of them.
                        Null equals null here. The empty set: there is one row at most.
    dependencies        functional dependencies: rows that are equal in some columns are equal in another
    is_append_only      no row that an epoch has inserted is ever deleted, in every round of a loop
    may_repeat          a row may have a multiplicity above one: it has no key
    is_deterministic    no function of a user takes part, here or upstream; such a function is opaque
    rows_max            a bound of the number of rows; None: there is none
    is_monotone         more rows in the variables of a loop never make fewer rows here
    event_times         columns that place a row in event time: the time and the bounds of its windows
    watermark           the column that a watermark bounds; None, because no logical operator sets one yet

The properties of a recursion hold in every round. They are a greatest fixpoint: a variable begins with the
properties of its start, and loses those that its body does not keep. This is an induction over rounds, so a
property that survives holds. An operator outside recursions has its properties once and for all.

``used_columns`` derives which columns of each operator some reader looks at. In a recursion that is a least
fixpoint: what no reader needs in any round is unused.

A set of rows that satisfies a key also satisfies every superset of it; ``keys`` has the least sets only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyarrow import types

from pointstamp.arrangement.ordering import ordering
from pointstamp.expressions.tree import Call, Column, Expression, Literal, Named, columns_of
from pointstamp.plan import logical, streams
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Variable, loops_of, walk
from pointstamp.reduce.aggregate import Aggregate, FunctionAggregate

Columns: TypeAlias = frozenset[str]
Dependency: TypeAlias = tuple[Columns, str]
"""Rows that are equal in these columns are equal in that one."""

_KEYS_MAX: Final = 8
"""How many keys are remembered of one operator; a join multiplies them."""


@dataclass(frozen=True, slots=True)
class Properties:
    """What is true of the table of one operator; see the table at the top."""

    keys: frozenset[Columns] = frozenset()
    dependencies: frozenset[Dependency] = frozenset()
    is_append_only: bool = False
    is_deterministic: bool = True
    rows_max: int | None = None
    is_monotone: bool = True
    event_times: Columns = frozenset()
    watermark: str | None = None

    @property
    def may_repeat(self) -> bool:
        """Return whether a row may have a multiplicity above one."""
        return not self.keys

    def closure(self, columns: Iterable[str]) -> Columns:
        """Return the columns in which rows are equal that are equal in these."""
        found = set(columns)
        grows = True
        while grows:
            more = {column for given, column in self.dependencies if given <= found and column not in found}
            grows = bool(more)
            found |= more
        return frozenset(found)

    def is_key(self, columns: Iterable[str]) -> bool:
        """Return whether no two rows have the same values in these columns."""
        closed = self.closure(columns)
        return any(key <= closed for key in self.keys)


Found: TypeAlias = Mapping[LogicalOperator, Properties]


def properties_of(roots: Sequence[LogicalOperator]) -> Found:
    """Return the properties of every operator of a plan."""
    order = list(walk(roots))
    found: dict[LogicalOperator, Properties] = {}
    rest: list[LogicalOperator] = []
    """What is in a loop, or reads what is: its properties depend on the loop."""
    for operator in order:
        is_first = isinstance(operator, Variable) or operator.loop_entered is not None
        if is_first or any(each not in found for each in operator.inputs):
            rest.append(operator)
            continue
        known = _known.get(operator)
        if known is None:
            known = _known[operator] = _derive(operator, found, depends=False)
        found[operator] = known
    return _of_recursions(roots, order, rest, found) if rest else found


_known: Final[WeakKeyDictionary[LogicalOperator, Properties]] = WeakKeyDictionary()
"""The properties of operators outside recursions: an operator never changes, and neither do they."""


def _of_recursions(
    roots: Sequence[LogicalOperator],
    order: Sequence[LogicalOperator],
    rest: Sequence[LogicalOperator],
    plain: Found,
) -> Found:
    """Return the properties of all operators, given those that depend on no loop."""
    loops = loops_of(roots)
    binders = {variable: each for each in order if isinstance(each, Iterate) for variable in each.variables}
    variables = {variable: _nothing(variable.schema) for variable in binders}
    for variable, loop in binders.items():
        if loop.starts[loop.variables.index(variable)] is not None:
            variables[variable] = replace(variables[variable], rows_max=None)
    while True:
        found = dict(plain)
        for operator in rest:
            if isinstance(operator, Variable) and operator in variables:
                found[operator] = variables[operator]
            else:
                found[operator] = _derive(operator, found, depends=bool(loops[operator]))
        changed = False
        for variable, loop in binders.items():
            kept = _held_in_every_round(variable, loop, found)
            changed |= kept != variables[variable]
            variables[variable] = kept
        if not changed:
            return found


def _nothing(schema: pa.Schema) -> Properties:
    """Return the properties of a table without rows: all of them."""
    constants: frozenset[Dependency] = frozenset((frozenset(), name) for name in schema.names)
    no_columns: Columns = frozenset()
    return Properties(frozenset([no_columns]), constants, is_append_only=True, rows_max=0)


def _held_in_every_round(variable: Variable, loop: Iterate, found: Found) -> Properties:
    place = loop.variables.index(variable)
    start, body, known = loop.starts[place], found[loop.bodies[place]], found[variable]
    first = _nothing(variable.schema) if start is None else found[start]
    most = None if first.rows_max is None or body.rows_max is None else max(first.rows_max, body.rows_max)
    if known.rows_max != most and known.rows_max != 0:
        most = None  # it grows from round to round
    met = _meet(_meet(first, body), known)
    return replace(met, rows_max=most)


def _meet(one: Properties, other: Properties) -> Properties:
    """Return what is true of tables for which one or the other is true."""
    kept = {each for each in one.dependencies if each[1] in other.closure(each[0])}
    kept |= {each for each in other.dependencies if each[1] in one.closure(each[0])}
    most = None if one.rows_max is None or other.rows_max is None else max(one.rows_max, other.rows_max)
    return Properties(
        _least(mine | theirs for mine, theirs in product(one.keys, other.keys)),
        frozenset(kept),
        one.is_append_only and other.is_append_only,
        is_deterministic=one.is_deterministic and other.is_deterministic,
        rows_max=most,
        is_monotone=one.is_monotone and other.is_monotone,
        event_times=one.event_times & other.event_times,
    )


def _least(keys: Iterable[Columns]) -> frozenset[Columns]:
    """Return the keys without those that another one is a part of, the smallest first."""
    kept: list[Columns] = []
    for key in sorted(set(keys), key=lambda each: (len(each), sorted(each))):
        if not any(other <= key for other in kept):
            kept.append(key)
    return frozenset(kept[:_KEYS_MAX])


# From inputs to outputs.


def _derive(
    operator: LogicalOperator, found: Mapping[LogicalOperator, Properties], *, depends: bool
) -> Properties:
    if isinstance(operator, Recursive):
        return found[result_of(operator)]
    inputs = [found[each] for each in operator.inputs]
    made = _of_kind(operator, inputs)
    is_known = made.is_deterministic and all(each.is_deterministic for each in inputs)
    is_monotone = not depends or (_is_monotone(operator, found) and all(each.is_monotone for each in inputs))
    return replace(made, is_deterministic=is_known, is_monotone=is_monotone)


def result_of(recursive: Recursive) -> LogicalOperator:
    """Return the operator in a recursion whose table a result is."""
    loop = recursive.iterate
    return (*loop.bodies, *loop.results)[recursive.place]


def _is_monotone(operator: LogicalOperator, found: Found) -> bool:
    """Return whether more rows of the inputs never make fewer rows."""
    match operator:
        case logical.Join():
            return operator.kind in ("inner", "cross", "semi")
        case logical.Aggregate():
            return not operator.aggregates
        case logical.Intersect() | logical.MapBatches():
            return True
        case (
            logical.Project() | logical.Filter() | logical.Explode() | logical.TimeWindow() | logical.Union()
        ):
            return True
        case logical.Distinct() | logical.Values() | Variable() | Iterate():
            return True
        case _:
            return False


def _of_kind(operator: LogicalOperator, inputs: Sequence[Properties]) -> Properties:
    """Return the properties that an operator gives its table, given those of its inputs."""
    match operator:
        case logical.Scan():
            has_keys = operator.kind in ("upserts", "debezium") and bool(operator.keys)
            keys = (
                [frozenset(operator.keys)]
                if has_keys and set(operator.keys) <= set(operator.schema.names)
                else []
            )
            return Properties(frozenset(keys), is_append_only=operator.kind == "append")
        case logical.Values():
            count = operator.rows.num_rows
            if not count:
                return _nothing(operator.schema)
            return Properties(_least([frozenset()] if count < 2 else []), is_append_only=True, rows_max=count)
        case logical.Project():
            return _of_project(operator, inputs[0])
        case logical.Filter():
            more = frozenset(_equalities(operator.condition, operator.schema))
            return replace(inputs[0], dependencies=inputs[0].dependencies | more)
        case logical.Explode():
            lost = {operator.column}
            made = _without(inputs[0], lost)
            if operator.position is None:
                return replace(made, keys=frozenset(), rows_max=None)
            keys = [key | {operator.position} for key in made.keys]
            return replace(made, keys=_least(keys), rows_max=None)
        case logical.MapBatches():
            return Properties(is_append_only=inputs[0].is_append_only, is_deterministic=False)
        case logical.TimeWindow():
            times = frozenset([operator.at, operator.start, operator.end])
            made = replace(inputs[0], event_times=inputs[0].event_times | times)
            if operator.slide is None:
                return made
            return replace(made, keys=_least(key | {operator.start} for key in made.keys), rows_max=None)
        case logical.Join():
            return _of_join(operator, *inputs)
        case logical.AsOfJoin():
            return replace(inputs[0], is_append_only=False)
        case logical.Union():
            most = [each.rows_max for each in inputs]
            return Properties(
                inputs[0].keys if len(inputs) == 1 else frozenset(),
                is_append_only=all(each.is_append_only for each in inputs),
                rows_max=None if None in most else sum(each or 0 for each in most),
                event_times=frozenset.intersection(*(each.event_times for each in inputs)),
            )
        case logical.Except():
            made = replace(inputs[0], is_append_only=False)
            return made if operator.keeps_copies else _once(made, operator)
        case logical.Intersect():
            grows = all(each.is_append_only for each in inputs)
            made = replace(inputs[0], is_append_only=grows, keys=_least([*inputs[0].keys, *inputs[1].keys]))
            return made if operator.keeps_copies else _once(made, operator)
        case logical.Aggregate():
            return _of_aggregate(operator, inputs[0])
        case logical.Distinct():
            return _once(inputs[0], operator)
        case logical.DistinctOn():
            one_of_each = _least([*inputs[0].keys, frozenset(operator.keys)])
            return replace(inputs[0], keys=one_of_each, is_append_only=False)
        case logical.TopK():
            alone = [frozenset(operator.keys)] if operator.count == 1 and not operator.ties else []
            bounds = [] if operator.keys or operator.ties else [operator.count]
            bounds += [] if inputs[0].rows_max is None else [inputs[0].rows_max]
            made = replace(inputs[0], is_append_only=False, rows_max=min(bounds, default=None))
            return replace(made, keys=_least([*inputs[0].keys, *alone]))
        case logical.WindowFunctions():
            return replace(inputs[0], is_append_only=False)
        case _:
            return Properties()


def _once(made: Properties, operator: LogicalOperator) -> Properties:
    """Return the properties of a table that has every row once."""
    return replace(made, keys=_least([*made.keys, frozenset(operator.schema.names)]))


def _without(made: Properties, lost: set[str]) -> Properties:
    """Return what stays true when these columns are lost, or have other values."""
    return replace(
        made,
        keys=frozenset(key for key in made.keys if not key & lost),
        dependencies=frozenset(each for each in made.dependencies if not (each[0] | {each[1]}) & lost),
        event_times=made.event_times - lost,
    )


def _of_project(operator: logical.Project, rows: Properties) -> Properties:
    """Return the properties under new names; an expression depends on the columns that it is made of."""
    names: dict[str, list[str]] = {}
    for new, expression in operator.columns:
        if (column := plain_column(expression)) is not None:
            names.setdefault(column, []).append(new)
    dependencies: set[Dependency] = set()
    for new, expression in operator.columns:
        column = plain_column(expression)
        given = set(columns_of(expression))
        if column is not None:
            dependencies |= {(frozenset([new]), other) for other in names[column] if other != new}
        elif given <= names.keys():
            dependencies.add((frozenset(names[each][0] for each in given), new))
    for known, column in rows.dependencies:
        if known <= names.keys() and column in names:
            dependencies.add((frozenset(names[each][0] for each in known), names[column][0]))
    keys = []
    for key in rows.keys:
        if key <= names.keys():
            keys.append(frozenset(names[each][0] for each in key))
    times = frozenset(new for column in rows.event_times for new in names.get(column, ()))
    return replace(rows, keys=_least(keys), dependencies=frozenset(dependencies), event_times=times)


def _of_aggregate(operator: logical.Aggregate, rows: Properties) -> Properties:
    kept = _without(rows, set(operator.input.schema.names) - set(operator.keys))
    opaque = [each for _, each in operator.aggregates if not isinstance(each, Aggregate)]
    most = rows.rows_max if operator.keys else 1
    return replace(
        kept,
        keys=_least([*kept.keys, frozenset(operator.keys)]),
        is_append_only=rows.is_append_only and bool(operator.keys) and not operator.aggregates,
        is_deterministic=not opaque,
        rows_max=most,
    )


def _of_join(operator: logical.Join, left: Properties, right: Properties) -> Properties:
    """Return the properties of pairs; the rows of a side that has a key on the join keys are not repeated."""
    if operator.kind in ("semi", "anti"):
        grows = operator.kind == "semi" and left.is_append_only and right.is_append_only
        return replace(left, is_append_only=grows)
    names = right_names(operator)
    theirs = _renamed(right, names)
    mine, others = [mine for mine, _ in operator.keys], [other for _, other in operator.keys]
    is_one_right, is_one_left = right.is_key(others), left.is_key(mine)
    keys = [one | other for one, other in product(left.keys, theirs.keys)]
    if is_one_right and operator.kind in ("inner", "left", "cross"):
        keys += left.keys
    if is_one_left and operator.kind in ("inner", "right", "cross"):
        keys += theirs.keys
    dependencies: set[Dependency] = set()
    if operator.kind in ("inner", "left", "cross"):
        dependencies |= left.dependencies
        # With a condition, of two rows with equal keys one can have the partner and the other none.
        if is_one_right and operator.keys and (operator.kind == "inner" or operator.condition is None):
            dependencies |= {(frozenset(mine), name) for own, name in names.items() if own not in others}
    if operator.kind in ("inner", "right", "cross"):
        dependencies |= theirs.dependencies
    if operator.kind in ("inner", "cross") and operator.condition is not None:
        dependencies.update(_equalities(operator.condition, operator.schema))
    most: int | None = None
    if left.rows_max is not None and right.rows_max is not None and operator.kind in ("inner", "cross"):
        most = left.rows_max * right.rows_max
    grows = operator.kind in ("inner", "cross") and left.is_append_only and right.is_append_only
    times: Columns = left.event_times if operator.kind in ("inner", "left", "cross") else frozenset()
    if operator.kind in ("inner", "right", "cross"):
        times |= theirs.event_times
    return Properties(
        frozenset() if operator.kind == "full" else _least(keys),
        frozenset(dependencies),
        grows,
        rows_max=most,
        event_times=times,
    )


def right_names(operator: logical.Join | logical.AsOfJoin) -> dict[str, str]:
    """Return the names that the columns of the right side have in a pair, by their own names."""
    keys = {theirs: mine for mine, theirs in operator.keys}
    taken = operator.left.schema.names
    return {
        name: keys.get(name, f"{name}{operator.suffix}" if name in taken else name)
        for name in operator.right.schema.names
    }


def _renamed(made: Properties, names: Mapping[str, str]) -> Properties:
    return replace(
        made,
        keys=frozenset(frozenset(names[each] for each in key) for key in made.keys),
        dependencies=frozenset(
            (frozenset(names[each] for each in given), names[column]) for given, column in made.dependencies
        ),
        event_times=frozenset(names[each] for each in made.event_times),
    )


def plain_column(expression: Expression) -> str | None:
    """Return the column that an expression is without change."""
    while isinstance(expression, Named):
        expression = expression.inner
    return expression.column if isinstance(expression, Column) else None


def _equalities(condition: Expression, schema: pa.Schema) -> Iterable[Dependency]:
    """Yield what is equal in all rows for which a condition holds: columns to values, and to each other."""
    if isinstance(condition, Named):
        yield from _equalities(condition.inner, schema)
    if not isinstance(condition, Call):
        return
    if condition.function == "and":
        for each in condition.arguments:
            yield from _equalities(each, schema)
    if condition.function not in ("equal", "equal_null_safe"):
        return
    one, other = condition.arguments
    mine, theirs = plain_column(one), plain_column(other)
    if mine is None:
        one, other, mine, theirs = other, one, theirs, mine
    if mine is None or types.is_floating(schema.field(mine).type):
        return  # a float can be equal to one that has other digits
    if isinstance(other, Literal):
        yield frozenset(), mine
    elif theirs is not None and schema.field(theirs).type == schema.field(mine).type:
        yield frozenset([mine]), theirs
        yield frozenset([theirs]), mine


# From outputs to inputs.


def used_columns(
    roots: Sequence[LogicalOperator],
    found: Found,
    least: Callable[[LogicalOperator], str] | None = None,
) -> dict[LogicalOperator, Columns]:
    """Return the columns of each operator that some reader looks at; a root shows all of its columns.

    With ``least`` every operator has one column at least: the one that ``least`` chooses if none is needed.
    """
    order = list(walk(roots))
    used: dict[LogicalOperator, set[str]] = {each: set() for each in order}
    for root in roots:
        used[root].update(root.schema.names)
    is_recursive = any(isinstance(each, Iterate) for each in order)
    while True:
        before = sum(map(len, used.values()))
        for operator in reversed(order):
            if least is not None and not used[operator] and len(operator.schema):
                used[operator].add(least(operator))
            if isinstance(operator, Iterate):
                _use_in_loop(operator, used)
            elif isinstance(operator, Recursive):
                is_body = operator.place < len(operator.iterate.bodies)
                variable = operator.iterate.variables[operator.place] if is_body else result_of(operator)
                used[variable].update(used[operator])
            else:
                for each, columns in zip(
                    operator.inputs, needed(operator, frozenset(used[operator]), found), strict=True
                ):
                    used[each].update(columns)
        if not is_recursive or sum(map(len, used.values())) == before:
            return {operator: frozenset(columns) for operator, columns in used.items()}


def _use_in_loop(loop: Iterate, used: Mapping[LogicalOperator, set[str]]) -> None:
    for variable, start, body in zip(loop.variables, loop.starts, loop.bodies, strict=True):
        used[body].update(used[variable])
        if start is not None:
            used[start].update(used[variable])


def needed(operator: LogicalOperator, used: Columns, found: Found) -> Sequence[Columns]:
    """Return for each input the columns that an operator looks at, if these of its own are used."""
    match operator:
        case logical.Project():
            return [columns_in(each for name, each in operator.columns if name in used)]
        case logical.Filter():
            return [used | columns_in([operator.condition])]
        case logical.Explode():
            return [(used - {operator.position}) | {operator.column}]
        case logical.TimeWindow():
            return [(used - {operator.start, operator.end}) | {operator.at}]
        case logical.Join():
            return _needed_by_join(operator, used)
        case logical.Union():
            return [used for _ in operator.inputs]
        case logical.Aggregate():
            return [_needed_by_aggregate(operator, used)]
    everything = [frozenset(each.schema.names) for each in operator.inputs]
    match operator:
        case logical.AsOfJoin():
            # All columns of the right side decide between rows of one time; suffixes depend on the left side.
            asked = {mine for mine, _ in operator.keys} | {operator.at[0]} | everything[1]
            return [(used | asked) & everything[0], everything[1]]
        case logical.TopK():
            return [_needed_by_top(operator, used, everything[0], found)]
        case logical.WindowFunctions():
            return [_needed_by_functions(operator, used, everything[0], found)]
        case streams.SessionWindow():
            own = {operator.start, operator.end}
            return [(used - own) | {*operator.keys, operator.at}, *everything[1:]]
        case streams.TemporalFilter() | streams.EmitOnClose():
            return [used.union(columns_of(operator.when)) & everything[0], *everything[1:]]
        case _:
            return everything


def columns_in(expressions: Iterable[Expression]) -> Columns:
    """Return the columns that some of these expressions look at."""
    return frozenset(column for each in expressions for column in columns_of(each))


def _needed_by_join(operator: logical.Join, used: Columns) -> Sequence[Columns]:
    looked_at = set(used)
    if operator.condition is not None:
        looked_at.update(columns_of(operator.condition))
    left = {mine for mine, _ in operator.keys} | (looked_at & set(operator.left.schema.names))
    keys = {theirs for _, theirs in operator.keys}
    names = right_names(operator)
    return [
        frozenset(left),
        frozenset(own for own, name in names.items() if own in keys or name in looked_at),
    ]


def _needed_by_aggregate(operator: logical.Aggregate, used: Columns) -> Columns:
    looked_at = set(operator.keys)
    for name, each in operator.aggregates:
        if name not in used and (operator.keys or used):
            continue
        if isinstance(each, Aggregate):
            parts = [each.column, each.where, *(each.by if isinstance(each.by, tuple) else [each.by])]
            if isinstance(each.by, tuple):
                parts = [each.column, each.where]
                looked_at |= {one.column for one in ordering(str(operator), operator.input.schema, each.by)}
            for part in parts:
                if isinstance(part, str):
                    looked_at.add(part)
                elif part is not None:
                    looked_at.update(columns_of(part))
        elif isinstance(each, FunctionAggregate):
            looked_at.update(each.columns or operator.input.schema.names)
            if each.where is not None:
                looked_at.update(columns_of(each.where))
        else:
            looked_at.add(each.column)
    return frozenset(looked_at)


def _needed_by_top(operator: logical.TopK, used: Columns, everything: Columns, found: Found) -> Columns:
    if not operator.by:
        return everything
    order = {each.column for each in ordering(str(operator), operator.input.schema, operator.by)}
    decides = order | set(operator.keys)
    # All columns decide what the order leaves open.
    return (used - {operator.rank}) | decides if found[operator.input].is_key(decides) else everything


def _needed_by_functions(
    operator: logical.WindowFunctions, used: Columns, everything: Columns, found: Found
) -> Columns:
    if not used & {name for name, _ in operator.functions}:
        return used
    looked_at = set(operator.keys)
    looked_at |= {each.column for each in ordering(str(operator), operator.input.schema, operator.by)}
    if not found[operator.input].is_key(looked_at):
        return everything  # all columns decide what the order leaves open
    looked_at |= used & everything
    for name, each in operator.functions:
        if name in used and each.column is not None:
            looked_at.update([each.column] if isinstance(each.column, str) else columns_of(each.column))
    return frozenset(looked_at)
