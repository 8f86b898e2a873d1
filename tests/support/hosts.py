"""Several hosts on one machine: network namespaces on a bridge that leads nowhere else.

Each host has its own loopback, its own name and two addresses, of IPv4 and of IPv6, at which others reach it.
Its name stands for a third address that leads nowhere, as where a host has several networks. All share one
disk. It needs root and iproute2; where namespaces cannot be made the test is skipped with a sentence.

Packets are lost without a word, as on a real network: a cable that is pulled is the link of a host that is
down, and a loss between two hosts is a wrong hardware address, so that packets go to nobody. A host that is
far away is behind a wire (``support.wire``) that delays and loses frames.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest

NET: Final = "10.77.0"
NOWHERE: Final = "10.88.0"
NET6: Final = "fd77"
TESTS: Final = str(Path(__file__).parents[1])
NOBODY: Final = "02:00:00:00:00:99"
SECONDS_MAX: Final = 60


def _run(*arguments: object, check: bool = True) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(each) for each in arguments], check=check, capture_output=True, text=True, timeout=SECONDS_MAX
    )


class Hosts:
    """So many hosts, from ``with`` to the end, when whatever was started on them is killed."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._hub = f"ps{os.getpid()}hub"
        self._names = [f"ps{os.getpid()}h{number}" for number in range(count)]
        self._started: list[subprocess.Popen[Any]] = []
        self._wires: dict[int, subprocess.Popen[Any]] = {}

    def address(self, host: int) -> str:
        return f"{NET}.{host + 1}"

    def address6(self, host: int) -> str:
        return f"{NET6}::{host + 1}"

    def start(self, host: int, *command: object, **options: Any) -> "subprocess.Popen[Any]":  # noqa: ANN401
        """A process on a host, in a group of its own."""
        named = f'hostname host{host}; exec "$@"'
        inside = ["ip", "netns", "exec", self._names[host], "unshare", "--uts", "sh", "-c", named, "sh"]
        process = subprocess.Popen([*inside, *map(str, command)], start_new_session=True, **options)
        self._started.append(process)
        return process

    def cut(self, host: int) -> None:
        """Every packet to and from a host is lost."""
        self._on(self._hub, "ip", "link", "set", f"v{host}", "down")

    def mend(self, host: int) -> None:
        self._on(self._hub, "ip", "link", "set", f"v{host}", "up")

    def lose(self, sender: int, receiver: int) -> None:
        """What one host sends to another is lost; what comes the other way is not."""
        self._on(
            self._names[sender],
            *("ip", "neigh", "replace", self.address(receiver), "lladdr", NOBODY, "nud", "permanent"),
            *("dev", "eth0"),
        )

    def find(self, sender: int, receiver: int) -> None:
        self._on(self._names[sender], "ip", "neigh", "del", self.address(receiver), "dev", "eth0")

    def put_far_away(self, host: int, delay_ms: float, loss_percent: float) -> None:
        """Every packet to and from a host takes so long, and some are lost."""
        wired = [f"v{host}", f"w{host}"]
        for name in self._names:
            self._on(name, "env", f"PYTHONPATH={TESTS}", sys.executable, "-m", "support.wire", "eth0")
        self._on(self._hub, "ip", "link", "set", wired[0], "nomaster")
        self._on(self._hub, "ip", "link", "add", wired[1], "type", "veth", "peer", "name", f"x{host}")
        for end in (wired[1], f"x{host}"):
            self._on(self._hub, "ip", "link", "set", end, "up")
        self._on(self._hub, "ip", "link", "set", f"x{host}", "master", "br0")
        inside = ["ip", "netns", "exec", self._hub, sys.executable, "-m", "support.wire", *wired]
        self._wires[host] = subprocess.Popen(
            [*inside, str(delay_ms), str(loss_percent)],
            env={**os.environ, "PYTHONPATH": TESTS},
            start_new_session=True,
        )
        self._started.append(self._wires[host])

    def bring_near(self, host: int) -> None:
        """The wire is as it was before."""
        wire = self._wires.pop(host)
        wire.kill()
        wire.wait(SECONDS_MAX)
        self._on(self._hub, "ip", "link", "del", f"w{host}")
        self._on(self._hub, "ip", "link", "set", f"v{host}", "master", "br0")

    def _on(self, namespace: str, *command: object) -> None:
        _run("ip", "netns", "exec", namespace, *command)

    def __enter__(self) -> "Hosts":
        if os.getuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
            pytest.skip("network namespaces need root, iproute2 and util-linux")
        if (made := _run("ip", "netns", "add", self._hub, check=False)).returncode != 0:
            pytest.skip(f"network namespaces cannot be made here: {made.stderr.strip()}")
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def _make(self) -> None:
        self._on(self._hub, "ip", "link", "add", "br0", "type", "bridge")
        self._on(self._hub, "ip", "link", "set", "br0", "up")
        for host, name in enumerate(self._names):
            _run("ip", "netns", "add", name)
            self._on(name, "ip", "link", "set", "lo", "up")
            peer = ("peer", "name", f"v{host}", "netns", self._hub)
            _run("ip", "link", "add", "eth0", "netns", name, "type", "veth", *peer)
            self._on(name, "ip", "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            self._on(name, "ip", "addr", "add", f"{self.address6(host)}/64", "dev", "eth0", "nodad")
            self._on(name, "ip", "addr", "add", f"{NOWHERE}.{host + 1}/32", "dev", "lo")
            self._on(name, "ip", "link", "set", "eth0", "up")
            self._on(self._hub, "ip", "link", "set", f"v{host}", "master", "br0")
            self._on(self._hub, "ip", "link", "set", f"v{host}", "up")
            known = "".join(f"{NOWHERE}.{each + 1} host{each}\n" for each in range(self.count))
            place = Path("/etc/netns", name)
            place.mkdir(parents=True)
            (place / "hosts").write_text(f"127.0.0.1 localhost\n{known}")

    def _remove(self) -> None:
        for name in (*self._names, self._hub):
            _run("ip", "netns", "del", name, check=False)
            shutil.rmtree(Path("/etc/netns", name), ignore_errors=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(SECONDS_MAX)
        self._remove()
