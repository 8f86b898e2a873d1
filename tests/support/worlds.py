"""Flows for simulated worlds, small and with everything in them that progress tracking has to get right.

None of them depends on the order in which rows arrive, so every world must emit the same.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

import pointstamp as ps
from pointstamp.flow.plan import Plan
from pointstamp.simulate.case import prepared
from pointstamp.simulate.seeds import Simulator

SCHEMA = "key string, n long"
Rows = list[dict[str, Any]]


class Steps:
    """Naiad's style: gathers what arrives at a time, and when it is complete sends each sum, less one."""

    outputs = SCHEMA

    def __init__(self) -> None:
        self._sums: dict[Any, dict[str, int]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        sums = self._sums.setdefault(context.time, {})
        for row in batch.to_pylist():
            sums[row["key"]] = sums.get(row["key"], 0) + row["n"]
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        sums = self._sums.pop(context.time)
        rows = [{"key": key[1:] + key[:1], "n": n - 1} for key, n in sorted(sums.items()) if n > 1]
        if rows:
            context.send(pa.RecordBatch.from_pylist(rows, schema=context.schema()))


class Holds:
    """Timely's style: keeps a capability for each time, and sends what it has when that is complete."""

    outputs = SCHEMA

    def __init__(self) -> None:
        self._held: dict[Any, tuple[ps.timely.Capability, dict[str, int]]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        if context.time not in self._held:
            self._held[context.time] = (context.retain(), {})
        sums = self._held[context.time][1]
        for row in batch.to_pylist():
            sums[row["key"]] = sums.get(row["key"], 0) + row["n"]

    def on_frontier(self, context: ps.ports.Context) -> None:
        for time in sorted(self._held):
            if context.is_complete(time):
                capability, sums = self._held.pop(time)
                rows = [{"key": key, "n": n} for key, n in sorted(sums.items())]
                batch = pa.RecordBatch.from_pylist(rows, schema=context.schema())
                context.send(batch, capability=capability)
                capability.drop()


class Watches:
    """Sends what has come when its time is complete, which it sees by looking at frontiers alone."""

    outputs = SCHEMA

    def __init__(self) -> None:
        self._held: dict[Any, tuple[ps.timely.Capability, list[pa.RecordBatch]]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        if context.time not in self._held:
            self._held[context.time] = (context.retain(), [])
        self._held[context.time][1].append(batch)

    def on_frontier(self, context: ps.ports.Context) -> None:
        for time in [time for time in sorted(self._held) if context.is_complete(time)]:
            capability, batches = self._held.pop(time)
            with context.session(capability) as session:
                for batch in batches:
                    session.send(batch)


class Waits:
    """Sends what has come when it is notified that its time is complete."""

    outputs = SCHEMA

    def __init__(self) -> None:
        self._rows: dict[Any, list[pa.RecordBatch]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self._rows.setdefault(context.time, []).append(batch)
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        for batch in self._rows.pop(context.time):
            context.send(batch)


def busy_flow() -> ps.Dataflow:
    """Two inputs, a loop with notifications in every round, capabilities held, an epoch's delay."""
    flow = ps.Dataflow("busy")
    rows, more = flow.stream_input("rows", SCHEMA), flow.stream_input("more", SCHEMA)
    flow.output("sums", ps.operator("sums", Steps(), rows=rows.exchange("key")))
    with rows.loop("down") as loop:
        again = loop.variable(SCHEMA)
        steps = ps.operator("steps", Steps(), rows=loop.enter(rows).union(again).exchange("key"))
        loop.feedback(again, steps)
        flow.output("down", loop.leave(steps))
    delayed = more.delay(1)
    held = ps.operator("holds", Holds(), rows=rows.exchange("key"), more=delayed.exchange("key"))
    flow.output("held", held)
    return flow


def nested_flow() -> ps.Dataflow:
    """A loop in a loop: what goes round the outer one begins the inner one again."""
    flow = ps.Dataflow("nested")
    rows = flow.stream_input("rows", SCHEMA)
    with rows.loop("outer") as outer:
        back = outer.variable(SCHEMA)
        with back.loop("inner") as inner:
            again = inner.variable(SCHEMA)
            entered = inner.enter(outer.enter(rows).union(back))
            steps = ps.operator("steps", Steps(), rows=entered.union(again).exchange("key"))
            inner.feedback(again, steps)
            left = inner.leave(steps)
        rest = left.filter(lambda batch: [n == 2 for n in batch.column("n").to_pylist()])
        outer.feedback(back, ps.operator("rest", Steps(), rows=rest.exchange("key")))
        flow.output("out", outer.leave(rest))
    return flow


def walking_flow() -> ps.Dataflow:
    """A running reduction that is fed back: later epochs begin where an earlier one gets to in its rounds."""
    flow = ps.Dataflow("walking")
    rows = flow.stream_input("rows", SCHEMA).flat_map(_begin, SCHEMA)
    with rows.loop("walk") as loop:
        again = loop.variable(SCHEMA)
        least = loop.enter(rows).union(again).group_by("key", running=True).agg(n=ps.min("n")).named("least")
        loop.feedback(again, least.flat_map(_onward, SCHEMA))
        flow.output("least", loop.leave(least))
    return flow


def _begin(row: Mapping[str, Any]) -> Rows:
    """Of ``some_rows`` one of each epoch: the first epoch begins at place 0, the others before and after."""
    return [{"key": str((3 - row["n"]) % 4 * 4), "n": 0}] if row["key"] == "cd" else []


def _onward(row: Mapping[str, Any]) -> Rows:
    """The next place, one step further away, until the last."""
    return [{"key": str(int(row["key"]) + 1), "n": row["n"] + 1}] if row["key"] != "15" else []


def walks_in_walks_flow() -> ps.Dataflow:
    """Three running reductions, in a loop in a loop and behind it; each waits for what passes the others."""
    flow = ps.Dataflow("walks in walks")
    rows = flow.stream_input("rows", SCHEMA).flat_map(_begin, SCHEMA)
    with rows.loop("outer") as outer:
        back = outer.variable(SCHEMA)
        reached = (
            outer.enter(rows).union(back).group_by("key", running=True).agg(n=ps.min("n")).named("reached")
        )
        with reached.loop("inner") as inner:
            again = inner.variable(SCHEMA)
            least = (
                inner.enter(reached)
                .union(again)
                .group_by("key", running=True)
                .agg(n=ps.min("n"))
                .named("least")
            )
            inner.feedback(again, least.filter(_is_on_the_way).flat_map(_onward, SCHEMA))
            left = inner.leave(least)
        outer.feedback(back, left.split(_is_on_the_way)[1].flat_map(_onward, SCHEMA))
        out = outer.leave(left)
    flow.output("out", out.group_by("key", running=True).agg(n=ps.min("n")).named("behind"))
    return flow


def _is_on_the_way(batch: pa.RecordBatch) -> list[bool]:
    return [int(key) % 4 != 3 for key in batch.column("key").to_pylist()]


class Seen:
    """Counts each key over all epochs, and says it at the end of an epoch that has the key."""

    outputs = "k long, n long"
    state: ClassVar = {
        "seen": ps.ports.saved.mapping("long", int),
        "open": ps.ports.saved.mapping("long", list[int]),
    }

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        for k in batch["k"].to_pylist():
            self.open.setdefault(k, []).append(context.epoch)
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        rows = []
        for k, epochs in sorted(self.open.items()):
            if now := epochs.count(context.epoch):
                self.seen[k] = self.seen.get(k, 0) + now
                self.open[k] = [epoch for epoch in epochs if epoch != context.epoch]
                rows.append({"k": k, "n": self.seen[k]})
        context.send(rows)


class Tally:
    """Keeps a number for each key over all times, and tells of a time by what it was then."""

    outputs = SCHEMA
    state: ClassVar = {"seen": ps.ports.saved.mapping("string", int)}

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self._open: dict[Any, list[str]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self._open.setdefault(context.time, []).extend(batch.column("key").to_pylist())
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        rows = []
        for key in sorted(self._open.pop(context.time)):
            self.seen[key] = self.seen.get(key, 0) + 1
            rows.append({"key": key, "n": 100 * self.seen[key] + len(context.time)})
        context.send(rows)


def tallies_flow() -> ps.Dataflow:
    """Loops in a loop, with an operator of the user's that keeps state by key in the inner one."""
    flow = ps.Dataflow("tallies")
    rows = flow.stream_input("rows", SCHEMA)
    with rows.loop("outer") as outer:
        back = outer.variable(SCHEMA)
        with back.loop("inner") as inner:
            again = inner.variable(SCHEMA)
            here = inner.enter(outer.enter(rows).union(back)).union(again)
            tallies = ps.operator("tallies", Tally(), rows=here.exchange("key"))
            inner.feedback(again, here.flat_map(_less, SCHEMA))
            left = inner.leave(here)
            out = inner.leave(tallies)
        outer.feedback(back, left.flat_map(_half, SCHEMA))
        flow.output("tallies", outer.leave(out))
    return flow


def _less(row: Mapping[str, Any]) -> Rows:
    return [{"key": row["key"], "n": row["n"] - 2}] if row["n"] > 2 else []


def _half(row: Mapping[str, Any]) -> Rows:
    return [{"key": row["key"], "n": row["n"] // 2}] if row["n"] == 2 else []


def doors_flow() -> ps.Dataflow:
    """Exchanges that are asked for before the doors of a loop, and made behind them."""
    flow = ps.Dataflow("doors")
    rows = flow.stream_input("rows", SCHEMA)
    with rows.loop("down") as loop:
        again = loop.variable(SCHEMA)
        steps = ps.operator("steps", Steps(), rows=loop.enter(rows.exchange("key")), again=again)
        # One key for all, so that what stood at several workers must meet at one.
        one = steps.map(lambda row: {**row, "key": "one"}, SCHEMA)
        loop.feedback(again, one.exchange("key"))
        flow.output("down", loop.leave(steps))
    return flow


def some_rows(epochs: int = 4) -> list[Rows]:
    """A few rows in each epoch, with keys that move between workers."""
    return [
        [
            {"key": key, "n": 1 + (position + epoch) % 4}
            for position, key in enumerate(("ab", "ba", "cd", "ab"))
        ]
        for epoch in range(epochs)
    ]


def inputs_of(plan: Plan, epochs: int = 4) -> dict[str, Any]:
    """The same rows for every input of a flow."""
    return {node.name: some_rows(epochs) for node in plan.nodes if node.kind.value == "input"}


def simulator_of(flow: ps.Dataflow, epochs: int = 4) -> Simulator:
    """A flow with its rows, ready for any world."""
    return Simulator(flow.plan, prepared(flow.plan, inputs_of(flow.plan, epochs)))
