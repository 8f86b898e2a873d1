"""Each predicate of the rules says what its counterpart in ``pointstamp_models.spec`` says, on random states.

The rules are written for one state that changes with every event, and look at what an event could break; the
models compare whole states, and share no code with the rules. Random graphs with a cycle, times of two
coordinates so that some are incomparable, and random states of two workers, most of which no run reaches:
what is compared is the predicate, not the run. Families, one for each model:
- *order*: could-result-in and implied frontiers, of both walkers, against ``pointstamp_models.spec.graph``;
- *exchange*: what may be dropped, kept, sent and told, and RecordCount, against
``pointstamp_models.spec.exchange``; - *combined*: what frontiers expect, CMEnabled, SafeCombined, no way
back, Converged, and when a time may be
  told, against ``pointstamp_models.spec.combined`` and its propagation;
- *snapshots*: that own work is done and nothing arrives, against ``pointstamp_models.spec.snapshot_rules``
and ``pointstamp_models.spec.graph``.

What only this finds: a rule and a model that have come apart. A rule that is too weak lets a broken run pass;
one that is too strong is found by any run, too.
"""

import random
from collections.abc import Callable, Iterable
from functools import cache
from itertools import product
from typing import Any, NamedTuple, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from pointstamp.progress.pointstamp import Change, WorkerIndex
from pointstamp.topology.ports import Location, OperatorIndex
from pointstamp.verify.abstract_state import AbstractState, Batches, BrokenError, Counts
from pointstamp.verify.conformance import ModelRules
from pointstamp.verify.exchange_rules import is_justified
from pointstamp.verify.online import EpochWalker
from pointstamp.verify.shape import Edge, PortShape, Shape, Stamp, Walker
from pointstamp.verify.snapshot_rules import SnapshotRules
from pointstamp.worker.events import Counted, Notified, ProgressReceived, ProgressSent, SnapshotTaken
from pointstamp_models.catalogue.snapshot_programs import LOOP
from pointstamp_models.spec import snapshot_rules
from pointstamp_models.spec.combined import CombinedTracker
from pointstamp_models.spec.exchange import ExchangeState, Operation
from pointstamp_models.spec.graph import Graph, vectors
from pointstamp_models.spec.multiset import ZM, justified, zm
from pointstamp_models.spec.propagating import Configuration, PerLocation

LOCATIONS = 4
WORKERS = 2
TIMES = tuple(product(range(2), range(3)))
GRAPHS = 8
Frontiers: TypeAlias = list[frozenset[Stamp]]


class Pair(NamedTuple):
    """One graph, as the judge has it and as the models have it; pointstamps have the same numbers."""

    shape: Shape
    tracker: CombinedTracker

    def walker(self, kind: Callable[[Shape], Walker] = Walker) -> Walker:
        walker = kind(self.shape)
        for number, (location, time) in enumerate(self.tracker.pointstamps):
            assert walker.point(location, time) == number
        return walker


@cache
def pair(seed: int) -> Pair:
    """A random graph: forward edges that add something or nothing, backward edges that add something."""
    chance = random.Random(seed)
    labels: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for origin, target in product(range(LOCATIONS), repeat=2):
        if origin < target and chance.random() < 0.7:
            labels[origin, target] = {
                (chance.randrange(2), chance.randrange(2)) for _ in range(chance.choice((1, 1, 2)))
            }
        elif origin > target and chance.random() < 0.3:
            labels[origin, target] = {chance.choice(((1, 0), (0, 1), (0, 2)))}
    names = [f"p{number}" for number in range(LOCATIONS)]
    graph: Graph[Any, Any] = Graph(
        names, {(names[a], names[b]): each for (a, b), each in labels.items()}, vectors(2)
    )
    edges = [Edge(a, b, added) for (a, b), each in labels.items() for added in sorted(each)]
    # Each location is an operator of its own: the first an output, the others inputs.
    ports = [PortShape(f"port of '{name}'", number, number == 0, 1) for number, name in enumerate(names)]
    tracker = CombinedTracker(graph, [[("p0", (0, 0))]] * WORKERS, times=TIMES, ops=0)
    return Pair(Shape(tuple(ports), tuple(edges)), tracker)


POINTS = range(LOCATIONS * len(TIMES))
pairs = st.integers(0, GRAPHS - 1).map(pair)
chances = st.randoms(use_true_random=False)


