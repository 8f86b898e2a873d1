"""Stacks as times, for recursion (Abadi & Isard 2015, section 3.4).

A flow that calls itself has times ("call", stack) where a call begins and ("return", stack) where it ends; a
stack lists the call sites that are open. A call pushes its site, a return pops one. Call sites may be made in
steps, each after the returns of the step before: what comes back from step 0 to a stack is then at
("step 1", stack), from where the sites of step 1 are called, and so on; what comes back from the last step is
at ("return", stack). So a call may follow a return, and its argument may depend on what was returned.

The order is the paper's leads-to where the sites of one step stand side by side: two stacks are compared
where they differ first. What happens inside a call lies after the call began and before it returns to its
step; calls of an earlier step lie before those of a later one; calls of different sites of one step are
incomparable. A flow whose sites follow each other in a cycle has no such order, and a row that is sent that
way is refused.

What a row does is not monotone in this order: of two calls, the later one may be pushed beside the earlier
one. So a path has two answers. ``row_in`` says exactly what becomes of a row. ``results_in`` says what
progress may conclude: after any move something later than before can come, and nothing is known beyond that,
except where a return is popped. Such a lower bound has a third part, how many moves were made since; only
frontiers hold it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pointstamp.errors import FlowError, LoopError
from pointstamp.topology.summary import Summary

StackTime: TypeAlias = tuple[Any, ...]
"""("call", "step 1", ... or "return", the stack as a tuple of call sites); bounds also count moves."""

_CALL: Final = "call"
_RETURN: Final = "return"
_STEP: Final = "step "


@dataclass(frozen=True, slots=True)
class Stacks:
    """The order of stack times, up to a greatest depth.

    ``steps`` says which call sites are called after the returns of which, ``("first", "second")`` or with
    several in one step ``(("left", "right"), "both")``. Without it all sites are in one step.

        >>> times = Stacks(steps=("first", "second"))
        >>> times.less_equal(("return", ("first",)), ("call", ("second",)))
        True
        >>> times.less_equal(("call", ("first",)), ("call", ("second", "first")))
        True
        >>> Stacks().less_equal(("call", ("left",)), ("return", ("right",)))
        False
    """

    deepest: int = 64
    steps: Sequence[str | Sequence[str]] = ()

    def __post_init__(self) -> None:
        groups = tuple((each,) if isinstance(each, str) else tuple(each) for each in self.steps)
        sites = [site for group in groups for site in group]
        if len(set(sites)) < len(sites):
            raise FlowError(
                f"stack times: each call site must occur once in the steps, got {groups}. Name each site "
                "once."
            )
        object.__setattr__(self, "steps", groups)

    def minimum(self) -> StackTime:
        """The first call, with nothing open."""
        return (_CALL, ())

    def less_equal(self, a: StackTime, b: StackTime, /) -> bool:
        """Return whether a is b, or lies before it where the two differ first."""
        if a == b:
            return True
        for (place, mark), (other, their_mark) in zip(self.sort_key(a), self.sort_key(b), strict=False):
            if place != other:
                return place < other
            if mark != their_mark:
                # Inside calls of one step: side by side. At the same place of one frame: by the moves since.
                return place % 2 == 0 and mark < their_mark
        raise AssertionError(f"{a} and {b} differ nowhere")

    def sort_key(self, time: StackTime, /) -> tuple[tuple[int, Any], ...]:
        """For each open call its step and site, then how far the newest one is; compared from the oldest on.

        Calls of step s stand at 2 s + 1, between the places where s and s + 1 steps have returned.
        """
        place, stack = 2 * self._steps_done(time[0]), time[1]
        moves = time[2] if len(time) > 2 else 0
        if len(self.steps) < 2:
            return (*((1, site) for site in stack), (place, moves))
        return (*((2 * self.step_of(site) + 1, site) for site in stack), (place, moves))

    def push(self, site: str) -> Summary:
        """Return the summary of a call into a call site."""
        self.step_of(site)
        return Summary(root=StackMoves(self, (("push", site),)))

    def pop(self, site: str | None = None) -> Summary:
        """Return the summary of a return to the caller.

        With a call site, only calls from there come back this way, as at the paper's ret-c.
        """
        if site is not None:
            self.step_of(site)
        return Summary(root=StackMoves(self, (("pop", site),)))

    def turn(self) -> Summary:
        """Return the summary from calls to returns, which have the same or later times."""
        return Summary()

    def step_of(self, site: str) -> int:
        """The number of the step in which a call site is called."""
        if not self.steps:
            return 0
        for number, group in enumerate(self.steps):
            if site in group:
                return number
        known = " then ".join(" or ".join(f"'{each}'" for each in group) for group in self.steps)
        raise FlowError(
            f"stack times have no call site '{site}'; their steps are {known}. Add it to the steps."
        )

    def may_call(self, site: str, time: StackTime) -> bool:
        """Return whether a site may be called at a time: the step that it is in has not returned yet."""
        return self._steps_done(time[0]) <= self.step_of(site)

    def after_return(self, stack: tuple[str, ...]) -> StackTime:
        """Return the call site of the newest call of a stack."""
        done = self.step_of(stack[-1]) + 1
        return (_RETURN if done == max(len(self.steps), 1) else f"{_STEP}{done}", stack[:-1])

    def _steps_done(self, phase: str) -> int:
        """The number of steps of a call that have returned."""
        if phase == _CALL:
            return 0
        return max(len(self.steps), 1) if phase == _RETURN else int(phase.removeprefix(_STEP))


@dataclass(frozen=True, slots=True)
class StackMoves:
    """A path: pushes and pops of call sites, one after the other; None pops any site."""

    order: Stacks
    moves: tuple[tuple[str, str | None], ...]

    def results_in(self, time: StackTime, /) -> StackTime | None:
        """Return a lower bound of the output times from now on; None if there are none."""
        moved: StackTime | None = time
        for act, site in self.moves:
            if moved is None:
                return None
            moved = self._bound(moved, act, site)
        return moved

    def row_in(self, time: StackTime, /) -> StackTime | None:
        """Return the time at which a row leaves; None if it does not return here."""
        moved: StackTime | None = time
        for act, site in self.moves:
            if moved is None:
                return None
            moved = self._pushed(moved, site) if act == "push" and site else self._popped(moved, site)
        return moved

    def followed_by(self, other: "StackMoves", /) -> "StackMoves":
        """Both paths, one after the other."""
        return StackMoves(self.order, self.moves + other.moves)

    def less_equal(self, other: "StackMoves", /) -> bool:
        """Return whether the other path begins with this one: every further move leads later."""
        return self.moves == other.moves[: len(self.moves)]

    def advances(self) -> bool:
        """True: pushing and popping lead strictly later."""
        return True

    def _bound(self, time: StackTime, act: str, site: str | None) -> StackTime | None:
        phase, stack = time[:2]
        if phase == _RETURN and not stack:
            return None  # nothing is later than the return of the first call
        if phase == _RETURN and act == "pop" and site in (None, stack[-1]):
            return self.order.after_return(stack)
        return (phase, stack, time[2] + 1 if len(time) > 2 else 1)

    def _pushed(self, time: StackTime, site: str) -> StackTime:
        stack = time[1]
        if not self.order.may_call(site, time):
            raise FlowError(
                f"call site '{site}' was called at {time}, where the calls of its step have returned; a "
                "call may follow a return only if the call sites are in steps. Give the order of the "
                f"sites, for example ps.timely.Stacks(steps=('first', '{site}'))."
            )
        if len(stack) >= self.order.deepest:
            raise LoopError(
                f"call site '{site}' was called in a stack of {len(stack)} open calls, but deepest is "
                f"{self.order.deepest}. Raise deepest, or look for the call that does not end."
            )
        return (_CALL, (*stack, site))

    def _popped(self, time: StackTime, site: str | None) -> StackTime | None:
        phase, stack = time[:2]
        if phase != _RETURN:
            raise FlowError(
                f"a row arrived at {time}, which is not the time of a return. Send what a call returns at "
                f"(('return', {stack}),)."
            )
        if not stack or site not in (None, stack[-1]):
            return None
        return self.order.after_return(stack)
