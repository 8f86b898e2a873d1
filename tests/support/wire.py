"""A slow wire between two interfaces, where the kernel has no netem: frames wait, and some are lost.

``python -m support.wire ONE OTHER DELAY_MS LOSS_PERCENT`` carries frames both ways between two interfaces of
its namespace, each after the delay, until it is killed. ``python -m support.wire INTERFACE`` lets an
interface send only frames that are whole on the wire: with checksums, and no larger than a packet may be.
Whoever sends through a slow wire needs that.
"""

import array
import fcntl
import heapq
import random
import select
import socket
import struct
import sys
import time
from typing import Final

FRAME_BYTES_MAX: Final = 65_535
EVERY_PROTOCOL: Final = 3
SOL_PACKET: Final = 263
IGNORE_OUTGOING: Final = 23  # what is sent here is not read back
SIOCETHTOOL: Final = 0x8946
OFF: Final = {"checksums": 0x17, "TCP's segments": 0x1F, "segments": 0x24}
"""The numbers of ethtool's orders that end what a driver does for the kernel."""


def make_plain(interface: str) -> None:
    """End what the driver of an interface would do with frames after they have left."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for order in OFF.values():
            value = array.array("B", struct.pack("II", order, 0))
            request = struct.pack("16sP", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(asking, SIOCETHTOOL, request.ljust(40, b"\0"))


def carry(one: str, other: str, delay_seconds: float, lost: float) -> None:
    """Carry frames both ways, for ever."""
    ends = [_end(one), _end(other)]
    opposite = {ends[0]: ends[1], ends[1]: ends[0]}
    held: list[tuple[float, int, socket.socket, bytes]] = []
    number = 0
    while True:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else None
        for end in select.select(ends, [], [], wait)[0]:
            frame = end.recv(FRAME_BYTES_MAX)
            if random.random() >= lost:
                number += 1
                heapq.heappush(held, (time.monotonic() + delay_seconds, number, opposite[end], frame))
        while held and held[0][0] <= time.monotonic():
            _, _, end, frame = heapq.heappop(held)
            end.send(frame)


def _end(interface: str) -> socket.socket:
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL))
    end.bind((interface, 0))
    end.setsockopt(SOL_PACKET, IGNORE_OUTGOING, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    return end


if __name__ == "__main__":
    if len(sys.argv) == 2:
        make_plain(sys.argv[1])
    else:
        carry(sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1_000, float(sys.argv[4]) / 100)
