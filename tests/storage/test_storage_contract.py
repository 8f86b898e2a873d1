"""What every Storage promises, tried on each: in memory, in local files, and through fsspec.

Families, and what only each can find:
- *contents*: what is read is what was stored, empty, large, or in several pieces;
- *names*: names that lead out of the storage or look like unfinished files are refused, prefixes are exact;
- *one winner*: ``create`` never replaces, also when many threads try at once, and ``write`` always does;
- *absence*: what is not there is said, not guessed;
- *as a dictionary*: any sequence of operations answers as a plain dictionary would;
- *travel*: a copy that was sent as bytes reaches the same objects.

An implementation joins by adding one line to ``STORAGES``.
"""

import pickle
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pointstamp.errors import AlreadyStored, NotStored, StorageError
from pointstamp.storage.anywhere import FsspecStorage
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Storage
from support.storages import FaultyStorage

New = Callable[[], Storage]

STORAGES: dict[str, Callable[[Path], Storage]] = {
    "memory": lambda folder: MemoryStorage(),
    "local": lambda folder: LocalStorage(folder / uuid.uuid4().hex),
    "fsspec-memory": lambda folder: FsspecStorage(f"memory://{uuid.uuid4().hex}/runs"),
    "fsspec-local": lambda folder: FsspecStorage(f"file://{folder / uuid.uuid4().hex}"),
    "without faults": lambda folder: FaultyStorage(MemoryStorage()),
}


@pytest.fixture(params=STORAGES)
def new(request: pytest.FixtureRequest, tmp_path: Path) -> New:
    return lambda: STORAGES[request.param](tmp_path)


@pytest.mark.parametrize("content", [b"", b"\0", b"x" * 3_000_000, [b"a", b"", b"bc"], []])
def test_what_was_stored_is_read(new: New, content: bytes | list[bytes]) -> None:
    storage = new()
    whole = content if isinstance(content, bytes) else b"".join(content)
    storage.create("a/created", content)
    storage.write("written", content)
    for name in ("a/created", "written"):
        assert storage.read(name) == whole
        assert storage.size(name) == len(whole)


def test_create_never_replaces_and_write_always_does(new: New) -> None:
    storage = new()
    storage.create("a", b"first")
    with pytest.raises(AlreadyStored, match="'a'"):
        storage.create("a", b"second")
    assert storage.read("a") == b"first"
    storage.write("a", b"third")
    assert storage.read("a") == b"third"
    storage.delete("a")
    storage.create("a", b"fourth")
    assert storage.read("a") == b"fourth"


def test_of_many_threads_one_creates(new: New) -> None:
    storage = new()
    for turn in range(10):
        ready = threading.Barrier(4)
        won: list[int] = []

        def attempt(mine: int, name: str, ready: threading.Barrier, won: list[int]) -> None:
            ready.wait(timeout=180)
            try:
                storage.create(name, bytes([mine]) * 1000)
            except AlreadyStored:
                return
            won.append(mine)

        name = f"journal/{turn}"
        threads = [threading.Thread(target=attempt, args=(i, name, ready, won)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=180)
        assert len(won) == 1
        assert storage.read(name) == bytes(won) * 1000


def test_what_is_not_there_is_said(new: New) -> None:
    storage = new()
    with pytest.raises(NotStored, match="'a/b'"):
        storage.read("a/b")
    assert storage.size("a/b") is None
    assert storage.list() == storage.list("a/") == []
    storage.delete("a/b")
    storage.create("a/b/c", b"")
    with pytest.raises(NotStored, match="there is no object 'a/b'"):
        storage.read("a/b")  # a folder, where there are folders
    assert storage.size("a/b") is None
    with pytest.raises(NotStored, match="there is no object 'a/b/d'"):
        storage.read("a/b/d")


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", ".", "..", "a/../b", ".a", "a/.b", "a\0"])
def test_a_name_that_leads_elsewhere_is_refused(new: New, name: str) -> None:
    storage = new()
    acts: list[Callable[[], object]] = [
        lambda: storage.create(name, b""),
        lambda: storage.write(name, b""),
        lambda: storage.read(name),
        lambda: storage.size(name),
        lambda: storage.delete(name),
    ]
    for act in acts:
        with pytest.raises(StorageError, match="is not a valid object name"):
            act()


def test_a_prefix_is_exact(new: New) -> None:
    storage = new()
    names = ["a", "ab/c", "b/a", "b/c/d", "bc"]
    for name in reversed(names):
        storage.create(name, b"")
    assert storage.list() == names
    assert storage.list("b") == ["b/a", "b/c/d", "bc"]
    assert storage.list("b/") == ["b/a", "b/c/d"]
    assert storage.list("b/c/d") == ["b/c/d"]
    assert storage.list("c") == storage.list("a/") == []
    with pytest.raises(StorageError, match="is not a valid object name"):
        storage.list("../")


_names = st.sampled_from(["a", "b", "c/a", "c/b", "c/d/a"])
_contents = st.binary(max_size=20)
_acts = st.one_of(
    st.tuples(st.just("create"), _names, _contents),
    st.tuples(st.just("write"), _names, _contents),
    st.tuples(st.just("delete"), _names, st.just(b"")),
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=st.lists(_acts, max_size=12))
def test_it_answers_as_a_dictionary_would(new: New, acts: list[tuple[str, str, bytes]]) -> None:
    storage = new()
    expected: dict[str, bytes] = {}
    for act, name, content in acts:
        if act == "create" and name in expected:
            with pytest.raises(AlreadyStored, match=f"there is already an object '{name}'"):
                storage.create(name, content)
        elif act == "delete":
            storage.delete(name)
            expected.pop(name, None)
        else:
            (storage.create if act == "create" else storage.write)(name, content)
            expected[name] = content
        assert storage.list() == sorted(expected)
        assert storage.list("c/") == sorted(each for each in expected if each.startswith("c/"))
        assert {each: storage.read(each) for each in expected} == expected


@pytest.mark.parametrize("kind", ["local", "fsspec-memory", "fsspec-local"])
def test_a_copy_that_was_sent_reaches_the_same_objects(kind: str, tmp_path: Path) -> None:
    storage = STORAGES[kind](tmp_path)
    storage.create("a", b"1")
    copy: Storage = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own bytes
    assert copy.address == storage.address
    assert copy.read("a") == b"1"
    copy.create("b", b"2")
    assert storage.list() == ["a", "b"]


def test_a_storage_in_memory_refuses_to_be_sent() -> None:
    with pytest.raises(StorageError, match="cannot be sent to another process"):
        pickle.dumps(MemoryStorage())
