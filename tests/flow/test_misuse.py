"""Misuse is caught where it happens: each error names who, what was needed, what was found and what to do.

Families:
- writing a flow: caught when the line that is wrong runs;
- feeding a flow: inputs that go back, close, are no lists of epochs, or bring the wrong columns;
- operators: sending without the right to, at times that cannot be, or rows that would be made to fit; and
  exceptions in a user's own code.
"""

import copy
import gc
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pointstamp as ps
from pointstamp.dataflow.other_words import VERBS
from pointstamp.errors import (
    CapabilityError,
    FlowError,
    LoopError,
    OperatorError,
    PointstampWarning,
    SchemaError,
)


def rows(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, pa.int64())})


def flow_with(logic: Any, **options: Any) -> ps.Dataflow:  # noqa: ANN401
    flow = ps.Dataflow("test")
    stream = flow.stream_input("numbers", "x long")
    flow.output("out", ps.operator("mine", logic, outputs="x long", numbers=stream, **options))
    return flow


# Writing a flow.


def test_two_outputs_of_one_name_are_refused() -> None:
    flow = ps.Dataflow("test")
    stream = flow.stream_input("numbers", "x long")
    flow.output("out", stream)
    with pytest.raises(FlowError, match="two outputs named 'out'"):
        flow.output("out", stream)


def test_a_missing_key_column_is_named_with_those_that_are_there() -> None:
    stream = ps.Dataflow("test").stream_input("numbers", "x long, y string")
    with pytest.raises(SchemaError, match="needs the column 'z'; it has 'x' int64, 'y' string"):
        stream.exchange("z")
    with pytest.raises(SchemaError, match="count of stream 'numbers' needs the column 'z'"):
        stream.count("z")
    with pytest.raises(FlowError, match="at least one key column"):
        stream.exchange()


def test_a_variable_that_is_never_fed_is_refused() -> None:
    stream = ps.Dataflow("test").stream_input("numbers", "x long")
    with (
        pytest.raises(FlowError, match="loop 'again': the variable 'labels' was never fed"),
        stream.loop("again") as loop,
    ):
        loop.variable("x long", "labels")


def test_a_variable_that_is_fed_twice_or_with_another_schema_is_refused() -> None:
    stream = ps.Dataflow("test").stream_input("numbers", "x long")
    with stream.loop("again") as loop:
        inside = loop.enter(stream)
        variable = loop.variable("x long", "labels")
        with pytest.raises(SchemaError, match="variable 'labels' is declared as"):
            loop.feedback(variable, inside.map_batches(lambda batch: batch, "y string"))
        loop.feedback(variable, inside)
        with pytest.raises(FlowError, match="'labels' is fed twice"):
            loop.feedback(variable, inside)
        with pytest.raises(FlowError, match="needs a variable of this loop"):
            loop.feedback(inside, inside)


def test_streams_of_different_scopes_do_not_meet_without_a_door() -> None:
    flow = ps.Dataflow("test")
    stream = flow.stream_input("numbers", "x long")
    with stream.loop("again") as loop:
        inside = loop.enter(stream)
        with pytest.raises(
            FlowError, match=r"in loop 'again'.*outside all loops|outside all loops.*in loop 'again'"
        ):
            inside.union(stream)
        with pytest.raises(FlowError, match="enter takes a stream from outside the loop"):
            loop.enter(inside)
        with pytest.raises(FlowError, match="leave takes a stream from inside the loop"):
            loop.leave(stream)
        with pytest.raises(FlowError, match=r"is in loop 'again'\. Leave the loop first"):
            flow.output("out", inside)


def test_streams_of_different_flows_do_not_meet() -> None:
    one, other = ps.Dataflow("one"), ps.Dataflow("other")
    left, right = one.stream_input("a", "x long"), other.stream_input("b", "x long")
    with pytest.raises(FlowError, match="different flows"):
        left.union(right)
    with pytest.raises(FlowError, match="belongs to another flow"):
        one.output("out", right)


def test_concat_of_different_schemas_shows_both() -> None:
    flow = ps.Dataflow("test")
    with pytest.raises(SchemaError, match="'x' int64 and 'y' string"):
        flow.stream_input("a", "x long").union(flow.stream_input("b", "y string"))


