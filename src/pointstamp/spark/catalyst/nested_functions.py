"""Spark functions on lists, maps, structs and regular expressions."""

from typing import Any, Final

from pyarrow import types

from pointstamp.expressions.tree import Call, CastTo, Expression
from pointstamp.spark.catalyst.expression_context import ExpressionContext, Handler
from pointstamp.spark.catalyst.scalar_operators import call
from pointstamp.spark.catalyst.trees import TreeNode


def _higher_order(name: str) -> Handler:
    """The handler of a class whose last children are lambda functions."""

    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        return Call(
            name,
            tuple(
                translator.function(child) if child.kind == "LambdaFunction" else translator.translate(child)
                for child in node.children
            ),
        )

    return handler


def _exists(translator: ExpressionContext, node: TreeNode) -> Expression:
    if not node.fields.get("followThreeValuedLogic", True):
        raise translator.rejected(node, "exists without three-valued logic is not supported")
    return _higher_order("exists")(translator, node)


def _array_sort(translator: ExpressionContext, node: TreeNode) -> Expression:
    """``array_sort`` with the order of values; another comparison is not one of rows."""
    body = node.children[1].children[0]
    if not _is_default(body):
        raise translator.rejected(node, "a custom comparison is not supported")
    return Call("sort_list_nulls_last", (translator.translate(node.children[0]),))


def _is_default(body: TreeNode) -> bool:
    """Whether a comparison is the one that Spark adds if none is given."""
    shape = []

    def visit(node: TreeNode) -> None:
        shape.append(node.fields["name"] if node.kind == "NamedLambdaVariable" else node.kind)
        if node.kind == "Literal":
            shape[-1] = str(node.fields["value"])
        for child in node.children:
            visit(child)

    visit(body)
    wanted = (
        "If And IsNull left IsNull right 0 If IsNull left 1 If IsNull right -1 "
        "If LessThan left right -1 If GreaterThan left right 1 0"
    )
    return " ".join(shape) == wanted


def _sort_array(translator: ExpressionContext, node: TreeNode) -> Expression:
    return Call("sort_list", translator.all(node.children))


def _element_at(translator: ExpressionContext, node: TreeNode) -> Expression:
    values, key = translator.all(node.children)
    if types.is_map(translator.type_of(values)):
        return Call("map_value", (values, key))
    options: dict[str, Any] = {"fails": bool(node.fields["failOnError"])}
    default = node.fields.get("defaultValueOutOfBound")
    if isinstance(default, TreeNode):
        options["default"] = translator.constant(default, "the default")
    elif default is not None:
        raise translator.rejected(node, "its default is not in the plan")
    return Call("element_at", (values, key), options)


def _item(translator: ExpressionContext, node: TreeNode) -> Expression:
    return Call("list_item", translator.all(node.children), {"fails": bool(node.fields["failOnError"])})


def _size(translator: ExpressionContext, node: TreeNode) -> Expression:
    options = {"of_null": bool(node.fields["legacySizeOfNull"])}
    return Call("size_of", translator.all(node.children), options)


def _zip(translator: ExpressionContext, node: TreeNode) -> Expression:
    names = tuple(str(translator.constant(each, "a name")) for each in node.fields["names"])
    return Call("lists_zip", translator.all(node.children), {"names": names})


def _sequence(translator: ExpressionContext, node: TreeNode) -> Expression:
    parts = translator.all(node.children)
    if not all(types.is_integer(translator.type_of(part)) for part in parts):
        raise translator.rejected(node, "a sequence of times is not supported")
    return Call("sequence", parts)


def _insert(translator: ExpressionContext, node: TreeNode) -> Expression:
    if node.fields.get("legacyNegativeIndex"):
        raise translator.rejected(node, "spark.sql.legacy.negativeIndexInArrayInsert is not supported")
    return Call("list_insert", translator.all(node.children))


def _list(translator: ExpressionContext, node: TreeNode) -> Expression:
    if not node.children and node.fields.get("useStringTypeWhenEmpty"):
        raise translator.rejected(node, "an empty list of strings is not supported")
    return Call("list", translator.all(node.children))


def _fields_of_list(translator: ExpressionContext, node: TreeNode) -> Expression:
    values = translator.translate(node.children[0])
    struct = translator.type_of(values).value_type
    return Call("fields_of_list", (values,), {"name": struct.field(node.fields["ordinal"]).name})


