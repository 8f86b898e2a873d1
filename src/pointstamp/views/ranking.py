"""Functions over windows of rows: OVER (PARTITION BY ... ORDER BY ...).

What stands in one order of a table is one operator (``Table.with_order``). A frame is all rows up to this one
(ROWS), or up to the last that is equal to it in the order (RANGE, SQL's default), or the whole partition; the
latter two take the value that the last of these rows has. Other frames are refused.

Where only the first rows are wanted (``row_number() over (...) <= 3``, in QUALIFY or by the query around this
one), only these are sent on (``Table.top``).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from sqlglot import exp

from pointstamp.expressions.compiling import compile_expression
from pointstamp.expressions.tree import Expression, col
from pointstamp.tables.in_order import OrderFunction, OrderKind
from pointstamp.tables.table import Table
from pointstamp.views.catalog import Catalog
from pointstamp.views.conditions import conjuncts
from pointstamp.views.limits import in_words
from pointstamp.views.literals import constant_int
from pointstamp.views.refusing import placed, refused
from pointstamp.views.rewriting import REWRITTEN_FUNCTIONS
from pointstamp.views.scope import Relation
from pointstamp.views.translating import Translator

AT_MOST: Final = "at most"
"""What the query around a select wants of its columns: mark of the node, from names to numbers."""

_PLACES: Final[dict[str, OrderKind]] = {
    "row_number": "row_number",
    "rank": "rank",
    "dense_rank": "dense_rank",
}
_NEIGHBOURS: Final[dict[str, OrderKind]] = {"lag": "lag", "lead": "lead"}
_RUNNING: Final[dict[str, OrderKind]] = {
    "sum": "running_sum",
    "count": "running_count",
    "avg": "running_mean",
    "mean": "running_mean",
    "min": "running_min",
    "max": "running_max",
}
_ENDS: Final = ("first_value", "first", "last_value", "last")
_ONE_ROW: Final = pa.record_batch({"": pa.array([0])})
WINDOW_FUNCTIONS: Final = frozenset([*_PLACES, *_NEIGHBOURS, *_RUNNING, *_ENDS])


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """The partition and the order of a window: columns of the table, and the order in words."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    by: tuple[str, ...]


def with_windows(
    relation: Relation,
    select: exp.Select,
    nodes: Sequence[exp.Expr],
    translator: Translator,
    catalog: Catalog,
    conditions: Sequence[exp.Expr],
) -> tuple[Relation, Translator]:
    """Rows with a column for each function over a window that stands in these nodes."""
    found = [each for node in nodes for each in node.find_all(exp.Window)]
    different = {each.sql(): each for each in found}
    limit = _limit(select, found, conditions) if len(different) == 1 else None
    table, names = relation.table, {}
    for words, node in different.items():
        whole = _named(node, select)
        with placed(node):
            table, order = _ordered(table, whole, translator, catalog)
            name = names[words] = catalog.unique("over")
            if limit is not None and _function(whole) in ("row_number", "rank"):
                ties = _function(whole) == "rank"
                table = table.top(limit, *order.keys, by=order.by, ties=ties, rank=name)
            else:
                table = _with_function(table, whole, order, name, translator)
    if not found:
        return relation, translator
    answers: dict[int, Expression] = {id(each): col(names[each.sql()]) for each in found}
    relation = relation.with_table(table)
    known = translator.knowing(answers)
    return relation, Translator(relation.scope, known.parameters, known.answers, known.keys, known.rows)


def _limit(select: exp.Select, found: list[exp.Window], conditions: Sequence[exp.Expr]) -> int | None:
    """How many places are wanted at most, if that is said."""
    wanted: dict[str, int] = dict(select.meta.get(AT_MOST, {}))
    limits = [
        wanted[name.lower()] for name, each in _aliased(select) if each in found and name.lower() in wanted
    ]
    for condition in conditions:
        for part in conjuncts(condition):
            if (at_most := places_wanted(part)) is not None and part.this.unnest() in found:
                limits.append(at_most)
    return max(min(limits), 1) if limits else None


def _aliased(select: exp.Select) -> list[tuple[str, exp.Expr]]:
    return [(each.alias, each.this) for each in select.expressions if isinstance(each, exp.Alias)]


def places_wanted(condition: exp.Expr) -> int | None:
    """The greatest number that a condition such as ``place <= 3`` lets through."""
    said = condition.args.get("expression")
    if not isinstance(said, exp.Literal) or said.is_string or not str(said.this).isdigit():
        return None
    if isinstance(condition, exp.LTE | exp.EQ):
        return int(str(said.this))
    return int(str(said.this)) - 1 if isinstance(condition, exp.LT) else None


def _named(node: exp.Window, select: exp.Select) -> exp.Window:
    """A window that was given a name, with what the name stands for."""
    name = node.args.get("alias")
    if name is None:
        return node
    for each in select.args.get("windows") or []:
        if each.name.lower() == name.name.lower():
            made: exp.Window = each.copy()
            made.set("this", node.this.copy())
            return made
    raise refused(node, f"there is no window '{name.name}'", "Declare it: WINDOW w AS (...).")


