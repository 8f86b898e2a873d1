"""Strangers at the ports of a query on Spark: it continues, and its output is right.

One family: the ports are found as a stranger on the machine would find them, in the system's own lists, and
everything at once comes to each member, workers and driver, while epochs are on their way. Only this shows
that members at work have ports that answer nobody, and that who tries costs no epoch. What each kind of
stranger can do to a member that does answer is tried in ``test_strangers``.
"""

import os
import socket
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Final

import pytest
import zmq
from pyspark.sql import SparkSession

import pointstamp as ps
from pointstamp.mesh.admission import KeyPair
from pointstamp.mesh.wire import MessageKind, seal
from pointstamp.spark import worker_formation
from support.streams import SECONDS_MAX, counts_by_epoch, published_by_epoch, put, until

pytestmark = pytest.mark.spark

STRANGERS: Final = 100
WORDS: Final = [f"w{number}" for number in range(16)]
ANSWER_SECONDS: Final = 0.5  # a port that answers does so at once
LISTENING: Final = "0A"  # in the kernel's list of sockets


def listening(pid: int | str) -> set[int]:
    """The ports of tcp at which a process listens."""
    held = {_target(each) for each in Path(f"/proc/{pid}/fd").iterdir()}
    with open("/proc/net/tcp") as file:
        sockets = [line.split() for line in file.readlines()[1:]]
    return {
        int(each[1].rpartition(":")[2], 16)
        for each in sockets
        if each[3] == LISTENING and f"socket:[{each[9]}]" in held
    }


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except FileNotFoundError:  # closed meanwhile
        return ""


def counting() -> ps.Dataflow:
    flow = ps.Dataflow("words")
    words = flow.stream_input("words", "word string").exchange("word")
    flow.output("counts", words.group_by("word", running=True).count())
    return flow


def answers(port: int) -> bool:
    """Whether a connection to a port of this host is accepted."""
    try:
        socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS).close()
    except TimeoutError:
        return False
    return True


def disturb(port: int, left: ExitStack, *, is_deaf: bool) -> None:
    """Let all kinds of strangers come to a port; they stay until the end, and no deaf port answers one."""
    for _ in range(STRANGERS):
        stranger = left.enter_context(socket.socket())
        stranger.setblocking(False)
        stranger.connect_ex(("127.0.0.1", port))
    assert answers(port) != is_deaf
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    left.callback(context.destroy, linger=0)
    for has_key in (False, True):
        push = context.socket(zmq.PUSH)
        left.callback(push.close, linger=0)
        if has_key:
            push.curve_publickey, push.curve_secretkey = KeyPair.new()
            push.curve_serverkey = KeyPair.new().public
        push.connect(f"tcp://127.0.0.1:{port}")
        push.send(seal(MessageKind.CONTROL, 0, 1, 1) + b"stranger")


def test_strangers_at_every_port_of_a_running_query_are_not_answered_and_cost_no_epoch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a cluster, where members have ports.
    monkeypatch.setattr(worker_formation, "meeting_folder", lambda _: nullcontext())
    sent = [WORDS]
    put(tmp_path / "in", "0", {"word": sent[0]})
    before = listening("self")
    with ExitStack() as left:
        query = counting().start(
            on=spark,
            words=ps.io.files(tmp_path / "in"),
            checkpoint=str(tmp_path / "c"),
            output=str(tmp_path / "o"),
            workers=2,
            options=ps.QueryOptions(min_workers=2, silence_seconds_max=SECONDS_MAX),
        )
        left.callback(query.stop, finish=False)
        until(lambda: query.epoch >= 0)
        pids = [pid for _, pid in query.workers()]
        ports = {str(pid): listening(pid) for pid in pids}
        ports["driver"] = listening("self") - before
        # The driver's second port is the rendezvous, which stays open for tasks that come late.
        assert [len(each) for each in ports.values()] == [1, 1, 2], ports
        rendezvous = {port for port in ports["driver"] if answers(port)}
        assert len(rendezvous) == 1
        for port in [port for each in ports.values() for port in each]:
            disturb(port, left, is_deaf=port not in rendezvous)
            sent.append([*WORDS, f"at {port}"])
            put(tmp_path / "in", str(len(sent) - 1), {"word": sent[-1]})
            disturb(port, left, is_deaf=port not in rendezvous)
        until(lambda: query.epoch >= len(sent) - 1)
        assert [pid for _, pid in query.workers()] == pids
        assert query.restarts == 0
        query.stop()
    assert published_by_epoch(tmp_path / "o", "counts") == counts_by_epoch(sent)
