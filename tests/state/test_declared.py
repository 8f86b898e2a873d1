"""State as rows, and the state that a user's operator declares.

- *merge*: pieces in order against a dict that is updated row by row. It finds an old row that outlives a new.
- *share*: rows over workers against the exchange itself. It finds a key that comes back where no rows do.
- *declared*: an operator of one's own that is saved and continues elsewhere. It finds what the ways of saving
  promise and do not keep.
- *refusal*: what cannot be saved or restored, and what is said about it.
"""

import copy
import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, time
from decimal import Decimal
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pointstamp.arrow.row_hashing import partition
from pointstamp.dataflow import Dataflow
from pointstamp.dataflow.operator import operator
from pointstamp.errors import FlowError, RecoveryError
from pointstamp.operators.context import Context
from pointstamp.state import saved
from pointstamp.state.declared import stateful_of
from pointstamp.state.pieces import Piece, Stateful, merged, owned
from pointstamp.state.saved import Saving
from support.journeys import Journey

KEYS = ("id", "name")
SCHEMA = pa.schema({"id": pa.float64(), "name": pa.string(), "n": pa.int64()})
rows_of = st.lists(
    st.tuples(
        st.one_of(st.none(), st.sampled_from([0.0, 1.5, -2.0])),
        st.sampled_from([None, "", "a"]),
        st.integers(0, 99),
    ),
    max_size=8,
)


def table_of(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def rows_in(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@given(pieces=st.lists(st.tuples(rows_of, st.booleans()), min_size=1, max_size=5))
def test_merged_has_the_last_row_of_each_identity_since_the_last_whole_piece(
    pieces: list[tuple[list[tuple[Any, ...]], bool]],
) -> None:
    pieces[0] = (pieces[0][0], True)
    kept: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    chain = []
    for rows, is_whole in pieces:
        if is_whole:
            kept, rows = {}, list({row[:2]: row for row in rows}.values())
        kept.update((row[:2], row) for row in rows)
        chain.append(Piece(table_of(rows), KEYS, KEYS, is_whole))
    assert Counter(rows_in(merged(chain))) == Counter(kept.values())


def test_changes_without_a_beginning_are_refused() -> None:
    with pytest.raises(RecoveryError, match="all of them incremental; one must be complete"):
        merged([Piece(table_of([]), KEYS, KEYS, is_whole=False)])


@given(rows=rows_of, workers=st.integers(1, 5))
def test_rows_belong_to_the_worker_to_which_the_exchange_brings_them(
    rows: list[tuple[Any, ...]], workers: int
) -> None:
    table = pa.concat_tables([table_of(rows[:3]), table_of(rows[3:])])
    batch = pa.RecordBatch.from_pylist(table.to_pylist(), schema=SCHEMA)
    for worker, part in enumerate(partition(batch, KEYS, workers)):
        expected = [] if part is None else rows_in(pa.Table.from_batches([part]))
        assert rows_in(owned(table, KEYS, worker, workers)) == expected


@dataclass
class Session:
    """What a user keeps of a user."""

    clicks: int
    pages: tuple[str, ...]


class Sessions:
    """Counts clicks by user, all users and the words seen, each in a way of its own."""

    outputs = "user string, clicks long, pages string, batches long"
    state: ClassVar[Mapping[str, Saving]] = {
        "sessions": saved.mapping("string", Session),
        "table": saved.arrow(keys=["user"]),
    }

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.table = pa.record_batch({"user": pa.array([], pa.string())})

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        assert isinstance(self.table, pa.RecordBatch)
        self.table = pa.concat_batches([self.table, batch.select(["user"])])
        for user, page in zip(*(batch.column(name).to_pylist() for name in ("user", "page")), strict=True):
            before = self.sessions.get(user, Session(0, ()))
            now = self.sessions[user] = Session(before.clicks + 1, (*before.pages, page))
            seen = self.table.column("user").to_pylist().count(user)
            row = {"user": user, "clicks": now.clicks, "pages": "/".join(now.pages), "batches": seen}
            context.send([row])


@given(
    epochs=st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.sampled_from(["ann", "bob", "cy", ""]), st.sampled_from("xyz")), max_size=5
            ),
            st.one_of(st.none(), st.integers(1, 3)),
        ),
        max_size=5,
    )
)
def test_a_declared_state_goes_on_on_any_number_of_workers(
    epochs: list[tuple[list[tuple[str, str]], int | None]],
) -> None:
    flow = Dataflow("sessions")
    clicks = flow.stream_input("clicks", "user string, page string")
    flow.output("sessions", operator("sessions", Sessions(), clicks=clicks.exchange("user")))
    pages: dict[str, list[str]] = {}
    expected = []
    with Journey(flow.plan, 2) as run:
        for rows, workers in epochs:
            for user, page in rows:
                pages.setdefault(user, []).append(page)
            expected += [(user, len(pages[user]), "/".join(pages[user])) for user, _ in dict(rows).items()]
            batch = [{"user": user, "page": page} for user, page in rows]
            run.next_epoch({"clicks": [batch] if batch else []})
            if workers is not None:
                run.save(changes_only=True)
                run.go_on(workers)
        run.finish()
        last = {}
        for (_, epoch), table in sorted(run.results.items()):
            last.update({(epoch, row["user"]): row for row in table.to_pylist()})
        came = Counter((row["user"], row["clicks"], row["pages"]) for row in last.values())
        assert came == Counter(expected)
        assert all(row["batches"] >= row["clicks"] for row in last.values())


