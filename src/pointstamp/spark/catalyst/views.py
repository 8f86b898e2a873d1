"""Views of DataFrames and Spark SQL texts: their logical plans, and the tables that they read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pointstamp.errors import FlowError, SqlError
from pointstamp.plan.logical import LogicalOperator, Scan, walk
from pointstamp.spark.catalyst.followed import FollowedInput
from pointstamp.spark.catalyst.leaves import Leaves
from pointstamp.spark.catalyst.operators import PlanTranslator
from pointstamp.spark.catalyst.rules import CatalystRules, analyzed_plan
from pointstamp.spark.catalyst.session import SessionSettings


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


def logical_views(
    spark: SparkSession,
    views: Mapping[str, Any],
    inputs: Mapping[str, Any],
    changes: Mapping[str, Any],
) -> LogicalViews:
    """Return the plans of DataFrames and SQL texts by name; SqlError names what cannot be incremental."""
    if not views:
        raise FlowError("ps.views needs at least one view, and the mapping is empty.")
    if not hasattr(spark, "_jsparkSession"):
        raise FlowError(
            "ps.views needs a classic Spark session, and was given one of Spark Connect. Use "
            "SparkSession.builder.master(...)."
        )
    session = SessionSettings.of(spark)
    leaves = Leaves(spark, inputs, changes)
    translator = PlanTranslator(CatalystRules(spark), session, leaves)
    outputs: dict[str, LogicalOperator] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for name, given in views.items():
        try:
            made = translator.view(analyzed_plan(_frame(spark, name, given)), name)
        except SqlError as error:
            raise SqlError(f"view '{name}': {error}") from error
        outputs[name] = made.operator
        notes[name] = made.notes
    leaves.check_unused()
    followed = {name: leaf.followed for name, leaf in leaves.found.items()}
    for name, operator in outputs.items():
        read = dict.fromkeys(each.input for each in walk([operator]) if isinstance(each, Scan))
        notes[name] = (*notes[name], *(f"input {each}: {followed[each].told}" for each in read))
    return LogicalViews(outputs, notes, session, _settings(session), followed)


def _settings(session: SessionSettings) -> dict[str, str]:
    return {
        "spark.sql.ansi.enabled": str(session.ansi).lower(),
        "spark.sql.caseSensitive": str(session.case_sensitive).lower(),
        "spark.sql.session.timeZone": session.time_zone,
    }


def _frame(spark: SparkSession, name: str, given: Any) -> DataFrame:  # noqa: ANN401 - whatever came
    if isinstance(given, str):
        try:
            return spark.sql(given)
        except PySparkException as error:
            raise SqlError(f"Spark cannot analyze the text: {error}") from error
    if isinstance(given, DataFrame):
        return given
    raise FlowError(
        f"view '{name}' must be a DataFrame or a text in Spark's SQL, got {type(given).__name__}."
    )
