"""PageRank in its GraphFrames variants: global, personalized, parallel."""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.ml.functions import array_to_vector
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pointstamp import Table, lit
from pointstamp.graphs.given import Key
from pointstamp.graphs.graph import ID, Graph
from pointstamp.graphs.ranks.pagerank import pagerank, personalised_pagerank

TOLERANCE_OF_ITERATIONS: Final = 1e-6
"""How exact ranks are where a number of iterations was asked for."""

_PLACE: Final = "place"


def allowed(tolerance: float) -> float:
    """The nearest tolerance that ranks can have."""
    return min(max(tolerance, 1e-9), 0.1)


def ranked(source: Key | None, damping: float, tolerance: float, graph: Graph) -> Table:
    """Return ``id`` and ``rank``; ranks sum to the number of vertices, personalized ranks to one."""
    if source is None:
        return pagerank(graph, damping=damping, tolerance=tolerance, sums_to="vertices")
    return personalised_pagerank(graph, source, damping=damping, tolerance=tolerance, sums_to="one")


def ranked_from_each(sources: Sequence[Key], damping: float, graph: Graph) -> Table:
    """``id``, ``rank`` and ``place``, which is that of a source among the sources."""
    each = (
        ranked(source, damping, TOLERANCE_OF_ITERATIONS, graph)
        .select(ID, "rank", place=lit(place, "long"))
        .named(f"ranks from {place}")
        for place, source in enumerate(sources)
    )
    return reduce(Table.union, each)


def side_by_side(ranks: DataFrame, sources: int) -> DataFrame:
    """``id`` and ``pageranks``, a vector with a rank for each place."""
    at = [sql.max(sql.when(sql.col(_PLACE) == place, sql.col("rank"))) for place in range(sources)]
    vector = array_to_vector(sql.array(*(sql.coalesce(each, sql.lit(0.0)) for each in at)))
    return ranks.groupBy(ID).agg(vector.alias("pageranks"))