class Holder:
    """An operator with one attribute."""

    def __init__(self, value: Any, how: Any) -> None:  # noqa: ANN401
        self.kept = value
        self.state = {"kept": how}


def back(value: Any, how: Saving, fresh: Any = None) -> Any:  # noqa: ANN401
    """What comes of a value that is saved and restored, with a copy of the declaration as a worker has it."""
    old, new = (stateful_of(copy.deepcopy(Holder(each, how)), "holder") for each in (value, fresh))
    assert old is not None
    assert new is not None
    pieces = old.save(changes_only=True)
    new.restore(_NO_CONTEXT, {name: merged([piece]) for name, piece in pieces.items()})
    return new._logic.kept  # type: ignore[attr-defined]


_NO_CONTEXT: Any = None


@pytest.mark.parametrize(
    ("value", "how"),
    [
        ({"a": [1, 2.5, None, True, b"x", "y", {"z": {3: 4}}]}, saved.values()),
        ({(1, 2): {"x"}}, saved.values(dict[tuple[int, int], set[str]])),
        ([Session(3, ("x", "y"))], saved.values(list[Session])),
        (Decimal("1.50"), saved.values(Decimal)),
        ([float("inf"), -0.0], saved.values(list[float])),
        (b"\x00\xff", saved.bytes()),
        ({1 + 2j, "x"}, saved.pickled()),
        ({1: {"x"}, -5: set()}, saved.mapping("long", set[str])),
        ({None: 1, "x": 2}, saved.mapping(pa.string(), int)),
        ({Decimal("1.50"): "x"}, saved.mapping(pa.decimal128(9, 2), str)),
        ({}, saved.mapping("date", int)),
        (pa.table({"a": [1, 2]}), saved.arrow()),
    ],
    ids=str,
)
def test_a_value_comes_back_as_it_was(value: Any, how: Saving) -> None:  # noqa: ANN401
    came = back(value, how)
    assert type(came) is type(value)
    assert came == value
    assert repr(came) == repr(value) or isinstance(value, set | pa.Table)


def test_a_table_comes_back_as_what_the_operator_begins_with() -> None:
    batch = pa.record_batch({"a": [1, 2]})
    assert back(batch, saved.arrow(), fresh=batch.slice(0, 0)).equals(batch)
    assert back(batch.slice(0, 0), saved.arrow(), fresh=batch).equals(batch.slice(0, 0))
    assert isinstance(back(batch, saved.arrow()), pa.Table)


def test_a_declaration_can_be_sent_to_another_process() -> None:
    how = pickle.loads(pickle.dumps(saved.mapping("long", list[int])))  # noqa: S301 - made here
    assert back({1: [2]}, how) == {1: [2]}


