"""Connected components of a graph to which edges are only added.

    edges = flow.stream_input("edges", "src long, dst long")
    flow.output("components", connected_components(edges))        # vertex long, component long

The component of a vertex is named by its least vertex. An epoch's result has exactly the vertices that were
new in it or have another component than before, each once; kept by vertex, the results of epochs 0 to e are
the components of the edges of epochs 0 to e.

The flow is one loop around one operator. A worker owns the vertices that hash to it and joins what it can by
itself, complete epochs of edges at a time (``union_find``); what concerns vertices of others goes round, by
owner, until no worker has anything to send. With one worker that is never; with several the rounds grow with
the logarithm of the longest path between labels, not with its length.

Epochs may overlap on the way in, but the labels have one version, so the operator takes them one after the
other (this module). Edges are added only (this module); taking one away could split a component,
which labels alone cannot tell.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp import Stream, Table, operator
from pointstamp.errors import FlowError, SchemaError
from pointstamp.graphs.union_find import Forest, Pairs
from pointstamp.ports import Context, Piece, saved
from pointstamp.timely import Capability


def connected_components(
    edges: Stream | Table, *, src: str = "src", dst: str = "dst", diff: str | None = None
) -> Stream:
    """Compute the weakly connected components of a growing graph, as a stream of changed labels.

    For edges that can be deleted, use ``ps.graphs.wcc``.

    Args:
        edges: A stream or an append-only table of edges. Duplicate edges are allowed, and a self-loop adds a
            vertex.
        src (str, default "src"): The column of one end, an integer.
        dst (str, default "dst"): The column of the other end. The direction makes no difference.
        diff (str, default None): A column with the multiplicity of each edge; a deletion raises FlowError.

    Returns:
        A stream of ``vertex`` and ``component``: in each epoch the vertices whose component changed.

    Examples:
        >>> flow = ps.Dataflow("components")
        >>> edges = flow.stream_input("edges", "src long, dst long")
        >>> flow.output("out", ps.graphs.connected_components(edges))
        >>> results = flow.run(edges=[[{"src": 1, "dst": 2}], [{"src": 2, "dst": 0}]])
        >>> results["out"][1].sort_by("vertex").to_pydict()
        {'vertex': [0, 1, 2], 'component': [0, 0, 0]}

    """
    if isinstance(edges, Table):
        edges = _added_edges(edges)
    _check_stream(edges, src, dst, diff)
    pairs = operator("edges to pairs", EdgesToPairs(src, dst, diff), edges=edges)
    with pairs.loop("labels") as loop:
        facts = loop.variable(FACTS, "facts")
        again, labels = operator(
            "least labels",
            LeastLabels(),
            edges=loop.enter(pairs).exchange("vertex"),
            again=facts.exchange("vertex"),
        )
        loop.feedback(facts, again)
        components: Stream = loop.leave(labels)
    return components


def _added_edges(edges: Table) -> Stream:
    if not edges.is_append_only:
        raise FlowError(
            f"connected_components of {edges}: edges of this table can be deleted, and joined labels "
            "cannot be separated. Give a table that only grows, or propagate the least vertex along the "
            "edges with iterate: labels.iterate(lambda x, labels, edges: x.join(edges, "
            "{'vertex': 'src'}).select(vertex=ps.col('dst'), "
            "component=ps.col('component')).union(labels).group_by('vertex').agg("
            "component=ps.min('component')), labels, edges)."
        )
    return edges.to_stream().named("edges that are added")


def _check_stream(edges: object, src: str, dst: str, diff: str | None) -> None:
    if not isinstance(edges, Stream):
        raise FlowError(
            f"connected_components: it needs a Stream or a Table of edges, got {type(edges).__name__}. Give "
            "the edges, such as graph.edges, or use ps.graphs.wcc(graph), from which edges can be deleted."
        )
    if edges.loops:
        raise FlowError(
            f"connected_components of {edges}: the edges must be outside of loops, got a stream in loop "
            f"'{edges.loops[-1]}'. Leave the loop first."
        )
    for name in (src, dst, *(() if diff is None else (diff,))):
        found = edges.schema.field(name).type if edges.schema.names.count(name) == 1 else None
        if found is None or not pa.types.is_signed_integer(found):
            what = "not among them" if found is None else f"of type {found}"
            raise SchemaError(
                f"connected_components of {edges} needs integers (long) in column '{name}', which is {what}; "
                f"the columns are {', '.join(map(repr, edges.schema.names))}. Name the columns with src=, "
                "dst= and diff=, or number the vertices first."
            )


# The operator of growing components: a forest, updated epoch by epoch.
#
# Epochs may overlap on the way in, but the labels have one version. So the operator keeps what comes for a
# time, with the capabilities to act on it (Brun et al. 2021, section 4), until that time is complete and so
# is every round of the epochs before.
#
# What is saved at a closed epoch is the label of every vertex, twice: for the owner of the vertex, and for
# the owner of the label, which has to know who uses its label elsewhere, on however many workers there will
# be.

# No loop gets so far: a time of this round is complete when its whole epoch is.
_LAST_ROUND: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class _WaitingEdges:
    """The edges of an incomplete time, and the capability for it."""

    again: Capability
    labels: Capability
    batches: list[pa.RecordBatch]


# Save and restore labels with the vertices that follow them.

LABELS: Final = pa.schema([("vertex", pa.int64()), ("component", pa.int64())])


def followers_of(labels: Pairs, members: pa.Table, worker: int, workers: int) -> Pairs:
    """One member of each label of mine for each other worker that has any.

    Among the members are some of labels of others, where the same workers continue and each has what it
    saved, and some of labels that are none any more, because no message reports when a follower is freed.
    """
    pairs = pairs_of(members)
    still = np.isin(pairs.other, labels.vertex[labels.vertex == labels.other])
    owner = saved.owners(members, ("vertex",), workers)
    away = np.flatnonzero(still & (owner != worker))
    order = away[np.lexsort((owner[away], pairs.other[away]))]
    label, owner = pairs.other[order], owner[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (label[1:] != label[:-1]) | (owner[1:] != owner[:-1])
    return Pairs(pairs.vertex[order[is_first]], label[is_first])


def pairs_of(labels: pa.Table) -> Pairs:
    """Labels of a table as arrays."""
    return Pairs(*(labels.column(name).to_numpy() for name in LABELS.names))


# The operator that validates edges and turns them into pairs of ids.

FACTS: Final = pa.schema([("vertex", pa.int64()), ("other", pa.int64())])


class EdgesToPairs:
    """Checks edges where they come in, and names the greater end first, which is to be told of the lesser."""

    outputs = FACTS

    def __init__(self, src: str, dst: str, diff: str | None) -> None:
        self._src = src
        self._dst = dst
        self._diff = diff

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Send the two ends of every edge."""
        ends = [batch.column(name) for name in (self._src, self._dst)]
        for name, column in zip((self._src, self._dst), ends, strict=True):
            if column.null_count:
                raise SchemaError(
                    f"operator '{context.operator}': column '{name}' must name a vertex in every row, got "
                    f"null in {column.null_count} of {batch.num_rows} rows of epoch {context.epoch}. "
                    "Filter such rows out, or number the vertex."
                )
        if self._diff is not None:
            self._check_added(context, batch)
        src, dst = (column.cast(pa.int64()) for column in ends)
        greater, lesser = pc.max_element_wise(src, dst), pc.min_element_wise(src, dst)
        context.send(pa.RecordBatch.from_arrays([greater, lesser], schema=context.schema()))

    def _check_added(self, context: Context, batch: pa.RecordBatch) -> None:
        added = pc.fill_null(pc.greater(batch.column(self._diff), 0), False)
        refused = batch.filter(pc.invert(added))
        if refused.num_rows:
            first = refused.slice(0, 1).to_pylist()[0]
            raise FlowError(
                f"operator '{context.operator}': edges can only be inserted, but in epoch {context.epoch} "
                f"the edge from {first[self._src]} to {first[self._dst]} has '{self._diff}' "
                f"{first[self._diff]} ({refused.num_rows} such rows). For a graph that loses edges, use "
                "ps.graphs.Graph."
            )


