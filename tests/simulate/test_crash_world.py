"""Worlds in which workers, drivers and storage fail publish what a world without failures publishes.

Families, and what only each can find:
- the worlds themselves: the same seed is the same world, every kind of crash happens, and a driver that was
  replaced is fenced; without these the other families could be valid because nothing happens;
- flows and examples that must survive: bugs of recovery, under crashes that nobody thought of, also where
  each generation has another number of workers (there only what is published is compared);
- seeds that once failed, each with the sentence that explains it, in worlds as they were then;
- many seeds (long): the same, two thousand worlds for each.
"""

from collections import Counter
from pathlib import Path

import pytest

from pointstamp.cli import flowfile
from pointstamp.errors import FlowError
from pointstamp.simulate.case import Case, prepared
from pointstamp.simulate.crash import world
from pointstamp.simulate.crash.events import Crashed, DriverFenced, EpochCommitted, GenerationBegan
from pointstamp.simulate.crash.seeds import CrashSimulator
from pointstamp.simulate.seeds import FindingKind, Report, cases, simulate
from pointstamp.simulate.world import Ended
from support.broken_recovery import OfBefore, Rescaled, simulator_of, sound_flows

EXAMPLES = Path(__file__).parents[2] / "examples"
SURVIVING = (
    "01_word_count.py",
    "02_incremental_average.py",
    "03_weakly_connected.py",
    "04_naiad_style.py",
    "05_timely_style.py",
    "06_loop_in_a_loop.py",
    "10_components.py",
    "13_overlapping_epochs.py",
)


def example(name: str) -> CrashSimulator:
    file = flowfile.load(str(EXAMPLES / name))
    return CrashSimulator(file.flow.plan, prepared(file.flow.plan, file.inputs), file=name)


def of_before(simulator: CrashSimulator) -> CrashSimulator:
    """With nothing of what worlds have come to have since these seeds were found."""
    simulator.world = OfBefore
    return simulator


def check_valid(report: Report) -> None:
    assert report.finding is None, f"seed {report.finding.case.seed}: {report.finding.reason}"
    assert not report.unknown


# The worlds themselves.


def test_the_same_case_is_the_same_world() -> None:
    simulator = simulator_of(sound_flows()["carried"]())
    case = Case(11, 3, crashes=4)
    first, again = simulator.crash_run(case), simulator.crash_run(case)
    assert first.happened == again.happened
    assert first.ticks == again.ticks


@pytest.mark.long
def test_every_kind_of_crash_happens_and_replaced_drivers_are_fenced() -> None:
    simulator = simulator_of(sound_flows()["running"]())
    crashed: Counter[str] = Counter()
    fenced = generations = 0
    for case in cases(range(120), 1, 4, (3, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        for _, event in run.happened:
            if isinstance(event, Crashed):
                crashed[_kind(event.what)] += 1
            fenced += isinstance(event, DriverFenced)
            generations += isinstance(event, GenerationBegan)
    assert set(crashed) == {
        "workers died",
        "all processes died",
        "the driver died",
        "the driver is replaced",
        "the driver fell asleep",
        "the driver woke up",
        "a recovery failed",
        "storage",
        "damaged",
        "the power failed",
    }
    assert len(world.KINDS) == 9
    assert fenced > 5
    assert generations > 300


def _kind(what: str) -> str:
    if what.startswith("workers"):
        return "workers died"
    for words in ("storage", "damaged"):
        if words in what:
            return words
    return next((start for start in _STARTS if what.startswith(start)), what)


_STARTS = ("the driver fell asleep", "the driver is replaced", "a recovery failed", "the power failed")


def test_without_crashes_there_is_one_generation_and_every_epoch_is_committed_once() -> None:
    simulator = of_before(simulator_of(sound_flows()["running"]()))
    run = simulator.crash_run(Case(3, 2, crashes=0))
    began = [event for _, event in run.happened if isinstance(event, GenerationBegan)]
    committed = [event.epoch for _, event in run.happened if isinstance(event, EpochCommitted)]
    assert began == [GenerationBegan(2, -1)]
    assert committed == sorted(set(committed))
    assert committed[-1] == run.published_through == max(run.ticks)


def test_a_driver_that_slept_while_another_found_a_damaged_part_finds_it_again() -> None:
    run = simulator_of(sound_flows()["windows"]()).crash_run(Case(57, 2, crashes=4))
    assert run.ended is Ended.COMPLETE, run.reason
    after = run.successor
    assert after is not None
    assert after.ended is Ended.COMPLETE, after.reason
    what = {_kind(event.what) for _, event in after.happened if isinstance(event, Crashed)}
    assert {"damaged", "the driver fell asleep", "the driver woke up"} <= what


def test_a_flow_with_times_of_its_own_is_refused_in_words() -> None:
    with pytest.raises(FlowError, match="has custom times, but snapshots need epochs"):
        example("07_pairs_of_counters.py")


# What must survive.


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] if name == "uneven" else []) for name in sound_flows()],
)
def test_what_is_published_does_not_depend_on_crashes(name: str) -> None:
    check_valid(simulate(simulator_of(sound_flows()[name]()), cases(range(20, 32), 1, 4, (0, 4))))