@pytest.mark.parametrize(
    ("value", "how", "words"),
    [
        ({1, 2}, saved.values(), "set"),
        ([range(2)], saved.values(), "builtins.range"),
        ([time(1, tzinfo=UTC)], saved.values(), "a time of day with a zone"),
        ({1: [Counter("a")]}, saved.mapping("long"), "collections.Counter"),
        ([(1, 2)], saved.values(list[list[int]]), "list[list[int]]"),
        (3, saved.values(float), "float"),
        (Counter("a"), saved.values(), "Counter"),
        (1 << 70, saved.values(), "int"),
        ("x", saved.values(int), "int"),
        (object(), saved.values(), "object"),
        (bytearray(b"x"), saved.bytes(), "bytearray"),
        (lambda: None, saved.pickled(), "function"),
        (None, saved.arrow(), "NoneType"),
        (pa.table({"a": [1]}), saved.arrow(keys=["b"]), "'b'"),
        ([1], saved.mapping("long", int), "list"),
        ({"x": 1}, saved.mapping("long", int), "int64"),
        ({1.5: 1}, saved.mapping("long", int), "1.5"),
        ({True: 1}, saved.mapping("long", int), "int64"),
        ({7: "x"}, saved.mapping("long", int), "key 7"),
    ],
    ids=str,
)
def test_what_would_not_come_back_is_refused_by_name(value: Any, how: Saving, words: str) -> None:  # noqa: ANN401
    state = stateful_of(Holder(value, how), "rank")
    assert state is not None
    with pytest.raises(FlowError, match="operator 'rank': the state 'kept'") as refusal:
        state.save(changes_only=False)
    for word in ("operator 'rank'", "'kept'", words):
        assert word in str(refusal.value)


@pytest.mark.parametrize(
    ("how", "rows", "name", "words"),
    [
        (saved.values(int), 1, "kept", "the state 'kept' was not saved as int"),
        (saved.values(str), 0, "kept", "the state 'kept' needs one saved value, got 0 rows"),
        (
            saved.values(str),
            1,
            "other",
            "declares the state 'kept', but the snapshot holds 'other' of this operator",
        ),
    ],
)
def test_what_was_saved_in_another_way_is_refused(how: Saving, rows: int, name: str, words: str) -> None:
    old, new = (stateful_of(Holder("x", each), "rank") for each in (saved.values(str), how))
    assert old is not None
    assert new is not None
    table = old.save(changes_only=False)["kept"].table.slice(0, rows)
    with pytest.raises(RecoveryError, match=f"operator 'rank'.*{words}"):
        new.restore(_NO_CONTEXT, {name: table})


class Own:
    """Saves itself."""

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        return {}

    def restore(self, context: Context, pieces: Mapping[str, pa.Table]) -> None:
        """Nothing."""


class Half:
    """Saves itself, and that is all."""

    def save(self) -> None:
        """To somewhere else, perhaps."""


class Nothing:
    """Has an attribute of that name for its own purposes."""

    state: ClassVar = {"a": 1}


def test_an_operator_is_its_own_state_or_declares_it_or_has_none() -> None:
    own = Own()
    assert stateful_of(own, "own") is own
    assert isinstance(stateful_of(Holder(1, saved.values()), "holder"), Stateful)
    assert stateful_of(Nothing(), "nothing") is None
    assert stateful_of(None, "input") is None
    with pytest.raises(
        FlowError, match=r"operator 'half' is a Half with the method save\(\) but without restore"
    ):
        stateful_of(Half(), "half")
    mixed = Holder(1, saved.values())
    mixed.state["other"] = int
    with pytest.raises(FlowError, match=r"operator 'mixed' declares the state 'other' as <class 'int'>"):
        stateful_of(mixed, "mixed")


def test_a_declared_attribute_that_is_not_there_is_named() -> None:
    holder = Holder(1, saved.values())
    del holder.kept
    state = stateful_of(holder, "rank")
    assert state is not None
    with pytest.raises(
        FlowError,
        match="operator 'rank' declares the state 'kept', but its Holder does not have that attribute",
    ):
        state.save(changes_only=False)
