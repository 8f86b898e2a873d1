"""Trees of Catalyst and Spark's answers, for expressions over the grid: tests/support/catalyst_answers.json.

A line is an expression: its SQL text, the time zone, whether the session has ANSI mode, the tree of the
analyzed plan, the type and the values. scripts/catalyst_answers.py writes the file.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pointstamp.arrow.ddl import type_to_ddl
from pointstamp.errors import PointstampError
from pointstamp.expressions.by_row import python_values
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import Call, Expression
from pointstamp.expressions.zones import in_time_zone
from pointstamp.spark.catalyst.expression_context import SessionSettings
from pointstamp.spark.catalyst.rules import complete
from pointstamp.spark.catalyst.translation import ExpressionTranslator
from pointstamp.spark.catalyst.trees import TreeNode, arrow_type, catalyst_type, parse
from support.spark_grid import ERROR, REJECTED, Asked

FILE: Final = Path(__file__).parent / "catalyst_answers.json"
_DROPPED: Final = ("qualifier", "metadata", "nonInheritableMetadataKeys", "explicitMetadata", "jvmId")


ASKED_LIVE: Final = frozenset(
    [
        # tests/spark/catalyst/test_json.py
        *("from_json", "get_json_object", "json_field", "json_object_keys", "json_array_length"),
        # tests/spark/catalyst/test_aggregates.py
        *("bits_of_group", "mode_of_group", "quantiles_of_group", "joined_group"),
        *("moment_of_group", "pair_moment_of_group"),
    ]
)
"""Functions that are compared with Spark while it runs, and have no stored answers."""


@dataclass(frozen=True, slots=True)
class Question:
    """An expression in a time zone, with or without ANSI mode."""

    sql: str
    zone: str = "UTC"
    is_ansi: bool = True

    @property
    def asked(self) -> Asked:
        """The same without the mode."""
        return Asked(self.sql, self.zone)


@dataclass(frozen=True, slots=True)
class Answered:
    """What Spark says of an expression: its tree, its type in JSON, and its values (``plain``)."""

    tree: TreeNode | None
    type: Any
    values: list[Any]


def plain(value: Any) -> Any:  # noqa: ANN401 - any value
    """A value as JSON that tells apart what is different, such as 0.0 and -0.0, or 1 and 1.0."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, dict):
        return {"fields": [plain(each) for each in value.values()]}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return f"f{value!r}"
    if isinstance(value, bytes | bytearray):
        return f"x{bytes(value).hex()}"
    return f"'{value}" if isinstance(value, str) else f"d{value}"


