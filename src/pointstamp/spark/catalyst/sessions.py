"""Session windows: rows that are near each other in time, merged as Spark does it after planning.

In the analyzed plan the window of each row begins with the row and is as long as the gap. Spark merges
windows that overlap, for the same values of the other grouping keys, when it plans the query. So this is done
here: the rows of a key are ordered by the start of their window, and a session begins where the window of a
row starts after the end of all windows before it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pointstamp.expressions.tree import col, when
from pointstamp.plan import logical
from pointstamp.spark.catalyst.relation import BoundRelation, attribute, fresh_name
from pointstamp.spark.catalyst.rules import walk
from pointstamp.spark.catalyst.translation import Translation, rejected
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode, TreeNode
from pointstamp.spark.catalyst.types import catalyst_type
from pointstamp.tables.in_order import OrderFunction, RowFrame

_BEFORE: Final = RowFrame(None, -1)
_WHOLE: Final = RowFrame(None, None)


def is_session(node: ExpressionNode) -> bool:
    """Return whether a grouping key is a session window."""
    return bool(node.fields.get("is_session"))


def check_no_session_sets(node: PlanNode) -> None:
    """Reject session windows in grouping sets: a copy of the window is not marked as one."""
    if not any(each.fields.get("name") == "spark_grouping_id" for each in node.fields["groupingExpressions"]):
        return
    for inner in walk(node):
        for each in inner.fields.get("projectList", ()):
            if each.kind == "Alias" and each.fields["name"] == "session_window":
                raise rejected(
                    each, "is not supported in grouping sets", "Group by the session window, and union."
                )


def with_sessions(
    translation: Translation, relation: BoundRelation, window: str, keys: Sequence[str]
) -> tuple[BoundRelation, str]:
    """Return a relation with the session of each row among those with its keys, and the session's column."""
    operators, given = translation.operators, relation.operator.schema.names
    names: list[str] = []
    for wanted in ("start", "end", "latest end", "begins", "number", "first start", "last end", "session"):
        names.append(fresh_name(f"session {wanted}", [*given, *names]))
    start, end, latest, begins, number, first, last, session = names
    timed = operators.with_columns(
        relation, {start: col(window).field("start"), end: col(window).field("end")}
    )
    by = f"{start} asc nulls first"
    before = OrderFunction("running_max", end, frame=_BEFORE)
    ordered = operators.make(logical.WindowFunctions, timed.operator, tuple(keys), (by,), ((latest, before),))
    is_first = col(latest).is_null() | (col(start) > col(latest))
    marked = operators.with_columns(
        replace(timed, operator=ordered), {begins: when(is_first, 1).otherwise(0)}
    )
    # Of rows that start together the one that begins a session is the first, so that it counts for all.
    order = (by, f"{begins} desc nulls last")
    count = OrderFunction("running_sum", begins, frame=RowFrame(None, 0))
    numbered = operators.make(
        logical.WindowFunctions, marked.operator, tuple(keys), order, ((number, count),)
    )
    ends = (
        (first, OrderFunction("running_min", start, frame=_WHOLE)),
        (last, OrderFunction("running_max", end, frame=_WHOLE)),
    )
    bounded = operators.make(logical.WindowFunctions, numbered, (*keys, number), (by,), ends)
    kind = bounded.schema.field(window).type
    parts: list[TreeNode] = []
    ids = {-1_000_001: first, -1_000_002: last}
    for (identity, _), field in zip(ids.items(), kind, strict=True):
        parts.append(TreeNode("Literal", "Literal", {"value": field.name, "dataType": "string"}, ()))
        parts.append(attribute(identity, field.name, catalyst_type(field.type)))
    struct = translation.expression(TreeNode("CreateNamedStruct", "CreateNamedStruct", {}, tuple(parts)), ids)
    own = {name: col(name) for name in given}
    operator = operators.project(bounded, {**own, session: struct})
    return replace(relation, operator=operator, is_single=False, order=()), session
