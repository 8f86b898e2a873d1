"""The mesh: who gets in, what happens when a peer goes, and that numbers are checked.

Families, and what only each can find:
- *door*: a stranger without a key, with a key of its own, or too late, is not heard;
- *leaving*: a peer that says goodbye is no failure, one that dies or falls silent is, by name and soon;
- *numbers*: a hand-made peer that skips, repeats or is of another generation is found out.

Peers that die are processes of their own, ended by the pid that was started here.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import numpy as np
import pytest
import zmq

from pointstamp.errors import TransportError
from pointstamp.mesh import mesh as mesh_module
from pointstamp.mesh import mesh as peers_module
from pointstamp.mesh.admission import Address, KeyPair
from pointstamp.mesh.mesh import FRAME_BYTES_MAX, Mesh, Parcel
from pointstamp.mesh.message_io import TAKE_MAX
from pointstamp.mesh.wire import MessageKind, seal

SECONDS_MAX = 120.0
# A peer is silent for so long only if it is stopped, also where others use the machine.
SILENCE_SECONDS = 2.0
# What "soon" is: so many waits of a tenth of a second, and not seconds, in which a machine may stand still.
WAITS_MAX = 80
TURNED_AWAY = (
    zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)


def until(condition: Callable[[], object]) -> None:
    deadline = monotonic() + SECONDS_MAX
    while not condition():
        assert monotonic() < deadline


def collected(mesh: Mesh, found: list[Parcel]) -> list[Parcel]:
    """What was found before, and what has come since."""
    found += mesh.collect()
    return found


def raised_by(mesh: Mesh) -> str:
    """The message of the TransportError that collecting raises before long."""
    return raised_after_waits(mesh)[0]


def raised_after_waits(mesh: Mesh) -> tuple[str, int]:
    """The message, and after how many waits of a tenth of a second in which nothing came."""
    deadline, waits = monotonic() + SECONDS_MAX, 0
    try:
        while monotonic() < deadline:
            waits += not mesh.wait(0.1)
            mesh.collect()
    except TransportError as error:
        return str(error), waits
    raise AssertionError("nothing was noticed")


@contextmanager
def met(count: int, listen: str = "tcp://127.0.0.1:0") -> Iterator[list[Mesh]]:
    meshes = [Mesh(number, count, listen=listen.format(number)) for number in range(count)]
    try:
        for mesh in meshes:
            mesh.connect([each.address for each in meshes])
        until(lambda: sum(mesh.greet() for mesh in meshes) == count)
        yield meshes
    finally:
        for mesh in meshes:
            mesh.close(linger_ms=0)


@contextmanager
def hand_made_peer(*, generation: int = 0) -> Iterator[tuple[Mesh, Callable[[bytes], None]]]:
    """A mesh of two whose second member is a bare socket; the function sends one frame."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    mesh = Mesh(0, 2, encrypted=False, generation=generation)
    try:
        pull, push = context.socket(zmq.PULL), context.socket(zmq.PUSH)
        port = pull.bind_to_random_port("tcp://127.0.0.1")
        mesh.connect([mesh.address, Address(f"tcp://127.0.0.1:{port}")])
        push.connect(mesh.address.endpoint)
        push.send(seal(MessageKind.HELLO, 1, generation, 0))
        until(mesh.greet)
        yield mesh, push.send
    finally:
        mesh.close(linger_ms=0)
        context.destroy(linger=0)


# The door.


@pytest.mark.parametrize("stranger", ["plain", "own key", "own key and a guessed one"])
def test_a_stranger_is_not_heard(stranger: str) -> None:
    first, second = Mesh(0, 2), Mesh(1, 2)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        push = context.socket(zmq.PUSH)
        if stranger != "plain":
            public, secret = zmq.curve_keypair()
            server = first.address.public_key if stranger == "own key" else zmq.curve_keypair()[0]
            push.curve_publickey, push.curve_secretkey, push.curve_serverkey = public, secret, server
        monitor = push.get_monitor_socket(TURNED_AWAY)
        push.connect(first.address.endpoint)
        push.send(seal(MessageKind.HELLO, 1, 0, 0))
        # The stranger is turned away while the members meet, and what it sent is never seen: had it been
        # taken for worker 1, the hello of the real one would be a repetition.
        addresses = [first.address, second.address]
        first.connect(addresses)
        until(lambda: (first.greet(), monitor.poll(1))[1])
        second.connect(addresses)
        until(lambda: first.greet() & second.greet())
        second.post(0, MessageKind.CONTROL, b"real")
        until(lambda: first.wait(0.1))
        assert [bytes(parcel.header) for parcel in first.collect()] == [b"real"]
    finally:
        context.destroy(linger=0)
        first.close(linger_ms=0)
        second.close(linger_ms=0)