def _text_to_map(translator: ExpressionContext, node: TreeNode) -> Expression:
    text, *marks = node.children
    found = [translator.constant(mark, "a delimiter") for mark in marks]
    plain = set("\\.[]{}()*+-?^$|&#")
    if any(not isinstance(mark, str) or not mark or plain & set(mark) for mark in found):
        raise translator.rejected(node, "delimiters must be plain texts, not regular expressions")
    return Call("text_to_map", translator.all([text, *marks]))


# Regular expressions.


def _pattern(translator: ExpressionContext, node: TreeNode) -> str:
    found = translator.constant(node, "a regular expression")
    if not isinstance(found, str):
        raise translator.rejected(node, "the regular expression is null")
    return found


def _number(translator: ExpressionContext, node: TreeNode) -> int:
    found = translator.constant(node, "the number")
    if not isinstance(found, int):
        raise translator.rejected(node, "the number is null")
    return found


def _with_group(name: str) -> Handler:
    def handler(translator: ExpressionContext, node: TreeNode) -> Expression:
        text, pattern, group = node.children
        options = {"pattern": _pattern(translator, pattern), "group": _number(translator, group)}
        return Call(name, (translator.translate(text),), options)

    return handler


def _rlike(translator: ExpressionContext, node: TreeNode) -> Expression:
    text, pattern = node.children
    return Call("java_rlike", (translator.translate(text),), {"pattern": _pattern(translator, pattern)})


def _in_string(translator: ExpressionContext, node: TreeNode) -> Expression:
    text, pattern, _ = node.children
    return Call("java_position", (translator.translate(text),), {"pattern": _pattern(translator, pattern)})


def _replace(translator: ExpressionContext, node: TreeNode) -> Expression:
    text, pattern, replacement, first = node.children
    options = {
        "pattern": _pattern(translator, pattern),
        "replacement": _pattern(translator, replacement),
        "first": _number(translator, first),
    }
    return Call("java_replace", (translator.translate(text),), options)


def _split(translator: ExpressionContext, node: TreeNode) -> Expression:
    text, pattern, limit = node.children
    options = {"pattern": _pattern(translator, pattern), "limit": _number(translator, limit)}
    return Call("java_split", (translator.translate(text),), options)


def _key_contained(translator: ExpressionContext, node: TreeNode) -> Expression:
    values, sought = translator.all(node.children)
    element = translator.type_of(values).value_type
    if translator.type_of(sought) != element:
        sought = CastTo(sought, element, is_tried=False)
    return Call("list_contains", (values, sought))


NESTED_FUNCTIONS: Final[dict[str, Handler]] = {
    "CreateArray": _list,
    "CreateMap": call("map"),
    "ArrayTransform": _higher_order("transform"),
    "ArrayFilter": _higher_order("filter"),
    "ArrayExists": _exists,
    "ArrayForAll": _higher_order("forall"),
    "ArrayAggregate": _higher_order("aggregate"),
    "ZipWith": _higher_order("zip_with"),
    "MapFilter": _higher_order("map_filter"),
    "MapZipWith": _higher_order("map_zip_with"),
    "TransformKeys": _higher_order("transform_keys"),
    "TransformValues": _higher_order("transform_values"),
    "ArraySort": _array_sort,
    "SortArray": _sort_array,
    "ElementAt": _element_at,
    "GetArrayItem": _item,
    "GetMapValue": call("map_value"),
    "GetArrayStructFields": _fields_of_list,
    "Size": _size,
    "ArraysZip": _zip,
    "Sequence": _sequence,
    "ArrayInsert": _insert,
    "StringToMap": _text_to_map,
    "ArrayContains": _key_contained,
    **{
        kind: call(name)
        for kind, name in {
            "ArrayPosition": "list_position", "ArrayRemove": "list_remove",
            "ArrayDistinct": "list_distinct", "ArrayUnion": "list_union",
            "ArrayIntersect": "list_intersect", "ArrayExcept": "list_except",
            "ArraysOverlap": "list_overlap", "ArrayMax": "list_max", "ArrayMin": "list_min",
            "ArrayJoin": "list_join", "Slice": "list_slice", "Flatten": "flatten",
            "ArrayRepeat": "list_repeat", "MapKeys": "map_keys", "MapValues": "map_values",
            "MapEntries": "map_entries", "MapFromArrays": "map_from_lists",
            "MapFromEntries": "map_from_entries", "MapConcat": "map_concat",
        }.items()
    },
    "RLike": _rlike,
    "RegExpExtract": _with_group("java_extract"),
    "RegExpExtractAll": _with_group("java_extract_all"),
    "RegExpInStr": _in_string,
    "RegExpReplace": _replace,
    "StringSplit": _split,
}  # fmt: skip
