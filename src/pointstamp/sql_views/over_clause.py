"""Functions over windows of rows: OVER (PARTITION BY ... ORDER BY ...).

What stands in one order of a table is one operator (``Table.over``), so that copies of a row have the
same places for all functions. A frame is what SQL says: rows from so many before to so many behind (ROWS), up
to the last that is equal to this one in the order (RANGE, SQL's default), the complete partition, or the rows
whose value in the order is so near (RANGE by a distance, this module).

Where only the first rows are wanted (``row_number() over (...) <= 3``, in QUALIFY or by the query around this
one), only these are sent on (``Table.top``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import inf
from typing import Final

import pyarrow as pa
from pyarrow import types
from sqlglot import exp

from pointstamp.dataflow.table import Table
from pointstamp.errors import SqlError
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import Expression, col
from pointstamp.incremental.window_functions import OrderFunction, OrderKind, RowFrame
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.condition_parts import conjuncts
from pointstamp.sql_views.desugaring import REWRITTEN_FUNCTIONS
from pointstamp.sql_views.expression_translation import Translator
from pointstamp.sql_views.literals import constant_int, interval_length
from pointstamp.sql_views.order_by import in_words
from pointstamp.sql_views.rejection import placed, refused
from pointstamp.sql_views.scope import Relation

AT_MOST: Final = "at most"
"""The mark of a node with the columns that the outer query uses: from names to numbers."""

_PLACES: Final[dict[str, OrderKind]] = {
    "row_number": "row_number",
    "rank": "rank",
    "dense_rank": "dense_rank",
}
_NEIGHBOURS: Final[dict[str, OrderKind]] = {"lag": "lag", "lead": "lead"}
_RUNNING: Final[dict[str, OrderKind]] = {
    "sum": "running_sum",
    "count": "running_count",
    "avg": "running_avg",
    "mean": "running_avg",
    "min": "running_min",
    "max": "running_max",
}
_OF_ENDS: Final[dict[str, OrderKind]] = {
    "first_value": "first_value",
    "first": "first_value",
    "last_value": "last_value",
    "last": "last_value",
}
_ONE_ROW: Final = pa.record_batch({"": pa.array([0])})
_ALL: Final = inf
_WHOLE: Final = RowFrame(None, None)
_UP_TO_EQUALS: Final = RowFrame(None, 0, with_equals=True)
WINDOW_FUNCTIONS: Final = frozenset([*_PLACES, *_NEIGHBOURS, *_RUNNING, *_OF_ENDS])


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """The partition and the order of a window: columns of the table, and the order as text."""

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
    if not found:
        return relation, translator
    different = {each.sql(): each for each in found}
    limit = _limit(select, found, conditions) if len(different) == 1 else None
    names = {words: catalog.unique("over") for words in different}
    table = relation.table
    for same in _by_order(different).values():
        with placed(same[0][1]):
            table, order = _ordered(table, same[0][1], translator, catalog)
        table = _with_functions(table, same, order, names, translator, limit)
    answers: dict[int, Expression] = {id(each): col(names[each.sql()]) for each in found}
    relation = relation.with_table(table)
    known = translator.knowing(answers)
    return relation, Translator(relation.scope, known.parameters, known.answers, known.keys, known.rows)


def _by_order(different: dict[str, exp.Window]) -> dict[str, list[tuple[str, exp.Window]]]:
    """Windows with one partition and one order together: they see rows that are equal in the same order."""
    made: dict[str, list[tuple[str, exp.Window]]] = {}
    for words, node in different.items():
        keys = [each.sql() for each in node.args.get("partition_by") or []]
        order = node.args.get("order")
        made.setdefault(f"{keys} {'' if order is None else order.sql()}", []).append((words, node))
    return made


def _with_functions(
    table: Table,
    same: list[tuple[str, exp.Window]],
    order: WindowOrder,
    names: dict[str, str],
    translator: Translator,
    limit: int | None,
) -> Table:
    """A table with the functions over windows of one order."""
    by = order.by or tuple(table.schema.names[:1])
    if limit is not None and (kind := _function(same[0][1])) in ("row_number", "rank"):
        with placed(same[0][1]):
            _check_order(same[0][1], order)
            rank = names[same[0][0]]
            return table.top(limit, *order.keys, by=order.by, ties=kind == "rank", rank=rank)
    functions: dict[str, OrderFunction] = {}
    for words, node in same:
        with placed(node):
            functions[names[words]] = _order_function(node, order, translator)
    with placed(same[0][1]):
        return table.with_columns(
            {
                each: function.over(partition_by=order.keys, order_by=by)
                for each, function in functions.items()
            }
        )


def _limit(select: exp.Select, found: list[exp.Window], conditions: Sequence[exp.Expr]) -> int | None:
    """The maximum row number that is used, if there is one."""
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


def _function(node: exp.Window) -> str:
    call = _call(node)
    if not isinstance(call, exp.Anonymous) or str(call.this).lower() not in WINDOW_FUNCTIONS:
        known = ", ".join(sorted(WINDOW_FUNCTIONS | REWRITTEN_FUNCTIONS))
        raise refused(node, f"'{call.sql()[:40]}' over a window is not supported; there are {known}")
    return str(call.this).lower()


def _call(node: exp.Window) -> exp.Expr:
    """The call of a function over a window, without IGNORE NULLS around it."""
    found: exp.Expr = node.this.this if isinstance(node.this, exp.IgnoreNulls) else node.this
    return found


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
    wide = table.select(*table.schema.names, *added).named("window") if added else table
    return wide, WindowOrder(tuple(keys), tuple(columns), tuple(by))


def _order_function(node: exp.Window, order: WindowOrder, translator: Translator) -> OrderFunction:
    function, call = _function(node), _call(node)
    ignores_nulls = isinstance(node.this, exp.IgnoreNulls)
    if ignores_nulls and function not in _NEIGHBOURS and function not in _OF_ENDS:
        raise refused(node, f"{function} does not support IGNORE NULLS", "Leave it out.")
    arguments = [translator(each) for each in call.expressions if not isinstance(each, exp.Star)]
    if function in _PLACES or function in _NEIGHBOURS:
        _check_order(node, order)
        if node.args.get("spec") is not None:
            raise refused(node, f"{function} does not support a frame", "Remove the frame.")
        return replace(_of_place(function, call, arguments), ignores_nulls=ignores_nulls)
    kind = _RUNNING.get(function) or _OF_ENDS[function]
    if kind.endswith("_value") and len(arguments) != 1:
        raise refused(node, f"{function} takes one value, got {len(arguments)}")
    frame = _frame(node, order, translator)
    value = arguments[0] if arguments else None
    return OrderFunction(kind, value, frame=frame, ignores_nulls=ignores_nulls)


def _check_order(node: exp.Window, order: WindowOrder) -> None:
    if not order.by:
        raise refused(node, f"{_function(node)} needs ORDER BY in its window")


def _of_place(function: str, call: exp.Expr, arguments: list[Expression]) -> OrderFunction:
    if function in _PLACES:
        return OrderFunction(_PLACES[function])
    offset = constant_int(call.expressions[1], f"the offset of {function}") if len(arguments) > 1 else 1
    if len(arguments) <= 2:
        return OrderFunction(_NEIGHBOURS[function], arguments[0], offset)
    compiled = compile_expression(arguments[2], _ONE_ROW.schema, f"the default of {function}")
    if compiled.uses_zone:
        raise refused(
            call, f"the default of {function} depends on the time zone", "Use coalesce around the function."
        )
    default = compiled(_ONE_ROW)
    return OrderFunction(_NEIGHBOURS[function], arguments[0], offset, default[0].as_py())


def _frame(node: exp.Window, order: WindowOrder, translator: Translator) -> RowFrame | None:
    """The frame of a function; None for the rows up to the current one, the default of ``over``."""
    spec = node.args.get("spec")
    if spec is None:
        return _UP_TO_EQUALS if order.by else _WHOLE
    is_rows = str(spec.args.get("kind")).upper() == "ROWS"
    kind = None if is_rows else _type_of_order(node, translator)
    before, behind = (distance(node, spec, end, kind) for end in ("start", "end"))
    if before + behind < 0:
        raise refused(node, "this frame ends before it begins", "Write the earlier row first.")
    if not is_rows and (before, behind) == (_ALL, 0):
        return _UP_TO_EQUALS if order.by else _WHOLE
    if (before, behind) == (_ALL, 0) and _function(node) in _RUNNING:
        return None
    by_distance = not is_rows and (before, behind) != (_ALL, _ALL)
    if by_distance:
        check_has_distances(node, spec, kind)
    first, last = (None if each == _ALL else int(each) for each in (before, behind))
    return RowFrame(first, last, by_distance=by_distance)


def _type_of_order(node: exp.Window, translator: Translator) -> pa.DataType | None:
    """The type of the one value by which a window is ordered; None if there is not one."""
    order = node.args.get("order")
    if order is None or len(order.expressions) != 1:
        return None
    return translator.type_of(translator(order.expressions[0].this))


# How far a frame of a window reaches: so many rows, or so far in the value that its rows are ordered by.

_OUTWARDS: Final = {"start": "PRECEDING", "end": "FOLLOWING"}
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def distance(node: exp.Window, spec: exp.WindowSpec, end: str, order: pa.DataType | None) -> float:
    """The distance of a frame's end, negative on the other side, infinite if it is unbounded.

    With the type of an order it is a distance of its values, in their unit; without one, so many rows.
    """
    said, side = spec.args.get(end), str(spec.args.get(f"{end}_side") or "").upper()
    if said in ("CURRENT ROW", None):
        return 0
    if said == "UNBOUNDED":
        if side != _OUTWARDS[end]:
            raise refused(node, "this frame ends before it begins", "Write the earlier row first.")
        return inf
    is_rows = str(spec.args.get("kind")).upper() == "ROWS"
    found = _rows(said) if is_rows else _in_unit(said, order)
    if found is None:
        raise _refused(node, spec, order, is_rows=is_rows)
    return found if side == _OUTWARDS[end] else -found


def check_has_distances(node: exp.Window, spec: exp.WindowSpec, order: pa.DataType | None) -> None:
    """Refuse a frame by a distance where the values of the order have none."""
    if order is None or not (
        types.is_signed_integer(order) or types.is_date32(order) or types.is_timestamp(order)
    ):
        raise _refused(node, spec, order, is_rows=False)


def _rows(said: exp.Expr) -> int | None:
    is_number = isinstance(said, exp.Literal) and not said.is_string and said.name.isdigit()
    return int(said.name) if is_number else None


def _in_unit(said: exp.Expr, order: pa.DataType | None) -> int | None:
    """A distance of values of a type: a number, of dates so many days, or an interval of times."""
    if order is None:
        return None
    if types.is_signed_integer(order):
        return _rows(said)
    length = interval_length(said) if isinstance(said, exp.Interval) else None
    if types.is_date32(order):
        is_whole = length is not None and not length % timedelta(days=1)
        return length.days if is_whole and length is not None else _rows(said)
    if types.is_timestamp(order) and length is not None:
        micros = length // timedelta(microseconds=1)
        return micros * _PER_SECOND[order.unit] // 10**6
    return None


def _refused(node: exp.Window, spec: exp.WindowSpec, order: pa.DataType | None, *, is_rows: bool) -> SqlError:
    words = f"the frame {spec.sql(dialect='spark').upper()}"
    if is_rows:
        return refused(node, f"{words} needs a literal number of rows")
    if order is None:
        return refused(
            node,
            f"{words} is a distance, so it needs one value in ORDER BY",
            "Write it, or a frame of ROWS.",
        )
    return refused(
        node,
        f"{words} does not fit the order by a {order}; a distance is a number for integers, days for dates, "
        "and an interval for timestamps, and a literal",
        "Cast what is ordered by, or write a frame of ROWS.",
    )
