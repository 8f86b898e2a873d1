"""Verification of traces: each event must be an action of the models.

The events of a run are mapped to the actions of the exchange protocol and the combined tracker (Brun et al.
2021, sections 4 and 6). After each event the guards of its action and the properties that it could break are
checked, under the papers' names, together with what users are promised (Abadi & Isard 2015).

The judge shares nothing with the code that it judges except the definitions of events; import-linter checks
this. It walks a plain description of the flow (``pointstamp.verify.shape``). Its predicates are those of
``pointstamp_models.spec``, written again for a state that changes with every event, where a model compares
complete states; tests/verify/test_rules_and_spec.py holds each against its counterpart there, on random
states. It stops at the first event that breaks something, so the prefix up to there is the shortest. A judge
that fails answers unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pointstamp.verify.abstract_state import AbstractState, BrokenError, RulesOf
from pointstamp.verify.exchange_rules import ExchangeRules
from pointstamp.verify.frontier_rules import FrontierRules, NotificationRules
from pointstamp.verify.shape import Walker
from pointstamp.verify.snapshot_rules import SNAPSHOT_PROPERTIES
from pointstamp.worker.events import (
    ActivationEnded,
    CapabilityChanged,
    Event,
    FrontiersMoved,
    FrontiersShown,
    MessagePulled,
    MessageSent,
    NotificationAsked,
    Notified,
    ProgressReceived,
    ProgressSent,
    ProgressSummed,
    SnapshotTaken,
    SumReceived,
    WorkerStarted,
)

PROPERTIES: Final = {
    "RecvCapEnabled": "a message that is pulled was sent to that worker and not pulled before",
    "NoLateMessages": "nothing arrives at or before a time that was notified or passed",
    "DnegOwned": "no worker drops a capability that it does not own",
    "DselfAbove": "a capability is minted at or above one that was owned before the activation",
    "DdataAbove": "a message is sent strictly above a capability that was owned before the activation",
    "ArrivesLater": "a message arrives where and when its source could result in it",
    "RecordCount": (
        "the true counts are the counts of a worker, the messages in flight to it, and the unsent changes"
    ),
    "TempJustified": "the unsent changes of a worker are justified by its capabilities",
    "SendUpdEnabled": "a batch of progress is a part of the unsent changes of its worker",
    "GaplessSequence": "batches of progress are numbered without gaps and applied in that order, once",
    "PtsEqGlob": "the counts of a worker are the changes that it has received",
    "CMEnabled": "every applied change is one that the frontiers still expect",
    "SafeCombined": "no frontier has passed a pointstamp that exists on any worker",
    "FrontierNeverRegresses": "no frontier moves back",
    "Converged": "after a propagation every frontier is the implied frontier of the counts",
    "OperatorFrontierNotAhead": "no operator is shown a frontier ahead of the propagated one",
    "NotifiedComplete": "a notified time is before the frontier of every input",
    "NotifiedInOrder": "the earlier of two comparable times is notified first",
    "TakenInOrder": (
        "an operator that takes times in order is not notified while an earlier time may arrive, epochs first"
    ),
    "NotifiedWasAsked": "an operator is notified of a requested time, once for each request",
    "AskedOnce": "an operator has at most one request for a time that was not served",
    "AskedIsServed": "no request is left when everything is complete",
    "Completes": "when all inputs are closed and nothing is left to do, every frontier is empty",
}
"""Every property that the verifier checks in a trace, with its meaning."""


JUDGED: Final = {**PROPERTIES, **SNAPSHOT_PROPERTIES}
"""These, and the properties of snapshots and commits."""


class Status(Enum):
    """The verdict on a trace."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Valid; or invalid, with the property and the number of the event that broke it; or unknown."""

    status: Status
    property: str = ""
    reason: str = ""
    event: int | None = None
    """None if only the end broke it."""

    def __str__(self) -> str:
        match self.status:
            case Status.VALID:
                return "valid"
            case Status.INVALID:
                where = "at the end" if self.event is None else f"at event {self.event}"
                return f"invalid {where}: {self.property} ({JUDGED[self.property]}): {self.reason}"
            case Status.UNKNOWN:
                return f"unknown: {self.reason}"


def judge(
    walker: Walker, workers: int, events: Sequence[Event], *, at_rest: bool = True, thorough: bool = False
) -> Verdict:
    """Judge the events of a run of this many workers, in the order in which they happened.

    ``at_rest`` says that the run came to an end with all inputs closed, so that everything must be complete.
    ``thorough`` counts everything again after each event, which costs more than all the rest.
    """
    judged = ModelRules(AbstractState(walker, workers))
    rules = judged.of
    number: int | None = None
    try:
        for number, event in enumerate(events):  # noqa: B007 - it stands in the verdict
            for rule in rules[type(event)]:
                rule(event)
            if thorough:
                judged.exchange.check_record_count()
        number = None
        judged.check_end(at_rest=at_rest)
    except BrokenError as error:
        return Verdict(Status.INVALID, error.property, str(error), number)
    except Exception as error:
        reason = f"the verifier failed: {type(error).__name__}: {error}"
        return Verdict(Status.UNKNOWN, reason=reason, event=number)
    return Verdict(Status.VALID)


class ModelRules:
    """The rules of progress and notifications for one state, and which event is checked by which of them."""

    def __init__(self, state: AbstractState) -> None:
        self.exchange = exchange = ExchangeRules(state)
        self._frontiers = frontiers = FrontierRules(state)
        self._notifications = notifications = NotificationRules(state)
        self.of: RulesOf = {
            MessagePulled: (frontiers.message_pulled, exchange.message_pulled),
            MessageSent: (exchange.message_sent,),
            CapabilityChanged: (exchange.capability_changed,),
            ActivationEnded: (exchange.activation_ended,),
            ProgressSent: (exchange.progress_sent,),
            ProgressReceived: (exchange.progress_received,),
            ProgressSummed: (exchange.progress_summed,),
            SumReceived: (exchange.sum_received,),
            FrontiersMoved: (frontiers.frontiers_moved,),
            FrontiersShown: (frontiers.frontiers_shown,),
            NotificationAsked: (notifications.asked,),
            Notified: (frontiers.notified, notifications.notified),
            SnapshotTaken: (),  # no action of these models; see pointstamp.verify.snapshot_rules
            WorkerStarted: (exchange.worker_started,),
        }
        """For each kind of event what checks that it may happen now, and what lets it happen."""

    def take(self, event: Event) -> None:
        """Let an event happen; BrokenError if a rule forbids it."""
        for rule in self.of[type(event)]:
            rule(event)

    @property
    def state(self) -> AbstractState:
        """Return the verdict so far."""
        return self.exchange.state

    def check_end(self, *, at_rest: bool) -> None:
        """Check the final state; at rest everything must be complete, too."""
        self.exchange.check_record_count()
        if at_rest:
            self._frontiers.check_completes()
            self._notifications.check_served()

    def go_on_with(self, state: AbstractState) -> None:
        """Continue with another form of the same state."""
        for rules in (self.exchange, self._frontiers, self._notifications):
            rules.state, rules.walker = state, state.walker
