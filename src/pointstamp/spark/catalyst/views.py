"""Views of DataFrames and Spark SQL texts: their logical plans, and the tables that they read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pointstamp.errors import FlowError, SqlError
from pointstamp.plan.logical import LogicalOperator
from pointstamp.spark.catalyst.connect import classic_session, connect_plan, is_classic
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


def logical_views(
    spark: SparkSession,
    views: Mapping[str, Any],
    inputs: Mapping[str, Any],
    changes: Mapping[str, Any],
) -> LogicalViews:
    """Return the plans of DataFrames and SQL texts by name; SqlError names what cannot be incremental."""
    if not views:
        raise FlowError("ps.views needs at least one view, and the mapping is empty.")
    spark = classic_session(spark)
    session = SessionSettings.of(spark)
    leaves = Leaves(spark, inputs, changes)
    translator = PlanTranslator(CatalystRules(spark), session, leaves)
    outputs: dict[str, LogicalOperator] = {}
    notes: dict[str, tuple[str, ...]] = {}
    for name, given in views.items():
        try:
            made = translator.view(_analyzed(spark, name, given), name)
        except SqlError as error:
            raise SqlError(f"view '{name}': {error}") from error
        outputs[name] = made.operator
        notes[name] = made.notes
    leaves.check_unused()
    return LogicalViews(outputs, notes, session, _settings(session))


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
