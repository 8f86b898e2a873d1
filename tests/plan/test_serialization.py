"""JSON of plans: what is read is what was written, for every operator that there is.

Families:
- operators: an instance of every class, found and not listed;
- values: literals, arrays and types of Arrow, exactly;
- functions: their identity, and what a plan can do without them;
- texts: sharing, the same text in every process, and what is rejected.
"""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import FlowError
from pointstamp.expressions.tree import Literal
from pointstamp.plan import logical
from pointstamp.plan.arrow_json import array_of, schema_json, schema_of, type_json, type_of, values_json
from pointstamp.plan.canonical import identity_digest
from pointstamp.plan.logical import Iterate, LogicalOperator, Recursive, Scan, Variable, walk
from pointstamp.plan.serialization import PlanReader, PlanWriter, read_plan, write_plan
from support.operator_instances import (
    COLUMNS,
    LITERALS,
    Product,
    arrays,
    doubled,
    kinds,
    kinds_of_operators,
    operators,
)

ORDERS = Scan("orders", COLUMNS)


# Operators.


@pytest.mark.parametrize("kind", kinds_of_operators(), ids=lambda kind: kind.__name__)
def test_every_operator_is_read_as_it_was_written(kind: type[LogicalOperator]) -> None:
    @settings(max_examples=25, deadline=None)
    @given(operators(kind))
    def check(operator: LogicalOperator) -> None:
        text = write_plan({"out": operator})
        again = read_plan(text)["out"]
        assert type(again) is kind
        assert write_plan({"out": again}) == text
        if "digest" not in text:
            assert again.schema.equals(operator.schema, check_metadata=True)

    check()


def test_the_fields_of_an_operator_are_in_the_json() -> None:
    large = logical.Filter(ORDERS, ps.col("n") > 10, name="large", origin="flow.py:7")
    (scan, found) = json.loads(write_plan({"out": large}))["operators"]
    assert scan["is"] == "Scan"
    assert scan["declared"]["schema"]["columns"][1] == {"name": "n", "type": "int64", "nullable": False}
    condition = {
        "is": "Call",
        "function": "greater",
        "arguments": [{"is": "Column", "column": "n"}, {"is": "Literal", "value": 10}],
    }
    assert found == {
        "is": "Filter",
        "name": "large",
        "origin": "flow.py:7",
        "input": {"operator": 0},
        "condition": condition,
    }


def test_what_is_shared_stays_shared() -> None:
    large = logical.Filter(ORDERS, ps.col("n") > 10)
    joined = logical.Join(large, logical.Distinct(large), "inner", (("k", "k"),))
    found = read_plan(write_plan({"joined": joined, "large": large}))
    assert found["joined"].inputs[0] is found["joined"].inputs[1].inputs[0] is found["large"]
    assert len(list(walk(list(found.values())))) == 4


def test_the_variables_of_a_loop_are_those_that_its_bodies_read() -> None:
    variable = Variable(COLUMNS, name="v")
    loop = Iterate((variable,), (ORDERS,), (logical.Distinct(logical.Union((ORDERS, variable))),))
    found = read_plan(write_plan({"out": Recursive(loop)}))["out"]
    assert isinstance(found, Recursive)
    (body,) = found.iterate.bodies
    assert body.inputs[0].inputs[1] is found.iterate.variables[0]


# Values.


@settings(max_examples=150, deadline=None)
@given(LITERALS)
def test_literals_are_read_as_they_were_written(value: Any) -> None:  # noqa: ANN401
    written = json.dumps(PlanWriter(lambda _: None).json(Literal(value)), allow_nan=False)
    again = PlanReader().value(json.loads(written)).value
    assert type(again) is type(value)
    if isinstance(value, pa.Scalar):
        assert again.type.equals(value.type, check_metadata=True)
        assert repr(again.as_py()) == repr(value.as_py())
    else:
        assert repr(again) == repr(value)
    if isinstance(value, datetime):
        assert (again.tzinfo, again.fold) == (value.tzinfo, value.fold)


@settings(max_examples=200, deadline=None)
@given(arrays())
def test_arrays_of_every_type_are_read_as_they_were_written(array: pa.Array) -> None:
    written = json.loads(json.dumps(values_json(array)))
    again = array_of(written, type_of(json.loads(json.dumps(type_json(array.type)))))
    again.validate(full=True)
    assert again.type.equals(array.type, check_metadata=True)
    assert again.to_pylist().__repr__() == array.to_pylist().__repr__()
    assert values_json(again) == values_json(array) or "NaN" in str(written)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=3), kinds, st.booleans()), max_size=4),
    st.none() | st.dictionaries(st.binary(max_size=3), st.binary(max_size=3), max_size=2),
)
def test_schemas_are_read_as_they_were_written(
    columns: list[tuple[str, pa.DataType, bool]], metadata: dict[bytes, bytes] | None
) -> None:
    schema = pa.schema(
        [pa.field(name, kind, null or pa.types.is_null(kind), metadata) for name, kind, null in columns],
        metadata,
    )
    again = schema_of(json.loads(json.dumps(schema_json(schema))))
    assert again.equals(schema, check_metadata=True)


