"""Addresses of members, by IPv4 or IPv6, and their endpoints.

An endpoint is ``tcp://host:port``; an address of IPv6 stands in brackets there, and without them everywhere
else. A name that has addresses of both kinds is taken by IPv4, as Spark does unless it is told otherwise.
"""

import ipaddress
import socket
from typing import Final

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
    """Whether an endpoint of TCP can be reached on its own host only.

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
