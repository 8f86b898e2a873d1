"""What reducing by key costs, against polars, numpy and a Python dict in the same run.

    .venv/bin/python benchmarks/keyed.py

One JSON line per case and peer: ``ms`` (or ``us_per_batch``) of the operator alone, without a worker around
it, ``peer_ms`` (or ``peer_us_per_batch``) of the named peer, and ``speed``, how many times as fast as it
we are. Both take turns, and the best of each counts. Every answer is compared with the peer's.

To beat: half the speed of polars on one large batch, though polars may use all cores and keeps no state
between batches; and 150 microseconds to look up a batch of 1,000 rows among 100,000 keys.
"""

import json
from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl
import pyarrow as pa

from pointstamp.arrow.key_index import KeyIndex
from pointstamp.operators.context import Context
from pointstamp.reduce.constructors import count
from pointstamp.reduce.reductions import RunningReduce, WindowedReduce
from pointstamp.topology.domain import Time

TURNS = 7
ROWS, KEYS = 10_000_000, 100_000
BATCHES, BATCH_ROWS = 1_000, 1_000
TEXT_ROWS, TEXT_KEYS = 1_000_000, 50_000

T = TypeVar("T")
Counts = dict[Any, int]


class Outlet:
    """A context that keeps what is sent."""

    operator = "count"

    def __init__(self) -> None:
        self.time: Time = (0,)
        self.sent: list[pa.RecordBatch] = []

    def notify_at(self) -> None:
        """The benchmark notifies by itself."""

    def send(self, batch: pa.RecordBatch) -> None:
        """Keep the batch."""
        self.sent.append(batch)


def windowed_count(batch: pa.RecordBatch) -> pa.RecordBatch:
    """One batch through the operator, from arrival to result."""
    outlet = Outlet()
    context = cast("Context", outlet)
    operator = WindowedReduce(batch.schema, ["key"], {"count": count()})
    operator.on_receive(context, "in", batch)
    operator.on_notify(context)
    return outlet.sent[0]


def race(ours: Callable[[], T], peer: Callable[[], Any]) -> tuple[float, float, T, Any]:
    """The best seconds of both, taking turns, and what they returned."""
    best_ours = best_peer = float("inf")
    for _ in range(TURNS):
        start = perf_counter()
        our_answer = ours()
        middle = perf_counter()
        peer_answer = peer()
        best_ours = min(best_ours, middle - start)
        best_peer = min(best_peer, perf_counter() - middle)
    return best_ours, best_peer, our_answer, peer_answer


def counts_of(batch: pa.RecordBatch) -> Counts:
    """A result as a dict."""
    return dict(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))


def large_batch(name: str, keys: pa.Array) -> None:
    """Count one large batch."""
    batch = pa.record_batch({"key": keys})
    frame = pl.DataFrame({"key": pl.from_arrow(keys)})
    peers: dict[str, tuple[Callable[[], Any], Callable[[Any], Counts]]] = {
        "polars group_by.len": (
            lambda: frame.group_by("key").len(),
            lambda answer: dict(answer.iter_rows()),
        )
    }
    if pa.types.is_integer(keys.type):
        integers = keys.to_numpy()
        peers["numpy.unique"] = (
            lambda: np.unique(integers, return_counts=True),
            lambda answer: dict(zip(*(part.tolist() for part in answer), strict=True)),
        )
        if integers.min() >= 0 and integers.max() < 10 * KEYS:
            peers["numpy.bincount"] = (
                lambda: np.bincount(integers),
                lambda answer: {key: n for key, n in enumerate(answer.tolist()) if n},
            )
    for peer, (run, as_counts) in peers.items():
        ours_s, peer_s, ours, theirs = race(lambda: windowed_count(batch), run)
        answer = counts_of(ours)
        assert answer == as_counts(theirs), f"{name}: not the counts of {peer}"
        report(name, peer, ms=ours_s * 1e3, peer_ms=peer_s * 1e3, speed=peer_s / ours_s)


def small_batches(name: str, pool: pa.Array) -> None:
    """Look up and count many small batches over keys that are all known."""
    random = np.random.default_rng(1)
    rows = [pool.take(pa.array(random.integers(0, len(pool), BATCH_ROWS))) for _ in range(BATCHES)]
    batches = [pa.record_batch({"key": keys}) for keys in rows]
    everything = pa.record_batch({"key": pool})
    index = KeyIndex(everything.schema)
    index.slots(everything)
    as_dict = {key: slot for slot, key in enumerate(pool.to_pylist())}

    def look_up() -> list[int]:
        return [int(index.slots(batch)[-1]) for batch in batches]

    def look_up_in_dict() -> list[int]:
        return [[as_dict[key] for key in batch.column(0).to_pylist()][-1] for batch in batches]

    report_small(f"look up {name}", "dict", *race(look_up, look_up_in_dict))

    def running() -> Counts:
        outlet = Outlet()
        context = cast("Context", outlet)
        operator = RunningReduce(everything.schema, ["key"], {"count": count()})
        for epoch, batch in enumerate(batches):
            outlet.time = (epoch,)
            operator.on_receive(context, "in", batch)
            operator.on_notify(context)
        last: Counts = {}
        for batch in outlet.sent[-3:]:
            last.update(counts_of(batch))
        return last

    def running_in_counter() -> Counts:
        counter: Counter[Any] = Counter()
        sent = []
        for batch in batches:
            keys = batch.column(0).to_pylist()
            counter.update(keys)
            changed = list(dict.fromkeys(keys))
            counts = [counter[key] for key in changed]
            sent.append(
                pa.record_batch([pa.array(changed, pool.type), pa.array(counts)], names=["key", "count"])
            )
        last: Counts = {}
        for batch in sent[-3:]:
            last.update(counts_of(batch))
        return last

    report_small(f"running count {name}", "Counter", *race(running, running_in_counter))


def report_small(name: str, peer: str, ours_s: float, peer_s: float, ours: object, theirs: object) -> None:
    """Compare the answers and print the cost of one batch."""
    assert ours == theirs, f"{name}: not the answer of {peer}"
    us, peer_us = (seconds / BATCHES * 1e6 for seconds in (ours_s, peer_s))
    report(name, peer, us_per_batch=us, peer_us_per_batch=peer_us, speed=peer_s / ours_s)


def report(name: str, peer: str, **figures: float) -> None:
    """One JSON line."""
    print(
        json.dumps({"case": name, "peer": peer, **{k: round(v, 2) for k, v in figures.items()}}), flush=True
    )


def main() -> None:
    """Run all cases."""
    random = np.random.default_rng(0)
    picks = random.integers(0, KEYS, ROWS)
    far_apart = np.unique(random.integers(-(2**62), 2**62, KEYS))
    text = pa.array([f"key-{number}" for number in range(TEXT_KEYS)])
    large_batch("10M rows, 100k integers close together", pa.array(picks))
    large_batch("10M rows, 100k integers far apart", pa.array(far_apart[picks % len(far_apart)]))
    large_batch("1M rows, 50k strings", text.take(pa.array(random.integers(0, TEXT_KEYS, TEXT_ROWS))))
    small_batches("1k rows, 100k integers close together", pa.array(np.arange(KEYS)))
    small_batches("1k rows, 100k integers far apart", pa.array(far_apart))
    small_batches("1k rows, 50k strings", text)


if __name__ == "__main__":
    main()
