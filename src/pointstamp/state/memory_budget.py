"""The memory limit of operator state, and spilling beyond it.

What can go to disk joins the budget of its worker, and tells it after each change how much it takes. Beyond
the limit the largest parts of all members are written to files and mapped, until there is some room again.
The files have no names: their disk space is free again when nothing reads them any more, or when the process
ends, however it ends.

Invariant: after a change has settled, members take no more than the limit, or have nothing left to write.
"""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from pointstamp.errors import FlowError, StorageError

_UNITS: Final = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
# What is made in memory at once is a small part of the limit, and its texts fit one column of Arrow's.
_PIECES_MIN: Final = 8
_PIECE_BYTES_MAX: Final = 1 << 30
# Where Spark lets its executors write, one folder or several.
_SPARK_FOLDERS: Final = "SPARK_LOCAL_DIRS"


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """The memory limit of a worker's state, and the spill folder; None for a temporary one."""

    size_bytes: int
    folder: str | None = None


def memory_limit(size: int | str, folder: str | os.PathLike[str] | None, flow: str) -> MemoryLimit:
    """A limit as a user writes it; FlowError where that is none.

    >>> memory_limit("1.5 GB", None, "flow").size_bytes, memory_limit("64MiB", None, "flow").size_bytes
    (1500000000, 67108864)
    """
    found = _SIZE.fullmatch(size if isinstance(size, str) else str(size))
    unit = None if found is None else _UNITS.get(found[2].lower())
    if found is None or unit is None or isinstance(size, bool) or float(found[1]) <= 0:
        raise FlowError(
            f"flow '{flow}': the memory limit must be a positive number of bytes, or a text such as "
            f"'512MB', '2 GB' or '64MiB', got {size!r}. Give one of these."
        )
    return MemoryLimit(
        max(int(float(found[1]) * unit), 1), None if folder is None else os.path.abspath(folder)
    )


class Spills(Protocol):
    """State in parts that can be spilled to disk."""

    @property
    def memory_bytes(self) -> int:
        """Return the bytes in memory."""
        ...

    @property
    def largest_bytes(self) -> int:
        """Return the bytes of the largest part that can be spilled; 0 if none can."""
        ...

    def spill_largest(self) -> None:
        """Write that part to a file, and map it."""
        ...


@runtime_checkable
class KeepsWithin(Protocol):
    """Something in an operator that can stay within a budget; default: it counts for nothing."""

    def keep_within(self, budget: "MemoryBudget", /) -> None:
        """Join the budget."""
        ...


class MemoryBudget:
    """The memory of one worker for what its operators keep; changed by those that joined."""

    def __init__(self, limit: MemoryLimit, flow: str) -> None:
        self.limit_bytes = limit.size_bytes
        self.piece_bytes_max = min(limit.size_bytes // _PIECES_MIN, _PIECE_BYTES_MAX)
        """More than this is not made in memory at once."""
        self.folder = _folder(limit, flow)
        self._held: dict[Spills, int] = {}
        self._total = 0

    @property
    def held_bytes(self) -> int:
        """The last reported bytes of its members."""
        return self._total

    def join(self, member: Spills) -> None:
        """Count a member from now on."""
        self._held.setdefault(member, 0)

    def has_room(self, size_bytes: int) -> bool:
        """Return whether something of this size may be made in memory."""
        return size_bytes <= self.piece_bytes_max and self._total + size_bytes <= self.limit_bytes

    def settle(self, member: Spills) -> None:
        """A member has changed: beyond the limit, write what is largest."""
        self._count(member)
        if self._total <= self.limit_bytes:
            return
        # Some room is left, so that not every change has to write something.
        while self._total > self.limit_bytes - self.piece_bytes_max:
            largest = max(self._held, key=lambda each: each.largest_bytes)
            if not largest.largest_bytes:
                return
            largest.spill_largest()
            self._count(largest)

    def _count(self, member: Spills) -> None:
        size = member.memory_bytes
        self._total += size - self._held[member]
        self._held[member] = size


def within(budget: MemoryBudget, operator: Any) -> None:  # noqa: ANN401 - whatever a user's operator is
    """Let what an operator keeps, and can write to disk, stay within a budget."""
    for value in attributes_of(operator).values():
        for each in value.values() if isinstance(value, dict) else (value,):
            if isinstance(each, KeepsWithin):
                each.keep_within(budget)


def attributes_of(operator: object) -> dict[str, Any]:
    """Return the attributes of an operator; nothing of one that has slots."""
    try:
        return vars(operator)
    except TypeError:
        return {}


def _folder(limit: MemoryLimit, flow: str) -> str:
    given = limit.folder
    if given is None:
        given = os.environ.get(_SPARK_FOLDERS, "").split(",")[0] or tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=given):
            return given
    except OSError as error:
        raise StorageError(
            f"flow '{flow}': the folder '{given}' for spilled state is not writable: {error.strerror}. "
            "Name a folder that every worker can write to."
        ) from error


