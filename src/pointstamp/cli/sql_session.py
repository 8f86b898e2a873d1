"""The session of a SQL shell: tables with rows, views, and their flow.

A change of tables is an epoch of the flow, which runs in this process. A view that is created later needs
another flow, because a flow does not grow while it runs: there the tables are fed again, as they are now, or,
where a watermark has decided what is late, epoch by epoch as it was. The same is done after an error, without
the epoch that failed, so that nothing else is lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa
from sqlglot import exp

from pointstamp.arrangement.consolidate import DIFF_FIELD
from pointstamp.arrangement.open_changes import copies, is_changes, rows_of_table, sum_of
from pointstamp.arrow.ddl import to_ddl
from pointstamp.arrow.schema import as_schema
from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.table import Table
from pointstamp.driver.local_run import LocalRun
from pointstamp.errors import FlowError, SqlError
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import col, lit
from pointstamp.sql_views.rejection import check_parts, placed, refused
from pointstamp.sql_views.statements import RESULT, InputDeclaration, ViewsFlow

_ROUNDS_MAX = 100


@dataclass(frozen=True, slots=True)
class ShellEpoch:
    """The changes of an epoch: rows with weights by view, and rows of outputs that are streams."""

    number: int
    views: dict[str, pa.Table]
    streams: dict[str, pa.Table]


# A table of the shell: what was declared of it, and the rows that it has.

WEIGHT: Final = "weight of the shell"


@dataclass(slots=True)
class StoredTable:
    """The rows of a table, or of a view, as they are after the last epoch, and what waits for a commit."""

    name: str
    schema: pa.Schema
    declared: InputDeclaration | None = None
    """None for a view."""
    changes: list[pa.Table] = field(default_factory=list)
    pending: list[pa.Table] = field(default_factory=list)

    @property
    def weighed(self) -> pa.Schema:
        """The columns of a change."""
        return pa.schema([*self.schema, DIFF_FIELD])

    @property
    def is_growing(self) -> bool:
        """Whether rows can only be added, because a watermark says which of them are in time."""
        return self.declared is not None and self.declared.promise is not None

    def now(self) -> pa.Table:
        """The rows that are there, each once with how often it is."""
        self.changes = [pa.Table.from_batches([sum_of(self.changes, self.weighed)])]
        return self.changes[0]

    def rows(self) -> pa.Table:
        """The rows that are there, with what waits for a commit, each as often as it is."""
        return copies(sum_of([self.now(), *self.pending], self.weighed), f"'{self.name}'")

    def make_input(self, flow: Dataflow) -> Table:
        """The table of an input that takes changes as the shell makes them."""
        assert self.declared is not None
        if self.declared.promise is not None:
            # Each change by hand is an epoch, whatever the text says of epochs.
            promise = replace(self.declared.promise, every=None)
            return promise.stream(flow, self.name, self.schema).to_table()
        weighed = pa.schema([*self.schema, pa.field(WEIGHT, pa.int64())])
        return flow.table(self.name, weighed, weight=WEIGHT)

    def fed(self, changes: Sequence[pa.Table]) -> pa.Table:
        """Changes as that input takes them."""
        total = pa.Table.from_batches([sum_of(changes, self.weighed)])
        if self.is_growing:
            return copies(total.combine_chunks().to_batches()[0], self.name) if total.num_rows else self.empty
        return total.rename_columns([*self.schema.names, WEIGHT])

    @property
    def empty(self) -> pa.Table:
        """No rows."""
        return self.schema.empty_table()


def stored_table(declared: InputDeclaration) -> StoredTable:
    """A table without rows: the columns that views see, for here INSERT and DELETE say what others mark."""
    marks = [declared.properties.get(each) for each in ("weight", "operation", "deleted")]
    columns = [each for each in as_schema(declared.schema) if each.name not in marks]
    for key in declared.key:
        if key not in {each.name for each in columns}:
            raise FlowError(f"the key '{key}' is not a column of '{declared.name}'.")
    return StoredTable(declared.name, pa.schema(columns), declared)


def weighed_rows(rows: pa.Table, weight: int, schema: pa.Schema) -> pa.Table:
    """Rows that come (weight 1) or go (weight -1), as changes."""
    weights = pa.array([weight] * rows.num_rows, pa.int64())
    return rows.append_column(DIFF_FIELD, weights).cast(schema)


@dataclass(slots=True)
class ShellSession:
    """Tables, views and the epochs so far."""

    parameters: Mapping[str, object] = field(default_factory=dict)
    time_zone: str | None = None
    tables: dict[str, StoredTable] = field(default_factory=dict)
    """By name in small letters, as all names here."""
    views: dict[str, StoredTable] = field(default_factory=dict)
    epoch: int = 0
    """The next epoch."""
    is_waiting: bool = False
    """Whether changes wait for a commit."""
    _created: list[exp.Create] = field(default_factory=list)
    _history: list[tuple[int, dict[str, pa.Table]]] = field(default_factory=list)
    _run: LocalRun | None = None
    _made: ViewsFlow | None = None
    _results: dict[str, list[pa.Table]] = field(default_factory=dict)

    # What there is.

    def create(self, nodes: Sequence[exp.Create]) -> list[str]:
        """Create tables and views; the names of the views that are new."""
        created, new = list(self._created), []
        for node in nodes:
            check_parts(node)
            name = _name_of(node)
            at = next((n for n, each in enumerate(created) if _name_of(each) == name), None)
            if at is None:
                created.append(node)
            elif node.args.get("replace") and _is_view(node) and _is_view(created[at]):
                created[at] = node
            else:
                raise refused(node, f"'{name}' already exists", "Write drop, or create or replace view.")
            if _is_view(node):
                new.append(name)
        self._rebuild(created)
        return [each for each in new if each in self.views]

    def drop(self, node: exp.Drop) -> str:
        """Forget a table or a view; its name."""
        tables = node.args.get("tables") or [node.this]
        name = str(tables[0].name).lower()
        found = next((each for each in self._created if _name_of(each) == name), None)
        if found is None or str(node.args.get("kind")).upper() != str(found.args.get("kind")).upper():
            kind = str(node.args.get("kind")).lower()
            known = ", ".join(f"'{each}'" for each in (self.views if kind == "view" else self.tables))
            raise refused(node, f"there is no {kind} '{name}'; there are {known or 'none'}")
        for each in self._created:
            if _is_view(each) and name in _used(each.expression):
                raise refused(node, f"the view '{_name_of(each)}' needs '{name}'", "Drop the view first.")
        self._rebuild([each for each in self._created if each is not found])
        return name

    def is_shown(self, view: str) -> bool:
        """Return whether a view is shown when it changes; a temporary one is not."""
        node = next(each for each in self._created if _name_of(each) == view)
        return node.args.get("properties") is None

    def explained(self, query: exp.Expr | None = None) -> str:
        """Return the plan of a query, or of all views, as ``pointstamp sql`` would run it."""
        flow = ViewsFlow("shell", self.parameters, _ROUNDS_MAX, time_zone=self.time_zone)
        for node in self._created:
            own = node.copy()
            if query is not None and _is_view(own):  # then only the query is shown
                own.set("properties", exp.Properties(expressions=[exp.TemporaryProperty()]))
            flow.add(own)
        if query is not None:
            flow.add(query)
        return flow.flow.explain()

    def value(self, query: exp.Expr) -> pa.Table:
        """The rows of a query, now; SqlError says what is refused."""
        flow = ViewsFlow("query", self.parameters, _ROUNDS_MAX, time_zone=self.time_zone)
        known = {**self.tables, **self.views}
        used = _used(query) or set(list(known)[:1])
        if used - known.keys() - {each.alias.lower() for each in query.find_all(exp.CTE)}:
            used = set(known)  # so that the error can name all that there are
        fed = {}
        singles = frozenset() if self._made is None else self._made.singles
        for name, stored in known.items():
            if name in used:
                flow.add_input(stored.name, stored.schema, is_single=name in singles)
                fed[stored.name] = [stored.rows()]
        flow.add(query)
        return flow.flow.run(fed).table(RESULT)

    # What happens.

    def change(self, name: str, changes: Sequence[pa.Table]) -> None:
        """Let rows of a table come and go, with the next epoch."""
        self.tables[name].pending.extend(changes)

    def rollback(self) -> None:
        """Forget what waits for a commit."""
        self.is_waiting = False
        for stored in self.tables.values():
            stored.pending.clear()

    def commit(self) -> ShellEpoch:
        """Run one epoch with all changes that wait."""
        number = self.epoch
        changes = {
            name: pa.concat_tables(stored.pending) for name, stored in self.tables.items() if stored.pending
        }
        self.rollback()
        try:
            made = self._run_epoch(number, changes)
        except Exception:
            self._rebuild(self._created)
            raise
        self._history.append((number, changes))
        self.epoch = number + 1
        return made

    def close(self) -> None:
        """End the flow."""
        if self._run is not None:
            self._run.close()

    # The flow.

    def _rebuild(self, created: list[exp.Create]) -> None:
        """Another flow of these statements, to which all that happened is fed again."""
        tables: dict[str, StoredTable] = {}

        def make_input(flow: Dataflow, declared: InputDeclaration) -> Table:
            stored = tables[declared.name.lower()] = stored_table(declared)
            table = stored.make_input(flow)
            flow.output(stored.name, table)
            return table

        made = ViewsFlow("shell", self.parameters, _ROUNDS_MAX, make_input, time_zone=self.time_zone)
        for node in created:
            own = node.copy()
            own.set("properties", None if _is_view(own) else own.args.get("properties"))
            made.add(own)
        history = self._shortened(tables)
        before = self.tables, self.views, self._run, self._made
        schemas = made.flow.plan.output_schemas()
        self.tables, self._made = tables, made
        self.views = {
            name.lower(): StoredTable(name, rows_of_table(schemas[name], name)) for name in made.views
        }
        self._run = made.flow.open(on_result=self._on_result) if tables else None
        try:
            for number, changes in history:
                self._run_epoch(number, {name: each for name, each in changes.items() if name in tables})
        except Exception:
            self.close()
            self.tables, self.views, self._run, self._made = before
            raise
        if before[2] is not None:
            before[2].close()
        for name, stored in before[0].items():
            if name in tables:
                tables[name].pending = stored.pending
        self._created, self._history = created, history

    def _shortened(self, tables: Mapping[str, StoredTable]) -> list[tuple[int, dict[str, pa.Table]]]:
        """The epochs to feed again: one with all rows, unless watermarks make each epoch count."""
        kept = [(number, dict(changes)) for number, changes in self._history]
        if any(each.is_growing for each in (*tables.values(), *self.tables.values())) or not kept:
            return kept
        rows: dict[str, list[pa.Table]] = {}
        for _, changes in kept:
            for name, each in changes.items():
                rows.setdefault(name, []).append(each)
        return [(kept[-1][0], {name: pa.concat_tables(each) for name, each in rows.items()})]

    def _run_epoch(self, number: int, changes: Mapping[str, pa.Table]) -> ShellEpoch:
        if self._run is None:
            raise FlowError("there is no table yet. Create one: create table t (id long, ...).")
        self._results = {}
        for name, stored in self.tables.items():
            handle = self._run.input(stored.name)
            if number > handle.time:
                handle.advance_to(number)
            if name in changes:
                handle.send(stored.fed([changes[name]]))
            handle.advance_to(number + 1)
        self._run.settle()
        views, streams = {}, {}
        for name, parts in self._results.items():
            made, known = pa.concat_tables(parts), name.lower()
            if known in self.tables:
                self.tables[known].changes.append(made)
            elif known in self.views:
                self.views[known].changes.append(made)
                views[known] = made
            elif not is_changes(made.schema):
                streams[name] = made
        return ShellEpoch(number, {name: views[name] for name in self.views if name in views}, streams)

    def _on_result(self, name: str, epoch: int, table: pa.Table) -> None:
        del epoch
        self._results.setdefault(name, []).append(table)


def _name_of(node: exp.Create) -> str:
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    return str(target.name).lower()


def _used(node: exp.Expr) -> set[str]:
    """Return the names of the tables that a query uses."""
    return {each.name.lower() for each in node.find_all(exp.Table)}


def _is_view(node: exp.Create) -> bool:
    return str(node.args.get("kind")).upper() == "VIEW"


# INSERT, DELETE and UPDATE: which rows of a table come and go.
#
# Each is asked as a query over the tables and views as they are, so that all that a query may say can stand
# there. Values are cast to the types of the columns. In a table with a primary key a row that is inserted
# replaces the one with its key, as everywhere; two rows with one key are refused.


def change(session: ShellSession, node: exp.Insert | exp.Delete | exp.Update) -> int:
    """Let a statement change its table, with the next epoch; how many rows it changed."""
    check_parts(node)
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    stored = _target(session, target)
    if stored.is_growing and not isinstance(node, exp.Insert):
        raise refused(
            node,
            f"'{stored.name}' has a watermark, so rows can only be inserted",
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
    """The rows of a table that a condition means, and what is computed from each."""
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
    """Return the error for an unknown statement of the shell."""
    words = node.name.upper() if isinstance(node, exp.Command) else node.key.upper()
    return refused(node, f"the shell has no statement {words}", "Write .help for the statements that it has.")
