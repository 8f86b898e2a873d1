"""Detect members on the same host, by a private folder with a unix socket.

Two members are near each other if they have booted together, share the network, are of one user, and one can
read in the other's folder a secret whose digest it was told. A host's name proves none of this: containers of
one host may have one name, or one address, and see neither each other's files nor each other's processes.
Whoever is not near is reached as before, by tcp with keys.

The folder is made again for each member, and only its owner may open it. The socket in it takes connections
of processes of its user only, so it needs no keys and costs no encryption. The folder is gone when all have
met.
"""

import hmac
import os
import secrets
import shutil
import stat
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

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
        """Whether this process is on that host, of that user, and sees the same files."""
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
