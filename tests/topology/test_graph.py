"""Building graphs: what they answer, and what is refused, with the operators named."""

import pickle
from dataclasses import dataclass

import pytest

from pointstamp.errors import TopologyError
from pointstamp.topology.domain import EPOCHS, Domain
from pointstamp.topology.graph import GraphBuilder, OperatorGraph
from pointstamp.topology.paths import PathSummaries
from pointstamp.topology.ports import OperatorIndex, Port, SourcePort, Target
from pointstamp.topology.summary import Summary, delay, enter, feedback, identity, leave
from support.times import Pairs

OUTSIDE, INSIDE, DEEPER = Domain(EPOCHS), Domain(EPOCHS, 1), Domain(EPOCHS, 2)


def wire(builder: GraphBuilder, *pairs: tuple[tuple[OperatorIndex, int], tuple[OperatorIndex, int]]) -> None:
    for (origin, output), (target, port) in pairs:
        builder.connect(SourcePort(origin, output), Target(target, port))


def test_a_source_and_a_target_of_the_same_numbers_are_different_ports() -> None:
    ports: set[Port] = {SourcePort(OperatorIndex(0), 0), Target(OperatorIndex(0), 0)}
    assert len(ports) == 2


def test_the_diagnostics_port_does_not_hold_back_the_data() -> None:
    """The timely book's example: diagnostic input cannot result in data output."""
    builder = GraphBuilder()
    data = builder.add("data", outputs=[OUTSIDE])
    queries = builder.add("queries", outputs=[OUTSIDE])
    work = builder.add(
        "work",
        inputs=[OUTSIDE, OUTSIDE],
        outputs=[OUTSIDE, OUTSIDE],
        summaries={(0, 0): [identity()], (0, 1): [identity()], (1, 1): [identity()]},
    )
    wire(builder, ((data, 0), (work, 0)), ((queries, 0), (work, 1)))
    paths = PathSummaries(builder.build())
    assert paths.between(SourcePort(queries, 0), SourcePort(work, 1)) == (identity(),)
    assert paths.between(SourcePort(queries, 0), SourcePort(work, 0)) == ()
    assert paths.between(Target(work, 1), SourcePort(work, 0)) == ()
    assert paths.between(SourcePort(data, 0), SourcePort(work, 0)) == (identity(),)


def test_an_output_may_feed_many_inputs() -> None:
    builder = GraphBuilder()
    source = builder.add("in", outputs=[OUTSIDE])
    sinks = [builder.add(f"sink {i}", inputs=[OUTSIDE]) for i in range(3)]
    wire(builder, *(((source, 0), (sink, 0)) for sink in sinks))
    assert builder.build().connections == tuple((SourcePort(source, 0), Target(sink, 0)) for sink in sinks)


def test_an_input_with_two_sources_is_refused() -> None:
    builder = GraphBuilder()
    left, right = builder.add("left", outputs=[OUTSIDE]), builder.add("right", outputs=[OUTSIDE])
    sink = builder.add("sink", inputs=[OUTSIDE])
    wire(builder, ((left, 0), (sink, 0)))
    with pytest.raises(TopologyError, match=r"input 0 of 'sink' has two sources.*'left'.*'right'.*concat"):
        wire(builder, ((right, 0), (sink, 0)))


def test_an_input_without_a_source_is_refused() -> None:
    builder = GraphBuilder()
    builder.add("lonely", inputs=[OUTSIDE])
    with pytest.raises(TopologyError, match="input 0 of 'lonely' has no source"):
        builder.build()


def test_an_operator_wired_to_itself_is_refused() -> None:
    builder = GraphBuilder()
    again = builder.add("again", inputs=[INSIDE], outputs=[INSIDE], summaries={(0, 0): [feedback()]})
    with pytest.raises(TopologyError, match="operator 'again' feeds itself"):
        wire(builder, ((again, 0), (again, 0)))


def test_ports_and_operators_that_do_not_exist_are_refused() -> None:
    builder = GraphBuilder()
    source = builder.add("in", outputs=[OUTSIDE])
    sink = builder.add("out", inputs=[OUTSIDE])
    with pytest.raises(TopologyError, match="'in' has 1 outputs, got output 1"):
        wire(builder, ((source, 1), (sink, 0)))
    with pytest.raises(TopologyError, match="'out' has 1 inputs, got input 2"):
        wire(builder, ((source, 0), (sink, 2)))
    with pytest.raises(TopologyError, match="not in this graph"):
        wire(builder, ((OperatorIndex(7), 0), (sink, 0)))
    wire(builder, ((source, 0), (sink, 0)))
    with pytest.raises(TopologyError, match="not in this graph"):
        builder.build().location(Target(OperatorIndex(0), 0))


