"""Remove projections that only rename columns.

Law: names of columns between operators mean nothing. A column of an input keeps its name, a column that is
computed is called by its expression, an aggregate by its function, and of two columns of a table that are the
same one stays. What reads the plan (an output, a loop, an operator that is not known here) gets the columns
under the names and in the order that it had.

So subplans that differ in aliases only become equal, and ``share_subplans`` makes one of them: two aliases of
a table, a view in two queries, the same subquery twice. Joins of one table by one key share its arrangement.

Unsound for: columns that decide by their order what an order leaves open (first rows get them in their
order); equal columns of which an outer join makes one null; loops, in which a variable has the names that it
declares.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from pointstamp.arrangement.ordering import ordering
from pointstamp.errors import PointstampError
from pointstamp.expressions.tree import Expression, Named, col
from pointstamp.plan import logical
from pointstamp.plan.canonical import digest_of
from pointstamp.plan.explain import expression_text, value_text
from pointstamp.plan.logical import LogicalOperator, Project, loops_of, walk
from pointstamp.plan.properties import plain_column, right_names
from pointstamp.plan.rules.conditions import expression_key, renamed
from pointstamp.plan.rules.fold_constants import is_table
from pointstamp.plan.rules.rewriting import Readers, Roots
from pointstamp.reduce.aggregate import Aggregate as Aggregated

Names: TypeAlias = Mapping[str, str]
"""The columns of an operator as they were called, and as they are called now."""

Renamed: TypeAlias = tuple[LogicalOperator, Names]

_Columns: TypeAlias = tuple[tuple[str, Expression], ...]

_LENGTH_MAX: Final = 60
_BEGINNING: Final = 48
_USUAL: Final = "_right"
_START: Final = "window_start"
_END: Final = "window_end"
_PLACE: Final = "place"


def plain_names(roots: Roots) -> list[LogicalOperator]:
    """Return the roots with columns that are called by what they are."""
    naming = _Naming(roots)
    for operator in walk(roots):
        naming.add(operator)
    return [naming.as_before(root) for root in roots]


class _Naming:
    """Operators with other names, made one after the other."""

    def __init__(self, roots: Roots) -> None:
        self._loops = loops_of(roots)
        self._made: dict[LogicalOperator, Renamed] = {}
        self._readers = Readers(roots)
        self._kept: dict[LogicalOperator, LogicalOperator] = {}
        """Operators that keep their names."""
        self._projected: dict[tuple[LogicalOperator, object], Project] = {}

    def add(self, operator: LogicalOperator) -> None:
        """Make an operator whose inputs have been made."""
        kind = _KINDS.get(type(operator))
        if kind is not None and not self._loops[operator] and all(map(is_table, operator.inputs)):
            try:
                self._made[operator] = kind(self, operator)
                return
            except (_KeptError, PointstampError):
                pass
        self._kept[operator] = operator.with_inputs([self.as_before(each) for each in operator.inputs])

    def now(self, operator: LogicalOperator) -> Renamed:
        """Return an operator with other names, and these."""
        if operator in self._kept:
            return self._kept[operator], {name: name for name in _schema_names(operator)}
        return self._made[operator]

    def as_before(self, operator: LogicalOperator) -> LogicalOperator:
        """Return an operator with the names, the columns and the order that it had."""
        if operator in self._kept:
            return self._kept[operator]
        made, names = self._made[operator]
        if (aggregate := self._named_aggregate(operator, made, names)) is not None:
            return aggregate
        columns = tuple((old, col(new)) for old, new in names.items())
        return self.projected(made, columns, operator if isinstance(operator, Project) else None)

    def _named_aggregate(
        self, operator: LogicalOperator, made: LogicalOperator, names: Names
    ) -> LogicalOperator | None:
        """Return an aggregate under the names that it had, which errors show, if nothing else reads it."""
        first = operator
        while isinstance(first, Project) and not self._readers.is_shared(first):
            first = first.input
        if not isinstance(made, logical.Aggregate) or not isinstance(first, logical.Aggregate):
            return None
        count = len(made.keys)
        order = list(names.items())
        is_shared = self._readers.is_shared(first) or self._readers.is_shared(operator)
        if is_shared or len(order) != len(made.schema):
            return None
        if {new for _, new in order[count:]} != {name for name, _ in made.aggregates}:
            return None
        if order[:count] != [(key, key) for key in made.keys]:
            return None
        values = dict(made.aggregates)
        aggregates = tuple((old, values[new]) for old, new in order[count:])
        is_same = made.input is operator.inputs[0] and isinstance(operator, logical.Aggregate)
        if is_same and [name for name, _ in aggregates] == operator.schema.names[count:]:
            return operator
        return replace(made, aggregates=aggregates)

    def projected(
        self, made: LogicalOperator, columns: _Columns, like: LogicalOperator | None = None
    ) -> LogicalOperator:
        """Return expressions over an operator, or the operator if they are its columns."""
        plain = [plain_column(each) for _, each in columns]
        if plain == [name for name, _ in columns] == _schema_names(made):
            return made
        if isinstance(made, Project) and None not in plain and len(set(plain)) == len(plain):
            values = dict(made.columns)
            columns = tuple(
                (name, values[column or ""]) for (name, _), column in zip(columns, plain, strict=True)
            )
            made = made.input
        key = made, _key_of_columns(columns)
        if key not in self._projected:
            found = Project(made, columns)
            if like is not None:
                found = replace(found, name=like.name, origin=like.origin, written=like.written)
            self._projected[key] = found
        return self._projected[key]

    def remember(self, operator: Project) -> None:
        """Let a projection that is there be taken where one like it is needed."""
        self._projected.setdefault((operator.input, _key_of_columns(operator.columns)), operator)


def _key_of_columns(columns: _Columns) -> object:
    return tuple((name, expression_key(_bare(each))) for name, each in columns)


class _KeptError(Exception):
    """An operator keeps the names that it has."""


def _schema_names(operator: LogicalOperator) -> list[str]:
    return list(operator.schema.names)


def _fresh(wanted: str, taken: Iterable[str]) -> str:
    found, number = wanted, 1
    known = set(taken)
    while found in known:
        number += 1
        found = f"{wanted}#{number}"
    return found


def _name_of(text: str) -> str:
    return text if len(text) <= _LENGTH_MAX else f"{text[:_BEGINNING]}... #{digest_of(text)[:8]}"


def _project(naming: _Naming, operator: LogicalOperator) -> Renamed:
    assert isinstance(operator, Project)
    below, names = naming.now(operator.input)
    if below is operator.input:
        naming.remember(operator)
    values = {old: _bare(renamed(each, names)) for old, each in operator.columns}
    reserved = {column for each in values.values() if (column := plain_column(each)) is not None}
    made: dict[str, Expression] = {}
    known: dict[object, str] = {}
    new: dict[str, str] = {}
    for old, value in values.items():
        key = expression_key(value)
        if key not in known:
            text = _name_of(expression_text(value))
            known[key] = plain_column(value) or _fresh(text, {*made, *reserved})
            made[known[key]] = value
        new[old] = known[key]
    if set(made) == reserved == set(below.schema.names):
        return below, new
    order = {name: place for place, name in enumerate(below.schema.names)}
    columns = sorted(made.items(), key=lambda each: order[each[0]] if each[0] in reserved else len(order))
    return naming.projected(below, tuple(columns), operator), new


def _bare(expression: Expression) -> Expression:
    while isinstance(expression, Named):
        expression = expression.inner
    return expression


def _filter(naming: _Naming, operator: LogicalOperator) -> Renamed:
    assert isinstance(operator, logical.Filter)
    below, names = naming.now(operator.input)
    if below is operator.input and _is_identity(names):
        return operator, names
    return replace(operator, input=below, condition=renamed(operator.condition, names)), names


def _is_identity(names: Names) -> bool:
    return all(old == new for old, new in names.items())


def _time_window(naming: _Naming, operator: LogicalOperator) -> Renamed:
    assert isinstance(operator, logical.TimeWindow)
    below, names = naming.now(operator.input)
    taken = set(below.schema.names)
    start, end = _fresh(_START, taken), _fresh(_END, taken)
    new = {**names, operator.start: start, operator.end: end}
    if below is operator.input and _is_identity(new):
        return operator, _of_schema(operator, new)
    made = replace(operator, input=below, at=names[operator.at], start=start, end=end)
    return made, _of_schema(operator, new)


def _distinct(naming: _Naming, operator: LogicalOperator) -> Renamed:
    assert isinstance(operator, logical.Distinct)
    below, names = naming.now(operator.input)
    return operator.with_inputs([below]), names


def _join(naming: _Naming, operator: LogicalOperator) -> Renamed:
    assert isinstance(operator, logical.Join)
    (left, mine), (right, theirs) = naming.now(operator.left), naming.now(operator.right)
    pairs = list(dict.fromkeys((mine[one], theirs[other]) for one, other in operator.keys))
    keys = {other for _, other in pairs}
    is_once = len({one for one, _ in pairs}) == len(keys) == len(pairs)
    told = right_names(operator)
    asked = {other for _, other in operator.keys}
    if not is_once or any(theirs[own] in keys for own in told if own not in asked):
        raise _KeptError  # one of two equal columns of the right side is a key
    if _may_differ(operator, mine):
        raise _KeptError  # of two equal columns of the left side one is a key, and the other may be null
    taken = set(left.schema.names)
    others = [name for name in right.schema.names if name not in keys]
    tried = (_USUAL if number == 1 else f"#{number}" for number in range(1, len(taken) + len(others) + 3))
    has_same = any(name in taken for name in others)
    suffix = next(
        each for each in tried if not (has_same and (each == _USUAL or _clashes(taken, others, each)))
    )
    in_pair = {name: f"{name}{suffix}" if name in taken else name for name in others}
    names = dict(mine)
    for own, name in told.items():
        if own not in asked:
            names[name] = in_pair[theirs[own]]
        elif name not in names:
            raise _KeptError
    is_same = left is operator.left and right is operator.right and suffix == operator.suffix
    if is_same and _is_identity(names):
        return operator, _of_schema(operator, names)
    condition = None if operator.condition is None else renamed(operator.condition, names)
    made = replace(operator, left=left, right=right, keys=tuple(pairs), condition=condition, suffix=suffix)
    return made, _of_schema(operator, names)


def _may_differ(operator: logical.Join, names: Names) -> bool:
    """Return whether columns that are equal on the left side may differ in a pair."""
    return operator.kind in ("right", "full") and len(set(names.values())) < len(names)


def _clashes(taken: set[str], others: Sequence[str], suffix: str) -> bool:
    names = [f"{name}{suffix}" if name in taken else name for name in others]
    return bool(taken & set(names)) or len(set(names)) < len(names)


def _of_schema(operator: LogicalOperator, names: Names) -> Names:
    return {name: names[name] for name in operator.schema.names}


def _aggregate(naming: _Naming, operator: LogicalOperator) -> Renamed:
    assert isinstance(operator, logical.Aggregate)
    below, names = naming.now(operator.input)
    keys = tuple(dict.fromkeys(names[each] for each in operator.keys))
    made: dict[str, Aggregated] = {}
    known: dict[object, str] = {}
    new = {each: names[each] for each in operator.keys}
    for old, asked in operator.aggregates:
        if not isinstance(asked, Aggregated) or asked.by is not None:
            raise _KeptError
        value = replace(
            asked,
            column=_argument(asked.column, names),
            where=None if asked.where is None else renamed(asked.where, names),
        )
        key = _key_of(value)
        if key not in known:
            name = _fresh(_name_of(value_text(value)), {*keys, *made})
            known[key] = name
            made[name] = value
        new[old] = known[key]
    aggregates = tuple(made.items())
    is_same = keys == operator.keys and list(made) == [name for name, _ in operator.aggregates]
    if below is operator.input and is_same:
        return operator, new
    return replace(operator, input=below, keys=keys, aggregates=aggregates), new


def _argument(value: str | Expression | None, names: Names) -> str | Expression | None:
    """Return an argument of an aggregate under other names; a plain column is a name."""
    if isinstance(value, str):
        return names[value]
    if isinstance(value, Expression):
        made = renamed(value, names)
        return plain_column(made) or _bare(made)
    return value


def _key_of(asked: Aggregated) -> object:
    def key(value: object) -> object:
        return expression_key(value) if isinstance(value, Expression) else value

    return (asked.kind, key(asked.column), key(asked.where), asked.fraction)


def _top(naming: _Naming, operator: LogicalOperator) -> Renamed:
    assert isinstance(operator, logical.TopK | logical.DistinctOn)
    below, names = naming.now(operator.input)
    rank = operator.rank if isinstance(operator, logical.TopK) else None
    wanted = tuple(dict.fromkeys(names.values()))
    below = naming.projected(below, tuple((name, col(name)) for name in wanted))
    keys = tuple(dict.fromkeys(names[each] for each in operator.keys))
    order = ordering(str(operator), operator.input.schema, operator.by) if operator.by else ()
    by: dict[str, str] = {}
    for each in order:
        direction = "desc" if each.descends else "asc"
        nulls = "last" if each.nulls_last else "first"
        by.setdefault(names[each.column], f"{names[each.column]} {direction} nulls {nulls}")
    words = tuple(by.values())
    new = names if rank is None else {**names, rank: _fresh(_PLACE, wanted)}
    if below is operator.input and _is_identity(new) and keys == operator.keys and words == operator.by:
        return operator, new
    made = replace(operator, input=below, keys=keys, by=words)
    if isinstance(made, logical.TopK) and rank is not None:
        made = replace(made, rank=new[rank])
    return made, new


_KINDS: Final[Mapping[type[LogicalOperator], Callable[[_Naming, LogicalOperator], Renamed]]] = {
    Project: _project,
    logical.Filter: _filter,
    logical.Distinct: _distinct,
    logical.TimeWindow: _time_window,
    logical.Join: _join,
    logical.Aggregate: _aggregate,
    logical.TopK: _top,
    logical.DistinctOn: _top,
}
