"""A flow that is subtly wrong, and how simulation finds it.

Each bid should be answered with the highest bid for its item before it. The operator answers bids as they
arrive. That works in every test on one worker, and on several until two bids overtake each other: their
order of arrival is undefined. Deciding at the end of the epoch would be right; deciding by the order of
arrival is not.

    pointstamp simulate examples/09_simulate_finds_the_bug.py --seeds 100

tries it in a hundred worlds, finds one in which the answers differ, and shrinks it to two bids. Run as a
script, this example does the same and prints what it found.
"""

import json
import subprocess
import sys

import pyarrow as pa

import pointstamp as ps


class HighestSoFar:
    """Answers at once, and so depends on the order of arrival."""

    outputs = "item long, bid long, highest long"

    def __init__(self) -> None:
        self.highest: dict[int, int] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:
        """The mistake: rows of one epoch have no order among them."""
        answers = []
        for row in batch.to_pylist():
            answers.append({**row, "highest": self.highest.get(row["item"], 0)})
            self.highest[row["item"]] = max(row["bid"], self.highest.get(row["item"], 0))
        context.send(answers)


flow = ps.Dataflow("auction")
bids = flow.stream_input("bids", "item long, bid long")
flow.output("answers", ps.operator("highest so far", HighestSoFar(), bids=bids.exchange("item")))

inputs = {"bids": [[{"item": i % 3, "bid": 10 * i} for i in range(e, e + 4)] for e in range(1, 4)]}

if __name__ == "__main__":
    command = [sys.executable, "-m", "pointstamp.cli.main", "simulate", __file__, "--json"]
    found = subprocess.run([*command, "--workers", "2-3"], capture_output=True, text=True, check=False)
    finding = json.loads(found.stdout)["finding"]
    print(finding["kind"], "with exit code", found.returncode)
    print(finding["reason"])
    print("repeatable:", finding["is_repeatable"])

# differs with exit code 1
# output 'answers', epoch 0, differs from the one-worker run
#   missing: {'item': 0, 'bid': 30, 'highest': 0}
#   missing: {'item': 0, 'bid': 60, 'highest': 30}
#   not expected: {'item': 0, 'bid': 30, 'highest': 60}
#   not expected: {'item': 0, 'bid': 60, 'highest': 0}
# repeatable: True
