"""What users write need not be as exact as our own code is: the worker takes it as Python would.

Only these tests find a worker that asks for more where it is compiled than where it is not.
"""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.driver.local_run import LocalRun
from pointstamp.errors import FlowError, OperatorError

ROWS = pa.record_batch({"key": pa.array([1, 2], pa.int64())})


class Answers:
    """Returns something from every method, though nobody asks."""

    outputs = "key long"

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> int:  # noqa: A002
        context.send(batch)
        context.notify_at()
        return batch.num_rows  # type: ignore[no-any-return]

    def on_notify(self, context: ps.ports.Context) -> str:
        return "done"


class Refuses(Answers):
    """Fails when it is notified, with a capability that is held for that."""

    def on_notify(self, context: ps.ports.Context) -> str:
        raise LookupError("nothing is known")


class Days:
    """Integers, compared by numpy, whose truth is not Python's."""

    def less_equal(self, a: int, b: int, /) -> bool:
        return np.int64(a) <= np.int64(b)  # type: ignore[return-value]

    def sort_key(self, element: int, /) -> int:
        return element

    def minimum(self) -> int:
        return 0

    def chain(self, element: int, /) -> Hashable:
        return None


def flow_with(logic: Any, **options: Any) -> ps.Dataflow:  # noqa: ANN401 - looser than any operator
    flow = ps.Dataflow("loose", **options)
    flow.output("out", ps.operator("it", logic, rows=flow.stream_input("in", "key long")))
    return flow


def epochs_of(flow: ps.Dataflow) -> list[tuple[object, int]]:
    """The results of two epochs of rows: each with its number of rows."""
    found: list[tuple[object, int]] = []
    with LocalRun(
        flow.plan, on_result=lambda name, epoch, table: found.append((epoch, table.num_rows))
    ) as run:
        for epoch in (1, 2):
            run.input("in").send(ROWS)
            run.input("in").advance_to(epoch)
        run.settle()
    return found


def test_what_an_operator_returns_does_not_matter() -> None:
    assert epochs_of(flow_with(Answers())) == [(0, 2), (1, 2)]


def test_an_operator_that_fails_when_notified_is_not_said_to_have_lost_a_capability() -> None:
    with pytest.raises(OperatorError, match="nothing is known"):
        epochs_of(flow_with(Refuses()))


def test_an_order_may_answer_with_the_truth_of_numpy() -> None:
    assert epochs_of(flow_with(Answers(), times=Days())) == [(0, 2), (1, 2)]


@pytest.mark.parametrize("name", [5, None, "other"])
def test_an_input_that_is_not_there_is_named_whatever_it_is(name: object) -> None:
    with LocalRun(flow_with(Answers()).plan) as run, pytest.raises(FlowError, match=f"has no input '{name}'"):
        run.input(name)  # type: ignore[arg-type]
