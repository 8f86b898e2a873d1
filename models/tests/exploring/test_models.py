"""The judge is right exactly about what is right: nothing that is wrong passes, nothing that is right fails.

Families, and what only each can find:
- single tasks on a lamp that can be switched, judged in this process: each way in which an instance, a mutant
  or a check can be right or wrong has its case, so a verdict that is never given shows;
- whole runs over processes, on the clocks protocol because it can travel to them: tasks lost, errors
  swallowed, a dead process that takes others with it, the order and the events;
- the catalogue as it stands: entries that cannot be handed to another process, names listed twice.
"""

import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pytest

from pointstamp.errors import InternalError, UsageError
from pointstamp_models.catalogue import ENTRIES
from pointstamp_models.catalogue.clocks import AddsConsumed, HoldsBackAnything
from pointstamp_models.exploring import models, report
from pointstamp_models.exploring.entry import Check, Entry, Instance, Mutant, Outcome
from pointstamp_models.exploring.judge import Kind, Task, Verdict, judge
from pointstamp_models.spec.clocks import Clocks
from pointstamp_models.spec.model import Label, LeadsTo, Model
from pointstamp_models.spec.multiset import chain


class Lamp(NamedTuple):
    is_on: bool
    presses: int


class Switch(Model[Lamp]):
    """A lamp that is pressed at most three times: four states, three steps."""

    name = "switch"
    state_type = Lamp

    def initial(self) -> list[Lamp]:
        return [Lamp(False, 0)]

    def after_press(self, state: Lamp) -> Lamp:
        return Lamp(not state.is_on, state.presses + 1)

    def steps(self, state: Lamp) -> list[tuple[Label, Lamp]]:
        return [(("press",), self.after_press(state))] if state.presses < 3 else []

    def invariants(self) -> Mapping[str, Callable[[Lamp], bool]]:
        return {"OnIfOdd": lambda lamp: lamp.is_on == (lamp.presses % 2 == 1)}

    def step_properties(self) -> Mapping[str, Callable[[Lamp, Label, Lamp], bool]]:
        return {"Toggles": lambda before, label, after: before.is_on != after.is_on}

    def witnesses(self) -> Mapping[str, Callable[[Lamp], bool]]:
        return {"Shines": lambda lamp: lamp.is_on}

    def fairness(self) -> Mapping[str, Callable[[Lamp, Label], bool]]:
        return {"WF(press)": lambda state, label: True}

    def liveness(self) -> Mapping[str, LeadsTo[Lamp]]:
        return {"IsPressed": LeadsTo(lambda lamp: lamp.presses == 0, lambda lamp: lamp.presses == 3)}


class Jammed(Switch):
    def after_press(self, state: Lamp) -> Lamp:
        return Lamp(False, state.presses + 1)


class Idle(Switch):
    def fairness(self) -> Mapping[str, Callable[[Lamp, Label], bool]]:
        return {}


class NeverDone(Switch):
    def may_stop(self, state: Lamp) -> bool:
        return False


class Painted(Switch):
    """Changes nothing that a property or a state shows."""

    def after_press(self, state: Lamp) -> Lamp:
        return super().after_press(state)


def verdict_on(work: Instance | Mutant | Check, twin: Instance | None = None) -> Verdict:
    return judge(Task("switch", work, twin), lambda progress: None)


RIGHT: list[Instance | Mutant | Check] = [
    Instance("all", Switch, states=4, transitions=3, liveness=True),
    Instance("nothing published", Switch),
    Instance("bounded", Switch, limit=2),
    Mutant("M1", "jammed", Jammed, breaks="OnIfOdd"),
    Mutant("M2", "jammed", Jammed, breaks="Toggles"),
    Mutant("M3", "jammed", Jammed, breaks="Shines"),
    Mutant("M4", "nobody need press", Idle, breaks="IsPressed"),
    Mutant("M5", "must continue", NeverDone, breaks="deadlock"),
    Check("brute force", lambda: Outcome(True, 7, "seven cases agree")),
    Check("rejects", lambda: Outcome(True, 1, "differs at 3"), rejects="M6"),
]


@pytest.mark.parametrize("work", RIGHT, ids=[Task("", work).name for work in RIGHT])
def test_what_is_as_it_should_be_is_right(work: Instance | Mutant | Check) -> None:
    assert verdict_on(work).problems == ()


