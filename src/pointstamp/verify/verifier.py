"""The verifier of a running query, in a separate process.

Driver and verifier communicate through one socket, in msgpack with a type and a length before each message;
nothing is unpickled. The driver never blocks: messages that the socket does not take wait here, and are sent
when the judge has answered, which makes ``fileno`` readable. The judge ends when the driver is gone.

It keeps the promise of ``pointstamp.query.observation``: a judge that has failed says so, and is never taken
for one that found nothing.
"""

import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pointstamp.errors import InternalError
from pointstamp.flow.plan import Plan
from pointstamp.query.observation import Finding, Standing
from pointstamp.verify.abstract_state import BrokenError
from pointstamp.verify.conformance import JUDGED
from pointstamp.verify.online import EpochWalker, Online
from pointstamp.verify.plan_shape import has_own_times, shape_of, walker_of
from pointstamp.verify.trace import Header
from pointstamp.verify.verifier_process import (
    READ_BYTES,
    TRACE,
    Answered,
    Begin,
    CommitTold,
    Cut,
    End,
    Found,
    Frames,
    JudgeFailed,
    Said,
    Spool,
    Stands,
    Take,
    decode_answered,
    framed,
)
from pointstamp.worker.events import Event

END_SECONDS_MAX: Final = 5.0
_CHILD: Final = (
    "import sys; sys.path[:] = sys.argv[3:]; from pointstamp.verify.verifier_process import main; "
    "main(int(sys.argv[1]), sys.argv[2])"
)


class JudgeProcess:
    """The driver's side: a ``Judge`` whose work is done by another process."""

    def __init__(self, plan: Plan) -> None:
        self._flow = plan.name
        self._shape = shape_of(plan)
        self._operators = tuple(int(node.index) for node in plan.nodes if not node.kind.is_door)
        self._pending: deque[bytes] = deque()
        self._frames = Frames()
        self._generation = -1
        self._standing = Standing((), 0)
        self._failure = ""
        self._child: _Child | None = None

    @property
    def pid(self) -> int | None:
        """The process of the judge; None before the first generation and after the end."""
        return None if self._child is None else self._child.process.pid

    def begin(self, generation: int, workers: int, *, restored: int, committed: int) -> None:
        """A generation begins, after an epoch."""
        if self._child is None:
            self._child = _Child()
        self._generation = generation
        self._standing = Standing((0,) * workers, 0)
        self._say(Begin(self._flow, self._shape, self._operators, generation, workers, restored, committed))

    def take(self, worker: int, events: bytes) -> None:
        """Take the next events of a worker."""
        self._say(Take(worker, events))

    def cut(self) -> None:
        """Everybody has told everything that happened before the last cut."""
        self._say(Cut())

    def committed(self, epoch: int) -> None:
        """An epoch was committed."""
        self._say(CommitTold(epoch))

    def end(self) -> None:
        """Report that all events have arrived."""
        self._say(End())

    def standing(self) -> Standing:
        """Return the verifier's progress; InternalError if it has failed or ended."""
        is_there = self._listen()
        if self._failure or not (is_there or self._standing.finding):
            raise InternalError(
                f"the verifier of flow '{self._flow}' has failed, and a run with verify=True does not "
                f"continue without it: {self._failure or self._death()} Everything published so far was "
                "verified. Restart the query, with verify=False if that does not help."
            )
        self._send()
        return self._standing

    def fileno(self) -> int:
        """Readable when the judge has answered."""
        return self._begun.socket.fileno()

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.end()
            self._child = None

    @property
    def _begun(self) -> "_Child":
        assert self._child is not None, "no generation has begun"
        return self._child

    def _listen(self) -> bool:
        """Take in all answers of the judge, and say whether it is still there."""
        while True:
            try:
                content = self._begun.socket.recv(READ_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not content:
                return False
            for frame in self._frames.add(content):
                self._hear(decode_answered(frame))

    def _hear(self, answer: Answered) -> None:
        match answer:
            case Stands():
                if answer.generation == self._generation:
                    self._standing = Standing(answer.judged, answer.waiting, answer.is_over)
            case Found():
                trace = Path(self._begun.folder.name, TRACE).read_bytes()
                self._standing = self._standing._replace(finding=Finding(answer.words, trace))
            case JudgeFailed():
                self._failure = answer.words

    def _say(self, message: Said) -> None:
        self._pending.append(framed(message))
        self._send()

    def _send(self) -> None:
        while self._pending:
            try:
                sent = self._begun.socket.send(self._pending[0])
            except BlockingIOError:
                return
            except OSError:
                return  # it is gone; what it has said last is read by who asks how it stands
            if sent < len(self._pending[0]):
                self._pending[0] = self._pending[0][sent:]
            else:
                self._pending.popleft()

    def _death(self) -> str:
        process = self._begun.process
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_SECONDS_MAX)
        return f"process {process.pid} has ended with code {process.returncode}."


class _Child:
    """A process that judges, with the socket to it and the folder that it may write to."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="pointstamp-judge-")
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-c", _CHILD, str(theirs.fileno()), self.folder.name, *sys.path],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt of the keyboard is for the driver
            )

    def end(self) -> None:
        """End the process, and remove what it has written."""
        # A fork of the driver may still hold the socket; shutting it down is for all.
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        try:
            self.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


# The judge of a run that comes to an end, in the process that drives it.
#
# The rules and the order of events are those of a query that is judged while it runs
# (``pointstamp.verify.online``); there are no snapshots and no commits. Here the judge sits in the driver's
# own loop: results are delivered only after they were judged, and a wrong step raises an error where the
# run is stepped. If a flow has times of its own, the judge knows the user's order, which could not be sent to
# another process.
#
# The events are spooled to a file as they are judged. Where one is wrong, the file stays, as a trace.


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
            f"Everything delivered before was verified. The events are in {file.name}; please report them."
        )
