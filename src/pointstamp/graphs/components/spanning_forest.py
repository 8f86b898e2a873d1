"""The minimum spanning forest.

Boruvka (1926): every component of the forest so far takes the lightest edge that leaves it, until none does.
Edges are ordered by weight and then by their ends, so no two are equally light, and there is one answer.

Outside loops, with numbers in the order of ids for ids of other types, it is kept by an operator in arrays
(``whole.lightest``). Otherwise it is a loop of tables: components are found by spreading labels along the
forest, a loop in the loop, and their number halves each round.

Direction makes no difference; of edges that are there several times the lightest counts, and loops at
vertices never do.
"""

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.graphs.components.spreading import COMPONENT, least_label
from pointstamp.graphs.graph import DST, ID, SRC, WEIGHT, Graph, check_graph
from pointstamp.graphs.whole.gathering import gathered
from pointstamp.graphs.whole.lightest import LightestForest


def minimum_spanning_forest(graph: Graph) -> ps.Table:
    """``src``, ``dst`` and ``weight`` of the edges of the forest; ``src`` is the lesser end."""
    check_graph("minimum_spanning_forest", graph)
    if graph.weight is None:
        raise FlowError(
            f"minimum_spanning_forest of {graph}: the edges have no weights. Name their column with "
            "Graph(..., weight='km')."
        )
    if graph.needs_numbers:
        checked = graph.checked(partial(_weighed_by, graph.weight), name="forest: weights are there")
        return checked.by_ordered_id(minimum_spanning_forest(checked.in_order), SRC, DST)
    pairs = (
        graph.pairs.select(SRC, DST, WEIGHT)
        .named("forest: pairs")
        .map_batches(_weighed)
        .named("forest: weights are there")
    )
    if graph.is_for_arrays:
        answer = pa.schema([pairs.schema.field(each).with_nullable(True) for each in (SRC, DST, WEIGHT)])
        algorithm = LightestForest(answer.field(WEIGHT).type.to_pandas_dtype())
        return gathered(algorithm, answer, pairs, None, name="forest")
    links = pairs.filter(ps.col(SRC) != ps.col(DST)).distinct().named("forest: links")
    with links.loop("forest") as loop:
        links, ids = loop.enter(links), loop.enter(graph.ids)
        forest = loop.variable(links.schema, "forest")
        grown = forest.union(_lightest(forest, links, ids)).distinct().named("forest: grown")
        loop.feedback(forest, grown)
        return loop.leave(grown)


def _weighed(pairs: pa.RecordBatch) -> pa.RecordBatch:
    """The pairs as they are, all of whose weights must be numbers."""
    return _weighed_by(WEIGHT, pairs)


def _weighed_by(weight: str, pairs: pa.RecordBatch) -> pa.RecordBatch:
    is_number = pc.equal(pairs.column(weight), pairs.column(weight))  # what is not a number equals nothing
    if not pc.all(pc.fill_null(is_number, False), min_count=0).as_py():
        first = pairs.filter(pc.invert(pc.fill_null(is_number, False))).slice(0, 1).to_pylist()[0]
        raise FlowError(
            f"minimum_spanning_forest: every edge needs a weight, but the edge between {first[SRC]!r} and "
            f"{first[DST]!r} has {first[weight]}. Filter such edges out, or give them a weight."
        )
    return pairs


def _lightest(forest: ps.Table, links: ps.Table, ids: ps.Table) -> ps.Table:
    """The lightest edge that leaves each component of the forest."""
    pairs = forest.select(SRC, DST)
    back = pairs.select(src=ps.col(DST), dst=ps.col(SRC))
    parts = least_label(ids, pairs.union(back), name="forest: components")
    at_src = links.join(parts, {SRC: ID}).named("forest: at one end")
    between = at_src.join(parts, {DST: ID}, where=ps.col(COMPONENT) != ps.col("component_right")).named(
        "forest: between"
    )
    leaving = between.select(COMPONENT, SRC, DST, WEIGHT).union(
        between.select(SRC, DST, WEIGHT, component=ps.col("component_right")).select(
            COMPONENT, SRC, DST, WEIGHT
        )
    )
    chosen = leaving.distinct(COMPONENT, by=[WEIGHT, SRC, DST]).named("forest: lightest")
    return chosen.select(SRC, DST, WEIGHT)