WRONG: list[tuple[Instance | Mutant | Check, str]] = [
    (Instance("count", Switch, states=5), "reaches 4 states, but 5 are published"),
    (Instance("steps", Switch, transitions=9), "reaches 3 transitions, but 9 are published"),
    (Instance("cut", Switch, states=4, limit=2), "reaches 2 states, but 4 are published"),
    (Instance("invariant", Jammed), "OnIfOdd is broken after 1 step"),
    (Instance("deadlock", NeverDone), "deadlock is broken after 3 steps"),
    (Instance("live", Idle, liveness=True), "IsPressed is broken by a fair run that continues forever"),
    (Instance("cut", Switch, limit=2, liveness=True), "its limit leaves the graph incomplete"),
    (Instance("dark", Switch, limit=1), "witness Shines is never reached within its limit of 1 states"),
    (Mutant("M1", "none", Switch, breaks="OnIfOdd"), "survives: OnIfOdd is not broken in all 4 states"),
    (Mutant("M2", "none", Switch, breaks="Shines"), "survives: Shines is not broken in all 4 states"),
    (Mutant("M3", "none", Switch, breaks="IsPressed"), "survives: IsPressed is not broken in all 4 states"),
    (Mutant("M4", "none", Switch, breaks="deadlock"), "survives: deadlock is not broken in all 4 states"),
    (Mutant("M5", "cut", Jammed, breaks="Shines", limit=2), "survives: Shines is not broken in the first 2"),
    (
        Mutant("M6", "cut", Idle, breaks="IsPressed", limit=2),
        "survives: IsPressed is not broken in the first",
    ),
    (Check("brute force", lambda: Outcome(False, 7, "differs at 3")), "does not hold: differs at 3"),
    (Check("rejects", lambda: Outcome(False, 7, "agrees"), rejects="M7"), "does not hold: agrees"),
]


@pytest.mark.parametrize(("work", "problem"), WRONG, ids=[Task("", work).name for work, _ in WRONG])
def test_what_is_not_as_it_should_be_is_wrong(work: Instance | Mutant | Check, problem: str) -> None:
    verdict = verdict_on(work)
    assert not verdict.right
    assert problem in "; ".join(verdict.problems)


def test_a_mutant_is_judged_by_its_property_alone() -> None:
    # The same step breaks OnIfOdd, which an exploration of everything would find first.
    verdict = verdict_on(Mutant("M2", "jammed", Jammed, breaks="Toggles"))
    assert verdict.violation is not None
    assert verdict.violation.property == "Toggles"


def test_a_misspelt_property_of_a_mutant_is_an_error_and_no_survivor() -> None:
    with pytest.raises(InternalError, match="no property 'OnIfOd'"):
        verdict_on(Mutant("M1", "jammed", Jammed, breaks="OnIfOd"))


def test_an_equivalent_mutant_reaches_the_states_of_its_twin() -> None:
    twin = Instance("all", Switch)
    verdict = verdict_on(Mutant("E1", "painted", Painted, breaks=None, same_as="all"), twin)
    assert verdict.kind is Kind.EQUIVALENT
    assert verdict.right


def test_a_mutant_that_reaches_other_states_or_breaks_a_property_is_no_equivalent() -> None:
    class Wired(Switch):
        def initial(self) -> list[Lamp]:
            return [Lamp(False, 0), Lamp(True, -1)]

    twin = Instance("all", Switch)
    more = verdict_on(Mutant("E1", "wired", Wired, breaks=None, same_as="all"), twin)
    assert more.problems == ("is not equivalent to all: 1 states more and 0 fewer",)
    broken = verdict_on(Mutant("E2", "jammed", Jammed, breaks=None, same_as="all"), twin)
    assert broken.problems == ("OnIfOdd is broken after 1 step",)


def test_an_entry_that_names_something_twice_or_has_no_twin_is_refused() -> None:
    with pytest.raises(InternalError, match="lists all more than once"):
        Entry("switch", "", (Instance("all", Switch), Instance("all", Switch)))
    equivalent = Mutant("E1", "", Painted, breaks=None, same_as="none")
    with pytest.raises(InternalError, match="must be one of all, but is 'none'"):
        Entry("switch", "", (Instance("all", Switch),), (equivalent,))


# Whole runs. What goes to another process must be importable there, so these use models of the package.

CLOCKS = partial(Clocks, chain("ab"), ((0, 1),))
HOLDS = Instance("holds", CLOCKS, states=323, transitions=798, liveness=True)
KILLED = Mutant("M1.2", "holds back anything", partial(HoldsBackAnything, chain("ab"), ((0, 1),)), "Inv1")
VACUOUS = Instance("vacuous", partial(AddsConsumed, chain("ab"), ((0, 1),)))


def entry(*work: Instance | Mutant | Check) -> Entry:
    return Entry(
        "clocks",
        "clocks as a tiny entry",
        tuple(item for item in work if isinstance(item, Instance)),
        tuple(item for item in work if isinstance(item, Mutant)),
        tuple(item for item in work if isinstance(item, Check)),
    )


