"""Strangers at the ports of running workers: none is heard, each is logged, and the run ends as it should.

The members here are those that a Spark task makes: a mesh over tcp with keys, of two workers that exchange
rows all the while.

Families, and what only each can find:
- *bytes*: whoever speaks no ZeroMQ, or declares a frame that never comes, costs no memory and no result;
- *keys*: who shows no key, a key of its own, or the right key too late or of an older generation;
- *replay*: bytes that were captured on the way open nothing when they are sent again;
- *log*: one line in the log, and not one for every attempt;
- *flood*: more than a process may have files; where the system can make a port deaf, none of them connects.

All but the last are also for systems that cannot do that: there, strangers connect after the meeting, too.
"""

import logging
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest
import zmq

from pointstamp.errors import TransportError
from pointstamp.mesh import admission
from pointstamp.mesh.admission import LOG_SECONDS, KeyPair, Refusals
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.wire import MessageKind, seal
from support.strangers import RAW, hear, port, spoken, tapped, until

STRANGERS: Final = 300
STANDSTILL: Final = 1_200
PAYMENT: Final = b"pay the bearer a hundred thousand"
MEMORY_BYTES_MAX: Final = 64 * 2**20


@contextmanager
def pair(*, generation: int = 0) -> Iterator[tuple[Mesh, Mesh]]:
    """Two members that have met."""
    meshes = [Mesh(number, 2, encrypted=True, generation=generation) for number in range(2)]
    try:
        for mesh in meshes:
            mesh.connect([each.address for each in meshes])
        until(lambda: meshes[0].greet() & meshes[1].greet())
        yield meshes[0], meshes[1]
    finally:
        for mesh in meshes:
            mesh.close(linger_ms=0)


