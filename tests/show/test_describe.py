"""Flows as text.

- *whole texts*: a flow with nested loops reads exactly like this; only these find a sentence that has become
  unreadable.
- *single facts*: what the whole texts do not have.
- *properties* over random plans, with names that mean harm: every node is told once, in its loop, and no name
  can break a line.
"""

from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given

from pointstamp.flow.builder import PlanBuilder, wired
from pointstamp.flow.plan import EVERYWHERE, ExchangeBy, InputPort, NodeKind, Plan, RoundLimit
from pointstamp.show.describe import describe, one_line, scope_tree, summary_words
from pointstamp.topology.domain import EPOCHS
from pointstamp.topology.ports import SourcePort
from pointstamp.topology.summary import Summary, delay, enter, feedback, identity, leave
from support.plans import SCHEMA, plans

LABELS = pa.schema([("vertex", pa.int64()), ("label", pa.int64())])


def components() -> Plan:
    """Labels go round until none changes, with an operator that declares its summaries."""
    builder = PlanBuilder("components", EPOCHS)
    inside = ("labels",)
    edges = builder.add(NodeKind.INPUT, "edges", (), [], {"out": SCHEMA})
    entered = builder.add(
        NodeKind.ENTER,
        "enter",
        inside,
        [wired("in", SourcePort(edges.index, 0))],
        {"out": SCHEMA},
        input_rounds=0,
        summaries={(0, 0): (enter(),)},
    )
    again = InputPort("in", None)
    variable = builder.add(
        NodeKind.FEEDBACK, "variable", inside, [again], {"out": LABELS}, summaries={(0, 0): (feedback(),)}
    )
    variable.limit = RoundLimit(100, raises=False)
    lowest = builder.add(
        NodeKind.OPERATOR,
        "lowest label",
        inside,
        [
            wired("edges", SourcePort(entered.index, 0), ExchangeBy(("src",))),
            wired("labels", SourcePort(variable.index, 0), ExchangeBy(("vertex",))),
        ],
        {"better": LABELS, "late": LABELS},
        summaries={
            (0, 0): (identity(1),),
            (0, 1): (),
            (1, 0): (identity(1),),
            (1, 1): (delay(1, 1),),
        },
    )
    again.source = SourcePort(lowest.index, 0)
    left = builder.add(
        NodeKind.LEAVE,
        "leave",
        (),
        [wired("in", SourcePort(lowest.index, 0))],
        {"out": LABELS},
        input_rounds=1,
        summaries={(0, 0): (leave(),)},
    )
    builder.add(NodeKind.OUTPUT, "components", (), [wired("in", SourcePort(left.index, 0), EVERYWHERE)], {})
    return builder.plan


def test_a_flow_with_a_loop_reads_like_this() -> None:
    assert (
        describe(components())
        == """\
flow 'components', times (epoch)
inputs:
  'edges': src long, dst long
outputs:
  'components': vertex long, label long

'edges', input
  sends src long, dst long
loop 'labels', times (epoch, round)
  'enter', enters the loop, times become (epoch, 0)
    reads 'edges'
  'variable', is fed back, times become (epoch, round + 1), at most 100 rounds, then it stops
    reads output 'better' of 'lowest label'
    sends vertex long, label long
  'lowest label', operator
    input 'edges' reads 'enter' by src
    input 'labels' reads 'variable' by vertex
    from 'edges' to 'late' nothing goes
    from 'labels' to 'late' times become (epoch + 1, round)
    sends on 'better' vertex long, label long
    sends on 'late' vertex long, label long
'leave', leaves the loop, times become (epoch)
  reads output 'better' of 'lowest label'
'components', output
  reads 'leave' to every worker
"""
    )


def test_a_flow_without_anything_says_so() -> None:
    assert describe(Plan("nothing")) == "flow 'nothing', times (epoch)\ninputs: none\noutputs: none\n\n"


def test_a_feedback_that_is_not_wired_yet_is_said_to_read_nothing() -> None:
    plan = components()
    plan.nodes[2].inputs[0].source = None
    assert "  'variable', is fed back" in describe(plan)
    assert "    reads nothing yet\n" in describe(plan)


def test_a_type_that_ddl_has_no_word_for_is_said_in_arrows_words() -> None:
    builder = PlanBuilder("flow", EPOCHS)
    builder.add(NodeKind.INPUT, "numbers", (), [], {"out": pa.schema([("n", pa.uint64())])})
    assert "  'numbers': n uint64\n" in describe(builder.plan)


@dataclass(frozen=True)
class Versions:
    """A flow's own root times."""

    def less_equal(self, a: int, b: int, /) -> bool:
        return a <= b

    def sort_key(self, element: int, /) -> int:
        return element

    def minimum(self) -> int:
        return 0


@dataclass(frozen=True)
class NextRelease:
    """A root summary of the flow's own."""

    def results_in(self, time: int, /) -> int:
        return time + 1

    def followed_by(self, other: object, /) -> "NextRelease":
        return self

    def less_equal(self, other: object, /) -> bool:
        return True

    def advances(self) -> bool:
        return True

    def __str__(self) -> str:
        return "the next release"


def test_times_and_summaries_of_ones_own_are_said_by_their_names() -> None:
    assert describe(Plan("flow", Versions())).startswith("flow 'flow', times (Versions)\n")
    assert summary_words(Summary((1,), root=NextRelease()), Versions(), 1) == (
        "(the next release of Versions, round + 1)"
    )


@pytest.mark.parametrize(
    ("summary", "rounds", "words"),
    [
        (enter(0), 0, "(epoch, 0)"),
        (enter(1), 1, "(epoch, round, 0)"),
        (feedback(2), 2, "(epoch, round 1, round 2 + 1)"),
        (leave(2), 2, "(epoch, round 1)"),
        (leave(1), 1, "(epoch)"),
        (delay(3, 1), 1, "(epoch + 3, round)"),
    ],
)
def test_a_summary_says_what_becomes_of_a_time_of_where_it_starts(
    summary: Summary, rounds: int, words: str
) -> None:
    assert summary_words(summary, EPOCHS, rounds) == words


@given(plans())
def test_every_node_is_told_once_and_deeper_by_as_many_steps_as_loops_stand_around_it(plan: Plan) -> None:
    _, _, body = describe(plan).partition("\n\n")
    lines = body.splitlines()
    for node in plan.nodes:
        heading = "  " * len(node.scope) + f"'{one_line(node.name)}', "
        assert sum(line.startswith(heading) for line in lines) >= 1
    told = [line for line in lines if not line.lstrip().startswith(("reads ", "sends ", "input ", "from "))]
    assert len(told) == len(plan.nodes) + len(
        {node.scope[:d] for node in plan.nodes for d in range(1, 4)} - {()}
    )


@given(plans())
def test_the_same_plan_reads_the_same_and_every_character_can_be_printed(plan: Plan) -> None:
    text = describe(plan)
    assert text == describe(plan)
    assert text.replace("\n", "").isprintable()


@given(plans())
def test_the_tree_of_scopes_has_every_node_once_in_its_own_scope(plan: Plan) -> None:
    tree = scope_tree(plan)
    assert sorted(node.index for node in tree.nodes_within()) == list(range(len(plan.nodes)))
    waiting = [tree]
    while waiting:
        here = waiting.pop()
        assert all(node.scope == here.scope for node in here.nodes())
        assert all(loop.scope[:-1] == here.scope for loop in here.loops())
        waiting.extend(here.loops())
