"""A local session's workers, and the driver of its queries, listen on loopback and nowhere else.

The program has a session of its own, which says of itself that it is at another address (127.0.0.2, which
needs no network) as a session does that nobody has configured: it is known by the address of its host. Its
master says how often a task may fail, so that its workers use ports and no unix sockets
(``meeting_folder``). What listens is read from the system's own list of sockets.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.long]

SECONDS_MAX: Final = 240.0
LISTENING: Final = "0A"  # in the kernel's list of sockets

PROGRAM: Final = """
import json, os, sys
import pyarrow as pa, pyarrow.parquet as pq
from pyspark.sql import SparkSession
import pointstamp as ps
from spark.test_loopback import addresses

spark = (
    SparkSession.builder.master("local[2, 1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.2")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
folder, before = sys.argv[1], set(addresses())

def look(batch):
    found = addresses()
    return pa.record_batch({"worker": [os.getpid()] * len(found), "address": found})

flow = ps.Dataflow("looks")
numbers = flow.stream_input("numbers", "x long").exchange("x")
flow.output("out", numbers.map_batches(look, schema="worker long, address string").named("look"))
rows = flow.run(on=spark, numbers=spark.range(0, 16, 1, 2).toDF("x"))["out"].toPandas()
said = {"run": sorted(set(rows["address"])), "workers": rows["worker"].nunique()}
pq.write_table(pa.table({"x": list(range(16))}), folder + "/numbers.parquet")
query = flow.start(
    on=spark, numbers=ps.io.files(folder), workers=2, checkpoint=folder + "/c", output=folder + "/o"
)
query.process_all_available()
said["driver"] = sorted(set(addresses()) - before)
query.stop()
said["query"] = sorted(set(ps.read_changes(folder + "/o", "out")["address"].to_pylist()))
spark.stop()
print(json.dumps(said))
"""


def addresses() -> list[str]:
    """Where this process listens, as address and port."""
    held = set()
    for link in Path("/proc/self/fd").iterdir():
        if link.is_symlink():
            held.add(os.readlink(link))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    found = [each[1] for each in lines if each[3] == LISTENING and f"socket:[{each[9]}]" in held]
    return [_in_words(each) for each in found]


def _in_words(address: str) -> str:
    host, _, port = address.partition(":")
    numbers = [str(int(host[at : at + 2], 16)) for at in range(6, -1, -2)]
    return f"{'.'.join(numbers)}:{int(port, 16)}"


def test_the_members_of_runs_and_queries_in_a_local_session_listen_on_loopback_only(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={
            **os.environ,
            "PYTHONPATH": tests,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout.splitlines()[-1])
    assert said["workers"] == 2
    for who in ("run", "query", "driver"):
        assert said[who], f"nobody of the {who} listens"
        assert {each.rpartition(":")[0] for each in said[who]} == {"127.0.0.1"}, (who, said[who])
