"""Tables in worlds that the simulator chooses emitted the same in each of them.

Families, and what only each can find:
- worlds without failures: times that are taken in another order than that of epochs and rounds;
- worlds in which workers and drivers die: state that is saved without something, or restored twice;
- generations with other numbers of workers: rows that come back to a worker that does not own them;
- first rows of tables that never lose a row, which forgot others: two broken variants are found;
- every operator of tables with state is in one of these worlds, or of those of events and graphs.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

import pointstamp.graphs
import pointstamp.incremental
from pointstamp.arrangement import runs
from pointstamp.flow.plan import Node
from pointstamp.incremental import aggregate_operators, exact_sums, operations, top_k
from pointstamp.incremental.top_k import OnFirstOnly
from pointstamp.operators.context import Context
from pointstamp.operators.spec import spec_of
from pointstamp.simulate.case import prepared
from pointstamp.simulate.crash.events import GenerationBegan
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, Report, Simulator, cases, simulate
from pointstamp.simulate.world import Ended
from pointstamp.state.pieces import Piece
from support.broken_recovery import Rescaled
from support.event_worlds import EVENT_FLOWS, epochs_flow
from support.graph_worlds import GRAPH_WORLDS
from support.table_worlds import BY_EPOCH, FLOWS, inputs_of

# The loop in a loop takes ten times as long as the others.
WORLDS = {name: 2 if name == "parts" else 4 for name in FLOWS}


@pytest.fixture(autouse=True)
def _parts_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sums and first rows begin at each worker also for a few rows."""
    monkeypatch.setattr(aggregate_operators, "PARTS_ROWS_MIN", 0)
    monkeypatch.setattr(top_k, "FIRST_ROWS_MIN", 0)
    monkeypatch.setattr(exact_sums, "_REPEATS", 0)


def test_a_flow_has_sums_and_first_rows_that_begin_at_each_worker() -> None:
    names = [node.name for node in FLOWS["begun"]().plan.nodes]
    assert len([name for name in names if "in parts" in name]) == 4


def check_valid(report: Report) -> None:
    assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
    assert not report.unknown


@pytest.mark.parametrize("name", [*FLOWS, *BY_EPOCH])
def test_what_is_put_out_does_not_depend_on_the_schedule(name: str) -> None:
    plan = {**FLOWS, **BY_EPOCH}[name]().plan
    worlds = cases(range(WORLDS.get(name, 12)), 1, 4)
    check_valid(simulate(Simulator(plan, prepared(plan, inputs_of(name))), worlds))


@pytest.mark.parametrize("name", FLOWS)
def test_what_is_published_does_not_depend_on_crashes(name: str) -> None:
    plan = FLOWS[name]().plan
    check_valid(
        simulate(
            CrashSimulator(plan, prepared(plan, inputs_of(name))),
            cases(range(WORLDS[name] // 2), 1, 3, (1, 4)),
        )
    )


@pytest.mark.parametrize("name", FLOWS)
def test_generations_may_differ_in_their_number_of_workers(name: str) -> None:
    plan = FLOWS[name]().plan
    simulator = CrashSimulator(plan, prepared(plan, inputs_of(name)))
    simulator.world = Rescaled
    sizes: set[int] = set()
    for case in cases(range(WORLDS[name] // 2), 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        sizes |= {event.workers for _, event in run.happened if isinstance(event, GenerationBegan)}
    assert len(sizes) > 1


# Tables that never lose a row.


class SavesNothing(OnFirstOnly):
    """Saves no rows, so that the first rows of before are not known after a crash."""

    def save(self, *, changes_only: bool) -> Mapping[str, Piece]:
        pieces = super().save(changes_only=changes_only)
        return {name: replace(each, table=each.table.slice(0, 0)) for name, each in pieces.items()}


class AtOnce(OnFirstOnly):
    """Does not wait for an epoch to be complete, so that a later one may come before it."""

    def on_receive(self, context: Context, input: str, batch: pa.RecordBatch) -> None:  # noqa: A002
        self._open.put(context.time, "in", batch)
        self.on_notify(context)


def first_rows(simulator_of: type[Simulator], seeds: int) -> None:
    for name in ("growing", "numbered"):
        plan = FLOWS[name]().plan
        given = cases(range(seeds), 1, 3, (1, 4) if simulator_of is CrashSimulator else (0, 0))
        check_valid(simulate(simulator_of(plan, prepared(plan, inputs_of(name))), given))


def test_first_rows_alone_are_kept_in_these_worlds() -> None:
    kinds = [[kind_of(node) for node in FLOWS[name]().plan.nodes] for name in ("growing", "numbered")]
    assert [each.count("OnFirstOnly") for each in kinds] == [3, 2]


@pytest.mark.parametrize(("broken", "simulator_of"), [(SavesNothing, CrashSimulator), (AtOnce, Simulator)])
def test_first_rows_with_a_mistake_are_found(
    broken: type[OnFirstOnly], simulator_of: type[Simulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "OnFirstOnly", broken)
    with pytest.raises(AssertionError, match=r"differs from the one-worker run|published"):
        first_rows(simulator_of, 20)


# That none is missing.


def kind_of(node: Node) -> str:
    """The class of an operator."""
    return "" if node.logic is None else getattr(spec_of(node.logic).kind, "__name__", "")


def test_every_operator_with_state_is_in_a_world() -> None:
    flows = [
        *(make() for make in (*FLOWS.values(), *BY_EPOCH.values(), *EVENT_FLOWS.values(), epochs_flow)),
        *(world.flow() for world in GRAPH_WORLDS.values()),
    ]
    found = {kind_of(node) for flow in flows for node in flow.plan.nodes}
    wanted = {
        each.__name__
        for package in (pointstamp.incremental, pointstamp.graphs)
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        for each in vars(importlib.import_module(info.name)).values()
        if isinstance(each, type) and each.__module__ == info.name and hasattr(each, "on_receive")
        if hasattr(each, "save") and not each.__subclasses__()
    }
    assert len(wanted) > 15
    assert wanted - found == set(), "no world has these operators"


@pytest.mark.parametrize("name", ["joined", "shared"])
def test_a_merge_that_is_under_way_at_a_crash_changes_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = FLOWS[name]().plan
    simulator = CrashSimulator(plan, prepared(plan, inputs_of(name)))
    given = list(cases(range(3), 1, 2, (1, 4)))
    wanted = [simulator.compared(simulator.crash_run(case), {}) for case in given]
    for constant in ("_MERGED_ROWS_PER_ROW", "_SLICE_ROWS_MIN", "_AT_ONCE_ROWS_MAX", "_AT_ONCE_TIMES_MAX"):
        monkeypatch.setattr(runs, constant, 1)
    assert wanted == [simulator.compared(simulator.crash_run(case), {}) for case in given]
    assert set(wanted) == {(FindingKind.VALID, "")}


@pytest.mark.long
@pytest.mark.parametrize("name", FLOWS)
def test_many_worlds_of_a_flow_publish_the_same(name: str) -> None:
    plan = FLOWS[name]().plan
    rows, worlds = prepared(plan, inputs_of(name, 1)), range(WORLDS[name])
    check_valid(simulate(Simulator(plan, rows), cases(worlds, 1, 4)))
    check_valid(simulate(CrashSimulator(plan, rows), cases(worlds, 1, 4, (0, 4))))