def test_an_operator_without_methods_or_inputs_is_refused() -> None:
    stream = ps.Dataflow("test").stream_input("numbers", "x long")
    with pytest.raises(FlowError, match="operator 'lazy' is a object without any of the methods on_start"):
        ps.operator("lazy", object(), numbers=stream)  # type: ignore[call-overload]
    with pytest.raises(FlowError, match="operator 'alone' needs at least one input"):
        ps.operator("alone", object())  # type: ignore[call-overload]


def test_a_cycle_without_a_feedback_cannot_even_be_written_and_limits_are_checked() -> None:
    stream = ps.Dataflow("test").stream_input("numbers", "x long")
    with pytest.raises(FlowError, match="max_rounds must be at least 1"):
        stream.loop("again", max_rounds=0)
    with pytest.raises(FlowError, match="at_limit 'error' or 'stop'"):
        stream.loop("again", at_limit="perhaps")
    with pytest.raises(FlowError, match="at least one epoch"):
        stream.delay(0)


@pytest.mark.parametrize(
    ("verb", "said"),
    [
        ("withColumn", r"here that is with_columns\(total="),
        ("selectExpr", r"here that is select\('id', total="),
        ("groupBy", r"here that is group_by\('key'\)\.agg\(total=ps\.sum\('amount'\)\)"),
        ("reduce", "here that is group_by"),
        ("where", "here that is filter"),
        ("dropDuplicates", r"here that is distinct\(\), or distinct\('key'\)"),
        ("concat", "here that is union"),
        ("minus", r"here that is to_table\(\), a table, and then except_"),
        ("flatMap", "here that is explode"),
        ("crossJoin", r"here that is join\(other, how='cross'\)"),
        ("writeStream", r"here that is flow\.output"),
        ("fliter", "Did you mean 'filter'"),
    ],
)
def test_a_verb_of_another_library_is_answered_with_the_one_here(verb: str, said: str) -> None:
    sales = ps.Dataflow("test").stream_input("sales", "price double")
    with pytest.raises(AttributeError, match=f"^stream 'sales' has no '{verb}'[;.] {said}"):
        getattr(sales, verb)


def test_no_verb_that_a_stream_has_is_said_to_be_called_otherwise() -> None:
    words = [word for each in VERBS.values() for word in each.split()]
    assert len(words) == len(set(words)) > 80
    assert not [word for word in words if hasattr(ps.Stream, word) or hasattr(ps.Table, word)]


def test_a_stream_can_still_be_copied_and_asked_for_what_it_has_not() -> None:
    sales = ps.Dataflow("test").stream_input("sales", "price double")
    assert copy.copy(sales).schema == sales.schema
    assert not hasattr(sales, "__dataframe__")
    assert not hasattr(sales, "columns")


@pytest.mark.parametrize("aggregate", [ps.sum, ps.min, ps.max, ps.mean, ps.count])
def test_an_aggregate_of_an_expression_of_pyarrows_asks_for_one_of_ours(aggregate: Any) -> None:  # noqa: ANN401
    said = rf"the aggregate '{aggregate.__name__}' needs .* or an expression, got Expression multiply"
    with pytest.raises(FlowError, match=said):
        aggregate(pc.field("price") * 2)


def test_what_is_no_aggregate_is_refused_with_its_name() -> None:
    sales = ps.Dataflow("test").stream_input("sales", "shop string, price double")
    with pytest.raises(
        FlowError, match=r"of stream 'sales': 'total' must be an aggregate.* got 'price' of type str"
    ):
        sales.group_by("shop").agg(total="price")  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", ["filter", "split"])
