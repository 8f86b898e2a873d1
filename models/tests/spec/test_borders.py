"""Aligned borders: the rules, the published counts, and that each property can say no.

Families, and what only each can find:
- by hand: rules, gce, out and lcs on configurations worked out on paper; finds a rule that is wrong in
  the same way in the model and in its properties.
- counts: whole explorations against the published state counts; finds a guard that is too weak or strong.
- mutants: one named change each, rejected by the named property; finds a property that says yes to all.
- corrupted: configurations that no run reaches; finds a predicate that no mutant here happens to break.
"""

import pickle
from functools import partial
from typing import Any

import pytest

from pointstamp_models.catalogue.borders import (
    CHAIN,
    CYCLE,
    DIAMOND,
    DIAMOND_INPUTS,
    ENTRY,
    PARALLEL,
    PARALLEL_INPUTS,
    CursorsKept,
    LocalRecovery,
    RestartAtGce,
    VisibleAtEmission,
    forward,
)
from pointstamp_models.exploring import liveness
from pointstamp_models.exploring.entry import Instance, Mutant
from pointstamp_models.exploring.explorer import explore
from pointstamp_models.exploring.incremental_average import AVERAGE, INPUTS, drive
from pointstamp_models.spec.border_rules import Configuration
from pointstamp_models.spec.borders import AlignedBorders
from pointstamp_models.spec.streaming import (
    BORDER,
    Action,
    Message,
    Task,
    apply_actions,
    message_set,
    source_messages,
)

one_average = partial(AlignedBorders, (AVERAGE,), INPUTS)


def after(*events: str, failures: int = 1) -> Configuration:
    return drive(one_average(failures=failures), events)[-1][1]


# By hand


def test_sources_are_numbered_through_and_each_epoch_ends_with_a_border() -> None:
    assert source_messages({"s": ((7, 8), (), (9,))}) == (
        ("s", 0, 1, ("EV", 7)),
        ("s", 1, 1, ("EV", 8)),
        ("s", 2, 1, BORDER),
        ("s", 3, 2, BORDER),
        ("s", 4, 3, ("EV", 9)),
        ("s", 5, 3, BORDER),
    )


def test_consuming_leaves_the_message_for_other_consumers() -> None:
    here: tuple[Message, ...] = (("s", 0, 1, ("EV", 7)),)
    actions = [("-", "s", 1, ("EV", 7)), ("+", "o", 1, ("EV", 8)), ("+", "o", 1, ("EV", 9))]
    assert apply_actions(actions, {"s": 0, "o": 4}, here) == (
        {"s": 1, "o": 6},
        (("o", 4, 1, ("EV", 8)), ("o", 5, 1, ("EV", 9)), ("s", 0, 1, ("EV", 7))),
    )


@pytest.mark.parametrize(
    "wanted", [("-", "s", 1, ("EV", 8)), ("-", "s", 2, ("EV", 7)), ("-", "s", 1, BORDER)]
)
def test_an_action_that_consumes_what_is_not_there_is_undefined(wanted: Action) -> None:
    assert apply_actions([wanted], {"s": 0}, (("s", 0, 1, ("EV", 7)),)) is None


def test_a_border_waits_until_every_input_has_come_to_its_own() -> None:
    model = one_average(failures=0)
    start = next(model.initial())
    # resets begins with the border of epoch 1, ints with an event: only the event may be taken.
    assert [label[3][0] for label, _ in model.steps(start)] == [("-", "ints", 1, ("EV", 1))]
    aligned = next(state for _, state in model.steps(start))
    assert [label[0] for label, _ in model.steps(aligned)] == ["I-BORDER"]


def test_a_border_archives_the_value_and_opens_the_next_epoch() -> None:
    state = after("E<1>", "BD")
    assert state.sigma == ((((0, (0, 0)), (1, (1, 1))), (2, (1, 1))),)
    assert state.cursors == ((2, 1, 2),)
    assert set(state.messages) - set(one_average(failures=0).sources) == {
        ("avgs", 0, 1, ("EV", 1)),
        ("avgs", 1, 1, BORDER),
    }


def test_a_failed_task_keeps_its_archive_and_waits_for_recovery() -> None:
    model = one_average(failures=1)
    state = after("E<1>", "BD", "E<3>", "fail")
    assert state.sigma == ((((0, (0, 0)), (1, (1, 1))), None),)
    assert [label[0] for label, _ in model.steps(state)] == ["F-RECOVER"]


def test_a_failed_task_may_fail_again() -> None:
    model = one_average(failures=2)
    failed = after("fail", failures=2)
    assert (("F-FAIL", "average"), failed._replace(failures_left=0)) in list(model.steps(failed))


def test_recovery_undoes_exactly_the_epochs_above_gce() -> None:
    restored = after("E<1>", "BD", "E<3>", "fail", "recover")
    assert restored == after("E<1>", "BD")._replace(failures_left=0)


