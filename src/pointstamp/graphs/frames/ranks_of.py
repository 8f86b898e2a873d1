"""Run PageRank on the ids of a graph of two DataFrames.

These are the methods of ``GraphFrame`` that give vertices their ranks, and edges their shares of them.
"""

from collections.abc import Iterable
from functools import partial
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pointstamp.errors import FlowError
from pointstamp.graphs.frames.parts import PartsOfGraph
from pointstamp.graphs.frames.ranking import (
    TOLERANCE_OF_ITERATIONS,
    allowed,
    ranked,
    ranked_from_each,
    side_by_side,
)
from pointstamp.graphs.frames.running import Algorithm, known, run_flow
from pointstamp.graphs.given import Key
from pointstamp.graphs.graph import DST, ID, SRC


class RanksOfGraph(PartsOfGraph):
    """A graph of two DataFrames, with ranks."""

    def pageRank(  # noqa: N802 - GraphFrames' name
        self,
        resetProbability: float = 0.15,  # noqa: N803 - GraphFrames' name
        sourceId: Key | None = None,  # noqa: N803 - as above
        maxIter: int | None = None,  # noqa: N803 - as above
        tol: float | None = None,
    ) -> Self:
        """The graph with ``pagerank`` of vertices, and ``weight`` of edges, which share it out evenly.

        Ranks add up to the number of vertices, and with a ``sourceId`` to one.
        """
        if (maxIter is None) == (tol is None):
            raise FlowError("pageRank: expected either maxIter or tol. Give exactly one of them.")
        damping, tolerance = 1 - resetProbability, TOLERANCE_OF_ITERATIONS if tol is None else allowed(tol)
        ranks = self._run("pageRank", partial(ranked, sourceId, damping, tolerance))
        return self._with_ranks(ranks.withColumnRenamed("rank", "pagerank"))

    def parallelPersonalizedPageRank(  # noqa: N802 - GraphFrames' name
        self,
        resetProbability: float = 0.15,  # noqa: N803 - GraphFrames' name
        sourceIds: Iterable[Key] | None = None,  # noqa: N803 - as above
        maxIter: int | None = None,  # noqa: N803 - as above
    ) -> Self:
        """The graph with ``pageranks`` of vertices: a vector of the ranks as seen from each source.

        Ranks of one source add up to one. All sources are one job, which keeps the edges for each of them.
        """
        sources = list(sourceIds or ())
        if not sources or maxIter is None:
            raise FlowError(
                "parallelPersonalizedPageRank: sourceIds and maxIter are required. Give one "
                "source id or more, and maxIter."
            )
        ranks = self._run("pageRanks", partial(ranked_from_each, sources, 1 - resetProbability))
        return self._with_ranks(side_by_side(ranks, len(sources)))

    def _with_ranks(self, ranks: DataFrame) -> Self:
        """The vertices with their ranks, and the edges with their shares."""
        shares = self.outDegrees.select(sql.col(ID).alias(SRC), (1 / sql.col("outDegree")).alias("weight"))
        return self._with(self._vertices.join(ranks, ID), self._edges.drop("weight").join(shares, SRC))

    def _run(
        self,
        name: str,
        algorithm: Algorithm,
        *,
        edges: DataFrame | None = None,
        sources: DataFrame | None = None,
    ) -> DataFrame:
        """The result of an algorithm for the ids alone; properties are joined by Spark afterwards."""
        ends = (self._edges if edges is None else edges).select(SRC, DST)
        vertices, ends = known(self._vertices.select(ID), ends)
        frames = {"vertices": vertices, "edges": ends}
        if sources is not None:
            frames["sources"] = sources.select(ID)
        return run_flow(name, frames, algorithm, self._workers)
