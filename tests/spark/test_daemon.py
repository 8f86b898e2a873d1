"""The daemon from which Spark may fork Python workers: what it has loaded serves in the processes it forks.

A fork beside a thread that holds a lock would hang in the child; only a real fork after real imports, by the
daemon's own function, can find that. The child uses what a worker uses: arrays, Arrow's kernels and threads,
Parquet, sockets of ZeroMQ.
"""

import subprocess
import sys
from textwrap import dedent

import pytest

pytestmark = pytest.mark.spark

FORK = dedent(
    """
    import os, sys
    from pointstamp.spark import daemon

    daemon.load()
    loaded = set(sys.modules)
    child = os.fork()
    if child == 0:
        import io
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq
        import zmq
        from pointstamp.spark import bounded, crew

        assert {"pyspark.worker", "pyarrow.compute", "pointstamp.query.member"} <= loaded
        assert float((np.ones((200, 200)) @ np.ones((200, 200))).sum()) == 8_000_000.0
        assert pc.sum(pa.array([1, 2, 3])).as_py() == 6
        held = io.BytesIO()
        pq.write_table(pa.table({name: list(range(1000)) for name in "abc"}), held)
        held.seek(0)
        assert pq.read_table(held, use_threads=True).num_rows == 1000
        context = zmq.Context()
        context.socket(zmq.PULL).close()
        context.term()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
)


def test_a_process_that_is_forked_after_loading_can_use_what_was_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK], check=False, capture_output=True, text=True, timeout=300
    )
    assert (done.stdout.strip(), done.stderr) == ("7", "")
