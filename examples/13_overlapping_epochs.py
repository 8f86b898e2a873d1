"""A running reduction in a loop: epochs overlap, and results are as if one came after the other.

Water flows down a canal with locks, one lock per round. Each epoch opens springs; the output has each lock
that is now reached sooner than ever before. Epoch 1 begins in the middle of the canal while the water of
epoch 0 is still in flight: (1, 0) is complete long before (0, 12). The reduction takes its times in
order all the same, so that epoch 0 never sees later rows.
"""

import pyarrow as pa
import pyarrow.compute as pc

import pointstamp as ps

COLUMNS = "lock long, rounds long"
LAST = 19


def downstream(batch: pa.RecordBatch) -> pa.RecordBatch:
    """From each lock to the next one, one round later."""
    above = batch.filter(pc.field("lock") < LAST)
    return pa.RecordBatch.from_arrays(
        [pc.add(above["lock"], 1), pc.add(above["rounds"], 1)], schema=batch.schema
    )


flow = ps.Dataflow("canal")
springs = flow.stream_input("springs", COLUMNS)
with springs.loop("canal") as loop:
    further = loop.variable(COLUMNS, "further")
    reached = loop.enter(springs).union(further)
    sooner = reached.group_by("lock", running=True).agg(rounds=ps.min("rounds")).named("sooner")
    loop.feedback(further, sooner.map_batches(downstream))
    flow.output("reached", loop.leave(sooner))


def open_at(*locks: int) -> pa.Table:
    """Springs at these locks."""
    return pa.table({"lock": pa.array(locks, pa.int64()), "rounds": pa.array([0] * len(locks), pa.int64())})


inputs = {"springs": [open_at(0), open_at(12), open_at(), open_at(9, 16)]}

if __name__ == "__main__":
    for epoch, tables in flow.stream(inputs, processes=2):
        locks = tables["reached"].sort_by("lock")["lock"].to_pylist()
        print(epoch, f"{len(locks)} locks from {locks[0]} to {locks[-1]}" if locks else "nothing new")

# 0 20 locks from 0 to 19
# 1 8 locks from 12 to 19
# 2 nothing new
# 3 7 locks from 9 to 19
