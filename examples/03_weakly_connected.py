"""Weakly connected components by propagating labels: the running example of Brun et al. 2021 (section 2).

a is the input, b keeps the lowest label of each vertex and sends it to all neighbours, c is the feedback
that adds (0, 1) to the time. Times are (version of the graph, round). b acts when its frontier says that
it has everything of a round. It takes as many rounds as the graph is wide; ``pointstamp.graphs`` has an
algorithm that does not.
"""

import pyarrow as pa

import pointstamp as ps


class Labels:
    """b: one instance holds the vertices that hash to its worker."""

    outputs = {"to neighbours": "vertex long, label long", "changed": "vertex long, label long"}

    def __init__(self) -> None:
        self.neighbours: dict[int, set[int]] = {}
        self.label: dict[int, int] = {}
        self.arrived: dict[ps.Time, list[tuple[int, int]]] = {}

    def on_receive(self, context: ps.Context, input: str, batch: pa.RecordBatch) -> None:
        """Gather a round: edges (s, d) arrive at b.2, labels (n, x) at b.1."""
        context.notify_at()
        pairs = list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
        if input == "b2":
            for s, d in pairs:
                self.neighbours.setdefault(s, set()).add(d)
            pairs = [(s, min(s, self.label.get(s, s))) for s, _ in pairs]
        self.arrived.setdefault(context.time, []).extend(pairs)

    def on_notify(self, context: ps.Context) -> None:
        """A round is complete: keep what is lower, and tell the neighbours."""
        lower: dict[int, int] = {}
        spread: set[int] = set()
        for vertex, label in self.arrived.pop(context.time):
            if label < self.label.get(vertex, vertex + 1):
                self.label[vertex] = lower[vertex] = label
            if context.time[1] == 0 or vertex in lower:
                spread.add(vertex)
        told = [{"vertex": n, "label": self.label[v]} for v in spread for n in self.neighbours.get(v, ())]
        context.send(told, output="to neighbours")
        context.send([{"vertex": v, "label": x} for v, x in lower.items()], output="changed")


flow = ps.Dataflow("weakly connected components")
a = flow.input("a", "s long, d long")
with a.loop("rounds") as loop:
    c = loop.variable("vertex long, label long", "c")
    b3, changed = ps.operator("b", Labels(), b1=c.exchange("vertex"), b2=loop.enter(a).exchange("s"))
    loop.feedback(c, b3)
    flow.output("labels", loop.leave(changed))

inputs = {
    "a": [pa.table({"s": [1, 2, 3, 4, 8, 9], "d": [2, 1, 4, 3, 9, 8]}), pa.table({"s": [2, 3], "d": [3, 2]})]
}

if __name__ == "__main__":
    labels: dict[int, int] = {}
    for version, tables in flow.stream_local(inputs, workers=2):
        for row in tables["labels"].to_pylist():
            labels[row["vertex"]] = min(row["label"], labels.get(row["vertex"], row["label"]))
        print(version, dict(sorted(labels.items())))

# 0 {1: 1, 2: 1, 3: 3, 4: 3, 8: 8, 9: 8}
# 1 {1: 1, 2: 1, 3: 1, 4: 1, 8: 8, 9: 8}
