"""Bounded runs that are judged, on workers of this process and in processes of their own.

Families, and what only each can find:
- *right runs*: that with a judge the same comes out as without, in every form of a run, and that the judge
  has looked at every event: one that was never asked would find nothing, too;
- *broken workers*: that a wrong step raises, says which property, and leaves a trace that is judged alike;
- *what cannot be judged* is said as text before anything runs.
"""

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pointstamp as ps
from pointstamp.errors import FlowError, InternalError
from pointstamp.operators.notify import Notifications, Request
from pointstamp.operators.spec import spec_of
from pointstamp.order.frontier import MutableAntichain
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.direct import DirectBroadcast
from pointstamp.progress.pointstamp import Change
from pointstamp.verify import trace, verifier
from pointstamp.verify.conformance import Status
from pointstamp.verify.verifier import BoundedJudge
from pointstamp.worker.events import Event, WorkerStarted
from support.own_times import pairs_flow, pairs_inputs
from support.recoverables import FLOWS
from support.recoverables import rows_of as rows_given
from support.worlds import SCHEMA, Holds, Steps, busy_flow, nested_flow, some_rows

Patch = pytest.MonkeyPatch
pytestmark = pytest.mark.as_python  # mutants are made inside of the workers' processes, too
FORMS: dict[str, dict[str, Any]] = {
    "one worker": {},
    "three workers": {"workers": 3},
    "two processes": {"processes": 2},
}


def joined_flow() -> ps.Dataflow:
    """Two inputs, one operator that is notified, one that holds capabilities."""
    flow = ps.Dataflow("joined")
    rows, more = (
        flow.stream_input("rows", SCHEMA).exchange("key"),
        flow.stream_input("more", SCHEMA).exchange("key"),
    )
    flow.output("sums", ps.operator("sums", Steps(), rows=rows, more=more))
    flow.output("held", ps.operator("holds", Holds(), rows=rows, more=more))
    return flow


def inputs_of(flow: ps.Dataflow, epochs: int = 3) -> dict[str, Any]:
    return {node.name: some_rows(epochs) for node in flow.plan.nodes if node.kind.value == "input"}


def rows_of(results: Any) -> dict[str, list[Any]]:  # noqa: ANN401 - what a run returns
    return {
        name: [(time, sorted(map(str, table.to_pylist()))) for time, table in output.items()]
        for name, output in results.items()
    }


# Right runs.


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("flow", [joined_flow, nested_flow])
def test_a_judged_run_puts_out_what_any_other_does(flow: Callable[[], ps.Dataflow], form: str) -> None:
    found = flow().run(inputs_of(flow()), verify=True, **FORMS[form])
    assert rows_of(found) == rows_of(flow().run(inputs_of(flow())))


@pytest.mark.parametrize("form", [{"workers": 5}, {"processes": 4}], ids=str)
def test_workers_that_tell_their_progress_along_a_tree_put_out_the_same_and_are_judged(
    form: dict[str, Any],
) -> None:
    flow = nested_flow()
    flow.plan.broadcast = "accumulating"
    found = flow.run(inputs_of(flow), verify=True, **form)
    assert rows_of(found) == rows_of(nested_flow().run(inputs_of(flow)))


@pytest.mark.parametrize("form", FORMS)
def test_every_event_is_judged_before_its_epoch_is_yielded(form: str, monkeypatch: Patch) -> None:
    judged: list[BoundedJudge] = []
    seen: list[Event] = []

    class Noting(BoundedJudge):
        def __init__(self, *given: Any) -> None:  # noqa: ANN401 - as it is
            super().__init__(*given)
            judged.append(self)

        def take(self, worker: int, events: Any) -> None:  # noqa: ANN401 - as it is
            seen.extend(events := list(events))
            super().take(worker, events)

    monkeypatch.setattr(verifier, "BoundedJudge", Noting)
    flow = joined_flow()
    counts = []
    for _ in flow.stream(inputs_of(flow, 5), verify=True, **FORMS[form]):
        counts.append(sum(judged[0]._online.judged))
    assert len(counts) == 5
    assert counts[0] > 20
    assert counts == sorted(counts)
    assert sum(judged[0]._online.judged) == len(seen)
    assert {event.worker for event in seen if isinstance(event, WorkerStarted)} == {
        event.worker for event in seen
    }


