"""A query as a dashboard page: its current data, without waiting.

``moment`` asks the query's thread, and through it the workers, and says at once what the last answers were.
One question is pending at a time, so a worker that does not answer makes what is shown old, and nothing
slow. Frontiers come from the counts of one worker, in a tracker of its own that hears only of changes.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep, time
from typing import Final, Protocol

from pointstamp.dashboard.prometheus import Sample, exposed
from pointstamp.dashboard.sight import Json, SightError, drawn, without_doors
from pointstamp.driver.messages import Counts, Load, Ready
from pointstamp.driver.status import Place, RowCounts, RunStatus, place_words, places_of, status_from
from pointstamp.errors import PointstampError
from pointstamp.flow.plan import NodeKind, Plan
from pointstamp.progress.pointstamp import Change
from pointstamp.progress.tracker import Tracker
from pointstamp.progress.why import Holder, holders
from pointstamp.query.coordinator import total, total_kept
from pointstamp.query.page_data import (
    WorkerRates,
    kept_now,
    looked_at,
    operators_now,
    outputs_now,
    query_samples,
    workers_now,
)
from pointstamp.query.session import Session
from pointstamp.query.supervisor import Supervisor
from pointstamp.state.memory_budget import KeptRows, KeyRows
from pointstamp.topology.domain import Time
from pointstamp.topology.ports import Location, Target

_FRESH_SECONDS_MAX: Final = 1.0
_NEWS_SECONDS: Final = 2.0
_LOAD_SECONDS: Final = 1.0
"""The minimum seconds between two requests for the load of workers."""
_KEYS_SECONDS: Final = 5.0
"""The minimum seconds between two requests for the largest keys."""


class Steered(Protocol):
    """The part of a query that a dashboard shows and controls."""

    @property
    def name(self) -> str:
        """The name of its flow."""
        ...

    @property
    def is_active(self) -> bool:
        """Whether it runs."""
        ...

    def exception(self) -> BaseException | None:
        """The error that ended the query, if any."""
        ...

    def stop(self) -> None:
        """End it."""
        ...

    def savepoint(self, name: str, timeout: float | None = None) -> int:
        """Take a savepoint."""
        ...


@dataclass(frozen=True, slots=True)
class _Driver:
    """The facts that the query's thread knows without the workers."""

    rows: RowCounts
    loads: dict[int, Load]
    members: dict[int, Ready]
    kept: list[dict[str, KeptRows]]


@dataclass(slots=True)
class _Known:
    """The last answers of the workers, and their times."""

    at: float
    status: RunStatus
    workers: dict[int, WorkerRates]
    driver: _Driver

    def is_whole_since(self, begun: float) -> bool:
        """Return whether it was heard after a time, and every worker has told its load."""
        return self.at > begun and len(self.workers) == len(self.driver.members)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A pending question: what the query's thread knows, and what a worker has counted."""

    driver: "Future[_Driver]"
    counts: "Future[Counts]"