# Report the state of operators in rows and bytes.
#
# What can say how much it keeps has an attribute ``kept_rows``. An operator need say nothing itself: every
# such thing among its attributes, or in a mapping that is one, is shown under the attribute's name. Asking
# costs a few additions, whatever is kept. What is only read here, and kept elsewhere, has an attribute
# ``is_borrowed`` that is true: it is shown there.


class KeptRows(NamedTuple):
    """Return the number of rows in state, including cancelled rows that are not merged yet."""

    rows: int
    size_bytes: int
    mapped_bytes: int = 0
    """The number of these bytes in files, because memory is limited."""

    def plus(self, other: "KeptRows") -> "KeptRows":
        """Both together."""
        return KeptRows(
            self.rows + other.rows,
            self.size_bytes + other.size_bytes,
            self.mapped_bytes + other.mapped_bytes,
        )


class KeyRows(NamedTuple):
    """A key as text, and how many rows it has."""

    key: str
    rows: int


@runtime_checkable
class KeepsRows(Protocol):
    """A structure that can say how much it keeps."""

    @property
    def kept_rows(self) -> KeptRows:
        """Return the current number of rows."""
        ...


@runtime_checkable
class KnowsLargestKeys(KeepsRows, Protocol):
    """A structure that can name its largest keys, with little work whatever it keeps."""

    def largest_keys(self, most: int) -> list[KeyRows]:
        """The keys with the most rows, as far as a sample finds them, the largest first."""
        ...


def kept_by(operator: Any) -> dict[str, KeptRows]:  # noqa: ANN401 - whatever a user's operator is
    """Return the state sizes of an operator by name; empty if unknown.

    >>> class Kept:
    ...     kept_rows = KeptRows(3, 24)
    >>> class Operator:
    ...     def __init__(self):
    ...         self._rows, self._sides, self.name = Kept(), {"left": Kept()}, "join"
    >>> {name: kept.rows for name, kept in kept_by(Operator()).items()}
    {'rows': 3, 'left': 3}
    """
    return {name: each.kept_rows for name, each in _keepers(operator) if not _is_borrowed(each)}


def largest_keys_by(operator: Any, most: int) -> dict[str, list[KeyRows]]:  # noqa: ANN401 - as above
    """The largest keys of what an operator keeps, by the names of ``kept_by``, if they are known."""
    return {
        name: found
        for name, each in _keepers(operator)
        if isinstance(each, KnowsLargestKeys) and not _is_borrowed(each)
        if (found := each.largest_keys(most))
    }


@runtime_checkable
class _Borrows(Protocol):
    """The parts of the state that are only read here and kept elsewhere; default: none."""

    @property
    def is_borrowed(self) -> bool:
        """Whether it is kept elsewhere."""
        ...


def _is_borrowed(keeper: object) -> bool:
    return isinstance(keeper, _Borrows) and keeper.is_borrowed


def _keepers(operator: object) -> Iterator[tuple[str, KeepsRows]]:
    for name, value in attributes_of(operator).items():
        if isinstance(value, KeepsRows):
            yield name.strip("_"), value
        elif isinstance(value, Mapping):
            for key, each in value.items():
                if isinstance(each, KeepsRows):
                    yield str(key), each