def test_a_stream_that_skips_the_door_of_a_loop_is_refused() -> None:
    builder = GraphBuilder()
    source = builder.add("in", outputs=[OUTSIDE])
    body = builder.add("body", inputs=[INSIDE], outputs=[INSIDE])
    with pytest.raises(TopologyError, match=r"'in' has times \(epoch\), but input 0 of 'body' needs"):
        wire(builder, ((source, 0), (body, 0)))


@pytest.mark.parametrize(
    "summary", [Summary((-1,)), Summary((), (-1,)), delay(-1, rounds=1)], ids=["round", "constant", "epoch"]
)
def test_a_summary_that_moves_time_back_is_refused(summary: Summary) -> None:
    with pytest.raises(TopologyError, match=r"operator 'undo' has the summary .* moves time back"):
        GraphBuilder().add("undo", inputs=[INSIDE], outputs=[INSIDE], summaries={(0, 0): [summary]})


def test_a_summary_between_other_domains_or_ports_is_refused() -> None:
    with pytest.raises(TopologyError, match="does not lead from times"):
        GraphBuilder().add("odd", inputs=[INSIDE], outputs=[INSIDE], summaries={(0, 0): [leave()]})
    with pytest.raises(TopologyError, match="operator 'odd' has a summary from input 0 to output 1"):
        GraphBuilder().add("odd", inputs=[INSIDE], outputs=[INSIDE], summaries={(0, 1): [identity(1)]})


def loop_without_feedback(builder: GraphBuilder, step: int) -> None:
    source = builder.add("in", outputs=[INSIDE])
    join = builder.add("join", inputs=[INSIDE, INSIDE], outputs=[INSIDE])
    halve = builder.add("halve", inputs=[INSIDE], outputs=[INSIDE])
    again = builder.add("again", inputs=[INSIDE], outputs=[INSIDE], summaries={(0, 0): [feedback(1, step)]})
    wire(
        builder,
        ((source, 0), (join, 0)),
        ((join, 0), (halve, 0)),
        ((halve, 0), (again, 0)),
        ((again, 0), (join, 1)),
    )


def test_a_cycle_that_does_not_advance_time_is_refused_with_its_operators() -> None:
    builder = GraphBuilder()
    loop_without_feedback(builder, step=0)
    with pytest.raises(TopologyError, match="does not strictly advance time") as refusal:
        builder.build()
    message = str(refusal.value)
    assert "does not strictly advance time" in message
    assert all(name in message for name in ("join", "halve", "again"))
    assert "'in'" not in message


def test_the_same_cycle_with_a_step_is_accepted() -> None:
    builder = GraphBuilder()
    loop_without_feedback(builder, step=1)
    assert isinstance(builder.build(), OperatorGraph)


def test_a_cycle_that_leaves_the_loop_and_enters_it_again_in_round_0_is_refused() -> None:
    """Feedback inside does not help: the round is thrown away on the way."""
    builder = GraphBuilder()
    source = builder.add("in", outputs=[OUTSIDE])
    join = builder.add("join", inputs=[OUTSIDE, OUTSIDE], outputs=[OUTSIDE])
    entered = builder.add("enter", inputs=[OUTSIDE], outputs=[INSIDE], summaries={(0, 0): [enter()]})
    again = builder.add("again", inputs=[INSIDE], outputs=[INSIDE], summaries={(0, 0): [feedback()]})
    left = builder.add("leave", inputs=[INSIDE], outputs=[OUTSIDE], summaries={(0, 0): [leave()]})
    wire(
        builder,
        ((source, 0), (join, 0)),
        ((join, 0), (entered, 0)),
        ((entered, 0), (again, 0)),
        ((again, 0), (left, 0)),
        ((left, 0), (join, 1)),
    )
    with pytest.raises(TopologyError, match="does not strictly advance time"):
        builder.build()


def test_a_cycle_that_resets_its_only_round_is_refused() -> None:
    builder = GraphBuilder()
    source = builder.add("in", outputs=[INSIDE])
    join = builder.add("join", inputs=[INSIDE, INSIDE], outputs=[INSIDE])
    reset = builder.add("reset", inputs=[INSIDE], outputs=[INSIDE], summaries={(0, 0): [Summary((), (3,))]})
    wire(builder, ((source, 0), (join, 0)), ((join, 0), (reset, 0)), ((reset, 0), (join, 1)))
    with pytest.raises(TopologyError, match=r"join -> reset|reset -> join"):
        builder.build()