@pytest.mark.parametrize("name", SURVIVING)
def test_examples_survive_crashes(name: str) -> None:
    check_valid(simulate(example(name), cases(range(10), 1, 4, (0, 4))))


@pytest.mark.parametrize("name", ["delayed", "windows", "reminders", "components", "walked"])
def test_generations_may_differ_in_their_number_of_workers(name: str) -> None:
    simulator = simulator_of(sound_flows()[name]())
    simulator.world = Rescaled
    sizes: set[int] = set()
    for case in cases(range(18), 1, 1, (1, 4)):
        run = simulator.crash_run(case)
        assert run.ended is Ended.COMPLETE, (case, run.reason)
        assert simulator.compared(run, {}) == (FindingKind.VALID, ""), case
        sizes |= {event.workers for _, event in run.happened if isinstance(event, GenerationBegan)}
    assert sizes == {1, 2, 3, 4}


# Seeds that once failed.


@pytest.mark.parametrize(
    ("name", "case"),
    [
        # What an input had sent through a delay was in no snapshot: it had been read, and was not read again.
        ("delayed", Case(36, 1, crashes=4)),
        ("delayed", Case(33, 2, crashes=3)),
        # Outputs behind a delay were past the epochs before their ticks, and no report freed their place.
        ("delayed", Case(50, 3, crashes=2)),
    ],
)
def test_what_once_failed_is_valid(name: str, case: Case) -> None:
    outcome = of_before(simulator_of(sound_flows()[name]())).run(case)
    assert not outcome.reason
    assert not outcome.is_finding


def test_a_driver_that_slept_while_another_cleaned_up_knows_that_it_was_replaced() -> None:
    # It woke up in its beginning, found the parts gone that the newer one needs no more, and said "damaged".
    outcome = of_before(example("02_incremental_average.py")).run(Case(918, 3, crashes=4))
    assert not outcome.reason
    assert not outcome.is_finding


def test_a_storage_that_does_not_answer_is_no_damaged_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    # A part that could not be read once was taken for damaged, and the query ended if it had no other.
    monkeypatch.setattr(world, "KINDS", (world.storage_fails,))
    simulator = of_before(simulator_of(sound_flows()["running"]()))
    for case in (Case(79, 4, crashes=4), Case(135, 4, crashes=3)):
        outcome = simulator.run(case)
        assert not outcome.is_finding, outcome.reason


# Many seeds.


@pytest.mark.long
@pytest.mark.parametrize("name", sound_flows())
def test_many_worlds_of_a_flow_publish_the_same(name: str) -> None:
    check_valid(simulate(simulator_of(sound_flows()[name]()), cases(range(150), 1, 4, (0, 4))))


@pytest.mark.long
@pytest.mark.parametrize("name", SURVIVING)
def test_many_worlds_of_an_example_publish_the_same(name: str) -> None:
    check_valid(simulate(example(name), cases(range(150), 1, 4, (0, 4))))
