"""Fault injection: a process that dies, or gets no answer, before a chosen step.

A test counts the steps of a process that lives, and then lets others die before each of them in turn. After
its death a process does nothing more, not even in a ``finally``: every later step raises again.
"""

from dataclasses import dataclass

from pointstamp.errors import StorageError
from pointstamp.storage.port import Content, Storage


class Died(BaseException):
    """The process has died: nothing that it would have done afterwards is done."""


class Unanswered(StorageError):  # noqa: N818 - what happened
    """The place of a sink did not answer: what it holds is not known."""


@dataclass
class Steps:
    """Counts the steps that reach the outside; before step number ``dies_before`` the process dies.

    From step number ``unanswered_from`` on the process lives, and nothing outside answers.

    >>> steps = Steps(dies_before=1)
    >>> steps.take()
    >>> try:
    ...     steps.take()
    ... except Died:
    ...     print("died before step", steps.taken)
    died before step 1
    """

    dies_before: int | None = None
    taken: int = 0
    is_dead: bool = False
    unanswered_from: int | None = None

    def take(self) -> None:
        """Count a step; call it before each external operation. Raises Died if the process is dead."""
        if self.unanswered_from is not None and self.taken >= self.unanswered_from:
            raise Unanswered("the place of the sink does not answer.")
        if self.is_dead or self.taken == self.dies_before:
            self.is_dead = True
            raise Died
        self.taken += 1


@dataclass
class SteppingStorage:
    """A storage whose operations are counted as steps."""

    inner: Storage
    steps: Steps

    @property
    def address(self) -> str:
        """The address of the inner storage."""
        return self.inner.address

    def create(self, name: str, content: Content) -> None:
        """Count a step, then call the inner storage; so do the methods below."""
        self.steps.take()
        self.inner.create(name, content)

    def write(self, name: str, content: Content) -> None:
        """See ``create``."""
        self.steps.take()
        self.inner.write(name, content)

    def sync(self, name: str) -> None:
        """See ``create``."""
        self.steps.take()
        self.inner.sync(name)

    def read(self, name: str) -> bytes:
        """See ``create``."""
        self.steps.take()
        return self.inner.read(name)

    def size(self, name: str) -> int | None:
        """See ``create``."""
        self.steps.take()
        return self.inner.size(name)

    def list(self, prefix: str = "") -> "list[str]":
        """See ``create``."""
        self.steps.take()
        return self.inner.list(prefix)

    def delete(self, name: str) -> None:
        """See ``create``."""
        self.steps.take()
        self.inner.delete(name)


# What claims are made of: a comparison that says what is wrong, with or without pytest.


def same(found: object, wanted: object, what: str) -> None:
    """AssertionError unless both are equal."""
    if found != wanted:
        raise AssertionError(f"{what}: expected {wanted}, found {found}")