@pytest.mark.parametrize(
    ("condition", "said"),
    [
        (
            pc.field("prise") > 1,
            r"of stream 'sales' needs the column 'prise' for the condition \(prise",
        ),
        (pc.field("prise") > 1, r"; it has 'price' double, 'name' string\."),
        (
            pc.field("name") > 1,
            r"condition \(name > 1\) cannot be computed from 'price' double, 'name'",
        ),
        (pc.field("price") + 1, r"must be boolean, but .* is double\. Compare"),
        ("price > 1", r"an expression such as .* got str 'price > 1'\. Write"),
        (None, r"got NoneType None"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_where_it_is_written(
    verb: str,
    condition: Any,  # noqa: ANN401 - whatever a user may write
    said: str,
) -> None:
    sales = ps.Dataflow("test").stream_input("sales", "price double, name string")
    with pytest.raises(FlowError, match=f"^'{verb}' .*{said}"):
        getattr(sales, verb)(condition)


# Feeding a flow.


def plain_flow() -> ps.Dataflow:
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long"))
    return flow


def test_an_input_that_goes_back_or_is_used_after_closing_is_refused() -> None:
    with plain_flow().open() as run:
        numbers = run.input("numbers")
        numbers.advance_to(3)
        with pytest.raises(FlowError, match="input 'numbers' is at 3 and cannot be advanced to 2"):
            numbers.advance_to(2)
        numbers.close()
        with pytest.raises(FlowError, match="input 'numbers' was sent to after it was closed"):
            numbers.send(rows(1))
        with pytest.raises(FlowError, match="after it was closed"):
            numbers.advance_to(9)
        with pytest.raises(FlowError, match="no input 'letters'; it has 'numbers'"):
            run.input("letters")


def test_a_batch_that_does_not_fit_names_the_input_the_column_and_both_types() -> None:
    flow = plain_flow()
    with pytest.raises(SchemaError, match=r"input 'numbers'.*'x'.*int64.*string"):
        flow.run(numbers=[pa.table({"x": ["one"]})])
    with pytest.raises(SchemaError, match=r"input 'numbers'.*'x'"):
        flow.run(numbers=[pa.table({"y": [1]})])


def test_inputs_that_are_missing_or_unknown_are_listed() -> None:
    with pytest.raises(FlowError, match="has the inputs 'numbers'; missing: 'numbers'"):
        plain_flow().run()
    with pytest.raises(FlowError, match="unknown: 'letters'"):
        plain_flow().run(numbers=[], letters=[])
    with pytest.raises(FlowError, match="workers must be at least 1"):
        plain_flow().run(numbers=[], workers=0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "must be one table, or a list with the rows of each epoch, got NoneType"),
        ("folder", "got str. For files of a folder, use start"),
        ({"x": [1]}, "got dict"),
        ([{"x": 1}, {"x": 2}], r"item 0 must hold the rows of epoch 0, got a single row.*\[\["),
    ],
)
def test_what_is_no_list_of_epochs_is_refused_in_words(given: Any, said: str) -> None:  # noqa: ANN401
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long"))
    with pytest.raises(FlowError, match=said):
        flow.run(numbers=given)


@pytest.mark.parametrize(
    ("epoch", "day", "said"),
    [
        ("day", -1, "input 'numbers': epochs must be 0 or more, got a row of epoch -1"),
        ({"number": "day"}, 1, "epoch= names 'number', but the inputs are 'numbers'"),
        ("dya", 1, "epoch= names the column 'dya', but the columns are 'x', 'day'. Name"),
        (["day"], 1, "epoch must be the name of a column, or a mapping .* got list"),
    ],
)
def test_epoch_columns_that_cannot_be_are_refused_in_words(epoch: Any, day: int, said: str) -> None:  # noqa: ANN401
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long"))
    with pytest.raises(FlowError, match=said):
        flow.run(numbers=pa.table({"x": [1], "day": [day]}), epoch=epoch)


def test_an_epoch_column_that_is_not_there_is_missed_before_anything_runs() -> None:
    ran: list[int] = []
    flow = ps.Dataflow("test")
    numbers = flow.stream_input("numbers", "x long").inspect(lambda _, batch: ran.append(batch.num_rows))
    flow.output("out", numbers)
    parts = [pa.table({"x": [1], "day": [0]}), pa.table({"x": [1]})]
    with pytest.raises(SchemaError, match="input 'numbers': epoch= names the column 'day'"):
        flow.run(numbers=parts, epoch="day")
    assert not ran


@pytest.mark.parametrize("local", ["workers", "processes", "checkpoint", "query"])
def test_a_flow_without_outputs_is_refused_before_it_runs(local: str, tmp_path: Path) -> None:
    flow = ps.Dataflow("silent")
    flow.stream_input("numbers", "x long")
    place, given = tmp_path / "checkpoint", [rows(1)]
    ways: dict[str, Callable[[], object]] = {
        "workers": lambda: flow.run(numbers=given, workers=2),
        "processes": lambda: flow.run(numbers=given, processes=2),
        "checkpoint": lambda: flow.run(numbers=given, checkpoint=place),
        "query": lambda: flow.start(numbers=given, checkpoint=place, output=tmp_path / "out"),
    }
    with pytest.raises(FlowError, match=r"flow 'silent' has no output.*flow\.output\('result', stream\)"):
        ways[local]()
    assert not place.exists()


def test_epochs_of_a_column_may_not_go_back_between_batches() -> None:
    parts = [pa.table({"x": [1], "e": [2]}), pa.table({"x": [1], "e": [1]})]
    with pytest.raises(FlowError, match="has rows of epoch 1 after rows of epoch 2"):
        plain_flow().run(numbers=parts, epoch="e")


def test_a_batch_that_an_operator_sends_is_checked_too() -> None:
    class Wrong:
        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            context.send(pa.record_batch({"x": ["text"]}))

    with pytest.raises(SchemaError, match=r"operator 'mine', output 'out'.*'x'"):
        flow_with(Wrong()).run(numbers=[rows(1)])


# Operators.


class Keeps:
    """Retains a capability and does something with it when told."""

    def __init__(self, misuse: str) -> None:
        self.misuse = misuse

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        later = context.retain(at=(context.epoch + 3,))
        match self.misuse:
            case "dropped":
                later.drop()
                later.drop()
                context.send(batch, capability=later)
            case "below":
                context.send(batch, at=(context.epoch + 2,), capability=later)
            case "back":
                later.delayed((context.epoch,))
            case "downgrade back":
                later.downgrade((context.epoch,))
            case "past":
                context.notify_at((context.epoch - 1,))
            case "unheard":
                context.notify_at()
            case "send before":
                context.send(batch, at=(context.epoch - 1,))
            case "retain before":
                context.retain(at=(context.epoch - 1,))
            case "no output":
                context.send(batch, output="side")
            case "no input":
                context.frontier("side")


@pytest.mark.parametrize(
    ("misuse", "said"),
    [
        ("dropped", r"dropped capability for \(4,\) was used to send"),
        ("below", r"operator 'mine' sent at \(3,\) with a capability for \(4,\).*Keep an earlier capability"),
        ("back", r"operator 'mine' has a capability for \(4,\) that was delayed to \(1,\)"),
        ("downgrade back", r"that was downgraded to \(1,\)"),
        ("past", r"operator 'mine' requested at \(1,\) a notification at \(0,\), which is not later"),
        ("unheard", r"operator 'mine' requested at .* a notification .* has no method on_notify"),
        ("send before", r"operator 'mine' sent at \(0,\) on output 'out' while it was handling \(1,\)"),
        ("retain before", r"asked for a capability at \(0,\)"),
        ("no output", "operator 'mine' has no output 'side'; it has 'out'"),
        ("no input", "operator 'mine' has no input 'side'; it has 'numbers'"),
    ],
)
@pytest.mark.filterwarnings("ignore::pointstamp.errors.PointstampWarning")
def test_an_operator_may_do_only_what_it_has_the_right_to(misuse: str, said: str) -> None:
    with pytest.raises((CapabilityError, FlowError), match=said):
        flow_with(Keeps(misuse)).run(numbers=[rows(), rows(1)])


class Stamps:
    """Uses a time, inside a loop or outside, in one of the ways that a context offers."""

    def __init__(self, act: str, time: Any) -> None:  # noqa: ANN401
        self.act = act
        self.time = time

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        with context.retain() as held:
            match self.act:
                case "send":
                    context.send(batch, at=self.time)
                case "send with":
                    context.send(batch, at=self.time, capability=held)
                case "retain":
                    context.retain(at=self.time)
                case "delayed":
                    held.delayed(self.time)
                case "downgrade":
                    held.downgrade(self.time)
                case "notify":
                    context.notify_at(self.time)
                case "ask":
                    context.is_complete(self.time)


@pytest.mark.parametrize("act", ["send", "send with", "retain", "delayed", "downgrade", "notify", "ask"])
@pytest.mark.parametrize(
    ("time", "said"),
    [
        ((0.5,), r"\(0.5,\) with 0.5 of type float in it; expected a tuple \(epoch,\) of Python"),
        ((np.int64(7),), r"of type int64 in it"),
        ((7, 0), r"\(7, 0\); expected a tuple \(epoch,\) of Python integers"),
        (7, r"operator 'mine' .* 7; expected a tuple \(epoch,\) of Python integers"),
    ],
    ids=["float", "numpy", "a round too many", "no tuple"],
)
def test_a_time_that_cannot_stand_at_a_place_is_refused_there(act: str, time: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(FlowError, match=said):
        flow_with(Stamps(act, time)).run(numbers=[rows(1)])


def test_a_time_without_its_round_is_refused_in_a_loop() -> None:
    flow = ps.Dataflow("test")
    numbers = flow.stream_input("numbers", "x long")
    with numbers.loop("again") as loop:
        inside = ps.operator("mine", Stamps("send", (1,)), outputs="x long", numbers=loop.enter(numbers))
        flow.output("out", loop.leave(inside))
    with pytest.raises(FlowError, match=r"sent at \(1,\); expected a tuple \(epoch, round\)"):
        flow.run(numbers=[rows(1)])


@pytest.mark.parametrize("epoch", [1.5, "1", (1,)])
def test_an_input_is_advanced_to_an_epoch_and_to_nothing_else(epoch: Any) -> None:  # noqa: ANN401
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long"))
    with (
        flow.open() as run,
        pytest.raises(FlowError, match=r"input 'numbers' can only be advanced to an epoch, got .* of type"),
    ):
        run.input("numbers").advance_to(epoch)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"y": 1}, "operator 'made', output 'out', row 0 lacks 'x', which the schema declares; it has 'y'"),
        ({"x": 1, "y": 1}, "has 'y', but the schema declares only 'x'"),
        ({"x": 0.5}, "column 'x' must be int64, got 0.5, which would become 0"),
        ({"x": None}, "column 'x' must not be null"),
        (None, "a list of dicts, got a list with NoneType in it"),
    ],
)
def test_a_row_that_a_function_makes_fits_as_it_is_or_is_refused(made: Any, said: str) -> None:  # noqa: ANN401
    flow = ps.Dataflow("test")
    flow.output(
        "out", flow.stream_input("numbers", "x long").map(lambda _: made, "x long not null").named("made")
    )
    with pytest.raises(SchemaError, match=said):
        flow.run(numbers=[rows(1)])


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "the function must return a list of dictionaries, or yield them, got NoneType"),
        ({"x": 1}, "got a list with str in it"),
    ],
)
def test_a_flat_map_gives_lists_of_rows(made: Any, said: str) -> None:  # noqa: ANN401
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long").flat_map(lambda _: made, "x long"))
    with pytest.raises(SchemaError, match=said):
        flow.run(numbers=[rows(1)])


