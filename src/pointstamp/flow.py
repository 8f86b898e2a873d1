"""Flows: what a user writes once and runs in this process, in several processes, or on Spark.

import pointstamp as ps

flow = ps.Dataflow("words")
words = flow.input("words", "word string")
flow.output("counts", words.count("word", running=True))
flow.run_local(words=[first_batch, second_batch])["counts"][1]    # the counts after epoch 1
"""

from typing import Any

import pyarrow as pa

from pointstamp.dataflow.builder import PlanBuilder, wired
from pointstamp.dataflow.endpoints import Collect
from pointstamp.dataflow.plan import Kind, Plan
from pointstamp.dataflow.schema import as_schema
from pointstamp.dataflow.stream import Stream, scope_name
from pointstamp.errors import FlowError
from pointstamp.runtime.local import LocalRun, OnResult
from pointstamp.topology.domain import EPOCHS, TimeOrder
from pointstamp.topology.ports import Source


class Dataflow:
    """A flow with named inputs and outputs; writing it runs nothing.

    ``times`` is the order of the root times, epochs unless a flow brings its own.
    """

    def __init__(self, name: str, *, times: TimeOrder[Any] = EPOCHS) -> None:
        self.name = name
        self._builder = PlanBuilder(name, times)

    @property
    def plan(self) -> Plan:
        """The flow as plain data."""
        return self._builder.plan

    def input(self, name: str, schema: str | pa.Schema) -> Stream:
        """A stream that comes from outside; the schema is Spark DDL, "src long, dst long", or pyarrow's."""
        declared = as_schema(schema)
        node = self._builder.add(Kind.INPUT, name, (), [], {"out": declared})
        return Stream(self._builder, Source(node.index, 0), declared, ())

    def output(self, name: str, stream: Stream) -> None:
        """Let a stream be a result of the flow, under a name."""
        if stream.builder is not self._builder:
            raise FlowError(f"output '{name}' of flow '{self.name}' was given {stream} of another flow.")
        if stream.scope:
            raise FlowError(
                f"output '{name}' was given {stream}, which is in {scope_name(stream.scope)}. Leave the loop "
                "first."
            )
        port = wired("in", stream.source, stream.pact)
        self._builder.add(Kind.OUTPUT, name, (), [port], {}, logic=Collect)

    def open_local(self, workers: int = 1, *, on_result: OnResult | None = None) -> LocalRun:
        """Start the flow in this process, to be fed and stepped by hand."""
        return LocalRun(self.plan, workers, on_result=on_result)
