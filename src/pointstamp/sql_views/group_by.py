"""GROUP BY: aggregates that stand in expressions, and groups of rows by expressions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, product
from typing import Final

import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow.table import Table
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import Column, Expression, Literal, col, lit
from pointstamp.reduce.aggregate import Aggregate, AggregateKind
from pointstamp.sql_views.condition_parts import all_of
from pointstamp.sql_views.expression_translation import Translator, canonical
from pointstamp.sql_views.parsing import POSITION
from pointstamp.sql_views.rejection import placed, refused
from pointstamp.sql_views.scope import Aliases, Relation, at_position
from pointstamp.sql_views.sql_functions import (
    AGGREGATES,
    BY_ANOTHER,
    OF_DISTINCT,
    ONE_VALUE,
    QUANTILES,
    constant_number,
)

_QUERIES: Final = (exp.Subquery, exp.Exists, exp.Select)


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Rows that were grouped: the table of groups, and which columns of it are what."""

    table: Table
    keys: list[Expression]
    """The grouping columns of the table."""
    answers: dict[int, Expression]
    """The aggregates, by their nodes."""
    counts: dict[int, bool]
    """The aggregates that are 0 and not null without rows."""


def aggregates_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates of an expression: calls, with FILTER or WITHIN GROUP around them if these are there."""
    if isinstance(node, _QUERIES) or (isinstance(node, exp.In) and node.args.get("query") is not None):
        if isinstance(node, exp.In):
            yield from aggregates_in(node.this)
        return
    if isinstance(node, exp.Window):  # a function over a window, whose arguments may be aggregates
        inside = node.this.this if isinstance(node.this, exp.Filter | exp.IgnoreNulls) else node.this
        for child in (*inside.iter_expressions(), *(node.args.get("partition_by") or [])):
            yield from aggregates_in(child)
        if node.args.get("order") is not None:
            yield from aggregates_in(node.args["order"])
        return
    if _call_of(node) is not None:
        yield node
        return
    for child in node.iter_expressions():
        yield from aggregates_in(child)


def _call_of(node: exp.Expr) -> exp.Anonymous | None:
    inner = node
    while isinstance(inner, exp.Filter | exp.WithinGroup):
        inner = inner.this
    is_aggregate = isinstance(inner, exp.Anonymous) and str(inner.this).lower() in AGGREGATES
    return inner if is_aggregate and isinstance(inner, exp.Anonymous) else None


def grouped(
    relation: Relation,
    keys: Sequence[Expression],
    nodes: Sequence[exp.Expr],
    translate: Translator,
    prefix: str,
) -> GroupedRows:
    """Rows grouped by values, with all aggregates that stand in these nodes."""
    wanted: dict[str, Aggregate] = {}
    of_rows: list[str] = []
    by_words: dict[str, str] = {}
    answers: dict[int, Expression] = {}
    counts: dict[int, bool] = {}
    table, names = _with_keys(relation.table, keys, prefix)
    beside = RowsBeside(table, names, prefix)
    for node in nodes:
        for each in aggregates_in(node):
            with placed(each):
                asked = aggregate_of(each, translate)
                aggregate = beside.aggregate(asked) if isinstance(asked, DistinctValues) else asked
            name = by_words.setdefault(_said(asked), f"{prefix}.{len(by_words)}")
            wanted[name] = aggregate
            answers[id(each)] = col(name)
            counts[id(each)] = aggregate.kind in ("count", "count_distinct")
            if not isinstance(asked, DistinctValues):
                of_rows.append(name)
    table = beside.made()
    wanted = {name: beside.of_rows(each) if name in of_rows else each for name, each in wanted.items()}
    made = table.group_by(*dict.fromkeys(names)).agg(wanted) if wanted else _distinct(table, names)
    return GroupedRows(made, [col(name) for name in names], answers, counts)


# Aggregates of distinct values: ``sum(distinct x)``, ``count(distinct a, b)``.
#
# The distinct values of each group are a table of their own. Its rows are put beside the rows of the group,
# each with a mark that says of which aggregate it is; so one reduction by the same keys has them all, groups
# whose key is null among them, and without a join.

_MARK: Final = "of distinct values"


@dataclass(frozen=True, slots=True)
class DistinctValues:
    """An aggregate of distinct values: which one, of what, and of which rows."""

    kind: AggregateKind
    values: tuple[Expression, ...]
    where: Expression | None

    def __str__(self) -> str:
        return ", ".join(map(str, (self.kind, "distinct", *self.values, self.where)))


@dataclass(slots=True)
class RowsBeside:
    """A table and the distinct values that are put beside its rows."""

    table: Table
    keys: Sequence[str]
    prefix: str
    _asked: dict[str, tuple[int, DistinctValues]] = field(default_factory=dict)

    def aggregate(self, asked: DistinctValues) -> Aggregate:
        """The aggregate of the marked rows that is this one."""
        number, _ = self._asked.setdefault(str(asked), (len(self._asked) + 1, asked))
        mine = col(_MARK) == number
        if asked.kind == "count":
            return Aggregate("count", where=mine)
        return Aggregate(asked.kind, col(self._column(number, 0)), where=mine)

    def of_rows(self, aggregate: Aggregate) -> Aggregate:
        """Another aggregate, which does not see the rows that were put beside."""
        if not self._asked:
            return aggregate
        where = col(_MARK) == 0 if aggregate.where is None else (col(_MARK) == 0) & aggregate.where
        return Aggregate(
            aggregate.kind, aggregate.column, by=aggregate.by, where=where, fraction=aggregate.fraction
        )

    def made(self) -> Table:
        """The rows with a mark, and the distinct values of each group, marked with their number."""
        if not self._asked:
            return self.table
        own = [col(each.name).cast(each.type).alias(each.name) for each in self.table.schema]
        added = {
            self._column(number, n): compile_expression(value, self.table.schema, "a distinct value").type
            for number, asked in self._asked.values()
            for n, value in enumerate(asked.values)
        }
        nothing = [lit(None).cast(kind).alias(name) for name, kind in added.items()]
        whole = self.table.select(*own, *nothing, lit(0).cast("int").alias(_MARK)).named("rows")
        for number, asked in self._asked.values():
            values = {self._column(number, n): value for n, value in enumerate(asked.values)}
            distinct = self._distinct(asked, values)
            columns = [
                (col(each.name) if each.name in distinct.schema.names else lit(None).cast(each.type)).alias(
                    each.name
                )
                for each in whole.schema
                if each.name != _MARK
            ]
            whole = whole.union(distinct.select(*columns, lit(number).cast("int").alias(_MARK)))
        return whole

    def _distinct(self, asked: DistinctValues, values: dict[str, Expression]) -> Table:
        present = all_of([each.is_not_null() for each in asked.values])
        assert present is not None
        # A value is computed only for rows that take part, so that it can fail for no others.
        rows = self.table.filter(present if asked.where is None else asked.where & present)
        named = [each.alias(name) for name, each in values.items()]
        return rows.select(*dict.fromkeys(self.keys), *named).named("distinct values").distinct()

    def _column(self, number: int, position: int) -> str:
        return f"{self.prefix}.distinct{number}.{position}"


def _said(asked: Aggregate | DistinctValues) -> str:
    if isinstance(asked, DistinctValues):
        return str(asked)
    return ", ".join(map(str, (asked.kind, asked.column, asked.by, asked.where, asked.fraction)))


def _distinct(table: Table, names: list[str]) -> Table:
    return table.select(*dict.fromkeys(names)).named("groups").distinct()


def _with_keys(table: Table, keys: Sequence[Expression], prefix: str) -> tuple[Table, list[str]]:
    names, added, known = [], [], {}
    for number, key in enumerate(keys):
        if isinstance(key, Column):
            names.append(key.column)
            continue
        if str(key) not in known:
            known[str(key)] = f"{prefix}.key{number}"
            added.append(key.alias(known[str(key)]))
        names.append(known[str(key)])
    return (table.select(*table.schema.names, *added).named("keys") if added else table), names


def aggregate_of(node: exp.Expr, translate: Translator) -> Aggregate | DistinctValues:
    """An aggregate as tables have it; SqlError if there is none."""
    where: Expression | None = None
    if isinstance(node, exp.Filter):
        where = translate(node.expression.this)
        node = node.this
    if isinstance(node, exp.WithinGroup):
        return _within_group(node, translate, where)
    assert isinstance(node, exp.Anonymous)
    name, arguments = str(node.this).lower(), list(node.expressions)
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        return _distinct_values(node, name, list(arguments[0].expressions), translate, where)
    if name == "count" and (not arguments or isinstance(arguments[0], exp.Star)):
        return Aggregate("count", where=where)
    if name == "count" and len(arguments) > 1:
        present = all_of(translate(each).is_not_null() for each in arguments)
        assert present is not None
        return Aggregate("count", where=present if where is None else present & where)
    if name in BY_ANOTHER and len(arguments) == 2:
        return Aggregate(BY_ANOTHER[name], translate(arguments[0]), by=translate(arguments[1]), where=where)
    if name in QUANTILES and len(arguments) == 2:
        fraction = constant_number(arguments[1], f"the fraction of {name}")
        return Aggregate("quantile", translate(arguments[0]), where=where, fraction=fraction)
    if name not in ONE_VALUE or len(arguments) != 1:
        raise refused(node, f"{name} does not take {len(arguments)} arguments")
    value = translate(arguments[0])
    if name == "count" and isinstance(value, Literal):
        return Aggregate("count", where=lit(False) if value.value is None else where)
    return ONE_VALUE[name](value, where)


def _distinct_values(
    node: exp.Anonymous,
    name: str,
    arguments: list[exp.Expr],
    translate: Translator,
    where: Expression | None,
) -> Aggregate | DistinctValues:
    if name in ("min", "max", "bool_and", "bool_or", "collect_set"):  # where copies make no difference
        return ONE_VALUE[name](translate(arguments[0]), where)
    values = [translate(each) for each in arguments]
    if name == "count":
        if len(values) == 1:
            return Aggregate("count_distinct", values[0], where=where)
        return DistinctValues("count", tuple(values), where)
    if name not in OF_DISTINCT or len(values) != 1:
        raise refused(
            node,
            f"{name}(DISTINCT ...) of {len(arguments)} values is not supported",
            "Select distinct rows in a view first, and aggregate that view.",
        )
    return DistinctValues(OF_DISTINCT[name], (values[0],), where)


def _within_group(node: exp.WithinGroup, translate: Translator, where: Expression | None) -> Aggregate:
    name = str(node.this.this).lower()
    ordered = node.expression.expressions[0]
    if name != "percentile_cont" or ordered.args.get("desc"):
        raise refused(node, f"{name} WITHIN GROUP is not supported in this form", "Use percentile(x, 0.5).")
    fraction = constant_number(node.this.expressions[0], f"the fraction of {name}")
    return Aggregate("quantile", translate(ordered.this), where=where, fraction=fraction)


# ROLLUP, CUBE and GROUPING SETS: one reduction for each set of keys, all of them together.
#
# A key that is not in a set is null there. ``grouping(x)`` is 1 where x was left out, and ``grouping_id()``
# has a bit for each key, the first being the highest.

_GROUPING: Final = ("grouping", "grouping_id")


@dataclass(slots=True)
class GroupSets:
    """The GROUP BY clause: values to group by, and the values of each grouping set."""

    nodes: list[exp.Expr]
    sets: list[tuple[int, ...]]

    @property
    def is_plain(self) -> bool:
        """Whether rows are grouped once, by all of them."""
        return self.sets == [tuple(range(len(self.nodes)))]

    def merged(self, keys: list[Expression]) -> tuple[list[Expression], "GroupSets"]:
        """The values of the nodes and the grouping sets; equivalent nodes are one value."""
        first: dict[str, int] = {}
        numbers = [first.setdefault(canonical(key), len(first)) for key in keys]
        places = [numbers.index(number) for number in range(len(first))]
        sets = [tuple(dict.fromkeys(numbers[each] for each in own)) for own in self.sets]
        return [keys[place] for place in places], GroupSets([self.nodes[place] for place in places], sets)


def sets_of(
    group: exp.Group | None, aliases: Aliases, selected: list[exp.Expr], relation: Relation
) -> GroupSets:
    """Read GROUP BY; a number is a column of the select, and a name of it may be used."""
    if group is None:
        return GroupSets([], [()])
    reader = _Reader(aliases, relation)
    if group.args.get("all") and relation.scope.has(exp.column("all")):  # a column comes before GROUP BY ALL
        group = exp.Group(expressions=[exp.column("all")])
    if group.args.get("all"):
        plain = [each for each in selected if not any(True for _ in aggregates_in(each))]
        return GroupSets(plain, [tuple(range(len(plain)))])
    alternatives = [reader.sets(each) for each in group.expressions]
    for part, make in (("rollup", _prefixes), ("cube", _subsets)):
        for each in group.args.get(part) or []:
            inner = each.expressions or group.expressions
            if not each.expressions:  # GROUP BY a, b WITH ROLLUP
                alternatives = []
            alternatives.append(make([reader.of(one) for one in inner]))
    for each in group.args.get("grouping_sets") or []:  # GROUP BY a, b GROUPING SETS (...): these alone
        alternatives = [reader.several(each)]
    sets = [tuple(dict.fromkeys(chain.from_iterable(parts))) for parts in product(*alternatives)]
    return GroupSets(reader.nodes, sets)


class _Reader:
    """Gives each value of GROUP BY its number."""

    def __init__(self, aliases: Aliases, relation: Relation) -> None:
        self._aliases = aliases
        self._relation = relation
        self._numbers: dict[str, int] = {}
        self.nodes: list[exp.Expr] = []

    def sets(self, node: exp.Expr) -> list[tuple[int, ...]]:
        """The sets that an element of GROUP BY stands for."""
        if isinstance(node, exp.Rollup):
            return _prefixes([self.of(each) for each in node.expressions])
        if isinstance(node, exp.Cube):
            return _subsets([self.of(each) for each in node.expressions])
        if isinstance(node, exp.GroupingSets):
            return self.several(node)
        return [self.of(node)]

    def several(self, node: exp.GroupingSets) -> list[tuple[int, ...]]:
        """The sets of GROUPING SETS, in which ROLLUP, CUBE and others may stand."""
        return [own for each in node.expressions for own in self.sets(each)]

    def of(self, node: exp.Expr) -> tuple[int, ...]:
        """The numbers of one value, or of several in parentheses."""
        if isinstance(node, exp.Tuple):
            return tuple(chain.from_iterable(self.of(each) for each in node.expressions))
        if isinstance(node, exp.Paren):
            return self.of(node.this)
        if isinstance(node, exp.Literal) and not node.is_string:
            node = self._aliases.at(node)
        node = at_position(node, self._relation) if POSITION in node.meta else self._aliases.beside(node)
        if any(True for _ in aggregates_in(node)):
            raise refused(node, "GROUP BY cannot contain an aggregate")
        words = node.sql(dialect="spark")
        if words not in self._numbers:
            self._numbers[words] = len(self.nodes)
            self.nodes.append(node)
        return (self._numbers[words],)


def _prefixes(keys: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(chain.from_iterable(keys[:count])) for count in range(len(keys), -1, -1)]


def _subsets(keys: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    found = chain.from_iterable(combinations(keys, count) for count in range(len(keys), -1, -1))
    return [tuple(chain.from_iterable(each)) for each in found]


def grouping_sets(
    relation: Relation,
    keys: Sequence[Expression],
    nodes: Sequence[exp.Expr],
    translate: Translator,
    prefix: str,
    sets: GroupSets,
) -> GroupedRows:
    """The groups of all sets together."""
    names = [f"{prefix}.set{number}" for number in range(len(keys))]
    kinds = [translate.type_of(key) for key in keys]
    known = {canonical(key): number for number, key in enumerate(keys)}
    asked = [each for node in nodes for each in node.find_all(exp.Anonymous) if _is_grouping(each)]
    tables, made = [], None
    for own in sets.sets:
        # The set of all rows has a key, too: as in Spark it has a row only where there are rows.
        by = [keys[n] for n in own] or [lit(True)]
        made = grouped(relation, by, nodes, translate, prefix)
        by_number = dict(zip(own, made.keys, strict=False))
        columns = [by_number.get(n, lit(None).cast(kinds[n])).alias(name) for n, name in enumerate(names)]
        answers = dict.fromkeys(str(each.column) for each in made.answers.values())
        marks = [
            _grouping(each, own, known, len(keys), translate).alias(f"{prefix}.mark{number}")
            for number, each in enumerate(asked)
        ]
        tables.append(made.table.select(*columns, *answers, *marks).named("grouping set"))
    assert made is not None
    whole = tables[0]
    for other in tables[1:]:
        whole = whole.union(other)
    marked: dict[int, Expression] = {id(each): col(f"{prefix}.mark{n}") for n, each in enumerate(asked)}
    return GroupedRows(whole, [col(name) for name in names], {**made.answers, **marked}, made.counts)


def _is_grouping(node: exp.Anonymous) -> bool:
    return str(node.this).lower() in _GROUPING


def _grouping(
    node: exp.Anonymous, own: tuple[int, ...], known: dict[str, int], count: int, translate: Translator
) -> Expression:
    numbers = list(range(count))
    if node.expressions:
        words = [canonical(translate(each)) for each in node.expressions]
        if any(each not in known for each in words):
            raise refused(node, "grouping needs an expression of GROUP BY")
        numbers = [known[each] for each in words]
    bits = 0
    for number in numbers:
        bits = 2 * bits + (number not in own)
    is_one = str(node.this).lower() == "grouping"
    return lit(bits, pa.int8() if is_one else pa.int64())
