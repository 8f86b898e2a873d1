"""Single-source shortest paths by weight.

LDBC Graphalytics' SSSP, of which this has the vertices that are reached; all others are infinitely far away.
Of edges that are there several times the lightest counts, and loops at vertices make no difference. Weights
must not be less than 0: a cycle of such edges would have no shortest way.
"""

from collections.abc import Iterable
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.graphs.given import Key
from pointstamp.graphs.graph import DST, ID, SRC, WEIGHT, Graph, check_graph
from pointstamp.graphs.paths.nearest import nearest
from pointstamp.graphs.paths.saved_ways import LENGTH


def sssp(graph: Graph, source: ps.Table | Iterable[Key] | Key) -> ps.Table:
    """``id`` and ``distance`` of every vertex that can be reached, 0 for the source.

    ``source`` is an id, several ids, or a table of ``id``; with several the nearest counts. A weight that is
    less than 0, null or not a number is refused when it comes.
    """
    check_graph("sssp", graph)
    if graph.needs_numbers and graph.weight is not None:
        checked = with_checked_weights(graph)
        return checked.by_id(sssp(checked.in_numbers, checked.numbers_among(source)))
    steps = weighed_steps(graph, "sssp")
    zero = ps.lit(0, steps.schema.field(LENGTH).type)
    starts = graph.among(source).select(ID, distance=zero).named("sssp: starts")
    return nearest(starts, steps, name="sssp")


def weighed_steps(graph: Graph, name: str) -> ps.Table:
    """``src``, ``dst`` and ``length`` of every edge, whose weights are not less than 0."""
    if graph.weight is None:
        raise FlowError(
            f"'{name}' of {graph}: the edges have no weights. Name their column with Graph(..., "
            "weight='km'), or use bfs, which counts edges."
        )
    kind = pa.int64() if pa.types.is_integer(graph.links.schema.field(WEIGHT).type) else pa.float64()
    steps = graph.links.select(SRC, DST, length=ps.col(WEIGHT).cast(kind)).named(f"{name}: steps")
    return steps.map_batches(not_negative).named(f"{name}: weights are not negative")


def with_checked_weights(graph: Graph) -> Graph:
    """Return the graph with a check that rejects negative weights by the ids of their edges."""
    assert graph.weight is not None
    return graph.checked(partial(_not_negative, graph.weight), name="weights are not negative")


def not_negative(steps: pa.RecordBatch) -> pa.RecordBatch:
    """The steps as they are, all of whose lengths must be 0 or more."""
    return _not_negative(LENGTH, steps)


def _not_negative(weight: str, steps: pa.RecordBatch) -> pa.RecordBatch:
    holds = pc.fill_null(pc.greater_equal(steps.column(weight), 0), False)
    if not pc.all(holds, min_count=0).as_py():
        first = steps.filter(pc.invert(holds)).slice(0, 1).to_pylist()[0]
        raise FlowError(
            f"shortest paths: weights must be 0 or more, but the edge from {first[SRC]!r} to "
            f"{first[DST]!r} has {first[weight]}. Filter such edges out, or add a constant to all "
            "weights."
        )
    return steps
