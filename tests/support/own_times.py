"""Flows with times of their own: pairs of counters, of which one may run ahead, and stacks for recursion."""

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

import pointstamp as ps
from support.times import Pairs
from support.worlds import SCHEMA, Steps

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Onward:
    """A way on which both counters grow, until the first would pass a limit: no row goes further."""

    first: int
    second: int
    limit: int

    def results_in(self, time: Pair) -> Pair | None:
        after = (time[0] + self.first, time[1] + self.second)
        return after if after[0] <= self.limit else None

    def followed_by(self, other: "Onward") -> "Onward":
        return Onward(self.first + other.first, self.second + other.second, min(self.limit, other.limit))

    def less_equal(self, other: "Onward") -> bool:
        return self.first <= other.first and self.second <= other.second and self.limit >= other.limit

    def advances(self) -> bool:
        return self.first + self.second > 0


class Latest(Steps):
    """Wrong: the last row to arrive wins, and no order of arrival is promised."""

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        sums = self._sums.setdefault(context.time, {})
        for row in batch.to_pylist():
            sums[row["key"]] = row["n"] + 10
        context.notify_at()


def pairs_flow(operator: Any = Steps) -> ps.Dataflow:  # noqa: ANN401 - any class of operators
    """Two inputs that count apart, a loop, and a variable that comes round at greater pairs until it ends."""
    flow = ps.Dataflow("pairs", times=Pairs())
    left, right = flow.stream_input("left", SCHEMA), flow.stream_input("right", SCHEMA)
    again = flow.variable(SCHEMA, ps.timely.Summary(root=Onward(1, 0, limit=3)), "again")
    both = left.union(right, again)
    steps = ps.operator("steps", operator(), rows=both.exchange("key"))
    flow.feedback(again, steps)
    flow.output("steps", steps)
    with left.loop("down") as loop:
        more = loop.variable(SCHEMA)
        down = ps.operator("down", Steps(), rows=loop.enter(left).union(more).exchange("key"))
        loop.feedback(more, down)
        flow.output("down", loop.leave(down))
    return flow


def pairs_inputs() -> dict[str, Any]:
    """Each input moves its own counter; one begins late, and one has two items of one time."""
    rows = [[{"key": key, "n": 2 + at} for at, key in enumerate(keys)] for keys in ("ab", "ba", "c", "ab")]
    return {
        "left": [((0, 0), rows[0]), ((1, 0), rows[1]), ((1, 0), rows[2])],
        "right": [((0, 2), rows[3]), ((0, 5), [])],
    }


def sum_flow(deepest: int = 3) -> ps.Dataflow:
    """Recursion: sum(n) = n + sum(n - 1) + sum(n - 2), with stacks as times (Abadi & Isard 2015, 3.4)."""
    times = ps.timely.Stacks(deepest=deepest)

    class Calls:
        outputs: ClassVar = {"first": "n long", "second": "n long", "answers": "n long"}
        summaries: ClassVar = {("calls", "answers"): (times.turn(),)}

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            _, stack = context.time[0]
            for n in batch["n"].to_pylist():
                context.send([{"n": n}], output="answers", at=(("return", stack),))
                if n > 1:
                    context.send([{"n": n - 1}], output="first")
                    context.send([{"n": n - 2}], output="second")

    flow = ps.Dataflow("sums", times=times)
    first = flow.variable("n long", times.push("first"), "first")
    second = flow.variable("n long", times.push("second"), "second")
    returned = flow.variable("n long", times.pop(), "returned")
    calls = flow.stream_input("calls", "n long").union(first, second)
    to_first, to_second, answers = ps.operator("sum", Calls(), calls=calls)
    flow.feedback(first, to_first)
    flow.feedback(second, to_second)
    keyed = answers.union(returned).map(lambda row: {"call": 0, **row}, "call long, n long")
    sums = keyed.group_by("call").agg(n=ps.sum("n")).map(lambda row: {"n": row["n"]}, "n long")
    flow.feedback(returned, sums)
    flow.output("sums", sums)
    return flow


TARAI = "x long, y long, z long"
SITES = ("first", "second", "third")


class _Tarai:
    """Answers a call with y where x <= y, and makes three calls of the others."""

    outputs: ClassVar = {**dict.fromkeys(SITES, TARAI), "answers": "value long"}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        _, stack = context.time[0]
        for row in batch.to_pylist():
            x, y, z = row["x"], row["y"], row["z"]
            if x <= y:
                context.send([{"value": y}], output="answers", at=(("return", stack),))
                continue
            for site, called in zip(SITES, ((x - 1, y, z), (y - 1, z, x), (z - 1, x, y)), strict=True):
                context.send([dict(zip("xyz", called, strict=True))], output=site)


class _CallAgain:
    """Gathers what three calls return to one stack, and calls once more with the three values."""

    outputs: ClassVar = TARAI

    def __init__(self) -> None:
        self._values: dict[ps.timely.Time, dict[str, int]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self._values.setdefault(context.time, {})[input] = batch["value"][0].as_py()
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        values = self._values.pop(context.time)
        context.send([{column: values[site] for column, site in zip("xyz", SITES, strict=True)}])


def tarai_flow() -> ps.Dataflow:
    """Takeuchi's function: t(t(x - 1, y, z), t(y - 1, z, x), t(z - 1, x, y)), a call after three returns."""
    times = ps.timely.Stacks(steps=(SITES, "again"))
    flow = ps.Dataflow("tarai", times=times)
    into = {site: flow.variable(TARAI, times.push(site), site) for site in (*SITES, "again")}
    back = {site: flow.variable("value long", times.pop(site), f"ret {site}") for site in (*SITES, "again")}
    calls = flow.stream_input("calls", TARAI).union(*into.values()).exchange("y")
    *called, answers = ps.operator("tarai", _Tarai(), calls=calls)
    for site, stream in zip(SITES, called, strict=True):
        flow.feedback(into[site], stream)
    # All values of one stack meet at one worker: whose row it is, only the time says.
    keyed = {
        site: stream.map(lambda row: {"at": 0, **row}, "at long, value long").exchange("at")
        for site, stream in back.items()
    }
    first, second, third = (keyed[site] for site in SITES)
    flow.feedback(into["again"], ps.operator("again", _CallAgain(), first=first, second=second, third=third))
    ended = keyed["again"].map(lambda row: {"value": row["value"]}, "value long")
    values = answers.union(ended)
    for stream in back.values():
        flow.feedback(stream, values)
    flow.output("values", values)
    return flow


def tarai_frames(x: int, y: int, z: int) -> dict[tuple[str, ...], int]:
    """The value that each call returns, by its stack: by plain recursion, with the stack at hand."""
    frames: dict[tuple[str, ...], int] = {}

    def tarai(x: int, y: int, z: int, stack: tuple[str, ...]) -> int:
        value = y
        if x > y:
            called = ((x - 1, y, z), (y - 1, z, x), (z - 1, x, y))
            a, b, c = (tarai(*each, (*stack, site)) for each, site in zip(called, SITES, strict=True))
            value = tarai(a, b, c, (*stack, "again"))
        frames[stack] = value
        return value

    tarai(x, y, z, ())
    return frames
