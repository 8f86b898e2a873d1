"""What DuckDB makes of a logical plan: the oracle of the optimizer's law.

A plan is written as SQL, one common table expression per operator; a recursion is computed round by round,
from scratch. It shares no code with the rules or with what computes tables.
"""

# ruff: noqa: S608 - all names in the SQL are those of the generator

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import duckdb
import pyarrow as pa

from pointstamp.arrangement.ordering import Ordered, ordering
from pointstamp.expressions.tree import Call, CastTo, Choice, Column, Expression, Literal, Named, col
from pointstamp.plan import logical
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Scan, Variable, walk
from support.random_plans import SCHEMAS, Row, Rows


class NotInSqlError(Exception):
    """The plan has an operator that SQL does not have."""


def oracle(
    roots: Sequence[LogicalOperator], epochs: Sequence[Mapping[str, Sequence[Row]]]
) -> list[list[Rows]]:
    """Return for each root the rows after each epoch, as DuckDB computes them from scratch."""
    found: list[list[Rows]] = [[] for _ in roots]
    tables: dict[str, Rows] = {name: Counter() for name in SCHEMAS}
    with duckdb.connect(config={"threads": 1}) as db:
        db.execute("SET error_on_division_by_zero = false")
        for epoch in epochs:
            for name, rows in epoch.items():
                _add(name, tables, rows)
                _put(db, name, _columns(name), tables[name].elements())
            _compute_recursions(db, roots)
            for place, root in enumerate(roots):
                found[place].append(Counter(db.sql(sql_of(root)).fetchall()))
    return found


def _columns(name: str) -> pa.Schema:
    return pa.schema([each for each in SCHEMAS[name] if each.name not in ("w", "gone")])


def _add(name: str, tables: dict[str, Rows], rows: Sequence[Row]) -> None:
    table = tables[name]
    for row in rows:
        if name == "g":
            table[row] += 1
        elif name == "k":
            for old in [each for each in table if each[0] == row[0]]:
                del table[old]
            if not row[2]:
                table[row[:2]] = 1
        else:
            table[row[:-1]] += row[-1]


def _put(db: duckdb.DuckDBPyConnection, name: str, schema: pa.Schema, rows: Any) -> None:  # noqa: ANN401
    words = ", ".join(
        f'"{each.name}" {"VARCHAR" if each.type == pa.string() else "BIGINT"}' for each in schema
    )
    db.execute(f'CREATE OR REPLACE TEMP TABLE "{name}" ({words})')
    values = [list(row) for row in rows]
    if values:
        db.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(schema))})', values)


def _compute_recursions(db: duckdb.DuckDBPyConnection, roots: Sequence[LogicalOperator]) -> None:
    """Compute each recursion round by round, and put its tables where ``sql_of`` looks for them."""
    for loop in walk(roots):
        if not isinstance(loop, Iterate):
            continue
        pairs = list(zip(loop.variables, loop.starts, strict=True))
        rounds = [[] if start is None else _rows_in_order(db, start, variable) for variable, start in pairs]
        for _ in range(100):
            for variable, rows in zip(loop.variables, rounds, strict=True):
                _put(db, f"v{id(variable)}", variable.schema, rows)
            bodies = zip(loop.variables, loop.bodies, strict=True)
            made = [_rows_in_order(db, body, variable) for variable, body in bodies]
            is_done = all(Counter(new) == Counter(old) for new, old in zip(made, rounds, strict=True))
            rounds = made
            if is_done:
                break
        else:
            raise AssertionError("a recursion of the generator does not end")
        for place, (variable, rows) in enumerate(zip(loop.variables, rounds, strict=True)):
            _put(db, f"r{id(loop)} {place}", variable.schema, rows)


def _rows_in_order(db: duckdb.DuckDBPyConnection, operator: LogicalOperator, variable: Variable) -> list[Row]:
    names = _names(variable.schema.names)
    return db.sql(f"SELECT {names} FROM ({sql_of(operator)})").fetchall()


