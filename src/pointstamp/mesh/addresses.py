"""Addresses of members, by IPv4 or IPv6, and their endpoints.

An endpoint is ``tcp://host:port``; an address of IPv6 stands in brackets there, and without them everywhere
else. A name that has addresses of both kinds is taken by IPv4, as Spark does by default.
"""

import hmac
import ipaddress
import os
import secrets
import shutil
import socket
import stat
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

LOOPBACK: Final = "127.0.0.1"


def address_of(name: str) -> str:
    """The address of a host that is given by a name or an address; OSError where it is not known.

    >>> address_of("10.0.0.7"), address_of("[fd00::7]"), address_of("::1")
    ('10.0.0.7', 'fd00::7', '::1')
    """
    found = socket.getaddrinfo(name.strip("[]"), None, type=socket.SOCK_STREAM)
    by_kind = sorted(found, key=lambda each: each[0] != socket.AF_INET)  # stable: each kind in its order
    return str(by_kind[0][4][0])


def endpoint_at(address: str, port: int = 0) -> str:
    """An address to listen at or connect to; port 0 chooses a free one.

    >>> endpoint_at("10.0.0.7", 4040), endpoint_at("fd00::7")
    ('tcp://10.0.0.7:4040', 'tcp://[fd00::7]:0')
    """
    return f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}"


def host_of(endpoint: str) -> str:
    """The address in an endpoint of TCP.

    >>> host_of("tcp://10.0.0.7:4040"), host_of("tcp://[fd00::7]:4040")
    ('10.0.0.7', 'fd00::7')
    """
    return endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]")


def is_loopback(endpoint: str) -> bool:
    """Return whether an endpoint of TCP can be reached on its own host only.

    >>> [is_loopback(f"tcp://{host}:1") for host in ("127.0.0.1", "[::1]", "10.0.0.7", "[fd00::7]")]
    [True, True, False, False]
    """
    return ipaddress.ip_address(host_of(endpoint).partition("%")[0]).is_loopback


def words_of_place(endpoint: str) -> str:
    """Return the location of a member as a suffix of its name; empty on this host.

    >>> words_of_place("tcp://10.0.0.7:4040"), words_of_place("tcp://[fd00::7]:4040")
    (' at 10.0.0.7', ' at fd00::7')
    >>> words_of_place("tcp://127.0.0.1:4040"), words_of_place("tcp://[::1]:4040"), words_of_place("ipc://a")
    ('', '', '')
    """
    is_elsewhere = endpoint.startswith("tcp://") and not is_loopback(endpoint)
    return f" at {host_of(endpoint)}" if is_elsewhere else ""


# Detect members on the same host, by a private folder with a unix socket.
#
# Two members are near each other if they have booted together, share the network, are of one user, and one
# can read in the other's folder a secret whose digest it was told. A host's name proves none of this:
# containers of one host may have one name, or one address, and see neither each other's files nor each
# other's processes. Whoever is not near is reached as before, by tcp with keys.
#
# The folder is made again for each member, and only its owner may open it. The socket in it takes connections
# of processes of its user only, so it needs no keys and costs no encryption. The folder is gone when all have
# met.

SOCKET_PATH_BYTES_MAX: Final = 107
"""A unix socket's path has 108 bytes, the last of which is zero."""
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NETWORK: Final = Path("/proc/self/ns/net")
_PROOF: Final = "proof"
_SOCKET: Final = "socket"
_PROOF_BYTES: Final = 32


class Nearby(msgspec.Struct, frozen=True):
    """The local address of a member, shared together with its address."""

    host: str
    folder: str
    digest: str

    @property
    def endpoint(self) -> str:
        """The listening address."""
        return f"ipc://{self.folder}/{_SOCKET}"

    def is_near(self) -> bool:
        """Return whether this process is on that host, of that user, and sees the same files."""
        folder = Path(self.folder)
        try:
            found = folder.lstat()
            is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
            if self.host != this_host() or not is_private or found.st_uid != os.getuid():
                return False
            proof = (folder / _PROOF).read_bytes()
        except OSError:
            return False
        return hmac.compare_digest(sha256(proof).hexdigest(), self.digest)


def this_host() -> str | None:
    """Return the identity of this host; None if it is unknown."""
    try:
        return f"{_BOOT.read_text().strip()} {_NETWORK.readlink()}"
    except OSError:
        return None


def opened_nearby() -> Nearby | None:
    """A new private folder with a proof in it; None where there can be none."""
    host = this_host()
    if host is None:
        return None
    try:
        folder = tempfile.mkdtemp(prefix="pointstamp-near-")  # which only its owner may open
    except OSError:
        return None
    try:
        proof = secrets.token_bytes(_PROOF_BYTES)
        (Path(folder) / _PROOF).write_bytes(proof)
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    made = Nearby(host, folder, sha256(proof).hexdigest())
    if len(os.fsencode(made.endpoint)) - len("ipc://") > SOCKET_PATH_BYTES_MAX:
        close_nearby(made)
        return None
    return made


def close_nearby(nearby: Nearby) -> None:
    """Take the folder away; connections that were made stay."""
    shutil.rmtree(nearby.folder, ignore_errors=True)