@pytest.fixture
def stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system that cannot make a port deaf."""
    monkeypatch.setattr(admission, "make_deaf", lambda _: False)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


@pytest.mark.usefixtures("stays_open")
@pytest.mark.parametrize("said", RAW)
def test_raw_bytes_are_not_heard_cost_no_memory_and_are_logged(
    said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pair() as (first, second), socket.create_connection(port(first)) as stranger:
        before = resident_bytes()
        stranger.sendall(RAW[said])
        until(lambda: first.collect() or first.refused)
        spoken(first, second)
        assert resident_bytes() - before < MEMORY_BYTES_MAX
    assert (
        "worker 0 accepts no more connections, but a process has connected to tcp://127.0.0.1:" in caplog.text
    )


def test_raw_bytes_while_the_members_meet_do_not_keep_them_from_meeting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = Mesh(0, 2), Mesh(1, 2)
    try:
        addresses = [first.address, second.address]
        first.connect(addresses)
        for said in RAW.values():
            with socket.create_connection(port(first)) as stranger:
                stranger.sendall(said)
        until(lambda: first.greet() or first.refused >= len(RAW))
        second.connect(addresses)
        until(lambda: first.greet() & second.greet())
        spoken(first, second)
    finally:
        first.close(linger_ms=0)
        second.close(linger_ms=0)
    assert "worker 0 has dropped a connection that did not come from a member" in caplog.text


@pytest.mark.usefixtures("stays_open")
@pytest.mark.parametrize("key", ["none", "own", "a member's"])
def test_who_comes_late_is_refused_and_logged_with_its_address(
    key: str, caplog: pytest.LogCaptureFixture
) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    stolen = KeyPair.new()
    first, second = Mesh(0, 2), Mesh(1, 2, keys=stolen)
    try:
        for mesh in (first, second):
            mesh.connect([first.address, second.address])
        until(lambda: first.greet() & second.greet())
        push = context.socket(zmq.PUSH)
        if key != "none":
            push.curve_publickey, push.curve_secretkey = KeyPair.new() if key == "own" else stolen
            push.curve_serverkey = first.address.public_key
        push.connect(first.address.endpoint)
        push.send(seal(MessageKind.CONTROL, 1, 0, 1) + b"stranger")
        # Once for the connection, and once at the door for who shows a key.
        until(lambda: first.collect() or first.refused >= (1 if key == "none" else 2))
        spoken(first, second)
    finally:
        context.destroy(linger=0)
        first.close(linger_ms=0)
        second.close(linger_ms=0)
    assert "worker 0 accepts no more connections" in caplog.text
    assert ("worker 0 has refused 127.0.0.1: it showed a key" in caplog.text) == (key != "none")


def test_a_stranger_with_a_key_in_the_meeting_is_logged_with_its_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    first, second = Mesh(0, 2), Mesh(1, 2)
    try:
        push = context.socket(zmq.PUSH)
        push.curve_publickey, push.curve_secretkey = KeyPair.new()
        push.curve_serverkey = first.address.public_key
        push.connect(first.address.endpoint)
        first.connect([first.address, second.address])
        until(lambda: first.greet() or first.refused)
    finally:
        context.destroy(linger=0)
        first.close(linger_ms=0)
        second.close(linger_ms=0)
    assert "worker 0 has refused 127.0.0.1: it showed a key" in caplog.text


@pytest.mark.usefixtures("stays_open")
def test_a_member_of_an_older_generation_with_its_own_keys_does_not_get_in() -> None:
    with pair(generation=1) as (old, _), pair(generation=2) as (first, second):
        # It has learned the new address, and its key is of the generation before.
        old._pushes[1] = old._connected(1, first.address)
        old.post(1, MessageKind.CONTROL, b"stale")
        until(lambda: first.collect() or first.refused >= 2)
        spoken(first, second)
        assert first.dropped_old == 0  # it was not even heard


@pytest.mark.usefixtures("stays_open")
def test_captured_bytes_that_are_sent_again_in_a_connection_of_their_own_open_nothing() -> None:
    with tapped() as (first, second, tap):
        spoken(first, second, 10)
        assert b"MESSAGE" in tap.captured  # the name of the command is in the clear, its content is not
        with socket.create_connection(port(first)) as stranger:
            stranger.sendall(tap.captured)
            until(lambda: first.collect() or first.refused)
            spoken(first, second, 50)


def test_captured_bytes_that_are_sent_again_inside_the_connection_end_it_and_are_not_heard() -> None:
    with tapped() as (first, second, tap):
        spoken(first, second, 10)
        before = len(tap.captured)
        second.post(0, MessageKind.CONTROL, PAYMENT)
        heard: list[bytes] = []
        until(lambda: hear(first, heard))
        assert PAYMENT not in tap.captured  # it is encrypted
        tap.far.sendall(tap.captured[before:])
        lost: list[str] = []
        until(lambda: hear_or_fail(first, heard, lost) or hear_or_fail(second, [], lost))
        assert heard == [PAYMENT]
        assert "has lost worker" in lost[0]


def hear_or_fail(mesh: Mesh, heard: list[bytes], lost: list[str]) -> bool:
    try:
        hear(mesh, heard)
    except TransportError as error:
        lost.append(str(error))
    return bool(lost)


@pytest.mark.usefixtures("stays_open")
def test_hundreds_of_strangers_leave_one_line_in_the_log_and_the_members_undisturbed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LOG_SECONDS", 3_600.0)  # however long it takes them to come
    with pair() as (first, second):
        for _ in range(STRANGERS):
            socket.create_connection(port(first)).close()
        until(lambda: first.collect() or first.refused >= STRANGERS)
        spoken(first, second)
    assert len([each for each in caplog.records if each.name == "pointstamp.mesh"]) <= 2


@pytest.mark.long
@pytest.mark.usefixtures("stays_open")
def test_strangers_who_come_while_a_member_is_busy_do_not_keep_its_connections_from_working() -> None:
    # With a limit on the monitor's queue, libzmq's I/O thread stood still after some eleven hundred of them.
    with pair() as (first, second):
        for _ in range(2 * STANDSTILL):
            with suppress(TimeoutError):  # the system's own queue of connections is full now and then
                socket.create_connection(port(first), timeout=1).close()
        spoken(first, second)
        until(lambda: first.collect() or first.refused >= STANDSTILL)


def test_the_next_line_of_the_log_says_how_many_were_left_out(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    refusals = Refusals(clock=lambda: now)
    with caplog.at_level(logging.WARNING, "pointstamp.mesh"):
        for _ in range(4):
            refusals.add("worker 0 has refused somebody.")
        now = LOG_SECONDS + 1
        refusals.add("worker 0 has refused somebody.")
    assert [each.getMessage() for each in caplog.records] == [
        "worker 0 has refused somebody.",
        "worker 0 has refused somebody. Since the last such line there were 3 more.",
    ]
    assert refusals.count == 5


# Flood.

FLOOD: Final = """
import resource, select, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[1:] * 2)
count, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
held = []
for _ in range(count):
    stranger = socket.socket()
    stranger.setblocking(False)
    stranger.connect_ex((host, port))
    held.append(stranger)
poll = select.poll()
for stranger in held:
    poll.register(stranger, select.POLLOUT)
print(len(poll.poll(2_000)), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can make a port deaf")
def test_a_flood_of_connections_that_say_nothing_costs_a_member_no_file() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pair() as (first, second):
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 100, hard))
        try:
            flood = [sys.executable, "-c", FLOOD, str(STRANGERS), *map(str, port(first))]
            with subprocess.Popen(flood, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as strangers:
                assert strangers.stdout is not None
                connected = int(strangers.stdout.readline())
                spoken(first, second)
                with open(os.devnull):  # as whoever writes a snapshot opens a file
                    pass
                strangers.communicate()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert connected == 0
