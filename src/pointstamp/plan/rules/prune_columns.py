"""Column pruning: what no reader looks at is not read, not computed and not kept.

Law: a projection of a multiset keeps all copies of its rows, so a column that no operator downstream looks at
can be left out upstream of it, down to the input (``Scan.columns``). A row that had been two rows is there
twice.

Unsound for: operators that compare complete rows (Distinct, Except, Intersect, and TopK or window functions
whose order leaves something open: all columns decide then); opaque functions; the last column, because a
table has one at least. They need all of their columns.

An input that checks that a deleted row is there does so for the columns that are read. A recursion stops when
the columns that are needed no longer change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from pointstamp.expressions.tree import Literal, col
from pointstamp.plan import logical
from pointstamp.plan.logical import LogicalOperator, Variable, walk
from pointstamp.plan.properties import Columns, needed, properties_of, right_names, used_columns
from pointstamp.plan.rules.rewriting import Roots, with_columns


def prune_columns(roots: Roots) -> list[LogicalOperator]:
    """Return the roots without columns that they do not need."""
    used = used_columns(roots, properties_of(roots), least=narrowest_column)
    pruning = _Pruning(used)
    for operator in walk(roots):
        pruning.prune(operator)
    return [pruning.made[root] for root in roots]


def narrowest_column(operator: LogicalOperator) -> str:
    """Return the column of an operator that costs least if only the number of its rows matters."""
    if isinstance(operator, logical.Join | logical.AsOfJoin) and operator.keys:
        return operator.keys[0][0]
    if isinstance(operator, logical.Aggregate):
        counts = [name for name, each in operator.aggregates if getattr(each, "kind", None) == "count"]
        return str([*operator.keys, *counts, *operator.schema.names][0])
    free: set[str] = set()
    if isinstance(operator, logical.Project):
        free = {
            name
            for name, each in operator.columns
            if isinstance(each, Literal) or type(each) is type(col("a"))
        }
    fields = sorted(
        operator.schema, key=lambda each: (each.name not in free if free else False, _width(each.type))
    )
    return str(fields[0].name)


def _width(found: pa.DataType) -> int:
    try:
        return int(found.bit_width)
    except ValueError:
        return 1 << 20


def keys_of_sides(operator: logical.Join) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the key columns of the left and of the right side."""
    return tuple(mine for mine, _ in operator.keys), tuple(theirs for _, theirs in operator.keys)


def sides_of_joins(
    used: Mapping[LogicalOperator, Columns],
) -> Mapping[tuple[LogicalOperator, tuple[str, ...]], Columns]:
    """Return the columns that joins need of what they read, by their keys: one arrangement serves all."""
    found: dict[tuple[LogicalOperator, tuple[str, ...]], Columns] = {}
    for operator, columns in used.items():
        if isinstance(operator, logical.Join):
            sides = zip(operator.inputs, keys_of_sides(operator), needed(operator, columns, {}), strict=True)
            for each, keys, wanted in sides:
                found[each, keys] = found.get((each, keys), frozenset()) | wanted
    least = {each: frozenset([narrowest_column(each)]) for each, _ in found}
    return {side: columns or least[side[0]] for side, columns in found.items()}


