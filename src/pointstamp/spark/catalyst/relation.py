"""Relations: logical operators, with the columns that expression ids of Catalyst mean in them.

Expression ids change whenever Spark plans a query. Columns here have names that do not: the name that the
query gives them, with a number if it is taken. So a query has the same logical plan in each session, and what
is computed twice is one operator.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import pyarrow as pa

from pointstamp.errors import SchemaError
from pointstamp.expressions.tree import Expression, col
from pointstamp.plan import logical
from pointstamp.plan.logical import LogicalOperator
from pointstamp.spark.catalyst.trees import ExpressionNode, TreeNode
from pointstamp.spark.catalyst.types import arrow_type
from pointstamp.tables.column_names import check_new_names

Made = TypeVar("Made", bound=LogicalOperator)

_NO_MEANING: Final = frozenset(
    ["exprId", "resultId", "name", "qualifier", "metadata", "nullable", "explicitMetadata", "is_session"]
)
"""Fields in which expressions with one meaning may differ."""


@dataclass(frozen=True, slots=True)
class BoundRelation:
    """An operator, and the columns that a node of Catalyst gives."""

    operator: LogicalOperator
    columns: Mapping[int, str]
    """The column of each expression id that may be named."""
    output: tuple[int, ...]
    """The ids of the node's output, in order; an id can be there twice."""
    is_single: bool = False
    """Whether it always has one row."""
    order: tuple[str, ...] = ()
    """The order of the rows, if the node is sorted: what LIMIT goes by."""
    arrays: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Arrays that are columns here: ids of the array to the ids of its elements (pivots)."""

    def narrowed(self, output: Iterable[int]) -> "BoundRelation":
        """Return the same rows with some of the columns named."""
        wanted = tuple(output)
        known = {each: self.columns[each] for each in wanted if each in self.columns}
        return replace(self, columns=known, output=wanted)


class Operators:
    """Makes logical operators; what was made once of the same inputs is the same operator."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], LogicalOperator] = {}

    def make(self, kind: type[Made], *arguments: Any, **named: Any) -> Made:  # noqa: ANN401
        """Return an operator of a kind, a new one if there is none with these arguments."""
        key = (kind, *map(_key, arguments), *((name, _key(each)) for name, each in sorted(named.items())))
        if key not in self._made:
            self._made[key] = kind(*arguments, **named)
        return self._made[key]  # type: ignore[return-value]

    def project(self, operator: LogicalOperator, columns: Mapping[str, Expression]) -> LogicalOperator:
        """Return an operator with these columns; the same if it has them."""
        names = operator.schema.names
        is_plain = all(_is_column(each, name) for name, each in columns.items())
        if is_plain and list(columns) == names:
            return operator
        if is_plain and isinstance(operator, logical.Project):
            own = dict(operator.columns)
            return self.make(logical.Project, operator.input, tuple((name, own[name]) for name in columns))
        return self.make(logical.Project, operator, tuple(columns.items()))

    def exact(self, relation: BoundRelation) -> BoundRelation:
        """Return a relation whose operator has the columns of its output and no others."""
        names = list(dict.fromkeys(relation.columns[each] for each in relation.output))
        if not names:
            return relation
        operator = self.project(relation.operator, {name: col(name) for name in names})
        return replace(relation.narrowed(relation.output), operator=operator)

    def with_columns(self, relation: BoundRelation, added: Mapping[str, Expression]) -> BoundRelation:
        """Return a relation whose operator has more columns."""
        if not added:
            return relation
        own = {name: col(name) for name in relation.operator.schema.names}
        return replace(relation, operator=self.project(relation.operator, {**own, **added}))


def _key(value: Any) -> Any:  # noqa: ANN401 - an argument of an operator
    if isinstance(value, LogicalOperator):
        return id(value)
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    if isinstance(value, pa.RecordBatch):
        return id(value)
    return repr(value)


def _is_column(expression: Expression, name: str) -> bool:
    return getattr(expression, "column", None) == name


def fresh_name(wanted: str, taken: Iterable[str]) -> str:
    """Return a name for a column that is not taken and that tables do not use themselves.

    >>> fresh_name("city", ["city"])
    'city_2'
    """
    name = wanted or "column"
    try:
        check_new_names("a view", [name])
    except SchemaError:
        name = f"column {name}"
    known, number, made = set(taken), 2, name
    while made in known:
        made, number = f"{name}_{number}", number + 1
    return made


# Reading the nodes of Catalyst.


def id_of(node: ExpressionNode) -> int:
    """Return the expression id of an attribute or an alias."""
    return int(node.fields["exprId"]["id"])


def attribute(identity: int, name: str, data_type: Any) -> ExpressionNode:  # noqa: ANN401 - JSON
    """Return a reference to a column of our own; its id is below 0."""
    fields = {"name": name, "dataType": data_type, "nullable": True, "exprId": {"id": identity}}
    return TreeNode("AttributeReference", "AttributeReference", fields, ())


def schema_of(attributes: Sequence[ExpressionNode]) -> pa.Schema:
    """Return the columns of attributes of a leaf."""
    found = [(str(each.fields["name"]), each.fields["dataType"]) for each in attributes]
    return pa.schema([pa.field(name, arrow_type(kind, f"column '{name}'")) for name, kind in found])


def replaced(node: ExpressionNode, found: Mapping[int, ExpressionNode]) -> ExpressionNode:
    """Return a tree in which nodes, by their identity, stand for others."""
    if id(node) in found:
        return found[id(node)]
    children = tuple(replaced(each, found) for each in node.children)
    if all(new is old for new, old in zip(children, node.children, strict=True)):
        return node
    return TreeNode(node.kind, node.class_name, node.fields, children)


def text_of(node: TreeNode) -> str:
    """Return a short text of an expression, for errors."""
    fields = node.fields
    match node.kind:
        case "AttributeReference":
            return str(fields["name"])
        case "Literal":
            return str(fields.get("value"))
        case "Alias":
            return str(fields["name"])
        case "Cast":
            return f"cast({text_of(node.children[0])} as {fields.get('dataType')})"
        case _:
            return f"{node.kind.lower()}({', '.join(map(text_of, node.children))})"


def same_expression(node: ExpressionNode) -> Any:  # noqa: ANN401 - a key
    """Return a key that is equal for expressions that mean the same."""
    if node.kind == "AttributeReference":
        return ("attribute", id_of(node))
    own = tuple((key, repr(value)) for key, value in sorted(node.fields.items()) if key not in _NO_MEANING)
    return (node.kind, own, tuple(map(same_expression, node.children)))
