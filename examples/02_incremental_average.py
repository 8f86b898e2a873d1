"""The incremental average with Reset: an operator with two inputs (Veresov et al. 2024, section 3.1).

Integers arrive on one input and resets on another. After each epoch the average since the last reset is sent.
A reset takes effect at the start of its epoch. Within an epoch the two inputs may arrive in any order, so the
operator only gathers until the epoch is complete, and decides then.
"""

import pyarrow as pa

import pointstamp as ps


class Average:
    """Keeps sum and count since the last reset; one row per epoch that changed it."""

    outputs = "average double"

    state = {"sum": ps.ports.saved.values(int), "count": ps.ports.saved.values(int)}

    def __init__(self) -> None:
        self.sum = self.count = 0
        self.gathered: dict[ps.timely.Time, list[int]] = {}
        self.resets: set[ps.timely.Time] = set()

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:
        """Gather, and ask to be told when the epoch is complete."""
        context.notify_at()
        if input == "resets":
            self.resets.add(context.time)
        else:
            self.gathered.setdefault(context.time, []).extend(batch["value"].to_pylist())

    def on_notify(self, context: ps.ports.Context) -> None:
        """Epochs are told in order: first the reset, then the values of the epoch."""
        if context.time in self.resets:
            self.sum = self.count = 0
        values = self.gathered.pop(context.time, [])
        self.sum += sum(values)
        self.count += len(values)
        average = self.sum / self.count if self.count else None
        context.send(pa.record_batch({"average": pa.array([average], pa.float64())}))


flow = ps.Dataflow("average")
values = flow.stream_input("ints", "place long, value long")
resets = flow.stream_input("resets", "place long")
average = ps.operator("average", Average(), ints=values.exchange("place"), resets=resets.exchange("place"))
flow.output("averages", average)


def ints(*numbers: int) -> pa.Table:
    """Rows for one place: all of them meet on one worker."""
    return pa.table({"place": [0] * len(numbers), "value": pa.array(numbers, pa.int64())})


nothing, reset = pa.table({"place": pa.array([], pa.int64())}), pa.table({"place": [0]})
inputs = {"ints": [ints(1), ints(3, 5), ints(10), ints()], "resets": [nothing, reset, nothing, reset]}

if __name__ == "__main__":
    for epoch, tables in flow.stream(inputs, workers=3):
        print(epoch, tables["averages"]["average"].to_pylist())

# 0 [1.0]
# 1 [4.0]
# 2 [6.0]
# 3 [None]
