"""GROUP BY: aggregates that stand in expressions, and groups of rows by expressions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from pointstamp.dataflow.table import Table
from pointstamp.expressions.tree import Column, Expression, Literal, col, lit
from pointstamp.reduce.aggregate import Aggregate
from pointstamp.sql_views.aggregates import AGGREGATES, BY_ANOTHER, OF_DISTINCT, ONE_VALUE, QUANTILES
from pointstamp.sql_views.calling import constant_number
from pointstamp.sql_views.conditions import all_of
from pointstamp.sql_views.distinct_values import DistinctValues, RowsBeside
from pointstamp.sql_views.refusing import placed, refused
from pointstamp.sql_views.scope import Relation
from pointstamp.sql_views.translating import Translator

_QUERIES: Final = (exp.Subquery, exp.Exists, exp.Select)


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """Rows that were grouped: the table of groups, and which columns of it are what."""

    table: Table
    keys: list[Expression]
    """What rows were grouped by, as columns of the table."""
    answers: dict[int, Expression]
    """The aggregates, by their nodes."""
    counts: dict[int, bool]
    """Which of them are 0 and not null where there are no rows."""


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
            "Select distinct first, in a view, and aggregate that.",
        )
    return DistinctValues(OF_DISTINCT[name], (values[0],), where)


def _within_group(node: exp.WithinGroup, translate: Translator, where: Expression | None) -> Aggregate:
    name = str(node.this.this).lower()
    ordered = node.expression.expressions[0]
    if name != "percentile_cont" or ordered.args.get("desc"):
        raise refused(node, f"{name} WITHIN GROUP is not supported in this form", "Use percentile(x, 0.5).")
    fraction = constant_number(node.this.expressions[0], f"the fraction of {name}")
    return Aggregate("quantile", translate(ordered.this), where=where, fraction=fraction)