def some(chance: random.Random, low: int, high: int, most: int = 5) -> Counts:
    """A few points with counts in a range, none of them zero."""
    picked = chance.sample(POINTS, chance.randrange(most + 1))
    counts = {point: chance.randint(low, high) for point in picked}
    return {point: count for point, count in counts.items() if count}


def zm_of(counts: Counts) -> ZM:
    return zm(counts.items())


def state_of(of: Pair, **parts: Any) -> AbstractState:  # noqa: ANN401 - any variable of the state
    state = AbstractState(of.walker(), WORKERS)
    for name, value in parts.items():
        setattr(state, name, value)
    return state


def broken_by(act: Callable[[], None]) -> str:
    """The property that is broken, or ""."""
    try:
        act()
    except BrokenError as rule:
        return rule.property
    return ""


def exchange_state(caps: Counts) -> ExchangeState:
    nothing = ((),) * WORKERS
    owned = (zm_of(caps), *nothing[1:])
    return ExchangeState(owned, nothing, nothing, ((((),) * WORKERS),) * WORKERS, nothing, 0)


# Order.


@settings(max_examples=60)
@given(pairs, chances)
def test_could_result_in_is_that_of_the_graph(of: Pair, chance: random.Random) -> None:
    order = of.tracker.exchange.order
    for walker in (of.walker(), of.walker(EpochWalker)):
        for upper in chance.sample(POINTS, 6):
            lowers = chance.sample(POINTS, 4)
            assert [walker.less(lower, upper) for lower in lowers] == [
                order.less(lower, upper) for lower in lowers
            ]
            assert walker.less_any(lowers, upper) == any(order.less(lower, upper) for lower in lowers)


def implied_by_spec(of: Pair, counts: Counts) -> Frontiers:
    pts = of.tracker.by_location(zm_of(counts))
    return [of.tracker.graph.implied_frontier(pts, at) for at in of.tracker.graph.locations()]


@settings(max_examples=60)
@given(pairs, chances)
def test_implied_frontiers_are_those_of_the_graph(of: Pair, chance: random.Random) -> None:
    counts = some(chance, -2, 3)
    positive = [point for point, count in counts.items() if count > 0]
    for walker in (of.walker(), of.walker(EpochWalker)):
        assert list(walker.implied_frontiers(positive)) == implied_by_spec(of, counts)


# Exchange.


@settings(max_examples=200)
@given(pairs, chances)
def test_what_is_untold_is_justified_as_the_model_says(of: Pair, chance: random.Random) -> None:
    owned, untold = some(chance, 1, 2), some(chance, -2, 2)
    order = of.tracker.exchange.order
    assert is_justified(of.walker(), owned, untold) == justified(order, zm_of(owned), zm_of(untold))


@settings(max_examples=200)
@given(pairs, chances)
def test_what_may_be_dropped_and_minted_is_what_the_model_allows(of: Pair, chance: random.Random) -> None:
    owned, held = some(chance, 1, 2), some(chance, -2, 1, most=2)
    state = state_of(of, caps=[owned, {}])
    state.activations[0].held = dict(held)
    found = broken_by(lambda: ModelRules(state).exchange._check_capabilities(0))
    operation = Operation(
        zm((point, -count) for point, count in held.items() if count < 0),
        ((),) * WORKERS,
        zm((point, count) for point, count in held.items() if count > 0),
    )
    model, before = of.tracker.exchange, exchange_state(owned)
    assert (found == "") == (model.may_drop(before, 0, operation) and model.may_mint(before, 0, operation)), (
        found
    )
    if found == "DnegOwned":
        assert not model.may_drop(before, 0, operation)
    if found == "DselfAbove":
        assert not model.may_mint(before, 0, operation)


@settings(max_examples=200)
@given(pairs, chances)
def test_what_may_be_sent_is_what_the_model_allows(of: Pair, chance: random.Random) -> None:
    """The rule also asks for the way: from an output where the sender could mint, to what lies above it."""
    owned = some(chance, 1, 2, most=2)
    source, target = chance.choice(POINTS), chance.choice(POINTS)
    state = state_of(of, caps=[owned, {}])
    state.activations[0].sent = [(source, target, 1)]
    found = broken_by(lambda: ModelRules(state).exchange._check_messages(0))
    model, before = of.tracker.exchange, exchange_state(owned)
    nothing = ((),) * WORKERS
    may_mint = model.may_mint(before, 0, Operation((), nothing, zm([(source, 1)])))
    assert (found == "") == (may_mint and model.order.less(source, target))
    assert (found == "DdataAbove") == (not may_mint)
    if not found:
        assert model.may_send_data(before, 0, Operation((), ((), zm([(target, 1)])), ()))


