"""The GraphFrames builder of vertex programs.

    ranks = (
        g.pregel.setMaxIter(5)
        .withVertexColumn("rank", lit(1.0), coalesce(Pregel.msg(), lit(0.0)) * 0.85 + 0.15)
        .sendMsgToDst(Pregel.src("rank") / Pregel.src("outDegree"))
        .aggMsgs(sum(Pregel.msg()))
        .run()
    )

It takes Spark's expressions, so Spark works them out: a round is a join of the edges with both ends, a group
and a join, and its result is kept before the next begins. ``pointstamp.graphs.pregel`` takes expressions of
this package instead; it is one job for all rounds, and of a graph that changes.
"""

from functools import reduce
from typing import TYPE_CHECKING, Final, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from pointstamp.errors import FlowError
from pointstamp.graphs.edge_tables import DST, ID, SRC
from pointstamp.graphs.frames.triplets import triplets_of

if TYPE_CHECKING:
    from pointstamp.graphs.frames.triplets import PartsOfGraph

_MESSAGE: Final = "_pregel_msg_"


class Pregel:
    """A vertex program of a ``GraphFrame``; its methods return it, and ``run`` runs it."""

    def __init__(self, graph: "PartsOfGraph") -> None:
        self._graph = graph
        self._rounds = 10
        self._stops_early = False
        self._columns: dict[str, tuple[Column, Column]] = {}
        self._sent: list[tuple[str, Column]] = []
        self._aggregate: Column | None = None

    def setMaxIter(self, value: int) -> Self:  # noqa: N802 - GraphFrames' name
        """Set the maximum number of rounds; default: 10."""
        if value < 1:
            raise FlowError(
                f"pregel: setMaxIter needs a number of rounds of 1 or more, got {value!r}. "
                "Give a larger number."
            )
        self._rounds = value
        return self

    def setCheckpointInterval(self, value: int) -> Self:  # noqa: N802 - GraphFrames' name
        """Accept the option without effect: Spark keeps every round."""
        return self

    def setEarlyStopping(self, value: bool) -> Self:  # noqa: N802 - GraphFrames' name
        """Set whether the program ends with the first round without messages."""
        self._stops_early = value
        return self

    def withVertexColumn(  # noqa: N802 - GraphFrames' name
        self,
        colName: str,  # noqa: N803 - GraphFrames' name
        initialExpr: Column,  # noqa: N803 - as above
        updateAfterAggMsgsExpr: Column,  # noqa: N803 - as above
    ) -> Self:
        """Add a column of vertices: its initial value, and its value after a round.

        The message is null where none has come.
        """
        if colName in self._columns or colName in self._graph.vertices.columns:
            raise FlowError(
                f"pregel: withVertexColumn cannot add '{colName}', because vertices already have a column "
                "of that name. Give another name."
            )
        self._columns[colName] = (initialExpr, updateAfterAggMsgsExpr)
        return self

    def sendMsgToSrc(self, msgExpr: Column) -> Self:  # noqa: N802, N803 - GraphFrames' names
        """Define the message to an edge's source, of ``Pregel.src``, ``dst``, ``edge``; null sends none."""
        self._sent.append((SRC, msgExpr))
        return self

    def sendMsgToDst(self, msgExpr: Column) -> Self:  # noqa: N802, N803 - GraphFrames' names
        """Define the message to an edge's destination, as ``sendMsgToSrc``."""
        self._sent.append((DST, msgExpr))
        return self

    def aggMsgs(self, aggExpr: Column) -> Self:  # noqa: N802, N803 - GraphFrames' names
        """Define the aggregate of the messages to one vertex, over ``Pregel.msg()``."""
        self._aggregate = aggExpr
        return self

    def run(self) -> DataFrame:
        """Run the program and return the vertices with the new columns."""
        if not self._columns or not self._sent or self._aggregate is None:
            raise FlowError(
                "pregel: withVertexColumn, sendMsgToSrc or sendMsgToDst, and aggMsgs are all required. "
                "Call them before run()."
            )
        given = self._graph.vertices
        begin = {name: each[0] for name, each in self._columns.items()}
        updates = [each[1].alias(name) for name, each in self._columns.items()]
        vertices = given.select("*", *(each.alias(name) for name, each in begin.items())).localCheckpoint()
        for _ in range(self._rounds):
            messages = self._messages(vertices)
            if self._stops_early and (messages := messages.localCheckpoint()).isEmpty():
                break
            come = messages.groupBy(ID).agg(self._aggregate.alias(_MESSAGE))
            beside = vertices.join(come, ID, "left")
            vertices = beside.select(*(beside[each] for each in given.columns), *updates).localCheckpoint()
        return vertices

    def _messages(self, vertices: DataFrame) -> DataFrame:
        """The messages of edges in a round: the recipient and the content."""
        triplets = triplets_of(vertices, self._graph.edges)
        sent = [
            triplets.select(sql.col(end)[ID].alias(ID), message.alias(_MESSAGE))
            for end, message in self._sent
        ]
        return reduce(DataFrame.unionAll, sent).where(sql.col(_MESSAGE).isNotNull())

    @staticmethod
    def msg() -> Column:
        """The message in ``aggMsgs``, and its aggregate in ``withVertexColumn``."""
        return sql.col(_MESSAGE)

    @staticmethod
    def src(colName: str) -> Column:  # noqa: N803 - GraphFrames' name
        """Return a column of the source of an edge."""
        return sql.col(SRC)[colName]

    @staticmethod
    def dst(colName: str) -> Column:  # noqa: N803 - GraphFrames' name
        """Return a column of the destination of an edge."""
        return sql.col(DST)[colName]

    @staticmethod
    def edge(colName: str) -> Column:  # noqa: N803 - GraphFrames' name
        """Return a column of an edge."""
        return sql.col("edge")[colName]
