"""The statements of a text: inputs that are declared, and views, each an output of the flow.

``create table`` declares an input. With a primary key its rows are upserts; without one they are added, and
what deletes rows is said with ``tblproperties``: ``'weight' = 'w'`` or ``'operation' = 'op'`` name the column
that says so, and of upserts ``'order'`` and ``'deleted'``. One query alone has the output ``result``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow import Dataflow
from pointstamp.errors import SqlError
from pointstamp.tables.table import Table
from pointstamp.views.catalog import Catalog
from pointstamp.views.parsing import parse
from pointstamp.views.parts import check_parts
from pointstamp.views.queries import Compiler, called, named, with_common_tables
from pointstamp.views.refusing import placed, refused

RESULT: Final = "result"
_OF_ROWS: Final = ("weight", "operation")
_OF_UPSERTS: Final = ("order", "deleted")


@dataclass(frozen=True, slots=True)
class InputDeclaration:
    """An input that a text declares: its columns, its key, and how its rows are meant."""

    name: str
    schema: str
    key: tuple[str, ...]
    properties: Mapping[str, str]


def flow_of(
    text: str,
    schemas: Mapping[str, str | pa.Schema],
    *,
    name: str,
    parameters: Mapping[str, object],
    rounds_max: int,
) -> Dataflow:
    """The flow that keeps the views of a text up to date."""
    flow = Dataflow(name)
    statements = parse(text)
    catalog = Catalog(
        {each.lower(): flow.input(each, schema).running() for each, schema in schemas.items()},
        parameters,
        rounds_max,
        compiler=Compiler(),
    )
    queries = [each for each in statements if not isinstance(each, exp.Create)]
    if len(queries) > 1:
        raise refused(
            queries[1], "a text has one query, or views that are created", "Write CREATE VIEW x AS before it."
        )
    if not statements:
        raise SqlError("line 1, column 1: the text has no statement. Write a query, or CREATE VIEW x AS.")
    outputs = 0
    for statement in statements:
        check_parts(statement)
        if isinstance(statement, exp.Create):
            catalog, is_view = _created(flow, statement, catalog)
            outputs += is_view
        else:
            made = _checked(statement, named(statement, catalog.compiler.query(statement, catalog)))
            flow.output(RESULT, made)
            outputs += 1
    if not outputs:
        raise refused(
            statements[-1], "the text declares inputs and no view", "Add a query, or CREATE VIEW x AS."
        )
    return flow


def _checked(node: exp.Expr, table: Table) -> Table:
    with placed(node):
        if "diff" in table.schema.names:
            raise refused(
                node, "a column cannot be called 'diff', which is what an output calls the change of a row"
            )
    return table


def _created(flow: Dataflow, node: exp.Create, catalog: Catalog) -> tuple[Catalog, bool]:
    kind = str(node.args.get("kind") or "").upper()
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    name = target.name
    if name.lower() in catalog.tables:
        raise refused(node, f"'{name}' is there already", "Give it another name.")
    if kind == "TABLE" and node.args.get("expression") is None:
        with placed(node):
            return catalog.with_table(name, _input(flow, declaration(node))), False
    if kind not in ("VIEW", "TABLE") or node.args.get("expression") is None:
        raise refused(node, f"CREATE {kind} is not supported here", "Write CREATE TABLE or CREATE VIEW.")
    if kind == "TABLE":
        raise refused(node, "CREATE TABLE AS is not supported", "Write CREATE VIEW x AS.")
    inside = with_common_tables(node, catalog)
    made = inside.compiler.query(node.expression, inside)
    if isinstance(node.this, exp.Schema):
        table = called(node, made.table, [each.name for each in node.this.expressions])
    else:
        table = named(node, made)
    table = _checked(node, table)
    properties = node.args.get("properties")
    is_temporary = properties is not None and properties.find(exp.TemporaryProperty) is not None
    if not is_temporary:
        flow.output(name, table)
    return catalog.with_table(name, table, is_single=made.is_single), not is_temporary


def declaration(node: exp.Create) -> InputDeclaration:
    """What CREATE TABLE says."""
    if not isinstance(node.this, exp.Schema):
        raise refused(node, "CREATE TABLE needs columns", "Write create table t (id long, ...).")
    key: list[str] = []
    columns = []
    for each in node.this.expressions:
        if isinstance(each, exp.PrimaryKey):
            key.extend(column.name for column in each.expressions)
            continue
        if not isinstance(each, exp.ColumnDef):
            raise refused(each, "this part of CREATE TABLE is not supported", "Leave it out.")
        words = f"`{each.name}` {each.args['kind'].sql(dialect='spark')}"
        for constraint in each.args.get("constraints") or []:
            if isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint):
                key.append(each.name)
            elif isinstance(constraint.kind, exp.NotNullColumnConstraint):
                words += " not null"
            elif not isinstance(constraint.kind, exp.CommentColumnConstraint):
                raise refused(constraint, "this constraint is not supported", "Leave it out.")
        columns.append(words)
    return InputDeclaration(node.this.this.name, ", ".join(columns), tuple(key), _properties(node, bool(key)))


def _properties(node: exp.Create, has_key: bool) -> dict[str, str]:
    known = _OF_UPSERTS if has_key else _OF_ROWS
    made = {}
    for each in node.args["properties"].expressions if node.args.get("properties") else []:
        name = each.this.name if isinstance(each, exp.Property) else ""
        if name not in known:
            kind = "with" if has_key else "without"
            raise refused(
                each,
                f"'{name or each.sql()}' is not known of a table {kind} a primary key",
                f"There are {', '.join(known)}.",
            )
        made[name] = each.args["value"].name
    return made


def _input(flow: Dataflow, declared: InputDeclaration) -> Table:
    more = declared.properties
    if declared.key:
        return flow.table(
            declared.name,
            declared.schema,
            key=declared.key,
            order=more.get("order"),
            deleted=more.get("deleted"),
        )
    stream = flow.input(declared.name, declared.schema)
    return stream.running(weight=more.get("weight"), operation=more.get("operation"))
