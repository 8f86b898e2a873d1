"""How the tasks of a gang meet, and what they load for it.

Families:
- meetings of threads in a folder, without Spark: everybody hears everybody, in whatever order they come; what
  is only being written is not heard; who waits in vain says for whom;
- sessions that answer from a table: a folder is the meeting place only where all tasks are on this host and
  none is started a second time; and who meets in a folder listens there, unless its path is too long;
- addresses: contexts and sessions that answer from a table; where a worker and a driver say that they are;
- a worker of a gang that was never built: what the others may tell it, and what nobody may;
- a fresh process: what a task itself makes of rows and reports does not load pandas, which takes longer than
  everything else that a task loads. Only a process of its own has not loaded it before.
"""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest
from pyspark import BarrierTaskContext, BarrierTaskInfo
from pyspark.sql import SparkSession

from pointstamp.errors import TransportError
from pointstamp.mesh.door import Address
from pointstamp.running.messages import Failed, Leave
from pointstamp.spark.crew import driver_host
from pointstamp.spark.gang import GangMember
from pointstamp.spark.meeting import gather_in, listens_at, meeting_folder, own_address, report_batch

SECONDS_MAX = 60.0


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


class _Tasks:
    """A barrier context of which only the addresses of its tasks are asked."""

    def __init__(self, *addresses: str) -> None:
        self._infos = [BarrierTaskInfo(each) for each in addresses]

    def getTaskInfos(self) -> list[BarrierTaskInfo]:  # noqa: N802 - Spark's name
        return self._infos

    def partitionId(self) -> int:  # noqa: N802 - Spark's name
        return 0


@pytest.mark.parametrize(
    ("addresses", "driver", "own"),
    [
        (["10.0.0.7:4040", "10.0.0.8:4040"], None, "10.0.0.7"),
        (["10.0.0.7:4040", "10.0.0.7:4040"], None, "127.0.0.1"),
        (["10.0.0.7:4040", "10.0.0.7:4040"], "tcp://10.0.0.9:1", "10.0.0.7"),
        (["[fd00::7]:4040", "[fd00::8]:4040"], None, "fd00::7"),
        (["[fd00::7]:4040", "[fd00::7]:4040"], "tcp://[fd00::9]:1", "fd00::7"),
        (["[fd00::7]:4040", "[fd00::7]:4040"], "tcp://[::1]:1", "127.0.0.1"),
    ],
)
def test_a_worker_is_where_spark_reaches_its_executor(
    addresses: list[str], driver: str | None, own: str
) -> None:
    known = None if driver is None else Address(driver, b"")
    assert own_address(cast("BarrierTaskContext", _Tasks(*addresses)), known) == own


@pytest.mark.parametrize(("named", "found"), [("10.0.0.9", "10.0.0.9"), ("[fd00::9]", "fd00::9")])
def test_a_driver_is_where_it_was_told_to_be(named: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POINTSTAMP_DRIVER_HOST", named)
    assert driver_host(cast("SparkSession", _Session("spark://there:7077"))) == found


def test_everybody_hears_everybody_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    members = 4
    with ThreadPoolExecutor(members) as pool:
        futures = [
            pool.submit(gather_in, tmp_path, number, members, b"%d" % number, seconds_max=SECONDS_MAX)
            for number in reversed(range(members))
        ]
        assert [future.result() for future in futures] == [[b"0", b"1", b"2", b"3"]] * members


def test_a_gang_of_one_meets_at_once(tmp_path: Path) -> None:
    assert gather_in(tmp_path, 0, 1, b"alone", seconds_max=0.0) == [b"alone"]


def test_who_waits_in_vain_says_for_whom(tmp_path: Path) -> None:
    gather_in(tmp_path, 0, 1, b"here", seconds_max=SECONDS_MAX)
    with pytest.raises(TransportError, match=r"worker 1 has waited 0 seconds for worker 2, 3 of 4"):
        gather_in(tmp_path, 1, 4, b"here", seconds_max=0.0)


def test_what_is_only_being_written_is_not_heard(tmp_path: Path) -> None:
    (tmp_path / ".0").write_bytes(b"ha")
    with pytest.raises(TransportError, match="for worker 0 of 2"):
        gather_in(tmp_path, 1, 2, b"here", seconds_max=0.0)


def test_a_meeting_folder_is_gone_after_the_meeting_and_nobody_else_may_open_it() -> None:
    with meeting_folder(cast("SparkSession", _Session("local[2]"))) as folder:
        assert folder is not None
        assert Path(folder).stat().st_mode & 0o077 == 0
        gather_in(Path(folder), 0, 1, b"here", seconds_max=SECONDS_MAX)
    assert not Path(folder).exists()


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_the_tasks_of_a_local_session_meet_in_a_folder(master: str) -> None:
    assert _folder_of(_Session(master)) is not None


@pytest.mark.parametrize(
    "master", [None, "local[2,3]", "local-cluster[2,1,1024]", "spark://host:7077", "yarn"]
)
def test_tasks_that_may_be_elsewhere_or_start_again_meet_through_spark(master: str | None) -> None:
    assert _folder_of(_Session(master)) is None


def test_the_tasks_of_a_connect_session_meet_through_spark() -> None:
    assert _folder_of(_ConnectSession("local[2]")) is None


def test_a_report_comes_back_as_it_was_given() -> None:
    assert report_batch(3, [b"one", b""]).to_pylist() == [
        {"worker": 3, "report": b"one"},
        {"worker": 3, "report": b""},
    ]
    assert report_batch(3, []).num_rows == 0


def test_a_failure_of_another_worker_ends_a_task_and_nobody_gives_it_orders() -> None:
    member = GangMember.__new__(GangMember)
    with pytest.raises(TransportError, match=r"^worker 1 has failed\.$"):
        member.follow(Failed("TransportError", "worker 1 has failed.", ""))
    with pytest.raises(TransportError, match="Leave, which is not said in this kind of run"):
        member.follow(Leave())


_A_TASKS_WORK = """
import sys
import pyarrow as pa
from pyspark import worker
from pointstamp.spark.gang import SparkGang
from pointstamp.spark.meeting import report_batch
from pointstamp.spark.output import EpochFiles
from pointstamp.spark.packing import InputSpec, from_bytes, packer

schema = pa.schema([("id", pa.int64())])
column = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(bytes(8))])
rows = pa.RecordBatch.from_arrays([column], schema=schema)
[packed] = packer(InputSpec(0, "rows", schema, None, None), 2)(iter([rows]))
assert packed["worker"].to_pylist() == [0]
[content] = packed["rows"].to_pylist()
files = EpochFiles(sys.argv[1], "run", 0, {"out": schema})
files.write("out", 7, [from_bytes(content, schema)])
assert [file.rows for file in files.finish()] == [1]
assert report_batch(0, [b"done"]).num_rows == 1
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


def test_who_meets_in_a_folder_listens_in_it_unless_its_path_is_too_long() -> None:
    assert listens_at("/run/meeting", 1, lambda: "10.0.0.7") == "ipc:///run/meeting/of-1"
    for folder in (None, "/run/" + "x" * 100):
        assert listens_at(folder, 1, lambda: "10.0.0.7") == "tcp://10.0.0.7:0"
