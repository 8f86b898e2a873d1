"""What an operator does is checked against what it holds: by the runtime's record, not by what objects say.

Families:
- making: only the runtime makes capabilities; the constructor, copies and pickles are rejected with an error;
- using: a capability that was altered, dropped, copied by other means, or is held by another operator, for
  another output, on another worker or in another run is refused wherever it is used, and so is whatever only
  looks like one;
- acting: the right to act on a message ends with the call that was given it, and the ports are not at hand;
- nothing happens: where a forgery is refused and the operator continues, results are as without it.
"""

import copy
import gc
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.errors import CapabilityError, FlowError, OperatorError, PointstampWarning

ROWS = [pa.table({"x": [epoch]}) for epoch in range(4)]


class Operator:
    """Passes rows on, and does something more at epoch 2, with a capability for epoch 2."""

    outputs = "x long"

    def __init__(self, act: Callable[[ps.ports.Context, Any], None]) -> None:
        self.act = act

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send(batch)
        if context.epoch == 2:
            with context.retain() as held:
                self.act(context, held)


def flow_of(act: Callable[[ps.ports.Context, Any], None]) -> ps.Dataflow:
    flow = ps.Dataflow("test")
    flow.output("out", ps.operator("mine", Operator(act), rows=flow.stream_input("rows", "x long")))
    return flow


def results_of(act: Callable[[ps.ports.Context, Any], None], workers: int = 1) -> dict[int, list[int]]:
    found = flow_of(act).run({"rows": ROWS}, workers=workers)["out"]
    return {epoch: found[epoch]["x"].to_pylist() for epoch in found}


def forged(capability: Any, **altered: Any) -> Any:  # noqa: ANN401 - what it has is private
    """The same object or another, with attributes set by force."""
    for name, value in altered.items():
        object.__setattr__(capability, name, value)
    return capability


def twin_of(capability: Any) -> Any:  # noqa: ANN401
    """A copy that was made without asking the class."""
    twin = object.__new__(ps.timely.Capability)
    return forged(twin, **{name: getattr(capability, name) for name in ("_output", "_time")})


# Making.


def test_a_capability_is_not_made_by_calling_the_class() -> None:
    with pytest.raises(
        CapabilityError,
        match=r"ps\.timely\.Capability\(\.\.\.\): only the runtime creates.*context\.retain\(\)",
    ):
        ps.timely.Capability()
    with pytest.raises(CapabilityError, match=r"context\.retain\(\)"):
        results_of(lambda context, held: ps.timely.Capability(held, (0,)).drop())


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda make: make.__name__)
def test_a_capability_is_neither_copied_nor_pickled(make: Callable[[Any], Any]) -> None:
    with pytest.raises(CapabilityError, match=r"operator 'mine' has a capability for \(2,\) that was copied"):
        results_of(lambda context, held: make(held))


def test_the_attributes_of_a_capability_are_not_set() -> None:
    def alter(context: ps.ports.Context, held: Any) -> None:  # noqa: ANN401
        held._time = (0,)

    with pytest.raises(CapabilityError, match=r"attribute '_time' .* was set to \(0,\)"):
        results_of(alter)


# Using.