def sql_of(root: LogicalOperator) -> str:
    """Return a query of a plan, with a common table expression for each operator."""
    names: dict[int, str] = {}
    parts: list[str] = []
    for operator in walk([root]):
        if isinstance(operator, Iterate):
            continue
        name = f"n{len(names)}"
        inputs = [names[id(each)] for each in operator.inputs if id(each) in names]
        parts.append(f"{name} AS ({_query(operator, inputs)})")
        names[id(operator)] = name
    return f"WITH {', '.join(parts)} SELECT {_names(root.schema.names)} FROM {names[id(root)]}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _query(operator: LogicalOperator, inputs: list[str]) -> str:
    names = _names(operator.schema.names)
    match operator:
        case Scan():
            return f'SELECT {names} FROM "{operator.input}"'
        case Variable():
            return f'SELECT {names} FROM "v{id(operator)}"'
        case Recursive():
            return f'SELECT {names} FROM "r{id(operator.iterate)} {operator.place}"'
        case logical.Values():
            if not operator.rows.num_rows:
                nulls = ", ".join(
                    f'CAST(NULL AS {_type(each.type)}) AS "{each.name}"' for each in operator.schema
                )
                return f"SELECT {nulls} WHERE false"
            raise NotInSqlError
        case logical.Project():
            columns = ", ".join(f'{expression_sql(each)} AS "{name}"' for name, each in operator.columns)
            return f"SELECT {columns} FROM {inputs[0]}"
        case logical.Filter():
            return f"SELECT * FROM {inputs[0]} WHERE {expression_sql(operator.condition)}"
        case logical.MapBatches():
            return f'SELECT * REPLACE ("{operator.version}" + 1 AS "{operator.version}") FROM {inputs[0]}'
        case logical.TimeWindow():
            at, size = f'"{operator.at}"', operator.size
            start = f"{at} - ((({at} % {size}) + {size}) % {size})"
            columns = f'{start} AS "{operator.start}", {start} + {size} AS "{operator.end}"'
            return f"SELECT *, {columns} FROM {inputs[0]} WHERE {at} IS NOT NULL"
        case logical.Join():
            return _join_query(operator, inputs)
        case logical.Union():
            return " UNION ALL ".join(f"SELECT {names} FROM {each}" for each in inputs)
        case logical.Except() | logical.Intersect():
            word = "EXCEPT" if isinstance(operator, logical.Except) else "INTERSECT"
            copies = " ALL" if operator.keeps_copies else ""
            return f"SELECT {names} FROM {inputs[0]} {word}{copies} SELECT {names} FROM {inputs[1]}"
        case logical.Aggregate():
            shown = [f'"{key}"' for key in operator.keys]
            shown += [f'{_aggregate_sql(each)} AS "{name}"' for name, each in operator.aggregates]
            by = f" GROUP BY {_names(operator.keys)}" if operator.keys else ""
            return f"SELECT {', '.join(shown)} FROM {inputs[0]}{by}"
        case logical.Distinct():
            return f"SELECT DISTINCT * FROM {inputs[0]}"
        case logical.TopK():
            return _top_query(operator, inputs[0])
        case logical.WindowFunctions():
            return _functions_query(operator, inputs[0])
        case _:
            raise NotInSqlError


def _join_query(operator: logical.Join, inputs: list[str]) -> str:
    left, right = inputs
    keys = {theirs: mine for mine, theirs in operator.keys}
    mine = operator.left.schema.names
    shown = {}
    for name in mine:
        theirs = next((other for one, other in operator.keys if one == name), None)
        shown[name] = f'l."{name}"'
        if theirs is not None and operator.kind in ("right", "full"):
            shown[name] = f'coalesce(l."{name}", r."{theirs}")'
    for name in operator.right.schema.names:
        if name not in keys:
            shown[f"{name}{operator.suffix}" if name in mine else name] = f'r."{name}"'
    on = [f'l."{one}" = r."{other}"' for one, other in operator.keys]
    if operator.condition is not None:
        pairs = {
            name: each if not each.startswith("coalesce") else f'l."{name}"' for name, each in shown.items()
        }
        on.append(expression_sql(operator.condition, pairs))
    condition = " AND ".join(on) or "true"
    if operator.kind in ("semi", "anti"):
        word = "" if operator.kind == "semi" else "NOT "
        return f"SELECT l.* FROM {left} l WHERE {word}EXISTS (SELECT 1 FROM {right} r WHERE {condition})"
    kind = "INNER" if operator.kind == "cross" else operator.kind.upper()
    columns = ", ".join(f'{each} AS "{name}"' for name, each in shown.items())
    return f"SELECT {columns} FROM {left} l {kind} JOIN {right} r ON {condition}"


