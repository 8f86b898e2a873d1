"""The properties of a timely dataflow graph: Clock never grows, and no message is late.

These are the results of Abadi & Isard, "Timely Dataflow: A Model" (2015), section 5, as properties of the
actions of ``timely_actions.py``: HistoryExists (Proposition 7), ClockAntitone (8), ClockSticky (9), NoLate
(Theorem 2), and two that follow or stand beside them: NotifyCorrect, and the order of equal times, FIFO.

They hold under Conditions 1 and 2 of the paper and if inputs grow only within Clock. The history variables
``notified`` and ``retired`` turn properties of whole runs into properties of states and steps; where
ClockSticky holds, ``retired`` is a function of the rest of the state and adds no states.

The paper states no fairness. The one assumed here, of Mess on every edge and of Not for every node and
time, suffices for every request to be served, if inputs end and no handler asks again forever.
"""

from collections.abc import Callable, Mapping
from functools import cached_property, partial

from pointstamp_models.spec.model import Invariant, Label, LeadsTo, StepProperty
from pointstamp_models.spec.node import LocalState, Message, Pointstamp, Time, local_results
from pointstamp_models.spec.timely_actions import TimelyActions, TimelyState, is_subsequence, union


class Timely(TimelyActions):
    """ISpec of one graph with its properties."""

    @cached_property
    def _results(self) -> list[frozenset[tuple[LocalState, tuple[Time, ...]]]]:
        return [local_results(self.graph, p) for p in self.names]

    @cached_property
    def _at_or_after(self) -> dict[Pointstamp, int]:
        times = self.graph.times
        return {
            (x, time): union(self.bit[x, later] for later in times.points() if times.less_equal(time, later))
            for x, time in self.bit
        }

    def invariants(self) -> Mapping[str, Invariant[TimelyState]]:
        """Propositions 7 and 9 and Theorem 2 of the paper."""
        return {
            "HistoryExists": self.history_exists,
            "ClockSticky": lambda state: state.retired & self.clock(state) == 0,
            "NoLate": self.no_late,
        }

    def history_exists(self, state: TimelyState) -> bool:
        """Return whether some history of each node yields its local state and requests (Proposition 7)."""
        pairs = zip(state.local, state.requests, strict=True)
        return all(pair in results for pair, results in zip(pairs, self._results, strict=True))

    def no_late(self, state: TimelyState) -> bool:
        """Whether no edge holds a message at or below a time that once left Clock there (Theorem 2)."""
        edges = zip(self.graph.edges, state.queues, strict=True)
        return not any(
            state.retired & self._at_or_after[edge.name, time] for edge, queue in edges for time, _ in queue
        )

    def step_properties(self) -> Mapping[str, StepProperty[TimelyState]]:
        """Proposition 8, what notifications are for, and the order that a queue keeps."""
        return {
            "ClockAntitone": self.clock_antitone,
            "NotifyCorrect": self.notify_correct,
            "FIFO": self.first_in_first_out,
        }

    def clock_antitone(self, before: TimelyState, label: Label, after: TimelyState) -> bool:
        """Return whether Clock' is within Clock, unless an input queue grew (Proposition 8)."""
        inputs = [self.edge_index[name] for name in self.graph.inputs]
        if not all(is_subsequence(after.queues[index], before.queues[index]) for index in inputs):
            return True
        return self.clock(after) & ~self.clock(before) == 0

    def notify_correct(self, before: TimelyState, label: Label, after: TimelyState) -> bool:
        """Return whether no node receives a message at or below a time of which it was notified."""
        if label[0] != "mess":
            return True
        _, p, _, (time, _) = label
        return not any(
            self.graph.times.less_equal(time, told) for told in before.notified[self.node_index[p]]
        )

    def first_in_first_out(self, before: TimelyState, label: Label, after: TimelyState) -> bool:
        """Return whether the messages of each edge that have the same time are received in their order."""
        if label[0] != "mess":
            return True
        _, _, edge, message = label
        queue = before.queues[self.edge_index[edge]]
        first: Message = next(other for other in queue if other[0] == message[0])
        return bool(first == message)

    def witnesses(self) -> Mapping[str, Invariant[TimelyState]]:
        """A state with no work left, if this graph must reach one."""
        return {"Finished": self.may_stop} if "Finished" in self.expects else {}

    def step_witnesses(self) -> Mapping[str, StepProperty[TimelyState]]:
        """Possible steps that a reader may not expect, those that this graph must show."""
        table: dict[str, StepProperty[TimelyState]] = {
            "LaterNotifiedFirst": self.later_notified_first,
            "RequestedAgain": lambda _, label, after: (
                label[0] == "not" and label[2] in after.requests[self.node_index[label[1]]]
            ),
            "SentOnNotification": lambda before, label, after: label[0] == "not" and _sent(before, after),
            "SentOnMessage": lambda before, label, after: label[0] == "mess" and _sent(before, after),
            "Overtaken": lambda before, label, _: (
                label[0] == "mess" and before.queues[self.edge_index[label[2]]][0] != label[3]
            ),
            "InputGrew": lambda _, label, __: bool(label[0] == "inp"),
        }
        return {name: shows for name, shows in table.items() if name in self.expects}

    def later_notified_first(self, before: TimelyState, label: Label, after: TimelyState) -> bool:
        """Return whether a node is notified of a time while it still waits for a smaller one."""
        if label[0] != "not":
            return False
        _, p, time = label
        return any(self.graph.times.less(asked, time) for asked in before.requests[self.node_index[p]])

    def may_stop(self, state: TimelyState) -> bool:
        """Return whether no request is pending and no message waits for a node."""
        pairs = zip(self.graph.edges, state.queues, strict=True)
        return not any(state.requests) and not any(queue for edge, queue in pairs if edge.destination)

    def fairness(self) -> Mapping[str, Callable[[TimelyState, Label], bool]]:
        """Mess of every edge and Not of every node and time; the paper states no fairness."""
        received = [("mess", edge.destination, edge.name) for edge in self.graph.edges if edge.destination]
        notified = [("not", p, time) for p in self.names for time in self.graph.times.points()]
        return {str(action): partial(_is_action, action) for action in [*received, *notified]}

    def liveness(self) -> Mapping[str, LeadsTo[TimelyState]]:
        """Every request is served at last, if inputs end and no handler asks again forever."""
        return {
            f"RequestServed({p}, {self.graph.times.names[time]})": LeadsTo(
                partial(_is_pending, node, time), partial(_is_not_pending, node, time)
            )
            for node, p in enumerate(self.names)
            for time in self.graph.times.points()
        }


def _sent(before: TimelyState, after: TimelyState) -> bool:
    """Return whether some queue has become longer."""
    return any(len(old) < len(new) for old, new in zip(before.queues, after.queues, strict=True))


def _is_action(action: Label, _: TimelyState, label: Label) -> bool:
    return label[:3] == action


def _is_pending(node: int, time: Time, state: TimelyState) -> bool:
    return time in state.requests[node]


def _is_not_pending(node: int, time: Time, state: TimelyState) -> bool:
    return time not in state.requests[node]
