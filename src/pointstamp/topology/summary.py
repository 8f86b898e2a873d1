"""Path summaries: how a path changes times, in a normal form.

A summary keeps the first coordinates of a time and adds to them, drops the others, and appends constants.
Entering a loop appends round 0, leaving it drops the round, feedback adds one to the last round, and every
composition of these has the same form, so that composing and comparing summaries is arithmetic. The root
coordinate is always kept; what is added to it is a number of epochs, or a user's own ``RootSummary``.

A summary answers None where no time can take the path: only a user's root summary can cause that.

    >>> str(ENTER.followed_by(feedback(1)))
    '(t, 1)'
    >>> feedback(1).results_in((4, 7)), LEAVE.results_in((4, 7))
    ((4, 8), (4,))
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from pointstamp.topology.domain import Domain, MovesRows, RootSummary, Time
from pointstamp.topology.times import mover


@dataclass(frozen=True, slots=True)
class Advance:
    """The root summary of epochs: add a number of epochs."""

    epochs: int = 0

    def results_in(self, time: int, /) -> int:
        """The epoch that many later."""
        return time + self.epochs

    def followed_by(self, other: "Advance", /) -> "Advance":
        """The sum of both."""
        return Advance(self.epochs + other.epochs)

    def less_equal(self, other: "Advance", /) -> bool:
        """Return whether this adds no more than the other."""
        return self.epochs <= other.epochs

    def advances(self) -> bool:
        """Return whether at least one epoch is added."""
        return self.epochs > 0


@dataclass(frozen=True, slots=True)
class Stay:
    """The root summary that changes nothing, in every order of times."""

    def results_in(self, time: object, /) -> object:
        """The time itself."""
        return time

    def followed_by(self, other: RootSummary, /) -> RootSummary:
        """The other one."""
        return other

    def less_equal(self, other: RootSummary, /) -> bool:
        """True: no summary takes time back, so staying is the least of all."""
        return True

    def advances(self) -> bool:
        """False: the time stays."""
        return False


STAY: Final = Stay()


@dataclass(frozen=True, slots=True)
class Summary:
    """Keep ``1 + len(increments)`` coordinates, add to them, append constants.

    ``increments`` belong to the rounds that are kept, outermost first; the root coordinate is moved by
    ``root``. From a domain with n rounds it leads to one with ``len(increments) + len(appended)`` rounds.
    """

    increments: tuple[int, ...] = ()
    appended: tuple[int, ...] = ()
    root: RootSummary = field(default=STAY)

    def results_in(self, time: Time) -> Time | None:
        """Return the least time at which input at ``time`` can leave the path."""
        root = self.root.results_in(time[0])
        if root is None:
            return None
        kept = (time[i] + added for i, added in enumerate(self.increments, start=1))
        return (root, *kept, *self.appended)

    def compiled(self) -> Callable[[Time], Time | None]:
        """A faster function with the same results, where the root stays and at most one round is kept."""
        if self.root is not STAY or len(self.increments) > 1:
            return self.results_in
        return mover(self.increments, self.appended)

    def for_rows(self) -> Callable[[Time], Time | None]:
        """Return the time of a row after the path; a root summary may be more exact."""
        root = self.root
        if not isinstance(root, MovesRows):
            return self.compiled()
        rounds = Summary(self.increments, self.appended).compiled()

        def moved(time: Time) -> Time | None:
            after = root.row_in(time[0])
            return None if after is None else rounds((after, *time[1:]))

        return moved

    def followed_by(self, other: "Summary") -> "Summary | None":
        """The summary of this path with another one after it; None where nothing can take both."""
        root = other.root if self.root is STAY else self.root
        if self.root is not STAY and other.root is not STAY:
            followed = self.root.followed_by(other.root)
            if followed is None:
                return None
            root = followed
        coordinates = self.increments + self.appended
        kept = tuple(x + y for x, y in zip(coordinates, other.increments, strict=False))
        split = min(len(self.increments), len(other.increments))
        return Summary(kept[:split], kept[split:] + other.appended, root)

    def less_equal(self, other: "Summary") -> bool:
        """Return whether this leads to a lower or equal time than the other, whatever the time.

        Both lead to domains of one length. A kept round against a constant: rounds start at 0 and have no
        bound, so a constant can be below a kept round, and a kept round never below a constant.
        """
        mine, theirs = len(self.increments), len(other.increments)
        if mine > theirs or not _root_less_equal(self.root, other.root):
            return False
        pairs = zip(self.increments + self.appended, other.increments + other.appended, strict=True)
        return all(x <= y for x, y in pairs)

    def advances(self, coordinate: int) -> bool:
        """Return whether this coordinate (0 is the root) is kept and strictly advanced."""
        if coordinate == 0:
            return self.root.advances()
        return coordinate <= len(self.increments) and self.increments[coordinate - 1] > 0

    def keeps(self, coordinate: int) -> bool:
        """Return whether this coordinate of the time (0 is the root) reaches the end of the path."""
        return coordinate <= len(self.increments)

    def fits(self, origin: Domain, target: Domain) -> bool:
        """Return whether this leads from times of one domain to times of the other, by their lengths."""
        kept = len(self.increments)
        return kept <= origin.rounds and kept + len(self.appended) == target.rounds

    def is_identity(self, origin: Domain) -> bool:
        """Return whether every time of the domain is unchanged."""
        return (
            self.root is STAY
            and not self.appended
            and len(self.increments) == origin.rounds
            and not any(self.increments)
        )

    def __str__(self) -> str:
        if isinstance(self.root, Stay):
            root = "t"
        elif isinstance(self.root, Advance):
            root = f"t+{self.root.epochs}"
        else:
            root = f"{self.root}(t)"
        kept = [f"r{i}+{n}" if n else f"r{i}" for i, n in enumerate(self.increments, start=1)]
        return "(" + ", ".join([root, *kept, *(str(constant) for constant in self.appended)]) + ")"


def _root_less_equal(a: RootSummary, b: RootSummary) -> bool:
    if a is STAY:
        return True
    if b is STAY:
        # Only a summary that stays as well can be below one that stays.
        return isinstance(a, Advance) and not a.epochs
    return a.less_equal(b)


def identity(rounds: int = 0) -> Summary:
    """Nothing must happen to a time: the summary of an ordinary operator in that many loops."""
    return Summary((0,) * rounds)


def enter(rounds: int = 0) -> Summary:
    """From a domain with that many rounds into a loop: round 0 is appended."""
    return Summary((0,) * rounds, (0,))


def leave(rounds: int = 1) -> Summary:
    """Out of the innermost of that many loops: its round is dropped."""
    return Summary((0,) * (rounds - 1))


def feedback(rounds: int = 1, step: int = 1) -> Summary:
    """Once round the innermost of that many loops: its round grows by ``step``."""
    return Summary((*(0,) * (rounds - 1), step))


def delay(epochs: int, rounds: int = 0) -> Summary:
    """Return a summary that delays times by a number of epochs.

    Args:
        epochs: The number of epochs.
        rounds (int, default 0): The number of loops around the path; their rounds stay.

    Examples:
        >>> print(ps.timely.delay(1).results_in((3,)))
        (4,)

    """
    return Summary((0,) * rounds, root=Advance(epochs) if epochs else STAY)


ENTER: Final = enter()
LEAVE: Final = leave()


def insert_minimal(antichain: list[Summary], summary: Summary) -> bool:
    """Add a summary to an antichain in place; return False if a lower one exists."""
    if any(lower.less_equal(summary) for lower in antichain):
        return False
    antichain[:] = [upper for upper in antichain if not summary.less_equal(upper)]
    antichain.append(summary)
    return True


def minimal(summaries: Iterable[Summary]) -> tuple[Summary, ...]:
    """The minimal ones of these summaries, which lead between the same two domains."""
    kept: list[Summary] = []
    for summary in summaries:
        insert_minimal(kept, summary)
    return tuple(kept)