def test_a_member_without_a_key_is_refused_by_one_that_has_one() -> None:
    mesh = Mesh(0, 2)
    try:
        with pytest.raises(TransportError, match="worker 0 has a key, but worker 1 has none"):
            mesh.connect([mesh.address, Address("tcp://127.0.0.1:1")])
    finally:
        mesh.close(linger_ms=0)


def test_a_member_with_another_key_than_was_told_is_noticed() -> None:
    first, second = Mesh(0, 2), Mesh(1, 2)
    try:
        lie = Address(second.address.endpoint, KeyPair.new().public)
        first.connect([first.address, lie])
        second.connect([first.address, second.address])
        with pytest.raises(TransportError, match=r"has lost worker [01]: the connection"):
            until(lambda: first.greet() & second.greet())
    finally:
        first.close(linger_ms=0)
        second.close(linger_ms=0)


def test_socket_files_are_gone_when_all_have_met(tmp_path: Path) -> None:
    with met(3, f"ipc://{tmp_path}/{{}}"):
        assert list(tmp_path.iterdir()) == []


def test_members_meet_and_speak_over_ipv6() -> None:
    with met(3, "tcp://[::1]:0") as meshes:
        assert all(mesh.address.endpoint.startswith("tcp://[::1]:") for mesh in meshes)
        meshes[0].post(2, MessageKind.CONTROL, b"one")
        found: list[Parcel] = []
        until(lambda: collected(meshes[2], found))
        assert [(each.sender, bytes(each.header)) for each in found] == [(0, b"one")]


def test_those_who_do_not_come_are_named() -> None:
    mesh = Mesh(0, 3, encrypted=False)
    nobody: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PULL)
    try:
        port = nobody.bind_to_random_port("tcp://127.0.0.1")
        mesh.connect([mesh.address, *[Address(f"tcp://127.0.0.1:{port}")] * 2])
        with pytest.raises(TransportError, match=r"worker 0 has waited 0\.1 seconds for worker 1, worker 2"):
            mesh.meet(0.1)
    finally:
        mesh.close(linger_ms=0)
        nobody.close(linger=0)


# Leaving.


def test_a_goodbye_is_no_failure_and_what_came_before_it_arrives() -> None:
    with met(2) as (first, second):
        second.post(0, MessageKind.CONTROL, b"last words")
        second.close()
        until(lambda: first.wait(0.1))
        assert [bytes(parcel.header) for parcel in first.collect()] == [b"last words"]
        until(lambda: first.collect() or 1 in first._peers.lost)
        deadline = monotonic() + 0.5
        while monotonic() < deadline:
            first.wait(0.05)
            assert first.collect() == []


def test_a_goodbye_that_lies_unread_behind_much_else_is_heard_before_its_sender_is_taken_for_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = monotonic()
    for module in (mesh_module, peers_module):
        monkeypatch.setattr(module, "monotonic", lambda: now)
    count = 3 * TAKE_MAX
    with met(2, f"ipc://{tmp_path}/{{}}") as (first, second):
        # The listener's own monitor tells when everything that the peer sent lies in the queue.
        (pull,) = first._incoming._pulls.values()
        emptied = pull.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        first._sockets.append(emptied)  # to be closed with the others
        for number in range(count):
            second.post(0, MessageKind.CONTROL, number.to_bytes(4))
        second.post(0, MessageKind.GOODBYE, b"")
        second._finalizer.detach()  # ``close`` would wait for our goodbye, and no longer than a moment
        mesh_module._close(
            *(os.getpid(), second._context, second._sockets, second._files, None),
            linger_ms=int(SECONDS_MAX * 1000),
        )
        assert emptied.poll(int(SECONDS_MAX * 1000))
        until(lambda: first._peers.look() or 1 in first._peers.lost)
        now += 3600  # of work on one batch
        came = first.collect()
        while first.wait(0):
            came += first.collect()
        assert [int.from_bytes(parcel.header) for parcel in came] == list(range(count))
        assert first._peers.left == {1}


def test_posting_to_one_who_has_left_says_so() -> None:
    with met(2) as (first, second):
        second.close()
        until(lambda: first.collect() or {1} == first._peers.left == first._peers.lost)
        with pytest.raises(TransportError, match="worker 0 cannot reach worker 1, which has left the run"):
            first.post(1, MessageKind.CONTROL, b"")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_peer_that_dies_or_falls_silent_is_named_soon(number: signal.Signals, tmp_path: Path) -> None:
    addresses = [Address(f"ipc://{tmp_path}/{member}") for member in range(2)]
    # Who dies is seen to go, and not missed: long before the silence that would be too long.
    silence_seconds = SILENCE_SECONDS if number == signal.SIGSTOP else SECONDS_MAX
    mesh = Mesh(0, 2, listen=addresses[0].endpoint, silence_seconds_max=silence_seconds)
    ready, say_ready = os.pipe()
    pid = os.fork()
    if pid == 0:  # the peer: it meets, and waits to be ended
        peer = Mesh(1, 2, listen=addresses[1].endpoint)
        os.write(say_ready, b"!")
        peer.connect(addresses)
        peer.meet(SECONDS_MAX)
        peer.wait(SECONDS_MAX)
        os._exit(0)
    try:
        os.read(ready, 1)
        mesh.connect(addresses)
        mesh.meet(SECONDS_MAX)
        os.kill(pid, number)
        said, waits = raised_after_waits(mesh)
        assert "worker 0 has lost worker 1" in said
        assert waits < WAITS_MAX
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        mesh.close(linger_ms=0)
        os.close(ready)
        os.close(say_ready)


