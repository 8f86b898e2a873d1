"""Trees: what ``toJSON`` of a Catalyst plan says, as nodes with children.

Spark writes a tree as a flat list in pre-order, where each node says how many children follow. A field that
is itself a tree (the condition of a join, the plan of a subquery) is such a list again, and a field that
names children holds their places among the children: ``left`` of a join is 0.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, eq=False)
class TreeNode:
    """One node of a plan or of an expression."""

    kind: str
    """The simple name of its class, for example ``Project`` or ``EqualTo``; objects without the ``$``."""
    class_name: str
    """The full name of its class."""
    fields: Mapping[str, Any]
    """What its constructor was given: numbers, texts, types, nodes, lists of nodes; children as places."""
    children: "tuple[TreeNode, ...]"

    def child(self, field: str) -> "TreeNode":
        """Return the child that a field names."""
        place: int = self.fields[field]
        return self.children[place]


PlanNode: TypeAlias = TreeNode
ExpressionNode: TypeAlias = TreeNode


def parse(json_text: str) -> PlanNode:
    """Return the tree that ``toJSON`` wrote.

    >>> parse('[{"class": "a.b.Not", "num-children": 1}, {"class": "a.b.Rand", "num-children": 0}]').kind
    'Not'
    """
    return _tree(json.loads(json_text))


def _tree(nodes: list[dict[str, Any]]) -> TreeNode:
    return _next_node(iter(nodes))


def _next_node(nodes: Iterator[dict[str, Any]]) -> TreeNode:
    node = next(nodes)
    children = tuple(_next_node(nodes) for _ in range(node["num-children"]))
    name = node["class"]
    kind = name.removesuffix("$").rsplit(".", 1)[-1].rsplit("$", 1)[-1]
    fields = {key: _field(value) for key, value in node.items() if key not in ("class", "num-children")}
    return TreeNode(kind, name, fields, children)


def _field(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
    if isinstance(value, list):
        if value and isinstance(value[0], dict) and "num-children" in value[0]:
            return _tree(value)
        return [_field(each) for each in value]
    if isinstance(value, dict):
        return {key: _field(each) for key, each in value.items()}
    return value