def test_an_output_with_a_column_named_as_the_times_asks_for_another_name() -> None:
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "epoch long"))
    out = flow.run(numbers=[pa.table({"epoch": [7]})])["out"]
    with pytest.raises(FlowError, match="output 'out' already has a column 'epoch'"):
        out.table()
    assert out.table("at").to_pylist() == [{"at": 0, "epoch": 7}]


def test_sending_without_any_authority_says_what_to_keep() -> None:
    class Eager:
        def on_frontier(self, context: ps.ports.Context) -> None:
            context.send(rows(1))

    with pytest.raises(CapabilityError, match="without a message, a notification or a capability"):
        flow_with(Eager()).run(numbers=[rows(1)])


def test_an_exception_in_a_users_function_says_operator_time_line_and_sample() -> None:
    def halve(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ZeroDivisionError("by nothing")

    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long").map_batches(halve).named("halve"))
    with pytest.raises(OperatorError, match="operator 'halve' failed with a batch at input 'in'") as caught:
        flow.run(numbers=[rows(), rows(7, 8, 9, 10)])
    message = str(caught.value)
    assert (
        "operator 'halve' failed with a batch at input 'in' at (1,): ZeroDivisionError: by nothing" in message
    )
    assert "test_misuse.py" in message
    assert 'raise ZeroDivisionError("by nothing")' in message
    assert "4 rows and begins [{'x': 7}, {'x': 8}, {'x': 9}]" in message
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_the_line_of_an_error_is_the_users_where_a_library_has_raised_it() -> None:
    def misread(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"x": batch["price"]})  # there is no such column

    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long").map_batches(misread))
    with pytest.raises(OperatorError, match="operator 'map' failed with a batch at input 'in'") as caught:
        flow.run(numbers=[rows(1)])
    line = misread.__code__.co_firstlineno + 1
    assert f"test_misuse.py:{line}, in misread: return pa.record_batch" in str(caught.value)