class QuerySight:
    """A running query, or one that has ended, for a dashboard."""

    def __init__(self, query: Steered, supervisor: Supervisor, *, control: bool) -> None:
        self._query = query
        self._supervisor = supervisor
        self._control = control
        self._plan = supervisor.spec.plan
        self._lock = threading.Lock()
        self._tracker = Tracker(self._plan.graph())
        self._looked = looked_at(self._plan, self._tracker.graph)
        self._counts: dict[tuple[int, Time], int] = {}
        self._asked: _Asked | None = None
        self._known: _Known | None = None
        self._told = 0.0
        self._asked_loads = 0.0
        self._asked_keys = 0.0
        self._largest: dict[int, dict[str, list[KeyRows]]] = {}

    def about(self) -> Json:
        """The flow and its query."""
        spec = self._supervisor.spec
        return {
            "kind": "query",
            "title": self._plan.name,
            "id": spec.query_id,
            "workers": spec.workers,
            "checkpoint": spec.storage.address,
            "control": self._control,
            "graph": drawn(self._plan),
        }

    def moment(self) -> Json:
        """The state of the query as of the last answers; it requests the next ones."""
        with self._lock:
            self._hear()
            self._ask()
            return self._moment()

    def history(self, since: float) -> Json:
        """The last hour: ticks, spans of some seconds, snapshots and restarts."""
        return self._supervisor.timeline.since(since)

    def why(self, output: str) -> Json:
        """The causes that hold an output back, each with its text and path."""
        if output not in self._plan.named(NodeKind.OUTPUT):
            raise SightError(f"flow '{self._plan.name}' has no output '{output}'.")
        self._freshen()
        with self._lock:
            held = held_by(self._plan, self._tracker, output) if self._known is not None else []
        heard = [call for call in self._calls() if call["operator"] is not None]
        slow = [{**call, "kind": "slow", "way": [call["operator"]]} for call in heard]
        plan = self._plan
        words = [
            *self._brief(lambda session: session.event_time_words(plan, output)),
            *self._brief(lambda session: session.source_words(plan, output)),
        ]
        return {"output": output, "held": [*slow, *held], "words": words}

    def metrics(self) -> str:
        """The numbers of ``query.progress()``, and of the query."""
        return exposed(self.samples(), self._plan.name)

    def samples(self) -> list[Sample]:
        """The same, one by one."""
        self._freshen()
        with self._lock:
            known, supervisor = self._known, self._supervisor
            return list(
                query_samples(
                    is_active=self._query.is_active,
                    published=supervisor.committed_epoch,
                    generation=supervisor.generation,
                    restarts=supervisor.restarts,
                    status=None if known is None else known.status,
                    workers={} if known is None else known.workers,
                    age=0.0 if known is None else time() - known.at,
                )
            )

    @property
    def is_over(self) -> bool:
        """Whether the query has ended."""
        return not self._query.is_active

    def act(self, what: str, given: str) -> str:
        """Stop the query, or take a savepoint, where that was allowed when the dashboard was opened."""
        if not self._control:
            raise SightError("this page cannot control the query. Open it with control=True.")
        if what == "stop":
            threading.Thread(target=self._stop, name="pointstamp-stop", daemon=True).start()
            return "the query stops after the epochs that are in flight"
        if what == "savepoint":
            return f"savepoint '{given}' holds everything up to epoch {self._query.savepoint(given, 60.0)}"
        raise SightError(f"a query does not accept the command '{what}'.")

    # Asking, and hearing the answers.

    def _stop(self) -> None:
        with suppress(PointstampError):  # the page shows how it ends
            self._query.stop()

    def _ask(self) -> None:
        if self._asked is not None or not self._query.is_active:
            return
        counts: Future[Counts] = Future()

        now = monotonic()
        asks_loads = now - self._asked_loads >= _LOAD_SECONDS
        self._asked_loads = now if asks_loads else self._asked_loads
        asks_keys = asks_loads and now - self._asked_keys >= _KEYS_SECONDS
        self._asked_keys = now if asks_keys else self._asked_keys

        def ask(session: Session) -> _Driver:
            session.ask_counts(counts)
            if asks_loads:
                session.ask_loads(with_keys=asks_keys)
            rows = RowCounts(total(session.rows_in), total(session.rows_out), total(session.rows_late))
            rows.kept = total_kept(session.kept)
            return _Driver(rows, dict(session.loads), dict(session.members), list(session.kept))

        self._asked = _Asked(self._supervisor.call(ask), counts)

    def _hear(self) -> None:
        asked = self._asked
        if asked is None or not asked.driver.done():
            return
        if asked.driver.exception() is not None:  # the query has ended, or its workers are lost
            self._asked = None
        elif asked.counts.done():
            self._asked = None
            if asked.counts.exception() is None:
                self._learn(asked.counts.result(), asked.driver.result())

    def _learn(self, counts: Counts, driver: _Driver) -> None:
        found = {(at, tuple(when)): count for at, when, count in counts.counts}
        changed = {
            point: found.get(point, 0) - self._counts.get(point, 0) for point in {*found, *self._counts}
        }
        self._tracker.update_all(
            [Change(Location(at), when, diff) for (at, when), diff in changed.items() if diff]
        )
        self._tracker.propagate()
        self._counts = found
        for number, load in driver.loads.items():
            if load.largest_keys is not None:
                self._largest[number] = load.largest_keys
        before = {} if self._known is None else self._known.workers
        workers = {
            number: before[number].then(load) if number in before else WorkerRates.first(load)
            for number, load in driver.loads.items()
        }
        status = status_from(self._plan, self._tracker, driver.rows, says_why=False)
        self._known = _Known(time(), status, workers, driver)

    def _freshen(self) -> None:
        """Wait a moment for answers to a question that is asked from now on."""
        begun, deadline = time(), monotonic() + _FRESH_SECONDS_MAX
        while self._query.is_active and monotonic() < deadline:
            with self._lock:
                self._hear()
                self._ask()
                if self._known is not None and self._known.is_whole_since(begun):
                    return
            sleep(0.01)

    def _brief(self, function: "Callable[[Session], list[str]]") -> list[str]:
        """The answer of the query's thread, if it arrives soon."""
        try:
            return self._supervisor.call(function).result(_FRESH_SECONDS_MAX)
        except (PointstampError, TimeoutError):
            return []

    # Telling.

    def _moment(self) -> Json:
        supervisor, known, now = self._supervisor, self._known, time()
        error = self._query.exception()
        news = supervisor.timeline.since(self._told - _NEWS_SECONDS)
        self._told = now
        moment: Json = {
            "at": now,
            "active": self._query.is_active,
            "phase": supervisor.phase,
            "error": None if error is None else str(error),
            "generation": supervisor.generation,
            "restarts": supervisor.restarts,
            "published": supervisor.committed_epoch,
            "opened": supervisor.timeline.opened,
            "calls": self._calls(),
            "news": news,
        }
        if known is None:
            return moment
        opened = supervisor.timeline.opened
        return moment | {
            "asof": known.at,
            **outputs_now(known.status),
            "operators": operators_now(self._looked, self._tracker, known.workers, opened),
            "workers": workers_now(known.workers, known.driver.members),
            "kept": kept_now(self._plan, known.driver.kept, self._largest),
        }

    def _calls(self) -> list[Json]:
        """The operators that workers have been inside of for long."""
        numbers = {node.name: node.index for node in self._plan.nodes if not node.kind.is_door}
        return [
            {
                "worker": worker,
                "operator": numbers.get(call.operator),
                "words": words,
            }
            for worker, call, words in self._supervisor.calls_inside()
        ]


