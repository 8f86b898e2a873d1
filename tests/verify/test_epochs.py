"""The walker that remembers its answers for all epochs at once, which the judge of a running query asks.

Families, and what only each can find:
- *oracle* (hypothesis): every answer is that of ``Walker``, which remembers nothing of other epochs, for any
  pointstamps of flows with loops in loops and with ways that delay by epochs. Only this finds an answer that
  was right for one epoch and is given for another;
- *memory*: that what is remembered is handed on, is bounded, and is not asked for again;
- *justified* (hypothesis): that the judge's own form of the predicate is that of the models;
- *kinds of events*: that there is a rule, or none on purpose, for each.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pointstamp.verify import online
from pointstamp.verify.abstract_state import AbstractState
from pointstamp.verify.conformance import ModelRules
from pointstamp.verify.exchange_rules import is_justified
from pointstamp.verify.online import EpochWalker
from pointstamp.verify.plan_shape import shape_of
from pointstamp.verify.shape import Shape, Walker
from pointstamp.verify.snapshot_rules import SnapshotRules
from pointstamp.worker.events import Event
from pointstamp_models.spec.multiset import justified
from support.recoverables import FLOWS as RECOVERABLE
from support.worlds import busy_flow, nested_flow

FLOWS = {"busy": busy_flow, "nested": nested_flow, "delayed": RECOVERABLE["delayed"]}
Place = tuple[int, tuple[int, ...]]


@cache
def shape(name: str) -> Shape:
    return shape_of(FLOWS[name]().plan)


def places(of: Shape, points: st.DataObject, most: int) -> list[Place]:
    """Any pointstamps of a flow; several epochs and rounds, so that many are incomparable."""
    found = []
    for _ in range(points.draw(st.integers(1, most))):
        location = points.draw(st.integers(0, len(of.ports) - 1))
        rounds = [points.draw(st.integers(0, 3)) for _ in range(of.ports[location].rounds)]
        found.append((location, (points.draw(st.integers(0, 4)), *rounds)))
    return found


def later(points: list[Place], delay: int) -> list[Place]:
    return [(location, (time[0] + delay, *time[1:])) for location, time in points]


# Oracle.


@settings(max_examples=100)
@given(st.sampled_from(sorted(FLOWS)), st.lists(st.integers(0, 50), min_size=1, max_size=3), st.data())
def test_what_could_result_in_what_is_the_same_in_every_epoch(
    name: str, delays: list[int], data: st.DataObject
) -> None:
    walker = EpochWalker(shape(name))
    found = places(shape(name), data, 6)
    for delay in delays:
        oracle = Walker(shape(name))
        mine = [walker.point(*each) for each in later(found, delay)]
        known = [oracle.point(*each) for each in later(found, delay)]
        for upper, right in zip(mine, known, strict=True):
            less = [oracle.less(lower, right) for lower in known]
            assert [walker.less(lower, upper) for lower in mine] == less
            assert walker.less_any(mine, upper) == any(less) == oracle.less_any(known, right)
        walker = walker.fresh()


@settings(max_examples=100)
@given(st.sampled_from(sorted(FLOWS)), st.lists(st.integers(0, 50), min_size=1, max_size=3), st.data())
def test_implied_frontiers_are_the_same_in_every_epoch(
    name: str, delays: list[int], data: st.DataObject
) -> None:
    walker = EpochWalker(shape(name))
    found = places(shape(name), data, 12)
    for delay in delays:
        oracle = Walker(shape(name))
        implied = oracle.implied_frontiers([oracle.point(*each) for each in later(found, delay)])
        mine = [walker.point(*each) for each in later(found, delay)]
        assert walker.implied_frontiers(mine) == implied
        assert walker.implied_frontiers(walker.earliest(mine)) == implied
        walker = walker.fresh()


def test_nothing_implies_that_everything_is_complete() -> None:
    assert EpochWalker(shape("nested")).implied_frontiers([]) == (frozenset(),) * len(shape("nested").ports)


def test_the_earliest_are_one_of_each_place() -> None:
    walker = EpochWalker(shape("nested"))
    inside = next(number for number, port in enumerate(shape("nested").ports) if port.rounds == 1)
    points = [walker.point(inside, time) for time in ((5, 1), (3, 1), (4, 1), (2, 0), (9, 2))]
    assert sorted(walker.points[point][1] for point in walker.earliest(points)) == [(2, 0), (3, 1), (9, 2)]


# Memory.


def noted_walks(monkeypatch: pytest.MonkeyPatch) -> list[Walker]:
    """Notes every walk over the edges."""
    walks: list[Walker] = []
    walk = Walker._walk

    def noted(self: Walker, points: Iterable[Place]) -> tuple[frozenset[Any], ...]:
        walks.append(self)
        return walk(self, points)

    monkeypatch.setattr(Walker, "_walk", noted)
    return walks


def test_a_later_epoch_is_not_walked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    walks = noted_walks(monkeypatch)
    walker = EpochWalker(shape("nested"))
    seen = []
    for epoch in range(5):
        points = [walker.point(0, (epoch,)), walker.point(1, (epoch + 1,))]
        walker.implied_frontiers(points)
        walker.less(*points)
        seen.append(len(walks))
        walker = walker.fresh()
    assert seen[0] > 0
    assert set(seen) == {seen[0]}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online, "REMEMBERED_MAX", 10)
    walks = noted_walks(monkeypatch)
    walker = EpochWalker(shape("nested"))
    walker.implied_frontiers([walker.point(0, (0,))])
    forgetful = walker.fresh()
    forgetful.implied_frontiers([forgetful.point(0, (0,))])
    assert walks == [walker, forgetful]


# Justified.


@settings(max_examples=200)
@given(st.sampled_from(sorted(FLOWS)), st.data())
def test_what_is_justified_is_what_the_models_call_so(name: str, data: st.DataObject) -> None:
    walker = EpochWalker(shape(name))
    points = sorted({walker.point(*each) for each in places(shape(name), data, 6)})
    owned = {point: count for point in points if (count := data.draw(st.integers(0, 2)))}
    untold = {point: count for point in points if (count := data.draw(st.integers(-2, 3)))}
    models = justified(walker, tuple(owned.items()), tuple(untold.items()))
    assert is_justified(walker, owned, untold) == models


# Kinds of events.


def test_every_kind_of_event_has_its_rules() -> None:
    state = AbstractState(EpochWalker(shape("busy")), 2)
    kinds = set(get_args(Event))
    assert set(ModelRules(state).of) == kinds
    assert set(SnapshotRules(state, [], -1).rules) == kinds


def test_a_flow_with_times_of_its_own_is_refused() -> None:
    own = Shape((), (), has_own_times=True)
    with pytest.raises(ValueError, match="custom times"):
        EpochWalker(own)
