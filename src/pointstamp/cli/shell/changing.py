"""INSERT, DELETE and UPDATE: which rows of a table come and go.

Each is asked as a query over the tables and views as they are, so that all that a query may say can stand
there. Values are cast to the types of the columns. In a table with a primary key a row that is inserted
replaces the one with its key, as everywhere; two rows with one key are refused.
"""

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from pointstamp.cli.shell.session import ShellSession
from pointstamp.cli.shell.stored import StoredTable, weighed_rows
from pointstamp.errors import FlowError, SqlError
from pointstamp.expressions.compiling import compile_expression
from pointstamp.expressions.tree import col, lit
from pointstamp.rows.ddl import to_ddl
from pointstamp.sql_views.parts import check_parts
from pointstamp.sql_views.refusing import placed, refused


def change(session: ShellSession, node: exp.Insert | exp.Delete | exp.Update) -> int:
    """Let a statement change its table, with the next epoch; how many rows it changed."""
    check_parts(node)
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    stored = _target(session, target)
    if stored.is_growing and not isinstance(node, exp.Insert):
        raise refused(
            node,
            f"'{stored.name}' has a watermark, so rows are only added to it",
            "Create it without one to delete rows.",
        )
    with placed(node):
        if isinstance(node, exp.Insert):
            gone, come = _replaced(stored, node, _inserted(session, stored, node))
        elif isinstance(node, exp.Delete):
            gone, come = _found(session, stored, node, []), stored.empty
        else:
            gone, come = _updated(session, stored, node)
        add(session, stored, gone, come)
    return max(int(gone.num_rows), int(come.num_rows))


def add(session: ShellSession, stored: StoredTable, gone: pa.Table, come: pa.Table) -> None:
    """Let rows go and others come; refused where two would have one key."""
    changes = [weighed_rows(gone, -1, stored.weighed), weighed_rows(come, 1, stored.weighed)]
    session.change(stored.name.lower(), changes)
    key = list(stored.declared.key) if stored.declared is not None else []
    if key and come.num_rows:
        counted = stored.rows().group_by(key).aggregate([([], "count_all")])
        for row in counted.to_pylist():
            if row["count_all"] > 1:
                del stored.pending[-len(changes) :]
                words = ", ".join(f"{name} = {row[name]!r}" for name in key)
                raise FlowError(f"two rows of '{stored.name}' would have the key {words}.")


def loaded(session: ShellSession, name: str, rows: pa.Table) -> int:
    """Add the rows of a file to a table; how many they are."""
    stored = session.tables[name.lower()]
    gone, come = replaced_by(stored, rows)
    add(session, stored, gone, come)
    return int(rows.num_rows)


def _target(session: ShellSession, node: exp.Expr) -> StoredTable:
    stored = session.tables.get(node.name.lower())
    if stored is None:
        if node.name.lower() in session.views:
            raise refused(node, f"'{node.name}' is a view", "Change the tables that it is made of.")
        known = ", ".join(f"'{each}'" for each in session.tables) or "none"
        raise refused(node, f"there is no table '{node.name}'; there are {known}")
    return stored


def _inserted(session: ShellSession, stored: StoredTable, node: exp.Insert) -> pa.Table:
    names = _named_columns(stored, node)
    if isinstance(node.expression, exp.Values):
        rows = node.expression.expressions
        query = exp.Values(expressions=[_row(stored, names, each) for each in rows])
        return session.value(query).rename_columns(stored.schema.names).cast(stored.schema)
    if not isinstance(node.expression, exp.Query):
        raise refused(node, "INSERT takes VALUES or a query", "Write insert into t values (1, 2).")
    made = session.value(node.expression)
    if made.num_columns != len(names):
        raise refused(
            node, f"the query has {made.num_columns} columns for the {len(names)} columns {', '.join(names)}"
        )
    given = {name: col(own) for name, own in zip(names, made.column_names, strict=True)}
    (rows,) = made.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], made.schema)]
    columns = [
        compile_expression(given.get(each.name, lit(None)).cast(each.type), rows.schema, "INSERT")(rows)
        for each in stored.schema
    ]
    return pa.Table.from_arrays(columns, schema=stored.schema)


