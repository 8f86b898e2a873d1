"""The minimum spanning forest: the lightest edges that connect whatever is connected.

Boruvka (1926): every component of the forest so far takes the lightest edge that leaves it, until none does.
Edges are ordered by weight and then by their ends, so no two are equally light, and there is one answer.
Components are found by spreading labels along the forest, a loop in the loop; their number halves each round.

Direction makes no difference; of edges that are there several times the lightest counts, and loops at
vertices never do.
"""

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.graphs.graph import DST, ID, SRC, WEIGHT, Graph
from pointstamp.graphs.spreading import COMPONENT, least_label


def minimum_spanning_forest(graph: Graph) -> ps.Table:
    """``src``, ``dst`` and ``weight`` of the edges of the forest; ``src`` is the lesser end."""
    if graph.weight is None:
        raise FlowError(
            f"the minimum spanning forest of {graph} needs weights. Name their column with "
            "Graph(..., weight='km')."
        )
    ends = {
        SRC: ps.functions.least(ps.col(SRC), ps.col(DST)),
        DST: ps.functions.greatest(ps.col(SRC), ps.col(DST)),
        WEIGHT: ps.col(WEIGHT),
    }
    links = graph.links.filter(ps.col(SRC) != ps.col(DST)).select(**ends).distinct(name="forest: links")
    with links.loop("forest") as loop:
        links, ids = loop.enter(links), loop.enter(graph.ids)
        forest = loop.variable(links.schema, "forest")
        grown = forest.union(_lightest(forest, links, ids)).distinct(name="forest: grown")
        loop.feedback(forest, grown)
        return loop.leave(grown)


def _lightest(forest: ps.Table, links: ps.Table, ids: ps.Table) -> ps.Table:
    """The lightest edge that leaves each component of the forest."""
    pairs = forest.select(SRC, DST)
    back = pairs.select(src=ps.col(DST), dst=ps.col(SRC))
    parts = least_label(ids, pairs.union(back), name="forest: components")
    at_src = links.join(parts, {SRC: ID}, name="forest: at one end")
    between = at_src.join(
        parts, {DST: ID}, where=ps.col(COMPONENT) != ps.col("component_right"), name="forest: between"
    )
    leaving = between.select(COMPONENT, SRC, DST, WEIGHT).union(
        between.select(SRC, DST, WEIGHT, component=ps.col("component_right")).select(
            COMPONENT, SRC, DST, WEIGHT
        )
    )
    chosen = leaving.distinct(COMPONENT, by=[WEIGHT, SRC, DST], name="forest: lightest")
    return chosen.select(SRC, DST, WEIGHT)
