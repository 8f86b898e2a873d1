"""Timely dataflow for Apache Spark: streams with loops, exact completion, unobservable recovery.

Names are imported when they are first used, so that the command line answers at once and a process that only
judges models never loads Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from pointstamp.compiled import choose_core
from pointstamp.version import __version__ as __version__

choose_core()

if TYPE_CHECKING:  # a type checker reads imports only; tests compare them with the list below
    from pointstamp import errors as errors
    from pointstamp import functions as functions
    from pointstamp import graphs as graphs
    from pointstamp import io as io
    from pointstamp import ports as ports
    from pointstamp import status as status
    from pointstamp import testing as testing
    from pointstamp import timely as timely
    from pointstamp.dataflow import Dataflow as Dataflow
    from pointstamp.dataflow.mutual import iterate as iterate
    from pointstamp.dataflow.operator import operator as operator
    from pointstamp.dataflow.stream import Stream as Stream
    from pointstamp.dataflow.table import Table as Table
    from pointstamp.expressions.tree import Expression as Expression
    from pointstamp.expressions.tree import col as col
    from pointstamp.expressions.tree import lit as lit
    from pointstamp.expressions.tree import when as when
    from pointstamp.flow.event_epochs import by_event_time as by_event_time
    from pointstamp.query.options import QueryOptions as QueryOptions
    from pointstamp.query.policy import RestartPolicy as RestartPolicy
    from pointstamp.query.policy import SnapshotPolicy as SnapshotPolicy
    from pointstamp.query.query import Query as Query
    from pointstamp.reduce.asking import aggregate as aggregate
    from pointstamp.reduce.asking import bool_and as bool_and
    from pointstamp.reduce.asking import bool_or as bool_or
    from pointstamp.reduce.asking import collect_list as collect_list
    from pointstamp.reduce.asking import collect_set as collect_set
    from pointstamp.reduce.asking import count as count
    from pointstamp.reduce.asking import count_distinct as count_distinct
    from pointstamp.reduce.asking import first as first
    from pointstamp.reduce.asking import last as last
    from pointstamp.reduce.asking import max as max  # noqa: A004 - SQL's words, as ps.max and not starred
    from pointstamp.reduce.asking import max_by as max_by
    from pointstamp.reduce.asking import mean as mean
    from pointstamp.reduce.asking import median as median
    from pointstamp.reduce.asking import min as min  # noqa: A004 - SQL's words, as ps.max and not starred
    from pointstamp.reduce.asking import min_by as min_by
    from pointstamp.reduce.asking import quantile as quantile
    from pointstamp.reduce.asking import stddev as stddev
    from pointstamp.reduce.asking import stddev_pop as stddev_pop
    from pointstamp.reduce.asking import stddev_samp as stddev_samp
    from pointstamp.reduce.asking import sum as sum  # noqa: A004 - SQL's words, as ps.max and not starred
    from pointstamp.reduce.asking import var_pop as var_pop
    from pointstamp.reduce.asking import var_samp as var_samp
    from pointstamp.reduce.asking import variance as variance
    from pointstamp.running.results import OutputTables as OutputTables
    from pointstamp.running.results import Results as Results
    from pointstamp.sinks.reading import read_changes as read_changes
    from pointstamp.sinks.reading import read_table as read_table
    from pointstamp.sql_views.frames import views as views
    from pointstamp.sql_views.sql import sql as sql
    from pointstamp.sql_views.view import view as view
    from pointstamp.tables.in_order import dense_rank as dense_rank
    from pointstamp.tables.in_order import first_value as first_value
    from pointstamp.tables.in_order import lag as lag
    from pointstamp.tables.in_order import last_value as last_value
    from pointstamp.tables.in_order import lead as lead
    from pointstamp.tables.in_order import rank as rank
    from pointstamp.tables.in_order import row_number as row_number

_MODULES: Final = ("errors", "functions", "graphs", "io", "ports", "status", "testing", "timely")
_HOMES: Final = {
    name: home
    for home, names in {
        "dataflow": "Dataflow",
        "dataflow.mutual": "iterate",
        "dataflow.operator": "operator",
        "dataflow.stream": "Stream",
        "dataflow.table": "Table",
        "expressions.tree": "Expression col lit when",
        "flow.event_epochs": "by_event_time",
        "query.options": "QueryOptions",
        "query.policy": "RestartPolicy SnapshotPolicy",
        "query.query": "Query",
        "reduce.asking": (
            "aggregate bool_and bool_or collect_list collect_set count count_distinct first last "
            "max max_by mean median min min_by quantile stddev stddev_pop stddev_samp sum var_pop "
            "var_samp variance"
        ),
        "running.results": "OutputTables Results",
        "sinks.reading": "read_changes read_table",
        "sql_views.frames": "views",
        "sql_views.sql": "sql",
        "sql_views.view": "view",
        "tables.in_order": "dense_rank first_value lag last_value lead rank row_number",
    }.items()
    for name in names.split()
}
"""Every public name but the modules, and the module that it is in."""

# As ps.sum and the like: a star import must not put them before Python's own.
_NOT_STARRED: Final = ("max", "min", "sum")
__all__ = sorted({*_HOMES, *_MODULES, "__version__"} - set(_NOT_STARRED))


if not TYPE_CHECKING:  # to a type checker, a name that is not listed above is a mistake

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return import_module(f"pointstamp.{name}")
        home = _HOMES.get(name)
        if home is None:
            words = import_module("pointstamp.dataflow.other_words")
            raise AttributeError(words.no_such_name(name, __dir__()))
        value: object = getattr(import_module(f"pointstamp.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_NOT_STARRED])
