"""A query that reads what another publishes, while drivers of either die at any of their writes.

A world is a seed: rows come to the first query in groups; each driver of either query takes what is there,
dies before or after a write that is drawn, or comes to the end of it, and has a number of workers of its own.
In the end both come to their ends, and what the second has published must be what brute force makes of the
rows, in the epochs in which they came. Beside the processes of ``test_composed``, which die at a few moments,
only this finds a moment at which an epoch is lost between two queries, doubled, or complete too early.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import pointstamp as ps
from pointstamp.connectors.published.sink import ParquetSink
from pointstamp.errors import SourceError
from pointstamp.journal.ledger import Promises
from pointstamp.query.crew import InProcessLauncher
from pointstamp.query.mission import QuerySpec
from pointstamp.query.supervisor import Supervisor
from pointstamp.storage.local import LocalStorage
from pointstamp.storage.memory import MemoryStorage
from pointstamp.storage.port import Storage
from support.recovering import APART, TOGETHER, Died, MemorySink, Mortal, spec_of

DRIVERS = 8
EPOCHS = 6
_FOR_EVER = 1 << 30


def first_flow() -> ps.Dataflow:
    """Per epoch how often each key comes, and the keys."""
    flow = ps.Dataflow("first")
    numbers = flow.stream_input("numbers", "k long")
    flow.output("counts", numbers.count("k"))
    flow.output("keys", numbers.distinct("k"))
    return flow


def second_flow() -> ps.Dataflow:
    """Both joined epoch by epoch, and the sum of the counts so far."""
    flow = ps.Dataflow("second")
    counts = flow.stream_input("counts", "k long, count long")
    keys = flow.stream_input("keys", "k long")
    flow.output("both", counts.join(keys, "k"))
    flow.output("sums", counts.to_table().group_by("k").agg(total=ps.sum("count")).changes())
    return flow


class ComposedWorld:
    """Two queries, and a folder between them."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.rows = [[self.rng.randrange(4) for _ in range(self.rng.randrange(5))] for _ in range(EPOCHS)]
        self.states = (MemoryStorage(), MemoryStorage())
        self.sink = MemorySink()
        self.there = 0

    def run(self) -> None:
        """Let drivers come and go, and both queries come to their ends."""
        for _ in range(DRIVERS):
            self.there = min(EPOCHS, self.there + self.rng.randrange(3))
            self._drive(self.rng.choice((self._first, self._second)), self.rng.randrange(25))
        self.there = EPOCHS
        self._drive(self._first, _FOR_EVER)
        self._drive(self._second, _FOR_EVER)

    def _drive(self, spec: Callable[[int], QuerySpec], lives: int) -> None:
        try:
            Supervisor(spec(lives), InProcessLauncher()).run()
        except Died:
            assert lives < _FOR_EVER

    def _mortal(self, storage: Storage, lives: int) -> Mortal:
        return Mortal(storage, lives, is_done_first=bool(self.rng.randrange(2)))

    def _options(self) -> dict[str, object]:
        return {"workers": self.rng.randrange(1, 4), **self.rng.choice((APART, TOGETHER))}

    def _first(self, lives: int) -> QuerySpec:
        dies_at_output = self.rng.randrange(2)
        output = self._mortal(LocalStorage(self.folder), lives if dies_at_output else _FOR_EVER)
        state = self._mortal(self.states[0], _FOR_EVER if dies_at_output else lives)
        sink = ParquetSink(str(self.folder), lambda _: output, compaction=None)
        data = [{"numbers": pa.record_batch({"k": pa.array(each, pa.int64())})} for each in self.rows]
        return spec_of(
            first_flow(), data[: max(1, self.there)], state, sink, query_id="first", **self._options()
        )

    def _second(self, lives: int) -> QuerySpec:
        sources = {name: ps.io.published(self.folder, name) for name in ("counts", "keys")}
        return spec_of(
            second_flow(),
            [{}],
            self._mortal(self.states[1], lives),
            self.sink,
            sources=sources,
            epoch_columns=dict.fromkeys(sources, "epoch"),
            available_now=True,
            query_id="second",
            **self._options(),
        )

    def check(self) -> None:
        """What is published is what brute force makes of the rows."""
        wanted: dict[tuple[str, int], list[tuple[int, ...]]] = {}
        sums: Counter[int] = Counter()
        for epoch, keys in enumerate(self.rows):
            counts = sorted(Counter(keys).items())
            if counts:
                wanted["both", epoch] = [*counts]
                before = [(k, sums[k], -1) for k, _ in counts if sums[k]]
                sums.update(keys)
                wanted["sums", epoch] = sorted([*before, *((k, sums[k], 1) for k, _ in counts)])
        assert self.sink.rows() == wanted


def _world(seed: int, folder: Path) -> None:
    world = ComposedWorld(seed, folder / str(seed))
    world.run()
    world.check()


def _worlds(seeds: Iterable[int], folder: Path) -> None:
    for seed in seeds:
        _world(seed, folder)


@pytest.mark.parametrize("seed", range(5))
def test_every_epoch_of_one_query_is_once_in_the_other(seed: int, tmp_path: Path) -> None:
    _world(seed, tmp_path)


def test_an_epoch_that_is_complete_here_before_it_is_published_there_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reach(self: Promises, epoch: int) -> None:
        self.complete = max(self.complete, epoch + 1)

    monkeypatch.setattr(Promises, "reach", reach)
    with pytest.raises((AssertionError, SourceError), match=r"row of epoch .* was advanced to epoch|differs"):
        _worlds(range(5), tmp_path)


@pytest.mark.long
def test_every_epoch_of_one_query_is_once_in_the_other_in_many_worlds(tmp_path: Path) -> None:
    _worlds(range(5, 205), tmp_path)
