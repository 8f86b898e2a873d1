"""The statements of a text: declared inputs, and views.

A view may refer to the tables and views before it. Each is compiled once, and who uses it reads what it
sends: a view that two others use is one operator, whose rows both take. One query alone has the output
``result``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias, get_args

import pyarrow as pa
from sqlglot import exp

from pointstamp.arrow.epoch_column import LatePolicy
from pointstamp.arrow.schema import ExtraColumns, check_extra_columns
from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.stream import Stream
from pointstamp.dataflow.table import Table, one_clock
from pointstamp.errors import SqlError
from pointstamp.flow.event_epochs import by_event_time
from pointstamp.flow.plan import NodeKind
from pointstamp.sql_views.catalog import Catalog
from pointstamp.sql_views.desugaring import rewritten
from pointstamp.sql_views.literals import interval_length
from pointstamp.sql_views.parsing import TOO_DEEP, parse
from pointstamp.sql_views.queries import Compiler, called, named, with_common_tables
from pointstamp.sql_views.rejection import check_parts, placed, refused
from pointstamp.sql_views.with_recursive import mutually_recursive, ordered_groups

RESULT: Final = "result"


# ``create table``: an input that a text declares, and how its rows are meant.
#
# With a primary key its rows are upserts; without one they are added, and what deletes rows is said with
# ``tblproperties``: ``'weight' = 'w'`` or ``'operation' = 'op'`` name the column that says so, and of upserts
# ``'order'`` and ``'deleted'``. The watermark of upserts is that of their order column, and frees tombstones.
#
# ``watermark for at as at - interval 4 seconds`` is the promise how late a row may be, by its column ``at``;
# the properties ``'event_time'`` and ``'lateness'`` say the same, and ``'late'`` what becomes of later rows.
# With ``'epoch' = '1 minute'`` besides, the epoch of a row is the minute in which its event time lies.

_OF_ROWS: Final = ("weight", "operation", "trusted", "event_time", "lateness", "late", "epoch")
_OF_UPSERTS: Final = ("order", "deleted", "late")
_LATE: Final[dict[str, LatePolicy]] = {each: each for each in get_args(LatePolicy)}


@dataclass(frozen=True, slots=True)
class LatenessPromise:
    """The allowed lateness, its column, and the treatment of late rows."""

    at: str
    lateness: timedelta | str | int
    late: LatePolicy
    every: str | int | None = None
    """The length of an epoch, if epochs are event time."""

    def stream(self, flow: Dataflow, name: str, schema: str | pa.Schema) -> Stream:
        """The rows of an input that are in time."""
        if self.every is None:
            return flow.stream_input(name, schema).with_watermark(self.at, self.lateness, late=self.late)
        epochs = by_event_time(self.at, every=self.every, lateness=self.lateness)
        return flow.stream_input(name, schema, epochs=epochs, late=self.late)


@dataclass(frozen=True, slots=True)
class InputDeclaration:
    """An input that a text declares: its columns, its key, and how its rows are meant."""

    name: str
    schema: str
    key: tuple[str, ...]
    properties: Mapping[str, str]
    promise: LatenessPromise | None = None


def input_table(flow: Dataflow, declared: InputDeclaration) -> Table:
    """The table of an input, in a flow."""
    more = declared.properties
    promise = declared.promise
    if declared.key:
        return flow.table(
            declared.name,
            declared.schema,
            key=declared.key,
            order=more.get("order"),
            deleted=more.get("deleted"),
            lateness=None if promise is None else promise.lateness,
            late="output" if promise is None else promise.late,
        )
    if promise is None:
        stream = flow.stream_input(declared.name, declared.schema)
    else:
        stream = promise.stream(flow, declared.name, declared.schema)
    is_trusted = None if "trusted" not in more else more["trusted"].lower() == "true"
    return stream.to_table(weight=more.get("weight"), operation=more.get("operation"), trusted=is_trusted)


def declaration(node: exp.Create) -> InputDeclaration:
    """The contents of a CREATE TABLE statement."""
    if not isinstance(node.this, exp.Schema):
        raise refused(node, "CREATE TABLE needs columns", "Write create table t (id long, ...).")
    key: list[str] = []
    columns, watermark = [], None
    for each in node.this.expressions:
        if isinstance(each, exp.PrimaryKey):
            key.extend(column.name for column in each.expressions)
        elif isinstance(each, exp.WatermarkColumnConstraint):
            if watermark is not None:
                raise refused(each, "a table has one watermark", "Remove the second one.")
            watermark = each
        elif isinstance(each, exp.ColumnDef):
            columns.append(_column(each, key))
        else:
            raise refused(each, "this part of CREATE TABLE is not supported", "Leave it out.")
    properties = _properties(node, bool(key))
    promise = _promise(node, watermark, properties)
    if promise is not None and key and promise.at != properties.get("order"):
        raise refused(
            node,
            "the watermark of a table with a primary key must be that of its 'order' column",
            f"Write tblproperties ('order' = '{promise.at}'), or leave the key or the watermark out.",
        )
    return InputDeclaration(node.this.this.name, ", ".join(columns), tuple(key), properties, promise)


def _column(node: exp.ColumnDef, key: list[str]) -> str:
    """A column in the words of a schema; whether it is of the key is added there."""
    if node.args.get("kind") is None:
        raise refused(node, f"the column '{node.name}' has no type", f"Write {node.name} long, or another.")
    words = f"`{node.name}` {node.args['kind'].sql(dialect='spark')}"
    for constraint in node.args.get("constraints") or []:
        if isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint):
            key.append(node.name)
        elif isinstance(constraint.kind, exp.NotNullColumnConstraint):
            words += " not null"
        elif not isinstance(constraint.kind, exp.CommentColumnConstraint):
            raise refused(constraint, "this constraint is not supported", "Leave it out.")
    return words


def _properties(node: exp.Create, has_key: bool) -> dict[str, str]:
    known = _OF_UPSERTS if has_key else _OF_ROWS
    made = {}
    for each in node.args["properties"].expressions if node.args.get("properties") else []:
        name = each.this.name if isinstance(each, exp.Property) else ""
        if name not in known:
            kind = "with" if has_key else "without"
            raise refused(
                each,
                f"'{name or each.sql()}' is not a property of a table {kind} a primary key",
                f"The properties are {', '.join(known)}.",
            )
        made[name] = each.args["value"].name
    if made.get("trusted", "true").lower() not in ("true", "false"):
        raise refused(node, f"'trusted' must be true or false, got '{made['trusted']}'")
    return made


def _promise(
    node: exp.Create, watermark: exp.WatermarkColumnConstraint | None, properties: Mapping[str, str]
) -> LatenessPromise | None:
    late = properties.get("late", "output")
    if late not in _LATE:
        raise refused(node, f"'late' must be one of {', '.join(_LATE)}, got '{late}'")
    if watermark is not None:
        if "event_time" in properties or "lateness" in properties:
            raise refused(node, "the watermark already sets the event time and the lateness")
        return LatenessPromise(watermark.this.name, _lateness(watermark), _LATE[late], _epoch(properties))
    if "event_time" in properties and "lateness" in properties:
        lateness = _length(properties["lateness"])
        return LatenessPromise(properties["event_time"], lateness, _LATE[late], _epoch(properties))
    for each in ("event_time", "lateness", "late", "epoch"):
        if each in properties:
            raise refused(
                node,
                f"'{each}' needs an event time and an allowed lateness",
                "Write watermark for at as at - interval 4 seconds, or give 'event_time' and 'lateness'.",
            )
    return None


def _epoch(properties: Mapping[str, str]) -> str | int | None:
    return _length(properties["epoch"]) if "epoch" in properties else None


def _length(said: str) -> str | int:
    """A length of time as text, or a number where the event time is one."""
    return int(said) if said.isdigit() else said


def _lateness(node: exp.WatermarkColumnConstraint) -> timedelta | int:
    """The allowed distance of a row from the greatest event time so far."""
    column, said = node.this, node.expression
    instead = f"Write watermark for {column.name} as {column.name} - interval 4 seconds."
    if isinstance(said, exp.Column) and said.name.lower() == column.name.lower():
        return 0 if _is_number(node, column.name) else timedelta(0)
    is_earlier = (
        isinstance(said, exp.Sub)
        and isinstance(said.this, exp.Column)
        and said.this.name.lower() == column.name.lower()
    )
    if is_earlier and isinstance(said.expression, exp.Interval):
        return interval_length(said.expression)
    if is_earlier and isinstance(said.expression, exp.Literal) and said.expression.name.isdigit():
        return int(said.expression.name)
    raise refused(node, "a watermark must be a column minus a literal interval", instead)


def _is_number(node: exp.Expr, column: str) -> bool:
    schema = node.parent
    assert isinstance(schema, exp.Schema)
    for each in schema.expressions:
        if isinstance(each, exp.ColumnDef) and each.name.lower() == column.lower():
            return bool(each.args["kind"].this in exp.DataType.INTEGER_TYPES)
    return False


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
            queries[1],
            "a text must have one query, or only CREATE VIEW statements",
            "Write CREATE VIEW x AS before it.",
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
            statements[-1], "the text declares inputs but no view", "Add a query, or CREATE VIEW x AS."
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
                raise refused(each, f"'{name}' already exists", "Give it another name.")
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
            raise refused(node, f"'{name}' already exists", "Give it another name.")
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
                node, "a column cannot have the name 'diff', which is reserved for the multiplicity of a row"
            )
        with placed(node):
            self.flow.output(name, table)
        self.views.append(name)


def _is_temporary(view: exp.Expr) -> bool:
    """Return whether a view is temporary; SqlError if it has other properties."""
    properties = view.args.get("properties")
    for each in [] if properties is None else properties.expressions:
        if not isinstance(each, exp.TemporaryProperty):
            raise refused(each, f"'{each.sql()}' is not a property of a view", "Leave it out.")
    return properties is not None


def _name_of(view: exp.Expr) -> str:
    target = view.this.this if isinstance(view.this, exp.Schema) else view.this
    return str(target.name)