def test_what_lies_under_a_null_is_not_in_the_text() -> None:
    mask = pa.array([True, False])
    one, other = (pa.StructArray.from_arrays([pa.array([n, 5])], names=["a"], mask=mask) for n in (1, 2))
    assert values_json(one) == values_json(other) == [None, [5]]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (-0.0, -0.0),
        (float("nan"), {"float": "NaN"}),
        (b"\x00\xff", {"bytes": "AP8="}),
        (pa.scalar(None, pa.int8()), {"scalar": None, "type": "int8"}),
        (datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Rome")), None),
        (datetime(2024, 1, 1, tzinfo=UTC), {"datetime": "2024-01-01T00:00:00", "zone": {"offset": 0}}),
    ],
)
def test_a_value_has_one_readable_form(value: object, written: object) -> None:
    plan = logical.Project(ORDERS, (("c", ps.lit(value)),))
    text = write_plan({"out": plan})
    expression = json.loads(text)["operators"][-1]["columns"][0][1]
    if written is None:
        written = {"datetime": "2024-10-27T02:30:00", "zone": {"zone": "Europe/Rome"}, "fold": 1}
    assert repr(expression["value"]) == repr(written)


# Functions.


def test_a_function_is_read_from_those_that_are_given() -> None:
    plan = {"out": logical.MapBatches(ORDERS, doubled, COLUMNS)}
    text = write_plan(plan)
    for functions in ([doubled], {"support.operator_instances.doubled": doubled}):
        found = read_plan(text, functions)["out"]
        assert isinstance(found, logical.MapBatches)
        assert found.function is doubled
    function = json.loads(text)["operators"][-1]["function"]
    assert function["function"] == "support.operator_instances.doubled"
    assert function["digest"] == identity_digest(doubled)


def test_an_operator_whose_function_was_not_given_says_so_when_it_runs() -> None:
    plan = {"out": logical.Filter(logical.MapBatches(ORDERS, doubled, COLUMNS), ps.col("n") > 1)}
    found = read_plan(write_plan(plan))["out"].inputs[0]
    assert isinstance(found, logical.MapBatches)
    with pytest.raises(FlowError, match=r"the plan needs 'support.operator_instances.doubled', which cannot"):
        found.function(pa.record_batch({"n": [1]}))


def test_an_aggregate_whose_object_was_not_given_can_be_compared_and_not_run() -> None:
    total = logical.Aggregate(ORDERS, ("k",), (("a", Product("x", 1.0)),))
    text = write_plan({"out": logical.Distinct(total)})
    found = read_plan(text)["out"]
    assert write_plan({"out": found}) == text
    with pytest.raises(FlowError, match=r"the plan needs 'support.operator_instances.Product'"):
        assert found.schema


def test_a_function_that_has_changed_is_rejected() -> None:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.slice(1)

    text = write_plan({"out": logical.MapBatches(ORDERS, doubled, COLUMNS)})
    with pytest.raises(FlowError, match="is not the function that the plan was written with: its digest is"):
        read_plan(text, {"support.operator_instances.doubled": function})


def test_captured_values_and_constants_are_part_of_the_identity_of_a_function() -> None:
    def make(amount: int) -> object:
        return lambda batch: batch.slice(amount)

    assert identity_digest(make(1)) == identity_digest(make(1)) != identity_digest(make(2))
    assert identity_digest(lambda: 1) != identity_digest(lambda: 2)


# Texts.

EVERYTHING = """
import pyarrow as pa, pointstamp as ps
from pointstamp.plan import logical
from pointstamp.plan.serialization import write_plan
from pointstamp.plan.signatures import signatures
from support.operator_instances import COLUMNS, Product, doubled
orders = logical.Scan("orders", COLUMNS)
mapped = logical.MapBatches(orders, doubled, COLUMNS)
among = logical.Filter(mapped, ps.col("k").is_in("a", "b", "c", "d") & (ps.col("x") > 0.1))
total = logical.Aggregate(among, ("k",), (("p", Product("x", 1.0)), ("n", ps.sum("n"))))
print(write_plan({"total": total}))
print(sorted(signatures([total]).values()))
"""


def test_two_processes_write_the_same_text_and_the_same_signatures() -> None:
    folder = Path(__file__).parent.parent
    texts = set()
    for seed in ("1", "2"):
        path = os.pathsep.join([str(folder), *sys.path])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", EVERYTHING],
            env=environment, capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        texts.add(done.stdout)
    assert len(texts) == 1
    assert '"is": "Aggregate"' in texts.pop()


def test_deep_expressions_can_be_written() -> None:
    condition = ps.col("n") > 0
    for number in range(200):
        condition = condition & (ps.col("n") > number)
    text = write_plan({"out": logical.Filter(ORDERS, condition)})
    assert write_plan(read_plan(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the text is not JSON"),
        ("[]", "the layout of the plan is None, expected 1"),
        ('{"layout": 99}', "the layout of the plan is 99, expected 1"),
        ('{"layout": 1}', "the text is not a plan: KeyError"),
        ({"is": "Magic"}, "there is no operator 'Magic'"),
        ({"is": "Distinct", "other": 1}, "'Distinct' does not fit"),
        ({"is": "Distinct", "input": {"operator": 7}}, "the text is not a plan: IndexError"),
        ({"is": "Distinct", "input": {"ours": "os:system"}}, "there is no 'os:system' in this version"),
        ({"is": "Distinct", "input": {"ours": "pointstamp.plan.canonical:pickle"}}, "there is no 'points"),
        ({"is": "Distinct", "input": {"is": "pointstamp.errors:FlowError"}}, "is not a dataclass"),
    ],
)
def test_a_text_that_is_not_a_plan_is_rejected(text: object, message: str) -> None:
    whole = {"layout": 1, "outputs": {}, "operators": [text]}
    with pytest.raises(FlowError, match=message):
        read_plan(text if isinstance(text, str) else json.dumps(whole))
