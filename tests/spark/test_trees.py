"""Workers on Spark that tell their progress along a tree, as ``broadcast="accumulating"`` asks, in a loop.

- they put out what those do that tell everybody, which is what plain arithmetic says;
- the judge hears of sums, and finds nothing; without the tree it hears of none;
- with four workers, in a session of its own, the same (long: it starts another JVM).
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.judge.online_process import JudgeProcess
from pointstamp.progress.choosing import BroadcastKind
from pointstamp.running.telling import decode_events
from pointstamp.worker.events import ProgressSummed

pytestmark = pytest.mark.spark

SECONDS_MAX: Final = 300.0
EPOCHS: Final = 3
NUMBERS: Final = 60


def halving(kind: BroadcastKind) -> ps.Dataflow:
    """Numbers are halved until they are 0, and counted by what they become on the way."""
    flow = ps.Dataflow("halving", broadcast=kind)
    numbers = flow.input("numbers", "x long")
    with numbers.loop("until 0") as loop:
        again = loop.variable("x long")
        now = loop.enter(numbers).concat(again).exchange("x")
        half = now.map_batches(lambda batch: pa.record_batch({"x": pc.shift_right(batch["x"], 1)}))
        loop.feedback(again, half.filter(pc.field("x") > 0))
        flow.output("seen", loop.leave(now).count("x"))
    return flow


def seen(spark: SparkSession, folder: str, kind: BroadcastKind, workers: int) -> Counter[tuple[int, ...]]:
    """Run the flow, judged; its rows with their epochs."""
    frame = spark.range(1, NUMBERS + 1).selectExpr("id as x", f"id % {EPOCHS} as at")
    found = halving(kind).run(
        spark, numbers=frame, epoch="at", workers=workers, checkpoint=f"{folder}/{kind}", verify=True
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


PROGRAM: Final = """
import json, sys
from pyspark.sql import SparkSession
from spark.test_trees import expected, seen

spark = (
    SparkSession.builder.master("local[4]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
print(json.dumps([seen(spark, sys.argv[1], kind, 4) == expected() for kind in ("direct", "accumulating")]))
spark.stop()
"""


@pytest.mark.long
def test_a_loop_along_a_tree_of_four_workers_puts_out_the_same(tmp_path: Path) -> None:
    here = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(here), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert json.loads(done.stdout.splitlines()[-1]) == [True, True]
