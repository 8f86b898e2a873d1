"""Processes on a store: ``python -m support.store_drivers WHAT ADDRESS NUMBER [DIES_AT]``.

``race`` creates so many objects, in step with whoever writes lines to its input, and says which it created.
``count`` counts words over so many epochs, with checkpoint and output below the address, and says each
epoch that it has published; it is there to be killed. ``compact`` merges all that is published below the
address, and keeps nothing that was replaced. ``shorten`` appends so many numbers to a journal, each one more
than the last, and summarizes after every third; it says each that is durable.

With DIES_AT it kills itself: before the first act on the store at 0, after the first act at 1, before the
second at 2, and so on.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pointstamp as ps
from pointstamp.errors import AlreadyStored
from pointstamp.journal.journal import Journal
from pointstamp.storage import anywhere
from pointstamp.storage.anywhere import storage_at

ACTS = ("makedirs", "pipe_file", "mv", "rm_file", "cat_file", "info", "find", "exists")


class MortalFiles:
    """A file system of fsspec's under which its process dies at a moment that is given."""

    _lock = threading.Lock()
    _moments = 0

    def __init__(self, files: Any, dies_at: int) -> None:  # noqa: ANN401 - an fsspec file system
        self._files, self._dies_at = files, dies_at

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a file system has
        found = getattr(self._files, name)
        return self._watched(found) if name in ACTS else found

    def _watched(self, act: Callable[..., object]) -> Callable[..., object]:
        def watched(*arguments: object, **options: object) -> object:
            self._pass()
            try:
                return act(*arguments, **options)
            finally:
                self._pass()

        return watched

    def _pass(self) -> None:
        with MortalFiles._lock:
            if MortalFiles._moments == self._dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            MortalFiles._moments += 1


def die_at(moment: int) -> None:
    """Let this process die at a moment of its work with a store."""
    opened = anywhere._open

    def mortal(address: str, options: dict[str, Any]) -> tuple[Any, str]:
        files, root = opened(address, options)
        return MortalFiles(files, moment), root

    anywhere._open = mortal


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def race(address: str, rounds: int) -> None:
    """One object for each line; "won" or "lost"."""
    storage = storage_at(address)
    storage.list("")
    say("ready")
    for number in range(rounds):
        sys.stdin.readline()
        try:
            storage.create(f"object-{number}", str(number).encode())
            say("won")
        except AlreadyStored:
            say("lost")


def words_of(epoch: int) -> list[dict[str, str]]:
    """The same in every process."""
    return [{"word": f"w{(epoch * k) % 5}"} for k in range(1, 4)]


def count(address: str, epochs: int) -> None:
    """To the end of all epochs."""
    flow = ps.Dataflow("words")
    flow.output("counts", flow.table("words", "word string").count("word"))
    query = flow.start(
        words=[words_of(epoch) for epoch in range(epochs)],
        checkpoint=f"{address}/checkpoint",
        output=f"{address}/output",
        workers=2,
    )
    say("started")
    seen = -1
    while not (is_over := query.await_termination(0.01)) or query.epoch > seen:
        if query.epoch > seen:
            seen = query.epoch
            say("published", seen)
        if is_over:
            break
    query.stop()
    say("ended", MortalFiles._moments)


def compact(address: str, _: int) -> None:
    """All at once, as the command of the same name does; files that were replaced go at once."""
    policy = ps.io.CompactionPolicy(files=2, keep_seconds=0)
    done = ps.io.compact(f"{address}/output", policy)
    say("merged", done.files_before, done.files_after)
    say("ended", MortalFiles._moments)


def shorten(address: str, entries: int) -> None:
    """Every third entry stands for all before it, which are then deleted."""
    journal: Journal[int] = Journal.open(storage_at(address), int)
    journal.start_generation("a test", 0.0)
    last = max((each for each in journal.entries() if isinstance(each, int)), default=-1)
    for number in range(last + 1, last + 1 + entries):
        (journal.append if number % 3 else journal.summarize)(number)
        say(number)
    say("ended", MortalFiles._moments)


WORKS = {"race": race, "count": count, "compact": compact, "shorten": shorten}


if __name__ == "__main__":
    for given in sys.argv[4:]:
        die_at(int(given))
    WORKS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
