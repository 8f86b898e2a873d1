"""Whether an object of a user has the optional methods that a protocol declares.

``isinstance`` with a protocol does not see, from Python 3.12 on, what an object passes on by ``__getattr__``,
as one that wraps another does. ``conforms`` sees it in every version.
"""

from collections.abc import Callable
from typing import TypeGuard, TypeVar

P = TypeVar("P")


def conforms(given: object, protocol: Callable[..., P]) -> TypeGuard[P]:
    """Return whether an object, or a class, has all members of a protocol.

    >>> from pointstamp.storage.port import HasUrl, SizesAtOnce
    >>> class Wrapped:
    ...     def __getattr__(self, name):
    ...         return {"url": "s3://bucket"}[name] if name == "url" else super().__getattribute__(name)
    >>> conforms(Wrapped(), HasUrl), conforms(Wrapped(), SizesAtOnce)
    (True, False)

    """
    assert isinstance(protocol, type), f"{protocol} is not a protocol"
    members = [name for each in protocol.__mro__ for name in vars(each) if not name.startswith("_")]
    return all(hasattr(given, name) for name in members)
