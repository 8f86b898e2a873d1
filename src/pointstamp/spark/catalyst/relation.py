"""Relations: logical operators, with the columns that expression ids of Catalyst mean in them.

Expression ids change whenever Spark plans a query. Columns here have names that do not: the name that the
query gives them, with a number if it is taken. So a query has the same logical plan in each session, and what
is computed twice is one operator.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pointstamp.arrangement.consolidate import DIFF
from pointstamp.connectors.source import is_source
from pointstamp.errors import SchemaError, SqlError
from pointstamp.expressions.by_row import python_values
from pointstamp.expressions.tree import Column, Expression, col
from pointstamp.incremental.column_names import check_new_names
from pointstamp.plan import logical
from pointstamp.plan.logical import LogicalOperator, Scan, ScanKind
from pointstamp.spark.catalyst.expression_context import SessionSettings
from pointstamp.spark.catalyst.followed import (
    CHANGE,
    FollowedInput,
    follow,
    is_python_source,
    of_columns,
)
from pointstamp.spark.catalyst.trees import ExpressionNode, PlanNode, TreeNode, arrow_type

Made = TypeVar("Made", bound=LogicalOperator)

_NO_MEANING: Final = frozenset(
    ["exprId", "resultId", "name", "qualifier", "metadata", "nullable", "explicitMetadata", "is_session"]
)
"""Fields in which expressions with one meaning may differ."""


_HIDDEN: Final = "_metadata"
"""A column that Spark adds to files if a query asks for it."""


@dataclass(frozen=True, slots=True)
class BoundRelation:
    """An operator, and the columns that a node of Catalyst gives."""

    operator: LogicalOperator
    columns: Mapping[int, str]
    """The column of each expression id that may be named."""
    output: tuple[int, ...]
    """The ids of the node's output, in order; an id can be there twice."""
    is_single: bool = False
    """Whether it always has one row."""
    order: tuple[str, ...] = ()
    """The order of the rows, if the node is sorted: which LIMIT uses."""
    arrays: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Arrays that are columns here: ids of the array to the ids of its elements (pivots)."""

    def narrowed(self, output: Iterable[int]) -> "BoundRelation":
        """Return the same rows with some of the columns named."""
        wanted = tuple(output)
        known = {each: self.columns[each] for each in wanted if each in self.columns}
        return replace(self, columns=known, output=wanted)


class Operators:
    """Makes logical operators; what was made once of the same inputs is the same operator."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], LogicalOperator] = {}

    def make(self, kind: type[Made], *arguments: Any, **named: Any) -> Made:  # noqa: ANN401
        """Return an operator of a kind, a new one if there is none with these arguments."""
        key = (kind, *map(_key, arguments), *((name, _key(each)) for name, each in sorted(named.items())))
        if key not in self._made:
            self._made[key] = kind(*arguments, **named)
        return self._made[key]  # type: ignore[return-value]

    def project(self, operator: LogicalOperator, columns: Mapping[str, Expression]) -> LogicalOperator:
        """Return an operator with these columns; the same if it has them."""
        names = operator.schema.names
        is_plain = all(_is_column(each, name) for name, each in columns.items())
        if is_plain and list(columns) == names:
            return operator
        if is_plain and isinstance(operator, logical.Project):
            own = dict(operator.columns)
            return self.make(logical.Project, operator.input, tuple((name, own[name]) for name in columns))
        return self.make(logical.Project, operator, tuple(columns.items()))

    def exact(self, relation: BoundRelation) -> BoundRelation:
        """Return a relation whose operator has the columns of its output and no others."""
        names = list(dict.fromkeys(relation.columns[each] for each in relation.output))
        if not names:
            return relation
        operator = self.project(relation.operator, {name: col(name) for name in names})
        return replace(relation.narrowed(relation.output), operator=operator)

    def with_columns(self, relation: BoundRelation, added: Mapping[str, Expression]) -> BoundRelation:
        """Return a relation whose operator has more columns."""
        if not added:
            return relation
        own = {name: col(name) for name in relation.operator.schema.names}
        return replace(relation, operator=self.project(relation.operator, {**own, **added}))


def _key(value: Any) -> Any:  # noqa: ANN401 - an argument of an operator
    if isinstance(value, LogicalOperator):
        return id(value)
    if isinstance(value, tuple):
        return tuple(map(_key, value))
    if isinstance(value, pa.RecordBatch):
        return id(value)
    return repr(value)


def _is_column(expression: Expression, name: str) -> bool:
    return isinstance(expression, Column) and expression.column == name


