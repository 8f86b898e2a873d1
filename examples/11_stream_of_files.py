"""A query that keeps running: it follows a folder as files arrive, and a worker's crash leaves no trace.

Each file is an epoch. An epoch is published when it is complete and saved, completely and once. The query
continues from its last snapshot when a worker dies, and when the program itself is started again. It is the
same on Spark, with ``flow.start(..., on=spark)``.
"""

import os
import signal
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import pointstamp as ps

flow = ps.Dataflow("words")
words = flow.stream_input("words", "word string")
flow.output("counts", words.group_by("word", running=True).count())


def arrive(folder: Path, number: int, text: str) -> None:
    """Put a file into the folder: written elsewhere, then renamed, so that it is complete when it appears."""
    pq.write_table(pa.table({"word": text.split()}), folder / "unfinished")
    (folder / "unfinished").rename(folder / "in" / f"{number:06d}.parquet")


def main(folder: Path) -> None:
    """Run the query, disturb it, and run it again."""
    (folder / "in").mkdir()
    arriving = ps.io.files(folder / "in", in_order=True)
    places = {"checkpoint": str(folder / "checkpoint"), "output": str(folder / "out")}

    query = flow.start(words=arriving, processes=2, **places)
    arrive(folder, 0, "to be or not to be")
    query.process_all_available()
    _, pid = query.workers()[1]
    os.kill(pid, signal.SIGKILL)  # what a machine that fails does
    arrive(folder, 1, "that is the question")
    query.process_all_available()
    print("published up to epoch", query.epoch, "with", query.restarts, "restart")
    query.stop()

    arrive(folder, 2, "to be")  # while no query runs
    query = flow.start(words=arriving, processes=2, available_now=True, **places)
    query.await_termination()

    counts = ps.read_changes(str(folder / "out"), "counts")
    for row in counts.sort_by([("epoch", "ascending"), ("word", "ascending")]).to_pylist():
        print(row["epoch"], row["word"], row["count"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))

# published up to epoch 1 with 1 restart
# 0 be 2
# 0 not 1
# 0 or 1
# 0 to 2
# 1 is 1
# 1 question 1
# 1 that 1
# 1 the 1
# 2 be 3
# 2 to 3
