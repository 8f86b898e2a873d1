"""A member of a mesh of two: ``python -m support.far_member NUMBER ADDRESS FOLDER MESSAGES``.

The two tell each other their addresses in a folder. Number 0 sends messages one after the other, number 1
sends each back; 0 then says where it was told to find the other, and how long the way there and back took.
"""

import statistics
import sys
import time
from pathlib import Path

import msgspec

from pointstamp.mesh.addresses import endpoint_at
from pointstamp.mesh.admission import Address
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.wire import MessageKind
from support.streams import until

SECONDS_MAX = 120.0


def main(number: int, address: str, folder: Path, messages: int) -> None:
    mesh = Mesh(number, 2, listen=endpoint_at(address), silence_seconds_max=30.0)
    new = folder / f".{number}"
    new.write_bytes(msgspec.json.encode(mesh.address))
    new.rename(folder / str(number))
    until(lambda: (folder / str(1 - number)).exists())
    addresses = [msgspec.json.decode((folder / str(each)).read_bytes(), type=Address) for each in range(2)]
    mesh.connect(addresses)
    mesh.meet(SECONDS_MAX)
    ways = []
    for turn in range(messages):
        begin = time.monotonic()
        content = str(turn).encode()
        if number == 0:
            mesh.post(1, MessageKind.CONTROL, content)
        assert received(mesh) == content
        if number == 1:
            mesh.post(0, MessageKind.CONTROL, content)
        ways.append(time.monotonic() - begin)
    if number == 0:
        sys.stdout.write(f"{addresses[1].endpoint} {statistics.median(ways)}\n")
    mesh.close()


def received(mesh: Mesh) -> bytes:
    """The next message, which is the only one."""
    found = mesh.collect()
    while not found:
        mesh.wait(0.1)
        found = mesh.collect()
    (parcel,) = found
    return bytes(parcel.header)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
