"""Where the workers of a job listen, and what their tasks load.

Families:
- sessions that answer from a table: private sockets are used only where all tasks are on this host and
  none is started a second time, and unless their path is too long;
- addresses: where a driver says that it is;
- a worker of a bounded run that was never built: which orders it takes;
- a fresh process: what a task itself makes of rows and reports does not load pandas, which takes longer than
  everything else that a task loads. Only a process of its own has not loaded it before.
"""

import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from pointstamp.driver.messages import AskCounts, Leave
from pointstamp.errors import TransportError
from pointstamp.spark.bounded import BoundedMember
from pointstamp.spark.rendezvous import listens_at, meeting_folder
from pointstamp.spark.worker_formation import driver_host


class _Settings:
    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings

    def get(self, name: str, default: str | None) -> str | None:
        return self._settings.get(name, default)


class _Session:
    """A session of which only settings are asked."""

    def __init__(self, master: str | None) -> None:
        self.conf = _Settings({} if master is None else {"spark.master": master})


class _ConnectSession(_Session):
    pass


_ConnectSession.__module__ = "pyspark.sql.connect.session"


def _folder_of(session: _Session) -> str | None:
    with meeting_folder(cast("SparkSession", session)) as folder:
        return folder


@pytest.mark.parametrize(("named", "found"), [("10.0.0.9", "10.0.0.9"), ("[fd00::9]", "fd00::9")])
def test_a_driver_is_where_it_was_told_to_be(named: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSTAMP_DRIVER_HOST", named)
    assert driver_host(cast("SparkSession", _Session("spark://there:7077"))) == found


def test_a_private_folder_is_gone_with_its_job_and_no_other_user_may_open_it() -> None:
    with meeting_folder(cast("SparkSession", _Session("local[2]"))) as folder:
        assert folder is not None
        assert Path(folder).stat().st_mode & 0o077 == 0
        (Path(folder) / "of-0").touch()
    assert not Path(folder).exists()


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_the_tasks_of_a_local_session_use_sockets_in_a_private_folder(master: str) -> None:
    assert _folder_of(_Session(master)) is not None


@pytest.mark.parametrize(
    "master", [None, "local[2,3]", "local-cluster[2,1,1024]", "spark://host:7077", "yarn"]
)
def test_tasks_that_may_be_elsewhere_or_start_again_use_ports(master: str | None) -> None:
    assert _folder_of(_Session(master)) is None


def test_the_tasks_of_a_connect_session_use_ports() -> None:
    assert _folder_of(_ConnectSession("local[2]")) is None


def test_a_worker_of_a_bounded_run_leaves_when_it_is_told_to_and_takes_no_other_order() -> None:
    member = BoundedMember.__new__(BoundedMember)
    member._was_dismissed = False
    with pytest.raises(TransportError, match="AskCounts, which is not said in this kind of run"):
        member.follow(AskCounts())
    member.follow(Leave())
    assert member.has_left


_A_TASKS_WORK = """
import sys
import pyarrow as pa
from pyspark import worker
from pointstamp.spark.bounded import BoundedWork
from pointstamp.spark.crew_task import Task
from pointstamp.spark.bounded import EpochFiles
from pointstamp.spark.row_packing import InputSpec, from_bytes, packer

schema = pa.schema([("id", pa.int64())])
column = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(8))])
rows = pa.RecordBatch.from_arrays([column], schema=schema)
[packed] = packer(InputSpec(0, "rows", schema, None, None), 2)(iter([rows]))
assert packed["worker"].to_pylist() == [0]
[content] = packed["rows"].to_pylist()
files = EpochFiles(sys.argv[1], "run", 0, {"out": schema})
files.write("out", 7, [from_bytes(content, schema)])
assert [file.rows for file in files.finish()] == [1]
print("pandas" in sys.modules)
"""


def test_a_task_does_its_own_work_without_pandas(tmp_path: Path) -> None:
    # In a process of its own: in this one something has long loaded pandas.
    done = subprocess.run(
        [sys.executable, "-c", _A_TASKS_WORK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.stdout.strip(), done.returncode) == ("False", 0), done.stderr


def test_a_worker_listens_in_the_private_folder_unless_its_path_is_too_long() -> None:
    assert listens_at("/run/meeting", 1, lambda: "10.0.0.7") == "ipc:///run/meeting/of-1"
    for folder in (None, "/run/" + "x" * 100):
        assert listens_at(folder, 1, lambda: "10.0.0.7") == "tcp://10.0.0.7:0"
