"""Routes of batches: the receivers of an output, and how times change on the way.

Doors (enter, leave, feedback, delay) do no work, so no operator runs for them: a route leads straight from
the output of an operator to the inputs that read it, through all doors between, and moves the time as their
summaries say. It does not lead to an operator that runs inside of another one (``pointstamp.flow.plan``),
but to the one that ends the chain. A message is counted where it arrives. The sender's authority at its
output covers that, because each door's summary is part of the graph that progress is tracked on.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pointstamp.errors import LoopError, OperatorError, PointstampError
from pointstamp.flow.plan import (
    STAY,
    ExchangeBy,
    ExchangeByFunction,
    Node,
    NodeKind,
    OperatorChains,
    Pact,
    Plan,
    ShardFunction,
    StayHere,
)
from pointstamp.topology.domain import Time
from pointstamp.topology.graph import OperatorGraph
from pointstamp.topology.ports import Location, OperatorIndex, SourcePort, Target
from pointstamp.worker.lineage import LINEAGE, end_copy
from pointstamp.worker.userline import line_words, user_line

Move: TypeAlias = Callable[[Time], Time | None]
"""The effect on a time; None if the batch is dropped."""


@dataclass(frozen=True, slots=True)
class Route:
    """The way from an output to one input that reads it."""

    operator: OperatorIndex
    port: int
    location: Location
    pact: Pact
    moves: tuple[Move, ...]
    reader: Target
    """The input that reads it as the flow is written; the first of a chain, where the input ends one."""
    turn: int | None = None
    """The coordinate of the arrival with the round of the loop in which the route feeds back, if any."""

    def arrival(self, time: Time) -> Time | None:
        """The arrival time of a batch that is sent at this time; None if a loop's limit drops it."""
        for move in self.moves:
            after = move(time)
            if after is None:
                return None
            time = after
        return time


def routes_of(plan: Plan, graph: OperatorGraph) -> dict[tuple[OperatorIndex, int], tuple[Route, ...]]:
    """For each output of an operator the routes to all of its readers."""
    readers: dict[SourcePort, list[tuple[Node, int]]] = {}
    chains = plan.chains()
    for node in plan.nodes:
        for number, port in enumerate(node.inputs):
            if port.source is not None:
                readers.setdefault(port.source, []).append((node, number))
    return {
        (node.index, number): tuple(_follow(graph, readers, chains, SourcePort(node.index, number), STAY, ()))
        for node in plan.nodes
        if not node.kind.is_door and node.index not in chains.runs_at
        for number in range(len(node.outputs))
    }


def key_of(routes: Sequence[Route]) -> tuple[str, ...] | None:
    """The key by which all readers of an output exchange it first; None if there is no such key."""
    pacts = {route.pact for route in routes}
    pact = next(iter(pacts)) if len(pacts) == 1 else None
    return pact.keys if isinstance(pact, ExchangeBy) else None


def _follow(
    graph: OperatorGraph,
    readers: dict[SourcePort, list[tuple[Node, int]]],
    chains: OperatorChains,
    source: SourcePort,
    pact: Pact,
    moves: tuple[Move, ...],
    turn: int | None = None,
) -> Iterator[Route]:
    for node, number in readers.get(source, []):
        # The last pact on the way decides; copies before another pact are made by an operator of their own.
        asked = node.inputs[number].pact
        shared = pact if isinstance(asked, StayHere) else asked
        if node.kind.is_door:
            further = (*moves, _move_of(node, graph))
            turns = len(node.scope) if node.kind is NodeKind.FEEDBACK else turn
            yield from _follow(graph, readers, chains, SourcePort(node.index, 0), shared, further, turns)
        else:
            reader = Target(node.index, number)
            taker = chains.runs_at.get(node.index, reader)
            yield Route(taker.operator, taker.port, graph.location(taker), shared, moves, reader, turn)


def _move_of(node: Node, graph: OperatorGraph) -> Move:
    (summary,) = graph.operators[node.index].summaries[0, 0]
    move = summary.for_rows()
    limit = node.limit
    if node.kind is not NodeKind.FEEDBACK or limit is None:
        return move
    loop = node.scope[-1]

    def limited(time: Time) -> Time | None:
        after = move(time)
        if after is None or after[-1] < limit.rounds:
            return after
        if limit.raises:
            raise LoopError(
                f"loop '{loop}' would begin round {after[-1]} at {time}, but max_rounds is "
                f"{limit.rounds}. Raise max_rounds, find what keeps changing, or keep the present result "
                "with at_limit='stop'."
            )
        return None

    return limited


# Call a user's sharding function and check its answer.
#
# A shard is any whole number from 0 on, and its worker is ``shard % workers``, so that a function need not
# know how many workers there are, and rows of one shard meet whatever their number. A function that answers
# anything else, or raises, is an error that names the reader behind the exchange and the function's line.

_SAMPLE_ROWS: Final = 3


def workers_by(
    pact: ExchangeByFunction, rows: pa.RecordBatch, workers: int, who: str
) -> npt.NDArray[np.intp]:
    """The worker of each row by its shard; OperatorError, which begins with ``who``, for bad answers."""
    given = rows if pact.columns is None else rows.select(pact.columns.names)
    depth = LINEAGE.depth
    try:
        answer = pact.function(given)
    except PointstampError:
        raise
    except (Exception, SystemExit) as error:  # as for operators: who exits means the flow
        line = user_line(error)
        where = "" if line is None else f" ({line_words(line)})"
        raise OperatorError(
            f"{who}: the function failed: {type(error).__name__}: {error}{where}; the batch has "
            f"{given.num_rows} rows and begins {given.slice(0, _SAMPLE_ROWS).to_pylist()}"
        ) from error
    finally:
        if LINEAGE.depth != depth:
            end_copy(sys.exc_info()[1])
    shards = _numbers(answer, f"{who}: the function{_defined(pact.function)}", rows.num_rows)
    return (shards % np.uint64(workers)).astype(np.intp)


def _numbers(answer: Any, who: str, rows: int) -> npt.NDArray[np.uint64]:  # noqa: ANN401 - whatever came
    """The answer as integers from 0 on, one for each row."""
    needed = f"{who} must give the shard of each of {rows} rows, a whole number from 0 up, but gave"
    if isinstance(answer, pa.ChunkedArray):
        answer = answer.combine_chunks()
    if not isinstance(answer, pa.Array):
        try:
            answer = pa.array(answer)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise OperatorError(
                f"{needed} {type(answer).__name__}: {error}. Give an Arrow or numpy array of integers, or a "
                "list."
            ) from error
    if len(answer) != rows:
        raise OperatorError(f"{needed} {len(answer)} of them. Give one for each row, in their order.")
    if answer.null_count:
        raise OperatorError(
            f"{needed} {answer.null_count} nulls. Return a shard for rows without a key, too."
        )
    if not pa.types.is_integer(answer.type):
        raise OperatorError(f"{needed} {answer.type}. Round or cast to integers.")
    numbers = answer.to_numpy(zero_copy_only=False)
    if len(numbers) and numbers.min() < 0:
        raise OperatorError(
            f"{needed} {numbers.min()}. Take the remainder by a number of shards, or the absolute value."
        )
    shards: npt.NDArray[np.uint64] = numbers.astype(np.uint64)
    return shards


def _defined(function: ShardFunction) -> str:
    """The place at which a function was written, if known."""
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"
