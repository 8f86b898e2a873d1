"""The statements of a text: inputs that are declared, and views, each an output of the flow.

A view may speak of the tables and views before it. Each is compiled once, and who uses it reads what it
sends: a view that two others use is one operator, whose rows both take. One query alone has the output
``result``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.table import Table, one_clock
from pointstamp.errors import SqlError
from pointstamp.flow.plan import NodeKind
from pointstamp.rows.undeclared import ExtraColumns, check_extra_columns
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.declaring import InputDeclaration, declaration, input_table
from pointstamp.sql_views.mutual import mutually_recursive, ordered_groups
from pointstamp.sql_views.parsing import TOO_DEEP, parse
from pointstamp.sql_views.parts import check_parts
from pointstamp.sql_views.queries import Compiler, called, named, with_common_tables
from pointstamp.sql_views.refusing import placed, refused
from pointstamp.sql_views.rewriting import rewritten

RESULT: Final = "result"

MakeInput: TypeAlias = Callable[[Dataflow, InputDeclaration], Table]
"""Makes the table of an input that a text declares."""


def flow_of(
    text: str,
    schemas: Mapping[str, str | pa.Schema],
    *,
    name: str,
    parameters: Mapping[str, object],
    rounds_max: int,
    extra_columns: ExtraColumns = "warn",
    time_zone: str | None = None,
) -> Dataflow:
    """The flow that keeps the views of a text up to date."""
    flow = flow_of_statements(
        parse(text), schemas, name=name, parameters=parameters, rounds_max=rounds_max, time_zone=time_zone
    )
    check_extra_columns(f"flow '{name}'", extra_columns)
    for node in flow.plan.named(NodeKind.INPUT).values():
        node.extra_columns = extra_columns
    return flow


def flow_of_statements(
    statements: Sequence[exp.Expr],
    schemas: Mapping[str, str | pa.Schema],
    *,
    name: str,
    parameters: Mapping[str, object],
    rounds_max: int,
    time_zone: str | None = None,
) -> Dataflow:
    """The flow that keeps the views of statements up to date; SqlError if there is none among them."""
    made = ViewsFlow(name, parameters, rounds_max, time_zone=time_zone)
    for each, schema in schemas.items():
        made.add_input(each, schema)
    queries = [each for each in statements if not isinstance(each, exp.Create)]
    if len(queries) > 1:
        raise refused(
            queries[1], "a text has one query, or views that are created", "Write CREATE VIEW x AS before it."
        )
    if not statements:
        raise SqlError("line 1, column 1: the text has no statement. Write a query, or CREATE VIEW x AS.")
    for group in _in_groups(statements):
        if isinstance(group, list):
            made.add_recursive(group)
        else:
            made.add(group)
    if not made.views:
        raise refused(
            statements[-1], "the text declares inputs and no view", "Add a query, or CREATE VIEW x AS."
        )
    return made.flow


def _in_groups(statements: Sequence[exp.Expr]) -> list[exp.Expr | list[exp.Expr]]:
    """Return statements in the order of the text, with views that refer to each other as a list."""
    views = {_name_of(each): each for each in statements if _is_view(each)}
    groups = [each for each in ordered_groups(views, lambda view: view.expression) if isinstance(each, list)]
    last = {id(group[-1]): group for group in groups}
    grouped = {id(each) for group in groups for each in group}
    made: list[exp.Expr | list[exp.Expr]] = []
    for statement in statements:
        if id(statement) in last:
            made.append(last[id(statement)])
        elif id(statement) not in grouped:
            made.append(statement)
    return made


def _is_view(statement: exp.Expr) -> bool:
    kind = str(statement.args.get("kind") or "").upper()
    return isinstance(statement, exp.Create) and kind == "VIEW" and statement.expression is not None


class ViewsFlow:
    """A flow that grows by a statement at a time."""

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, object],
        rounds_max: int,
        make_input: MakeInput = input_table,
        *,
        time_zone: str | None = None,
    ) -> None:
        self.flow = Dataflow(name, time_zone=time_zone)
        self.views: list[str] = []
        """The names of the views that are outputs."""
        self._make_input = make_input
        self._catalog = Catalog({}, parameters, rounds_max, compiler=Compiler())

    @property
    def singles(self) -> frozenset[str]:
        """The names of tables that never have more than one row."""
        return self._catalog.singles

    def add_input(self, name: str, schema: str | pa.Schema, *, is_single: bool = False) -> None:
        """A table to which rows are added."""
        table = self.flow.table(name, schema)
        self._catalog = self._catalog.with_table(name, table, is_single=is_single)

    def add(self, statement: exp.Expr) -> None:
        """A table or a view that is created, or the one query; SqlError says what is refused."""
        check_parts(statement)
        statement = rewritten(statement, self._catalog.parameters)
        try:
            if isinstance(statement, exp.Create):
                self._create(statement)
                return
            with one_clock(self._read_by(statement)):
                made = named(statement, self._catalog.compiler.query(statement, self._catalog))
        except RecursionError as error:  # queries in queries, in which less than DEPTH_MAX may be too much
            raise refused(statement, "the query is nested too deeply", TOO_DEEP) from error
        self._output(RESULT, statement, made)

    def add_recursive(self, statements: Sequence[exp.Expr]) -> None:
        """Views that refer to each other."""
        made = {}
        for each in statements:
            check_parts(each)
            if each.args.get("with_") is not None:
                raise refused(each, "WITH of views that refer to each other is not supported", "Write views.")
            name = _name_of(each)
            if name.lower() in self._catalog.tables:
                raise refused(each, f"'{name}' is there already", "Give it another name.")
            made[name] = rewritten(each, self._catalog.parameters)
        read = {id(table): table for each in made.values() for table in self._read_by(each)}
        with one_clock(list(read.values())):
            tables = mutually_recursive(made, self._catalog)
        for name, table in tables.items():
            if not _is_temporary(made[name]):
                self._output(name, made[name], table)
            self._catalog = self._catalog.with_table(name, table)

    def _read_by(self, statement: exp.Expr) -> list[Table]:
        """The tables and views that a statement reads, in subqueries, too."""
        names = dict.fromkeys(each.name.lower() for each in statement.find_all(exp.Table))
        return [self._catalog.tables[name] for name in names if name in self._catalog.tables]

    def _create(self, node: exp.Create) -> None:
        kind = str(node.args.get("kind") or "").upper()
        target = node.this.this if isinstance(node.this, exp.Schema) else node.this
        name, query = target.name, node.args.get("expression")
        if name.lower() in self._catalog.tables:
            raise refused(node, f"'{name}' is there already", "Give it another name.")
        if kind == "TABLE" and query is None:
            with placed(node):
                table = self._make_input(self.flow, declaration(node))
            self._catalog = self._catalog.with_table(name, table)
            return
        if kind not in ("VIEW", "TABLE") or query is None:
            raise refused(node, f"CREATE {kind} is not supported here", "Write CREATE TABLE or CREATE VIEW.")
        if kind == "TABLE":
            raise refused(node, "CREATE TABLE AS is not supported", "Write CREATE VIEW x AS.")
        self._create_view(node, name)

    def _create_view(self, node: exp.Create, name: str) -> None:
        with one_clock(self._read_by(node)):
            inside = with_common_tables(node, self._catalog)
            made = inside.compiler.query(node.expression, inside)
        if isinstance(node.this, exp.Schema):
            made = called(node, made, [each.name for each in node.this.expressions])
        table = named(node, made)
        if not _is_temporary(node):
            self._output(name, node, table)
        self._catalog = self._catalog.with_table(name, table, is_single=made.is_single)

    def _output(self, name: str, node: exp.Expr, table: Table) -> None:
        if "diff" in table.schema.names:
            raise refused(
                node, "a column cannot be called 'diff', which is what an output calls the change of a row"
            )
        with placed(node):
            self.flow.output(name, table)
        self.views.append(name)


def _is_temporary(view: exp.Expr) -> bool:
    """Return whether a view is temporary; SqlError if it has other properties."""
    properties = view.args.get("properties")
    for each in [] if properties is None else properties.expressions:
        if not isinstance(each, exp.TemporaryProperty):
            raise refused(each, f"'{each.sql()}' is not known of a view", "Leave it out.")
    return properties is not None


def _name_of(view: exp.Expr) -> str:
    target = view.this.this if isinstance(view.this, exp.Schema) else view.this
    return str(target.name)
