"""The plan of a flow: plain data that says everything about it except the rows.

A plan is a list of nodes. A node has named inputs, each reading one output of another node by a pact, and
named outputs with a schema; it stands in a scope, the path of loops around it; and it has a kind:

- an *operator* does work: a copy of its logic runs on every worker;
- a *door* only changes times (enter, leave, feedback, delay): nothing runs, batches pass through it on their
  way, and the graph of progress tracking has its summary.

From a plan comes the graph of ports that progress tracking works on, with the same numbers of operators.
The ports of a chain of operators that run as one are one place there.

An operator can run inside of another one's activation if it acts when a batch comes and at no other time,
sends at the time of that batch and on its only output, and holds nothing afterwards. Its class says so
(``RunsInChain``). If one operator alone reads what it sends, without an exchange or a door between,
nothing could happen between the two. So no message is counted there: the operators before an input of
another one are a chain, a batch that arrives goes through all of them, and the operator that ends the chain
gets what is left. For progress there is one port, the input of the first of them.

Nothing else of such an operator is lost: it stays in the plan, has its own number, name, rows and errors, and
the frontier of one of its ports is that of the chain's port, which is the same.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from types import FunctionType
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

from pointstamp.arrow.epoch_column import EventEpochs, LatePolicy
from pointstamp.arrow.schema import ExtraColumns
from pointstamp.errors import FlowError
from pointstamp.expressions.compiler import Compiled
from pointstamp.expressions.zones import UTC
from pointstamp.flow.updates import Passes, Reduces, Replaces
from pointstamp.operators.interface import (
    DeclaresState,
    IsNotified,
    IsRestored,
    Restores,
    RunsInChain,
    Saves,
    Starts,
    WatchesFrontiers,
)
from pointstamp.operators.spec import OperatorSpec, Prototype, spec_of
from pointstamp.progress.choosing import BroadcastKind
from pointstamp.state.memory_budget import MemoryLimit
from pointstamp.topology.domain import EPOCHS, Domain, TimeOrder
from pointstamp.topology.graph import GraphBuilder, OperatorGraph
from pointstamp.topology.ports import OperatorIndex, Port, SourcePort, Target
from pointstamp.topology.summary import Summary


class NodeKind(Enum):
    """The kind of a node, for running and for drawing it."""

    INPUT = "input"
    OUTPUT = "output"
    OPERATOR = "operator"
    ENTER = "enter"
    LEAVE = "leave"
    FEEDBACK = "feedback"
    DELAY = "delay"

    @property
    def is_door(self) -> bool:
        """Whether the node only changes times."""
        return self in _DOORS


_DOORS = {NodeKind.ENTER, NodeKind.LEAVE, NodeKind.FEEDBACK, NodeKind.DELAY}


# Pacts: how the batches of a stream are shared among the workers of a consumer.
#
# *Exchange* moves data, *broadcast* here copies it; the broadcast of progress is another thing
# (``pointstamp.progress.broadcast``).

ShardFunction: TypeAlias = Callable[[pa.RecordBatch], Any]
"""Gives the shard of each row of a batch: integers from 0 on, as an Arrow or numpy array or a list."""


@dataclass(frozen=True, slots=True)
class StayHere:
    """A batch stays on the worker that made it."""

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class ExchangeBy:
    """Each row goes to the worker that owns its key, by a hash that is the same in every process."""

    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"by {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True, eq=False)
class ExchangeByFunction:
    """Each row goes to the worker of its shard, ``shard % workers``, and a function of rows says the shard.

    This is the shard function that a port may have in Brun et al. (2021, section 2). It must give a row the
    same shard in every batch and in every process.
    """

    function: ShardFunction
    columns: pa.Schema | None = None
    """The columns that the function reads, so that a shard can be recomputed; None for complete rows."""

    def __str__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        named = "a function" if name == "<lambda>" else name
        return f"by {named}" + ("" if self.columns is None else f" of {', '.join(self.columns.names)}")

    def deals_as(self, other: "ExchangeByFunction") -> bool:
        """Return whether both bring rows with the same values to the same worker."""
        mine, theirs = self.columns, other.columns
        if mine is None or theirs is None:
            return self.function is other.function and mine is theirs
        return self.function is other.function and mine.types == theirs.types


@dataclass(frozen=True, slots=True)
class ToEveryWorker:
    """Every worker gets every batch."""

    def __str__(self) -> str:
        return "to every worker"


Pact: TypeAlias = StayHere | ExchangeBy | ExchangeByFunction | ToEveryWorker

STAY: Final = StayHere()
EVERYWHERE: Final = ToEveryWorker()


@dataclass(slots=True)
class InputPort:
    """A named input: which output it reads, and how batches are shared; a feedback is wired last."""

    name: str
    source: SourcePort | None
    pact: Pact = STAY


@dataclass(slots=True)
class OutputPort:
    """A named output and the schema of its batches."""

    name: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class RoundLimit:
    """The maximum number of rounds of a loop, and whether exceeding it is an error."""

    rounds: int
    raises: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A step that a user wrote, which nodes are parts of; only for drawing a flow."""

    number: int
    name: str
    words: str
    """The operator with its parameters, as ``explain`` has it."""
    origin: str = ""
    """The file and line, or the text of the SQL."""


