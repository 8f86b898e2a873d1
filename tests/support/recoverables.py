"""Flows with everything that a snapshot must hold, each with inputs that make it matter.

``FLOWS`` names them; each is made again by its function. What stands behind each name is a way to lose
something: rows sent ahead, a cycle through epochs, a held capability, an awaited notification, rounds of a
loop, state by key, several inputs, decisions by frontier, outputs that are reached at different moments.
``rows_of`` draws input for any of them; ``expected`` runs one without any interruption.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

import pointstamp as ps
from pointstamp.graphs import connected_components
from pointstamp.state import saved

Rows: TypeAlias = dict[str, pa.RecordBatch]
Published: TypeAlias = dict[tuple[str, int], list[tuple[Any, ...]]]


class Windows:
    """Holds a capability for the next epoch and sends then what each key of this one had in both."""

    outputs = "k long, n long"
    state: ClassVar = {"open": saved.mapping("long", list[tuple[int, int]])}

    def __init__(self) -> None:
        self.open: dict[int, list[tuple[int, int]]] = {}
        self.held: dict[int, ps.timely.Capability] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        following = context.epoch + 1
        if following not in self.held:
            self.held[following] = context.retain(at=(following,))
        for row in batch.to_pylist():
            self.open.setdefault(row["k"], []).append((context.epoch, row["v"]))

    def on_frontier(self, context: ps.ports.Context) -> None:
        for epoch in sorted(self.held):
            if context.is_complete((epoch,)):
                begun = {k: rows for k, rows in self.open.items() if any(at == epoch - 1 for at, _ in rows)}
                sums = {k: sum(v for at, v in rows if at in (epoch - 1, epoch)) for k, rows in begun.items()}
                rows = [{"k": k, "n": n} for k, n in sorted(sums.items())]
                with context.session(self.held.pop(epoch)) as session:
                    session.send(rows)
                kept = {
                    k: [(at, v) for at, v in rows_of_k if at >= epoch] for k, rows_of_k in self.open.items()
                }
                self.open = {k: rows_of_k for k, rows_of_k in kept.items() if rows_of_k}

    def on_restore(self, context: ps.ports.Context) -> None:
        self.held = {capability.time[0]: capability for capability in context.regained()}


class Reminders:
    """Asks at each epoch to be notified two epochs later, and sends then what it was asked to remember."""

    outputs = "k long, n long"
    state: ClassVar = {"due": saved.mapping("long", list[tuple[int, int]])}

    def __init__(self) -> None:
        self.due: dict[int, list[tuple[int, int]]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        at = context.epoch + 2
        context.notify_at((at,))
        for row in batch.to_pylist():
            self.due.setdefault(row["k"], []).append((at, row["v"]))

    def on_notify(self, context: ps.ports.Context) -> None:
        now = context.epoch
        rows = [{"k": k, "n": n} for k, due in sorted(self.due.items()) for at, n in sorted(due) if at == now]
        left = {k: [(at, n) for at, n in due if at != now] for k, due in self.due.items()}
        self.due = {k: due for k, due in left.items() if due}
        if rows:
            context.send(rows)


class Join:
    """Pairs what two inputs have had for a key so far, at the epoch of the later of the two."""

    outputs = "k long, a long, b long"
    state: ClassVar = {
        "left": saved.mapping("long", list[tuple[int, int]]),
        "right": saved.mapping("long", list[tuple[int, int]]),
    }

    def __init__(self) -> None:
        self.left: dict[int, list[tuple[int, int]]] = {}
        self.right: dict[int, list[tuple[int, int]]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        mine, theirs = (self.left, self.right) if input == "a" else (self.right, self.left)
        now = context.epoch
        for row in batch.to_pylist():
            k, v = row["k"], row["v"]
            mine.setdefault(k, []).append((now, v))
            for at, other in theirs.get(k, []):
                pair = (v, other) if input == "a" else (other, v)
                context.send([{"k": k, "a": pair[0], "b": pair[1]}], at=(max(now, at),))


class Judge:
    """Decides by frontier, in timely's style: counts per key, in the order of epochs, as each is complete."""

    outputs = "k long, n long"
    state: ClassVar = {"seen": saved.mapping("long", int)}

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.came: dict[int, list[int]] = {}
        self.held: dict[int, ps.timely.Capability] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        if context.epoch not in self.held:
            self.held[context.epoch] = context.retain()
        self.came.setdefault(context.epoch, []).extend(batch.column("k").to_pylist())

    def on_frontier(self, context: ps.ports.Context) -> None:
        for epoch in sorted(self.held):
            if context.is_complete((epoch,)):
                keys = self.came.pop(epoch)
                for k in keys:
                    self.seen[k] = self.seen.get(k, 0) + 1
                with context.session(self.held.pop(epoch)) as session:
                    session.send([{"k": k, "n": self.seen[k]} for k in sorted(set(keys))])


def delayed() -> ps.Dataflow:
    flow = ps.Dataflow("delayed")
    numbers = flow.stream_input("numbers", "k long, v long")
    flow.output("counts", numbers.delay(2).group_by("k", running=True).count())
    return flow


