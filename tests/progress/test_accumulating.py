"""The accumulating broadcast by hand: who is the root of whom, what is held, and what is refused.

Random runs of it are in test_broadcast.py, worlds of workers in tests/simulate/test_accumulating.py.
"""

import pytest

import pointstamp as ps
from pointstamp.errors import FlowError, ProgressError
from pointstamp.progress.accumulating import BroadcastTree
from pointstamp.progress.broadcast import ProgressBatch
from pointstamp.progress.choosing import ACCUMULATES_FROM, broadcast_tree
from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.progress.view import ProgressView
from pointstamp.topology.ports import Location, SourcePort

TREE = BroadcastTree([7, 7, 3, 3])


def count_flow() -> ps.Dataflow:
    flow = ps.Dataflow("count")
    flow.output("out", flow.stream_input("rows", "key long").count("key"))
    return flow


GRAPH = count_flow().plan.graph()
FIRST = Location(next(number for number, port in enumerate(GRAPH.ports) if isinstance(port, SourcePort)))


def view(worker: int) -> ProgressView:
    return ProgressView(GRAPH, WorkerIndex(worker), 4, tree=TREE)


def moved(weight: int = 1) -> tuple[Change, Change]:
    return Change(FIRST, (0,), -weight), Change(FIRST, (1,), weight)


def test_the_first_worker_of_a_host_is_its_root_and_worker_0_is_the_top() -> None:
    assert TREE.roots == [0, 0, 2, 2]
    assert TREE.members(WorkerIndex(2)) == [2, 3]
    assert TREE.below_top() == [1, 2]


def test_few_workers_tell_everybody_and_many_along_a_tree() -> None:
    assert broadcast_tree(None, ACCUMULATES_FROM - 1) is None
    assert broadcast_tree("direct", 1_000) is None
    assert broadcast_tree("accumulating", 1) is not None
    many = broadcast_tree(None, 1_000)
    assert many is not None
    assert len(set(many.roots)) == 32
    assert len(many.below_top()) == 31 + 31


def test_a_worker_tells_its_root_and_hears_of_itself_in_a_sum() -> None:
    worker, root = view(3), view(2)
    worker.record(moved())
    ((above, batch),) = worker.flush()
    assert above == 2
    assert worker.tracker.count(FIRST, (0,)) == 4
    assert not root.receive(batch)
    assert root.has_relay()
    ((top, total),) = root.flush()
    assert (top, total.changes) == (0, moved())
    assert not root.has_relay()


def test_the_top_waits_until_the_last_one_has_moved() -> None:
    top = view(0)
    top.record(moved())
    top.receive(ProgressBatch(WorkerIndex(1), 0, moved()))
    assert top.flush() == []
    assert sorted(top.unsent()) == sorted(moved(2))
    top.receive(ProgressBatch(WorkerIndex(2), 0, moved(2)))
    assert [(peer, set(batch.changes)) for peer, batch in top.flush()] == [
        (peer, set(moved(4))) for peer in (0, 1, 2)
    ]


def test_what_is_covered_is_held_until_what_covers_it_is_gone() -> None:
    worker = view(3)
    later = Change(FIRST, (5,), 1)
    worker.record([later])
    assert worker.flush() == []
    assert worker.unsent() == (later,)
    worker.receive(ProgressBatch(WorkerIndex(2), 0, moved(4)))
    worker.propagate()
    assert worker.flush() == []
    worker.receive(ProgressBatch(WorkerIndex(2), 1, (Change(FIRST, (1,), -4), Change(FIRST, (5,), 4))))
    worker.propagate()
    ((_, batch),) = worker.flush()
    assert batch.changes == (later,)


def test_a_gap_a_repetition_and_a_stranger_are_errors() -> None:
    with pytest.raises(ProgressError, match="expected batch 0: a batch was lost"):
        view(2).receive(ProgressBatch(WorkerIndex(3), 1, ()))
    root = view(2)
    root.receive(ProgressBatch(WorkerIndex(0), 0, ()))
    with pytest.raises(ProgressError, match="expected batch 1: a batch was delivered twice"):
        root.receive(ProgressBatch(WorkerIndex(0), 0, ()))
    with pytest.raises(ProgressError, match="worker 1, which is not its neighbor in the broadcast tree"):
        view(2).receive(ProgressBatch(WorkerIndex(1), 0, ()))


def test_a_kind_of_broadcast_that_there_is_not_is_refused() -> None:
    assert ps.Dataflow("flow", broadcast="direct").plan.broadcast == "direct"
    with pytest.raises(FlowError, match="'direct' or 'accumulating' or None, got 'gossip'"):
        ps.Dataflow("flow", broadcast="gossip")  # type: ignore[arg-type]
