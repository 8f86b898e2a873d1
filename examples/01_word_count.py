"""Word count: how often each word has been seen so far, after each epoch.

An epoch is a batch of input. ``running=True`` counts over all epochs; the output has the words whose count
changed. The count of an epoch is sent when the epoch is complete on every worker, and not a moment earlier.
"""

import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps


def words(batch: pa.RecordBatch) -> pa.RecordBatch:
    """One row per word."""
    return pa.record_batch({"word": pc.list_flatten(pc.split_pattern(batch["line"], " "))})


flow = ps.Dataflow("word count")
lines = flow.stream_input("lines", "line string")
flow.output("counts", lines.map_batches(words, "word string").group_by("word", running=True).count())

inputs = {
    "lines": [
        pa.table({"line": ["to be or not to be", "that is the question"]}),
        pa.table({"line": ["to die to sleep"]}),
    ]
}

if __name__ == "__main__":
    for epoch, tables in flow.stream(inputs, workers=2):
        counts = tables["counts"].sort_by("word")
        print(epoch, dict(zip(counts["word"].to_pylist(), counts["count"].to_pylist(), strict=True)))

# 0 {'be': 2, 'is': 1, 'not': 1, 'or': 1, 'question': 1, 'that': 1, 'the': 1, 'to': 2}
# 1 {'die': 1, 'sleep': 1, 'to': 4}
