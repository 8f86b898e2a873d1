"""Report the state of operators in rows and bytes.

What can say how much it keeps has an attribute ``kept_rows``. An operator need say nothing itself: every such
thing among its attributes, or in a mapping that is one, is shown under the attribute's name. Asking costs a
few additions, whatever is kept. What is only read here, and kept elsewhere, has an attribute ``is_borrowed``
that is true: it is shown there.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable


class KeptRows(NamedTuple):
    """Return the number of rows in state, including cancelled rows that are not merged yet."""

    rows: int
    size_bytes: int
    mapped_bytes: int = 0
    """How many of these bytes lie in files, because memory is limited."""

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
    return {
        name: each.kept_rows for name, each in _keepers(operator) if not getattr(each, "is_borrowed", False)
    }


def largest_keys_by(operator: Any, most: int) -> dict[str, list[KeyRows]]:  # noqa: ANN401 - as above
    """The largest keys of what an operator keeps, by the names of ``kept_by``, if they are known."""
    return {
        name: found
        for name, each in _keepers(operator)
        if isinstance(each, KnowsLargestKeys) and not getattr(each, "is_borrowed", False)
        if (found := each.largest_keys(most))
    }


def _keepers(operator: object) -> Iterator[tuple[str, KeepsRows]]:
    for name, value in getattr(operator, "__dict__", {}).items():
        if isinstance(value, KeepsRows):
            yield name.strip("_"), value
        elif isinstance(value, Mapping):
            for key, each in value.items():
                if isinstance(each, KeepsRows):
                    yield str(key), each
