"""Counting words, as the book on timely dataflow does: count as rows arrive, send when a time is complete.

docs/tutorials/completion.md steps through a recorded run of this flow, event by event.
"""

import pyarrow as pa

import pointstamp as ps


class CountWords:
    """Keeps the counts of each epoch until no more of its words can come, and then sends them."""

    outputs = "word string, number long"

    def __init__(self) -> None:
        self.counts: dict[tuple[int, ...], dict[str, int]] = {}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:
        """Count, under the time of the words; and ask to be told when that time is complete."""
        counts = self.counts.setdefault(context.time, {})
        for word in batch["word"].to_pylist():
            counts[word] = counts.get(word, 0) + 1
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        """No word of this time can come any more: its counts are final."""
        counts = self.counts.pop(context.time)
        context.send([{"word": word, "number": number} for word, number in sorted(counts.items())])


flow = ps.Dataflow("counting")
words = flow.stream_input("words", "word string")
flow.output("counts", ps.operator("count", CountWords(), words=words.exchange("word")))

said = [["to", "be"], ["or", "not", "to", "be"]]
inputs = {"words": [pa.table({"word": each}) for each in said]}

if __name__ == "__main__":
    for row in flow.run(inputs, workers=2)["counts"].table().to_pylist():
        print(row)

# {'epoch': 0, 'word': 'be', 'number': 1}
# {'epoch': 0, 'word': 'to', 'number': 1}
# {'epoch': 1, 'word': 'be', 'number': 1}
# {'epoch': 1, 'word': 'not', 'number': 1}
# {'epoch': 1, 'word': 'or', 'number': 1}
# {'epoch': 1, 'word': 'to', 'number': 1}