USES: dict[str, Callable[[ps.ports.Context, Any], object]] = {
    "send": lambda context, forgery: context.send([{"x": 99}], capability=forgery),
    "session": lambda context, forgery: context.session(forgery).send([{"x": 99}]),
    "downgrade": lambda context, forgery: forgery.downgrade((3,)),
    "delayed": lambda context, forgery: forgery.delayed((3,)),
    "clone": lambda context, forgery: forgery.clone(),
}
FORGERIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an earlier time": (lambda held: forged(held, _time=(0,)), "was altered or copied"),
    "a later time": (lambda held: forged(held, _time=(3,)), "was altered or copied"),
    "a twin": (twin_of, "was altered or copied"),
    "an earlier twin": (lambda held: forged(twin_of(held), _time=(0,)), "was altered or copied"),
    "an empty one": (lambda held: object.__new__(ps.timely.Capability), "was altered or copied"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_was_altered_or_copied_is_refused_wherever_it_is_used(use: str, forgery: str) -> None:
    make, said = FORGERIES[forgery]
    seen: list[object] = []
    with pytest.raises(CapabilityError, match=said):
        results_of(lambda context, held: seen.append(USES[use](context, make(held))))


@pytest.mark.parametrize("use", USES)
def test_a_dropped_capability_is_refused_wherever_it_is_used(use: str) -> None:
    def act(context: ps.ports.Context, held: Any) -> None:  # noqa: ANN401
        held.drop()
        USES[use](context, held)

    with pytest.raises(CapabilityError, match=r"a dropped capability for \(2,\) was"):
        results_of(act)


@pytest.mark.parametrize("thing", [object(), (2,), "capability", 7], ids=lambda thing: type(thing).__name__)
def test_what_is_no_capability_is_refused_in_words(thing: object) -> None:
    with pytest.raises(CapabilityError, match=r"operator 'mine' sent with .*, which is not a capability"):
        results_of(lambda context, held: context.send([{"x": 1}], capability=thing))  # type: ignore[arg-type]


def test_what_looks_like_a_capability_is_refused_in_words() -> None:
    class Looks:
        time: ClassVar = (0,)
        output = "out"

        def check_may_send(self, *_: object) -> None:
            """Everything is allowed."""

    with pytest.raises(CapabilityError, match="which is not a capability"):
        results_of(lambda context, held: context.send([{"x": 1}], capability=Looks()))  # type: ignore[arg-type]


def test_a_subclass_cannot_give_itself_a_right() -> None:
    class Mine(ps.timely.Capability):
        def __init__(self, other: Any) -> None:  # noqa: ANN401
            forged(self, _output=other._output, _time=(0,))

    with pytest.raises(CapabilityError, match="was altered or copied"):
        results_of(lambda context, held: context.send([{"x": 99}], capability=Mine(held)))


def test_sending_with_a_capability_of_another_output_names_both() -> None:
    class Two:
        outputs: ClassVar = {"left": "x long", "right": "x long"}

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            with context.retain(output="left") as held:
                context.send(batch, output="right", capability=held)

    flow = ps.Dataflow("test")
    left, right = ps.operator("two", Two(), rows=flow.stream_input("rows", "x long"))
    flow.output("left", left)
    flow.output("right", right)
    with pytest.raises(
        CapabilityError, match="operator 'two' sent on output 'right' with a capability for output 'left'"
    ):
        flow.run({"rows": ROWS})


def test_a_capability_of_another_operator_is_refused() -> None:
    lent: list[Any] = []

    class Lends:
        outputs = "x long"

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            lent.append(context.retain())
            context.send(batch)

    class Borrows:
        outputs = "x long"

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            context.send(batch, capability=lent[0])

    flow = ps.Dataflow("test")
    lends = ps.operator("lends", Lends(), rows=flow.stream_input("rows", "x long"))
    flow.output("out", ps.operator("borrows", Borrows(), rows=lends))
    with pytest.raises(
        CapabilityError, match=r"operator 'borrows' sent with a capability .* that operator 'lends' holds"
    ):
        flow.run({"rows": ROWS})


@pytest.mark.parametrize("workers", [1, 2])
def test_a_capability_of_another_worker_or_run_is_refused(workers: int) -> None:
    kept: dict[tuple[int, int], Any] = {}
    runs = [0]

    def act(context: ps.ports.Context, held: Any) -> None:  # noqa: ANN401
        others = [each for (run, worker), each in kept.items() if (run, worker) != (runs[0], context.worker)]
        kept[runs[0], context.worker] = held.clone()
        if others:
            context.send([{"x": 99}], capability=others[0])

    flow = flow_of(act)
    # With two workers both see epoch 2, because the rows are sent to everybody.
    everywhere = ps.Dataflow("test")
    rows = everywhere.stream_input("rows", "x long").broadcast()
    everywhere.output("out", ps.operator("mine", Operator(act), rows=rows))
    chosen = flow if workers == 1 else everywhere
    if workers == 1:
        # The clone that is kept is named, and ends the first run.
        with pytest.raises(FlowError, match="mine"):
            chosen.run({"rows": ROWS})
        runs[0] = 1
    said = r"'mine' sent with a capability .* on another worker or in another run"
    with pytest.raises(CapabilityError, match=said):
        chosen.run({"rows": ROWS}, workers=workers)


# Acting.


def test_the_ports_and_the_record_of_an_operator_are_not_at_hand() -> None:
    public: list[set[str]] = []

    def act(context: ps.ports.Context, held: Any) -> None:  # noqa: ANN401
        public.append({name for name in dir(context) if not name.startswith("_")})
        public.append({name for name in dir(held) if not name.startswith("_")})

    results_of(act)
    assert public[0] == {
        *("operator", "worker", "workers", "time", "epoch", "output_names", "schema", "send", "session"),
        *("retain", "notify_at", "regained", "frontier", "is_complete", "is_settled"),
    }
    assert public[1] == {"time", "output", "is_held", "clone", "delayed", "downgrade", "drop"}


def test_a_context_says_the_names_and_schemas_of_its_outputs() -> None:
    seen: list[object] = []
    results_of(
        lambda context, held: seen.extend([context.output_names, context.schema(), context.schema("out")])
    )
    assert seen == [("out",), pa.schema([("x", pa.int64())]), pa.schema([("x", pa.int64())])]


def test_the_right_to_act_on_a_message_ends_with_the_call() -> None:
    """Somebody else's context is used where its own operator is at rest, when its epoch is long complete."""
    contexts: list[ps.ports.Context] = []

    class Later:
        outputs = "x long"

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            contexts[0].send(batch)

    def keep(context: ps.ports.Context, held: Any) -> None:  # noqa: ANN401
        contexts.append(context)

    flow = ps.Dataflow("test")
    first = ps.operator("mine", Operator(keep), rows=flow.stream_input("rows", "x long"))
    last = ps.operator(
        "later", Later(), rows=first.filter(lambda batch: [x == 3 for x in batch["x"].to_pylist()])
    )
    flow.output("out", last)
    with pytest.raises((CapabilityError, OperatorError), match=r"operator 'mine' .*without a message"):
        flow.run({"rows": ROWS})


# Nothing happens.


@pytest.mark.parametrize("forgery", FORGERIES)
def test_results_are_whole_where_a_forgery_is_refused_and_the_operator_goes_on(forgery: str) -> None:
    make, _ = FORGERIES[forgery]

    def act(context: ps.ports.Context, held: Any) -> None:  # noqa: ANN401
        false = make(held)
        for use in USES.values():
            with pytest.raises(
                CapabilityError, match="altered or copied, and its operator holds no such right"
            ):
                use(context, false)
        false.drop()

    assert results_of(act) == {epoch: [epoch] for epoch in range(4)}


def test_an_altered_capability_that_is_collected_is_released_by_the_record() -> None:
    def act(context: ps.ports.Context, held: Any) -> None:  # noqa: ANN401
        lost = forged(context.retain(), _time=(0,), _output=None)
        del lost
        gc.collect()

    with pytest.warns(PointstampWarning, match=r"operator 'mine' lost a capability for \(2,\)"):
        assert results_of(act) == {epoch: [epoch] for epoch in range(4)}
