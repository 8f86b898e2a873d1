"""The analyzed plan of a DataFrame, with selected rules of Catalyst.

The optimized plan is the wrong contract for a view that lives for months: it has ``current_timestamp()`` as
a literal, several ``count(distinct ...)`` as an Expand, common table expressions once for each use, and an
order of joins that depends on statistics. The rules below are those that remove what only Catalyst can remove
(correlated subqueries, functions that stand for others) and those that move conditions to where their
columns are; none of them looks at data, at statistics or at the clock. Spark also folds what has the same
value for each row (``ConstantFolding``), unless the plan has an expression that changes, such as
``current_date()``: folding would replace it with its value of that moment.

JSON loses some of what a plan has (this module); the values of a pivot, and which keys are session windows,
are added to it here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pyspark.errors import PySparkException

from pointstamp.errors import InternalError, SqlError
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode, TreeNode, parse

_CATALYST: Final = "org.apache.spark.sql.catalyst"
_ANALYSIS: Final = f"{_CATALYST}.analysis"
_OPTIMIZER: Final = f"{_CATALYST}.optimizer"

RULES: Final = (
    f"{_ANALYSIS}.EliminateSubqueryAliases",
    f"{_CATALYST}.expressions.EliminatePipeOperators",
    f"{_OPTIMIZER}.EliminateSQLFunctionNode",
    f"{_OPTIMIZER}.ReplaceExpressions",
    f"{_OPTIMIZER}.ConstantFolding",
    f"{_OPTIMIZER}.RewriteNonCorrelatedExists",
    f"{_OPTIMIZER}.PullOutGroupingExpressions",
    f"{_OPTIMIZER}.RewriteWithExpression",
    f"{_OPTIMIZER}.BooleanSimplification",
    f"{_OPTIMIZER}.PullupCorrelatedPredicates",
    f"{_OPTIMIZER}.RewriteLateralSubquery",
    f"{_OPTIMIZER}.RewriteCorrelatedScalarSubquery",
    f"{_OPTIMIZER}.RewritePredicateSubquery",
    f"{_OPTIMIZER}.PushDownPredicates",
    f"{_OPTIMIZER}.ReorderJoin",
    f"{_OPTIMIZER}.ColumnPruning",
)
"""Scala objects, in the order in which they are applied."""

_FOLDING: Final = f"{_OPTIMIZER}.ConstantFolding"
_SPECIAL_TEXTS: Final = f"{_OPTIMIZER}.SpecialDatetimeValues"
"""Spark's rule that replaces casts of 'now', 'today' and others with the time of planning."""
_INLINING: Final = f"{_OPTIMIZER}.InlineCTE"
_CHANGING: Final = re.compile(
    r'"class":"[\w.$]*\.(?:Current(?!Row)\w*|LocalTimestamp\w*|Now|UnixTimestampNow)\$?"'
)
"""Expressions that have the same value for each row, and another one in another query."""

_PASSES_MAX: Final = 20


class CatalystRules:
    """The rules as objects of the JVM of a session."""

    def __init__(self, spark: Any) -> None:  # noqa: ANN401 - a classic session
        self._jvm = spark.sparkContext._jvm  # noqa: SLF001 - the one way to the JVM
        self._rules = [self._rule(name) for name in RULES]
        self._special = self._rule(_SPECIAL_TEXTS)
        self._inlining = self._inlining_rule()

    def _rule(self, name: str) -> Any:  # noqa: ANN401 - a Scala object
        try:
            loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
            self._jvm.java.lang.Class.forName(f"{name}$", True, loader)
        except Exception as error:
            version = self._jvm.org.apache.spark.package.SPARK_VERSION
            raise SqlError(
                f"Spark {version} has no rule {name}, which views of DataFrames need. Use a Spark version "
                "that pointstamp supports."
            ) from error
        package, _, simple = name.rpartition(".")
        holder = self._jvm
        for part in [*package.split("."), f"{simple}$"]:
            holder = getattr(holder, part)
        return getattr(holder, "MODULE$")

    def _inlining_rule(self) -> Any:  # noqa: ANN401 - a Scala object
        """Return the rule that puts common table expressions where they are used; all of them."""
        companion = self._rule(_INLINING)
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        (constructor,) = self._jvm.java.lang.Class.forName(_INLINING, True, loader).getConstructors()
        count = len(constructor.getParameterTypes())  # 2 in Spark 4.1, 3 in Spark 4.3
        others = [getattr(companion, f"apply$default${place}")() for place in range(2, count + 1)]
        return companion.apply(True, *others)

    def prepare(self, analyzed: Any, *, is_inlined: bool = False) -> "PreparedPlan":  # noqa: ANN401
        """Return an analyzed plan of the JVM without what the rules remove.

        Common table expressions stay, but for those of correlated subqueries: Spark cannot decorrelate them.
        """
        plan = analyzed
        if not self._special.apply(plan).fastEquals(plan):
            raise SqlError(
                "a text such as 'now' or 'today' is cast to a time, whose value changes without a change of "
                "the input. Use a column of the input instead."
            )
        folds = _CHANGING.search(plan.toJSON()) is None
        for _ in range(_PASSES_MAX):
            changed = plan
            for name, rule in zip(RULES, self._rules, strict=True):
                if name == _FOLDING and not folds:
                    continue
                try:
                    changed = rule.apply(changed)
                except PySparkException as error:
                    if "through WithCTE is not supported" in str(error) and not is_inlined:
                        return self.prepare(self._inlining.apply(analyzed), is_inlined=True)
                    simple = name.rpartition(".")[2]
                    raise SqlError(f"Spark's rule {simple} does not apply: {error}") from error
            if changed.fastEquals(plan):
                break
            plan = changed
        return PreparedPlan(self, plan)


