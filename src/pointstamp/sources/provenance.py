"""The identity of a source, which a checkpoint records and compares.

An identity is a mapping of words: ``kind``, ``place`` (an absolute address without credentials), for a
cluster ``servers`` (joined by commas; lists with a server in common are one cluster), and options that change
which rows a source has or how they are read. A source says it by a method ``identity()``; one without that
method is known by its class. Options that only change how fast rows are read, and those that say what becomes
of rows that cannot be read, are not part of it: both may change from start to start.

A source that was moved says so by an attribute ``moved_from``, the ``place`` or the ``servers`` of before.
"""

from collections.abc import Iterator, Mapping, Sized
from dataclasses import fields, is_dataclass
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from pointstamp.storage.places import recorded_place

Identity: TypeAlias = Mapping[str, str]

_FREE: Final = (
    *("units_per_tick", "bytes_per_tick", "rows_per_tick", "storage_options", "options", "moved_from"),
    *("list_every_seconds", "settle_seconds", "look_every_seconds", "topics_every_seconds", "gather_seconds"),
    *("on_bad", "on_lost", "skip", "line_bytes_max"),
)
"""Options of speed, of access, and of what becomes of rows that cannot be read: these may change."""


@runtime_checkable
class Identified(Protocol):
    """A source that says its identity."""

    def identity(self) -> Identity:
        """Return the identity of this source."""
        ...


@runtime_checkable
class Moved(Protocol):
    """A source that may have been moved."""

    @property
    def moved_from(self) -> str | None:
        """The place or the servers of before; None if it was not moved."""
        ...


def identity_of_source(source: object) -> dict[str, str]:
    """Return the identity of a source; its class if it does not say one."""
    if isinstance(source, Identified):
        return {str(key): str(value) for key, value in source.identity().items()}
    kind = type(source)
    return {"kind": kind.__qualname__}


def options_of(source: Any, *free: str) -> dict[str, str]:  # noqa: ANN401 - a dataclass
    """Return the options of a source by name, but for those that may change freely.

    Whatever is a field counts, so that an option that is added later is not forgotten.
    """
    found: dict[str, str] = {}
    for each in fields(source):
        value = getattr(source, each.name)
        is_unset = value is None or value is False or (isinstance(value, Sized) and not len(value))
        if each.name in free or each.name in _FREE or is_unset:
            continue
        if is_dataclass(value):
            found.update(options_of(value, *free))
        elif isinstance(value, Mapping):
            found[each.name] = ", ".join(f"{key}={text}" for key, text in value.items())
        elif isinstance(value, tuple | list):
            found[each.name] = ", ".join(map(str, value))
        else:
            found[each.name] = str(value)
    return found


def moved_from_of(source: object) -> str | None:
    """Return the place from which a source was moved; None if it was not."""
    return str(source.moved_from) if isinstance(source, Moved) and source.moved_from is not None else None


def differences(before: Identity, now: Identity, moved_from: str | None) -> Iterator[str]:
    """Yield the keys in which two identities differ, after a declared move."""
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        if old != new and not _is_moved(key, old, new, moved_from):
            yield key


def described(identity: Identity) -> str:
    """Return an identity for messages.

    >>> described({"kind": "files", "place": "/in", "format": "csv"})
    "files '/in' (format csv)"
    """
    more = [f"{key} {value}" for key, value in identity.items() if key not in ("kind", "place") and value]
    place = f" '{identity['place']}'" if "place" in identity else ""
    options = f" ({', '.join(more)})" if more else ""
    return f"{identity.get('kind', 'a source')}{place}{options}"


def _is_moved(key: str, old: str | None, new: str | None, moved_from: str | None) -> bool:
    if key == "servers" and old and new and set(old.split(",")) & set(new.split(",")):
        return True  # a server in common is the same cluster
    if moved_from is None or key not in ("place", "servers"):
        return False
    return old == (recorded_place(moved_from) if key == "place" else moved_from)
