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
    from pointstamp.connectors.published.reader import read_changes as read_changes
    from pointstamp.connectors.published.reader import read_table as read_table
    from pointstamp.dataflow import Dataflow as Dataflow
    from pointstamp.dataflow.operator import operator as operator
    from pointstamp.dataflow.stream import Stream as Stream
    from pointstamp.dataflow.table import Table as Table
    from pointstamp.dataflow.table import iterate as iterate
    from pointstamp.driver.results import OutputTables as OutputTables
    from pointstamp.driver.results import Results as Results
    from pointstamp.expressions.tree import Expression as Expression
    from pointstamp.expressions.tree import col as col
    from pointstamp.expressions.tree import lit as lit
    from pointstamp.expressions.tree import when as when
    from pointstamp.flow.event_epochs import by_event_time as by_event_time
    from pointstamp.incremental.window_functions import dense_rank as dense_rank
    from pointstamp.incremental.window_functions import first_value as first_value
    from pointstamp.incremental.window_functions import lag as lag
    from pointstamp.incremental.window_functions import last_value as last_value
    from pointstamp.incremental.window_functions import lead as lead
    from pointstamp.incremental.window_functions import rank as rank
    from pointstamp.incremental.window_functions import row_number as row_number
    from pointstamp.query.options import QueryOptions as QueryOptions
    from pointstamp.query.policy import RestartPolicy as RestartPolicy
    from pointstamp.query.policy import SnapshotPolicy as SnapshotPolicy
    from pointstamp.query.query import Query as Query
    from pointstamp.reduce.constructors import aggregate as aggregate
    from pointstamp.reduce.constructors import bool_and as bool_and
    from pointstamp.reduce.constructors import bool_or as bool_or
    from pointstamp.reduce.constructors import collect_list as collect_list
    from pointstamp.reduce.constructors import collect_set as collect_set
    from pointstamp.reduce.constructors import count as count
    from pointstamp.reduce.constructors import count_distinct as count_distinct
    from pointstamp.reduce.constructors import first as first
    from pointstamp.reduce.constructors import last as last
    from pointstamp.reduce.constructors import max as max  # noqa: A004 - SQL's words, as ps.max and not starred
    from pointstamp.reduce.constructors import max_by as max_by
    from pointstamp.reduce.constructors import mean as mean
    from pointstamp.reduce.constructors import median as median
    from pointstamp.reduce.constructors import min as min  # noqa: A004 - SQL's words, as ps.max and not starred
    from pointstamp.reduce.constructors import min_by as min_by
    from pointstamp.reduce.constructors import quantile as quantile
    from pointstamp.reduce.constructors import stddev as stddev
    from pointstamp.reduce.constructors import stddev_pop as stddev_pop
    from pointstamp.reduce.constructors import stddev_samp as stddev_samp
    from pointstamp.reduce.constructors import sum as sum  # noqa: A004 - SQL's words, as ps.max and not starred
    from pointstamp.reduce.constructors import var_pop as var_pop
    from pointstamp.reduce.constructors import var_samp as var_samp
    from pointstamp.reduce.constructors import variance as variance
    from pointstamp.sql_views.entry import explain_views as explain_views
    from pointstamp.sql_views.entry import sql as sql
    from pointstamp.sql_views.entry import view as view
    from pointstamp.sql_views.entry import views as views

_MODULES: Final = ("errors", "functions", "graphs", "io", "ports", "status", "testing", "timely")
_HOMES: Final = {
    name: home
    for home, names in {
        "connectors.published.reader": "read_changes read_table",
        "dataflow": "Dataflow",
        "dataflow.operator": "operator",
        "dataflow.stream": "Stream",
        "dataflow.table": "Table iterate",
        "driver.results": "OutputTables Results",
        "expressions.tree": "Expression col lit when",
        "flow.event_epochs": "by_event_time",
        "incremental.window_functions": "dense_rank first_value lag last_value lead rank row_number",
        "query.options": "QueryOptions",
        "query.policy": "RestartPolicy SnapshotPolicy",
        "query.query": "Query",
        "reduce.constructors": (
            "aggregate bool_and bool_or collect_list collect_set count count_distinct first "
            "last max max_by mean median min min_by quantile stddev stddev_pop stddev_samp "
            "sum var_pop var_samp variance"
        ),
        "sql_views.entry": "explain_views sql view views",
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