@dataclass(slots=True)
class Node:
    """One operator or door of a plan; changed only while the flow is being written."""

    index: OperatorIndex
    name: str
    kind: NodeKind
    scope: tuple[str, ...]
    inputs: list[InputPort] = field(default_factory=list)
    outputs: list[OutputPort] = field(default_factory=list)
    input_rounds: int = 0
    output_rounds: int = 0
    summaries: Mapping[tuple[int, int], Sequence[Summary]] | None = None
    logic: OperatorSpec | Prototype | None = None
    limit: RoundLimit | None = None
    in_order: bool = False
    """Whether it is notified of one time after the other, none before all earlier ones are over."""
    sends: Passes | Reduces | Replaces | None = None
    """The relation of its output to its input, if known: see ``pointstamp.flow.updates``."""
    delay_epochs: int = 0
    """The epochs of a delay as declared. The verifier uses this, not the summaries."""
    declared: Mapping[tuple[str, str], Sequence[Summary]] | None = None
    """The declared time changes, by names of input and output; the verifier uses this, too."""
    late: LatePolicy = "error"
    """The treatment of late rows of an input."""
    event_epochs: EventEpochs | None = None
    """The event time of an input whose epochs are event time."""
    extra_columns: ExtraColumns = "warn"
    """The treatment of undeclared columns of an input."""
    idle_seconds: float | None = None
    """The idle time of an input in a query, after which event time advances without it; None: never."""
    time_zone: str | None = None
    """The time zone that its expressions are evaluated in, if they depend on one and it is known."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings of the Spark session in which the view of an output was defined, by name."""
    identity: str = ""
    """The identity of its saved state, if that is not its name: see ``plan/signatures.py``."""
    step: Step | None = None
    """The step that it is a part of, if known."""
    notes: tuple[str, ...] = ()
    """The parts of an output's view that are ignored, or that Spark leaves undefined."""


_NEVER: Final = (Starts, IsNotified, WatchesFrontiers, IsRestored, Saves, Restores, DeclaresState)
"""The protocols of operators that do more than forward rows."""


@dataclass(frozen=True, slots=True)
class OperatorChains:
    """The chains of a plan."""

    before: Mapping[Target, tuple[OperatorIndex, ...]]
    """By the input of the operator that ends a chain: those that run before it, in order."""
    runs_at: Mapping[OperatorIndex, Target]
    """The input of each operator that runs inside another operator."""
    inner: frozenset[Target]
    """The inputs at which no message arrives, because what is read there is sent inside of a chain."""

    def merged(self) -> dict[Port, Port]:
        """The representative of each port that is not in the graph of progress."""
        found: dict[Port, Port] = {}
        for end, chain in self.before.items():
            first = Target(chain[0], 0)
            found[end] = first
            for index in chain:
                found[SourcePort(index, 0)] = first
                found[Target(index, 0)] = first
            del found[first]
        return found


NO_CHAINS: Final = OperatorChains({}, {}, frozenset())


@dataclass(slots=True)
class Plan:
    """A complete flow as data."""

    name: str
    root: TimeOrder[Any] = EPOCHS
    nodes: list[Node] = field(default_factory=list)
    broadcast: BroadcastKind | None = None
    """The broadcast of progress between its workers; None: chosen by the number of workers."""
    memory: MemoryLimit | None = None
    """The memory limit for the state of each worker, beyond which it spills; None: no limit."""
    has_chains: bool = True
    """Whether operators run as one where they can; without, every one is woken by itself."""
    time_zone: str | None = None
    """The time zone in which expressions are evaluated; None: the Spark session's, and UTC elsewhere."""

    def chains(self) -> OperatorChains:
        """The operators that run inside other operators."""
        return chains_of(self.nodes) if self.has_chains else NO_CHAINS

    def graph(self) -> OperatorGraph:
        """The graph of ports; node i of the plan is operator i of the graph."""
        builder = GraphBuilder()
        for node in self.nodes:
            builder.add(
                node.name,
                inputs=[Domain(self.root, node.input_rounds)] * len(node.inputs),
                outputs=[Domain(self.root, node.output_rounds)] * len(node.outputs),
                summaries=node.summaries,
            )
        for node in self.nodes:
            for number, port in enumerate(node.inputs):
                if port.source is not None:
                    builder.connect(port.source, Target(node.index, number))
        return builder.build(self.chains().merged())

    def named(self, kind: NodeKind) -> dict[str, Node]:
        """The nodes of one kind by name, in the order in which they were written."""
        return {node.name: node for node in self.nodes if node.kind is kind}

    def check_outputs(self) -> None:
        """Reject a flow without outputs, whose results would not be visible."""
        if not self.named(NodeKind.OUTPUT):
            raise FlowError(
                f"flow '{self.name}' has no output. Add one before it runs: flow.output('result', stream)."
            )

    def output_schemas(self) -> dict[str, pa.Schema]:
        """The schema of each output of the flow, by name."""
        schemas = {}
        for name, node in self.named(NodeKind.OUTPUT).items():
            source = node.inputs[0].source
            assert source is not None, f"output '{name}' reads nothing"
            schemas[name] = self.nodes[source.operator].outputs[source.port].schema
        return schemas


