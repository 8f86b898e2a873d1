"""Checkpoints and output on HDFS, on Azure's blobs and on Google's, each on a server that the tests start.

Families, and what only each can find:
- contract: what every Storage promises, in one script, through the package that queries use;
- races: two processes create the same objects, and one wins each;
- trials: the store passes the trial with which a query starts, and does not if its package leaves out the
  condition, or replaces what is there, as pyarrow's HDFS does;
- kills: a driver dies before and after acts on the store, and the next one continues: no row is lost or
  doubled.
"""

import pickle
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import pointstamp as ps
from pointstamp.errors import AlreadyStored, NotStored, StorageError
from pointstamp.storage import anywhere
from pointstamp.storage.anywhere import FsspecStorage
from pointstamp.storage.exclusivity import check_exclusive
from pointstamp.storage.port import Storage
from support.blob_servers import azurite, fake_gcs
from support.hadoop import Hadoop
from support.store_drivers import words_of
from support.store_processes import SECONDS_MAX, driver, race

# aiohttp warns of bodies of a megabyte that adlfs hands over; nothing is leaked.
pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")

ROUNDS = 25
EPOCHS = 4


@contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    with Hadoop("hdfs", folder) as cluster:
        yield f"{cluster.place}/tests"


SERVERS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "hdfs": hdfs,
    "azurite": azurite,
    "fake-gcs-server": fake_gcs,
}


@pytest.fixture(scope="module", params=SERVERS)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a folder on a store; what its package needs to know is in the environment."""
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as address:
        yield address


@pytest.mark.long
def test_it_keeps_what_every_storage_promises(store: str) -> None:
    storage: Storage = FsspecStorage(f"{store}/contract")
    assert storage.list() == []
    storage.create("a/b", b"first")
    with pytest.raises(AlreadyStored, match="there is already an object 'a/b'"):
        storage.create("a/b", b"second")
    storage.write("c", b"")
    storage.write("c", [b"x" * 3_000_000, b"y"])
    storage.write("c", b"third")
    copy: Storage = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own bytes
    assert (copy.read("a/b"), copy.size("a/b"), copy.read("c")) == (b"first", 5, b"third")
    assert (copy.list(), copy.list("a/"), copy.list("a/c")) == (["a/b", "c"], ["a/b"], [])
    with pytest.raises(NotStored, match="there is no object 'a'"):
        copy.read("a")
    with pytest.raises(NotStored, match="there is no object 'd'"):
        copy.read("d")
    assert copy.size("a") is None
    copy.delete("a/b")
    copy.delete("a/b")
    assert storage.list() == ["c"]
    storage.create("a/b", b"fourth")
    storage.sync("a/b")
    assert copy.read("a/b") == b"fourth"


@pytest.mark.long
def test_of_two_processes_that_create_the_same_object_exactly_one_wins(store: str) -> None:
    race(f"{store}/race", ROUNDS)


@pytest.mark.long
def test_it_passes_the_trial_and_nothing_is_left(store: str) -> None:
    storage = FsspecStorage(f"{store}/trial")
    assert storage.needs_trial
    check_exclusive(storage)
    assert storage.list() == []


@pytest.mark.long
def test_it_is_refused_through_a_package_that_does_not_ask_for_the_condition(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = FsspecStorage(f"{store}/refused")
    monkeypatch.setitem(anywhere._CONDITIONS, store.partition(":")[0], {})
    if storage._way == "rename":
        rename = storage._files.mv
        monkeypatch.setattr(storage._files, "mv", lambda old, new: rename(old, new, overwrite=True))
    with pytest.raises(StorageError, match=r"4 writers .* and [234] of them succeeded"):
        check_exclusive(storage)


def answers() -> Counter[str]:
    """How often each word was said, without a flow."""
    return Counter(row["word"] for epoch in range(EPOCHS) for row in words_of(epoch))


@pytest.mark.long
def test_a_driver_that_dies_at_any_act_on_the_store_loses_and_doubles_nothing(store: str) -> None:
    whole = driver("count", f"{store}/alive", EPOCHS, 10**9)
    said, _ = whole.communicate(timeout=SECONDS_MAX)
    moments = int(said.split()[-1])
    for moment in {moments // 3 | 1, moments // 2 & ~1, 3 * moments // 4 | 1}:  # after and before an act
        address = f"{store}/dies-{moment}"
        dead = driver("count", address, EPOCHS, moment)
        dead.communicate(timeout=SECONDS_MAX)
        assert dead.returncode == -signal.SIGKILL, moment
        last = driver("count", address, EPOCHS)
        last.communicate(timeout=SECONDS_MAX)
        assert last.returncode == 0
        found = ps.read_table(f"{address}/output", "counts").to_pylist()
        assert {row["word"]: row["count"] for row in found} == dict(answers()), moment
        assert len(found) == len(answers())
