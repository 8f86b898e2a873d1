"""Names that a select gives to its columns, where other parts of it speak of them."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from pointstamp.sql_views.refusing import refused
from pointstamp.sql_views.scope import Scope


@dataclass(frozen=True, slots=True)
class Aliases:
    """What is selected, by name, and the names of FROM."""

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
