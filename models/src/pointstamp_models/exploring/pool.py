"""Jobs in other processes, with news while they run; one lost process loses one job.

``concurrent.futures`` has no way to hear from a job that still runs, gives up every job when one process
dies, and cannot be stopped while jobs run. So each process here has its own pipe: jobs go in, news and one
answer come out, and the end of the pipe is the end of the process. Nothing is shared, no thread is started,
and leaving the generator ends every process at once.
"""

import pickle
import signal
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import PurePath
from time import monotonic
from typing import Any, Final, Generic, TypeAlias, TypeVar

Job = TypeVar("Job")
News = TypeVar("News")
Answer = TypeVar("Answer")

JobIndex: TypeAlias = int

NEWS_INTERVAL_SECONDS: Final = 0.1
"""The minimum seconds between two reports of a process, so that reports never slow down the work."""

# Spawned, not forked: the parent may have threads (a live display has one), and forking them is unsound.
_PROCESSES: Final = get_context("spawn")


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A process has taken up the job."""

    job: JobIndex


@dataclass(frozen=True, slots=True)
class JobProgressed(Generic[News]):
    """The job has said how far it is."""

    job: JobIndex
    news: News


@dataclass(frozen=True, slots=True)
class JobDone(Generic[Answer]):
    """The job has returned."""

    job: JobIndex
    answer: Answer


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The job has raised an error, could not be delivered, or its process has died."""

    job: JobIndex
    reason: str


Event: TypeAlias = JobStarted | JobProgressed[News] | JobDone[Answer] | JobFailed


def run_jobs(
    work: Callable[[Job, Callable[[News], None]], Answer], jobs: Sequence[Job], processes: int
) -> Generator[Event[News, Answer], None, None]:
    """Do ``work(job, report)`` for each job, in the order given, and tell what happens as it happens.

    Close the generator to stop early (``contextlib.closing``): the processes are then ended, not awaited.
    """
    waiting = list(range(len(jobs)))[::-1]
    idle: list[_Worker[Job, News, Answer]] = []
    busy: list[_Worker[Job, News, Answer]] = []
    try:
        for _ in range(min(processes, len(jobs))):
            idle.append(_Worker(work))
        while waiting or busy:
            while waiting and idle:
                job = waiting.pop()
                worker = idle.pop()
                busy.append(worker)
                yield JobStarted(job)
                worker.take(job, jobs[job])
            ready = wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                event = worker.next_event()
                if not isinstance(event, JobProgressed):
                    busy.remove(worker)
                    idle.append(worker if worker.process.is_alive() else _Worker(work))
                yield event
    finally:
        for worker in idle + busy:
            worker.process.terminate()
        for worker in idle + busy:
            worker.process.join()
            worker.pipe.close()


class _Worker(Generic[Job, News, Answer]):
    """One process and this side of its pipe; changed by ``run_jobs`` alone."""

    def __init__(self, work: Callable[[Job, Callable[[News], None]], Answer]) -> None:
        self.pipe, theirs = _PROCESSES.Pipe()
        self.process: SpawnProcess = _PROCESSES.Process(target=_serve, args=(theirs, work), daemon=True)
        self.job: JobIndex = -1
        # An interrupt from the keyboard goes to every process of the terminal. Only the parent shall act on
        # it, so it is blocked while the child begins, which inherits that from its first instruction on.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()

    def take(self, index: JobIndex, job: Job) -> None:
        """Hand the job over; one that cannot be pickled is delivered as its own failure."""
        self.job = index
        try:
            packed = ForkingPickler.dumps(job)
        except Exception as error:  # pickling raises whatever a class of the job raises
            packed = ForkingPickler.dumps(_Unpicklable(f"cannot go to another process: {_last_line(error)}"))
        # If the process has died, the pipe says so when it is read.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.pipe.send_bytes(packed)

    def next_event(self) -> Event[News, Answer]:
        """The next report of the process; without one, the process has died and the job is lost."""
        try:
            event, content = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode
            hint = ", killed; is memory short?" if code == -signal.SIGKILL else ""
            return JobFailed(self.job, f"its process ended with exit code {code}{hint}")
        return event(self.job, content)  # type: ignore[no-any-return]  # one of our own events


@dataclass(frozen=True, slots=True)
class _Unpicklable:
    """Takes the place of a job that cannot be delivered."""

    reason: str


def _serve(pipe: Connection, work: Callable[[Any, Callable[[Any], None]], Any]) -> None:
    """The life of a process: take a job, tell news, answer, until the pipe ends."""
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            packed = pipe.recv_bytes()
            pipe.send(_attempt(packed, work, _news_through(pipe)))


def _attempt(packed: bytes, work: Callable[..., Any], report: Callable[[Any], None]) -> tuple[type, Any]:
    try:
        job = pickle.loads(packed)  # noqa: S301 - from our own parent process
        if isinstance(job, _Unpicklable):
            return JobFailed, job.reason
        return JobDone, work(job, report)
    except (BrokenPipeError, ConnectionResetError):
        raise  # the parent is gone; nobody waits for this job
    except Exception as error:  # a job that raises is reported, whatever it raises
        return JobFailed, f"raised {_last_line(error)}"


def _news_through(pipe: Connection) -> Callable[[Any], None]:
    told = monotonic()

    def tell(news: object) -> None:
        nonlocal told
        if monotonic() - told >= NEWS_INTERVAL_SECONDS:
            told = monotonic()
            pipe.send((JobProgressed, news))

    return tell


def _last_line(error: BaseException) -> str:
    """The last line of a traceback, with its place: ``KeyError: 'x' (clocks.py:12)``."""
    message = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    frames = traceback.extract_tb(error.__traceback__)
    return f"{message} ({PurePath(frames[-1].filename).name}:{frames[-1].lineno})" if frames else message
