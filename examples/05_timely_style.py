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

    state = {"visits": ps.ports.saved.mapping("string", tuple[int, int])}

    def __init__(self) -> None:
        self.arrived: dict[int, tuple[ps.timely.Capability, list[str]]] = {}
        self.open: dict[str, ps.timely.Capability] = {}
        self.visits: dict[str, tuple[int, int]] = {}

    def on_restore(self, context: ps.ports.Context) -> None:
        """Give each open session one of the capabilities that were held for its end."""
        ends = {}
        for capability in context.regained():
            ends.setdefault(capability.time[0], []).append(capability)
        self.open = {visitor: ends[end].pop() for visitor, (end, _) in self.visits.items()}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:
        """Epochs overlap: what comes now may be later than what is still to come. Keep it by its epoch."""
        if context.epoch not in self.arrived:
            self.arrived[context.epoch] = (context.retain(), [])
        self.arrived[context.epoch][1].extend(batch["visitor"].to_pylist())

    def on_frontier(self, context: ps.ports.Context) -> None:
        """Handle complete epochs in order, and close sessions that no visit can extend."""
        for epoch in sorted(epoch for epoch in self.arrived if context.is_complete((epoch,))):
            now, visitors = self.arrived.pop(epoch)
            self.close(context, [v for v, end in self.open.items() if end.time[0] < epoch])
            for visitor in visitors:
                old, (_, visits) = self.open.get(visitor), self.visits.get(visitor, (0, 0))
                self.open[visitor] = now.delayed((epoch + GAP,))
                self.visits[visitor] = (epoch + GAP, visits + 1)
                if old:
                    old.drop()
            now.drop()
        self.close(context, [v for v, end in self.open.items() if context.is_complete(end.time)])

    def close(self, context: ps.ports.Context, visitors: list[str]) -> None:
        """Send these sessions with the capabilities that were kept for them, and give those up."""
        for visitor in visitors:
            end, (_, visits) = self.open.pop(visitor), self.visits.pop(visitor)
            context.send([{"visitor": visitor, "visits": visits}], capability=end)
            end.drop()


flow = ps.Dataflow("sessions")
visits = flow.stream_input("visits", "visitor string")
flow.output("sessions", ps.operator("sessions", Sessions(), visits=visits.exchange("visitor")))

come = [["ann", "bob"], ["ann"], [], ["ann"], [], [], ["bob"], []]
inputs = {"visits": [pa.table({"visitor": pa.array(names, pa.string())}) for names in come]}

if __name__ == "__main__":
    for row in flow.run(inputs, workers=2)["sessions"].table().to_pylist():
        print(row)

# {'epoch': 3, 'visitor': 'bob', 'visits': 1}
# {'epoch': 6, 'visitor': 'ann', 'visits': 3}
# {'epoch': 9, 'visitor': 'bob', 'visits': 1}
