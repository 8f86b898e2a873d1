"""The context of an expression's translation: columns, types, constants, lambdas.

Handlers of classes of Catalyst (``scalar_operators``, ``scalar_functions``, ``nested_functions``) are given
it with a node. A class without a handler is rejected with its name.

Catalyst has inserted all casts before, so types are found, and never guessed. Arithmetic and casts carry
their evaluation mode (ANSI, LEGACY or TRY), which ``rules`` has read from the plan.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self, TypeAlias

import pyarrow as pa

from pointstamp.errors import FlowError, PointstampError
from pointstamp.expressions.compiler import compile_expression
from pointstamp.expressions.tree import Column, Expression, Lambda, Literal, columns_of
from pointstamp.spark.catalyst.python_batches import UTC_CONVERSIONS, Conversions
from pointstamp.spark.catalyst.trees import TreeNode, arrow_type

Handler: TypeAlias = "Callable[[ExpressionContext, TreeNode], Expression]"

CHANGING: Final = {
    "CurrentTimestamp": "current_timestamp()",
    "CurrentTimestampLike": "current_timestamp()",
    "Now": "now()",
    "CurrentDate": "current_date()",
    "LocalTimestamp": "localtimestamp()",
    "CurrentTime": "current_time()",
    "CurrentTimeZone": "current_timezone()",
    "CurrentUser": "current_user()",
    "CurrentDatabase": "current_database()",
    "CurrentCatalog": "current_catalog()",
    "Rand": "rand()",
    "Randn": "randn()",
    "RandStr": "randstr()",
    "Uniform": "uniform()",
    "Uuid": "uuid()",
    "Shuffle": "shuffle()",
    "MonotonicallyIncreasingID": "monotonically_increasing_id()",
    "SparkPartitionID": "spark_partition_id()",
    "InputFileName": "input_file_name()",
    "InputFileBlockStart": "input_file_block_start()",
    "InputFileBlockLength": "input_file_block_length()",
    "CallMethodViaReflection": "reflect()",
    "UnixTimestampNow": "unix_timestamp()",
}
"""Classes that have another value each time they are evaluated, by their names in SQL."""


# The settings of a Spark session that the meaning of an expression depends on.

_TIME_PARSER: Final = "spark.sql.legacy.timeParserPolicy"
_OTHER_CONVERSIONS: Final = (
    "spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled",
    "spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled",
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype",
)
"""Settings with which Spark converts values for Python functions in another way."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings that are read when a view is defined, and are kept with it."""

    time_zone: str = "UTC"
    ansi: bool = True
    case_sensitive: bool = False
    time_parser: str = "CORRECTED"
    """How times are read and written by patterns: ``spark.sql.legacy.timeParserPolicy``."""
    conversions: Conversions = UTC_CONVERSIONS
    """How the arguments and the results of Python functions are converted."""

    @classmethod
    def of(cls, spark: Any) -> Self:  # noqa: ANN401 - a Spark session, classic or Connect
        """Return the settings of a session."""

        def is_on(name: str, otherwise: str | None = None) -> bool:
            found = spark.conf.get(name) if otherwise is None else spark.conf.get(name, otherwise)
            return str(found).lower() == "true"

        zone = str(spark.conf.get("spark.sql.session.timeZone"))
        return cls(
            zone,
            is_on("spark.sql.ansi.enabled"),
            is_on("spark.sql.caseSensitive"),
            str(spark.conf.get(_TIME_PARSER)).upper(),
            Conversions(
                zone,
                is_on("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName", "true"),
                is_on("spark.sql.execution.pandas.convertToArrowArraySafely", "false"),
                tuple(name for name in _OTHER_CONVERSIONS if is_on(name, "false")),
            ),
        )


