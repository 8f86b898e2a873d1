"""What ``toJSON`` of a Catalyst plan leaves out, read from the plan itself.

``toJSON`` writes null for a field whose class it does not know. Two trees that mean something else have the
same JSON then: ``try_add(a, b)`` and ``a + b`` differ in their evaluation mode only, and so do ``try_cast``
and ``cast``. A literal of bytes is written as the address of an array, and a timestamp as the text of a
clock, which shows an hour twice when clocks are set back. The function of a Python UDF is left out, too.
``complete`` fills these fields in. A translator
rejects a tree in which one is missing.

The nodes of the two trees are matched by place: ``children`` is in both the same list.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pointstamp.errors import InternalError
from pointstamp.spark.catalyst.trees import TreeNode

_OMITTED: Final = frozenset(["evalMode", "evalContext", "escapeChar", "options", "id", "patterns"])
"""Fields that ``toJSON`` writes as null although they have a value."""

_PLANS: Final = frozenset(["plan"])
"""Fields of an expression that hold the plan of a subquery."""

_EXACT_LITERALS: Final = frozenset(["timestamp", "binary"])
"""Types of literals whose JSON does not say the value."""


def complete(plan: Any, tree: TreeNode) -> TreeNode:  # noqa: ANN401 - a Catalyst plan in the JVM
    """Return the tree of a plan with the fields that its JSON leaves out."""
    expressions = _elements(plan.expressions())

    def completed(value: Any) -> Any:  # noqa: ANN401 - any value of JSON
        if isinstance(value, TreeNode):
            if _is_plan(value):
                return value
            if not (found := next(expressions, None)):
                raise InternalError(f"the JSON of {tree.kind} has more expressions than the plan.")
            return complete_expression(found, value)
        if isinstance(value, list):
            return [completed(each) for each in value]
        return value

    fields = {key: completed(value) for key, value in tree.fields.items()}
    if next(expressions, None) is not None:
        raise InternalError(f"the JSON of {tree.kind} has fewer expressions than the plan.")
    return replace(tree, fields=fields, children=_completed_children(plan, tree, complete))


def complete_expression(expression: Any, tree: TreeNode) -> TreeNode:  # noqa: ANN401 - of Catalyst, in the JVM
    """Return the tree of an expression with the fields that its JSON leaves out."""
    if not _needs(tree):
        return tree
    fields = dict(_own_fields(expression, tree))
    for name in _PLANS & fields.keys():
        if isinstance(fields[name], TreeNode):
            fields[name] = complete(expression.plan(), fields[name])
    children = _completed_children(expression, tree, complete_expression)
    return replace(tree, fields=fields, children=children)


def _completed_children(owner: Any, tree: TreeNode, each: Any) -> tuple[TreeNode, ...]:  # noqa: ANN401
    if not any(map(_needs, tree.children)):
        return tree.children
    found = owner.children()
    return tuple(
        each(found.apply(place), child) if _needs(child) else child
        for place, child in enumerate(tree.children)
    )


def _needs(tree: TreeNode) -> bool:
    """Whether there is something to read from the JVM, so that calls are made for few nodes."""
    return _is_plan(tree) or _is_incomplete(tree) or any(map(_needs, tree.children))


def _is_incomplete(tree: TreeNode) -> bool:
    if tree.kind == "Literal":
        kind = tree.fields["dataType"]  # a nested type is a mapping
        return isinstance(kind, str) and kind in _EXACT_LITERALS and tree.fields["value"] is not None
    if tree.kind == "PythonUDF":
        return True
    has_plan = any(isinstance(tree.fields.get(name), TreeNode) for name in _PLANS)
    return has_plan or any(tree.fields.get(name, 0) is None for name in _OMITTED)


def _is_plan(tree: TreeNode) -> bool:
    return ".plans.logical." in tree.class_name or ".execution." in tree.class_name


def _own_fields(expression: Any, tree: TreeNode) -> Mapping[str, Any]:  # noqa: ANN401
    if tree.kind == "Literal":
        if not _is_incomplete(tree):
            return tree.fields
        value = expression.value()
        return {**tree.fields, "value": bytes(value) if tree.fields["dataType"] == "binary" else int(value)}
    if tree.kind == "PythonUDF":
        return {**tree.fields, "func": _pickled_function(expression.func())}
    omitted: dict[str, Any] = {
        name: str(getattr(expression, name)()) for name in _OMITTED if tree.fields.get(name, 0) is None
    }
    if "patterns" in omitted:
        omitted["patterns"] = [
            None if each is None else str(each) for each in _elements(expression.patterns())
        ]
    return {**tree.fields, **omitted}


def _pickled_function(function: Any) -> bytes | None:  # noqa: ANN401 - a PythonFunction in the JVM
    """The function as Spark's Python pickled it, or None if it is kept beside (one that is very large)."""
    if function.broadcastVars().size():
        return None
    found = function.command()
    return bytes(byte % 256 for byte in (found.apply(place) for place in range(found.size())))


def _elements(sequence: Any) -> Iterator[Any]:  # noqa: ANN401 - a Seq of Scala
    return (sequence.apply(place) for place in range(sequence.size()))