def test_a_peer_that_is_stopped_is_noticed_through_tcp_with_keys_after_the_silence_that_was_chosen() -> None:
    keys = [KeyPair.new(), KeyPair.new()]
    mesh = Mesh(0, 2, keys=keys[0], silence_seconds_max=SILENCE_SECONDS)
    here, there = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:  # the peer: a socket of its own, and then it waits to be stopped
        peer = Mesh(1, 2, keys=keys[1], silence_seconds_max=60)
        os.write(there[1], peer.address.endpoint.encode())
        peer.connect([Address(os.read(here[0], 100).decode(), keys[0].public), peer.address])
        peer.meet(SECONDS_MAX)
        peer.wait(SECONDS_MAX)
        os._exit(0)
    try:
        os.write(here[1], mesh.address.endpoint.encode())
        mesh.connect([mesh.address, Address(os.read(there[0], 100).decode(), keys[1].public)])
        mesh.meet(SECONDS_MAX)
        began = monotonic()
        os.kill(pid, signal.SIGSTOP)
        said, waits = raised_after_waits(mesh)
        assert "worker 0 has lost worker 1" in said
        assert monotonic() - began > SILENCE_SECONDS / 4
        assert waits < WAITS_MAX
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        mesh.close(linger_ms=0)
        for end in (*here, *there):
            os.close(end)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_silence_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(TransportError, match=r"worker 0: silence_seconds_max must be above 0"):
        Mesh(0, 2, silence_seconds_max=seconds)


# Numbers.


def test_a_frame_that_the_peer_would_not_take_is_refused_by_the_sender() -> None:
    with met(2) as (first, second):
        huge = np.broadcast_to(np.zeros(1, np.uint8), FRAME_BYTES_MAX + 1)  # one byte, seen many times
        with pytest.raises(
            TransportError, match=r"worker 1: a message to worker 0 may have at most .* got 2147483649"
        ):
            second.post(0, MessageKind.CONTROL, b"", [huge])
        second.post(0, MessageKind.CONTROL, b"small")
        until(lambda: first.wait(0.1))
        assert [bytes(parcel.header) for parcel in first.collect()] == [b"small"]


def test_a_gap_is_a_failure() -> None:
    with hand_made_peer() as (mesh, send):
        send(seal(MessageKind.CONTROL, 1, 0, 2))
        assert "received message 2 from worker 1 but expected 1: a message was lost" in raised_by(mesh)


def test_a_repetition_is_a_failure() -> None:
    with hand_made_peer() as (mesh, send):
        send(seal(MessageKind.HELLO, 1, 0, 0))
        assert "received message 0 from worker 1 but expected 1: a message was delivered twice" in raised_by(
            mesh
        )


def test_messages_of_an_older_generation_are_dropped_counted_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with hand_made_peer(generation=3) as (mesh, send):
        send(seal(MessageKind.CONTROL, 1, 2, 7) + b"stale")
        send(seal(MessageKind.CONTROL, 1, 3, 1) + b"fresh")
        found: list[Parcel] = []
        until(lambda: collected(mesh, found))
        assert [bytes(parcel.header) for parcel in found] == [b"fresh"]
        assert mesh.dropped_old == 1
    assert (
        "worker 0 has dropped a message from worker 1 of generation 2; the run is in generation 3"
        in caplog.text
    )


def test_a_message_of_a_newer_generation_tells_a_member_that_it_is_the_stale_one() -> None:
    with hand_made_peer(generation=3) as (mesh, send):
        send(seal(MessageKind.CONTROL, 1, 4, 1))
        assert "the run was restarted without this worker" in raised_by(mesh)


def test_bytes_of_another_program_are_a_failure() -> None:
    with hand_made_peer() as (mesh, send):
        send(b"GET / HTTP/1.1\r\n\r\n")
        assert "no worker of this version can have sent" in raised_by(mesh)


def test_a_sender_that_does_not_exist_is_a_failure() -> None:
    with hand_made_peer() as (mesh, send):
        send(seal(MessageKind.CONTROL, 5, 0, 0))
        assert "from the unknown member 5" in raised_by(mesh)
