"""Time domains: the valid times of a port, and their order.

A time is a tuple ``(root, round, round, ...)``: the root time first, by default the epoch, then one round
for each loop around the port, outermost first. The order is the product order. Each port has a domain of
its own; times of different lengths are never compared, and padding them to one length would be wrong,
because leaving a loop would then take time back from (e, 3) to (e, 0).

The root may be any partial order that a user supplies (``TimeOrder``); what moves a root time along a path
is a ``RootSummary``.

    >>> inside = Domain(EPOCHS, rounds=1)
    >>> inside.less_equal((0, 9), (1, 0)), inside.less_equal((0, 9), (1, 9))
    (False, True)
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from operator import le
from typing import Any, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

from pointstamp.errors import FlowError
from pointstamp.order.partial import Naturals, PartialOrder, less_equal_2
from pointstamp.topology.times import less_equal_n

Time: TypeAlias = tuple[Any, ...]
"""A root time followed by one round for each enclosing loop."""

T = TypeVar("T", bound=Hashable)


@runtime_checkable
class TimeOrder(PartialOrder[T], Protocol[T]):
    """A custom order of root times: a partial order with a least element.

    ``sort_key`` must not decrease along any path of a flow: if a summary leads from a to b,
    ``sort_key(a) <= sort_key(b)``, and strictly less if the summary advances.
    """

    def minimum(self) -> T:
        """Return the least time, at which every output starts."""
        ...


@runtime_checkable
class RootSummary(Protocol):
    """A monotone, non-decreasing function of root times along a path.

    ``results_in`` and ``followed_by`` answer None where no time can take the path. None counts as later than
    every time: where it is the answer for a time, it must be the answer for all later times, too.
    """

    def results_in(self, time: Any, /) -> Any | None:  # noqa: ANN401 - the user's time type
        """Return the least time at which input at ``time`` can leave the path."""
        ...

    def followed_by(self, other: Any, /) -> Any | None:  # noqa: ANN401 - the user's summary type
        """Return the summary of this path followed by another one."""
        ...

    def less_equal(self, other: Any, /) -> bool:  # noqa: ANN401 - the user's summary type
        """Return whether this summary leads to a lower or equal time, for every time."""
        ...

    def advances(self) -> bool:
        """Return whether every time is strictly advanced."""
        ...


@runtime_checkable
class MovesRows(Protocol):
    """A root summary that knows more about one row than it can say about everything that comes later."""

    def row_in(self, time: Any, /) -> Any | None:  # noqa: ANN401 - the user's time type
        """Return the time at which a row leaves the path, at or after ``results_in``; None if never.

        A row that must not be sent this way raises FlowError.
        """
        ...


@dataclass(frozen=True, slots=True)
class Epochs(Naturals):
    """The default root times: the integers from 0, one per batch of input."""

    def minimum(self) -> int:
        """Epoch 0."""
        return 0


EPOCHS: Final = Epochs()


class Domain:
    """The times at a port: a root order, and how many loops stand around the port. Never changes.

    ``less_equal`` and ``sort_key`` are chosen once, when the domain is made: comparing times is most of
    what progress tracking does, and for epochs a comparison of tuples does it.
    """

    __slots__ = ("less_equal", "root", "rounds", "sort_key")

    less_equal: Callable[[Time, Time], bool]
    """Whether every coordinate of the first time is less or equal to that of the second."""

    sort_key: Callable[[Time], Any]
    """Lexicographic: a linear extension of the product order."""

    def __init__(self, root: TimeOrder[Any], rounds: int = 0) -> None:
        self.root = root
        self.rounds = rounds
        if type(root) is Epochs:  # a subclass may order its times in its own way
            self.less_equal = (le, less_equal_2)[rounds] if rounds < 2 else less_equal_n
            self.sort_key = _itself
        else:
            self.less_equal = _product_with(root)
            self.sort_key = lambda time: (root.sort_key(time[0]), *time[1:])

    def chain(self, time: Time, /) -> Hashable:
        """Times with the same rounds lie on one chain, if their root times do."""
        chain_of_root = getattr(self.root, "chain", _itself)
        return (chain_of_root(time[0]), time[1:])

    def has(self, time: object) -> bool:
        """Return whether this can stand here: a root time, then an integer for each loop."""
        if not isinstance(time, tuple) or len(time) != self.rounds + 1:
            return False
        for each in time if type(self.root) is Epochs else time[1:]:  # noqa: SIM110 - all() takes longer
            if type(each) is not int:
                return False
        return True

    def check(self, time: object, who: str) -> None:
        """Raise FlowError unless this can stand here.

        The message begins with ``who``: who did what. Times that only look alike would be compared as if they
        belonged to this domain: (0.5,) lies between two epochs, (0, 1) after (0,), and where they do not
        belong are not waited for either.
        """
        if self.has(time):
            return
        is_counted = type(self.root) is Epochs
        if isinstance(time, tuple) and len(time) == self.rounds + 1:
            other = [each for each in (time if is_counted else time[1:]) if type(each) is not int]
            came = f"{time} with {other[0]!r} of type {type(other[0]).__name__} in it"
        else:
            came = repr(time)
        shape = ", ".join(["epoch" if is_counted else "root time", *["round"] * self.rounds])
        raise FlowError(
            f"{who} {came}; expected a tuple "
            f"({shape}{',' if not self.rounds else ''}){' of Python integers' if is_counted else ''}. "
            "Give such a time."
        )

    def minimum(self) -> Time:
        """The least time: the least root time, in round 0 of every loop."""
        return (self.root.minimum(), *(0,) * self.rounds)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self.rounds == other.rounds and bool(self.root == other.root)

    def __hash__(self) -> int:
        return hash((self.root, self.rounds))

    def __reduce__(self) -> tuple[type["Domain"], tuple[TimeOrder[Any], int]]:
        return Domain, (self.root, self.rounds)

    def __repr__(self) -> str:
        return f"Domain({self.root!r}, rounds={self.rounds})"

    def __str__(self) -> str:
        root = "epoch" if isinstance(self.root, Epochs) else type(self.root).__name__
        return "(" + ", ".join([root, *(f"round {i + 1}" for i in range(self.rounds))]) + ")"


def _product_with(root: TimeOrder[Any]) -> Callable[[Time, Time], bool]:
    def less_equal(a: Time, b: Time) -> bool:
        return bool(root.less_equal(a[0], b[0])) and all(map(le, a[1:], b[1:]))

    return less_equal


def _itself(time: Any) -> Any:  # noqa: ANN401 - any time
    return time
