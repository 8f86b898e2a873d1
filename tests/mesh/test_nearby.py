"""Members of a mesh that listen at ports, and find out whether they share a host.

- *Near*: they use unix sockets, each pair by itself, and leave nothing behind.
- *Not near*: whoever is of another host or user, or cannot read the proof, is reached by tcp with keys.
- *Strangers*: a process of another user gets no connection, even where the folder lets it in.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import msgspec
import pytest

from pointstamp.mesh import addresses as nearby_module
from pointstamp.mesh.addresses import Nearby, opened_nearby, this_host
from pointstamp.mesh.admission import Address
from pointstamp.mesh.mesh import Mesh
from pointstamp.mesh.wire import MessageKind

pytestmark = pytest.mark.skipif(this_host() is None, reason="what tells hosts apart is Linux's")
SECONDS_MAX = 120.0
LARGE = bytes(range(256)) * 4096


def until(condition: Callable[[], object]) -> None:
    deadline = monotonic() + SECONDS_MAX
    while not condition():
        assert monotonic() < deadline


@contextmanager
def met(
    finders: Sequence[bool], change: Callable[[int, Address], Address] = lambda _, a: a
) -> Iterator[list[Mesh]]:
    """Members that have met; what the others hear of an address may be changed."""
    meshes = [Mesh(n, len(finders), finds_nearby=finds) for n, finds in enumerate(finders)]
    try:
        told = [change(number, mesh.address) for number, mesh in enumerate(meshes)]
        for mesh in meshes:
            mesh.connect(told)
        until(lambda: sum(mesh.greet() for mesh in meshes) == len(meshes))
        yield meshes
    finally:
        for mesh in meshes:
            mesh.close(linger_ms=0)


def check_all_hear_all(meshes: Sequence[Mesh]) -> None:
    for sender, mesh in enumerate(meshes):
        for peer in range(len(meshes)):
            if peer != sender:
                mesh.post(peer, MessageKind.DATA, b"%d" % sender, [LARGE])
                mesh.post(peer, MessageKind.CONTROL, b"%d" % sender)
    for number, mesh in enumerate(meshes):
        found: dict[int, list[tuple[int, bytes, list[bytes]]]] = {}
        wanted = 2 * (len(meshes) - 1)
        deadline = monotonic() + SECONDS_MAX
        while sum(map(len, found.values())) < wanted:
            assert monotonic() < deadline
            mesh.wait(0.1)
            for sender, kind, header, bodies in mesh.collect():
                found.setdefault(sender, []).append((kind, bytes(header), [bytes(each) for each in bodies]))
        assert found == {
            sender: [
                (MessageKind.DATA, b"%d" % sender, [LARGE]),
                (MessageKind.CONTROL, b"%d" % sender, []),
            ]
            for sender in range(len(meshes))
            if sender != number
        }


# Near.


def test_members_of_one_host_use_unix_sockets_and_leave_nothing_behind() -> None:
    folders: list[Path] = []

    def look(_: int, address: Address) -> Address:
        assert address.nearby is not None
        assert address.public_key is not None
        folder = Path(address.nearby.folder)
        assert folder.stat().st_mode & 0o777 == 0o700
        folders.append(folder)
        return address

    with met([True, True, True], look) as meshes:
        assert [mesh.near for mesh in meshes] == [{1, 2}, {0, 2}, {0, 1}]
        assert not any(folder.exists() for folder in folders), "all have met"
        check_all_hear_all(meshes)
    forgotten = Mesh(0, 2, finds_nearby=True)
    left = forgotten.address.nearby
    assert left is not None
    forgotten.close(linger_ms=0)
    assert not Path(left.folder).exists()


def test_each_pair_finds_out_by_itself() -> None:
    with met([True, True, False]) as meshes:
        assert [mesh.near for mesh in meshes] == [{1}, {0}, set()]
        check_all_hear_all(meshes)


# Not near.


def _changed(**fields: str) -> Callable[[int, Address], Address]:
    def change(number: int, address: Address) -> Address:
        if number:
            return address
        assert address.nearby is not None
        return msgspec.structs.replace(address, nearby=msgspec.structs.replace(address.nearby, **fields))

    return change


def _opened_to_others(number: int, address: Address) -> Address:
    assert address.nearby is not None
    if number == 0:
        Path(address.nearby.folder).chmod(0o755)
    return address


def _without_proof(number: int, address: Address) -> Address:
    assert address.nearby is not None
    if number == 0:
        (Path(address.nearby.folder) / "proof").unlink()
    return address


@pytest.mark.parametrize(
    "change",
    [
        _changed(host="another"),
        _changed(digest="0" * 64),
        _changed(folder="/not/there"),
        _opened_to_others,
        _without_proof,
    ],
    ids=["another host", "another proof", "no folder", "a folder for all", "no proof"],
)
def test_who_is_not_proved_to_be_near_is_reached_with_keys(change: Callable[[int, Address], Address]) -> None:
    with met([True, True], change) as meshes:
        assert [mesh.near for mesh in meshes] == [{1}, set()]
        check_all_hear_all(meshes)


def test_another_user_and_another_network_are_not_near(monkeypatch: pytest.MonkeyPatch) -> None:
    found = opened_nearby()
    assert found is not None
    try:
        assert found.is_near()
        with monkeypatch.context() as patch:
            patch.setattr(os, "getuid", lambda: 4242)
            assert not found.is_near()
        other = Path(f"{found.folder}/net")
        other.symlink_to("net:[1]")
        with monkeypatch.context() as patch:
            patch.setattr(nearby_module, "_NETWORK", other)
            assert not found.is_near()
        assert found.is_near()
    finally:
        nearby_module.close_nearby(found)


def test_without_a_folder_or_a_short_path_there_are_only_ports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 80)
    long.mkdir()
    for place in (long, tmp_path / "not there"):
        monkeypatch.setattr(tempfile, "tempdir", str(place))
        assert opened_nearby() is None
    assert list(long.iterdir()) == []
    with met([True, True]) as meshes:
        assert [mesh.near for mesh in meshes] == [set(), set()]
        check_all_hear_all(meshes)


# Strangers.

KNOCK = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
with socket.socket(socket.AF_UNIX) as knock:
    knock.settimeout(60)
    knock.connect(sys.argv[1])
    try:
        print(len(knock.recv(1)))
    except ConnectionResetError:
        print(0)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_a_process_of_another_user_gets_no_connection() -> None:
    mesh = Mesh(0, 2, finds_nearby=True)
    try:
        near = mesh.address.nearby
        assert isinstance(near, Nearby)
        Path(near.folder).chmod(0o777)
        path = near.endpoint.removeprefix("ipc://")
        Path(path).chmod(0o777)

        def knock(user: int) -> str:
            done = subprocess.run(
                [sys.executable, "-S", "-E", "-c", KNOCK, path, str(user)],
                capture_output=True,
                text=True,
                timeout=SECONDS_MAX,
                check=True,
            )
            return done.stdout.strip()

        assert knock(0) == "1", "its own user is greeted"
        assert knock(65534) == "0"
    finally:
        mesh.close(linger_ms=0)
