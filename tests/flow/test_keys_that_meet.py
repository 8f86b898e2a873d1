"""Rows of equal keys meet on one worker, whatever stream they come from; keys that would not are refused.

Families, and what only each can find:
- pairs of types that hold the same values: all of them meet, on several workers, in an operator that reads
  two exchanged streams; and what a hash gives them is the same (the reason);
- pairs that would meet by chance only: refused when the flow is written, also where an exchange stands before
  a loop or before its feedback;
- values of one type that are equal and look different: -0.0 and 0.0, NaNs, encodings of a batch.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.arrow.row_hashing import hash_array
from pointstamp.errors import FlowError
from pointstamp.flow.outlet import key_kind

MOMENTS = [datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 32)]
NAIVE = [moment.replace(tzinfo=None) for moment in MOMENTS]
DATES = [moment.date() for moment in MOMENTS]
WORDS = [f"word {n}" for n in range(40)]
NUMBERS = list(range(-20, 80))
BERLIN = pa.timestamp("us", "Europe/Berlin")


class Meets:
    """Sends how often each key came at both inputs, on this worker."""

    outputs = "both long"

    def __init__(self) -> None:
        self._keys: dict[str, list[Any]] = {"a": [], "b": []}

    def on_receive(self, context: ps.ports.Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self._keys[input].extend(map(str, batch.column("k").to_pylist()))
        context.notify_at()

    def on_notify(self, context: ps.ports.Context) -> None:
        # As text, so that what counts is where a row is, and not what Python holds for equal.
        context.send([{"both": len(set(self._keys["a"]) & set(self._keys["b"]))}])


def meeting(a: pa.DataType, b: pa.DataType) -> ps.Dataflow:
    flow = ps.Dataflow("meeting")
    one, other = (flow.stream_input(name, pa.schema([("k", kind)])) for name, kind in (("a", a), ("b", b)))
    flow.output("met", ps.operator("meets", Meets(), a=one.exchange("k"), b=other.exchange("k")))
    return flow


# Pairs that hold the same values.

ALIKE: list[tuple[pa.DataType, pa.DataType, Sequence[Any]]] = [
    (pa.int32(), pa.int64(), NUMBERS),
    (pa.int8(), pa.uint64(), list(range(100))),
    (pa.int16(), pa.decimal128(10, 0), NUMBERS),
    (pa.decimal128(10, 2), pa.decimal256(40, 2), [Decimal(n) / 4 for n in NUMBERS]),
    (pa.string(), pa.large_string(), WORDS),
    (pa.string(), pa.dictionary(pa.int8(), pa.string()), WORDS),
    (pa.large_string(), pa.dictionary(pa.int32(), pa.large_string()), WORDS),
    (pa.binary(), pa.large_binary(), [word.encode() for word in WORDS]),
    (pa.binary(2), pa.binary(), [f"{n:02}".encode() for n in range(60)]),
    (pa.timestamp("us", "UTC"), BERLIN, MOMENTS),
    (pa.list_(pa.int32()), pa.large_list(pa.int64()), [[n, n + 1] for n in NUMBERS]),
    (pa.list_(pa.int32(), 2), pa.list_(pa.int64()), [[n, n + 1] for n in NUMBERS]),
    (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        pa.struct([("a", pa.int64()), ("b", pa.large_string())]),
        [{"a": n, "b": str(n)} for n in NUMBERS],
    ),
]


@pytest.mark.parametrize(("a", "b", "values"), ALIKE, ids=lambda given: str(given)[:30])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_equal_keys_of_types_with_the_same_values_meet(
    a: pa.DataType, b: pa.DataType, values: Sequence[Any], workers: int
) -> None:
    assert key_kind(a) == key_kind(b)
    columns = [pa.array([*values, None], kind) for kind in (a, b)]
    assert (hash_array(columns[0]) == hash_array(columns[1])).all()
    batches = [pa.record_batch([column], names=["k"]) for column in columns]
    found = meeting(a, b).run({"a": [batches[0]], "b": [batches[1]]}, workers=workers)["met"][0]
    # Instants of two zones are shown in two ways, so text says nothing of where they are.
    wanted = 1 if pa.types.is_timestamp(a) else len(values) + 1
    assert sum(found.column("both").to_pylist()) >= wanted


def test_floats_of_two_widths_meet_where_their_values_are_equal() -> None:
    values = [n / 8 for n in NUMBERS]
    narrow, wide = pa.array(values, pa.float32()), pa.array(values, pa.float64())
    assert key_kind(pa.float32()) == key_kind(pa.float64()) == key_kind(pa.float16())
    assert (hash_array(narrow) == hash_array(wide)).all()


# Pairs that are refused.

APART: list[tuple[pa.DataType, pa.DataType]] = [
    (pa.int64(), pa.float64()),
    (pa.int32(), pa.float32()),
    (pa.int64(), pa.string()),
    (pa.bool_(), pa.int64()),
    (pa.decimal128(10, 2), pa.decimal128(10, 3)),
    (pa.decimal128(10, 2), pa.int64()),
    (pa.decimal128(10, 2), pa.float64()),
    (pa.timestamp("us"), pa.timestamp("ns")),
    (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    (pa.timestamp("us"), pa.int64()),
    (pa.timestamp("s"), pa.date32()),
    (pa.date32(), pa.date64()),
    (pa.time32("s"), pa.time32("ms")),
    (pa.duration("s"), pa.duration("ms")),
    (pa.string(), pa.binary()),
    (pa.list_(pa.int32()), pa.list_(pa.float32())),
    (pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int8(), pa.int64())),
    (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.float32())])),
    (pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.float64())),
]


@pytest.mark.parametrize(("a", "b"), APART, ids=str)
def test_keys_of_types_that_do_not_hash_alike_are_refused_where_they_would_meet(
    a: pa.DataType, b: pa.DataType
) -> None:
    with pytest.raises(
        FlowError, match=r"operator 'meets' reads .* exchanged by 'k' .*, and .* by 'k' .* Cast"
    ):
        meeting(a, b)
    with pytest.raises(FlowError, match="operator 'meets'"):
        meeting(b, a)


def test_the_keys_of_several_columns_are_compared_one_by_one() -> None:
    flow = ps.Dataflow("several")
    one, other = flow.stream_input("a", "k long, j long"), flow.stream_input("b", "m long, n double")
    with pytest.raises(FlowError, match=r"exchanged by 'j' \(int64\), and input 'b' by 'n' \(double\)"):
        ps.operator("meets", Meets(), a=one.exchange("k", "j"), b=other.exchange("m", "n"))
    ps.operator("meets", Meets(), a=one.exchange("k", "j"), b=other.exchange("m"))  # not of one key
    ps.operator("meets", Meets(), a=one.exchange("k"), b=other.broadcast())  # sees all of them


def test_an_exchange_before_a_loop_and_before_its_feedback_counts() -> None:
    flow = ps.Dataflow("loops")
    longs, doubles = flow.stream_input("a", "k long"), flow.stream_input("b", "k double")
    with longs.loop("round") as loop:
        again = loop.variable("k long")
        entered = loop.enter(doubles.exchange("k"))
        with pytest.raises(FlowError, match="operator 'meets' reads"):
            ps.operator("meets", Meets(), a=loop.enter(longs.exchange("k")), b=entered)
        ps.operator("meets", Meets(), a=again, b=entered)
        with pytest.raises(FlowError, match="operator 'meets' reads"):
            loop.feedback(again, loop.enter(longs).exchange("k"))
        loop.feedback(again, loop.enter(longs))


def test_a_variable_that_is_fed_with_itself_is_exchanged_by_nothing() -> None:
    flow = ps.Dataflow("itself")
    longs = flow.stream_input("a", "k long")
    with longs.loop("round") as loop:
        again = loop.variable("k long")
        ps.operator("meets", Meets(), a=again, b=loop.enter(longs).exchange("k"))
        loop.feedback(again, again)


def test_a_concat_takes_one_type_only() -> None:
    flow = ps.Dataflow("concat")
    with pytest.raises(ps.errors.PointstampError, match="both must have the same schema"):
        flow.stream_input("a", "k long").union(flow.stream_input("b", "k double"))


# Values of one type.


def numbers_flow() -> ps.Dataflow:
    flow = ps.Dataflow("values")
    flow.output("counts", flow.stream_input("rows", "k double").count("k"))
    return flow


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_zeros_of_both_signs_are_one_key_and_so_are_all_nans(workers: int) -> None:
    odd_nan = np.array([0x7FF8000000000123, 0xFFF8000000000000], np.uint64).view(np.float64)
    values = pa.array(np.concatenate([[0.0, -0.0, np.nan, 1.5, 1.5], odd_nan]))
    found = numbers_flow().run(rows=[pa.record_batch([values], names=["k"])], workers=workers)
    counts = found["counts"][0].to_pylist()
    assert sorted(row["count"] for row in counts) == [2, 2, 3]
    assert {row["count"] for row in counts if row["k"] == 0} == {2}


@pytest.mark.parametrize("workers", [1, 3])
def test_encodings_of_a_batch_do_not_matter_to_a_declared_string(workers: int) -> None:
    flow = ps.Dataflow("encodings")
    flow.output("counts", flow.stream_input("rows", "k string").count("k"))
    plain = pa.array(WORDS)
    encoded = [plain, plain.cast(pa.large_string()), plain.dictionary_encode(), plain.cast(pa.string_view())]
    found = flow.run(rows=[pa.table({"k": pa.chunked_array([plain] * 2)})], workers=workers)
    assert set(found["counts"][0].column("count").to_pylist()) == {2}
    epochs = [pa.table({"k": column}) for column in encoded]
    by_epoch = flow.run(rows=epochs, workers=workers)["counts"]
    assert [sorted(by_epoch[e].column("k").to_pylist()) for e in range(4)] == [sorted(WORDS)] * 4