def _named_columns(stored: StoredTable, node: exp.Insert) -> list[str]:
    """The columns that INSERT names, or all of them."""
    if not isinstance(node.this, exp.Schema):
        return list(stored.schema.names)
    known = {each.lower(): each for each in stored.schema.names}
    for each in node.this.expressions:
        if each.name.lower() not in known:
            columns = ", ".join(f"'{name}'" for name in stored.schema.names)
            raise refused(each, f"'{stored.name}' has no column '{each.name}'; it has {columns}")
    return [known[each.name.lower()] for each in node.this.expressions]


def _row(stored: StoredTable, names: Sequence[str], row: exp.Expr) -> exp.Tuple:
    """One row of VALUES, with all columns of the table as their types."""
    values = row.expressions if isinstance(row, exp.Tuple) else [row]
    if len(values) != len(names):
        raise refused(row, f"there are {len(values)} values for the {len(names)} columns {', '.join(names)}")
    wanted = {name.lower(): value for name, value in zip(names, values, strict=True)}
    return exp.Tuple(expressions=[each.this for each in _all_columns(stored, wanted)])


def _all_columns(stored: StoredTable, wanted: dict[str, exp.Expr]) -> list[exp.Expr]:
    """Each column of a table: what is wanted of it, cast to its type, else null."""
    made = []
    for each in stored.schema:
        value = wanted.get(each.name.lower(), exp.Null()).copy()
        made.append(exp.alias_(_as_type(value, each.type), each.name, quoted=True))
    return made


def _as_type(value: exp.Expr, data_type: pa.DataType) -> exp.Expr:
    kind = to_ddl(pa.schema([("x", data_type)])).partition(" ")[2]
    return exp.Cast(this=value, to=exp.DataType.build(kind, dialect="spark"))


def _replaced(stored: StoredTable, node: exp.Insert, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    if node.args.get("overwrite"):
        raise refused(
            node, "INSERT OVERWRITE is not supported", "Write begin; delete from t; insert ...; commit."
        )
    return replaced_by(stored, rows)


def replaced_by(stored: StoredTable, rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that go because others with their key come, and those that come."""
    key = list(stored.declared.key) if stored.declared is not None else []
    if not key:
        return stored.empty, rows
    there = stored.rows()
    return there.join(rows.select(key), key, join_type="left semi").select(there.column_names), rows


def _found(
    session: ShellSession, stored: StoredTable, node: exp.Delete | exp.Update, more: list[exp.Expr]
) -> pa.Table:
    """The rows of a table that a condition means, and what is worked out of each."""
    target = node.this
    own: list[exp.Expr] = [
        exp.alias_(exp.column(each, table=target.alias_or_name), f"old {n}", quoted=True)
        for n, each in enumerate(stored.schema.names)
    ]
    query = exp.Select(expressions=[*own, *more]).from_(target.copy(), copy=False)
    if node.args.get("where") is not None:
        query.set("where", node.args["where"].copy())
    made = session.value(query)
    return made if more else made.rename_columns(stored.schema.names).cast(stored.schema)


def _updated(session: ShellSession, stored: StoredTable, node: exp.Update) -> tuple[pa.Table, pa.Table]:
    given: dict[str, exp.Expr] = {}
    known = {each.lower() for each in stored.schema.names}
    for each in node.expressions:
        if not isinstance(each, exp.EQ) or each.this.name.lower() not in known:
            raise refused(each, f"UPDATE sets columns of '{stored.name}'", "Write set price = price + 1.")
        given[each.this.name.lower()] = each.expression
    wanted = {
        each.name.lower(): given.get(each.name.lower(), exp.column(each.name, table=node.this.alias_or_name))
        for each in stored.schema
    }
    new: list[exp.Expr] = [
        exp.alias_(each.this, f"new {n}", quoted=True) for n, each in enumerate(_all_columns(stored, wanted))
    ]
    made, count = _found(session, stored, node, new), len(stored.schema)
    names = made.column_names
    old, come = made.select(names[:count]), made.select(names[count:])
    schema = stored.schema
    return old.rename_columns(schema.names).cast(schema), come.rename_columns(schema.names).cast(schema)


def unknown(node: exp.Expr) -> SqlError:
    """What to raise for a statement that the shell does not know."""
    words = node.name.upper() if isinstance(node, exp.Command) else node.key.upper()
    return refused(node, f"the shell has no statement {words}", "Write .help for the statements that it has.")
