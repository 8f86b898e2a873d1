"""A flow's custom root times, read from the user's code only.

For epochs the judge has arithmetic of its own. Where a flow brings its own order of root times
(``ps.Dataflow(..., times=...)``), only that order can say what lies below what, and only the user's root
summaries can say where a time comes out; so these are called as they are: ``minimum`` and ``less_equal`` of
the order, ``results_in`` of the summaries. Rounds and constants stay the judge's own arithmetic.

Taken for granted, because no judge can check it for all times: the order is a partial order, and summaries
are monotone. Where they are not, real messages come too late sooner or later, and that is judged. A summary
may answer None: no row takes that way. Frontiers may hold times that no row ever has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import le
from typing import Any, Protocol, TypeAlias


class RootOrder(Protocol):
    """The methods of a user's order that the judge calls."""

    def minimum(self) -> Any:  # noqa: ANN401 - a root time of any type
        """The least time."""
        ...

    def less_equal(self, a: Any, b: Any, /) -> bool:  # noqa: ANN401 - as above
        """Whether one time is at or before another."""
        ...


class RootMove(Protocol):
    """The method of a user's root summary that the judge calls."""

    def results_in(self, time: Any, /) -> Any:  # noqa: ANN401 - as above
        """Return the resulting time; None if the path is not taken."""
        ...


Stamp: TypeAlias = tuple[Any, ...]
"""A time: the root time, by default the epoch, then one round for each loop around the port."""

Move: TypeAlias = Callable[[Stamp], Stamp | None]
"""What becomes of a time on its way over an edge; None where nothing takes that way."""


@dataclass(frozen=True, slots=True)
class OwnTimes:
    """A user's order of root times, and the root summaries of a flow, numbered as its edges name them."""

    order: RootOrder
    summaries: tuple[RootMove, ...]

    def below(self, a: Stamp, b: Stamp) -> bool:
        """Whether a <= b in the product of the user's order and the order of rounds."""
        return bool(self.order.less_equal(a[0], b[0])) and all(map(le, a[1:], b[1:]))

    def move(self, summary: int | None, add: tuple[int, ...], append: tuple[int, ...]) -> Move:
        """The effect of an edge: a numbered summary, or an increment."""
        later, *rounds = add
        if summary is not None:
            results_in = self.summaries[summary].results_in
        elif later:
            results_in = later.__add__
        else:
            if not any(rounds) and not append:
                kept = len(add)
                return lambda time: time[:kept]
            results_in = _itself

        def move(time: Stamp) -> Stamp | None:
            root = results_in(time[0])
            if root is None:
                return None
            return (root, *(t + n for t, n in zip(time[1:], rounds, strict=False)), *append)

        return move


def _itself(time: Any) -> Any:  # noqa: ANN401 - a root time of any type
    return time
