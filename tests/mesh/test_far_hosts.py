"""A mesh between two hosts: by IPv4 and by IPv6, near, and behind a wire that delays and loses packets.

Only hosts of their own find what loopback forgives: an address that is not the host's, or not in brackets.
That the wire is slow is shown by the way there and back, which cannot be shorter than it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.hosts import TESTS, Hosts

pytestmark = pytest.mark.long

MESSAGES = 10
SECONDS_MAX = 300
DELAY_MS, LOSS_PERCENT = 200, 2


def told(hosts: Hosts, folder: Path, addresses: list[str]) -> tuple[str, float]:
    """Where the first member found the second, and the median of the ways there and back in seconds."""
    folder.mkdir()
    members = [
        hosts.start(
            host,
            *(sys.executable, "-m", "support.far_member", host, addresses[host], folder, MESSAGES),
            env={**os.environ, "PYTHONPATH": TESTS},
            stdout=subprocess.PIPE,
            text=True,
        )
        for host in range(2)
    ]
    said = [each.communicate(timeout=SECONDS_MAX)[0] for each in members]
    assert [each.returncode for each in members] == [0, 0]
    endpoint, seconds = said[0].split()
    return endpoint, float(seconds)


def test_members_on_two_hosts_speak_by_either_kind_of_address_also_far_apart(tmp_path: Path) -> None:
    with Hosts(2) as hosts:
        near, _ = told(hosts, tmp_path / "near", [hosts.address(0), hosts.address(1)])
        assert near.startswith(f"tcp://{hosts.address(1)}:")
        hosts.put_far_away(1, DELAY_MS, LOSS_PERCENT)
        far, seconds = told(hosts, tmp_path / "far", [hosts.address6(0), hosts.address6(1)])
        assert far.startswith(f"tcp://[{hosts.address6(1)}]:")
        assert seconds >= 2 * DELAY_MS / 1_000
        hosts.bring_near(1)
        told(hosts, tmp_path / "again", [hosts.address6(0), hosts.address(1)])