def _function(node: exp.Window) -> str:
    call = node.this
    if not isinstance(call, exp.Anonymous) or str(call.this).lower() not in WINDOW_FUNCTIONS:
        known = ", ".join(sorted(WINDOW_FUNCTIONS | REWRITTEN_FUNCTIONS))
        raise refused(node, f"'{call.sql()[:40]}' over a window is not supported; there are {known}")
    return str(call.this).lower()


def _ordered(
    table: Table, node: exp.Window, translator: Translator, catalog: Catalog
) -> tuple[Table, WindowOrder]:
    """A table with the columns of a window's partition and order."""
    _function(node)
    prefix, added, keys, columns, by = catalog.unique("window"), [], [], [], []
    for number, each in enumerate(node.args.get("partition_by") or []):
        keys.append(f"{prefix}.key{number}")
        added.append(translator(each).alias(keys[-1]))
    order = node.args.get("order")
    for number, each in enumerate([] if order is None else order.expressions):
        columns.append(f"{prefix}.order{number}")
        added.append(translator(each.this).alias(columns[-1]))
        by.append(columns[-1] + in_words(each))
    wide = table.select(*table.schema.names, *added, name="window") if added else table
    return wide, WindowOrder(tuple(keys), tuple(columns), tuple(by))


def _with_function(
    table: Table, node: exp.Window, order: WindowOrder, name: str, translator: Translator
) -> Table:
    function, call = _function(node), node.this
    by = order.by or tuple(table.schema.names[:1])
    arguments = [translator(each) for each in call.expressions if not isinstance(each, exp.Star)]
    if function in _PLACES or function in _NEIGHBOURS:
        if not order.by:
            raise refused(node, f"{function} needs ORDER BY in its window")
        made = _of_place(function, call, arguments)
        return table.with_order(*order.keys, by=by, functions={name: made})
    frame = _frame(node, order)
    if function in _ENDS:
        return _end(table, function, arguments, order, frame, name, by)
    running = OrderFunction(_RUNNING[function], arguments[0] if arguments else None)
    if frame == "rows":
        return table.with_order(*order.keys, by=by, functions={name: running})
    between = f"{name} so far"
    first = table.with_order(*order.keys, by=by, functions={between: running})
    return _last(first, order, frame, name, col(between), by)


def _last(
    table: Table, order: WindowOrder, frame: str, name: str, value: Expression, by: tuple[str, ...]
) -> Table:
    """The value that the last row has: of the partition, or of the rows that are equal in the order."""
    keys = (*order.keys, *order.columns) if frame == "range" else order.keys
    return table.with_order(*keys, by=by, functions={name: OrderFunction("last_value", value)})


def _end(
    table: Table,
    function: str,
    arguments: list[Expression],
    order: WindowOrder,
    frame: str,
    name: str,
    by: tuple[str, ...],
) -> Table:
    if function.startswith("first"):
        return table.with_order(
            *order.keys, by=by, functions={name: OrderFunction("first_value", arguments[0])}
        )
    if frame == "rows":
        return table.select(*table.schema.names, arguments[0].alias(name), name="last value")
    return _last(table, order, frame, name, arguments[0], by)


def _of_place(function: str, call: exp.Anonymous, arguments: list[Expression]) -> OrderFunction:
    if function in _PLACES:
        return OrderFunction(_PLACES[function])
    offset = constant_int(call.expressions[1], f"the offset of {function}") if len(arguments) > 1 else 1
    if len(arguments) <= 2:
        return OrderFunction(_NEIGHBOURS[function], arguments[0], offset)
    default = compile_expression(arguments[2], _ONE_ROW.schema, f"the default of {function}")(_ONE_ROW)
    return OrderFunction(_NEIGHBOURS[function], arguments[0], offset, default[0].as_py())


def _frame(node: exp.Window, order: WindowOrder) -> str:
    """Which rows a function sees: "rows" up to this one, "range" with those equal to it, or "all"."""
    spec = node.args.get("spec")
    if spec is None:
        return "range" if order.by else "all"
    start, end = spec.args.get("start"), spec.args.get("end")
    if start == "UNBOUNDED" and spec.args.get("start_side", "").upper() == "PRECEDING":
        if end == "UNBOUNDED":
            return "all"
        if end in ("CURRENT ROW", None):
            return "rows" if str(spec.args.get("kind")).upper() == "ROWS" and order.by else "range"
    said = spec.sql(dialect="spark").upper()
    raise refused(
        node,
        f"the frame {said} is not supported; there is UNBOUNDED PRECEDING to CURRENT ROW or to UNBOUNDED "
        "FOLLOWING",
        "For a few rows before or after write lag(x, 1), lag(x, 2) or lead(x, 1), and combine them.",
    )
