"""Flows in a notebook: a kernel of this interpreter runs the notebook that we ship, and is interrupted.

Families, and what only each can find:
- outputs: the shipped notebook shows what is stored in it; only a kernel asks a flow for its drawing, and
  only there Spark and an event loop share a process;
- interruption: a kernel's interrupt goes to the whole group of its processes, while a function of the user's
  never returns. The cell ends with KeyboardInterrupt, and the same flow runs again in the same kernel: in
  this process, in processes of their own, on Spark.

All tests share one kernel, in the order of this file, as cells of one notebook would. It listens on loopback,
is described in a temporary folder, and is ended by the manager that started it.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from nbformat.v4 import new_code_cell, reads

pytestmark = [pytest.mark.spark, pytest.mark.long]

SHIPPED: Final = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
# No cell takes longer, on a machine that others use, too; one that does fails with the stacks of its kernel.
CELL_SECONDS_MAX: Final = 120

WAITS: Final = """
import faulthandler, os, signal, time
import pyarrow as pa
import pointstamp as ps

stacks = open(stacks_at, "w")
faulthandler.register(signal.SIGUSR1, stacks)

def wait_for_ever(batch):
    if may_wait:
        os.close(os.open(told_at, os.O_WRONLY | os.O_CREAT))
    while may_wait:
        time.sleep(0.05)  # an endless pause would sleep through a signal that comes just before it
    return batch

waits = ps.Dataflow("waits")
waits.output("out", waits.stream_input("numbers", "x long").exchange("x").map_batches(wait_for_ever))
numbers = pa.table({"x": [1, 2, 3]})
"""
RUNS: Final = {
    "here": 'waits.run(numbers=numbers)["out"].table()["x"].to_pylist()',
    "processes": 'waits.run(numbers=numbers, processes=2)["out"].table()["x"].to_pylist()',
    "spark": 'waits.run(spark, numbers=spark.range(1, 4, 1, 2).toDF("x"))["out"].toPandas()["x"].tolist()',
}


class Kernel(NotebookClient):
    """Runs cells one by one, in a folder of its own."""

    folder: Path
    hangs = False

    @property
    def told_at(self) -> Path:
        """A file that is there as soon as a function of the user's waits.

        A file and no pipe: an interrupt may come before the function has closed what it opened, and who then
        looked for somebody at the other end of a pipe would find one before the next run has begun. A kernel
        ignores what comes between two cells.
        """
        return self.folder / "told"

    @property
    def process(self) -> Any:  # noqa: ANN401 - nbclient says nothing of its types
        """Who started the kernel, and knows its process."""
        manager: Any = self.km
        return manager.provisioner

    def run(self, source: str) -> str:
        """The text of a cell's value; CellExecutionError where it raised."""
        cell: Any = new_code_cell(source)  # type: ignore[no-untyped-call]
        self.nb.cells.append(cell)
        try:
            self.execute_cell(cell, len(self.nb.cells) - 1)
        except CellTimeoutError:
            self.hangs = True
            os.kill(self.process.pid, signal.SIGUSR1)
            until(lambda: "Current thread" in (self.folder / "stacks").read_text())
            pytest.fail(f"a cell hangs: {source}\n{(self.folder / 'stacks').read_text()}")
        values = [each for each in cell.outputs if each.output_type == "execute_result"]
        return "".join(each.data["text/plain"] for each in values)


def until(condition: Callable[[], object]) -> None:
    deadline = monotonic() + CELL_SECONDS_MAX
    while not condition():
        assert monotonic() < deadline
        sleep(0.01)


def shipped() -> Any:  # noqa: ANN401 - a node of nbformat, which has no types
    return reads(SHIPPED.read_text())  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel that has run the shipped notebook up to the cell that stops Spark."""
    folder = tmp_path_factory.mktemp("jupyter")
    described = folder / "kernels" / "here" / "kernel.json"
    described.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    described.write_text(json.dumps({"argv": command, "display_name": "here", "language": "python"}))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_PATH", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(folder))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        notebook = shipped()
        assert notebook.cells.pop().source == "spark.stop()"
        client = Kernel(
            notebook,
            kernel_name="here",
            timeout=CELL_SECONDS_MAX,
            startup_timeout=CELL_SECONDS_MAX,
            resources={"metadata": {"path": str(folder)}},
        )
        with client.setup_kernel():
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
            client.folder = folder
            told_at, stacks_at = str(client.told_at), str(folder / "stacks")
            client.run(f"told_at, stacks_at = {told_at!r}, {stacks_at!r}\n{WAITS}")
            yield client
            if not client.hangs:
                client.run("spark.stop()")


def workers_of(kernel: Kernel) -> list[str]:
    """The worker processes of runs without Spark: those of the one that forks them for the kernel."""
    return [
        worker
        for child in children_of(kernel.process.pid)
        if b"pointstamp.driver.fork_server" in Path(f"/proc/{child}/cmdline").read_bytes()
        for worker in children_of(child)
    ]


def children_of(pid: int | str) -> list[str]:
    return [
        child for each in Path(f"/proc/{pid}/task").glob("*/children") for child in each.read_text().split()
    ]


def interrupt_when_it_waits(kernel: Kernel) -> None:
    """Wait until a function of the user's says that it waits, and do what a kernel's manager does."""
    kernel.told_at.unlink(missing_ok=True)

    def wait() -> None:
        until(kernel.told_at.exists)
        os.killpg(kernel.process.pgid, signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


def shown(cell: Any) -> list[str]:  # noqa: ANN401 - a node of nbformat
    """What a cell shows as text, without what goes to stderr: there, Spark reports how far it is."""
    return [
        each.text if each.output_type == "stream" else each.data["text/plain"]
        for each in cell.get("outputs", [])
        if each.get("name") != "stderr"
    ]


def test_the_shipped_notebook_shows_what_is_stored_in_it(kernel: Kernel) -> None:
    stored = shipped().cells
    for before, now in zip(stored[2:-1], kernel.nb.cells[2:], strict=False):
        assert shown(before) == shown(now), now.source
    assert shown(stored[-2]) == ["True"]


def test_a_flow_as_the_value_of_a_cell_is_drawn(kernel: Kernel) -> None:
    (value,) = kernel.nb.cells[1].outputs
    assert value.data["text/html"].startswith("<iframe ")
    assert "least labels" in value.data["text/html"]


@pytest.mark.parametrize("where", RUNS)
def test_an_interrupted_run_ends_and_the_flow_runs_again_in_the_same_kernel(
    where: str, kernel: Kernel
) -> None:
    kernel.run("may_wait = True")
    interrupt_when_it_waits(kernel)
    with pytest.raises(CellExecutionError, match="KeyboardInterrupt"):
        kernel.run(RUNS[where])
    kernel.run("may_wait = False")
    assert sorted(json.loads(kernel.run(RUNS[where]))) == [1, 2, 3]
    assert workers_of(kernel) == []
