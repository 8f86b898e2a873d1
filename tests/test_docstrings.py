"""The docstrings of public names: Google style, with an example that runs on everything that users call.

Two laws, over every public function and over the public methods of the classes that users hold:
- each has an example (``>>>``), which pytest runs (``--doctest-modules``);
- the first line is one sentence of at most 110 characters that ends with a period.

``WITHOUT`` lists what needs Spark or a table of another system, and may only shrink.
"""

import inspect
from collections.abc import Iterator
from typing import Final

import pointstamp as ps
from pointstamp.dataflow.grouped import RowGroups
from pointstamp.expressions.tree import Choice
from pointstamp.reduce.over import Windowed

CLASSES: Final = (
    ps.Dataflow,
    ps.Stream,
    ps.Table,
    RowGroups,
    ps.Query,
    ps.Results,
    ps.OutputTables,
    ps.Expression,
    Choice,
    Windowed,
    ps.timely.Loop,
    ps.timely.TableLoop,
    ps.timely.LocalRun,
    ps.timely.RunInput,
)
MODULES: Final = (ps, ps.functions, ps.graphs, ps.io, ps.timely)
WITHOUT: Final = {
    "pointstamp.connectors.delta.log.delta_version",  # needs a Delta table
    "pointstamp.driver.local_run.LocalRun.tracker",  # for tools that look inside
    "pointstamp.spark.catalog_sink.catalog",  # on Spark, as the next two
    "pointstamp.sql_views.entry.explain_views",
    "pointstamp.sql_views.entry.views",
}


def public() -> Iterator[tuple[str, object]]:
    """Every public function and method, by where it is defined."""
    for module in MODULES:
        for name in dir(module):
            value = getattr(module, name)
            if inspect.isfunction(value) and not name.startswith("_"):
                yield f"{value.__module__}.{value.__qualname__}", value
    for kind in CLASSES:
        for name in dir(kind):
            value = inspect.getattr_static(kind, name)
            if inspect.isfunction(value) and not name.startswith("_"):
                yield f"{value.__module__}.{value.__qualname__}", value


NAMES: Final = {name: value for name, value in public() if name.startswith("pointstamp.")}


def test_every_function_and_method_that_users_call_has_an_example() -> None:
    assert len(NAMES) > 250
    without = {name for name, value in NAMES.items() if ">>> " not in (inspect.getdoc(value) or "")}
    assert without - WITHOUT == set(), "add an example, which pytest runs"
    assert WITHOUT - without == set(), "these have an example now: take them off the list"


def test_the_first_line_of_a_docstring_is_one_short_sentence() -> None:
    firsts = {name: (inspect.getdoc(value) or "").partition("\n")[0] for name, value in NAMES.items()}
    assert [name for name, line in firsts.items() if not line.endswith(".") or len(line) > 110] == []
