"""A name that a user chose is never taken for an option, in any verb that takes both as keywords.

Families:
- aggregates of a reduction: columns named as its options, by keyword or in the mapping;
- inputs of an operator of one's own, named as its parameters;
- inputs of a flow, named as options of the verbs that run it;
- names of inputs and outputs that no folder could have, which are rejected when the flow is written.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.connectors.published.reader import read_changes
from pointstamp.errors import FlowError
from support.options import with_options

PEOPLE = [{"city": "a", "name": "x", "running": 3}, {"city": "a", "name": "y", "running": 5}]


def people(flow: ps.Dataflow | None = None) -> ps.Stream:
    return (flow or ps.Dataflow("people")).stream_input("people", "city string, name string, running long")


def result_of(make: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - from a stream to a stream
    flow = ps.Dataflow("people")
    flow.output("out", make(people(flow)))
    rows: list[dict[str, Any]] = flow.run(people=[PEOPLE])["out"][0].to_pylist()
    return rows


# Aggregates of a reduction.


@pytest.mark.parametrize("option", ["name", "running"])
def test_a_column_may_be_named_as_an_option(option: str) -> None:
    best = ps.max(option)
    value = {"name": "y", "running": 5}[option]
    assert result_of(lambda rows: rows.group_by("city").agg(**{option: best})) == [
        {"city": "a", option: value}
    ]
    in_mapping = result_of(lambda rows: rows.group_by("city").agg({option: best}))
    assert in_mapping == [{"city": "a", option: value}]


def test_a_column_and_the_option_of_its_name_can_both_be_given() -> None:
    rows = people()
    kept = rows.group_by("city", running=True).agg({"name": ps.max("name"), "running": ps.sum("running")})
    assert kept.schema.names == ["city", "name", "running"]
    named = rows.group_by("city").agg({"name": ps.max("name")}).named("latest")
    assert str(named) == "stream 'latest'"
    assert named.schema.names == ["city", "name"]


def test_a_column_may_be_named_aggregates() -> None:
    columns = people().group_by("city").agg(aggregates=ps.count(), name=ps.max("name")).schema.names
    assert sorted(columns) == ["aggregates", "city", "name"]


def test_an_accumulator_of_ones_own_is_an_aggregate_under_every_name() -> None:
    class Longest:
        column = "name"

        def result_type(self, column_type: pa.DataType) -> pa.DataType:
            return pa.int64()

        def empty(self) -> dict[str, int]:
            return {"longest": 0}

        def update(self, state: Any, slots: Any, values: pa.Array) -> None:  # noqa: ANN401
            for slot, value in zip(slots, values.to_pylist(), strict=True):
                state["longest"][slot] = max(state["longest"][slot], len(value))

        def merge(self, state: Any, slots: Any, other: Any) -> None:  # noqa: ANN401
            raise AssertionError

        def result(self, state: Any) -> Any:  # noqa: ANN401
            return state["longest"]

    assert result_of(lambda rows: rows.group_by("city").agg(name=Longest())) == [{"city": "a", "name": 1}]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"total": "amount"}, "'total' must be an aggregate, such as .* got 'amount' of type str"),
        ({"totals": 3}, "'totals' must be an aggregate, .* got 3 of type int"),
        ({"running": True}, "'running' must be an aggregate, .* got True of type bool"),
    ],
)
def test_what_is_neither_an_aggregate_nor_an_option_is_refused_in_words(given: Any, words: str) -> None:  # noqa: ANN401
    with pytest.raises(FlowError, match=words):
        people().group_by("city").agg(**given)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        (["a"], r"agg\(\) takes aggregates by name, got \['a'\] of type list"),
        ({"a": ps.count()}, "got the aggregate 'a' twice"),
        ({3: ps.count()}, "the name of a column must be a string, got 3"),
    ],
)
def test_a_mapping_of_aggregates_is_checked(mapping: Any, words: str) -> None:  # noqa: ANN401
    with pytest.raises(FlowError, match=words):
        people().group_by("city").agg(mapping, a=ps.count())


def test_count_refuses_options_that_are_none() -> None:
    rows: Any = people()
    with pytest.raises(FlowError, match="running= must be True or False"):
        rows.group_by("city", running="yes").count()
    with pytest.raises(FlowError, match="running= must be True or False, got max"):
        rows.group_by("city", running=ps.max("running")).count()


# Inputs of an operator.


class First:
    outputs = "city string, name string, running long"

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        context.send(batch)
        seen.append(input)


seen: list[str] = []


@pytest.mark.parametrize("name", ["name", "logic", "outputs", "summaries", "inputs"])
def test_an_input_of_an_operator_may_have_any_name(name: str) -> None:
    seen.clear()
    out = result_of(lambda rows: ps.operator("first", First(), inputs={name: rows}))
    assert out == PEOPLE
    assert seen == [name]


@pytest.mark.parametrize("name", ["outputs", "summaries", "inputs"])
def test_a_stream_that_is_given_for_an_option_of_an_operator_is_an_input(name: str) -> None:
    seen.clear()
    result_of(lambda rows: ps.operator("first", First(), **{name: rows}))
    assert seen == [name]


def test_an_input_of_an_operator_that_is_no_stream_or_comes_twice_is_refused() -> None:
    rows = people()
    with pytest.raises(FlowError, match=r"operator 'first': input 'rows' must be a stream, got 3"):
        ps.operator("first", First(), rows=3)  # type: ignore[call-overload]
    with pytest.raises(FlowError, match="operator 'first' got the input 'rows' twice"):
        ps.operator("first", First(), inputs={"rows": rows}, rows=rows)


# Inputs of a flow.


def named(*names: str) -> ps.Dataflow:
    flow = ps.Dataflow("named")
    for name in names:
        flow.output(name, flow.stream_input(name, "x long"))
    return flow


DATA = [[{"x": 1}]]
OPTIONS = ["workers", "processes", "epoch", "control", "progress", "on_epoch", "checkpoint", "inputs", "self"]


@pytest.mark.parametrize("name", OPTIONS)
def test_an_input_that_is_named_as_an_option_is_given_in_the_mapping(name: str) -> None:
    flow = named(name)
    assert flow.run({name: DATA})[name][0].to_pylist() == [{"x": 1}]


@pytest.mark.parametrize("name", ["workers", "processes", "epoch", "control", "progress", "checkpoint"])
def test_an_input_that_is_given_as_an_option_is_refused_with_the_way_to_give_it(name: str) -> None:
    words = f"flow 'named' has an input '{name}', and '{name}' is also an option of run... Give"
    given: Any = {name: DATA}
    with pytest.raises(FlowError, match=words):
        named(name).run(**given)


def test_one_input_takes_its_value_and_inputs_that_have_no_name_or_come_twice_are_rejected() -> None:
    flow = named("rows")
    assert flow.run(DATA)["rows"][0] == flow.run(rows=DATA)["rows"][0]
    with pytest.raises(FlowError, match=r"has 2 inputs, but run\(\) got a list without a name"):
        named("rows", "others").run(DATA)
    with pytest.raises(FlowError, match="got the input 'rows' twice"):
        flow.run({"rows": DATA}, rows=DATA)


@pytest.mark.parametrize("name", ["output", "checkpoint", "workers", "verify"])
def test_a_query_has_a_way_for_inputs_that_are_named_as_options(name: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint", "output": tmp_path / "out"}
    query = named(name).start({name: DATA}, **with_options(options))
    assert query.await_termination(60)
    rows = ps.read_changes(tmp_path / "out", name)
    assert isinstance(rows, pa.Table)
    assert rows.column("x").to_pylist() == [1]


def test_a_query_without_an_input_that_is_named_as_an_option_says_how_to_give_it(tmp_path: Path) -> None:
    words = "has an input 'workers', and 'workers' is also an option of start"
    with pytest.raises(FlowError, match=words):
        named("workers").start(checkpoint=tmp_path / "checkpoint", output=tmp_path / "out", workers=2)


# Names that no folder could have.


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", r"the name of an output must have 1 to 200 bytes as a quoted URL, got ''"),
        ("x" * 201, r"must have 1 to 200 bytes as a quoted URL, got 201: 'xxx"),
        ("ä" * 34, r"got 204"),
        ("\ud800", r"must be text that UTF-8 can encode, got '\\ud800'"),
        (3, r"the name of an output must be a string, got 3"),
    ],
    ids=["empty", "long", "long when escaped", "surrogate", "number"],
)
def test_a_name_that_no_folder_could_have_is_rejected_when_the_flow_is_written(name: Any, said: str) -> None:  # noqa: ANN401
    flow = ps.Dataflow("named")
    rows = flow.stream_input("rows", "x long")
    with pytest.raises(FlowError, match=said):
        flow.output(name, rows)
    with pytest.raises(FlowError, match=said.replace("an output", "an input")):
        flow.stream_input(name, "x long")


@pytest.mark.parametrize("name", ["..", "a/../b", "/etc/x", "_hidden", ".", " ", "a\nb", "x" * 200])
def test_a_name_with_any_characters_is_a_folder_inside_the_output(name: str, tmp_path: Path) -> None:
    flow = ps.Dataflow("named")
    flow.output(name, flow.stream_input("rows", "x long"))
    query = flow.start(
        rows=pa.table({"x": [1]}), checkpoint=tmp_path / "inside" / "c", output=tmp_path / "inside" / "o"
    )
    query.process_all_available(60)
    query.stop()
    assert read_changes(tmp_path / "inside" / "o", name)["x"].to_pylist() == [1]
    assert [each.name for each in tmp_path.iterdir()] == ["inside"]
    assert sorted(each.name for each in (tmp_path / "inside").iterdir()) == ["c", "o"]
