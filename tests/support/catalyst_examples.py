"""The examples of Spark's manual, each evaluated by Spark and, from Spark's analyzed plan, here.

``describe function extended f`` has executable examples. An example counts if it is one SELECT of expressions
without an input, or from VALUES without aggregates; others are of operators of the plan.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pointstamp.errors import PointstampError
from pointstamp.expressions.signature import is_by_row
from pointstamp.spark.catalyst.aggregates import translate_aggregate
from pointstamp.spark.catalyst.trees import TreeNode
from pointstamp.spark.catalyst.windows import translate_window
from support.catalyst_answers import (
    CatalystSession,
    Question,
    all_nullable,
    answers_of,
    functions_of,
    is_close_to,
    is_rounded,
    plain,
    translator_of,
)
from support.spark_grid import ERROR, REJECTED


@dataclass(frozen=True, slots=True)
class Example:
    """An example of a function: its text and what came of it."""

    function: str
    sql: str
    outcome: str
    """equal, different, accepted (an aggregate or a window function), rejected, or outside (of operators)."""
    why: str = ""
    is_by_row: bool = False
    """Whether a part of it is computed row by row."""


def compared_examples(spark: Any) -> list[Example]:  # noqa: ANN401 - a session
    """Compare the examples of all functions that Spark has."""
    session = CatalystSession(spark)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.ansi.enabled", "true")
    return [
        _compared(session, spark, name, sql)
        for name in function_names(spark)
        for sql in _examples(spark, name)
    ]


def function_names(spark: Any) -> list[str]:  # noqa: ANN401 - a session
    """The names of Spark's own functions and operators."""
    return sorted(row[0] for row in spark.sql("show system functions").collect())


def _examples(spark: Any, name: str) -> Iterator[str]:  # noqa: ANN401 - a session
    manual = "\n".join(row[0] for row in spark.sql(f"describe function extended `{name}`").collect())
    for match in re.finditer(r"> (SELECT .*?);[ ]*\n", manual + "\n", re.IGNORECASE | re.DOTALL):
        yield match[1]


def _compared(session: CatalystSession, spark: Any, name: str, sql: str) -> Example:  # noqa: ANN401
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        frame = spark.sql(sql)
        plan, tree = session.plan_of(frame)
    except (PySparkException, Py4JJavaError) as error:
        return Example(name, sql, "outside", str(error).split("\n")[0][:120])
    if (found := _gathered(tree)) is not None:
        return _accepted(name, sql, found)
    if tree.kind != "Project" or tree.children[0].kind != "OneRowRelation":
        return Example(name, sql, "outside", f"a plan of {tree.kind}")
    batch = pa.record_batch({"one": pa.array([0])})
    for place, column in enumerate(tree.fields["projectList"]):
        outcome, why = _column(session, plan, frame, place, column, batch, sql)
        if outcome != "equal":
            return Example(name, sql, outcome, why)
    called = {each for column in tree.fields["projectList"] for each in functions_of(column, Question("1"))}
    return Example(name, sql, "equal", is_by_row=any(map(is_by_row, called)))


def _gathered(tree: TreeNode) -> list[TreeNode] | None:
    """The aggregates or window functions of a plan, if it has some."""
    if tree.kind in ("Aggregate", "Window"):
        field = "aggregateExpressions" if tree.kind == "Aggregate" else "windowExpressions"
        wanted = "AggregateExpression" if tree.kind == "Aggregate" else "WindowExpression"
        found: list[TreeNode] = []

        def visit(node: TreeNode) -> None:
            if node.kind == wanted:
                found.append(node)
            else:
                for child in node.children:
                    visit(child)

        for each in tree.fields[field]:
            visit(each)
        return found or None
    return next((nodes for child in tree.children if (nodes := _gathered(child)) is not None), None)


def _accepted(name: str, sql: str, nodes: list[TreeNode]) -> Example:
    """Whether aggregates and window functions are translated; the tests of views compare their values."""
    for node in nodes:
        translator = translator_of(node, Question("1"))
        try:
            if node.kind == "AggregateExpression":
                translate_aggregate(translator, node, ["a"])
            else:
                translate_window(translator, node)
        except PointstampError as error:
            return Example(name, sql, "rejected", str(error))
    return Example(name, sql, "accepted")


def _column(
    session: CatalystSession,
    plan: Any,  # noqa: ANN401 - a plan in the JVM
    frame: Any,  # noqa: ANN401 - a DataFrame
    place: int,
    column: TreeNode,
    batch: pa.RecordBatch,
    sql: str,
) -> tuple[str, str]:
    question = Question("1")
    kind, values = answers_of(column, question, batch)
    if kind == REJECTED:
        return "rejected", str(values[0])
    there_kind, there = session.row(frame, place)
    if there == ERROR or values[0] == ERROR:
        return ("equal", "") if there == values[0] else ("different", f"{values[0]} here, {there} there")
    if kind != all_nullable(there_kind):
        return "different", f"{kind} here, {there_kind} there"
    if values[0] != plain(there) and not (is_rounded(sql) and is_close_to(values[0], plain(there))):
        return "different", f"{values[0]} here, {plain(there)} there"
    return "equal", ""
