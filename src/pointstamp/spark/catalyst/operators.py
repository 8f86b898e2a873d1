"""Nodes of Catalyst's plans to logical operators, one function for each class of node.

A node that has no function here is rejected by its class. What a node gives is a ``BoundRelation``: an
operator, and which of its columns the expression ids of Catalyst are.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from pointstamp.errors import SchemaError, SqlError
from pointstamp.expressions.tree import Call, Expression, col, lit
from pointstamp.incremental.window_functions import OrderFunction
from pointstamp.plan import logical
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Variable
from pointstamp.spark.catalyst.aggregates import aggregate, project_onto
from pointstamp.spark.catalyst.expression_context import CHANGING, SessionSettings
from pointstamp.spark.catalyst.joins import join
from pointstamp.spark.catalyst.python_functions import cogrouped_map, grouped_map
from pointstamp.spark.catalyst.relation import (
    BoundRelation,
    Leaf,
    Leaves,
    attribute,
    fresh_name,
    id_of,
    replaced,
    schema_of,
)
from pointstamp.spark.catalyst.rules import CatalystRules, PreparedPlan, output_of, own_expressions, walk
from pointstamp.spark.catalyst.translation import Translation, conjuncts, naming, rejected
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode, arrow_schema
from pointstamp.spark.catalyst.windows import ordered_by, window

_ROUNDS_MAX: Final = 100
"""Spark's ``spark.sql.cteRecursionLevelLimit``."""
_ROWS_MAX: Final = 100_000
"""What has more rows is not a constant of a query."""
_LEAVES: Final = frozenset(
    [
        "LogicalRDD", "LogicalRelation", "HiveTableRelation", "DataSourceV2Relation",
        "DataSourceV2ScanRelation", "StreamingRelation", "StreamingRelationV2",
    ]
)  # fmt: skip
_PASSED: Final = frozenset(
    [
        "SubqueryAlias", "LocalLimit", "Repartition", "RepartitionByExpression", "RebalancePartitions",
        "ResolvedHint", "EventTimeWatermark", "LocalRelationAlias",
    ]
)  # fmt: skip

