"""The same rows in any order of files, any split into files and epochs, with restarts, give one final table.

Families:
- *plain rows*: added in any order, from every format;
- *changes with weights*: insertions and deletions in order, by modification time or by a column, whatever
  the names of the files are; by their names the law is broken, and finds it;
- *epochs in memory*: the same law without files, on one worker and on several.
"""

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pointstamp as ps
from pointstamp.arrow.schema import as_schema
from pointstamp.errors import FlowError
from support.splits import Added, Row, Split, splits, table_from_epochs, table_from_files

PLAIN = as_schema("k long, v string")
WEIGHED = as_schema("k long, v string, w long")
TIMED = as_schema("k long, v string, w long, at long")
FORMATS = ["parquet", "csv", "json"]

values = st.fixed_dictionaries({"k": st.integers(0, 2), "v": st.sampled_from(["a", "b", "ä"])})


def plain_flow() -> ps.Dataflow:
    flow = ps.Dataflow("plain")
    flow.output("counts", flow.table("rows", PLAIN).group_by("k").agg(n=ps.count(), v=ps.max("v")))
    return flow


def weighed_flow() -> ps.Dataflow:
    flow = ps.Dataflow("weighed")
    rows = flow.table("rows", WEIGHED, weight="w")
    flow.output("counts", rows.group_by("k").agg(n=ps.count(), v=ps.max("v")))
    return flow


def timed_flow() -> ps.Dataflow:
    flow = ps.Dataflow("timed")
    rows = flow.stream_input("rows", TIMED).drop("at").to_table(weight="w")
    flow.output("counts", rows.group_by("k").agg(n=ps.count(), v=ps.max("v")))
    return flow


def expected(rows: Sequence[Row]) -> Added:
    """By brute force: what is there at the end, and of that a row for each key."""
    there: Counter[tuple[int, str]] = Counter()
    for row in rows:
        there[row["k"], row["v"]] += row.get("w", 1)
    keys = {key for (key, _), count in there.items() if count}
    made: list[tuple[tuple[str, Any], ...]] = []
    for key in keys:
        copies = {v: count for (k, v), count in there.items() if k == key and count}
        made.append((("k", key), ("n", sum(copies.values())), ("v", max(copies))))
    return Counter(made)


@st.composite
def stories(draw: st.DrawFn) -> list[Row]:
    """Insertions, and deletions of what is there then."""
    story: list[Row] = []
    there: list[Row] = []
    for inserts in draw(st.lists(st.booleans(), min_size=1, max_size=12)):
        if inserts or not there:
            there.append(draw(values))
            story.append({**there[-1], "w": 1})
        else:
            story.append({**there.pop(draw(st.integers(0, len(there) - 1))), "w": -1})
    return story


@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=8)
@given(data=st.data())
def test_plain_rows_in_any_files_and_epochs_with_restarts_give_one_table(
    format_name: str, data: st.DataObject
) -> None:
    rows = data.draw(st.lists(values, min_size=1, max_size=12))
    split = data.draw(splits(len(rows)))
    with tempfile.TemporaryDirectory() as folder:
        found = table_from_files(plain_flow, "rows", rows, PLAIN, split, Path(folder), format=format_name)
    assert found == expected(rows)


@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=8)
@given(data=st.data())
def test_changes_in_any_files_and_epochs_by_modification_time_give_one_table(
    format_name: str, data: st.DataObject
) -> None:
    story = data.draw(stories())
    split = data.draw(splits(len(story), is_ordered=True))
    with tempfile.TemporaryDirectory() as folder:
        found = table_from_files(
            weighed_flow, "rows", story, WEIGHED, split, Path(folder), format=format_name
        )
    assert found == expected(story)


@settings(max_examples=8)
@given(data=st.data())
def test_changes_in_any_files_and_epochs_by_a_column_give_one_table(data: st.DataObject) -> None:
    story = [{**row, "at": place} for place, row in enumerate(data.draw(stories()))]
    split = data.draw(splits(len(story), is_ordered=True))
    format_name = data.draw(st.sampled_from(FORMATS))
    with tempfile.TemporaryDirectory() as folder:
        found = table_from_files(
            timed_flow,
            "rows",
            story,
            TIMED,
            split,
            Path(folder),
            format=format_name,
            has_times=False,
            order_by="at",
        )
    assert found == expected(story)


def test_by_names_that_do_not_follow_the_story_a_deletion_comes_first_and_is_found(tmp_path: Path) -> None:
    story: list[Row] = [{"k": 1, "v": "a", "w": 1}, {"k": 1, "v": "a", "w": -1}]
    split = Split(files=((0,), (1,)), stops=frozenset(), files_per_epoch=1, names=(1, 0))
    with pytest.raises(FlowError, match="epoch 0 deletes"):
        table_from_files(weighed_flow, "rows", story, WEIGHED, split, tmp_path, order_by="name")


@pytest.mark.long
@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=200)
@given(data=st.data())
def test_many_stories_in_any_files_and_epochs_give_one_table(format_name: str, data: st.DataObject) -> None:
    story = data.draw(stories())
    split = data.draw(splits(len(story), is_ordered=True))
    with tempfile.TemporaryDirectory() as folder:
        found = table_from_files(
            weighed_flow, "rows", story, WEIGHED, split, Path(folder), format=format_name
        )
    assert found == expected(story)


@pytest.mark.parametrize("workers", [1, 2])
@given(data=st.data())
def test_changes_in_any_epochs_in_memory_give_one_table(workers: int, data: st.DataObject) -> None:
    story = data.draw(stories())
    split = data.draw(splits(len(story), is_ordered=True))
    found = table_from_epochs(weighed_flow, "rows", story, WEIGHED, split, workers=workers)
    assert found == expected(story)