class PreparedPlan:
    """A plan as a tree, and where each of its nodes is in the JVM."""

    def __init__(self, rules: CatalystRules, plan: Any) -> None:  # noqa: ANN401 - a plan of the JVM
        parsed = parse(plan.toJSON())
        _add_projections(plan, parsed)
        self.tree = complete(plan, parsed)
        self._plans: dict[int, tuple[Any, tuple[int, ...]]] = {}
        self._index(rules, plan, self.tree)

    def jvm_node(self, node: PlanNode) -> Any:  # noqa: ANN401 - a node of the JVM
        """Return the JVM's node of a node of this plan or of one of its subqueries."""
        found, path = self._plans[id(node)]
        for place in path:
            found = found.children().apply(place)
        return found

    def _index(self, rules: CatalystRules, plan: Any, tree: PlanNode) -> None:  # noqa: ANN401
        waiting: list[tuple[PlanNode, tuple[int, ...]]] = [(tree, ())]
        while waiting:
            node, path = waiting.pop()
            self._plans[id(node)] = (plan, path)
            waiting.extend((child, (*path, place)) for place, child in enumerate(node.children))
            own = list(own_expressions(node))
            if node.kind == "Aggregate":
                self._mark_sessions(node)
            if node.kind == "Generate":
                places = self.jvm_node(node).unrequiredChildIndex()
                node.fields["unrequiredChildIndex"] = [  # type: ignore[index]
                    places.apply(place) for place in range(places.size())
                ]
            if any(each.kind == "PivotFirst" for root in own for each in walk(root)):
                expressions = self.jvm_node(node).expressions()
                for place, root in enumerate(own):
                    _add_pivot_values(expressions.apply(place), root)
            subqueries = [each for root in own for each in walk(root) if "plan" in each.fields]
            if subqueries:
                plans = self.jvm_node(node).subqueries()
                assert plans.size() == len(subqueries), f"{node.kind} has other subqueries in its JSON"
                for place, each in enumerate(subqueries):
                    inner = rules.prepare(plans.apply(place))
                    self._plans.update(inner._plans)  # noqa: SLF001 - one of its own kind
                    each.fields["plan"] = inner.tree  # type: ignore[index]

    def _mark_sessions(self, node: PlanNode) -> None:
        """Say of grouping keys that are session windows that they are: JSON leaves their metadata out."""
        for place, each in enumerate(node.fields["groupingExpressions"]):
            if each.kind == "AttributeReference" and isinstance(each.fields["dataType"], dict):
                key = self.jvm_node(node).groupingExpressions().apply(place)
                each.fields["is_session"] = bool(key.metadata().contains("spark.sessionWindow"))


def analyzed_plan(frame: Any) -> Any:  # noqa: ANN401 - a DataFrame, and a plan of the JVM
    """Return the analyzed plan of a DataFrame of a classic session."""
    try:
        return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - the one way to the plan
    except PySparkException as error:
        raise SqlError(f"Spark cannot analyze the DataFrame: {error}") from error


def output_of(plan: Any) -> list[ExpressionNode]:  # noqa: ANN401 - a plan of the JVM
    """Return the attributes of the output of a plan."""
    return [parse(each.toJSON()) for each in _elements(plan.output())]


def walk(root: TreeNode) -> Iterator[TreeNode]:
    """Yield a node and all below it in pre-order; not the plans of subqueries."""
    yield root
    for child in root.children:
        yield from walk(child)


def own_expressions(node: PlanNode) -> Iterator[ExpressionNode]:
    """Yield the expressions among the fields of a node, in the order of ``QueryPlan.expressions``."""
    waiting = list(node.fields.values())[::-1]
    while waiting:
        value = waiting.pop()
        if isinstance(value, TreeNode):
            yield value
        elif isinstance(value, list):
            waiting.extend(value[::-1])


