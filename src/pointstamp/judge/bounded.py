"""The judge of a run that comes to an end, in the process that drives it.

The rules and the order of events are those of a query that is judged while it runs
(``pointstamp.judge.online``); there are no snapshots and no commits. Here the judge sits in the driver's own
loop: results are handed over only after they were judged, and a wrong step raises an error where the run is
stepped. If a flow has times of its own, the judge knows the user's order, which could not be sent to another
process.

The events are spooled to a file as they are judged. Where one is wrong, the file stays, as a trace.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pointstamp.errors import InternalError
from pointstamp.flow.plan import Plan
from pointstamp.judge.bench import Spool
from pointstamp.judge.conformance import JUDGED
from pointstamp.judge.epochs import EpochWalker
from pointstamp.judge.online import Online
from pointstamp.judge.plan_shape import has_own_times, walker_of
from pointstamp.judge.rules import BrokenError
from pointstamp.judge.trace import Header
from pointstamp.worker.events import Event


class BoundedJudge:
    """Judges one run of so many workers; every method raises InternalError if a rule is broken.

    It is also a log, for workers whose events come here one by one, in the order in which they happen.
    """

    def __init__(self, plan: Plan, workers: int) -> None:
        walker = walker_of(plan)
        self._plan, self._workers, self._shape = plan, workers, walker.shape
        if not has_own_times(plan):
            walker = EpochWalker(walker.shape)
        self._folder = tempfile.TemporaryDirectory(prefix="pointstamp-judge-")
        self._spool = Spool(Path(self._folder.name, "trace"))
        self._online = Online(walker, workers, None, record=self._spool.add)

    def record(self, event: Event) -> None:
        """Judge the next event of any worker."""
        self.take(event.worker, (event,))

    def take(self, worker: int, events: Iterable[Event]) -> None:
        """Judge the next events of a worker, and others that have waited for them."""
        with self._in_words(is_at_rest=False):
            self._online.take(worker, events)

    def is_judged(self, worker: int, events: int) -> bool:
        """Whether so many events of a worker were judged, its first ones; the others wait for their cause."""
        return self._online.judged[worker] >= events

    def settled(self) -> None:
        """All workers have reported everything, and nothing is in flight: a waiting event has no cause."""
        with self._in_words(is_at_rest=False):
            self._online.cut()
            self._online.cut()

    def end(self) -> None:
        """The run has come to its end: everything must be complete."""
        with self._in_words(is_at_rest=True):
            self._online.end()

    def close(self) -> None:
        """Forget the run, and remove its events."""
        self._spool.close()
        self._folder.cleanup()

    @contextmanager
    def _in_words(self, *, is_at_rest: bool) -> Iterator[None]:
        try:
            yield
        except BrokenError as rule:
            raise InternalError(self._words(rule, is_at_rest=is_at_rest)) from None

    def _words(self, rule: BrokenError, *, is_at_rest: bool) -> str:
        number = sum(self._online.judged)
        words = f"{rule.property} ({JUDGED[rule.property]}), event {number}: {rule}"
        ended = "stuck" if is_at_rest else "broken off"
        header = Header(self._plan.name, self._workers, self._shape, ended, words, "run the flow again")
        self._spool.save(header)
        with tempfile.NamedTemporaryFile(prefix="pointstamp-", suffix="-trace.jsonl", delete=False) as file:
            file.write(Path(self._folder.name, "trace").read_bytes())
        return (
            f"flow '{self._plan.name}' has broken a rule that every run must keep, and was ended: {words}. "
            f"Everything handed over before was verified. The events are in {file.name}; please report them."
        )
