"""What would crash a compiled core that breaks its rules, done thousands of times: a program for a process.

    POINTSTAMP_CORE=compiled PYTHONMALLOC=debug python -X faulthandler tests/support/strained_core.py

It prints ``unharmed`` at its end. Classes with a slot for weak references crash the garbage collector some
time after an instance has gone, and what a weak reference calls crashes while it strikes an entry; so values
come and go, flows are made and dropped in the middle, operators fail, and capabilities are lost.
"""

import gc
import pickle
import sys
import types
import warnings
import weakref
from importlib import import_module
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.compiled import CORE, is_compiled
from pointstamp.driver.local_run import LocalRun
from pointstamp.errors import OperatorError, PointstampWarning
from pointstamp.operators.notify import Request
from pointstamp.order.frontier import MutableAntichain
from pointstamp.order.multiset import SignedMultiset
from pointstamp.order.partial import Naturals
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.topology.ports import Location

RUNS = 80
ROWS = pa.record_batch({"key": pa.array([1, 2, 3], pa.int64())})


class Careless:
    """Asks for rounds, keeps capabilities without dropping them, and fails in one epoch."""

    outputs = "key long"

    def __init__(self, fails_in: int) -> None:
        self.fails_in = fails_in
        self.kept: list[Any] = []

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        """Keep a capability in a cycle that only the collector finds, and continue."""
        held = [context.retain()]
        held.append(held)  # type: ignore[arg-type]
        self.kept = held
        if context.epoch == self.fails_in:
            raise ValueError("as it is meant to be")
        context.notify_at()
        if context.time[1] < 3:
            context.send(batch)

    def on_notify(self, context: ps.ports.Context) -> None:
        """Lose what was kept."""
        self.kept = []


def flow(fails_in: int) -> ps.Dataflow:
    """A loop around the careless operator."""
    made = ps.Dataflow("careless")
    rows = made.stream_input("in", "key long")
    with rows.loop("loop") as loop:
        variable = loop.variable("key long")
        circling = ps.operator("careless", Careless(fails_in), rows=loop.enter(rows).union(variable))
        loop.feedback(variable, circling)
        left = loop.leave(circling)
    made.output("out", left)
    return made


def classes_have_no_slot_for_weak_references() -> None:
    """Of all classes that the core has made, those that no module names included."""
    names = {f"pointstamp.{name.removesuffix('.py').replace('/', '.')}" for name in CORE}
    for name in names:
        assert str(import_module(name).__file__).endswith((".so", ".pyd")), name
    found = [each for each in object.__subclasses__() if each.__module__ in names]
    assert len(found) >= len(CORE)
    for each in found:
        assert (each.__weakrefoffset__, each.__dictoffset__) == (0, 0), each


@settings(max_examples=120, deadline=None, database=None)
@given(st.dictionaries(st.text(max_size=2), st.integers(-3, 3)).map(SignedMultiset), st.data())
def values_come_and_go(drawn: SignedMultiset, data: st.DataObject) -> None:
    """Hypothesis takes a weak reference of every value, where the value allows one."""
    others = data.draw(st.lists(st.builds(SignedMultiset), max_size=3))
    for value in (drawn, *others, MutableAntichain(Naturals()), Request((0,), None, ())):
        try:
            weakref.ref(value)
        except TypeError:
            continue
        raise AssertionError(f"{type(value)} can be referred to weakly")


def flows_come_and_go() -> None:
    """Half of them fail, most are dropped in the middle, and what they held is collected some time later."""
    for number in range(RUNS):
        run = LocalRun(flow(number % 4).plan, 1 + number % 2)
        source = run.input("in")
        try:
            for epoch in range(1, 4):
                source.send(ROWS)
                source.advance_to(epoch)
                for _ in range(number % 17):
                    run.step()
        except OperatorError as error:
            if "as it is meant to be" not in str(error):
                raise
        if number % 3 == 0:
            gc.collect()
        for worker in run._workers:
            for instance in worker.instances.values():
                for output in instance.outputs:
                    # What a weak reference calls is Python's own function.
                    assert type(output.on_collected) is types.FunctionType
                    assert all(right.__callback__ is not None for right in output.rights.values())


def what_is_sent_is_what_comes() -> None:
    """What is pickled comes back as it was, or says that it cannot be pickled."""
    batch = ProgressBatch(WorkerIndex(0), 3, (Change(Location(1), (0, 2), -1),))
    assert pickle.loads(pickle.dumps(batch)) == batch  # noqa: S301 - made here
    multiset = SignedMultiset({"a": 1, "b": -2})
    try:
        again = pickle.dumps(multiset)
    except TypeError:
        return
    assert pickle.loads(again) == multiset  # noqa: S301 - made here


def main() -> None:
    """Do it all, and look after the garbage."""
    assert is_compiled()
    warnings.simplefilter("ignore", PointstampWarning)
    gc.set_threshold(50, 2, 2)
    classes_have_no_slot_for_weak_references()
    values_come_and_go()
    flows_come_and_go()
    what_is_sent_is_what_comes()
    for _ in range(3):
        gc.collect()
    sys.stdout.write("unharmed\n")


if __name__ == "__main__":
    main()
