"""The protocol of control messages: what is said, how it travels, and how errors do.

Families, and what only each can find:
- *one word, one meaning*: that each thing that can be said exists once, in one module, for every kind of run;
- *as bytes*: that whatever can be said comes back as it was said, and that what cannot be read is refused;
- *in another kind of run*: that an order is never passed over in silence by a worker that does not know it;
- *errors*: that a failure is the same error again at the driver, whatever was raised.
"""

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

import pointstamp
from pointstamp.connectors.sink import Staged
from pointstamp.connectors.source import Part
from pointstamp.driver import messages
from pointstamp.driver.bounded_worker import BoundedWorker
from pointstamp.driver.messages import (
    Ahead,
    Failed,
    FileWritten,
    Order,
    Progressed,
    Report,
    Save,
    Saved,
    SendRows,
    Sync,
    Tick,
    encode,
    error_of,
    failure_in,
    failure_of,
    order_in,
    report_in,
)
from pointstamp.errors import (
    InternalError,
    OperatorError,
    PointstampError,
    SchemaError,
    StorageError,
    TransportError,
)
from pointstamp.journal.history import PartSaved
from pointstamp.mesh.mesh import Parcel
from pointstamp.mesh.wire import MessageKind
from pointstamp.progress.pointstamp import WorkerIndex
from pointstamp.query.member import Member

SOURCES = Path(pointstamp.__file__).parent

PART = PartSaved("snapshots/1", 12, 34)
PIECE = Staged("out", 1, 2, "out/1.parquet", 3, 4, 5)
SAMPLES: dict[str, Any] = {
    "Tick": Tick(3, {"rows": [Part("file", 7)]}, 1, 2, {"rows": 2}),
    "Saved": Saved(1, PART, [PIECE], 0),
    "FileWritten": FileWritten(PIECE),
    "Progressed": Progressed(1, {"rows": 2}, {"out": 3}),
    "Ahead": Ahead(3, None),
}
SIMPLE: dict[Any, Any] = {str: "word", int: 7, bool: True, float: 1.5, bytes: b"events"}


def sample(said: type[msgspec.Struct]) -> msgspec.Struct:
    """One of a kind, with something in every field."""
    if said.__name__ in SAMPLES:
        found: msgspec.Struct = SAMPLES[said.__name__]
        return found
    return said(*(SIMPLE.get(field.type, []) for field in msgspec.structs.fields(said) if field.required))


def parcel(header: bytes, sender: int = 2) -> Parcel:
    return Parcel(WorkerIndex(sender), MessageKind.CONTROL, memoryview(header), ())


# One word, one meaning.


def test_each_thing_that_can_be_said_is_defined_once_in_all_modules() -> None:
    defined = Counter(
        node.name
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    said = [each.__name__ for each in {*get_args(Order), *get_args(Report)}]
    assert {name: defined[name] for name in said} == dict.fromkeys(said, 1)


def test_every_message_is_an_order_or_a_report_and_only_a_failure_is_both() -> None:
    structs = {each for each in vars(messages).values() if isinstance(each, msgspec.StructMeta)}
    ours = {each for each in structs if each.__module__ == messages.__name__}
    orders, reports = set(get_args(Order)), set(get_args(Report))
    assert ours == orders | reports
    assert orders & reports == {Failed}


# As bytes.


@pytest.mark.parametrize("said", get_args(Order), ids=lambda each: each.__name__)
def test_an_order_comes_back_as_it_was_given(said: type[msgspec.Struct]) -> None:
    given: Any = sample(said)
    assert order_in(parcel(encode(given))) == given


@pytest.mark.parametrize("said", get_args(Report), ids=lambda each: each.__name__)
def test_a_report_comes_back_as_it_was_given(said: type[msgspec.Struct]) -> None:
    given: Any = sample(said)
    assert report_in(parcel(encode(given))) == given


def test_what_cannot_be_read_names_its_sender() -> None:
    with pytest.raises(TransportError, match=r"^the driving process sent a message that cannot be read"):
        order_in(parcel(msgspec.msgpack.encode(["Dance", 3])))
    with pytest.raises(TransportError, match=r"^worker 2 sent a message that cannot be read"):
        report_in(parcel(encode(Save(is_whole=True))))


# In another kind of run.


@pytest.mark.parametrize(
    ("member", "order"),
    [
        (BoundedWorker, Tick(0, {}, 0, 1)),
        (Member, SendRows("rows")),
        (Member, Sync(1)),
    ],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
def test_an_order_of_another_kind_of_run_is_refused(member: Any, order: Order) -> None:  # noqa: ANN401
    with pytest.raises(TransportError, match=rf"{type(order).__name__}, which is not said in this kind"):
        member.follow(member.__new__(member), order)


# Errors.


class OfTheirOwnError(PointstampError):
    """Known here and nowhere else."""


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        (SchemaError("column 'a' is missing"), SchemaError, "column 'a' is missing"),
        (OSError("disk full"), StorageError, "OSError: disk full"),
        (KeyError("x"), InternalError, "KeyError: 'x'"),
        (OfTheirOwnError("gone"), InternalError, "gone"),
        (KeyboardInterrupt(), OperatorError, "a function of the flow has raised KeyboardInterrupt"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, BaseException) else None,
)
def test_a_failure_is_an_error_again_with_its_words(
    raised: BaseException, kind: type[PointstampError], words: str
) -> None:
    def work() -> None:
        raise raised

    failure = failure_in(work)
    assert failure is not None
    error = error_of(msgspec.msgpack.decode(encode(failure), type=Failed), "worker 3")
    assert type(error) is kind
    assert str(error).startswith(words)
    [note] = error.__notes__
    assert note.startswith("In worker 3:\nTraceback")
    assert "in work" in note


def test_who_calls_exit_is_told_where_and_what_to_do() -> None:
    def work() -> None:
        sys.exit(3)

    failure = failure_in(work)
    assert failure is not None
    assert failure.kind == "OperatorError"
    assert "has called exit (SystemExit: 3)" in failure.message
    assert "in work: sys.exit(3)" in failure.message


def test_work_that_ends_well_has_no_failure() -> None:
    assert failure_in(list) is None


def test_a_failure_without_a_worker_is_told_without_its_traceback() -> None:
    assert not hasattr(error_of(failure_of(SchemaError("no"))), "__notes__")