def test_the_line_of_an_error_is_not_that_of_pythons_own_library() -> None:
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long").map_batches(lambda _: json.loads("{")))
    with pytest.raises(
        OperatorError, match=r"JSONDecodeError: .*test_misuse\.py:\d+, in <lambda>: flow.output"
    ):
        flow.run(numbers=[rows(1)])


def test_code_in_a_folder_named_pointstamp_is_its_users(tmp_path: Path) -> None:
    code = compile("def fail(batch):\n    return batch[9]\n", str(tmp_path / "pointstamp" / "f.py"), "exec")
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - it is the name of the file that is tested
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long").map_batches(names["fail"]))
    with pytest.raises(OperatorError, match=r"pointstamp/f\.py:2, in fail"):
        flow.run(numbers=[rows(1)])


def test_the_line_in_an_installed_package_is_the_one_that_was_called() -> None:
    """Where all of a user's code is installed, no frame is outside of it."""
    source = "def called(batch):\n    return helper(batch)\n\ndef helper(batch):\n    return batch['price']\n"
    names: dict[str, Any] = {}
    exec(compile(source, "/venv/lib/site-packages/flows.py", "exec"), names)  # noqa: S102 - as above
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long").map_batches(names["called"]))
    with pytest.raises(OperatorError, match=r"site-packages/flows\.py:2, in called\)"):
        flow.run(numbers=[rows(1)])


def test_a_condition_that_is_no_mask_is_refused() -> None:
    flow = ps.Dataflow("test")
    flow.output("out", flow.stream_input("numbers", "x long").filter(lambda batch: [1, 2]))
    with pytest.raises(SchemaError, match="one boolean per row"):
        flow.run(numbers=[rows(1, 2)])


def test_a_capability_that_is_garbage_collected_is_released_and_reported_once() -> None:
    class Forgets:
        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            for _ in range(3):
                context.retain()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = flow_with(Forgets()).run(numbers=[rows(1), rows(2)])
        gc.collect()
    lost = [str(each.message) for each in caught if each.category is PointstampWarning]
    assert len(lost) == 1
    assert "operator 'mine' lost a capability for (0,) on output 'out'" in lost[0]
    assert list(results["out"]) == [0, 1]


@pytest.mark.parametrize("in_a_cycle", [False, True], ids=["at once", "by the collector"])
def test_a_capability_that_is_collected_between_activations_is_released(in_a_cycle: bool) -> None:
    """Nobody is active then, and nothing arrives: the worker must look by itself."""
    kept: list[Any] = []

    class Keeps:
        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            kept.append([context.retain()])
            if in_a_cycle:
                kept[-1].append(kept[-1])

    run = flow_with(Keeps()).open()
    with run:
        run.input("numbers").send(rows(1))
        run.input("numbers").advance_to(1)
        run.settle()
        assert not run.is_done("out", 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PointstampWarning)
            kept.clear()
            gc.collect()
        run.settle()
        assert run.is_done("out", 0)


def test_a_capability_that_is_never_dropped_is_named_instead_of_hanging() -> None:
    class Hoards:
        def __init__(self) -> None:
            self.kept: list[ps.timely.Capability] = []

        def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
            self.kept.append(context.retain())

    with pytest.raises(FlowError, match=r"is not complete: time \(0,\) is outstanding at output 0 of 'mine'"):
        flow_with(Hoards()).run(numbers=[rows(1)])


def endless(at_limit: str) -> ps.Dataflow:
    flow = ps.Dataflow("test")
    stream = flow.stream_input("numbers", "x long")
    with stream.loop("again", max_rounds=4, at_limit=at_limit) as loop:
        variable = loop.variable("x long")
        inside = loop.enter(stream).union(variable)
        grown = inside.map_batches(lambda batch: pa.record_batch({"x": pc.add(batch["x"], 1)}))
        loop.feedback(variable, grown)
        flow.output("out", loop.leave(grown))
    return flow


def test_a_loop_past_its_limit_is_an_error_that_says_the_round() -> None:
    with pytest.raises(LoopError, match=r"loop 'again' would begin round 4 at \(0, 3\), but max_rounds is 4"):
        endless("error").run(numbers=[rows(0)])


def test_a_loop_past_its_limit_returns_what_there_is_if_asked_to() -> None:
    results = endless("stop").run(numbers=[rows(0), rows(10)], workers=2)
    assert sorted(results["out"][0]["x"].to_pylist()) == [1, 2, 3, 4]
    assert sorted(results["out"][1]["x"].to_pylist()) == [11, 12, 13, 14]
