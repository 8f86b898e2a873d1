"""Names: which column of which table a query means by a word.

A relation is a table with names for a query: ``o.price`` and ``price`` are both the column
``o.price`` of the table, which no other relation of the flow has. Names are found as in Spark, without
regard to capitals; a name that two columns have must be said with its table.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from pointstamp.dataflow.table import Table
from pointstamp.errors import SqlError
from pointstamp.expressions.tree import Call, CastTo, Choice, Column, Expression, Named, col, lit
from pointstamp.sql_views.condition_parts import all_of
from pointstamp.sql_views.parsing import POSITION
from pointstamp.sql_views.rejection import refused

AT: Final = "at"
"""The mark of a node that refers to a column of the table, whatever its name, as ``*`` does."""

ONE_ROW: Final = "one row"
"""The name of the single row of a select without FROM; its column cannot be used."""


@dataclass(frozen=True, slots=True)
class ScopeName:
    """A column as a query calls it, and the column of the table that is meant."""

    table: str | None
    column: str
    at: str
    is_merged: bool = False
    """Whether it was merged with others by ``using``: then it must be said with its table."""
    is_null: bool = False
    """Whether it is the literal null, which has no type yet."""

    def is_called(self, column: str, table: str | None) -> bool:
        """Return whether a query that says these names means this column."""
        if column.lower() != self.column.lower():
            return False
        if table is None:
            return not self.is_merged
        return self.table is not None and table.lower() == self.table.lower()


@dataclass(frozen=True, slots=True)
class Scope:
    """Names, and the types of the columns that they mean."""

    names: tuple[ScopeName, ...]
    schema: pa.Schema
    outer: "Scope | None" = None
    """The names of the query around this one, which come second."""

    def beneath(self, outer: "Scope") -> "Scope":
        """The same inside of another query, whose columns can be named, too."""
        return Scope(self.names, pa.schema([*self.schema, *outer.schema]), outer)

    def __or__(self, other: "Scope") -> "Scope":
        return Scope((*self.names, *other.names), pa.schema([*self.schema, *other.schema]))

    def has_table(self, table: str) -> bool:
        """Return whether a table of this name is in scope."""
        return any(each.table is not None and each.table.lower() == table.lower() for each in self.names)

    def has(self, node: exp.Column) -> bool:
        """Return whether a column of a query is in this scope."""
        return bool(self._found(node)[0])

    def column(self, name: ScopeName) -> exp.Column:
        """The node of a column that is meant by its place, whatever others are called."""
        made = exp.column(name.column, table=name.table)
        made.meta[AT] = name.at
        return made

    def find(self, node: exp.Column) -> Expression:
        """The column, or the field of a struct, that a query means; SqlError if there is none, or several."""
        found, fields = self._found(node)
        said = ".".join(part.name for part in node.parts)
        if len(found) > 1:
            raise _refused_several(node, said, found)
        if not found and self.outer is not None:
            return self.outer.find(node)
        if not found:
            shown = dict.fromkeys(_shown(each) for each in self.names if each.table != ONE_ROW)
            known = ", ".join(shown) or "no columns"
            raise refused(node, f"there is no column '{said}'; there are {known}")
        made = lit(None) if found[0].is_null else col(found[0].at)
        for field in fields:
            made = made.field(field)
        return made

    def _found(self, node: exp.Column) -> tuple[list[ScopeName], list[str]]:
        if AT in node.meta:
            return [each for each in self.names if each.at == node.meta[AT]][:1], []
        parts = [part.name for part in node.parts]
        if len(parts) > 1 and self.has_table(parts[0]):
            return self._called(parts[1], parts[0]), parts[2:]
        return self._called(parts[0], None), parts[1:]

    def _called(self, column: str, table: str | None) -> list[ScopeName]:
        found = [each for each in self.names if each.is_called(column, table)]
        return list({each.at: each for each in found}.values())


def _refused_several(node: exp.Column, said: str, found: list[ScopeName]) -> SqlError:
    tables = sorted({each.table for each in found if each.table})
    if len(tables) > 1:
        words = ", ".join(f"'{each}'" for each in tables)
        return refused(node, f"'{said}' is a column of {words}", f"Say which is meant: <table>.{said}.")
    return refused(
        node,
        f"'{said}' is ambiguous: {len(found)} columns of the subquery have this name",
        "Give them different names with AS in the subquery.",
    )


def _shown(name: ScopeName) -> str:
    return f"'{name.column}'" if name.table is None else f"'{name.table}.{name.column}'"


@dataclass(frozen=True, slots=True)
class Relation:
    """A table and the names by which a query refers to its columns."""

    table: Table
    names: tuple[ScopeName, ...]
    """All columns, also those that no expression uses and that the table no longer has."""
    is_single: bool = False
    """Whether it never has more than one row."""

    @property
    def scope(self) -> Scope:
        """Its names and types."""
        return Scope(self.names, self.table.schema)

    @property
    def columns(self) -> list[str]:
        """The emitted columns, by the names in the query."""
        return [each.column for each in self.names]

    def with_table(self, table: Table) -> "Relation":
        """The same names for another table that has these columns."""
        return replace(self, table=table)

    def filtered(self, conditions: Iterable[Expression]) -> "Relation":
        """The rows for which all of these conditions hold."""
        found = all_of(conditions)
        return self if found is None else self.with_table(self.table.filter(found))

    def called(self, alias: str, unique: str) -> "Relation":
        """The same under an alias, with columns that no other relation has."""
        columns_at, names = [], []
        for number, each in enumerate(self.names):
            twice = f"#{number}" if any(other.column == each.column for other in self.names[:number]) else ""
            at = f"{unique}.{each.column}{twice}"
            names.append(ScopeName(alias, each.column, at, is_null=each.is_null))
            columns_at.append(col(each.at).alias(at))
        table = self.table.select(*columns_at).named(f"as {unique}")
        return Relation(table, tuple(names), self.is_single)


def at_position(node: exp.Expr, relation: Relation) -> exp.Column:
    """The column with a number, from 1 on, of the rows before a pipe operator."""
    shown = [each for each in relation.names if not each.is_merged]
    position = int(node.meta[POSITION])
    if not 1 <= position <= len(shown):
        raise refused(node, f"there is no column {position}; the input has {len(shown)}")
    return relation.scope.column(shown[position - 1])


def check_typed(node: exp.Expr, relation: Relation) -> None:
    """Refuse columns that are the literal null where a type is needed."""
    for each in relation.names:
        if each.is_null:
            raise refused(
                node,
                f"the column '{each.column}' is always null and has no type",
                "Cast it: cast(null as long).",
            )


def relation_of(table: Table, *, is_single: bool = False) -> Relation:
    """A table whose columns are called as they are."""
    return Relation(table, tuple(ScopeName(None, each, each) for each in table.schema.names), is_single)


def replaced(expression: Expression, columns: Mapping[str, str]) -> Expression:
    """The same expression over other columns."""
    match expression:
        case Column(name):
            return col(columns.get(name, name))
        case Call(function, arguments, options):
            return Call(function, tuple(replaced(each, columns) for each in arguments), options)
        case CastTo(inner, to, is_tried):
            return CastTo(replaced(inner, columns), to, is_tried)
        case Named(inner, name):
            return Named(replaced(inner, columns), name)
        case Choice(branches, default):
            made: Any = tuple((replaced(a, columns), replaced(b, columns)) for a, b in branches)
            return Choice(made, None if default is None else replaced(default, columns))
        case _:
            return expression


# Names that a select gives to its columns, where other parts of it refer to them.


@dataclass(frozen=True, slots=True)
class Aliases:
    """The selected columns by name, and the names of FROM."""

    columns: list[tuple[str, exp.Expr]]
    scope: Scope

    def beside(self, node: exp.Expr) -> exp.Expr:
        """A node in which names of the select are what they stand for; a column of FROM comes first."""
        return self._replaced(node, lambda column: self.scope.has(column))

    def lateral(self, node: exp.Expr) -> exp.Expr:
        """A column of the select in which names of columns before it are what they stand for.

        Subqueries keep their own names, and functions over windows may not have such a name, as in Spark.
        """
        if not self.columns or any(isinstance(each, exp.Query) for each in node.walk()):
            return node
        made = self._replaced(node, self.scope.has, is_lateral=True)
        return node if made == node else made

    def first(self, node: exp.Expr) -> exp.Expr:
        """The same for ORDER BY, where names of the select come first, and a number is a column of it."""
        inner = node.this if isinstance(node, exp.Ordered) else node
        if isinstance(inner, exp.Literal) and not inner.is_string:
            made = node.copy() if isinstance(node, exp.Ordered) else None
            if made is None:
                return self.at(inner)
            made.set("this", self.at(inner).copy())
            return made
        return self._replaced(node, lambda column: False)

    def at(self, number: exp.Literal) -> exp.Expr:
        """The column with this number, from 1 on."""
        said = str(number.this)
        if not said.isdigit() or not 1 <= int(said) <= len(self.columns):
            raise refused(number, f"there is no column {said} in the select, which has {len(self.columns)}")
        return self.columns[int(said) - 1][1]

    def _replaced(
        self, node: exp.Expr, is_kept: Callable[[exp.Column], bool], *, is_lateral: bool = False
    ) -> exp.Expr:
        names = [name.lower() for name, _ in self.columns]
        known = {name.lower(): each for name, each in self.columns}

        def replace(each: exp.Expr) -> exp.Expr:
            if isinstance(each, exp.Column) and not each.table and not is_kept(each):
                found = known.get(each.name.lower())
                if found is not None and is_lateral and names.count(each.name.lower()) > 1:
                    raise refused(each, f"'{each.name}' is the alias of several columns before it")
                if found is not None and not (isinstance(found, exp.Column) and found.name == each.name):
                    return exp.Paren(this=found.copy())
            return each

        return node.transform(replace)


def output_name(node: exp.Expr) -> str:
    """The name of a column of a select: its alias, the column that it is, or its text."""
    if (name := node.alias_or_name) and not isinstance(node, exp.Literal | exp.Anonymous):
        return name
    return node.sql(dialect="spark").lower()
