"""Datagrams, and what brings them and ZeroMQ into one order again.

Families, and what only each can find:
- *packets*: any messages come back from a packet, and a damaged packet is refused;
- *order*: two ways that are in order by themselves, interleaved anyhow, give what was posted in its order; a
  gap on either way is an error;
- *mesh*: what is refused as a datagram arrives all the same, in order; what is gathered leaves as one packet,
  and at once when another thread posts.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.errors import TransportError
from pointstamp.mesh.admission import Refusals
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.message_io import (
    DATAGRAMS,
    PACKET_BYTES_MAX,
    ZEROMQ,
    Datagrams,
    InTurn,
    packed,
    unpacked,
)
from pointstamp.mesh.wire import ENVELOPE_BYTES, MessageKind, seal

SECONDS_MAX = 120.0
MESSAGES = st.lists(
    st.tuples(st.binary(max_size=40), st.lists(st.binary(max_size=40), max_size=3)), max_size=4
)

pytestmark = pytest.mark.skipif("sys.platform != 'linux'", reason="only there do datagrams keep the promise")


def until(condition: Callable[[], object]) -> None:
    deadline = monotonic() + SECONDS_MAX
    while not condition():
        assert monotonic() < deadline


@contextmanager
def two(folder: Path) -> Iterator[list[Mesh]]:
    meshes = [Mesh(number, 2, listen=f"ipc://{folder}/{number}") for number in range(2)]
    try:
        for mesh in meshes:
            mesh.connect([each.address for each in meshes])
        until(lambda: sum(mesh.greet() for mesh in meshes) == len(meshes))
        yield meshes
    finally:
        for mesh in meshes:
            mesh.close(linger_ms=0)


def numbers_of(mesh: Mesh, count: int) -> list[int]:
    """The first so many messages that arrive, as the numbers that they begin with."""
    found: list[int] = []
    deadline = monotonic() + SECONDS_MAX
    while len(found) < count:
        assert monotonic() < deadline
        mesh.wait(0.1)
        found += [int.from_bytes(parcel.header) for parcel in mesh.collect()]
    return found


# Packets.


@given(MESSAGES)
def test_the_messages_of_a_packet_come_back(messages: list[tuple[bytes, list[bytes]]]) -> None:
    found = [(bytes(first), [bytes(body) for body in bodies]) for first, bodies in unpacked(packed(messages))]
    assert found == messages


@given(MESSAGES.filter(bool), st.data())
def test_a_packet_that_was_cut_is_refused(
    messages: list[tuple[bytes, list[bytes]]], data: st.DataObject
) -> None:
    whole = packed(messages)
    cuts = {len(packed(messages[:count])) for count in range(len(messages))}
    at = data.draw(st.integers(1, len(whole) - 1).filter(lambda length: length not in cuts))
    with pytest.raises(TransportError, match="a packet of"):
        list(unpacked(whole[:at]))


# Order.


@given(st.lists(st.sampled_from([ZEROMQ, DATAGRAMS]), max_size=30), st.data())
def test_two_ways_give_the_order_in_which_messages_were_posted(ways: list[int], data: st.DataObject) -> None:
    queues: list[list[bytes]] = [[], []]
    sent = [0, 0]
    for number, way in enumerate(ways):
        queues[way].append(seal(MessageKind.CONTROL, 1, 0, sent[way], sent[1 - way]) + bytes([number]))
        sent[way] += 1
    in_turn = InTurn(0, ["worker 0", "worker 1"], 0, Refusals())
    found: list[int] = []
    while any(queues):
        way = data.draw(st.sampled_from([way for way in (ZEROMQ, DATAGRAMS) if queues[way]]))
        found += [first[ENVELOPE_BYTES] for _, first, _ in in_turn.take(way, queues[way].pop(0), ())]
        assert found == list(range(len(found)))
    assert found == list(range(len(ways)))


@pytest.mark.parametrize("way", [ZEROMQ, DATAGRAMS])
def test_a_gap_on_either_way_is_an_error(way: int) -> None:
    in_turn = InTurn(0, ["worker 0", "worker 1"], 0, Refusals())
    in_turn.take(way, seal(MessageKind.CONTROL, 1, 0, 0), ())
    with pytest.raises(TransportError, match="message 2 from worker 1 but expected 1: a message was lost"):
        in_turn.take(way, seal(MessageKind.CONTROL, 1, 0, 2), ())


# In a mesh.


def test_what_the_queue_has_no_place_for_arrives_in_order(tmp_path: Path) -> None:
    with two(tmp_path) as (first, second):
        sizes = [4, 4, PACKET_BYTES_MAX, 4]
        count = 200  # more than a queue of datagrams holds
        for number in range(count):
            header = number.to_bytes(4)
            second.post(0, MessageKind.CONTROL, header, [bytes(sizes[number % len(sizes)])])
        assert second._out.by_datagram[0]
        assert second._out.pushed[0] > count // len(sizes) + 1
        assert numbers_of(first, count) == list(range(count))


def test_what_is_gathered_leaves_when_it_is_flushed_or_its_owner_sleeps(tmp_path: Path) -> None:
    with two(tmp_path) as (first, second):
        second.gather(is_on=True)
        for number in range(5):
            second.post(0, MessageKind.CONTROL, bytes([number]))
        assert first.collect() == []
        second.flush()
        assert [bytes(parcel.header) for parcel in first.collect()] == [
            bytes([number]) for number in range(5)
        ]
        second.post(0, MessageKind.CONTROL, bytes([5]))
        second.wait(0)
        assert numbers_of(first, 1) == [5]


def test_progress_takes_with_it_what_waits_for_the_same_peer_and_leaves_at_once(tmp_path: Path) -> None:
    with two(tmp_path) as (first, second):
        second.gather(is_on=True)
        second.post(0, MessageKind.DATA, bytes([0]), [b"rows"])
        assert first.collect() == []
        second.post(0, MessageKind.PROGRESS, bytes([1]))
        assert [bytes(parcel.header) for parcel in first.collect()] == [bytes([0]), bytes([1])]


def test_another_thread_does_not_wait_for_the_one_that_gathers(tmp_path: Path) -> None:
    with two(tmp_path) as (first, second):
        second.gather(is_on=True)
        second.post(0, MessageKind.CONTROL, bytes([1]))
        other = threading.Thread(target=second.post, args=(0, MessageKind.CONTROL, bytes([2])))
        other.start()
        other.join()
        assert numbers_of(first, 2) == [1, 2]


def test_datagrams_that_cannot_be_taken_or_sent_are_refused_and_no_failure(tmp_path: Path) -> None:
    assert Datagrams.at(f"{tmp_path}/{'long' * 40}") is None
    made = Datagrams.at(f"{tmp_path}/0")
    assert made is not None
    try:
        made.connect(1, f"{tmp_path}/1")
        assert not made.offer(1, b"packet")
        assert made.take() is None
    finally:
        for each in made.sockets:
            each.close()