def carried() -> ps.Dataflow:
    """Sums that go round through the epochs, half as much each time, and are nowhere else."""
    flow = ps.Dataflow("carried")
    numbers = flow.stream_input("numbers", "k long, v long")
    before = flow.variable("k long, v long", ps.timely.delay(1))
    sums = numbers.union(before).group_by("k").agg(v=ps.sum("v"))
    halves = sums.map(_half, "k long, v long").filter(
        lambda batch: [v > 0 for v in batch.column("v").to_pylist()]
    )
    flow.feedback(before, halves)
    flow.output("sums", sums)
    return flow


def _with(logic: type, name: str) -> Callable[[], ps.Dataflow]:
    def made() -> ps.Dataflow:
        flow = ps.Dataflow(name)
        numbers = flow.stream_input("numbers", "k long, v long")
        flow.output("out", ps.operator(name, logic(), numbers=numbers.exchange("k")))
        return flow

    return made


def components() -> ps.Dataflow:
    flow = ps.Dataflow("components")
    numbers = flow.stream_input("numbers", "k long, v long")
    flow.output("labels", connected_components(numbers, src="k", dst="v"))
    return flow


def joined() -> ps.Dataflow:
    flow = ps.Dataflow("joined")
    a, b = flow.stream_input("numbers", "k long, v long"), flow.stream_input("others", "k long, v long")
    flow.output("pairs", ps.operator("join", Join(), a=a.exchange("k"), b=b.exchange("k")))
    return flow


def uneven() -> ps.Dataflow:
    """One output is ready at once; the other comes out of a loop that takes many rounds."""
    flow = ps.Dataflow("uneven")
    numbers = flow.stream_input("numbers", "k long, v long")
    flow.output("fast", numbers.filter(lambda batch: [True] * batch.num_rows))
    with numbers.loop("slow") as loop:
        going = loop.variable("k long, v long", "going")
        down = loop.enter(numbers).union(going).map(_down, "k long, v long")
        more, done = down.split(lambda batch: [v > 0 for v in batch.column("v").to_pylist()])
        loop.feedback(going, more.exchange("v"))
        slow = loop.leave(done)
    flow.output("slow", slow.group_by("k", running=True).count())
    return flow


def walked() -> ps.Dataflow:
    """A running reduction in a loop: a later epoch begins where an earlier one gets to in its rounds."""
    flow = ps.Dataflow("walked")
    numbers = flow.stream_input("numbers", "k long, v long")
    with numbers.loop("walk") as loop:
        going = loop.variable("k long, v long", "going")
        least = loop.enter(numbers).union(going).group_by("k", running=True).agg(v=ps.min("v"))
        loop.feedback(going, least.flat_map(_onward, "k long, v long"))
        flow.output("least", loop.leave(least))
    return flow


def _onward(row: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return [{"k": row["k"] + 1, "v": row["v"] + 1}] if row["k"] < 10 else []


def _down(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"k": row["k"], "v": row["v"] - 1}


def _half(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"k": row["k"], "v": row["v"] // 2}


def running() -> ps.Dataflow:
    flow = ps.Dataflow("running")
    flow.output("counts", flow.stream_input("numbers", "k long, v long").group_by("k", running=True).count())
    return flow


FLOWS: Mapping[str, Callable[[], ps.Dataflow]] = {
    "running": running,
    "delayed": delayed,
    "carried": carried,
    "windows": _with(Windows, "windows"),
    "reminders": _with(Reminders, "reminders"),
    "judge": _with(Judge, "judge"),
    "components": components,
    "joined": joined,
    "uneven": uneven,
    "walked": walked,
}


def numbers(pairs: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    """Rows of the inputs that all of these flows have."""
    return pa.record_batch(
        {"k": pa.array([k for k, _ in pairs], pa.int64()), "v": pa.array([v for _, v in pairs], pa.int64())}
    )


def rows_of(flow: ps.Dataflow, epochs: int, seed: int) -> list[Rows]:
    """A few rows for each input and epoch, some epochs without any."""
    choose = random.Random(seed)
    names = [node.name for node in flow.plan.nodes if node.kind.value == "input"]
    return [
        {
            name: numbers(
                [(choose.randrange(8), choose.randrange(1, 9)) for _ in range(choose.choice((0, 1, 2, 5)))]
            )
            for name in names
        }
        for _ in range(epochs)
    ]


def expected(flow: ps.Dataflow, data: Sequence[Rows], *, to_the_end: bool = False) -> Published:
    """What comes out by epoch when nothing goes wrong, of the epochs that have input, or of all."""
    inputs = {name: [each[name] for each in data] for name in data[0]}
    results = flow.run(inputs)
    return by_epoch(
        (name, epoch, table)
        for name in flow.plan.output_schemas()
        for epoch, table in results[name].items()
        if to_the_end or epoch < len(data)
    )


def by_epoch(tables: Iterable[tuple[str, int, Any]]) -> Published:
    """Sorted rows by output and epoch, without what is empty."""
    found: defaultdict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for name, epoch, table in tables:
        found[name, epoch].extend(tuple(row.values()) for row in table.to_pylist())
    return {place: sorted(rows) for place, rows in found.items() if rows}
