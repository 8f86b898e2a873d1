"""Connected components of a graph that grows: for every epoch the vertices whose component has changed.

    edges = flow.input("edges", "src long, dst long")
    flow.output("components", connected_components(edges))        # vertex long, component long

The component of a vertex is named by its least vertex. An epoch's result has exactly the vertices that were
new in it or have another component than before, each once; kept by vertex, the results of epochs 0 to e are
the components of the edges of epochs 0 to e.

The flow is one loop around one operator. A worker owns the vertices that hash to it and joins what it can by
itself, whole epochs of edges at a time (``forest``); what concerns vertices of others goes round, by owner,
until nobody has anything to tell. With one worker that is never; with several the rounds grow with the
logarithm of the longest path between labels, not with its length.

Epochs may overlap on the way in, but the labels have one version. So the operator keeps what comes for a
time, with the capabilities to act on it (Brun et al. 2021, section 4), until that time is complete and so is
every round of the epochs before. Edges are added only; taking one away could split a
component, which labels alone cannot tell.

What is saved at a closed epoch is the label of every vertex, twice: for the owner of the vertex, and for the
owner of the label, which has to know who uses its label elsewhere, on however many workers there will be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pointstamp import Capability, Context, Piece, Stream, Table, operator, saved
from pointstamp.errors import FlowError, SchemaError
from pointstamp.graphs.components.forest import Forest, Pairs

FACTS: Final = pa.schema([("vertex", pa.int64()), ("other", pa.int64())])
LABELS: Final = pa.schema([("vertex", pa.int64()), ("component", pa.int64())])

# No loop gets so far: a time of this round is complete when its whole epoch is.
_LAST_ROUND: Final = 1 << 62


def connected_components(
    edges: Stream | Table, *, src: str = "src", dst: str = "dst", diff: str | None = None
) -> Stream:
    """The component of every vertex, as "vertex long, component long": per epoch those that changed.

    ``src`` and ``dst`` name the columns of the two ends, whole numbers; which end is which does not matter,
    an edge may come again, and an edge from a vertex to itself makes the vertex known. ``diff`` names a
    column that says how often each edge is added, at least once: an edge that is to be taken away is refused.
    A table of edges must be one that only grows; of one from which edges are taken away, components are a
    loop: ``vertices.iterate(...)``.
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
    if not edges.only_appends:
        raise FlowError(
            f"connected_components of {edges}: edges can be taken away from this table again, and labels "
            "that were joined cannot be told apart. Give a table that only grows, or spread the least vertex "
            "along the edges by iterate, which can: labels.iterate(lambda x, labels, edges: x.join(edges, "
            "{'vertex': 'src'}).select(vertex=ps.col('dst'), component=ps.col('component')).union(labels)"
            ".reduce('vertex', component=ps.min('component')), labels, edges)."
        )
    return edges.appended(name="edges that are added")


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
                    f"operator '{context.operator}': column '{name}' must name a vertex in every row, but is "
                    f"null in {column.null_count} of {batch.num_rows} rows of epoch {context.epoch}. Filter "
                    "such rows out, or give the vertex a number."
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
                f"operator '{context.operator}': edges can only be added, but in epoch {context.epoch} the "
                f"edge from {first[self._src]} to {first[self._dst]} has '{self._diff}' "
                f"{first[self._diff]} ({refused.num_rows} such rows). For a graph that loses edges, begin a "
                "new run with those that are left."
            )


@dataclass(frozen=True, slots=True)
class _WaitingEdges:
    """What has come for a time that is not complete yet, and the right to act on it."""

    again: Capability
    labels: Capability
    batches: list[pa.RecordBatch]


class LeastLabels:
    """Takes facts into its forest, round by round of one epoch after the other, and reports each epoch.

    A round is taken in whole, when it is complete. Acting on every batch would be right as well, but each
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
        """Go on with the labels of this worker's vertices, and with who follows the labels that it owns."""
        self._forest = Forest(owns_all=context.workers == 1)
        labels = _pairs_of(pieces["labels"])
        followers = _followers(labels, pieces["members"], context.worker, context.workers)
        self._forest.restore(labels, followers)

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep facts until their time is complete."""
        waiting = self._waiting.get(context.time)
        if waiting is not None:
            waiting.batches.append(batch)
            return
        if not isinstance(context.epoch, int):
            raise FlowError(
                f"operator '{context.operator}' needs epochs, which come one after the other, and this flow "
                f"has times of its own, such as {context.epoch!r}. Use a flow without 'times'."
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
        # A single worker has told nobody, so it need not wait to hear that nothing is under way.
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


def _followers(labels: Pairs, members: pa.Table, worker: int, workers: int) -> Pairs:
    """One member of each label of mine for each other worker that has any.

    Among the members are some of labels of others, where the same workers go on and each has what it saved,
    and some of labels that are none any more, for nobody says when a follower is forgotten.
    """
    pairs = _pairs_of(members)
    still = np.isin(pairs.other, labels.vertex[labels.vertex == labels.other])
    owner = saved.owners(members, ("vertex",), workers)
    away = np.flatnonzero(still & (owner != worker))
    order = away[np.lexsort((owner[away], pairs.other[away]))]
    label, owner = pairs.other[order], owner[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (label[1:] != label[:-1]) | (owner[1:] != owner[:-1])
    return Pairs(pairs.vertex[order[is_first]], label[is_first])


def _pairs_of(labels: pa.Table) -> Pairs:
    return Pairs(*(labels.column(name).to_numpy() for name in LABELS.names))


def _check_stream(edges: Stream, src: str, dst: str, diff: str | None) -> None:
    if edges.loops:
        raise FlowError(
            f"connected_components was given {edges}, which is in loop '{edges.loops[-1]}'; it goes from "
            "epoch to epoch, and in a loop there are rounds as well. Leave the loop first."
        )
    for name in (src, dst, *(() if diff is None else (diff,))):
        found = edges.schema.field(name).type if edges.schema.names.count(name) == 1 else None
        if found is None or not pa.types.is_signed_integer(found):
            what = "not among them" if found is None else f"of type {found}"
            raise SchemaError(
                f"connected_components of {edges} needs whole numbers (long) in column '{name}', which is "
                f"{what}; the columns are {', '.join(map(repr, edges.schema.names))}. Name the columns with "
                "src=, dst= and diff=, or number the vertices first."
            )
