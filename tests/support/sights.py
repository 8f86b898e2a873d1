"""Things to show on a dashboard: flows with a loop, graphs of any size, and a driver of its own process.

As a program, ``python sights.py FOLDER``, it is a driver with a query in two processes, which prints the
address of its dashboard and works until it is killed.
"""

import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import pointstamp as ps


def halving() -> ps.Dataflow:
    """A flow with a loop: numbers are halved until they are 0, and counted by their rounds."""
    flow = ps.Dataflow("halving")
    numbers = flow.stream_input("numbers", "start long, x long, rounds long")
    with numbers.loop("until 0") as loop:
        again = loop.variable("start long, x long, rounds long")
        done, going = loop.enter(numbers).union(again).exchange("start").split(pc.field("x") == 0)
        loop.feedback(again, going.map_batches(halved).named("halve"))
        left = loop.leave(done)
    flow.output("lengths", left.group_by("rounds", running=True).count())
    flow.output(
        "starts", left.to_table().group_by("rounds").agg(starts=ps.count_distinct("start")).named("distinct")
    )
    return flow


def halved(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Half of each number, one round later."""
    x, rounds = pc.divide(batch.column("x"), 2), pc.add(batch.column("rounds"), 1)
    return pa.record_batch([batch.column("start"), x, rounds], schema=batch.schema)


def halving_query(folder: Path, workers: int = 1, processes: int | None = None) -> ps.Query:
    """That flow at work on the files that arrive in the folder, with its checkpoint and output there."""
    return halving().start(
        numbers=ps.io.files(str(folder / "in")),
        checkpoint=folder / "checkpoint",
        output=folder / "out",
        workers=workers,
        processes=processes,
    )


def numbers(epoch: int, count: int = 20) -> pa.Table:
    """The numbers of an epoch."""
    starts = list(range(epoch * count + 1, (epoch + 1) * count + 1))
    return pa.table({"start": starts, "x": starts, "rounds": [0] * count})


def write(folder: Path, epoch: int) -> None:
    """Let the file of an epoch arrive, whole."""
    folder.mkdir(exist_ok=True)
    pq.write_table(numbers(epoch), folder / f".{epoch}")
    (folder / f".{epoch}").rename(folder / f"{epoch:06}.parquet")


KEEPS_FOR_EVER = """
import pointstamp as ps


class Keeps:
    outputs = "n long"

    def __init__(self):
        self.kept = []

    def on_receive(self, context, input, batch):
        self.kept.append(context.retain())


flow = ps.Dataflow("keeping")
flow.output("out", ps.operator("keeps", Keeps(), rows=flow.stream_input("rows", "n long")))
inputs = {"rows": [[{"n": 1}, {"n": 2}]]}
"""
"""A file with a flow that holds a capability for ever."""


class Still:
    """A sight with a graph of its own, in which nothing happens."""

    def __init__(
        self, graph: dict[str, Any], title: str = "still", moment: dict[str, Any] | None = None
    ) -> None:
        self._graph = graph
        self._title = title
        self._moment = moment or {}
        self.moments = 0
        self.done: list[tuple[str, str]] = []

    @property
    def is_over(self) -> bool:
        return False

    def about(self) -> dict[str, Any]:
        return {
            "kind": "query",
            "title": "still",
            "id": "",
            "workers": 1,
            "checkpoint": "",
            "control": True,
            "graph": self._graph,
        }

    def moment(self) -> dict[str, Any]:
        self.moments += 1
        return {
            "at": 1.0e9 + self.moments,
            "active": True,
            "phase": "working",
            "error": None,
            "generation": 1,
            "restarts": 0,
            "published": 3,
            "opened": 4,
            "calls": [],
            "news": self.history(0.0),
            **self._moment,
        }

    def history(self, since: float) -> dict[str, Any]:
        return {"ticks": [], "hour": [], "snapshots": [], "restarts": []}

    def why(self, output: str) -> dict[str, Any]:
        return {"output": output, "held": [], "words": []}

    def metrics(self) -> str:
        return ""

    def act(self, what: str, given: str) -> str:
        self.done.append((what, given))
        return f"did {what}"


def chain(length: int, *, loops: int = 4, name: str = "operator") -> dict[str, Any]:
    """A graph with an input, so many operators of which some stand in loops, and two outputs."""
    nodes = [_node(0, "rows", "input")]
    edges = []
    for number in range(1, length + 1):
        part = (number - 1) * (2 * loops + 1) // length
        scope = [] if part % 2 == 0 else [f"loop {part}"]
        if part == 1 and number % 3 == 0:
            scope = [*scope, "inner"]
        nodes.append(_node(number, f"{name} {number}", "operator", scope))
        edges.append(_edge(number - 1, number, "by x" if number % 5 == 0 else ""))
        if number % 4 == 0:
            edges.append(_edge(number - 4, number))
    for end, reads in ((length + 1, length), (length + 2, length // 2)):
        nodes.append(_node(end, f"out {end}", "output"))
        edges.append(_edge(reads, end))
    known = {tuple(node["scope"][:depth]) for node in nodes for depth in range(1, len(node["scope"]) + 1)}
    for path in sorted(known):
        inside = [node["id"] for node in nodes if tuple(node["scope"]) == path]
        if len(inside) > 1:
            edges.append(_edge(inside[-1], inside[0], again=True))
    return {"nodes": nodes, "edges": edges, "loops": [list(each) for each in sorted(known)]}


def _node(number: int, name: str, kind: str, scope: list[str] | None = None) -> dict[str, Any]:
    return {"id": number, "name": name, "kind": kind, "scope": scope or [], "columns": "x long"}


def _edge(start: int, end: int, pact: str = "", *, again: bool = False) -> dict[str, Any]:
    return {"from": start, "to": end, "pact": pact, "again": again, "doors": []}


def main(folder: Path) -> None:
    """Be a driver with a dashboard, until somebody kills it."""
    query = halving_query(folder, processes=2)
    with query.dashboard() as dashboard:
        sys.stdout.write(f"{dashboard.address}\n")
        sys.stdout.flush()
        while query.is_active:
            time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
