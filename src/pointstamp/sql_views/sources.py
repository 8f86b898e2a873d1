"""One item of FROM as a relation: a table, a query in parentheses, or rows that stand in the text."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from sqlglot import exp

from pointstamp.errors import FlowError
from pointstamp.expressions.compiling import compile_expression
from pointstamp.expressions.tree import Choice, Expression, col
from pointstamp.expressions.typing import common_of_all
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.pivoting import pivoted
from pointstamp.sql_views.refusing import placed, refused
from pointstamp.sql_views.scope import Relation, Scope, ScopeName, relation_of
from pointstamp.sql_views.translating import Translator

_ONE_ROW = pa.record_batch({"": pa.array([0])})


def source(node: exp.Expr, catalog: Catalog, needed: Iterable[str] | None) -> Relation:
    """A relation under its alias, with the columns that are needed."""
    if isinstance(node, exp.Table):
        if isinstance(node.this, exp.Anonymous):
            raise refused(node, f"the table function {node.this.name} is not supported")
        alias = node.alias or node.name
        made = catalog.relation(node)
    elif isinstance(node, exp.Subquery):
        alias = node.alias
        made = catalog.compiler.query(node.this, catalog)
    elif isinstance(node, exp.Values):
        alias = node.alias
        made = values(node, catalog)
    else:
        raise refused(node, "this cannot stand in FROM", "Write a table, or a query in parentheses.")
    for pivot in node.args.get("pivots") or []:
        made = pivoted(pivot, made, catalog)
        alias = pivot.alias or alias
    made = _with_columns_called(node, made)
    return made.called(alias, catalog.unique(alias or "query"), needed)


def values(node: exp.Values, catalog: Catalog) -> Relation:
    """Rows that stand in the text; columns are called col1, col2 and so on, as in Spark."""
    translate = Translator(Scope((), pa.schema([])), catalog.parameters)
    rows = [
        [translate(each) for each in (row.expressions if isinstance(row, exp.Tuple) else [row])]
        for row in node.expressions
    ]
    if any(len(row) != len(rows[0]) for row in rows):
        raise refused(node, "all rows of VALUES must have the same number of values")
    names = [f"col{n}" for n in range(1, len(rows[0]) + 1)]
    made = [_column(node, [row[n] for row in rows]) for n in range(len(names))]
    known = {name: column for name, column in zip(names, made, strict=True) if isinstance(column, pa.Array)}
    batch = pa.RecordBatch.from_pydict({_ROW: pa.array(range(len(rows))), **known})
    if len(known) == len(names):
        return relation_of(catalog.rows(node, batch.drop_columns([_ROW])), is_single=len(rows) == 1)
    wanted = {name: col(name) if name in known else column for name, column in zip(names, made, strict=True)}
    table = catalog.rows(node, batch).select(**wanted).named("values in the time zone")
    return relation_of(table, is_single=len(rows) == 1)


_ROW: Final = "the number of the row"


def _column(node: exp.Values, given: list[Expression]) -> pa.Array | Expression:
    """The values of a column; an expression over the number of the row, if they depend on the time zone."""
    kinds = []
    for each in given:
        try:
            kinds.append(compile_expression(each, _ONE_ROW.schema, "VALUES").type)
        except FlowError:
            if str(each) != "null":
                raise
            kinds.append(pa.null())
    with placed(node):
        met = common_of_all(kinds, "VALUES")
        if pa.types.is_null(met):
            raise refused(
                node, "a column of VALUES is always null, and has no type", "Cast it: cast(null as long)."
            )
        parts = [compile_expression(each.cast(met), _ONE_ROW.schema, "VALUES") for each in given]
    if any(each.uses_zone for each in parts):
        branches = ((col(_ROW) == number, each.cast(met)) for number, each in enumerate(given))
        return Choice(tuple(branches))
    return pa.concat_arrays([each(_ONE_ROW) for each in parts])


def _with_columns_called(node: exp.Expr, made: Relation) -> Relation:
    alias = node.args.get("alias")
    columns = [] if alias is None else [each.name for each in alias.args.get("columns") or []]
    if not columns:
        return made
    if len(columns) != len(made.names):
        raise refused(
            node, f"'{node.alias}' has {len(made.names)} columns, and {len(columns)} names are given"
        )
    names = tuple(
        ScopeName(each.table, column, each.at) for each, column in zip(made.names, columns, strict=True)
    )
    return Relation(made.table, names, made.is_single)