def answers_of(
    tree: TreeNode, question: Question, batch: pa.RecordBatch | None = None
) -> tuple[Any, list[Any]]:
    """The type in JSON and the values that a tree has here, or REJECTED and the reason."""
    rows = question.asked.rows()
    if batch is None:
        batch = pa.record_batch([column.combine_chunks() for column in rows.columns], schema=rows.schema)
    try:
        compiled = compile_expression(expression_of(tree, question), batch.schema, "grid")
    except PointstampError as error:
        return REJECTED, [str(error)]
    made: list[Any] = []

    def evaluate(first: int, count: int) -> None:
        try:
            with in_time_zone(question.zone):
                found = compiled(batch.slice(first, count))
            assert found.type == compiled.type, f"{question.sql}: {found.type} is not {compiled.type}"
            found.validate(full=True)
            assert len(found) == count
            made.extend(map(plain, python_values(found)))
        except (pa.ArrowException, ArithmeticError, PointstampError):
            if count == 1:
                made.append(ERROR)
                return
            evaluate(first, count // 2)
            evaluate(first + count // 2, count - count // 2)

    evaluate(0, batch.num_rows)
    return catalyst_type(compiled.type), made


def expression_of(tree: TreeNode, question: Question) -> Expression:
    """The expression that a tree is here; its attributes are named as in Spark."""
    return translator_of(tree, question).translate(tree)


def translator_of(tree: TreeNode, question: Question) -> ExpressionTranslator:
    """A translator over the attributes of a tree."""
    settings = SessionSettings(question.zone, question.is_ansi)
    return ExpressionTranslator(_attributes(tree), settings)


def _attributes(tree: TreeNode) -> dict[int, str]:
    found = {}
    if tree.kind == "AttributeReference":
        found[tree.fields["exprId"]["id"]] = tree.fields["name"]
    for child in tree.children:
        found |= _attributes(child)
    return found


def functions_of_trees() -> set[str]:
    """The functions of the registry that expressions with stored answers call."""
    return {
        function
        for question, answered in load().items()
        if answered.tree is not None
        for function in functions_of(answered.tree, question)
    }


def functions_of(tree: TreeNode, question: Question) -> set[str]:
    """The functions of the registry that the expression of a tree calls."""
    found: set[str] = set()

    def visit(node: Any) -> None:  # noqa: ANN401 - any field of an expression
        if isinstance(node, tuple):
            for part in node:
                visit(part)
        elif isinstance(node, Expression):
            if isinstance(node, Call):
                found.add(node.function)
            for name in getattr(node, "__match_args__", ()):
                visit(getattr(node, name))

    visit(expression_of(tree, question))
    return found


def all_nullable(kind: Any) -> Any:  # noqa: ANN401 - a type in JSON
    """A type in which everything can be null, as types are here."""
    return catalyst_type(arrow_type(kind, "type"))


# The file.


def load() -> dict[Question, Answered]:
    """The answers that are stored."""
    found = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        sql, zone, is_ansi, tree, kind, values = json.loads(line)
        found[Question(sql, zone, is_ansi)] = Answered(_read(tree), kind, values)
    return found


TREES: Final = Path(__file__).parent / "catalyst_trees.json"
"""The trees of the expressions of the SQL front end, whose answers are in spark_answers.json."""


def load_trees() -> dict[Question, TreeNode]:
    """The trees of the expressions of the SQL front end."""
    found = {}
    for line in TREES.read_text(encoding="utf-8").splitlines():
        sql, zone, written = json.loads(line)
        tree = _read(written)
        assert tree is not None
        found[Question(sql, zone)] = tree
    return found


def save_trees(trees: Mapping[Question, TreeNode]) -> None:
    """Write trees, a line for each expression."""
    lines = [
        json.dumps([each.sql, each.zone, _written(tree)], ensure_ascii=False, separators=(",", ":"))
        for each, tree in trees.items()
    ]
    TREES.write_text("\n".join(lines) + "\n", encoding="utf-8")


def save(answers: Mapping[Question, Answered]) -> None:
    """Write answers, a line for each expression."""
    lines = [
        json.dumps(
            [each.sql, each.zone, each.is_ansi, _written(found.tree), found.type, found.values],
            ensure_ascii=False,
            separators=(",", ":"),
        )
        for each, found in answers.items()
    ]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _written(tree: TreeNode | None) -> Any:  # noqa: ANN401 - JSON
    if tree is None:
        return None
    name = tree.class_name.removeprefix("org.apache.spark.sql.catalyst.expressions.")
    fields = {key: value for key, value in tree.fields.items() if key not in _DROPPED}
    if tree.kind == "CaseWhen":  # its children say it
        fields.pop("branches", None)
        fields.pop("elseValue", None)
    return [name, {key: _field(value) for key, value in fields.items()}, *map(_written, tree.children)]


def _field(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, TreeNode):
        return {"tree": _written(value)}
    if isinstance(value, list):
        return [_field(each) for each in value]
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if key not in _DROPPED}
    return value


def _read(written: Any) -> TreeNode | None:  # noqa: ANN401 - JSON
    if written is None:
        return None
    name, fields, *children = written
    whole = name if name.startswith("org.") else f"org.apache.spark.sql.catalyst.expressions.{name}"
    fields = {key: _read_field(value) for key, value in fields.items()}
    kind = name.removesuffix("$").rsplit(".", 1)[-1].rsplit("$", 1)[-1]
    return TreeNode(kind, whole, fields, tuple(each for child in children if (each := _read(child))))


def _read_field(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict) and "bytes" in value:
        return bytes.fromhex(value["bytes"])
    if isinstance(value, dict) and "tree" in value:
        return _read(value["tree"])
    return [_read_field(each) for each in value] if isinstance(value, list) else value


# Spark.


class CatalystSession:
    """Asks Spark for trees and values, row by row in its JVM."""

    def __init__(self, spark: Any) -> None:  # noqa: ANN401 - a session
        self._spark = spark
        jvm = spark._jvm
        self._catalyst = jvm.org.apache.spark.sql.catalyst
        self._replace = getattr(getattr(self._catalyst.optimizer, "ReplaceExpressions$"), "MODULE$")
        self._frames: dict[tuple[str, ...], tuple[Any, list[Any]]] = {}

    def plan_of(self, frame: Any) -> tuple[Any, TreeNode]:  # noqa: ANN401 - a DataFrame
        """The analyzed plan of a DataFrame in the JVM, and its completed tree."""
        plan = self._replace.apply(frame._jdf.queryExecution().analyzed())
        return plan, complete(plan, parse(plan.toJSON()))

    def tree(self, question: Question) -> TreeNode:
        """The tree of an expression."""
        self._spark.conf.set("spark.sql.session.timeZone", question.zone)
        self._spark.conf.set("spark.sql.ansi.enabled", str(question.is_ansi).lower())
        schema = _ddl(question.asked.rows().schema)
        frame = self._spark.createDataFrame([], schema).selectExpr(f"{question.sql} as v")
        found: TreeNode = self.plan_of(frame)[1].fields["projectList"][0]
        return found

    def __call__(self, question: Question) -> Answered:
        """What Spark says."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        self._spark.conf.set("spark.sql.session.timeZone", question.zone)
        self._spark.conf.set("spark.sql.ansi.enabled", str(question.is_ansi).lower())
        frame, rows = self._input(question)
        try:
            made = frame.selectExpr(f"{question.sql} as v")
            _, project = self.plan_of(made)
        except PySparkException as error:
            return Answered(None, REJECTED, [str(error).split("\n")[0]])
        tree = project.fields["projectList"][0]
        kind = json.loads(made.schema["v"].dataType.json())
        attributes = frame._jdf.queryExecution().analyzed().output()
        try:
            plan = made._jdf.queryExecution().optimizedPlan()
            projection = self._catalyst.expressions.InterpretedMutableProjection(
                plan.expressions(), attributes
            )
            result_type = plan.output().head().dataType()
        except (Py4JJavaError, PySparkException):
            return Answered(tree, kind, [ERROR] * len(rows))
        values: list[Any] = []
        for row in rows:
            try:
                values.append(plain(_decoded(projection.apply(row).get(0, result_type), result_type)))
            except (Py4JJavaError, PySparkException):
                values.append(ERROR)
        return Answered(tree, kind, values)

    def row(self, frame: Any, place: int) -> tuple[Any, Any]:  # noqa: ANN401 - a DataFrame
        """The type in JSON and the value of a column of a DataFrame of one row; ERROR if it fails."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        field = frame.schema.fields[place]
        try:
            (row,) = frame._jdf.queryExecution().executedPlan().executeCollect()
            kind = frame._jdf.schema().apply(place).dataType()
            return json.loads(field.dataType.json()), _decoded(
                None if row.isNullAt(place) else row.get(place, kind), kind
            )
        except (Py4JJavaError, PySparkException):
            return json.loads(field.dataType.json()), ERROR

    def _input(self, question: Question) -> tuple[Any, list[Any]]:
        asked = question.asked
        columns = tuple(asked.columns)
        if columns not in self._frames:
            rows = asked.rows()
            values = [tuple(map(_for_spark, row.values(), rows.schema.types)) for row in rows.to_pylist()]
            frame = self._spark.createDataFrame(values, schema=_ddl(rows.schema))
            self._frames[columns] = frame, list(frame._jdf.queryExecution().executedPlan().executeCollect())
        return self._frames[columns]


def _ddl(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {type_to_ddl(field.type)}" for field in schema)


def _for_spark(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - any value
    return dict(value) if pa.types.is_map(kind) and value is not None else value


def _decoded(value: Any, kind: Any) -> Any:  # noqa: ANN401 - a value and a type of Catalyst
    """A value of Catalyst's as ``python_values`` has it."""
    if value is None:
        return None
    name = str(kind.typeName())
    if name == "array":
        return _elements(value, kind.elementType())
    if name == "map":
        keys = _elements(value.keyArray(), kind.keyType())
        return list(zip(keys, _elements(value.valueArray(), kind.valueType()), strict=True))
    if name == "struct":
        fields = [kind.apply(place) for place in range(kind.length())]
        return {
            f"{place} {field.name()}": None
            if value.isNullAt(place)
            else _decoded(value.get(place, field.dataType()), field.dataType())
            for place, field in enumerate(fields)
        }
    if name == "string":
        return str(value.toString())
    if name == "binary":
        return bytes(value)
    if name.startswith("decimal"):
        return value.toJavaBigDecimal()
    return float(np.float32(value)) if name == "float" else value


def _elements(array: Any, kind: Any) -> Sequence[Any]:  # noqa: ANN401 - an array of Catalyst
    return [
        None if array.isNullAt(place) else _decoded(array.get(place, kind), kind)
        for place in range(array.numElements())
    ]


def differences(question: Question, found: tuple[Any, list[Any]], answered: Answered) -> list[str]:
    """How answers differ from those of Spark, as text."""
    kind, values = found
    what = f"{question.sql} in {question.zone}{'' if question.is_ansi else ' without ANSI'}"
    if answered.type == REJECTED or kind == REJECTED:
        return []
    wrong = []
    if kind != all_nullable(answered.type):
        wrong.append(f"{what}: {kind} here, {answered.type} there")
    for row, ours, theirs in zip(question.asked.rows().to_pylist(), values, answered.values, strict=True):
        if ours != theirs and not (is_rounded(question.sql) and is_close_to(ours, theirs)):
            shown = {name: row[name] for name in question.asked.columns}
            wrong.append(f"{what}: {ours} here, {theirs} there, for {shown}")
    return wrong


_ROUNDED: Final = (
    "exp", "ln", "log", "log10", "log2", "power", "pow", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cot", "sec", "csc", "cbrt", "expm1", "log1p", "hypot",
    "atan2", "degrees", "radians",
)  # fmt: skip


def is_rounded(sql: str) -> bool:
    """Whether the last digit depends on the library that computes it."""
    return any(f"{name}(" in sql.lower() for name in _ROUNDED)


def is_close_to(ours: Any, theirs: Any) -> bool:  # noqa: ANN401 - any value
    """Whether two doubles differ in their last digits only."""
    if not isinstance(ours, str) or not isinstance(theirs, str) or ours[:1] != "f" or theirs[:1] != "f":
        return False
    return math.isclose(float(ours[1:]), float(theirs[1:]), rel_tol=1e-13)