def _order_sql(orders: Sequence[Ordered]) -> str:
    return ", ".join(
        f'"{each.column}" {"DESC" if each.descends else "ASC"} NULLS {"LAST" if each.nulls_last else "FIRST"}'
        for each in orders
    )


def _over(keys: Sequence[str], order: str) -> str:
    by = f"PARTITION BY {_names(keys)} " if keys else ""
    return f"OVER ({by}ORDER BY {order})"


def _top_query(operator: logical.TopK, rows: str) -> str:
    schema = operator.input.schema
    everything = tuple(Ordered(name) for name in schema.names)
    asked = ordering("top", schema, operator.by) if operator.by else ()
    if operator.ties:
        place = f"rank() {_over(operator.keys, _order_sql(asked))}"
    else:
        place = f"row_number() {_over(operator.keys, _order_sql((*asked, *everything)))}"
    rank = operator.rank or "the place"
    inner = f'SELECT *, {place} AS "{rank}" FROM {rows}'
    return f'SELECT {_names(operator.schema.names)} FROM ({inner}) WHERE "{rank}" <= {operator.count}'


def _functions_query(operator: logical.WindowFunctions, rows: str) -> str:
    schema = operator.input.schema
    asked = ordering("functions", schema, operator.by)
    total = _order_sql((*asked, *(Ordered(name) for name in schema.names)))
    columns = []
    for name, each in operator.functions:
        match each.kind:
            case "row_number":
                made = f"row_number() {_over(operator.keys, total)}"
            case "rank":
                made = f"rank() {_over(operator.keys, _order_sql(asked))}"
            case "lag":
                made = f'lag("{each.column}", {each.offset}) {_over(operator.keys, total)}'
            case _:
                frame = f"{total} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
                made = f'CAST(sum("{each.column}") {_over(operator.keys, frame)} AS BIGINT)'
        columns.append(f'{made} AS "{name}"')
    return f"SELECT *, {', '.join(columns)} FROM {rows}"


def _aggregate_sql(each: Any) -> str:  # noqa: ANN401 - of a user
    value = (
        "*"
        if each.column is None
        else expression_sql(col(each.column) if isinstance(each.column, str) else each.column)
    )
    where = "" if each.where is None else f" FILTER (WHERE {expression_sql(each.where)})"
    return f"CAST({each.kind}({value}){where} AS BIGINT)"


def _type(found: pa.DataType) -> str:
    return "VARCHAR" if found == pa.string() else "BOOLEAN" if found == pa.bool_() else "BIGINT"


_SYMBOLS: Final = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "mod": "%",
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "and": "AND",
    "or": "OR",
    "equal_null_safe": "IS NOT DISTINCT FROM",
}


def expression_sql(expression: Expression, names: Mapping[str, str] | None = None) -> str:
    """Return an expression as SQL; ``names`` is where columns are."""
    match expression:
        case Column(name):
            return f'"{name}"' if names is None else names[name]
        case Literal(value):
            return "NULL" if value is None else repr(value)
        case Named(inner):
            return expression_sql(inner, names)
        case CastTo(inner):
            return f"CAST({expression_sql(inner, names)} AS BIGINT)"
        case Choice(branches, default):
            whens = " ".join(
                f"WHEN {expression_sql(one, names)} THEN {expression_sql(two, names)}"
                for one, two in branches
            )
            last = "" if default is None else f" ELSE {expression_sql(default, names)}"
            return f"(CASE {whens}{last} END)"
        case Call("not", (inner,)):
            return f"(NOT {expression_sql(inner, names)})"
        case Call("is_null", (inner,)):
            return f"({expression_sql(inner, names)} IS NULL)"
        case Call("coalesce", values):
            return f"coalesce({', '.join(expression_sql(each, names) for each in values)})"
        case Call(function, (one, other)):
            return f"({expression_sql(one, names)} {_SYMBOLS[function]} {expression_sql(other, names)})"
        case _:
            raise NotInSqlError
