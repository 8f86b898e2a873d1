"""An operator in timely's style: frontiers and capabilities.

Sessions: each visit to a page opens a session, which ends three epochs later unless the visitor comes
back. The operator holds one capability per visitor, for the epoch at which the session would end, and
moves it on with each visit. When the frontier has passed it, the session is over.
"""

import pyarrow as pa

import pointstamp as ps

GAP = 3


class Sessions:
    """Sends (visitor, visits) at the epoch in which the session is known to be over."""

    outputs = "visitor string, visits long"

    def __init__(self) -> None:
        self.open: dict[str, tuple[ps.Capability, int]] = {}

    def on_receive(self, context: ps.Context, input: str, batch: pa.RecordBatch) -> None:
        """Open a session or move its end; the new capability is held before the old one goes."""
        for visitor in batch["visitor"].to_pylist():
            old, visits = self.open.get(visitor, (None, 0))
            end = max(context.epoch + GAP, old.time[0] if old else 0)
            self.open[visitor] = (context.retain(at=(end,)), visits + 1)
            if old:
                old.drop()

    def on_frontier(self, context: ps.Context) -> None:
        """Close what nobody can come back to in time."""
        frontier = context.frontier("visits")
        for visitor, (end, visits) in list(self.open.items()):
            if not frontier.less_equal(end.time):
                context.send([{"visitor": visitor, "visits": visits}], capability=end)
                end.drop()
                del self.open[visitor]


flow = ps.Dataflow("sessions")
visits = flow.input("visits", "visitor string")
flow.output("sessions", ps.operator("sessions", Sessions(), visits=visits.exchange("visitor")))

come = [["ann", "bob"], ["ann"], [], ["ann"], [], [], ["bob"], []]
inputs = {"visits": [pa.table({"visitor": pa.array(names, pa.string())}) for names in come]}

if __name__ == "__main__":
    for row in flow.run_local(inputs, workers=2)["sessions"].table().to_pylist():
        print(row)

# {'epoch': 3, 'visitor': 'bob', 'visits': 1}
# {'epoch': 6, 'visitor': 'ann', 'visits': 3}
# {'epoch': 9, 'visitor': 'bob', 'visits': 1}
