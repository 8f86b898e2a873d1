"""The half that the clocks and the exchange protocol share: broadcasting changes of occupancy.

Each worker w collects the changes it performs in temp[w] and broadcasts them, in parts of its choice, to
every worker q including itself over first-in first-out queues msg[w][q]; q adds what it receives to its
delayed view glob[q] (Abadi et al. 2013, section 3.3; Brun et al. 2021, sections 3 and 4).

What is kept here: the sum of a view and of everything still on the way to it is the true occupancy rec
(RecordCount), whatever is performed, sent and received. What is not decided here: which operations may be
performed, and which changes a worker may hold back when it sends others. A protocol says both.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import combinations
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from pointstamp_models.spec.model import Label, LeadsTo, Model
from pointstamp_models.spec.multiset import ZM, Point, minus, plus, restrict, total, vacant

S = TypeVar("S", bound=tuple[Any, ...])
Part = TypeVar("Part")

WorkerIndex: TypeAlias = int
Queue: TypeAlias = tuple[ZM, ...]
"""Broadcasts on the way from one worker to one other, the oldest first."""


class PointOrder(Protocol):
    """A strict order that can also list the points in question and name them for a reader."""

    @property
    def names(self) -> Sequence[str]:
        """The name of each point, by point."""
        ...

    def points(self) -> Iterable[Point]:
        """The points that operations may use and that properties refer to."""
        ...

    def less(self, lower: Point, upper: Point) -> bool:
        """Return whether lower < upper in the partial order, never for equal points."""
        ...


class Network(NamedTuple):
    """The part of a state that belongs to broadcasting."""

    temp: tuple[ZM, ...]
    """temp[w]: what w performed and has not broadcast yet."""
    msg: tuple[tuple[Queue, ...], ...]
    """msg[w][q]: what w broadcast and q has not received yet."""
    glob: tuple[ZM, ...]
    """glob[q]: the view of q; late, and possibly negative."""


def quiet(rec: ZM, workers: int) -> Network:
    """Nothing is on the way, and every view is the true occupancy."""
    return Network(temp=((),) * workers, msg=(((),) * workers,) * workers, glob=(rec,) * workers)


def replaced(parts: tuple[Part, ...], index: int, part: Part) -> tuple[Part, ...]:
    """The same tuple with one part replaced."""
    return (*parts[:index], part, *parts[index + 1 :])


def suffix_sums(queue: Queue, temp: ZM) -> tuple[ZM, ...]:
    """Info(k, w, q) for every k: the queue without its k oldest messages, plus what is not sent yet.

    Equal messages count as often as they are queued. The last element is temp alone.
    """
    sums = [temp]
    for message in reversed(queue):
        sums.append(plus(message, sums[-1]))
    return tuple(reversed(sums))


class Broadcasting(Model[S]):
    """A protocol that broadcasts; subclasses say where the network lies in their state, and add operations.

    Queues hold few distinct values, so the derived values are remembered: a state space has far more
    states than it has queues.
    """

    def __init__(self, order: PointOrder, workers: int) -> None:
        self.order = order
        self.points = tuple(order.points())
        self.workers = range(workers)
        self.infos = cache(suffix_sums)
        self.vacancies = cache(self._vacancies)

    # Where the network lies in the state.

    @abstractmethod
    def network(self, state: S) -> Network:
        """The broadcasting part of the state."""

    @abstractmethod
    def with_network(self, state: S, network: Network) -> S:
        """The state with another broadcasting part."""

    @abstractmethod
    def rec(self, state: S) -> ZM:
        """The true occupancy."""

    # What a protocol or a broken variant may change.

    @abstractmethod
    def may_hold_back(self, state: S, w: WorkerIndex, rest: ZM) -> bool:
        """Return whether w may keep this rest unsent while it broadcasts the other changes."""

    def sends(self, state: S, w: WorkerIndex) -> Iterable[tuple[Point, ...]]:
        """The sets P that w may choose for send_upd: here every non-empty part of what temp[w] changes."""
        changed = [point for point, _ in self.network(state).temp[w]]
        return (part for size in range(1, len(changed) + 1) for part in combinations(changed, size))

    def recipients(self, w: WorkerIndex) -> Iterable[WorkerIndex]:
        """The receivers of a broadcast of w: all workers, w included."""
        return self.workers

    def deliverable(self, queue: Queue) -> Iterable[int]:
        """The messages of a queue that may be received next: the oldest only."""
        return range(min(1, len(queue)))

    def after_delivery(self, queue: Queue, index: int) -> Queue:
        """The queue without the message that was received."""
        return queue[:index] + queue[index + 1 :]

    # Actions.

    def send_upd(self, state: S, w: WorkerIndex, points: Iterable[Point]) -> S:
        """Broadcast the changes of w at these points."""
        temp, msg, glob = self.network(state)
        batch = restrict(temp[w], points)
        row = msg[w]
        for q in self.recipients(w):
            row = replaced(row, q, (*row[q], batch))
        sent = Network(replaced(temp, w, minus(temp[w], batch)), replaced(msg, w, row), glob)
        return self.with_network(state, sent)

    def recv_upd(self, state: S, w: WorkerIndex, q: WorkerIndex, index: int = 0) -> S:
        """Add a broadcast of w to the view of q."""
        temp, msg, glob = self.network(state)
        queue = msg[w][q]
        row = replaced(msg[w], q, self.after_delivery(queue, index))
        received = Network(temp, replaced(msg, w, row), replaced(glob, q, plus(glob[q], queue[index])))
        return self.with_network(state, received)

    def send_upd_steps(self, state: S) -> Iterator[tuple[Label, S]]:
        """Every enabled send_upd(w, P): something is sent, and the rest may be held back."""
        for w in self.workers:
            temp = self.network(state).temp[w]
            for points in self.sends(state, w):
                batch = restrict(temp, points)
                if batch and self.may_hold_back(state, w, minus(temp, batch)):
                    yield ("send_upd", w, points), self.send_upd(state, w, points)

    def recv_upd_steps(self, state: S) -> Iterator[tuple[Label, S]]:
        """Every enabled recv_upd(w, q)."""
        for w, row in enumerate(self.network(state).msg):
            for q, queue in enumerate(row):
                for index in self.deliverable(queue):
                    yield ("recv_upd", w, q), self.recv_upd(state, w, q, index)

    # Properties that both protocols have.

    def may_stop(self, state: S) -> bool:
        """A run ends only when everything is told: sending all of temp[w] is enabled if it is not empty."""
        temp, msg, _ = self.network(state)
        return not any(temp) and not any(queue for row in msg for queue in row)

    def record_count(self, state: S) -> bool:
        """RecordCount: for each q, rec = glob[q] + the sum over w of Info(0, w, q)."""
        temp, msg, glob = self.network(state)
        rec = self.rec(state)
        return all(
            rec == total((glob[q], *(self.infos(msg[w][q], temp[w])[0] for w in self.workers)))
            for q in self.workers
        )

    def glob_vacant_implies_rec_vacant(self, state: S) -> bool:
        """If a view is vacant up to a point, the true occupancy is vacant."""
        truly = self.vacancies(self.rec(state))
        return all(self.vacancies(view) <= truly for view in self.network(state).glob)

    def rec_vacancy_is_kept(self, before: S, label: Label, after: S) -> bool:
        """If the true occupancy is vacant up to a point, it stays vacant."""
        return self.vacancies(self.rec(before)) <= self.vacancies(self.rec(after))

    def glob_vacancy_is_kept(self, before: S, label: Label, after: S) -> bool:
        """If a view is vacant up to a point, it stays vacant."""
        views = zip(self.network(before).glob, self.network(after).glob, strict=True)
        return all(then is now or self.vacancies(then) <= self.vacancies(now) for then, now in views)

    def _vacancies(self, m: ZM) -> frozenset[Point]:
        """The points up to which m is vacant."""
        return frozenset(point for point in self.points if vacant(self.order, m, point))

    # What must eventually happen, and who is trusted to act.

    def fairness(self) -> Mapping[str, Callable[[S, Label], bool]]:
        """Each worker in the end sends each change it keeps, and receives what was sent to it."""
        return {**self.send_fairness(), **self.recv_fairness()}

    def send_fairness(self) -> Mapping[str, Callable[[S, Label], bool]]:
        """One class for each worker and point: send_upd(w, P) with P containing p.

        One class for each worker would not do: a worker that forever has something else to send may for
        ever choose a P without p. The class is enabled whenever temp[w](p) is not zero, because sending
        everything always is.
        """
        return {
            f"send_upd({w}, P with {self.order.names[p]})": partial(_sends_point, w, p)
            for w in self.workers
            for p in self.points
        }

    def recv_fairness(self) -> Mapping[str, Callable[[S, Label], bool]]:
        """One class for each queue."""
        return {
            f"recv_upd({w}, {q})": partial(has_label, ("recv_upd", w, q))
            for w in self.workers
            for q in self.workers
        }

    def liveness(self) -> Mapping[str, LeadsTo[S]]:
        """For each point p and worker q: vacant(rec, p) ~> vacant(glob[q], p)."""
        return {
            self.liveness_name(p, q): LeadsTo(
                partial(self._rec_is_vacant, p), partial(self._glob_is_vacant, p, q)
            )
            for p in self.points
            for q in self.workers
        }

    def liveness_name(self, p: Point, q: WorkerIndex) -> str:
        """The name of one liveness property, for example ``vacant(rec, a) ~> vacant(glob[0], a)``."""
        point = self.order.names[p]
        return f"vacant(rec, {point}) ~> vacant(glob[{q}], {point})"

    def _rec_is_vacant(self, p: Point, state: S) -> bool:
        return p in self.vacancies(self.rec(state))

    def _glob_is_vacant(self, p: Point, q: WorkerIndex, state: S) -> bool:
        return p in self.vacancies(self.network(state).glob[q])

    # For a reader.

    def show(self, m: ZM) -> str:
        """A signed multiset by the names of its points: ``{a:1, b:-2}``."""
        return "{" + ", ".join(f"{self.order.names[point]}:{number}" for point, number in m) + "}"

    def describe_label(self, label: Label) -> str:
        """Show ``send_upd(0, {a, b})`` by the names of the points; other labels as they are."""
        if label[0] == "send_upd":
            return f"send_upd({label[1]}, {{{', '.join(self.order.names[point] for point in label[2])}}})"
        return super().describe_label(label)

    def describe_network(self, state: S) -> str:
        """Show what is not sent, what is on the way and what each worker sees; empty queues are left out."""
        temp, msg, glob = self.network(state)
        queues = [
            f"msg[{w}][{q}] = [{', '.join(map(self.show, queue))}]"
            for w, row in enumerate(msg)
            for q, queue in enumerate(row)
            if queue
        ]
        kept = f"temp = {' '.join(map(self.show, temp))}"
        return "  ".join([kept, *queues, f"glob = {' '.join(map(self.show, glob))}"])


def _sends_point(w: WorkerIndex, p: Point, state: object, label: Label) -> bool:
    return label[0] == "send_upd" and label[1] == w and p in label[2]


def has_label(wanted: Label, state: object, label: Label) -> bool:
    """Return whether a step carries this label: for fairness of a single action."""
    return label == wanted
