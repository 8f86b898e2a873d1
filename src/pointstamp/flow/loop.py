"""Loops: a scope in which times have one coordinate more, the round.

    with edges.loop("labels") as loop:
        inside = loop.enter(edges)
        labels = loop.variable("vertex long, label long")   # what comes round again
        better = ...                                        # made of inside and labels
        loop.feedback(labels, better)
        result = loop.leave(better)

What enters is in round 0. What is fed back comes out of the variable one round later. What leaves loses its
round: the time outside is complete when every round inside is, and a loop ends when nothing circulates.
"""

from types import TracebackType

import pyarrow as pa

from pointstamp.errors import FlowError, SchemaError
from pointstamp.flow.builder import PlanBuilder, Scope
from pointstamp.flow.key_kinds import check_all_keys_meet
from pointstamp.flow.marking import check_plan
from pointstamp.flow.pact import ToEveryWorker
from pointstamp.flow.plan import InputPort, Node, NodeKind, RoundLimit
from pointstamp.flow.stream import Stream, add_door, add_operator, scope_name, wiring
from pointstamp.flow.updates import Passes
from pointstamp.operators.stateless import Concat
from pointstamp.rows.schema import as_schema
from pointstamp.topology.ports import Source
from pointstamp.topology.summary import enter, feedback, leave


class Loop:
    """An open loop; as a context manager it checks at the end that every variable was fed."""

    def __init__(
        self, builder: PlanBuilder, name: str, outside: Scope, *, max_rounds: int | None, at_limit: str
    ) -> None:
        if at_limit not in ("error", "stop") or (max_rounds is not None and max_rounds < 1):
            raise FlowError(
                f"loop '{name}': max_rounds must be at least 1 and at_limit 'error' or 'stop'; they are "
                f"{max_rounds} and '{at_limit}'."
            )
        self._builder = builder
        self._outside = outside
        self._scope = builder.open_scope(outside, name)
        self.name = self._scope[-1]
        self._limit = None if max_rounds is None else RoundLimit(max_rounds, at_limit == "error")
        self._variables: dict[int, Node] = {}

    def enter(self, stream: Stream) -> Stream:
        """Bring a stream from outside into round 0 of the loop."""
        self._check_scope(stream, self._outside, "enter", "outside the loop")
        return add_door(NodeKind.ENTER, "enter", stream, self._scope, enter(len(self._outside)))

    def variable(self, schema: str | pa.Schema, name: str = "variable") -> Stream:
        """What comes round again; say with ``feedback`` what that is."""
        declared = as_schema(schema)
        summaries = {(0, 0): (feedback(len(self._scope)),)}
        unwired = InputPort("in", None)
        node = self._builder.add(
            NodeKind.FEEDBACK, name, self._scope, [unwired], {"out": declared}, summaries=summaries
        )
        node.limit = self._limit
        self._variables[node.index] = node
        return Stream(self._builder, Source(node.index, 0), declared, self._scope)

    def feedback(self, variable: Stream, stream: Stream) -> None:
        """Let a stream come out of the variable, one round later."""
        known = self._variables.get(wiring(variable).source.operator)
        if known is None:
            raise FlowError(
                f"loop '{self.name}': feedback needs a variable of this loop, but was given {variable}."
            )
        self._check_scope(stream, self._scope, "feedback", "inside the loop")
        feed(known, stream, f"loop '{self.name}'")

    def leave(self, stream: Stream) -> Stream:
        """Take a stream out of the loop; its round is dropped."""
        self._check_scope(stream, self._scope, "leave", "inside the loop")
        return add_door(NodeKind.LEAVE, "leave", stream, self._outside, leave(len(self._scope)))

    def _check_scope(self, stream: Stream, scope: tuple[str, ...], act: str, where: str) -> None:
        if wiring(stream).builder is not self._builder:
            raise FlowError(f"loop '{self.name}': {stream} belongs to another flow.")
        if stream.loops != scope:
            raise FlowError(
                f"loop '{self.name}': {act} takes a stream from {where}, but {stream} is in "
                f"{scope_name(stream.loops)}. Enter or leave the loops between, one by one."
            )

    def __enter__(self) -> "Loop":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        for node in self._variables.values():
            if node.inputs[0].source is None:
                raise FlowError(
                    f"loop '{self.name}': the variable '{node.name}' was never fed. Call "
                    "loop.feedback(variable, stream) inside the loop."
                )


def feed(variable: Node, stream: Stream, who: str) -> None:
    """Wire a stream to a variable, once, if their schemas are the same."""
    declared = variable.outputs[0].schema
    if variable.inputs[0].source is not None:
        raise FlowError(
            f"{who}: the variable '{variable.name}' is fed twice. Bring the streams together first, with "
            "concat."
        )
    if stream.schema != declared:
        raise SchemaError(
            f"{who}: the variable '{variable.name}' is declared as {declared.to_string()!r} and fed with "
            f"{stream.schema.to_string()!r}; both must be the same."
        )
    if isinstance(wiring(stream).pact, ToEveryWorker):
        copied = {"out": stream.schema}
        stream = add_operator("copies", Concat, {"in": stream}, copied, sends=Passes.ROWS)[0]
    at = wiring(stream)
    variable.inputs[0].source = at.source
    variable.inputs[0].pact = at.pact
    try:
        check_plan(at.builder.plan)
        check_all_keys_meet(at.builder.plan)
    except FlowError:
        variable.inputs[0] = InputPort("in", None)  # as before, so that something else can be fed
        raise
