"""Stacks as times, for recursion (Abadi & Isard 2015, section 3.4).

A flow that calls itself has times ("call", stack) on the way down and ("return", stack) on the way up; a
stack lists the call sites that are open. A call pushes its site, a return pops one, and where calls turn
into returns the least time that a call can result in is a return of the greatest depth: as long as a call
is open, returns of every depth may still come. A number in place of a stack stands for every stack of that
depth; only frontiers have it.

The order compares depths: shallow calls before deep ones, calls before returns, deep returns before
shallow ones, and different stacks of one depth are incomparable. That relates more times than the paper's
relation does, which is safe: completion is told later, never too early. Times deeper than the limit take
no path.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from pointstamp.topology.summary import Summary

StackTime: TypeAlias = tuple[str, Any]
"""("call" or "return", the stack as a tuple of call sites, or a depth for all stacks of that depth)."""


@dataclass(frozen=True, slots=True)
class Stacks:
    """The order of stack times, up to a greatest depth."""

    deepest: int = 64

    def minimum(self) -> StackTime:
        """The first call, with nothing open."""
        return ("call", ())

    def less_equal(self, a: StackTime, b: StackTime, /) -> bool:
        """Whether a is b, or of an earlier rank, or stands for all stacks of b's rank."""
        rank_a, rank_b = self._rank(a), self._rank(b)
        return a == b or rank_a < rank_b or (rank_a == rank_b and isinstance(a[1], int))

    def sort_key(self, time: StackTime, /) -> tuple[int, bool, str]:
        """By rank, with what stands for a whole depth before its stacks."""
        return (self._rank(time), not isinstance(time[1], int), str(time[1]))

    def push(self, site: str) -> Summary:
        """What happens to the time of a call on its way into the call site."""
        return Summary(root=StackMoves(self.deepest, (site,)))

    def pop(self) -> Summary:
        """What happens to the time of a return on its way back to the caller."""
        return Summary(root=StackMoves(self.deepest, (_POP,)))

    def turn(self) -> Summary:
        """What happens between receiving calls and sending returns."""
        return Summary(root=StackMoves(self.deepest, (_TURN,)))

    def _rank(self, time: StackTime) -> int:
        depth = _depth(time)
        return depth if time[0] == "call" else 2 * self.deepest + 1 - depth


_TURN = "<turn>"
_POP = "<pop>"


@dataclass(frozen=True, slots=True)
class StackMoves:
    """A path: call sites to push, at most one turn before everything else, then pops."""

    deepest: int
    steps: tuple[str, ...]

    def results_in(self, time: StackTime, /) -> StackTime | None:
        """The least time at the end of the path; None where no row can take it."""
        moved: StackTime | None = time
        for step in self.steps:
            if moved is None:
                return None
            moved = self._step(moved, step)
        return moved

    def _step(self, time: StackTime, step: str) -> StackTime | None:
        phase, stack = time
        if step == _POP:
            if phase == "call":
                # The least that any return above this call pops to: None here would hide those returns.
                return ("return", self.deepest - 1) if self.deepest else None
            if not _depth(time):
                return None  # nobody to return to
            return ("return", stack - 1 if isinstance(stack, int) else stack[:-1])
        if phase == "return":
            return None  # nobody calls on the way up
        if step == _TURN:
            return ("return", self.deepest)
        return ("call", (*stack, step)) if len(stack) < self.deepest else None

    def followed_by(self, other: "StackMoves", /) -> "StackMoves":
        """Both paths; a turn forgets what was pushed before it, because its result does not depend on it."""
        return other if other.steps[0] == _TURN else StackMoves(self.deepest, self.steps + other.steps)

    def less_equal(self, other: "StackMoves", /) -> bool:
        """Whether the other path begins with this one: every further step leads later."""
        return self.steps == other.steps[: len(self.steps)]

    def advances(self) -> bool:
        """True: pushing, turning and popping all lead strictly later."""
        return True


def _depth(time: StackTime) -> int:
    return time[1] if isinstance(time[1], int) else len(time[1])