@settings(max_examples=200)
@given(pairs, chances)
def test_what_may_be_told_is_what_the_model_allows(of: Pair, chance: random.Random) -> None:
    owned, untold = some(chance, 1, 2), some(chance, -2, 2)
    told = {
        point: untold[point] for point in chance.sample(sorted(untold), chance.randrange(len(untold) + 1))
    }
    if chance.random() < 0.3:
        told = {**told, chance.choice(POINTS): 3}
    state = state_of(of, caps=[owned, {}], temp=[dict(untold), {}])
    points = of.tracker.pointstamps
    changes = [Change(Location(points[point][0]), points[point][1], count) for point, count in told.items()]
    event = ProgressSent(WorkerIndex(0), 0, tuple(changes))
    found = broken_by(lambda: ModelRules(state).exchange.progress_sent(event))
    is_part = all(untold.get(point, 0) == count for point, count in told.items())
    assert (found == "SendUpdEnabled") == (not is_part)
    if is_part:
        rest = zm((point, count) for point, count in untold.items() if point not in told)
        may = of.tracker.exchange.may_hold_back(exchange_state(owned), 0, rest)
        assert found == ("" if may else "TempJustified")


def network(chance: random.Random) -> tuple[list[Counts], list[Counts], list[Counts], list[list[Counts]]]:
    caps, data = ([some(chance, 1, 2, most=2) for _ in range(WORKERS)] for _ in range(2))
    temp = [some(chance, -2, 2, most=2) for _ in range(WORKERS)]
    batches = [[some(chance, -2, 2, most=2) for _ in range(chance.randrange(3))] for _ in range(WORKERS)]
    return caps, data, temp, batches


@settings(max_examples=150)
@given(pairs, chances)
def test_the_record_count_is_that_of_the_model(of: Pair, chance: random.Random) -> None:
    caps, data, temp, batches = network(chance)
    heard = [[chance.randrange(len(sent) + 1) for sent in batches] for _ in range(WORKERS)]
    state = state_of(of, caps=caps, data=data, temp=temp, heard=heard, sent=[Batches(0, b) for b in batches])
    state._rec_at = [{} for _ in range(LOCATIONS)]
    for point in {point for counts in (*caps, *data) for point in counts}:
        state._rec_at[of.tracker.pointstamps[point][0]][point] = sum(
            counts.get(point, 0) for counts in (*caps, *data)
        )
    # What makes it right, and sometimes not.
    for q in range(WORKERS):
        known = [state.unheard(q), *temp]
        state.glob[q] = {
            point: count
            for point in POINTS
            if (count := state.rec(point) - sum(part.get(point, 0) for part in known))
        }
        if chance.random() < 0.3:
            point = chance.choice(POINTS)
            state.glob[q] = {**state.glob[q], point: state.glob[q].get(point, 0) + 1}
    found = broken_by(ModelRules(state).exchange.check_record_count)
    msg = tuple(
        tuple(tuple(zm_of(batch) for batch in batches[w][heard[q][w] :]) for q in range(WORKERS))
        for w in range(WORKERS)
    )
    owned, carried, untold = (tuple(map(zm_of, part)) for part in (caps, data, temp))
    whole = ExchangeState(owned, carried, untold, msg, tuple(map(zm_of, state.glob)), 0)
    assert (found == "") == of.tracker.exchange.record_count(whole), found


# Combined.


def imp_of(frontiers: Iterable[frozenset[Stamp]]) -> PerLocation:
    return tuple(tuple((time, 1) for time in sorted(times)) for times in frontiers)


def random_frontiers(of: Pair, chance: random.Random) -> Frontiers:
    """Frontiers that have converged: those of random counts."""
    return implied_by_spec(of, some(chance, 1, 1, most=3))


@settings(max_examples=200)
@given(pairs, chances)
def test_frontiers_expect_a_change_as_the_model_says(of: Pair, chance: random.Random) -> None:
    shown, batch = random_frontiers(of, chance), some(chance, -2, 2, most=2)
    state = state_of(of, shown=[shown, shown], sent=[Batches(0, [batch]), Batches()], glob=[{}, {}])
    points = of.tracker.pointstamps
    counts = tuple(Counted(Location(points[p][0]), points[p][1], count) for p, count in batch.items())
    event = ProgressReceived(WorkerIndex(1), WorkerIndex(0), 0, counts)
    found = broken_by(lambda: ModelRules(state).exchange.progress_received(event))
    conf = Configuration(((),) * LOCATIONS, imp_of(shown), ((),) * LOCATIONS)
    assert (found == "") == of.tracker.can_change(conf, zm_of(batch)), found


