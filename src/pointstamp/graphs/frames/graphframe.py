"""GraphFrame: the methods and columns of GraphFrames, run as flows on Spark.

    from pointstamp.graphs import GraphFrame                       # instead of graphframes

    g = GraphFrame(vertices, edges)                                # "id", ...; "src", "dst", ...
    g.pageRank(resetProbability=0.15, tol=0.01).vertices.select("id", "pagerank").show()

What goes in rounds is a flow of this package, begun and ended within the call, and its result is a DataFrame
(``running``). What is a join or a group, such as degrees, messages and the paths of a search, is left to
Spark, whose expressions these methods take (``parts``, ``along_edges``); so is ``pregel``, round by round.

Where GraphFrames leaves something open it is decided here: labels and components are always the same, and of
labels that are equally frequent the least wins. Ranks are those that GraphFrames comes nearer to with every
iteration, so ``maxIter`` is accepted and makes no difference. Edges to vertices that were not given are left
out. A graph that changes is a ``Graph`` of tables; this one is the graph at one moment.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from pointstamp.graphs.communities.cdlp import cdlp
from pointstamp.graphs.components.scc import scc
from pointstamp.graphs.components.wcc import wcc
from pointstamp.graphs.frames.along_edges import paths_of
from pointstamp.graphs.frames.columns_of import as_struct, labelled, with_distances
from pointstamp.graphs.frames.pregel import Pregel
from pointstamp.graphs.frames.ranks_of import RanksOfGraph
from pointstamp.graphs.frames.running import known, run_flow
from pointstamp.graphs.given import Key
from pointstamp.graphs.graph import ID
from pointstamp.graphs.paths.bfs import bfs
from pointstamp.graphs.paths.shortest_paths import shortest_paths
from pointstamp.graphs.patterns.motif_text import names_of, terms_of
from pointstamp.graphs.patterns.motifs import find
from pointstamp.graphs.patterns.triangles import triangles


class GraphFrame(RanksOfGraph):
    """A graph of two DataFrames, with what goes in rounds, and motifs."""

    def connectedComponents(self, **options: Any) -> DataFrame:  # noqa: ANN401, N802 - GraphFrames' own
        """The vertices with ``component``, a long; options of GraphFrames' algorithms make no difference."""
        return labelled(self._vertices, self._run("connected components", wcc), "component")

    def stronglyConnectedComponents(self, maxIter: int = 10) -> DataFrame:  # noqa: N802, N803 - as above
        """The vertices with ``component``, a long; it continues until all components are found."""
        return labelled(self._vertices, self._run("strongly connected components", scc), "component")

    def labelPropagation(self, maxIter: int) -> DataFrame:  # noqa: N802, N803 - GraphFrames' names
        """The vertices with ``label``, a long: the community after so many rounds."""
        made = self._run("label propagation", lambda graph: cdlp(graph, rounds=maxIter))
        return labelled(self._vertices, made, "label")

    @property
    def pregel(self) -> Pregel:
        """Return a builder of a vertex program."""
        return Pregel(self)

    def shortestPaths(self, landmarks: Iterable[Key]) -> DataFrame:  # noqa: N802 - GraphFrames' name
        """The vertices with ``distances``, a map from each landmark in reach to a number of edges."""
        paths = self._run("shortest paths", lambda graph: shortest_paths(graph, list(landmarks)))
        return with_distances(self._vertices, paths)

    def triangleCount(self, **options: Any) -> DataFrame:  # noqa: ANN401, N802 - GraphFrames' own
        """``count``, the number of triangles of which each vertex is a corner, and the vertices."""
        counts = self._run("triangles", triangles).withColumnRenamed("triangles", "count")
        return self._vertices.join(counts, ID).select("count", *self._vertices.columns)

    def find(self, pattern: str) -> DataFrame:
        """A row for each place where the motif is found; what has a name in it is a struct."""
        vertices, edges = known(self._vertices, self._edges)
        frames = {"vertices": vertices, "edges": edges}
        found = run_flow("find", frames, partial(find, motif=pattern), self._workers)
        columns = {False: vertices.columns, True: edges.columns}
        return found.select(
            *(as_struct(name, columns[is_edge]) for name, is_edge in names_of(terms_of(pattern)))
        )

    def bfs(
        self,
        fromExpr: str,  # noqa: N803 - GraphFrames' name
        toExpr: str,  # noqa: N803 - as above
        edgeFilter: str | None = None,  # noqa: N803 - as above
        maxPathLength: int = 10,  # noqa: N803 - as above
    ) -> DataFrame:
        """All shortest paths: ``from``, ``e0``, ``v1``, ``e1``, ..., ``to``; no rows where there is none."""
        edges = self._edges if edgeFilter is None else self._edges.filter(edgeFilter)
        starts, ends = self._vertices.filter(fromExpr), self._vertices.filter(toExpr)
        levels = self._run("bfs", bfs, edges=edges, sources=starts)
        nearest = ends.join(levels, ID).agg(sql.min("level")).first()
        length = None if nearest is None else nearest[0]
        if length is None or length > maxPathLength:
            nobody = self._vertices.limit(0)
            return nobody.select(sql.struct("*").alias("from"), sql.struct("*").alias("to"))
        return paths_of(length, self._vertices.join(levels, ID), edges, starts, ends)