class ExpressionContext:
    """Translates expressions over attributes of Catalyst, which have names of columns here.

    ``subquery`` returns the column of a scalar subquery, and ``column_of`` that of an aggregate or a window
    function that stands in an expression; both are of the operator that the expression belongs to.
    """

    handlers: ClassVar["Mapping[str, Handler]"] = {}
    """What each class of Catalyst is translated by."""

    def __init__(
        self,
        attributes: Mapping[int, str],
        session: SessionSettings,
        subquery: Callable[[TreeNode], Expression] | None = None,
        column_of: Callable[[TreeNode], Expression] | None = None,
    ) -> None:
        self._attributes = attributes
        self.session = session
        self._subquery = subquery
        self._column_of = column_of
        self.types: dict[str, pa.DataType] = {}
        """The types of the columns seen so far."""
        self._parameters: dict[int, str] = {}
        self._depth = 0
        self._shared: dict[str, Expression] = {}

    def translate(self, node: TreeNode) -> Expression:
        """Return the expression that a tree means; FlowError names what is not supported."""
        handler = self.handlers.get(node.kind)
        if handler is not None:
            return handler(self, node)
        if node.kind in CHANGING:
            raise FlowError(
                f"{CHANGING[node.kind]} changes without a change of the input, so a view of it cannot be "
                "kept up to date. Use a column of the input instead."
            )
        raise self.rejected(node, "it is not supported in an incremental view")

    def check_time_parser(self, node: TreeNode) -> None:
        """Reject an expression with the pattern of a time if the session reads patterns in another way."""
        if self.session.time_parser != "CORRECTED":
            raise self.rejected(node, f"{_TIME_PARSER}={self.session.time_parser} is not supported")

    def all(self, nodes: Sequence[TreeNode]) -> tuple[Expression, ...]:
        """Return the expressions of several trees."""
        return tuple(map(self.translate, nodes))

    def rejected(self, node: TreeNode, why: str) -> FlowError:
        """Return the error that names an expression and the reason why it is rejected."""
        return FlowError(f"{describe(node)}: {why}. Rewrite the expression, or compute it upstream.")

    def type(self, given: Any, node: TreeNode) -> pa.DataType:  # noqa: ANN401 - a type in JSON
        """Return the Arrow type of a type in JSON."""
        return arrow_type(given, describe(node))

    def type_of(self, expression: Expression) -> pa.DataType:
        """Return the type that an expression has over the attributes seen so far."""
        if isinstance(expression, Literal) and isinstance(expression.type, pa.DataType):
            return expression.type
        if isinstance(expression, Column):
            return self.types[expression.column]
        schema = pa.schema(list(self.types.items()))
        return compile_expression(expression, schema, "type").type

    def constant(self, node: TreeNode, words: str) -> Any:  # noqa: ANN401 - any value
        """Return the value of a tree that is the same for every row; FlowError if it is not."""
        found = self.constant_of(self.translate(node))
        if found is None:
            raise self.rejected(node, f"{words} must be a constant here")
        return found[0]

    def constant_of(self, expression: Expression) -> tuple[Any] | None:
        """Return the value of an expression without columns, or None; the value can be None, too."""
        if isinstance(expression, Literal):
            value = expression.value
            if not isinstance(value, pa.Scalar):
                return (value,)
            if not pa.types.is_nested(value.type):
                return None
            try:
                return (value.as_py(),)
            except (ValueError, OverflowError):  # a time that Python does not have
                return None
        if any(True for _ in columns_of(expression)):
            return None
        try:
            compiled = compile_expression(expression, pa.schema([]), "constant")
            if compiled.uses_zone:
                return None
            return (compiled(pa.record_batch({"": pa.array([0])}))[0].as_py(),)
        except (PointstampError, pa.ArrowException, ArithmeticError, ValueError):
            return None

    def child_constants(self, node: TreeNode, first: int, words: str) -> list[Any]:
        """Return the values of the children from a place on, all of which must be constants."""
        return [self.constant(child, words) for child in node.children[first:]]

    # What the handlers of leaves need.

    def attribute(self, node: TreeNode) -> Expression:
        """Return the column of an attribute."""
        number = node.fields["exprId"]["id"]
        name, kind = self._attributes.get(number), self.type(node.fields["dataType"], node)
        if name is None:
            raise self.rejected(node, f"the attribute {node.fields.get('name')}#{number} is not in the input")
        self.types[name] = kind
        return Column(name)

    def parameter(self, node: TreeNode) -> Expression:
        """Return the column of a variable of a lambda function."""
        return Column(self._parameters[node.fields["exprId"]["id"]])

    def function(self, node: TreeNode) -> Lambda:
        """Return a lambda function; its parameters are named by their depth and place, so that names last."""
        if node.kind != "LambdaFunction":
            raise self.rejected(node, "a lambda function is expected here")
        body, *variables = node.children
        self._depth += 1
        names = []
        for place, variable in enumerate(variables):
            names.append(f"@{self._depth}.{place}")
            self._parameters[variable.fields["exprId"]["id"]] = names[-1]
            self.types[names[-1]] = self.type(variable.fields["dataType"], variable)
        try:
            return Lambda(tuple(names), self.translate(body))
        finally:
            self._depth -= 1
            for name in names:
                del self.types[name]

    def shared(self, node: TreeNode) -> Expression:
        """Return an expression over common expressions, each of which takes the place of its references."""
        body, *definitions = node.children
        outer = self._shared
        self._shared = dict(outer)
        try:
            for definition in definitions:
                value = self.translate(definition.children[0])
                self._shared[self.identity(definition)] = value
            return self.translate(body)
        finally:
            self._shared = outer

    def reference(self, node: TreeNode) -> Expression:
        """Return the common expression that a reference means."""
        return self._shared[self.identity(node)]

    def identity(self, node: TreeNode) -> str:
        """Return the identity of a common expression."""
        found = node.fields["id"]
        if found is None:
            raise self.rejected(node, "the plan was not completed, so its identity is not known")
        return str(found)

    def subquery(self, node: TreeNode) -> Expression:
        """Return the column that holds the value of a scalar subquery."""
        if self._subquery is None:
            raise self.rejected(node, "a subquery is not supported here")
        return self._subquery(node)

    def column_of(self, node: TreeNode) -> Expression:
        """Return the column that holds the value of an aggregate or of a window function."""
        if self._column_of is None:
            raise self.rejected(node, "it is not allowed here")
        return self._column_of(node)


def describe(node: TreeNode) -> str:
    """Return a tree as text that resembles SQL.

    >>> from pointstamp.spark.catalyst.trees import parse
    >>> describe(parse('[{"class": "a.Not", "num-children": 1}, {"class": "a.Rand", "num-children": 0}]'))
    'Not(Rand())'
    """
    fields = node.fields
    if node.kind == "Literal":
        return "null" if fields["value"] is None else str(fields["value"])
    if node.kind in ("AttributeReference", "NamedLambdaVariable", "Alias"):
        return str(fields["name"])
    name = fields.get("functionName", node.kind)
    if node.kind == "PythonUDF":
        name = fields.get("name", node.kind)
    return f"{name}({', '.join(map(describe, node.children))})"
