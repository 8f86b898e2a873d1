"""Trees: what ``toJSON`` of a Catalyst plan says, as nodes with children.

Spark writes a tree as a flat list in pre-order, where each node says how many children follow. A field that
is itself a tree (the condition of a join, the plan of a subquery) is such a list again, and a field that
names children holds their places among the children: ``left`` of a join is 0.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pointstamp.errors import SchemaError
from pointstamp.expressions.zones import CLOCK, INSTANT


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


# The types of Catalyst, as its JSON writes them, and those of Arrow.
#
# Spark says of elements, values and fields whether they can be null; here all of them can. Types that have no
# values here (intervals of months, variants, strings with a collation, ``char`` and ``time``) are rejected.

DURATION: Final = pa.duration("us")

_PLAIN: Final = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "string collate UTF8_BINARY": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": INSTANT,
    "timestamp_ntz": CLOCK,
    "void": pa.null(),
}
_COLLATIONS: Final = "__COLLATIONS"
"""What JSON says of a field with a collation, in place of its type."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_DAY_TIME: Final = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")


def arrow_type(given: Any, what: str) -> pa.DataType:  # noqa: ANN401 - a type in JSON
    """Return the Arrow type of a type of Catalyst; SchemaError if there is none.

    >>> arrow_type({"type": "array", "elementType": "decimal(10,2)", "containsNull": False}, "x")
    ListType(list<element: decimal128(10, 2)>)
    """
    if isinstance(given, str):
        if given in _PLAIN:
            return _PLAIN[given]
        if (match := _DECIMAL.fullmatch(given)) is not None and int(match[2]) >= 0:
            return pa.decimal128(int(match[1]), int(match[2]))
        if _DAY_TIME.fullmatch(given):
            return DURATION
    elif isinstance(given, dict):
        kind = given.get("type")
        if kind == "array":
            return pa.list_(pa.field("element", arrow_type(given["elementType"], what)))
        if kind == "map":
            return pa.map_(arrow_type(given["keyType"], what), arrow_type(given["valueType"], what))
        if kind == "struct":
            fields = given["fields"]
            if collated := [field["name"] for field in fields if _COLLATIONS in field.get("metadata", {})]:
                raise SchemaError(
                    f"{what}: the field '{collated[0]}' has a collation, which is not supported. "
                    "Cast it to string."
                )
            if len({field["name"] for field in fields}) == len(fields):
                return pa.struct(
                    [pa.field(field["name"], arrow_type(field["type"], what)) for field in fields]
                )
    raise SchemaError(f"{what}: the type {given} is not supported. Cast it to a type that is.")


def arrow_schema(given: Any, what: str) -> pa.Schema:  # noqa: ANN401 - a struct in JSON
    """Return the schema of a struct of Catalyst."""
    return pa.schema(list(arrow_type(given, what)))


def has_map(given: pa.DataType) -> bool:
    """Return whether a type is a map, or has one inside.

    >>> has_map(pa.list_(pa.map_(pa.string(), pa.int8()))), has_map(pa.list_(pa.int8()))
    (True, False)
    """
    if pa.types.is_map(given):
        return True
    if pa.types.is_list(given):
        return has_map(given.value_type)
    return pa.types.is_struct(given) and any(has_map(field.type) for field in given)


def catalyst_type(given: pa.DataType) -> Any:  # noqa: ANN401 - a type in JSON
    """Return the type of Catalyst, as its JSON writes it, of an Arrow type that ``arrow_type`` gives.

    >>> catalyst_type(pa.list_(pa.int8()))
    {'type': 'array', 'elementType': 'byte', 'containsNull': True}
    """
    for name, plain in _PLAIN.items():
        if plain == given:
            return name
    if pa.types.is_decimal(given):
        return f"decimal({given.precision},{given.scale})"
    if pa.types.is_duration(given):
        return "interval day to second"
    if pa.types.is_list(given):
        return {"type": "array", "elementType": catalyst_type(given.value_type), "containsNull": True}
    if pa.types.is_map(given):
        types = {"keyType": catalyst_type(given.key_type), "valueType": catalyst_type(given.item_type)}
        return {"type": "map", **types, "valueContainsNull": True}
    if pa.types.is_struct(given):
        return {"type": "struct", "fields": [_type_field(field) for field in given]}
    raise SchemaError(f"the type {given} is not one of Spark's.")


_SQL_NAMES: Final = {
    "boolean": "boolean", "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint",
}  # fmt: skip


def sql_name(given: pa.DataType) -> str:
    """Return the name that ``typeof`` gives a type.

    >>> sql_name(pa.map_(pa.string(), pa.int64()))
    'map<string,bigint>'
    """
    if pa.types.is_list(given):
        return f"array<{sql_name(given.value_type)}>"
    if pa.types.is_map(given):
        return f"map<{sql_name(given.key_type)},{sql_name(given.item_type)}>"
    if pa.types.is_struct(given):
        return f"struct<{','.join(f'{field.name}:{sql_name(field.type)}' for field in given)}>"
    name = str(catalyst_type(given))
    return _SQL_NAMES.get(name, name)


def _type_field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "type": catalyst_type(field.type), "nullable": True, "metadata": {}}