class _Pruning:
    """Operators without the columns that no reader needs."""

    def __init__(self, used: Mapping[LogicalOperator, Columns]) -> None:
        self.made: dict[LogicalOperator, LogicalOperator] = {}
        self._used = used
        self._trimmed: dict[tuple[LogicalOperator, frozenset[str]], LogicalOperator] = {}
        self._sides = sides_of_joins(used)

    def prune(self, operator: LogicalOperator) -> None:
        """Make an operator whose inputs have been made."""
        self.made[operator] = self._prune(operator)

    def _kept(self, operator: LogicalOperator) -> list[str]:
        return [name for name in operator.schema.names if name in self._used[operator]]

    def _only_used(self, operator: LogicalOperator, columns: Columns | None = None) -> LogicalOperator:
        """Return an operator with the columns that are needed and no others; default: by any reader."""
        key = operator, self._used[operator] if columns is None else columns
        if key not in self._trimmed:
            made = self.made[operator]
            kept = [name for name in operator.schema.names if name in key[1]]
            self._trimmed[key] = with_columns(made, kept)
        return self._trimmed[key]

    def _prune(self, operator: LogicalOperator) -> LogicalOperator:
        kept = self._kept(operator)
        is_narrower = len(kept) < len(operator.schema)
        match operator:
            case logical.Scan():
                read = operator.with_inputs([self.made[each] for each in operator.inputs])
                return replace(read, columns=tuple(kept)) if is_narrower else read
            case logical.Values():
                always = operator.with_inputs([self.made[each] for each in operator.inputs])
                return replace(always, rows=always.rows.select(kept)) if is_narrower else always
            case Variable():
                declared = pa.schema([operator.schema.field(name) for name in kept])
                return replace(operator, declared=declared) if is_narrower else operator
            case logical.Project():
                columns = tuple(each for each in operator.columns if each[0] in kept)
                if not is_narrower:
                    return operator.with_inputs([self.made[operator.input]])
                return replace(operator, input=self.made[operator.input], columns=columns)
            case logical.Join():
                return self._prune_join(operator)
            case logical.Union():
                return operator.with_inputs([self._fitted(each, kept) for each in operator.parts])
            case logical.Aggregate():
                return self._prune_aggregate(operator)
            case logical.WindowFunctions():
                return self._prune_functions(operator)
            case logical.TopK() if operator.rank is not None and operator.rank not in kept:
                return replace(operator, input=self._only_used(operator.input), rank=None)
            case logical.Iterate():
                return self._prune_loop(operator)
            case logical.Filter() | logical.Explode() | logical.TimeWindow() | logical.Recursive():
                return operator.with_inputs([self.made[each] for each in operator.inputs])
            case _:
                return operator.with_inputs([self._only_used(each) for each in operator.inputs])

    def _prune_aggregate(self, operator: logical.Aggregate) -> LogicalOperator:
        rows = self.made[operator.input]
        kept = tuple(each for each in operator.aggregates if each[0] in self._used[operator])
        if len(kept) == len(operator.aggregates):
            return operator.with_inputs([rows])
        if not kept:
            return logical.Distinct(with_columns(rows, operator.keys), name=operator.name)
        return replace(operator, input=rows, aggregates=kept)

    def _prune_functions(self, operator: logical.WindowFunctions) -> LogicalOperator:
        kept = tuple(each for each in operator.functions if each[0] in self._used[operator])
        if not kept:
            return self.made[operator.input]
        if len(kept) == len(operator.functions):
            return operator.with_inputs([self._only_used(operator.input)])
        return replace(operator, input=self._only_used(operator.input), functions=kept)

    def _prune_loop(self, operator: logical.Iterate) -> LogicalOperator:
        names = [self._kept(variable) for variable in operator.variables]

        variables = [self.made[each] for each in operator.variables]
        tables = [*zip(operator.starts, names, strict=True), *zip(operator.bodies, names, strict=True)]
        fitted = [self._fitted(each, kept) for each, kept in tables if each is not None]
        results = [self._only_used(each) for each in operator.results]
        return operator.with_inputs([*variables, *fitted, *results])

    def _fitted(self, operator: LogicalOperator, names: Sequence[str]) -> LogicalOperator:
        """Return an operator with these columns, in whatever order."""
        made = self.made[operator]
        return made if set(made.schema.names) == set(names) else with_columns(made, names)

    def _prune_join(self, operator: logical.Join) -> LogicalOperator:
        left, right = (
            self._only_used(each, self._sides[each, keys])
            for each, keys in zip(operator.inputs, keys_of_sides(operator), strict=True)
        )
        names = right_names(operator)
        keys = {theirs: mine for mine, theirs in operator.keys}
        mine = set(left.schema.names)
        changed = {
            own: names[own]
            for own in right.schema.names
            if own not in keys and (f"{own}{operator.suffix}" if own in mine else own) != names[own]
        }
        if not changed:
            return operator.with_inputs([left, right])
        # The left column of this name is gone, and with it the suffix; the name in a pair has to stay.
        fresh = {own: f"{own} of the key" if own in changed.values() else own for own in keys}
        columns = [(fresh.get(own) or changed.get(own, own), col(own)) for own in right.schema.names]
        pairs = tuple((one, fresh[theirs]) for one, theirs in operator.keys)
        return replace(operator, left=left, right=logical.Project(right, tuple(columns)), keys=pairs)