def test_without_verify_no_worker_tells_anything(monkeypatch: Patch) -> None:
    monkeypatch.setattr(verifier, "BoundedJudge", None)
    assert busy_flow().run(inputs_of(busy_flow()), processes=2)


def test_a_run_with_a_checkpoint_is_judged_as_a_query_is(tmp_path: Path) -> None:
    flow = FLOWS["running"]()
    given = [each["numbers"] for each in rows_given(flow, 5, 3)]
    found = flow.run(numbers=given, checkpoint=tmp_path / "checkpoint", verify=True, workers=2)
    assert rows_of(found) == rows_of(FLOWS["running"]().run(numbers=given))


def test_a_flow_with_times_of_its_own_is_judged_where_it_runs() -> None:
    found = pairs_flow().run(pairs_inputs(), verify=True, workers=2)
    assert rows_of(found) == rows_of(pairs_flow().run(pairs_inputs()))


# Broken workers.


def a_batch_is_applied_twice(patch: Patch) -> None:
    receive = DirectBroadcast.receive

    def twice(self: DirectBroadcast, batch: ProgressBatch) -> tuple[Change, ...]:
        return receive(self, batch) * (2 if batch.sender != self.worker else 1)

    patch.setattr(DirectBroadcast, "receive", twice)


def a_frontier_that_lost_an_element_stays(patch: Patch) -> None:
    update = MutableAntichain.update

    def only_joins(self: Any, element: Any, change: int) -> Sequence[Any]:  # noqa: ANN401 - as it is
        moved = update(self, element, change)
        return moved if len(moved) < 2 else [each for each in moved if each[1] > 0]

    patch.setattr(MutableAntichain, "update", only_joins)


def a_request_is_forgotten(patch: Patch) -> None:
    ask = Notifications.ask

    def forget(self: Notifications, sort_key: object, request: Request) -> None:
        if request.time[0] != 1:
            ask(self, sort_key, request)
            return
        for capability in request.held:
            capability.drop()

    patch.setattr(Notifications, "ask", forget)


def broken_there(mutant: Callable[[Patch], None], logic: Callable[[], Any]) -> Any:  # noqa: ANN401
    """An operator whose process is broken when it is made: processes inherit nothing that a test patches."""
    if not getattr(sys, "is_broken_by_a_test", False):
        sys.is_broken_by_a_test = True  # type: ignore[attr-defined]
        mutant(pytest.MonkeyPatch())
    return logic()


@pytest.mark.parametrize("form", ["three workers", "two processes"])
@pytest.mark.parametrize(
    ("mutant", "caught_by"),
    [
        (a_batch_is_applied_twice, "PtsEqGlob"),
        (a_frontier_that_lost_an_element_stays, "Converged"),
        (a_request_is_forgotten, "AskedIsServed"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_broken_worker_is_raised_with_a_trace_that_is_judged_alike(
    mutant: Callable[[Patch], None], caught_by: str, form: str, monkeypatch: Patch
) -> None:
    flow = busy_flow()
    if form == "two processes":
        for node in flow.plan.nodes:
            if node.logic is not None:
                node.logic = spec_of(partial(broken_there, mutant, node.logic))
    else:
        mutant(monkeypatch)
    with pytest.raises(InternalError, match=rf"flow 'busy' has broken .*: {caught_by} ") as error:
        flow.run(inputs_of(flow), verify=True, **FORMS[form])
    named = re.search(r"The events are in (\S+);", str(error.value))
    assert named is not None
    path = Path(named[1])
    try:
        verdict = trace.load(path).judged()
    finally:
        path.unlink()
    assert (verdict.status, verdict.property) == (Status.INVALID, caught_by)


# What cannot be judged.


def test_a_run_on_spark_needs_a_checkpoint_to_be_judged() -> None:
    nothing: Any = None
    session: Any = object()  # it is not asked
    with pytest.raises(
        FlowError, match=r"flow 'busy': verify=True on Spark needs checkpoint=.* Give checkpoint="
    ):
        busy_flow().run({"rows": nothing, "more": nothing}, on=session, verify=True)


def test_times_of_ones_own_are_not_judged_in_other_processes() -> None:
    with pytest.raises(FlowError, match=r"flow 'pairs' has custom times, .* Give workers= instead"):
        pairs_flow().run(pairs_inputs(), verify=True, processes=2)