# What holds an output back, as places with words and ways: what the dashboard lights up.
#
# The kinds look different on the page: an *input* that may still send, a capability that an operator has
# *held*, messages that wait (*backlog*), and messages that go round (*loop*).

_PLACES_MAX: Final = 12


def held_by(plan: Plan, tracker: Tracker, output: str) -> list[Json]:
    """The places that hold an output back, the farthest upstream first; none if it is complete."""
    port = Target(plan.named(NodeKind.OUTPUT)[output].index, 0)
    found = sorted(holders(tracker, port), key=lambda each: -len(each.path))
    first: dict[Location, Holder] = {}
    for holder in found:
        first.setdefault(holder.pointstamp.location, holder)
    places = places_of(tracker.graph, ((each.pointstamp, each.count) for each in found))
    return [_held(plan, tracker, place, first[place.location]) for place in places[:_PLACES_MAX]]


def _held(plan: Plan, tracker: Tracker, place: Place, holder: Holder) -> Json:
    port = tracker.graph.ports[place.location]
    node = plan.nodes[port.operator]
    if isinstance(port, Target):
        kind = "loop" if node.scope else "backlog"
    else:
        kind = "input" if node.kind is NodeKind.INPUT else "held"
    return {
        "kind": kind,
        "operator": None if node.kind.is_door else node.index,
        "time": list(place.first),
        "count": place.count,
        "words": place_words(plan, tracker.graph, place),
        "way": without_doors(plan, (each.operator for each in holder.path)),
    }
