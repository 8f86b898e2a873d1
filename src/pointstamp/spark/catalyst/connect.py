"""DataFrames of Spark Connect, planned in the JVM of a classic session.

A DataFrame of Connect is an unresolved plan that a client sends to a server. Here it is given to the planner
that the server would use, so that names are resolved in the classic session: its temporary views, its catalog
and its settings. The server is not asked.
"""

from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pointstamp.errors import FlowError, SqlError

_CLIENT_ONLY = (
    "ps.views needs the JVM of a classic Spark session, and this process has only a client of Spark Connect. "
    "Start one here, SparkSession.builder.master('local[1]').getOrCreate(), that has the tables, and pass "
    "it: ps.views(classic, {'name': df}). The DataFrames of the Connect session can stay as they are."
)


def classic_session(spark: Any) -> Any:  # noqa: ANN401 - a session, classic or Connect
    """Return the session given, or the classic one of this process; FlowError if there is none."""
    if is_classic(spark):
        return spark
    found = SparkSession.getActiveSession()
    if found is None or not is_classic(found):
        raise FlowError(_CLIENT_ONLY)
    return found


def is_classic(given: Any) -> bool:  # noqa: ANN401 - a session or a DataFrame
    """Return whether a session or a DataFrame has a JVM in this process."""
    return ".connect." not in type(given).__module__


def connect_plan(spark: Any, frame: Any) -> Any:  # noqa: ANN401 - a classic session, a DataFrame, a plan of the JVM
    """Return the analyzed plan of a DataFrame of Connect in a classic session."""
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    relation = frame._plan.plan(frame.sparkSession.client)  # noqa: SLF001
    try:
        parsed = jvm.org.apache.spark.connect.proto.Relation.parseFrom(relation.SerializeToString())
        session = spark._jsparkSession  # noqa: SLF001
        service = jvm.org.apache.spark.sql.connect
        holder = service.service.SessionHolder("pointstamp", frame.sparkSession.session_id, session)
        planner = service.planner.SparkConnectPlanner(holder, jvm.scala.Option.apply(None))
        plan = planner.transformRelation(parsed)
        return jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan).queryExecution().analyzed()
    except PySparkException as error:
        raise SqlError(
            f"Spark cannot analyze the DataFrame of Connect in the classic session: {error}"
        ) from error
    except (Py4JError, TypeError) as error:
        raise SqlError(
            f"Spark {spark.version} does not plan DataFrames of Connect in a classic session: {error}. Write "
            "the query as a classic DataFrame or as a text in Spark's SQL."
        ) from error