_CONSTANTS: Final = frozenset(["LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "UnionLoopRef"])
_COMPUTED: Final = frozenset(
    [
        "SubqueryAlias", "View", "WithCTE", "CTERelationDef", "UnionLoop", "Project", "Filter", "Join",
        "LateralJoin", "Aggregate", "Distinct", "Union", "Except",
        "Intersect", "Generate", "Expand",
    ]
)  # fmt: skip
"""Nodes over constants that Spark computes when the view is defined: those whose rows have one answer.

The rows of a LIMIT, a window and a sample can depend on the order of rows, so they are translated.
"""
_NOT_COMPUTED: Final = frozenset(["PythonUDF", "PythonUDTF", "OuterReference", *CHANGING])


@dataclass(frozen=True, slots=True)
class TranslatedView:
    """A view as a logical plan, with the names and types of its columns in Spark."""

    operator: LogicalOperator
    notes: tuple[str, ...]
    """What is said of the view besides: what is ignored, and what is decided here and not by Spark."""


class PlanTranslator:
    """Translates the plans of one session; what they share is one operator."""

    def __init__(self, rules: CatalystRules, session: SessionSettings, leaves: Leaves) -> None:
        self._rules = rules
        self._leaves = leaves
        self._translation = Translation(session, self.relation)
        self._plan: PreparedPlan | None = None
        self._made: dict[int, BoundRelation] = {}
        self._commons: dict[int, PlanNode] = {}
        self._loops: dict[int, tuple[Variable, tuple[int, ...]]] = {}
        self._unreadable: dict[Any, ExpressionNode] = {}
        """Columns of tables, by their ids, whose types there are not here."""
        self._references: dict[int, frozenset[int] | None] = {}
        self._kept: list[PreparedPlan] = []
        """Nodes are known by their identity, so they are kept as long as they are known."""

    def view(self, analyzed: Any, name: str) -> TranslatedView:  # noqa: ANN401 - a plan of the JVM
        """Return the logical plan of a view; SqlError names what it cannot have."""
        schema = output_schema(analyzed, name)
        self._plan = self._rules.prepare(analyzed)
        self._kept.append(self._plan)
        self._commons.clear()
        self._translation.notes = []
        node = self._plan.tree
        if node.kind == "Sort":
            self._translation.note("ORDER BY without LIMIT is ignored: a view is a set of rows.")
            node = node.children[0]
        relation = self.relation(node)
        columns: dict[str, Expression] = {}
        for field, identity in zip(schema, relation.output, strict=True):
            own = relation.columns[identity]
            expression = col(own)
            if relation.operator.schema.field(own).type != field.type and not pa.types.is_null(field.type):
                expression = expression.cast(field.type)
            columns[field.name] = expression
        operator = self._translation.operators.project(relation.operator, columns)
        return TranslatedView(operator, tuple(self._translation.notes))

    def relation(self, node: PlanNode) -> BoundRelation:
        """Return what a node of the plan gives."""
        if id(node) not in self._made:
            with naming(node):
                try:
                    self._made[id(node)] = self._translate(node)
                except KeyError as error:
                    column = self._unreadable.get(error.args[0])
                    if column is None:
                        raise
                    schema_of([column])  # raises for a type that is not supported
                    raise rejected(column, "is not a column of the rows of the table") from error
        return self._made[id(node)]

    def _translate(self, node: PlanNode) -> BoundRelation:
        if node.kind in _LEAVES:
            return self._scan(node, None)
        if node.kind in _COMPUTED and self._open_references(node) == frozenset():
            computed = self._computed(node)
            if computed is not None:
                return computed
        if node.kind in _PASSED:
            return self.relation(node.children[0])
        if node.kind in _OF_CONTEXT:
            return _OF_CONTEXT[node.kind](self, node)
        if node.kind in _PLAIN:
            return _PLAIN[node.kind](self._translation, node)
        raise rejected(node, "is not supported in an incremental view")

    # Constants.

    def _open_references(self, node: PlanNode) -> frozenset[int] | None:
        """Return the common tables that a plan of constants reads only; None if it reads other tables."""
        if id(node) not in self._references:
            self._references[id(node)] = self._found_references(node)
        return self._references[id(node)]

    def _found_references(self, node: PlanNode) -> frozenset[int] | None:
        if node.kind not in _COMPUTED and node.kind not in _CONSTANTS:
            return None
        if node.kind == "View" and self._table_of(node) is not None:
            return None
        if node.kind == "Range" and len(_numbers(node)) > _ROWS_MAX:
            return None
        parts = list(node.children)
        for root in own_expressions(node):
            for each in walk(root):
                if each.kind in _NOT_COMPUTED:
                    return None
                if "plan" in each.fields:
                    parts.append(each.fields["plan"])
        found: set[int] = set()
        for part in parts:
            references = self._open_references(part)
            if references is None:
                return None
            found |= references
        if node.kind in ("CTERelationRef", "UnionLoopRef"):
            found.add(int(node.fields["cteId" if node.kind == "CTERelationRef" else "loopId"]))
        if node.kind in ("CTERelationDef", "UnionLoop"):
            found.discard(int(node.fields["id"]))
        if node.kind == "WithCTE":
            found -= {int(node.children[place].fields["id"]) for place in node.fields["cteDefs"]}
        return frozenset(found)

    def _computed(self, node: PlanNode) -> BoundRelation | None:
        """Return the rows that Spark computes of a plan of constants; None if they can have other values."""
        assert self._plan is not None
        jvm = self._plan.jvm_node(node)
        if not jvm.deterministic():
            return None
        attributes = output_of(jvm)
        try:
            schema = schema_of(attributes)
        except SchemaError:  # the nodes above may have other types
            return None
        rows = self._leaves.local_rows(jvm, schema, _ROWS_MAX + 1)
        if rows.num_rows > _ROWS_MAX:
            raise rejected(
                node,
                f"has more constant rows than the maximum of {_ROWS_MAX}",
                "Make it an input of the view.",
            )
        return self._values(attributes, rows)

    # Leaves.

    def _scan(self, node: PlanNode, view_name: str | None) -> BoundRelation:
        assert self._plan is not None
        leaf: Leaf = self._leaves.leaf(node, self._plan.jvm_node(node), view_name)
        names = leaf.columns
        output = [id_of(each) for each in node.fields["output"]]
        # Of a scan that reads some columns only, the attributes have the names of the table's.
        columns = {
            identity: each.fields["name"]
            for identity, each in zip(output, node.fields["output"], strict=True)
            if each.fields["name"] in names
        }
        self._unreadable.update(
            (identity, each)
            for identity, each in zip(output, node.fields["output"], strict=True)
            if identity not in columns
        )
        return BoundRelation(leaf.scan, columns, tuple(output))

    def _view(self, node: PlanNode) -> BoundRelation:
        assert self._plan is not None
        self._leaves.check_settings(self._plan.jvm_node(node), self._translation.session)
        table = self._table_of(node)
        if table is not None and id(table) not in self._made:
            self._references[id(table)] = None
            self._made[id(table)] = self._scan(table, node.fields["desc"]["identifier"]["table"])
        return self.relation(node.children[0])

    def _table_of(self, node: PlanNode) -> PlanNode | None:
        """Return the leaf that a temporary view names, or None if the view is a query."""
        child = node.children[0]
        while child.kind == "Project" and all(
            each.kind == "AttributeReference" for each in child.fields["projectList"]
        ):
            child = child.children[0]
        return child if child.kind in _LEAVES or child.kind == "LocalRelation" else None

    def _local(self, node: PlanNode) -> BoundRelation:
        assert self._plan is not None
        rows = self._leaves.local_rows(self._plan.jvm_node(node), schema_of(node.fields["output"]))
        return self._values(node.fields["output"], rows)

    def _values(self, attributes: Sequence[ExpressionNode], rows: pa.RecordBatch) -> BoundRelation:
        names: list[str] = []
        for each in attributes:
            names.append(fresh_name(str(each.fields["name"]), names))
        if not names:
            rows = pa.RecordBatch.from_pydict({"one": pa.array([True] * rows.num_rows)})
            return BoundRelation(logical.Values(rows), {}, (), is_single=rows.num_rows == 1)
        schema = pa.schema([pa.field(name, each.type) for name, each in zip(names, rows.schema, strict=True)])
        batch = pa.RecordBatch.from_arrays(rows.columns, schema=schema)
        output = tuple(map(id_of, attributes))
        columns = dict(zip(output, names, strict=True))
        return BoundRelation(logical.Values(batch), columns, output, is_single=rows.num_rows == 1)

    def _range(self, node: PlanNode) -> BoundRelation:
        numbers = _numbers(node)
        if len(numbers) > _ROWS_MAX:
            raise rejected(
                node,
                f"has {len(numbers)} rows, more than the maximum of {_ROWS_MAX}",
                "Make it an input of the view.",
            )
        rows = pa.RecordBatch.from_pydict({"id": pa.array(numbers, pa.int64())})
        return self._values(node.fields["output"], rows)

    def _one_row(self, node: PlanNode) -> BoundRelation:
        return self._values([], pa.RecordBatch.from_pydict({"one": pa.array([True])}))

    # Common table expressions and recursion.

    def _with_common(self, node: PlanNode) -> BoundRelation:
        for place in node.fields["cteDefs"]:
            definition = node.children[place]
            self._commons[int(definition.fields["id"])] = definition.children[0]
        return self.relation(node.child("plan"))

    def _common(self, node: PlanNode) -> BoundRelation:
        found = self.relation(self._commons[int(node.fields["cteId"])])
        output = tuple(map(id_of, node.fields["output"]))
        columns = {mine: found.columns[theirs] for mine, theirs in zip(output, found.output, strict=True)}
        return replace(found, columns=columns, output=output, order=())

    def _recursion(self, node: PlanNode) -> BoundRelation:
        operators = self._translation.operators
        anchor = operators.exact(self.relation(node.child("anchor")))
        start = operators.project(
            anchor.operator, _positional(anchor.columns[each] for each in anchor.output)
        )
        variable = Variable(start.schema, name="recursion")
        loop = int(node.fields["id"])
        self._loops[loop] = (variable, ())
        recursion = self.relation(node.child("recursion"))
        step = operators.project(
            recursion.operator, _positional(recursion.columns[each] for each in recursion.output)
        )
        body = logical.Union((start, _like(operators, step, start.schema)))
        iterate = Iterate((variable,), (start,), (body,), _ROUNDS_MAX, name="recursion")
        output = tuple(int(each["id"]) for each in node.fields["outputAttrIds"])
        return BoundRelation(
            Recursive(iterate, 0), dict(zip(output, start.schema.names, strict=True)), output
        )

    def _recursive(self, node: PlanNode) -> BoundRelation:
        variable, _ = self._loops[int(node.fields["loopId"])]
        output = tuple(map(id_of, node.fields["output"]))
        return BoundRelation(variable, dict(zip(output, variable.schema.names, strict=True)), output)


# Row by row.


def _project(translation: Translation, node: PlanNode) -> BoundRelation:
    child = translation.relation(node.children[0])
    child, results = translation.without_subqueries(child, node.fields["projectList"])
    if not results:
        one = translation.operators.project(child.operator, {"one": lit(True)})
        return BoundRelation(one, {}, (), child.is_single)
    results = [_element(each, child) for each in results]
    return project_onto(translation, child, results)


def _element(node: ExpressionNode, relation: BoundRelation) -> ExpressionNode:
    """Return an expression in which the elements of a pivot's array are columns."""
    found: dict[int, ExpressionNode] = {}
    for each in walk(node):
        if each.kind != "GetArrayItem" or each.children[0].kind != "AttributeReference":
            continue
        ids = relation.arrays.get(id_of(each.children[0]))
        if ids is not None:
            place = int(each.children[1].fields["value"])
            kind = each.children[0].fields["dataType"]["elementType"]
            found[id(each)] = attribute(ids[place], f"element {place}", kind)
    return replaced(node, found)


def _filter(translation: Translation, node: PlanNode) -> BoundRelation:
    child = translation.relation(node.children[0])
    child, [condition] = translation.without_subqueries(child, [node.fields["condition"]])
    operator = child.operator
    for each in conjuncts(_element(condition, child)):
        expression = translation.expression(each, child.columns)
        operator = translation.operators.make(logical.Filter, operator, expression)
    return replace(child, operator=operator, is_single=False)


def _expand(translation: Translation, node: PlanNode) -> BoundRelation:
    child = translation.relation(node.children[0])
    output = tuple(map(id_of, node.fields["output"]))
    names: list[str] = []
    for each in node.fields["output"]:
        names.append(fresh_name(str(each.fields["name"]), names))
    parts = []
    for projection in node.fields["projections"]:
        columns = {
            name: translation.expression(each, child.columns)
            for name, each in zip(names, projection, strict=True)
        }
        parts.append(translation.operators.project(child.operator, columns))
    like = [_like(translation.operators, each, parts[0].schema) for each in parts]
    union = translation.operators.make(logical.Union, tuple(like)) if len(like) > 1 else like[0]
    return BoundRelation(union, dict(zip(output, names, strict=True)), output)


def _json_tuple(
    translation: Translation,
    child: BoundRelation,
    generator: ExpressionNode,
    kept: Sequence[int],
    made: Sequence[tuple[int, str]],
) -> BoundRelation:
    """Return the fields of a text in JSON, a column for each: there is one row, whatever the text is."""
    text, *names = (translation.expression(each, child.columns) for each in generator.children)
    columns = {each: child.columns[each] for each in kept if each in child.columns}
    added: dict[str, Expression] = {}
    for (identity, wanted), name in zip(made, names, strict=True):
        columns[identity] = fresh_name(wanted, [*child.operator.schema.names, *added])
        added[columns[identity]] = Call("json_field", (text, name))
    relation = translation.operators.with_columns(child, added)
    return replace(relation, columns=columns, output=(*kept, *(identity for identity, _ in made)))


def _generate(translation: Translation, node: PlanNode) -> BoundRelation:
    child = translation.relation(node.children[0])
    child, [generator] = translation.without_subqueries(child, [node.fields["generator"]])
    is_outer = bool(node.fields["outer"])
    unwanted = set(node.fields["unrequiredChildIndex"])
    kept = [each for place, each in enumerate(child.output) if place not in unwanted]
    made = [(id_of(each), str(each.fields["name"])) for each in node.fields["generatorOutput"]]
    if generator.kind == "JsonTuple":
        return _json_tuple(translation, child, generator, kept, made)
    if generator.kind == "Stack" and not is_outer:
        return _stack(translation, child, generator, kept, node.fields["generatorOutput"])
    if generator.kind not in ("Explode", "PosExplode", "Inline"):
        raise rejected(generator, "is not a supported generator", "Use explode, posexplode, inline or stack.")
    taken = list(child.operator.schema.names)
    array = translation.expression(generator.children[0], child.columns)
    kind = translation.type_of(array, child.operator)
    if pa.types.is_map(kind):
        array = Call("map_entries", (array,))
        kind = translation.type_of(array, child.operator)
    has_position = generator.kind == "PosExplode"
    has_fields = len(made) > 1 + has_position or generator.kind == "Inline"
    name = fresh_name("element" if has_fields else made[-1][1], taken)
    if not pa.types.is_list(kind):
        raise rejected(generator, f"of a column of type {kind} is not supported", "Explode an array.")
    rows = translation.operators.with_columns(child, {name: array})
    position = fresh_name(made[0][1], [*taken, name]) if has_position else None
    exploded = translation.operators.make(logical.Explode, rows.operator, name, position, is_outer)
    columns = {each: child.columns[each] for each in kept if each in child.columns}
    relation = BoundRelation(exploded, columns, (*kept, *(identity for identity, _ in made)))
    added: dict[str, Expression] = {}
    if has_fields:
        fields = [field.name for field in kind.value_type]
        for (identity, wanted), inner in zip(made[has_position:], fields, strict=True):
            columns[identity] = fresh_name(wanted, [*exploded.schema.names, *added])
            added[columns[identity]] = col(name).field(inner)
    else:
        columns[made[-1][0]] = name
    if position is not None:
        columns[made[0][0]] = fresh_name(f"{position} as int", [*exploded.schema.names, *added])
        added[columns[made[0][0]]] = col(position).cast("int")
    relation = translation.operators.with_columns(relation, added)
    return replace(relation, columns=columns)


def _stack(
    translation: Translation,
    child: BoundRelation,
    generator: ExpressionNode,
    kept: Sequence[int],
    made: Sequence[ExpressionNode],
) -> BoundRelation:
    """Return the rows that ``stack(n, ...)`` makes of each row: n projections of it."""
    count, *values = generator.children
    found = [translation.expression(each, child.columns) for each in values]
    own = {each: child.columns[each] for each in kept if each in child.columns}
    names: list[str] = []
    for each in made:
        names.append(fresh_name(str(each.fields["name"]), [*own.values(), *names]))
    types = schema_of(made).types
    parts = []
    for number in range(_number(count)):
        row = [*found[number * len(made) : (number + 1) * len(made)]]
        row += [lit(None)] * (len(made) - len(row))
        columns: dict[str, Expression] = {name: col(name) for name in dict.fromkeys(own.values())}
        columns.update({name: each.cast(kind) for name, each, kind in zip(names, row, types, strict=True)})
        parts.append(translation.operators.project(child.operator, columns))
    union = translation.operators.make(logical.Union, tuple(parts)) if len(parts) > 1 else parts[0]
    ids = [id_of(each) for each in made]
    return BoundRelation(union, {**own, **dict(zip(ids, names, strict=True))}, (*kept, *ids))


# Sets of rows.


def _distinct(translation: Translation, node: PlanNode) -> BoundRelation:
    child = translation.operators.exact(translation.relation(node.children[0]))
    distinct = translation.operators.make(logical.Distinct, child.operator)
    return BoundRelation(distinct, child.columns, child.output)


def _deduplicate(translation: Translation, node: PlanNode) -> BoundRelation:
    child = translation.operators.exact(translation.relation(node.children[0]))
    keys = tuple(dict.fromkeys(child.columns[id_of(each)] for each in node.fields["keys"]))
    if set(keys) == set(child.operator.schema.names):
        return _distinct(translation, node)
    translation.note(
        "dropDuplicates keeps the first row of each key in the order of all columns; Spark keeps any of them."
    )
    by = tuple(
        f"{each.name} asc nulls first"
        for each in child.operator.schema
        if not pa.types.is_nested(each.type) and each.name not in keys
    )
    top = translation.operators.make(logical.TopK, child.operator, 1, keys, by)
    return BoundRelation(top, child.columns, child.output)


def _union(translation: Translation, node: PlanNode) -> BoundRelation:
    first, *others = (translation.relation(each) for each in node.children)
    names: list[str] = []
    for identity in first.output:
        names.append(fresh_name(first.columns[identity], names))
    parts = [
        translation.operators.project(
            each.operator,
            {name: col(each.columns[identity]) for name, identity in zip(names, each.output, strict=True)}
            or {"one": lit(True)},
        )
        for each in (first, *others)
    ]
    like = [_like(translation.operators, each, parts[0].schema) for each in parts]
    union = translation.operators.make(logical.Union, tuple(like))
    return BoundRelation(union, dict(zip(first.output, names, strict=True)), first.output)


def _difference(translation: Translation, node: PlanNode) -> BoundRelation:
    kind = logical.Except if node.kind == "Except" else logical.Intersect
    left, right = (translation.operators.exact(translation.relation(each)) for each in node.children)
    names = [left.columns[each] for each in left.output]
    if len(set(names)) < len(names):
        raise rejected(node, "has a column twice", "Give the columns of both sides different names.")
    columns = {name: col(right.columns[each]) for name, each in zip(names, right.output, strict=True)}
    theirs = _like(
        translation.operators, translation.operators.project(right.operator, columns), left.operator.schema
    )
    made = translation.operators.make(kind, left.operator, theirs, bool(node.fields["isAll"]))
    return BoundRelation(made, left.columns, left.output)


# Order.


def _sort(translation: Translation, node: PlanNode) -> BoundRelation:
    child = translation.relation(node.children[0])
    child, by = ordered_by(translation, child, node.fields["order"])
    return replace(child, order=by)


def _limit(translation: Translation, node: PlanNode) -> BoundRelation:
    inner = node.children[0]
    while inner.kind == "LocalLimit":
        inner = inner.children[0]
    count, skipped = _number(node.fields["limitExpr"]), 0
    if inner.kind == "Offset":
        skipped = _number(inner.fields["offsetExpr"])
        inner = inner.children[0]
    child = translation.relation(inner)
    if count == 0:
        empty = translation.operators.make(logical.Filter, child.operator, lit(False))
        return replace(child, operator=empty, is_single=False, order=())
    if child.is_single and not skipped:
        return child
    translation.note(
        "LIMIT: rows that ORDER BY leaves equal are ordered by all columns, from left to right; Spark takes "
        "any of them."
    )
    place = fresh_name("place", child.operator.schema.names) if skipped else None
    top = translation.operators.make(
        logical.TopK, child.operator, count + skipped, (), _total(child), False, place
    )
    operator: LogicalOperator = top
    if place is not None:
        operator = translation.operators.make(logical.Filter, top, col(place) > skipped)
    return replace(child, operator=operator, is_single=False, order=())


def _offset(translation: Translation, node: PlanNode) -> BoundRelation:
    child = translation.relation(node.children[0])
    place = fresh_name("place", child.operator.schema.names)
    functions = ((place, OrderFunction("row_number")),)
    numbered = translation.operators.make(
        logical.WindowFunctions, child.operator, (), _total(child), functions
    )
    skipped = _number(node.fields["offsetExpr"])
    operator = translation.operators.make(logical.Filter, numbered, col(place) > skipped)
    return replace(child, operator=operator, is_single=False, order=())


def _total(relation: BoundRelation) -> tuple[str, ...]:
    """Return the order of a relation, or that of all its columns."""
    if relation.order:
        return relation.order
    found = [
        f"{name} asc nulls first"
        for name in dict.fromkeys(relation.columns[each] for each in relation.output)
        if not pa.types.is_nested(relation.operator.schema.field(name).type)
    ]
    if not found:
        found = [f"{relation.operator.schema.names[0]} asc nulls first"]
    return tuple(found)


def _numbers(node: PlanNode) -> range:
    """Return the numbers of a Range."""
    return range(int(node.fields["start"]), int(node.fields["end"]), int(node.fields["step"]))


def _number(node: ExpressionNode) -> int:
    value = node.fields.get("value")
    if node.kind != "Literal" or value is None:
        raise rejected(node, "must be a literal number of rows")
    return int(value)


# Columns.


def _positional(names: Any) -> dict[str, Expression]:  # noqa: ANN401 - an iterable of names
    """Return columns by their place, each once more if it is there twice."""
    found: dict[str, Expression] = {}
    for place, name in enumerate(names):
        found[f"column {place}"] = col(name)
    return found


def _like(operators: Any, operator: LogicalOperator, schema: pa.Schema) -> LogicalOperator:  # noqa: ANN401
    """Return an operator with the columns and types of a schema."""
    columns = {
        each.name: col(each.name)
        if operator.schema.field(each.name).type == each.type
        else col(each.name).cast(each.type)
        for each in schema
    }
    made: LogicalOperator = operators.project(operator, columns)
    return made


def output_schema(analyzed: Any, name: str) -> pa.Schema:  # noqa: ANN401 - a plan of the JVM
    """Return the columns that Spark gives a view; SqlError if a name is there twice."""
    found = json.loads(analyzed.schema().json())
    names = [each["name"] for each in found["fields"]]
    if twice := [each for each in names if names.count(each) > 1]:
        raise SqlError(
            f"it has the column '{twice[0]}' twice. Rename one of them: select ... as {twice[0]}_2."
        )
    if not names:
        raise SqlError("it has no columns. Select at least one.")
    return pa.schema(list(arrow_schema(found, f"view '{name}'")))


_PLAIN: Final[Mapping[str, Callable[[Translation, PlanNode], BoundRelation]]] = {
    "Project": _project,
    "Filter": _filter,
    "Join": join,
    "Aggregate": aggregate,
    "Distinct": _distinct,
    "Union": _union,
    "Except": _difference,
    "Intersect": _difference,
    "Sort": _sort,
    "GlobalLimit": _limit,
    "Offset": _offset,
    "Window": window,
    "Generate": _generate,
    "Expand": _expand,
    "Deduplicate": _deduplicate,
    "FlatMapGroupsInPandas": grouped_map,
    "FlatMapGroupsInArrow": grouped_map,
    "FlatMapCoGroupsInPandas": cogrouped_map,
    "FlatMapCoGroupsInArrow": cogrouped_map,
}
_OF_CONTEXT: Final[Mapping[str, Callable[[PlanTranslator, PlanNode], BoundRelation]]] = {
    "View": PlanTranslator._view,  # noqa: SLF001 - of this module
    "LocalRelation": PlanTranslator._local,  # noqa: SLF001
    "Range": PlanTranslator._range,  # noqa: SLF001
    "OneRowRelation": PlanTranslator._one_row,  # noqa: SLF001
    "WithCTE": PlanTranslator._with_common,  # noqa: SLF001
    "CTERelationRef": PlanTranslator._common,  # noqa: SLF001
    "UnionLoop": PlanTranslator._recursion,  # noqa: SLF001
    "UnionLoopRef": PlanTranslator._recursive,  # noqa: SLF001
}