def test_nothing_is_visible_before_the_first_common_snapshot() -> None:
    model = one_average(failures=0)
    assert model.out(after("E<1>")) == ()
    assert model.out(after("E<1>", "BD")) == (
        ("avgs", 0, 1, ("EV", 1)),
        ("avgs", 1, 1, BORDER),
        ("ints", 0, 1, ("EV", 1)),
        ("ints", 1, 1, BORDER),
        ("resets", 0, 1, BORDER),
    )


def test_gce_is_that_of_the_slowest_task() -> None:
    model = AlignedBorders(PARALLEL, PARALLEL_INPUTS, failures=0)
    archives = (((0, ()), (1, ())), (2, ())), (((0, ()),), (1, ()))
    assert model.gce(next(model.initial())._replace(sigma=archives)) == 0


def test_a_stream_may_have_several_consumers() -> None:
    model = AlignedBorders(DIAMOND, DIAMOND_INPUTS, failures=0)
    state = next(model.initial())
    for reader in ("split", "same", "scale"):
        state = next(next_state for label, next_state in model.steps(state) if label[1] == reader)
    assert {("ones", 0, 1, ("EV", 1)), ("tens", 0, 1, ("EV", 10))} <= set(state.messages)


@pytest.mark.parametrize(
    ("tasks", "inputs", "complaint"),
    [
        (CYCLE, {"numbers": ((1,),)}, "acyclic"),
        ((AVERAGE, AVERAGE), INPUTS, "one producer"),
        ((AVERAGE,), {"ints": ((1,),)}, "distinct inputs"),
        ((Task("idle", forward, (), "o", ()),), {"s": ((1,),)}, "distinct inputs"),
        ((AVERAGE,), {"ints": ((1,), (2,)), "resets": ((),)}, "borders of all 2 epochs"),
    ],
)
def test_only_valid_initial_configurations_are_models(tasks: Any, inputs: Any, complaint: str) -> None:  # noqa: ANN401 - malformed
    with pytest.raises(ValueError, match=complaint):
        AlignedBorders(tasks, inputs, failures=0)


# Counts


@pytest.mark.parametrize("instance", ENTRY.instances, ids=lambda instance: instance.name)
def test_every_instance_holds_its_properties_shows_its_witnesses_and_has_its_count(
    instance: Instance,
) -> None:
    exploration = explore(instance.build(), keep_edges=True)
    assert exploration.violation is None
    assert exploration.missing_witnesses == set()
    assert instance.states is None or exploration.states == instance.states
    assert liveness.violation(exploration) is None


@pytest.mark.parametrize(("tasks", "per_failure_free_state"), [((AVERAGE,), (1, 3, 5)), (CHAIN, (1, 4, 8))])
def test_every_failure_pattern_is_possible_in_every_configuration(
    tasks: tuple[Task, ...], per_failure_free_state: tuple[int, ...]
) -> None:
    # One task: running or failed after each failure. Two tasks: any of them failed, within the budget.
    counts = [explore(AlignedBorders(tasks, INPUTS, failures=n)).states for n in range(3)]
    assert counts == [counts[0] * factor for factor in per_failure_free_state]


def test_properties_have_the_published_names() -> None:
    model = one_average(failures=0)
    published = {
        "ArchContig",
        "SeqUnique",
        "EpochPrefix",
        "Cursor",
        "GceBehind",
        "M0Kept",
        "LcsSelf",
        "Explain",
    }
    assert set(model.invariants()) == published
    assert set(model.step_properties()) == {"GceMono", "OutMono", "CommitOnly", "LcsExplained"}


def test_the_catalogue_can_be_sent_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(ENTRY)).name == "borders"  # noqa: S301 - our own bytes


# Mutants

SHORTEST = {
    "M4.1": 4,  # event 1; half border on ints; event 3 of epoch 2; border
    "M4.2": 2,  # one of two tasks finishes epoch 1
    "M4.3": 7,  # epoch 1; event 3; fail; recover; Reset first, then event 3
    "M4.4": 4,  # event 1; fail; recover; border
    "M4.5": 2,  # fail; recover
    "M4.6": 1,  # one event
    "M4.6 after a failure": 3,  # one event; fail; recover
    "M4.7": 6,  # left finishes epoch 1; fail; recover; right finishes epoch 1
    "M4.8": 5,  # event 1; fail; local recover; event 3; border
    "M4 on a cycle": 2,  # one event, all the way round
}


@pytest.mark.parametrize("mutant", ENTRY.mutants, ids=lambda mutant: mutant.identifier)
def test_every_mutant_is_rejected_by_its_property_after_the_published_steps(mutant: Mutant) -> None:
    violation = explore(mutant.build(), properties=[str(mutant.breaks)]).violation
    assert violation is not None
    assert violation.property == mutant.breaks
    assert len(violation.trace) - 1 == SHORTEST[mutant.identifier]


