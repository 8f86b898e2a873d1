"""Weakly connected components by propagating labels: the running example of Brun et al. 2021 (section 2).

a is the input, b keeps the lowest label of each vertex and sends it to all neighbours, c is the feedback
that adds (0, 1) to the time. Times are (version of the graph, round). b acts when its frontier says that
it has everything of a round. It takes as many rounds as the graph is wide; ``pointstamp.graphs`` has an
algorithm that does not.
"""

import pyarrow as pa

import pointstamp as ps

LAST = 2**62


class Labels:
    """b: one instance holds the vertices that hash to its worker, and goes through the versions in order."""

    outputs = {"to neighbours": "vertex long, label long", "changed": "vertex long, label long"}

    state = {
        "neighbours": ps.ports.saved.mapping("long", set[int]),
        "label": ps.ports.saved.mapping("long", int),
    }

    def __init__(self) -> None:
        self.neighbours: dict[int, set[int]] = {}
        self.label: dict[int, int] = {}
        self.arrived: dict[ps.timely.Time, dict[str, list[tuple[int, int]]]] = {}
        self.held: dict[ps.timely.Time, tuple[ps.timely.Capability, ps.timely.Capability]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:
        """Gather edges (s, d) at b.2 and labels (n, x) at b.1; keep the right to answer at their time."""
        if context.time not in self.arrived:
            self.arrived[context.time] = {"b1": [], "b2": []}
            self.held[context.time] = (context.retain(output=0), context.retain(output=1))
        self.arrived[context.time][input].extend(zip(*batch.to_pydict().values(), strict=True))

    def on_frontier(self, context: ps.ports.Context) -> None:
        """A round is ready when it is complete and all rounds of earlier versions are."""
        for time in sorted(self.arrived):
            if context.is_complete(time) and context.is_complete((time[0] - 1, LAST)):
                self.finish_round(context, time, **self.arrived.pop(time))

    def finish_round(self, context: ps.ports.Context, time: ps.timely.Time, b1: list, b2: list) -> None:
        """Keep what is lower, and tell the neighbours."""
        for s, d in b2:
            self.neighbours.setdefault(s, set()).add(d)
        lower: dict[int, int] = {}
        for vertex, label in [(s, s) for s, _ in b2] + b1:
            if label < self.label.get(vertex, vertex + 1):
                self.label[vertex] = lower[vertex] = label
        spread = {s for s, _ in b2} | lower.keys()
        told = [(n, self.label[v]) for v in spread for n in self.neighbours.get(v, ())]
        for capability, pairs in zip(self.held.pop(time), (told, lower.items()), strict=True):
            rows = [{"vertex": vertex, "label": label} for vertex, label in pairs]
            context.send(rows, output=capability.output, capability=capability)
            capability.drop()


flow = ps.Dataflow("weakly connected components")
a = flow.stream_input("a", "s long, d long")
with a.loop("rounds") as loop:
    c = loop.variable("vertex long, label long", "c")
    b3, changed = ps.operator("b", Labels(), b1=c.exchange("vertex"), b2=loop.enter(a).exchange("s"))
    loop.feedback(c, b3)
    flow.output("labels", loop.leave(changed))

first = pa.table({"s": [1, 2, 3, 4, 8, 9], "d": [2, 1, 4, 3, 9, 8]})
inputs = {"a": [first, pa.table({"s": [2, 3], "d": [3, 2]})]}

if __name__ == "__main__":
    labels: dict[int, int] = {}
    for version, tables in flow.stream(inputs, workers=2):
        for row in tables["labels"].to_pylist():
            labels[row["vertex"]] = min(row["label"], labels.get(row["vertex"], row["label"]))
        print(version, dict(sorted(labels.items())))

# 0 {1: 1, 2: 1, 3: 3, 4: 3, 8: 8, 9: 8}
# 1 {1: 1, 2: 1, 3: 1, 4: 1, 8: 8, 9: 8}
