"""The catalog of a query: tables, views, parameters and VALUES."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow.table import Table, values_beside
from pointstamp.expressions.tree import Expression
from pointstamp.sql_views.rejection import refused
from pointstamp.sql_views.scope import Relation, Scope, relation_of


@dataclass(frozen=True, slots=True)
class Begun:
    """A select of which FROM and WHERE are done, and how its rows belong to rows of the query around it."""

    node: exp.Select
    relation: Relation
    catalog: "Catalog"
    keys: list[tuple[Expression, Expression]]
    """Values of the query around it, and values here to which they must be equal."""
    pairs: list[Expression]
    """Other conditions on rows of both."""

    @property
    def is_correlated(self) -> bool:
        """Whether it refers to the query around it."""
        return bool(self.keys or self.pairs)


class QueryCompiler(Protocol):
    """Makes relations of queries."""

    def query(self, node: exp.Expr, catalog: "Catalog") -> Relation:
        """A complete query."""
        ...

    def common_tables(self, node: exp.Expr, catalog: "Catalog") -> "Catalog":
        """The names that a query with a WITH clause may use."""
        ...

    def begin(self, node: exp.Select, catalog: "Catalog", outer: Scope | None) -> Begun:
        """FROM and WHERE of a select that may stand in another query."""
        ...

    def finish(self, begun: Begun) -> Relation:
        """The rest of it."""
        ...


@dataclass(frozen=True, slots=True)
class Catalog:
    """Tables by name; a common table of a query comes before one of the flow."""

    tables: Mapping[str, Table]
    parameters: Mapping[str, object]
    rounds_max: int
    recursive: frozenset[str] = frozenset()
    """The names that stand for a table that is being made, inside a loop."""
    singles: frozenset[str] = frozenset()
    """The names of tables that never have more than one row."""
    relations: Mapping[str, Relation] = field(default_factory=dict)
    """Common tables whose columns cannot be told apart by their names, or have no type yet."""
    compiler: "QueryCompiler" = field(kw_only=True)
    """The compiler of queries, also of nested ones."""
    _taken: dict[str, int] = field(default_factory=dict)

    def with_table(self, name: str, table: Table, *, is_single: bool = False) -> "Catalog":
        """The same with one more table, which hides another of that name."""
        known = frozenset([name.lower()])
        return replace(
            self,
            tables={**self.tables, name.lower(): table},
            recursive=self.recursive - known,
            singles=self.singles | known if is_single else self.singles - known,
            relations={other: each for other, each in self.relations.items() if other != name.lower()},
        )

    def with_relation(self, name: str, relation: Relation) -> "Catalog":
        """The same with a common table, of whose columns several may have one name."""
        made = self.with_table(name, relation.table, is_single=relation.is_single)
        if relation.columns == list(relation.table.schema.names) and not any(
            each.is_null for each in relation.names
        ):
            return made
        return replace(made, relations={**made.relations, name.lower(): relation})

    def in_loop(self, tables: Mapping[str, Table], *variables: str) -> "Catalog":
        """The tables that the body of a loop may use, some of which are its variables."""
        names = frozenset(each.lower() for each in variables)
        relations = {
            name: each.with_table(tables[name])
            for name, each in self.relations.items()
            if name in tables and name not in names
        }
        return replace(
            self,
            tables=dict(tables),
            recursive=self.recursive | names,
            relations=relations,
        )

    def relation(self, node: exp.Table) -> Relation:
        """The relation that a query names; SqlError if there is none."""
        found = self.find(node)
        known = self.relations.get(node.name.lower())
        return known or relation_of(found, is_single=node.name.lower() in self.singles)

    def find(self, node: exp.Table) -> Table:
        """The table that a query names; SqlError if there is none."""
        name = node.name
        if node.args.get("db") is not None:
            raise refused(
                node, f"'{node.sql()}' names a table of another catalog or schema", "Write only its name."
            )
        found = self.tables.get(name.lower())
        if found is None:
            known = ", ".join(f"'{each}'" for each in self.tables) or "none"
            raise refused(
                node,
                f"there is no table or view '{name}'; there are {known}",
                f'Declare it before: create table {name} (...), or ps.sql(..., {name}="id long, ...").',
            )
        return found

    def unique(self, alias: str) -> str:
        """A name for a relation that no other relation of the flow has."""
        number = self._taken[alias] = self._taken.get(alias, 0) + 1
        return alias if number == 1 else f"{alias}#{number}"

    def rows(self, node: exp.Expr, rows: pa.RecordBatch) -> Table:
        """A table that always has these rows."""
        if self.recursive:
            raise refused(node, "VALUES are not supported inside a recursion", "Define them in a view.")
        anchor = next(iter(self.tables.values()), None)
        if anchor is None:
            raise refused(node, "a query needs at least one input", "Declare one: create table t (id long).")
        return values_beside(anchor, rows, "rows of the text")
