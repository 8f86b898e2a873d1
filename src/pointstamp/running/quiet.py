"""Detect from outside that no worker has anything left to do.

Workers are asked in waves. A worker answers when it has nothing to do, with how many messages it has sent to
other workers and received from them, ever. A wave in which as many were received as were sent says little,
because the answers are of different moments. Two waves in a row with the same, balanced totals say that
nothing was on its way between them: every message that was sent before a worker's first answer was received
before another's second one, and no worker has sent or received since (Mattern 1987, the four counter method).

Invariant: ``is_reached`` only while nothing was ordered since the first of the two waves.
"""


class Quiet:
    """Finds out whether nothing is left to do: two waves of questions with the same, balanced answers."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._wave = 0
        self._answers: dict[int, tuple[int, int, bool]] = {}
        self._last: tuple[int, int] | None = None
        self._is_disturbed = False
        self.is_asked = False
        self.is_reached = False
        self.is_complete = False

    def disturb(self) -> None:
        """Something was ordered: what was found out before says nothing any more."""
        self._is_disturbed = True
        self.is_reached = False

    def ask(self) -> int:
        """Begin a wave of questions; return its number."""
        if self._is_disturbed:
            self._last = None
        self._is_disturbed = False
        self._wave += 1
        self._answers = {}
        self.is_asked = True
        return self._wave

    def answer(self, wave: int, worker: int, sent: int, received: int, *, is_complete: bool) -> bool:
        """Take in an answer; True where another wave is to be sent at once."""
        if wave != self._wave:
            return False
        self._answers[worker] = sent, received, is_complete
        if len(self._answers) < self._processes:
            return False
        self.is_asked = False
        totals = sum(a[0] for a in self._answers.values()), sum(a[1] for a in self._answers.values())
        is_balanced = totals[0] == totals[1] and not self._is_disturbed
        self.is_reached = is_balanced and totals == self._last
        self.is_complete = self.is_reached and all(a[2] for a in self._answers.values())
        self._last = totals if is_balanced else None
        return is_balanced and not self.is_reached
