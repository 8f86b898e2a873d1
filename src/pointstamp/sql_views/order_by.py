"""ORDER BY and LIMIT: the first rows of a table in an order.

An order without a limit has no meaning for a table, and is left out with a line in the log. What the order
leaves open is decided by all columns, so that the answer is always the same.
"""

import logging
from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from pointstamp.dataflow.table import Table
from pointstamp.expressions.tree import Expression, col
from pointstamp.incremental.window_functions import row_number
from pointstamp.sql_views.expression_translation import Translator
from pointstamp.sql_views.literals import constant_int
from pointstamp.sql_views.rejection import place, placed, refused

_log: Final = logging.getLogger("pointstamp.sql_views")
_PLACE: Final = "__place"


def limited(
    node: exp.Expr,
    table: Table,
    wanted: Mapping[str, Expression],
    ordered: list[exp.Expr],
    translator: Translator,
) -> Table:
    """The columns of a select, of the first rows only."""
    columns = [each.alias(name) for name, each in wanted.items()]
    is_distinct = node.args.get("distinct") is not None and isinstance(node, exp.Select)
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is None and offset is None:
        _log.warning(
            "%s: ORDER BY is ignored, because a view has no order; with LIMIT it chooses the rows.",
            place(node.args["order"]),
        )
        made = table.select(*columns)
        return made.distinct() if is_distinct else made
    hidden, by = _hidden(ordered, translator)
    shown = {str(each): name for name, each in wanted.items()}
    added = [each.alias(name) for name, each in hidden.items()]
    if is_distinct and any(str(each) not in shown for each in hidden.values()):
        raise refused(node, "with DISTINCT, ORDER BY can only use selected columns")
    made = table.select(*columns, *added)
    if is_distinct:
        made = made.distinct()
    return _first(made, node, by or list(wanted)).select(*wanted).named("first rows")


def _first(table: Table, node: exp.Expr, by: list[str]) -> Table:
    limit, offset = node.args.get("limit"), node.args.get("offset")
    skipped = 0 if offset is None else constant_int(offset.expression, "OFFSET")
    if skipped < 0:
        raise refused(offset or node, f"OFFSET must be 0 or more, got {skipped}")
    if limit is None or _is_all(limit):
        if not skipped:
            return table
        with placed(offset or node):
            return table.with_columns({_PLACE: row_number().over(order_by=by)}).filter(col(_PLACE) > skipped)
    if not isinstance(limit, exp.Limit):
        raise refused(limit, "FETCH is not supported", "Write LIMIT.")
    count = constant_int(limit.expression, "LIMIT")
    if count < 1:
        raise refused(limit, "LIMIT must be 1 or more")
    with placed(limit):
        if not skipped:
            return table.top(count, by=by)
        ranked = table.top(count + skipped, by=by, rank=_PLACE)
        return ranked.filter(col(_PLACE) > skipped)


def _is_all(limit: exp.Expr) -> bool:
    """Return whether LIMIT is ALL, which sets no limit."""
    said = limit.args.get("expression")
    return isinstance(limit, exp.Limit) and (
        bool(limit.args.get("all")) or (said is not None and said.sql().upper() == "ALL")
    )


def _hidden(ordered: list[exp.Expr], translator: Translator) -> tuple[dict[str, Expression], list[str]]:
    """Columns to order by, and the order in the words of tables."""
    hidden: dict[str, Expression] = {}
    by = []
    for number, each in enumerate(ordered):
        assert isinstance(each, exp.Ordered)
        name = f"__order{number}"
        with placed(each):
            hidden[name] = translator(each.this)
        by.append(name + in_words(each))
    return hidden, by


def in_words(node: exp.Ordered) -> str:
    """The order of a column, in the terms of tables: Spark has nulls first, and with DESC last."""
    descends, nulls_first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
    return (" desc" if descends else " asc") + (" nulls first" if nulls_first else " nulls last")