def nested_loops() -> tuple[OperatorGraph, dict[str, OperatorIndex]]:
    """An inner loop in an outer one: the way round the outer loop resets the inner round."""
    builder = GraphBuilder()
    door, door2 = {(0, 0): [enter()]}, {(0, 0): [enter(1)]}
    back, back2 = {(0, 0): [feedback(1)]}, {(0, 0): [feedback(2)]}
    exit_, exit2 = {(0, 0): [leave(1)]}, {(0, 0): [leave(2)]}
    at = {
        "in": builder.add("in", outputs=[OUTSIDE]),
        "enter": builder.add("enter", inputs=[OUTSIDE], outputs=[INSIDE], summaries=door),
        "outer": builder.add("outer", inputs=[INSIDE, INSIDE], outputs=[INSIDE]),
        "enter 2": builder.add("enter 2", inputs=[INSIDE], outputs=[DEEPER], summaries=door2),
        "inner": builder.add("inner", inputs=[DEEPER, DEEPER], outputs=[DEEPER]),
        "again 2": builder.add("again 2", inputs=[DEEPER], outputs=[DEEPER], summaries=back2),
        "leave 2": builder.add("leave 2", inputs=[DEEPER], outputs=[INSIDE], summaries=exit2),
        "again": builder.add("again", inputs=[INSIDE], outputs=[INSIDE], summaries=back),
        "leave": builder.add("leave", inputs=[INSIDE], outputs=[OUTSIDE], summaries=exit_),
    }
    wire(
        builder,
        ((at["in"], 0), (at["enter"], 0)),
        ((at["enter"], 0), (at["outer"], 0)),
        ((at["outer"], 0), (at["enter 2"], 0)),
        ((at["enter 2"], 0), (at["inner"], 0)),
        ((at["inner"], 0), (at["again 2"], 0)),
        ((at["again 2"], 0), (at["inner"], 1)),
        ((at["inner"], 0), (at["leave 2"], 0)),
        ((at["leave 2"], 0), (at["again"], 0)),
        ((at["again"], 0), (at["outer"], 1)),
        ((at["leave 2"], 0), (at["leave"], 0)),
    )
    return builder.build(), at


def test_the_way_round_an_outer_loop_is_a_second_minimal_summary_of_an_inner_port() -> None:
    """(e, 0, 5) could result in (e, 1, 0) at the same port, although the two are incomparable.

    The path runs through the port twice: simple paths are not enough.
    """
    graph, at = nested_loops()
    paths = PathSummaries(graph)
    inner = SourcePort(at["inner"], 0)
    assert set(paths.between(inner, inner)) == {identity(2), Summary((1,), (0,))}
    assert set(paths.between(inner, Target(at["leave 2"], 0))) == {identity(2), Summary((1,), (0,))}
    assert paths.between(SourcePort(at["in"], 0), SourcePort(at["leave"], 0)) == (identity(),)
    assert paths.between(SourcePort(at["leave"], 0), inner) == ()


def test_a_graph_travels_between_processes() -> None:
    graph, _ = nested_loops()
    copy = pickle.loads(pickle.dumps(graph))  # noqa: S301 - our own bytes
    assert copy.connections == graph.connections
    assert copy.levels == graph.levels
    assert copy.domains == graph.domains


@dataclass(frozen=True)
class Tick:
    """Advance the counters; past ten of the first, nothing takes this path."""

    left: int
    right: int

    def results_in(self, time: tuple[int, int], /) -> tuple[int, int] | None:
        return (time[0] + self.left, time[1] + self.right) if time[0] + self.left <= 10 else None

    def followed_by(self, other: "Tick", /) -> "Tick | None":
        return (
            Tick(self.left + other.left, self.right + other.right) if self.left + other.left <= 10 else None
        )

    def less_equal(self, other: "Tick", /) -> bool:
        return self.left <= other.left and self.right <= other.right

    def advances(self) -> bool:
        return self.left + self.right > 0


def counter_loop(step: Tick) -> GraphBuilder:
    domain = Domain(Pairs())
    builder = GraphBuilder()
    source = builder.add("in", outputs=[domain])
    join = builder.add("join", inputs=[domain, domain], outputs=[domain])
    tick = builder.add(
        "tick",
        inputs=[domain],
        outputs=[domain],
        summaries={(0, 0): [Summary(root=step), Summary(root=Tick(6, 0))]},
    )
    wire(builder, ((source, 0), (join, 0)), ((join, 0), (tick, 0)), ((tick, 0), (join, 1)))
    return builder


def test_a_users_own_times_go_round_a_loop_until_they_answer_none() -> None:
    graph = counter_loop(Tick(0, 1)).build()
    tick = OperatorIndex(2)
    paths = PathSummaries(graph)
    assert set(paths.between(Target(tick, 0), SourcePort(tick, 0))) == {
        Summary(root=Tick(0, 1)),
        Summary(root=Tick(6, 0)),
    }
    assert Summary(root=Tick(6, 0)).followed_by(Summary(root=Tick(6, 0))) is None
    assert Summary(root=Tick(6, 0)).results_in(((5, 0),)) is None


def test_a_users_own_summary_that_moves_time_back_is_refused() -> None:
    with pytest.raises(TopologyError, match=r"'tick' .* leads from \(0, 0\) to \(0, -1\)"):
        counter_loop(Tick(0, -1))


def test_a_users_own_cycle_that_stands_still_is_refused() -> None:
    with pytest.raises(TopologyError, match="does not strictly advance time"):
        counter_loop(Tick(0, 0)).build()