def chains_of(nodes: Sequence[Node]) -> OperatorChains:
    """The longest chains of these nodes, of which each is at its number."""
    readers: dict[SourcePort, list[Target]] = {}
    for node in nodes:
        for number, port in enumerate(node.inputs):
            if port.source is not None:
                readers.setdefault(port.source, []).append(Target(node.index, number))
    inside = {node.index for node in nodes if _may_run_inside(nodes, node, readers)}
    before: dict[Target, tuple[OperatorIndex, ...]] = {}
    for node in nodes:
        if node.index in inside:
            continue
        for number, port in enumerate(node.inputs):
            chain: list[OperatorIndex] = []
            source = port.source
            while source is not None and source.operator in inside:
                chain.append(source.operator)
                source = nodes[source.operator].inputs[0].source
            if chain:
                before[Target(node.index, number)] = tuple(reversed(chain))
    runs_at = {index: at for at, chain in before.items() for index in chain}
    later = [Target(index, 0) for chain in before.values() for index in chain[1:]]
    return OperatorChains(before, runs_at, frozenset([*before, *later]))


def _may_run_inside(nodes: Sequence[Node], node: Node, readers: Mapping[SourcePort, list[Target]]) -> bool:
    kind = spec_of(node.logic).kind
    if not (isinstance(kind, type) and issubclass(kind, RunsInChain)) or isinstance(kind, _NEVER):
        return False
    if len(node.inputs) != 1 or len(node.outputs) != 1 or node.summaries is not None:
        return False
    read_by = readers.get(SourcePort(node.index, 0), [])
    if len(read_by) != 1 or node.inputs[0].source is None:
        return False
    reader = nodes[read_by[0].operator]
    return not reader.kind.is_door and isinstance(reader.inputs[read_by[0].port].pact, StayHere)


# The kinds of joins, which streams and tables have alike.

How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
"""The kind of a join: the unmatched rows that it returns; semi and anti return left rows only."""


# Probes: places in a flow where a person or a program can ask how far it has come.


@dataclass(frozen=True, slots=True)
class Probe:
    """A place in a flow; a running flow reports whether a time is complete there (``run.is_done``)."""

    _source: SourcePort


def probed(probe: Probe) -> SourcePort:
    """The output that a probe names; for those who run plans, and not for users."""
    return probe._source  # noqa: SLF001 - this function is the one way to it


# The time zone of a plan: which operators depend on it, and the plan with its zone.
#
# A flow may be written before its zone is known: on Spark it is that of the session. ``with_time_zone`` gives
# a copy of the plan that has a zone. Each operator whose expressions depend on it names it as its own
# parameter, so that a checkpoint knows it: a query that resumes in another zone is rejected.


def with_time_zone(plan: Plan, default: str = UTC) -> Plan:
    """Return the plan in its own time zone, or in another one if it has none."""
    zone = plan.time_zone or default
    nodes = [replace(node, time_zone=zone) if uses_time_zone(node) else node for node in plan.nodes]
    return replace(plan, time_zone=zone, nodes=nodes)


def uses_time_zone(node: Node) -> bool:
    """Return whether an expression of an operator depends on the time zone."""
    seen: set[int] = set()
    waiting: list[Any] = [node.logic]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Compiled):
            if value.uses_zone:
                return True
            continue
        waiting.extend(_parts(value))
    return False


def _parts(value: Any) -> Iterator[Any]:  # noqa: ANN401 - any parameter of an operator
    """The parts of a parameter, including the variables that a function has captured."""
    if isinstance(
        value, str | bytes | int | float | pa.DataType | pa.Schema | pa.Array | pa.RecordBatch | pa.Table
    ):
        return
    if isinstance(value, Mapping):
        yield from value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from value
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            try:
                yield cell.cell_contents
            except ValueError:  # a variable that is not set yet
                continue
    elif is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, each.name) for each in fields(value))
    elif not isinstance(value, type) and hasattr(value, "__dict__"):
        yield from vars(value).values()