@settings(max_examples=200)
@given(pairs, chances)
def test_what_exists_is_passed_by_no_frontier_as_the_model_says(of: Pair, chance: random.Random) -> None:
    shown, exists = random_frontiers(of, chance), some(chance, 1, 2, most=2)
    state = state_of(of, shown=[shown, None])
    state._rec_at = [{} for _ in range(LOCATIONS)]
    for point, count in exists.items():
        state._rec_at[of.tracker.pointstamps[point][0]][point] = count
    rules = ModelRules(state).exchange

    def check() -> None:
        for point in exists:
            rules.check_exists_safely(point, range(WORKERS))

    found = broken_by(check)
    assert (found == "") == of.tracker.expects(zm_of(exists), imp_of(shown))


@settings(max_examples=200)
@given(pairs, chances)
def test_a_frontier_moves_back_where_the_model_says_so(of: Pair, chance: random.Random) -> None:
    before, after = random_frontiers(of, chance), random_frontiers(of, chance)
    rules = ModelRules(state_of(of))._frontiers

    def check() -> None:
        for at in range(LOCATIONS):
            rules._check_not_back(0, at, before[at], after[at])

    assert (broken_by(check) == "") == of.tracker.no_regress(imp_of(before), imp_of(after))


@settings(max_examples=150)
@given(pairs, chances)
def test_frontiers_have_converged_where_the_model_says_so(of: Pair, chance: random.Random) -> None:
    counts = some(chance, -1, 2, most=3)
    implied = implied_by_spec(of, counts)
    shown = implied if chance.random() < 0.5 else random_frontiers(of, chance)
    state = state_of(of, glob=[counts, {}])
    found = broken_by(lambda: ModelRules(state)._frontiers._check_converged(0, shown))
    pts = of.tracker.by_location(zm_of(counts))
    assert (found == "") == of.tracker.propagation.converged(
        Configuration(pts, imp_of(shown), ((),) * LOCATIONS)
    )


@settings(max_examples=150)
@given(pairs, chances, st.sampled_from(TIMES), st.integers(1, LOCATIONS - 1))
def test_a_time_may_be_told_where_nothing_is_expected_at_it(
    of: Pair, chance: random.Random, time: Stamp, operator: int
) -> None:
    shown = random_frontiers(of, chance)
    state = state_of(of, shown=[shown, shown])
    event = Notified(WorkerIndex(0), OperatorIndex(operator), time)
    found = broken_by(lambda: ModelRules(state)._frontiers.notified(event))
    conf = Configuration(((),) * LOCATIONS, imp_of(shown), ((),) * LOCATIONS)
    assert (found == "") == (not of.tracker.propagation.may_change(conf, operator, time))


# Snapshots.


@settings(max_examples=200)
@given(pairs, chances, st.integers(0, LOCATIONS - 1), st.integers(0, 1))
def test_a_snapshot_may_be_taken_where_the_model_allows_it(
    of: Pair, chance: random.Random, operator: int, epoch: int
) -> None:
    owned, asked = some(chance, 1, 1, most=2), {(2, 0), (chance.randrange(3), 1)}
    state = state_of(of, caps=[owned, {}], asked=[{operator: asked}, {}])
    state._rec_at = [{} for _ in range(LOCATIONS)]
    for point, count in owned.items():
        state._rec_at[of.tracker.pointstamps[point][0]][point] = count
    rules = SnapshotRules(state, range(LOCATIONS), -1)
    event = SnapshotTaken(WorkerIndex(0), OperatorIndex(operator), epoch)
    found = broken_by(lambda: rules.take(event))
    mine = [time for at, time in (of.tracker.pointstamps[point] for point in owned) if at == operator]
    held = tuple((time, 0) for time in sorted([*mine, *asked]))
    model = snapshot_rules.SnapshotRules(LOOP, failures=0)
    (before,) = model.initial()
    done = model.own_work_done(before._replace(held=(held, *before.held[1:])), 0, epoch)
    arrives = operator != 0 and any(time[0] <= epoch for time in implied_by_spec(of, owned)[operator])
    assert (found == "SnapshotOwnWorkDone") == (not done)
    assert (found == "") == (done and not arrives), found
