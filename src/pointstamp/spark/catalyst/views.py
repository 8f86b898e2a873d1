"""Logical plans of DataFrames and Spark SQL texts, and their input tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pointstamp.errors import FlowError, SqlError
from pointstamp.plan.logical import LogicalOperator, Scan, walk
from pointstamp.spark.catalyst.connect import classic_session, connect_plan, is_classic
from pointstamp.spark.catalyst.expression_context import SessionSettings
from pointstamp.spark.catalyst.followed import FollowedInput, follow, fresh_frame
from pointstamp.spark.catalyst.operators import PlanTranslator, output_schema
from pointstamp.spark.catalyst.relation import Leaves, SameNameError
from pointstamp.spark.catalyst.rules import CatalystRules, analyzed_plan
from pointstamp.spark.refreshing import EMPTY, RecomputedView

_CONSTANTS: Final = ("LocalRelation", "OneRowRelation", "Range", "CTERelationRef", "UnionLoopRef")


@dataclass(frozen=True, slots=True)
class LogicalViews:
    """Some views as one logical plan."""

    outputs: Mapping[str, LogicalOperator]
    notes: Mapping[str, tuple[str, ...]]
    """What is said of a view besides its plan, by the name of the view."""
    session: SessionSettings
    settings: Mapping[str, str]
    """The settings by their names in Spark, which a restart must have."""
    followed: Mapping[str, FollowedInput]
    """How the input of each name is read."""
    recomputed: Mapping[str, RecomputedView]
    """The views that Spark recomputes at each refresh."""


def logical_views(
    spark: SparkSession,
    views: Mapping[str, Any],
    inputs: Mapping[str, Any],
    changes: Mapping[str, Any],
    policies: Mapping[str, str],
) -> LogicalViews:
    """Return the plans of DataFrames and SQL texts by name; SqlError names what cannot be incremental.

    A view with the policy FULL, or with AUTO if it cannot be incremental, is an input with its rows.
    """
    if not views:
        raise FlowError("ps.views needs at least one view, got an empty mapping.")
    spark = classic_session(spark)
    ambiguous: set[str] = set()
    while True:
        try:
            return _translated(spark, views, Leaves(spark, inputs, changes, ambiguous), policies)
        except SameNameError as error:  # all tables with this name are named by more parts
            ambiguous.add(error.name)


def _translated(
    spark: SparkSession, views: Mapping[str, Any], leaves: Leaves, policies: Mapping[str, str]
) -> LogicalViews:
    session = SessionSettings.of(spark)
    translator = PlanTranslator(CatalystRules(spark), session, leaves)
    outputs: dict[str, LogicalOperator] = {}
    notes: dict[str, tuple[str, ...]] = {}
    recomputed: dict[str, RecomputedView] = {}
    for name, given in views.items():
        policy = policies.get(name, "INCREMENTAL")
        try:
            if policy == "FULL":
                recomputed[name] = _recomputed(spark, name, given, "its refresh policy is FULL")
                continue
            made = translator.view(_analyzed(spark, name, given), name)
        except SqlError as error:
            if policy != "AUTO":
                raise SqlError(f"view '{name}': {error}") from error
            recomputed[name] = _recomputed(spark, name, given, f"it cannot be incremental: {error}")
            continue
        outputs[name] = made.operator
        notes[name] = made.notes
    for name, view in recomputed.items():
        declared = view.schema.append(pa.field(EMPTY, pa.bool_()))
        outputs[name] = Scan(view.input, declared, "snapshots", EMPTY)
        notes[name] = (f"recomputed in full by Spark at each refresh, because {view.reason}",)
    outputs = {name: outputs[name] for name in views}
    if not recomputed:
        leaves.check_unused()
    followed = {name: leaf.followed for name, leaf in leaves.found.items()}
    for name, operator in outputs.items():
        scans = [each.input for each in walk([operator]) if isinstance(each, Scan)]
        read = [each for each in dict.fromkeys(scans) if each in followed]
        notes[name] = (*notes[name], *(f"input {each}: {followed[each].told}" for each in read))
    return LogicalViews(outputs, notes, session, _settings(session), followed, recomputed)


def _recomputed(spark: SparkSession, name: str, given: Any, reason: str) -> RecomputedView:  # noqa: ANN401
    """Return a view that Spark recomputes over its tables as they are when it is asked."""
    plan = _analyzed(spark, name, given)
    leaves = plan.collectLeaves()
    found = [
        follow(spark, f"leaf {place}", leaves.apply(place))
        for place in range(leaves.size())
        if str(leaves.apply(place).getClass().getSimpleName()) not in _CONSTANTS
    ]
    reads = {each.text: each.make() for each in found if each.make is not None}
    if streams := [text for text, each in reads.items() if isinstance(each, DataFrame) and each.isStreaming]:
        raise SqlError(
            f"view '{name}' cannot be recomputed in full, because its {streams[0]} is read by Structured "
            "Streaming. Read Delta or Iceberg tables, or folders of Parquet files."
        )

    def frame() -> DataFrame:
        now = _analyzed(spark, name, given)
        return fresh_frame(spark, now)

    sources = {text: each for text, each in reads.items() if not isinstance(each, DataFrame)}
    return RecomputedView(name, reason, output_schema(plan, name), frame, sources)


def _settings(session: SessionSettings) -> dict[str, str]:
    return {
        "spark.sql.ansi.enabled": str(session.ansi).lower(),
        "spark.sql.caseSensitive": str(session.case_sensitive).lower(),
        "spark.sql.session.timeZone": session.time_zone,
    }


def _analyzed(spark: SparkSession, name: str, given: Any) -> Any:  # noqa: ANN401 - what came, a plan of the JVM
    if isinstance(given, str):
        try:
            return analyzed_plan(spark.sql(given))
        except PySparkException as error:
            raise SqlError(f"Spark cannot analyze the text: {error}") from error
    if isinstance(given, DataFrame):
        return analyzed_plan(given) if is_classic(given) else connect_plan(spark, given)
    raise FlowError(
        f"view '{name}' must be a DataFrame or a text in Spark's SQL, got {type(given).__name__}."
    )
