"""Rows for the elements of lists, and functions of one's own on rows: with weights, on streams and tables."""

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.errors import SchemaError
from support.table_queries import Row, accumulated, changes, put_out, table_of

ROWS = pa.schema({"id": pa.int64(), "tags": pa.list_(pa.string()), "w": pa.int64()})
_TAGS = st.one_of(st.none(), st.lists(st.sampled_from([None, "a", "b"]), max_size=3))


@settings(max_examples=20, deadline=None)
@given(data=st.data(), outer=st.booleans(), workers=st.integers(1, 3), epochs=st.integers(1, 3))
def test_each_element_is_a_row_as_often_as_its_row_is_there(
    data: st.DataObject, outer: bool, workers: int, epochs: int
) -> None:
    rows = data.draw(changes(st.tuples(st.integers(0, 2), _TAGS), epochs))
    flow = ps.Dataflow("test")
    table = flow.table("rows", ROWS, weight="w")
    flow.output("tags", table.explode("tags", outer=outer, position="at"))
    results = flow.run(rows=[table_of(each, ROWS) for each in rows], workers=workers)["tags"]
    for epoch, found in enumerate(put_out(results, epochs)):
        wanted: Counter[Row] = Counter()
        for number, tags in accumulated(rows[: epoch + 1]):
            wanted.update((number, tag, at) for at, tag in enumerate(tags or []))
            if outer and not tags:
                wanted[(number, None, None)] += 1
        assert found == wanted, f"epoch {epoch}"


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.int64()), pa.list_(pa.int64(), 2)])
def test_streams_have_it_for_lists_of_every_kind(kind: pa.DataType) -> None:
    flow = ps.Dataflow("test")
    rows = flow.stream_input("rows", pa.schema({"id": pa.int64(), "l": kind}))
    flow.output("inner", rows.explode("l"))
    flow.output("outer", rows.explode("l", outer=True))
    given = pa.table({"id": [1, 2], "l": pa.array([[5, 6], None], kind)})
    found = flow.run(rows=[given])
    assert found["inner"][0].to_pylist() == [{"id": 1, "l": 5}, {"id": 1, "l": 6}]
    assert found["outer"][0].to_pylist() == [{"id": 1, "l": 5}, {"id": 1, "l": 6}, {"id": 2, "l": None}]


def test_a_function_is_given_rows_without_weights_and_keeps_their_weights() -> None:
    seen: list[Any] = []

    def halves(batch: pa.RecordBatch) -> pa.Table | None:
        seen.append((batch.schema.names, sorted(batch["n"].to_pylist())))
        even = batch.filter(pc.equal(pc.bit_wise_and(batch["n"], 1), 0))
        return pa.table({"half": pc.divide(even["n"], 2)}) if even.num_rows else None

    flow = ps.Dataflow("test")
    table = flow.table("rows", "n long, w long", weight="w")
    flow.output("halves", table.map_batches(halves, "half long"))
    epochs = [[{"n": 4, "w": 2}, {"n": 3, "w": 1}, {"n": 6, "w": 2}], [{"n": 4, "w": -1}]]
    found = put_out(flow.run(rows=epochs)["halves"], 2)
    assert found == [Counter({(2,): 2, (3,): 2}), Counter({(2,): 1, (3,): 2})]
    assert seen == [(["n"], [3]), (["n"], [4, 6]), (["n"], [4])]


def test_what_cannot_be_asked_is_refused_in_words() -> None:
    flow = ps.Dataflow("test")
    rows = flow.stream_input("rows", "id long, tags array<string>")
    for each in (rows, rows.to_table()):
        with pytest.raises(SchemaError, match=r"'explode' of .* needs the column 'tag'"):
            each.explode("tag")
        with pytest.raises(SchemaError, match="column 'id' must be a list, got int64"):
            each.explode("id")
        with pytest.raises(SchemaError, match="the column 'id' already exists"):
            each.explode("tags", position="id")
    with pytest.raises(SchemaError, match="a column cannot be called 'diff'"):
        rows.to_table().explode("tags", position="diff")
    with pytest.raises(SchemaError, match="a column cannot be called 'diff'"):
        rows.to_table().map_batches(lambda batch: batch, "diff long")


def test_what_a_function_makes_must_fit_what_was_declared() -> None:
    flow = ps.Dataflow("test")
    rows = flow.table("rows", "id long")
    flow.output("out", rows.flat_map(lambda row: [{"name": row["id"]}], "id long"))
    with pytest.raises(SchemaError, match="operator 'flat map'"):
        flow.run(rows=[[{"id": 1}]])