class LeastLabels:
    """Takes facts into its forest, round by round of one epoch after the other, and reports each epoch.

    A round is taken in complete, when it is complete. Acting on every batch would be right as well, but each
    would be answered by as many as there are workers: their number would grow by that factor every round.
    """

    outputs: ClassVar = {"again": FACTS, "labels": LABELS}

    def __init__(self) -> None:
        self._forest: Forest | None = None
        self._waiting: dict[tuple[int, int], _WaitingEdges] = {}
        # The right to report the epoch that is being worked on.
        self._report: Capability | None = None

    def on_start(self, context: Context) -> None:
        """Begin without edges."""
        self._forest = Forest(owns_all=context.workers == 1)

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        """The labels of all vertices of this worker, or of those that changed since the last save."""
        assert not self._waiting, f"times {list(self._waiting)} are open at a snapshot"
        assert self._report is None, "an epoch has not been reported at a snapshot"
        labels, members, is_whole = self._known().save(changes_only=changes_only)
        return {
            "labels": Piece(pa.table(list(labels), schema=LABELS), ("vertex",), ("vertex",), is_whole),
            "members": Piece(pa.table(list(members), schema=LABELS), ("component",), ("vertex",), is_whole),
        }

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Continue with the labels of this worker's vertices, and who follows the labels that it owns."""
        self._forest = Forest(owns_all=context.workers == 1)
        labels = pairs_of(pieces["labels"])
        followers = followers_of(labels, pieces["members"], context.worker, context.workers)
        self._forest.restore(labels, followers)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep facts until their time is complete."""
        waiting = self._waiting.get(context.time)
        if waiting is not None:
            waiting.batches.append(batch)
            return
        if not isinstance(context.epoch, int):
            raise FlowError(
                f"operator '{context.operator}' needs epochs, which are totally ordered, but this flow "
                f"has custom times, such as {context.epoch!r}. Use a flow without 'times'."
            )
        again, labels = context.retain(output="again"), context.retain(output="labels")
        self._waiting[context.time] = _WaitingEdges(again, labels, [batch])

    def on_frontier(self, context: Context) -> None:
        """Take in the rounds that are complete, and report the epochs that are."""
        while self._report_epoch(context) or self._take_round(context):
            pass

    def _take_round(self, context: Context) -> bool:
        """Take in the earliest time, if it is settled: nothing of it or of the epochs before can come."""
        time = min(self._waiting, default=None)
        if time is None or not context.is_settled(time):
            return False
        assert self._report is None or self._report.time[0] == time[0]
        waiting = self._waiting.pop(time)
        first, *more = waiting.batches
        facts = pa.concat_batches([first, *more]) if more else first
        told = self._known().absorb(Pairs(*(column.to_numpy() for column in facts.columns)))
        _send(context, "again", FACTS, told, waiting.again)
        waiting.again.drop()
        if self._report is None:
            self._report = waiting.labels
        else:
            waiting.labels.drop()
        return True

    def _report_epoch(self, context: Context) -> bool:
        """Report what an epoch has changed, if nothing of it goes round any more."""
        if self._report is None:
            return False
        # A single worker has told nobody, so it need not wait to hear that nothing is in flight.
        if context.workers > 1 and not context.is_complete((self._report.time[0], _LAST_ROUND)):
            return False
        _send(context, "labels", LABELS, self._known().take_changes(), self._report)
        self._report.drop()
        self._report = None
        return True

    def _known(self) -> Forest:
        assert self._forest is not None, "on_start comes first"
        return self._forest


def _send(context: Context, output: str, schema: pa.Schema, pairs: Pairs, capability: Capability) -> None:
    if len(pairs.vertex):
        batch = pa.RecordBatch.from_arrays([pa.array(column) for column in pairs], schema=schema)
        context.send(batch, output=output, capability=capability)
