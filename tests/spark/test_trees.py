"""Workers on Spark that tell their progress along a tree, as ``broadcast="accumulating"`` asks, in a loop.

- they emitted what those do that tell everybody, which is what plain arithmetic says;
- the judge hears of sums, and finds nothing; without the tree it hears of none.
"""

from collections import Counter
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.driver.event_reports import decode_events
from pointstamp.progress.choosing import BroadcastKind
from pointstamp.verify.verifier import JudgeProcess
from pointstamp.worker.events import ProgressSummed

pytestmark = pytest.mark.spark

EPOCHS: Final = 3
NUMBERS: Final = 60


def halving(kind: BroadcastKind) -> ps.Dataflow:
    """Numbers are halved until they are 0, and counted by what they become on the way."""
    flow = ps.Dataflow("halving", broadcast=kind)
    numbers = flow.stream_input("numbers", "x long")
    with numbers.loop("until 0") as loop:
        again = loop.variable("x long")
        now = loop.enter(numbers).union(again).exchange("x")
        half = now.map_batches(lambda batch: pa.record_batch({"x": pc.shift_right(batch["x"], 1)}))
        loop.feedback(again, half.filter(pc.field("x") > 0))
        flow.output("seen", loop.leave(now).count("x"))
    return flow


def seen(spark: SparkSession, folder: str, kind: BroadcastKind, workers: int) -> Counter[tuple[int, ...]]:
    """Run the flow, judged; its rows with their epochs."""
    frame = spark.range(1, NUMBERS + 1).selectExpr("id as x", f"id % {EPOCHS} as at")
    found = halving(kind).run(
        on=spark, numbers=frame, epoch="at", workers=workers, checkpoint=f"{folder}/{kind}", verify=True
    )
    return Counter(map(tuple, found["seen"].select("epoch", "x", "count").collect()))


def expected() -> Counter[tuple[int, ...]]:
    """How often each number comes by in each epoch."""
    comes = Counter(
        (n % EPOCHS, n >> rounds) for n in range(1, NUMBERS + 1) for rounds in range(n.bit_length())
    )
    return Counter((epoch, x, count) for (epoch, x), count in comes.items())


def test_a_loop_along_a_tree_is_judged_right_and_puts_out_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = JudgeProcess.take
    summed: list[ProgressSummed] = []

    def note(self: JudgeProcess, worker: int, events: bytes) -> None:
        summed.extend(event for event in decode_events(events) if isinstance(event, ProgressSummed))
        take(self, worker, events)

    monkeypatch.setattr(JudgeProcess, "take", note)
    assert seen(spark, str(tmp_path), "direct", 2) == expected()
    assert not summed
    assert seen(spark, str(tmp_path), "accumulating", 2) == expected()
    assert len(summed) > EPOCHS