def _add_projections(plan: Any, node: PlanNode) -> None:  # noqa: ANN401 - a plan of the JVM
    """Read the projections of an Expand from the plan where its JSON has none."""
    if not any(each.kind == "Expand" for each in walk(node)):
        return
    if node.kind == "Expand" and node.fields["projections"] is None:
        found = plan.projections()
        node.fields["projections"] = [  # type: ignore[index]
            [parse(each.apply(place).toJSON()) for place in range(each.size())]
            for each in (found.apply(number) for number in range(found.size()))
        ]
    for place, child in enumerate(node.children):
        _add_projections(plan.children().apply(place), child)


def _add_pivot_values(expression: Any, node: ExpressionNode) -> None:  # noqa: ANN401 - of the JVM
    if node.kind == "PivotFirst":
        values = expression.pivotColumnValues()
        found = [values.apply(place) for place in range(values.size())]
        node.fields["pivotColumnValues"] = [  # type: ignore[index]
            None if each is None else each if isinstance(each, int) else each.toString() for each in found
        ]
    for place, child in enumerate(node.children):
        _add_pivot_values(expression.children().apply(place), child)


# What ``toJSON`` of a Catalyst plan leaves out, read from the plan itself.
#
# ``toJSON`` writes null for a field whose class it does not know. Two trees that mean something else have the
# same JSON then: ``try_add(a, b)`` and ``a + b`` differ in their evaluation mode only, and so do ``try_cast``
# and ``cast``. A literal of bytes is written as the address of an array, and a timestamp as the text of a
# clock, which shows an hour twice when clocks are set back. The function of a Python UDF is left out, too.
# ``complete`` fills these fields in. A translator rejects a tree in which one is missing.
#
# The nodes of the two trees are matched by place: ``children`` is in both the same list.

_OMITTED: Final = frozenset(["evalMode", "evalContext", "escapeChar", "options", "id", "patterns"])
"""Fields that ``toJSON`` writes as null although they have a value."""

_PLANS: Final = frozenset(["plan"])
"""Fields of an expression that hold the plan of a subquery."""

_EXACT_LITERALS: Final = frozenset(["timestamp", "binary"])
"""Types of literals whose JSON does not say the value; nested types are others."""

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
"""What Java shows in place of bytes that are not UTF-8."""


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
        kind, value = tree.fields["dataType"], tree.fields["value"]
        if value is None:
            return False
        if isinstance(kind, str):
            return kind in _EXACT_LITERALS or (kind == "string" and _REPLACEMENT in value)
        return isinstance(kind, dict)  # a nested type
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
        return {**tree.fields, "value": _literal_value(expression.value(), expression.dataType())}
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


def _literal_value(value: Any, kind: Any) -> Any:  # noqa: ANN401 - a value and a type in the JVM
    """Return a value of Catalyst as ``by_row`` has values; None for a type that has none here.

    SqlError for a string with bytes that are not UTF-8.
    """
    if value is None:
        return None
    match str(kind.typeName()):
        case "array":
            return _array_values(value, kind.elementType())
        case "map":
            keys = _array_values(value.keyArray(), kind.keyType())
            return list(zip(keys, _array_values(value.valueArray(), kind.valueType()), strict=True))
        case "struct":
            fields = [kind.apply(place) for place in range(kind.length())]
            return {
                field.name(): None
                if value.isNullAt(place)
                else _literal_value(value.get(place, field.dataType()), field.dataType())
                for place, field in enumerate(fields)
            }
        case "binary":
            return bytes(value)
        case name if name.startswith("decimal"):
            return value.toJavaBigDecimal()
        case name if name.startswith("string"):
            try:
                return bytes(value.getBytes()).decode()
            except UnicodeDecodeError as error:
                raise SqlError(
                    f"a constant string has bytes that are not UTF-8: {bytes(value.getBytes())!r}. Use a "
                    "binary value."
                ) from error
    return value


def _array_values(array: Any, kind: Any) -> list[Any]:  # noqa: ANN401 - an array and a type in the JVM
    return [
        None if array.isNullAt(place) else _literal_value(array.get(place, kind), kind)
        for place in range(array.numElements())
    ]


def _pickled_function(function: Any) -> bytes | None:  # noqa: ANN401 - a PythonFunction in the JVM
    """The function as Spark's Python pickled it, or None if it is kept beside (one that is very large)."""
    if function.broadcastVars().size():
        return None
    found = function.command()
    return bytes(byte % 256 for byte in (found.apply(place) for place in range(found.size())))


def _elements(sequence: Any) -> Iterator[Any]:  # noqa: ANN401 - a Seq of Scala
    return (sequence.apply(place) for place in range(sequence.size()))