def test_a_run_in_which_all_is_as_it_should_be_is_right() -> None:
    findings = models.run([entry(HOLDS, KILLED)], processes=2)
    assert findings.right
    assert [verdict.name for verdict in findings.verdicts] == ["holds", "M1.2"]
    assert findings.wrong == ()


def test_one_run_reports_every_way_to_be_wrong_and_judges_the_rest() -> None:
    findings = models.run(
        [
            entry(
                HOLDS,
                replace(HOLDS, name="wrong count", states=324),
                VACUOUS,
                Instance("raises", partial(int, "no number")),  # type: ignore[arg-type]
                Instance("dies", partial(os._exit, 7)),
                Instance("stays here", lambda: Clocks(chain("ab"), ((0, 1),))),
                KILLED,
                Mutant("survivor", "none", CLOCKS, "Inv1"),
            )
        ],
        processes=2,
    )
    problems = {verdict.name: "; ".join(verdict.problems) for verdict in findings.verdicts}
    assert problems.pop("holds") == ""
    assert problems.pop("M1.2") == ""
    assert problems.pop("wrong count") == "reaches 323 states, but 324 are published"
    assert problems.pop("raises").startswith("raised ValueError: invalid literal for int()")
    assert problems.pop("dies") == "its process ended with exit code 7"
    assert problems.pop("stays here").startswith("cannot go to another process: ")
    assert "survives: Inv1" in problems.pop("survivor")
    assert "witness AllVacant is never reached" in problems.pop("vacuous")
    assert problems == {}
    assert not findings.right


def test_every_task_is_started_then_finished_and_long_ones_only_if_asked_for() -> None:
    tiny = entry(HOLDS, replace(HOLDS, name="large", long=True), KILLED)
    heard: list[tuple[str, str]] = []

    def notice(event: models.Event) -> None:
        if isinstance(event, models.RunPlanned):
            heard.append(("RunPlanned", str(event.tasks)))
        else:
            heard.append((type(event).__name__, event.task.name))

    short = models.run([tiny], processes=1, notice=notice)
    expected = [("RunPlanned", "2")]
    expected += [(event, name) for name in ("holds", "M1.2") for event in ("TaskStarted", "TaskFinished")]
    assert [item for item in heard if item[0] != "TaskProgressed"] == expected
    assert [task.name for task in short.left_out] == ["large"]
    whole = models.run([tiny], long=True, processes=1)
    assert [verdict.name for verdict in whole.verdicts] == ["holds", "large", "M1.2"]
    assert whole.left_out == ()


def test_a_run_in_which_nothing_is_judged_is_not_right() -> None:
    assert not models.run([entry(replace(HOLDS, long=True))], processes=1).right


def test_an_unknown_model_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(UsageError, match="unknown model clock, watch; known: clocks"):
        models.choose([entry(HOLDS)], ["watch", "clocks", "clock"])


def test_the_table_counts_mutants_killed_and_expected_and_marks_what_is_wrong() -> None:
    survivor = Mutant("survivor", "none", CLOCKS, "Inv1")
    findings = models.run([entry(HOLDS, KILLED, survivor)], processes=2)
    first, second = report.rows(findings)
    assert first.cells()[:4] == ("clocks", "holds", "323", "798")
    assert (first.right, second.mutants_killed, second.right) == (True, "1/2", False)
    text = report.table_text(findings)
    assert text.count("WRONG") == 1
    assert "WRONG: clocks, mutant survivor (none): survives: Inv1" in report.failures_text(findings)
    assert "1 of 3 are WRONG" in report.summary_text(findings)


def test_verbose_output_shows_the_shortest_trace_of_each_mutant() -> None:
    findings = models.run([entry(KILLED)], processes=1)
    text = report.mutants_text(findings)
    assert text.startswith("clocks M1.2: holds back anything: Inv1 is broken after 3 steps\n    0 init\n")
    assert len(text.splitlines()) == 1 + 2 * 4


def test_the_catalogue_can_go_to_other_processes() -> None:
    for item in ENTRIES:
        for work in (*item.instances, *item.mutants, *item.checks):
            assert pickle.loads(pickle.dumps(work)) is not None  # noqa: S301 - our own bytes


def test_the_catalogue_lists_each_model_and_each_mutant_once() -> None:
    assert len({item.name for item in ENTRIES}) == len(ENTRIES)
    mutants = [mutant.identifier for item in ENTRIES for mutant in item.mutants]
    assert len(set(mutants)) == len(mutants)