def test_without_alignment_epoch_one_contains_the_effect_of_epoch_two() -> None:
    violation = explore(ENTRY.mutants[0].build(), properties=["Explain"]).violation
    assert violation is not None
    assert [step.label for step in violation.trace[1:]] == [
        "I-EVENT(average): -ints<1, 1> +avgs<1, 1>",
        "HALF-BORDER(average): -ints<1, BD>",
        "I-EVENT(average): -ints<2, 3> +avgs<1, 2>",
        "I-BORDER(average): -resets<1, BD> +avgs<1, BD>",
    ]


@pytest.mark.parametrize("broken", [CursorsKept, LocalRecovery, RestartAtGce])
def test_a_wrong_recovery_is_already_seen_in_the_configuration_it_restores(
    broken: type[AlignedBorders],
) -> None:
    violation = explore(broken((AVERAGE,), INPUTS, failures=1), properties=["LcsExplained"]).violation
    assert violation is not None
    assert violation.trace[-1].label == "F-RECOVER()"


def test_restarting_at_gce_also_breaks_liveness() -> None:
    model = RestartAtGce((AVERAGE,), INPUTS, failures=1)
    violation = liveness.violation(explore(model, properties=(), keep_edges=True))
    assert violation is not None
    assert violation.property == "Liveness"


def test_liveness_needs_fair_recovery_and_no_fair_failures() -> None:
    class UnfairRecovery(AlignedBorders):
        def fairness(self) -> Any:  # noqa: ANN401 - as the model's
            return {name: steps for name, steps in super().fairness().items() if name != "F-RECOVER"}

    model = UnfairRecovery((AVERAGE,), INPUTS, failures=1)
    assert liveness.violation(explore(model, keep_edges=True)) is not None
    assert not any(steps(after(), ("F-FAIL", "average")) for steps in model.fairness().values())


def test_visible_at_emission_breaks_commit_only_as_well() -> None:
    model = VisibleAtEmission((AVERAGE,), INPUTS, failures=0)
    violation = explore(model, properties=["CommitOnly"]).violation
    assert violation is not None


# Corrupted

BASE = after("E<1>", "BD")


def corrupted(*without: Message, **fields: Any) -> Configuration:  # noqa: ANN401 - any field
    messages = tuple(m for m in BASE.messages if m not in without)
    return BASE._replace(**{"messages": messages, **fields})


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("ArchContig", corrupted(sigma=((((0, (0, 0)), (2, (1, 1))), (2, (1, 1))),))),
        ("ArchContig", corrupted(sigma=((((0, (0, 0)), (1, (1, 1))), (3, (1, 1))),))),
        ("SeqUnique", corrupted(("avgs", 0, 1, ("EV", 1)))),
        ("SeqUnique", corrupted(messages=message_set([*BASE.messages, ("avgs", 0, 1, ("EV", 9))]))),
        ("EpochPrefix", corrupted(messages=message_set([*BASE.messages, ("avgs", 2, 1, BORDER)]))),
        ("EpochPrefix", corrupted(messages=message_set([*BASE.messages, ("avgs", 2, 3, ("EV", 1))]))),
        ("Cursor", corrupted(cursors=((2, 1, 1),))),
        ("Cursor", corrupted(cursors=((6, 1, 2),))),
        ("GceBehind", corrupted(sigma=((((0, (0, 0)), (1, (1, 1))), (1, (1, 1))),))),
        ("M0Kept", corrupted(("ints", 2, 2, ("EV", 3)))),
        ("LcsSelf", corrupted(("ints", 0, 1, ("EV", 1)))),
        ("Explain", corrupted(("avgs", 0, 1, ("EV", 1)))),
    ],
)
def test_each_invariant_rejects_what_it_is_there_to_reject(name: str, state: Configuration) -> None:
    holds = one_average(failures=1).invariants()[name]
    assert holds(BASE)
    assert not holds(state)


@pytest.mark.parametrize("name", ["GceMono", "OutMono", "CommitOnly"])
def test_each_step_property_rejects_a_recovery_that_undoes_committed_work(name: str) -> None:
    holds = one_average(failures=1).step_properties()[name]
    assert not holds(BASE, ("F-RECOVER",), after())


def test_to_stop_is_a_deadlock_while_an_input_is_unread() -> None:
    model = one_average(failures=0)
    assert not model.may_stop(BASE)
    assert model.may_stop(after("E<1>", "BD", "E<3>", "E<5>", "Reset", "BD"))


def test_a_trace_is_printed_in_the_words_of_the_paper() -> None:
    model = one_average(failures=1)
    assert model.describe_state(BASE) == (
        "gce = 1  average = <2, (1, 1)> archive {0: (0, 0), 1: (1, 1)}  avgs = 0<1, 1> 1<1, BD>"
    )
    assert model.describe_label(("F-FAIL", "average")) == "F-FAIL(average)"
