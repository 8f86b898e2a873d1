"""The session of a shell: tables with their rows, views, and the one flow that keeps these up to date.

A change of tables is an epoch of the flow, which runs in this process. A view that is created later needs
another flow, because a flow does not grow while it runs: there the tables are fed again, as they are now, or,
where a watermark has decided what is late, epoch by epoch as it was. The same is done after an error, without
the epoch that failed, so that nothing else is lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from pointstamp.cli.shell.stored import StoredTable, stored_table
from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.table import Table
from pointstamp.errors import FlowError
from pointstamp.running.local import LocalRun
from pointstamp.sql_views.declaring import InputDeclaration
from pointstamp.sql_views.parts import check_parts
from pointstamp.sql_views.refusing import refused
from pointstamp.sql_views.statements import RESULT, ViewsFlow
from pointstamp.tables.kept.value import is_changes, rows_of_table

_ROUNDS_MAX = 100


@dataclass(frozen=True, slots=True)
class ShellEpoch:
    """What an epoch has changed: rows with their weights by view, and rows of outputs that are no tables."""

    number: int
    views: dict[str, pa.Table]
    streams: dict[str, pa.Table]


@dataclass(slots=True)
class ShellSession:
    """Tables, views and the epochs so far."""

    parameters: Mapping[str, object] = field(default_factory=dict)
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
                raise refused(node, f"'{name}' is there already", "Write drop, or create or replace view.")
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
        """Whether a view is shown when it changes; a temporary one is not."""
        node = next(each for each in self._created if _name_of(each) == view)
        return node.args.get("properties") is None

    def explained(self, query: exp.Expr | None = None) -> str:
        """Return the plan of a query, or of all views, as ``pointstamp sql`` would run it."""
        flow = ViewsFlow("shell", self.parameters, _ROUNDS_MAX)
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
        flow = ViewsFlow("query", self.parameters, _ROUNDS_MAX)
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

        made = ViewsFlow("shell", self.parameters, _ROUNDS_MAX, make_input)
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
        """What is fed again: one epoch with all rows, unless watermarks make each epoch count."""
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
    """The names of the tables of which a query speaks."""
    return {each.name.lower() for each in node.find_all(exp.Table)}


def _is_view(node: exp.Create) -> bool:
    return str(node.args.get("kind")).upper() == "VIEW"
