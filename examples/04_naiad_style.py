"""An operator in Naiad's style: receive, notify at, send by.

The median of each epoch needs all of its rows. ``notify_at`` asks to be told when the epoch is complete, and
keeps the right to send at it until then.
"""

from statistics import median

import pyarrow as pa

import pointstamp as ps


class Median:
    """Gathers an epoch and sends its median when nothing more of it can come."""

    outputs = "median double"

    def __init__(self) -> None:
        self.values: dict[ps.timely.Time, list[float]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:
        """OnRecv: keep the rows and ask for the end of their epoch."""
        self.values.setdefault(context.time, []).extend(batch["value"].to_pylist())
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        """OnNotify: the epoch is complete."""
        context.send([{"median": median(self.values.pop(context.time))}])


flow = ps.Dataflow("median")
values = flow.stream_input("values", "place long, value double")
flow.output("medians", ps.operator("median", Median(), values=values.exchange("place")))


def epoch_of(*numbers: float) -> pa.Table:
    """Rows for one place, so that one worker sees all of them."""
    return pa.table({"place": [7] * len(numbers), "value": numbers})


inputs = {"values": [epoch_of(3.0, 1.0, 2.0), epoch_of(10.0, 40.0), epoch_of(5.0)]}

if __name__ == "__main__":
    print(flow.run(inputs, workers=2)["medians"].table().to_pylist())

# [{'epoch': 0, 'median': 2.0}, {'epoch': 1, 'median': 25.0}, {'epoch': 2, 'median': 5.0}]
