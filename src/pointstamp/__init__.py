"""Timely dataflow for Apache Spark: streams with loops, exact completion, unobservable recovery.

Names are imported when they are first used, so that the command line answers at once and a process that only
judges models never loads Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pointstamp.compiled import choose_core
from pointstamp.version import __version__

choose_core()

if TYPE_CHECKING:
    from pointstamp import testing
    from pointstamp.dataflow import Dataflow
    from pointstamp.dataflow.loops import Loop, TableLoop
    from pointstamp.dataflow.mutual import iterate
    from pointstamp.dataflow.operator import operator
    from pointstamp.dataflow.stream import Stream
    from pointstamp.dataflow.table import Table
    from pointstamp.errors import PointstampError, PointstampWarning
    from pointstamp.expressions import functions
    from pointstamp.expressions.functions import duration, tumbling
    from pointstamp.expressions.tree import Expression, col, lit, when
    from pointstamp.flow.event_epochs import EventTime, event_time
    from pointstamp.flow.logic import (
        DeclaredOperator,
        IsNotified,
        OperatorLike,
        Receives,
        Starts,
        WatchesFrontiers,
    )
    from pointstamp.flow.probe import Probe
    from pointstamp.operators.capability import Capability
    from pointstamp.operators.context import Context, SendSession
    from pointstamp.operators.stateless import Row
    from pointstamp.order.antichain import Antichain
    from pointstamp.progress.pointstamp import Pointstamp
    from pointstamp.progress.why import Holder
    from pointstamp.query.policy import RestartPolicy, SnapshotPolicy
    from pointstamp.query.query import Query
    from pointstamp.reduce.aggregate import Accumulator, Aggregate, FunctionAggregate
    from pointstamp.reduce.asking import (
        aggregate,
        bool_and,
        bool_or,
        collect_list,
        collect_set,
        count,
        count_distinct,
        first,
        last,
        max_by,
        mean,
        median,
        min_by,
        quantile,
        stddev,
        stddev_pop,
        stddev_samp,
        var_pop,
        var_samp,
        variance,
    )
    from pointstamp.reduce.asking import max as max  # noqa: A004 - SQL's words, as ps.max and not starred
    from pointstamp.reduce.asking import min as min  # noqa: A004 - as above
    from pointstamp.reduce.asking import sum as sum  # noqa: A004 - as above
    from pointstamp.running.feeding import FlowControl, RunInput
    from pointstamp.running.local import LocalRun
    from pointstamp.running.results import OutputTables, Results
    from pointstamp.running.status import InputStatus, KeptStatus, LoopStatus, OutputStatus, RunStatus
    from pointstamp.sinks.compactor import Compacted, compact
    from pointstamp.sinks.delta import DeltaSink
    from pointstamp.sinks.delta_versions import delta_version
    from pointstamp.sinks.iceberg import IcebergSink
    from pointstamp.sinks.kafka.sink import KafkaSink
    from pointstamp.sinks.parquet import ParquetSink
    from pointstamp.sinks.port import Compactor, Publisher, Sink, Staged, Writer
    from pointstamp.sinks.postgres.sink import PostgresSink
    from pointstamp.sinks.reading import published_files, read_published, read_table
    from pointstamp.sinks.tiers import CompactionPolicy
    from pointstamp.sources.bad_records import BadRecords
    from pointstamp.sources.delta import delta_changes
    from pointstamp.sources.files import files
    from pointstamp.sources.iceberg import iceberg_changes
    from pointstamp.sources.kafka.source import kafka
    from pointstamp.sources.port import Part, Source, Unit, Watch
    from pointstamp.sources.published import published
    from pointstamp.spark.catalog_sink import CatalogSink, catalog
    from pointstamp.sql_views.frames import explain_views, views
    from pointstamp.sql_views.sql import sql
    from pointstamp.sql_views.view import view
    from pointstamp.state import saved
    from pointstamp.state.pieces import Piece, Stateful
    from pointstamp.storage.port import Storage
    from pointstamp.tables.in_order import (
        OrderFunction,
        dense_rank,
        first_value,
        lag,
        last_value,
        lead,
        rank,
        row_number,
        running_count,
        running_max,
        running_mean,
        running_min,
        running_sum,
    )
    from pointstamp.topology.domain import RootSummary, Time, TimeOrder
    from pointstamp.topology.stacks import Stacks
    from pointstamp.topology.summary import Summary, delay

_HOMES = {
    "Accumulator": "reduce.aggregate",
    "Aggregate": "reduce.aggregate",
    "Antichain": "order.antichain",
    "BadRecords": "sources.bad_records",
    "Capability": "operators.capability",
    "CatalogSink": "spark.catalog_sink",
    "Compacted": "sinks.compactor",
    "CompactionPolicy": "sinks.tiers",
    "Compactor": "sinks.port",
    "Context": "operators.context",
    "Dataflow": "dataflow",
    "DeclaredOperator": "flow.logic",
    "DeltaSink": "sinks.delta",
    "EventTime": "flow.event_epochs",
    "Expression": "expressions.tree",
    "FlowControl": "running.feeding",
    "FunctionAggregate": "reduce.aggregate",
    "Holder": "progress.why",
    "IcebergSink": "sinks.iceberg",
    "InputStatus": "running.status",
    "IsNotified": "flow.logic",
    "KafkaSink": "sinks.kafka.sink",
    "KeptStatus": "running.status",
    "LocalRun": "running.local",
    "Loop": "dataflow.loops",
    "LoopStatus": "running.status",
    "OperatorLike": "flow.logic",
    "OrderFunction": "tables.in_order",
    "OutputStatus": "running.status",
    "OutputTables": "running.results",
    "ParquetSink": "sinks.parquet",
    "Part": "sources.port",
    "Piece": "state.pieces",
    "Pointstamp": "progress.pointstamp",
    "PointstampError": "errors",
    "PointstampWarning": "errors",
    "PostgresSink": "sinks.postgres.sink",
    "Probe": "flow.probe",
    "Publisher": "sinks.port",
    "Query": "query.query",
    "Receives": "flow.logic",
    "RestartPolicy": "query.policy",
    "Results": "running.results",
    "RootSummary": "topology.domain",
    "Row": "operators.stateless",
    "RunInput": "running.feeding",
    "RunStatus": "running.status",
    "SendSession": "operators.context",
    "Sink": "sinks.port",
    "SnapshotPolicy": "query.policy",
    "Source": "sources.port",
    "Stacks": "topology.stacks",
    "Staged": "sinks.port",
    "Starts": "flow.logic",
    "Stateful": "state.pieces",
    "Storage": "storage.port",
    "Stream": "dataflow.stream",
    "Summary": "topology.summary",
    "Table": "dataflow.table",
    "TableLoop": "dataflow.loops",
    "Time": "topology.domain",
    "TimeOrder": "topology.domain",
    "Unit": "sources.port",
    "Watch": "sources.port",
    "WatchesFrontiers": "flow.logic",
    "Writer": "sinks.port",
    "aggregate": "reduce.asking",
    "bool_and": "reduce.asking",
    "bool_or": "reduce.asking",
    "catalog": "spark.catalog_sink",
    "col": "expressions.tree",
    "collect_list": "reduce.asking",
    "collect_set": "reduce.asking",
    "compact": "sinks.compactor",
    "count": "reduce.asking",
    "count_distinct": "reduce.asking",
    "delay": "topology.summary",
    "delta_changes": "sources.delta",
    "delta_version": "sinks.delta_versions",
    "dense_rank": "tables.in_order",
    "duration": "expressions.functions",
    "event_time": "flow.event_epochs",
    "explain_views": "sql_views.frames",
    "files": "sources.files",
    "first": "reduce.asking",
    "first_value": "tables.in_order",
    "functions": "expressions.functions",
    "iceberg_changes": "sources.iceberg",
    "iterate": "dataflow.mutual",
    "kafka": "sources.kafka.source",
    "lag": "tables.in_order",
    "last": "reduce.asking",
    "last_value": "tables.in_order",
    "lead": "tables.in_order",
    "lit": "expressions.tree",
    "max": "reduce.asking",
    "max_by": "reduce.asking",
    "mean": "reduce.asking",
    "median": "reduce.asking",
    "min": "reduce.asking",
    "min_by": "reduce.asking",
    "operator": "dataflow.operator",
    "published": "sources.published",
    "published_files": "sinks.reading",
    "quantile": "reduce.asking",
    "rank": "tables.in_order",
    "read_published": "sinks.reading",
    "row_number": "tables.in_order",
    "running_count": "tables.in_order",
    "running_max": "tables.in_order",
    "running_mean": "tables.in_order",
    "running_min": "tables.in_order",
    "running_sum": "tables.in_order",
    "read_table": "sinks.reading",
    "saved": "state.saved",
    "sql": "sql_views.sql",
    "stddev": "reduce.asking",
    "stddev_pop": "reduce.asking",
    "stddev_samp": "reduce.asking",
    "sum": "reduce.asking",
    "testing": "testing",
    "tumbling": "expressions.functions",
    "var_pop": "reduce.asking",
    "var_samp": "reduce.asking",
    "variance": "reduce.asking",
    "view": "sql_views.view",
    "views": "sql_views.frames",
    "when": "expressions.tree",
}

__all__ = [
    "Accumulator",
    "Aggregate",
    "Antichain",
    "BadRecords",
    "Capability",
    "CatalogSink",
    "Compacted",
    "CompactionPolicy",
    "Compactor",
    "Context",
    "Dataflow",
    "DeclaredOperator",
    "DeltaSink",
    "EventTime",
    "Expression",
    "FlowControl",
    "FunctionAggregate",
    "Holder",
    "IcebergSink",
    "InputStatus",
    "IsNotified",
    "KafkaSink",
    "KeptStatus",
    "LocalRun",
    "Loop",
    "LoopStatus",
    "OperatorLike",
    "OrderFunction",
    "OutputStatus",
    "OutputTables",
    "ParquetSink",
    "Part",
    "Piece",
    "Pointstamp",
    "PointstampError",
    "PointstampWarning",
    "PostgresSink",
    "Probe",
    "Publisher",
    "Query",
    "Receives",
    "RestartPolicy",
    "Results",
    "RootSummary",
    "Row",
    "RunInput",
    "RunStatus",
    "SendSession",
    "Sink",
    "SnapshotPolicy",
    "Source",
    "Stacks",
    "Staged",
    "Starts",
    "Stateful",
    "Storage",
    "Stream",
    "Summary",
    "Table",
    "TableLoop",
    "Time",
    "TimeOrder",
    "Unit",
    "Watch",
    "WatchesFrontiers",
    "Writer",
    "__version__",
    "aggregate",
    "bool_and",
    "bool_or",
    "catalog",
    "col",
    "collect_list",
    "collect_set",
    "compact",
    "count",
    "count_distinct",
    "delay",
    "delta_changes",
    "delta_version",
    "dense_rank",
    "duration",
    "event_time",
    "explain_views",
    "files",
    "first",
    "first_value",
    "functions",
    "iceberg_changes",
    "iterate",
    "kafka",
    "lag",
    "last",
    "last_value",
    "lead",
    "lit",
    "max_by",
    "mean",
    "median",
    "min_by",
    "operator",
    "published",
    "published_files",
    "quantile",
    "rank",
    "read_published",
    "read_table",
    "row_number",
    "running_count",
    "running_max",
    "running_mean",
    "running_min",
    "running_sum",
    "saved",
    "sql",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "testing",
    "tumbling",
    "var_pop",
    "var_samp",
    "variance",
    "view",
    "views",
    "when",
]

# As ps.sum and the like: a star import must not put them before Python's own.
_NOT_STARRED = ("max", "min", "sum")


if not TYPE_CHECKING:  # to a type checker, a name that is not listed above is a mistake

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            words = import_module("pointstamp.reduce.other_words")
            raise AttributeError(words.no_such_name(name, __dir__()))
        module = import_module(f"pointstamp.{home}")
        # Three names are modules, every other one is something in a module.
        value: object = module if name in ("functions", "saved", "testing") else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_NOT_STARRED])
