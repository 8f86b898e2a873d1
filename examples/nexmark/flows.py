"""A flow of a query: the inputs that it names, as streams or as tables, and its result as an output."""

from collections.abc import Callable
from typing import get_type_hints

from examples.nexmark.events import SCHEMAS

import pointstamp as ps

Query = Callable[..., ps.Stream | ps.Table]

WEIGHT = "w"
"""The column of weights, where an input has deletions."""


def inputs_of(query: Query) -> dict[str, type]:
    """The inputs that a query names, and whether it takes each as a stream or as a table."""
    return {name: kind for name, kind in get_type_hints(query).items() if name != "return"}


def flow_of(query: Query, *, with_deletions: bool = False) -> ps.Dataflow:
    """A flow with one output, ``result``; with deletions the rows of tables have a weight, 1 or -1."""
    flow = ps.Dataflow(query.__name__)
    given: dict[str, ps.Stream | ps.Table] = {}
    for name, kind in inputs_of(query).items():
        weighed = with_deletions and kind is ps.Table
        stream = flow.stream_input(name, SCHEMAS[name] + (f", {WEIGHT} long" if weighed else ""))
        given[name] = stream.to_table(weight=WEIGHT if weighed else None) if kind is ps.Table else stream
    flow.output("result", query(**given))
    return flow