def fresh_name(wanted: str, taken: Iterable[str]) -> str:
    """Return a name for a column that is not taken and that tables do not use themselves.

    >>> fresh_name("city", ["city"])
    'city_2'
    """
    name = wanted or "column"
    try:
        check_new_names("a view", [name])
    except SchemaError:
        name = f"column {name}"
    known, number, made = set(taken), 2, name
    while made in known:
        made, number = f"{name}_{number}", number + 1
    return made


# Reading the nodes of Catalyst.


def id_of(node: ExpressionNode) -> int:
    """Return the expression id of an attribute or an alias."""
    return int(node.fields["exprId"]["id"])


def attribute(identity: int, name: str, data_type: Any) -> ExpressionNode:  # noqa: ANN401 - JSON
    """Return a reference to a column of our own; its id is below 0."""
    fields = {"name": name, "dataType": data_type, "nullable": True, "exprId": {"id": identity}}
    return TreeNode("AttributeReference", "AttributeReference", fields, ())


def readable_columns(attributes: Sequence[ExpressionNode]) -> pa.Schema:
    """Return the columns of a leaf whose types there are here; SchemaError if there are none."""
    fields = []
    for each in attributes:
        try:
            fields.append(pa.field(str(each.fields["name"]), schema_of([each]).types[0]))
        except SchemaError:
            if len(attributes) == 1:
                raise
    return pa.schema(fields) if fields else schema_of(attributes)


def schema_of(attributes: Sequence[ExpressionNode]) -> pa.Schema:
    """Return the columns of attributes of a leaf."""
    found = [(str(each.fields["name"]), each.fields["dataType"]) for each in attributes]
    return pa.schema([pa.field(name, arrow_type(kind, f"column '{name}'")) for name, kind in found])


def replaced(node: ExpressionNode, found: Mapping[int, ExpressionNode]) -> ExpressionNode:
    """Return a tree in which nodes, by their identity, stand for others."""
    if id(node) in found:
        return found[id(node)]
    children = tuple(replaced(each, found) for each in node.children)
    if all(new is old for new, old in zip(children, node.children, strict=True)):
        return node
    return TreeNode(node.kind, node.class_name, node.fields, children)


def text_of(node: TreeNode) -> str:
    """Return a short text of an expression, for errors."""
    fields = node.fields
    match node.kind:
        case "AttributeReference":
            return str(fields["name"])
        case "Literal":
            return str(fields.get("value"))
        case "Alias":
            return str(fields["name"])
        case "Cast":
            return f"cast({text_of(node.children[0])} as {fields.get('dataType')})"
        case _:
            return f"{node.kind.lower()}({', '.join(map(text_of, node.children))})"


def same_expression(node: ExpressionNode) -> Any:  # noqa: ANN401 - a key
    """Return a key that is equal for expressions that mean the same."""
    if node.kind == "AttributeReference":
        return ("attribute", id_of(node))
    own = tuple((key, repr(value)) for key, value in sorted(node.fields.items()) if key not in _NO_MEANING)
    return (node.kind, own, tuple(map(same_expression, node.children)))


# Leaves of plans: which table each is, by what name, and the rows of those that are constants.
#
# A table has the name of the temporary view that is directly over it, of its table in a catalog, or of its
# path; if tables of several schemas or folders have one name, the schema or the folder is before it. A leaf
# without any of them has the name under which ``inputs=`` gives a DataFrame with the same leaf. How its rows
# are read is found by ``followed``, unless ``inputs=`` gives a source or a stream by its name.

_FILE_STREAM: Final = re.compile(r"FileSource\[(.*?)/?\]")
_CHANGES: Final = ("weight", "operation", "key", "order", "deleted")


class SameNameError(Exception):
    """Two tables have one name, so both are named by more parts of their names."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class Leaf:
    """A table that a view reads."""

    name: str
    scan: Scan
    jvm: Any
    """The leaf of the plan in the JVM."""
    followed: FollowedInput
    """How a query reads it."""

    @property
    def columns(self) -> list[str]:
        """Return the columns of its rows."""
        return list(self.scan.schema.names)


class Leaves:
    """The tables of some views, each once."""

    def __init__(
        self,
        spark: SparkSession,
        inputs: Mapping[str, Any],
        changes: Mapping[str, str | Mapping[str, Any]],
        ambiguous: Set[str] = frozenset(),
    ) -> None:
        self._spark = spark
        self._ambiguous = ambiguous
        self._changes = dict(changes)
        self._sources = {name: each for name, each in inputs.items() if not _is_batch(each)}
        self._given = {name: self._only_leaf(name, each) for name, each in inputs.items() if _is_batch(each)}
        self.found: dict[str, Leaf] = {}

    def _only_leaf(self, name: str, frame: DataFrame) -> Any:  # noqa: ANN401 - a leaf of the JVM
        leaves = frame._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 - the one way
        if leaves.size() != 1:
            raise SqlError(
                f"inputs: the DataFrame of '{name}' reads {leaves.size()} tables. Give one that is a table."
            )
        return leaves.apply(0)

    def leaf(self, node: PlanNode, jvm: Any, view_name: str | None) -> Leaf:  # noqa: ANN401
        """Return the table that a leaf of a plan is; SameNameError if another table has its name."""
        name = self._name(node, jvm, view_name)
        known = self.found.get(name)
        if known is None:
            schema = readable_columns(
                [each for each in node.fields["output"] if not _is_hidden(each, node, jvm)]
            )
            followed = self._followed(name, jvm)
            if len(schema) < len(node.fields["output"]):
                followed = of_columns(followed, schema.names)
            scan = self._scan(name, schema, followed)
            known = Leaf(name, scan, jvm, followed)
            self.found[name] = known
        elif not known.jvm.sameResult(jvm):
            if name not in self._ambiguous:
                raise SameNameError(name)
            raise SqlError(
                f"two tables have the name '{name}'. Give one of them another name with "
                "createOrReplaceTempView, or in inputs=."
            )
        return known

    def check_unused(self) -> None:
        """Reject names in ``inputs=`` and ``changes=`` that no view reads."""
        for option, names in (("inputs", [*self._given, *self._sources]), ("changes", self._changes)):
            for name in names:
                if name not in self.found:
                    raise SqlError(
                        f"{option}: no view reads a table '{name}'. They read {', '.join(self.found)}."
                    )

    def _name(self, node: PlanNode, jvm: Any, view_name: str | None) -> str:  # noqa: ANN401
        for name, given in self._given.items():
            if given.sameResult(jvm):
                return name
        if view_name is not None:
            return view_name
        if node.kind in ("LogicalRelation", "HiveTableRelation"):
            table = node.fields.get("catalogTable") or node.fields.get("tableMeta")
            if table:
                found = table["identifier"]
                parts = [found.get("catalog"), found.get("database"), found["table"]]
                return self._unique_name([str(each) for each in parts if each is not None])
            path = jvm.relation().location().rootPaths().apply(0)
            names = [str(path.getParent().getName()), str(path.getName()).split(".")[0]]
            return self._unique_name([each for each in names if each])
        if node.kind.startswith("DataSourceV2"):
            if jvm.identifier().isDefined():
                identifier = jvm.identifier().get()
                catalog = [str(jvm.catalog().get().name())] if jvm.catalog().isDefined() else []
                return self._unique_name(
                    [*catalog, *map(str, identifier.namespace()), str(identifier.name())]
                )
            if is_python_source(jvm) and jvm.options().containsKey("output"):
                return str(jvm.options().get("output"))
        if node.kind == "StreamingRelation" and (found := _FILE_STREAM.fullmatch(str(jvm.sourceName()))):
            return PurePosixPath(found[1]).name.split(".")[0]
        columns = ", ".join(each.fields["name"] for each in node.fields["output"])
        raise SqlError(
            f"the table with the columns {columns} has no name. Call createOrReplaceTempView('name') before "
            "the view is defined and read spark.table('name'), or give inputs={'name': DataFrame}."
        )

    def _unique_name(self, parts: Sequence[str]) -> str:
        """Return the last part of a name, with more parts before it if several tables have it."""
        for first in range(len(parts) - 1, 0, -1):
            name = ".".join(parts[first:])
            if name not in self._ambiguous:
                return name
        return ".".join(parts)

    def _followed(self, name: str, jvm: Any) -> FollowedInput:  # noqa: ANN401 - a leaf of the JVM
        source = self._sources.get(name)
        if source is None:
            return follow(self._spark, name, jvm)
        words = source.describe() if is_source(source) else "stream given in inputs="
        return FollowedInput(name, words, lambda: source, None)

    def _scan(self, name: str, schema: pa.Schema, followed: FollowedInput) -> Scan:
        given = self._changes.get(name)
        if given is None:
            if followed.marker == CHANGE:
                declared = schema.append(pa.field(CHANGE, pa.string()))
                return Scan(name, declared, "operations", CHANGE, trusted=True)
            if followed.marker == DIFF:
                declared = schema.append(pa.field(DIFF, pa.int64()))
                return Scan(name, declared, "weights", DIFF, trusted=True)
            return Scan(name, schema)
        said: dict[str, Any] = {"weight": given} if isinstance(given, str) else dict(given)
        if unknown := [each for each in said if each not in _CHANGES]:
            raise SqlError(
                f"changes of '{name}': there is no '{unknown[0]}'. There are {', '.join(_CHANGES)}."
            )
        if "key" in said:
            keys = (said["key"],) if isinstance(said["key"], str) else tuple(said["key"])
            marker, declared = said.get("deleted"), schema
            if marker is not None:
                declared = schema.append(pa.field(_new(name, schema, marker), pa.bool_()))
            return Scan(name, declared, "upserts", marker, keys, said.get("order"))
        kind: ScanKind = "weights" if "weight" in said else "operations"
        marker = said["weight"] if "weight" in said else said["operation"]
        column_type = pa.int64() if kind == "weights" else pa.string()
        return Scan(name, schema.append(pa.field(_new(name, schema, marker), column_type)), kind, marker)

    # Constants.

    def local_rows(self, jvm: Any, schema: pa.Schema, rows_max: int | None = None) -> pa.RecordBatch:  # noqa: ANN401
        """Return the rows of a plan that reads no table; SqlError if Spark cannot compute them."""
        sql = self._spark.sparkContext._jvm.org.apache.spark.sql  # noqa: SLF001
        frame = DataFrame(sql.classic.Dataset.ofRows(self._spark._jsparkSession, jvm), self._spark)  # noqa: SLF001
        renamed = frame.toDF(*(f"column{place}" for place in range(len(schema)))) if len(schema) else frame
        try:
            rows = (renamed if rows_max is None else renamed.limit(rows_max)).toArrow().combine_chunks()
            rows.validate(full=True)
        except (PySparkException, Py4JJavaError, ValueError) as error:  # of Arrow, too
            raise SqlError(f"Spark cannot compute the constant rows of the query: {error}") from error
        plain = [
            pa.concat_arrays(each.chunks).cast(kind) if each.num_chunks else pa.array([], kind)
            for each, kind in zip(rows.columns, schema.types, strict=True)
        ]
        if not plain:
            return pa.RecordBatch.from_pydict({"one": pa.array([True] * rows.num_rows)})
        names = [f"column{place}" for place in range(len(plain))]
        made = pa.RecordBatch.from_arrays(plain, names=names)
        return made if rows_max is None else _in_order(made)

    def check_settings(self, jvm: Any, session: SessionSettings) -> None:  # noqa: ANN401 - a view in the JVM
        """Reject a view that was created under settings other than those of the session."""
        found = jvm.desc().viewSQLConfigs()
        for setting, own in (
            ("spark.sql.ansi.enabled", str(session.ansi).lower()),
            ("spark.sql.caseSensitive", str(session.case_sensitive).lower()),
            ("spark.sql.session.timeZone", session.time_zone),
        ):
            said = found.get(setting)
            if said.isDefined() and str(said.get()) != own:
                name = jvm.desc().identifier().table()
                raise SqlError(
                    f"view '{name}' was created with {setting}={said.get()}, and the session has {own}. "
                    "Create it again in this session."
                )


def _is_hidden(attribute: ExpressionNode, leaf: PlanNode, jvm: Any) -> bool:  # noqa: ANN401 - a leaf of the JVM
    if attribute.fields["name"] != _HIDDEN or leaf.kind != "LogicalRelation":
        return False
    return _HIDDEN not in list(jvm.relation().schema().fieldNames())


def _in_order(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows in an order of their own, so that a plan is the same however Spark has computed them."""
    columns = map(python_values, rows.columns)
    texts = [repr(row) for row in zip(*columns, strict=True)]
    return rows.take(pa.array(sorted(range(len(texts)), key=texts.__getitem__), pa.int64()))


def _is_batch(given: Any) -> bool:  # noqa: ANN401 - whatever came
    """Return whether an input is a DataFrame that names a leaf, and not a stream or a source of its rows."""
    return isinstance(given, DataFrame) and not given.isStreaming


def _new(table: str, schema: pa.Schema, name: str) -> str:
    if name in schema.names:
        raise SqlError(
            f"changes of '{table}': '{name}' is a column of the table. Name a column that only changes have."
        )
    return name
