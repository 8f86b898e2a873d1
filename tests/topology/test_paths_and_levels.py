"""Compiled summaries and the linear extension on random graphs with nested loops, against walks of the graph.

Families:
- oracle_*: path summaries applied to a time give the implied frontier that a walk with plain functions finds;
- linear extension: the sort key grows along every edge, at every time: termination depends on it.
"""

from hypothesis import given
from hypothesis import strategies as st

from pointstamp.topology.levels import point_key
from pointstamp.topology.paths import PathSummaries
from pointstamp.topology.ports import Location
from support.nets import Net, below, nets

coordinates = st.lists(st.integers(0, 5), min_size=4, max_size=4)


@given(nets(), st.data(), coordinates)
def test_oracle_path_summaries_give_what_a_walk_finds(
    net: Net, data: st.DataObject, parts: list[int]
) -> None:
    paths = PathSummaries(net.graph)
    start = data.draw(st.integers(0, len(net.rounds) - 1))
    time = tuple(parts[: 1 + net.rounds[start]])
    walked = net.implied_frontiers([(start, time)])
    row = paths.row(Location(start))
    for number, expected in enumerate(walked):
        arrivals = {summary.results_in(time) for summary in row.get(Location(number), ())}
        assert arrivals >= expected
        for arrival in arrivals:
            assert arrival is not None
            assert any(below(lower, arrival) for lower in expected)


@given(nets(), coordinates)
def test_minimal_summaries_are_incomparable_and_a_port_reaches_itself(net: Net, parts: list[int]) -> None:
    for (origin, target), summaries in PathSummaries(net.graph).all_pairs().items():
        for a in summaries:
            assert sum(1 for b in summaries if b.less_equal(a)) == 1
        if origin == target:
            time = tuple(parts[: 1 + net.rounds[origin]])
            assert time in {summary.results_in(time) for summary in summaries}


@given(nets(), coordinates)
def test_no_cycle_leads_back_to_its_time_or_before_it(net: Net, parts: list[int]) -> None:
    """Strict cycles: what starts with at least one hop and comes back is never at or below the start."""
    for origin, first, move in net.edges:
        start = tuple(parts[: 1 + net.rounds[origin]])
        returned = net.implied_frontiers([(first, move(start))])[origin]
        assert not any(below(time, start) for time in returned)


@given(nets(), coordinates)
def test_the_sort_key_grows_along_every_edge_and_with_every_later_time(net: Net, parts: list[int]) -> None:
    graph = net.graph
    keys = [point_key(domain, levels) for domain, levels in zip(graph.domains, graph.levels, strict=True)]
    for origin, target, move in net.edges:
        time = tuple(parts[: 1 + net.rounds[origin]])
        assert keys[origin](time) < keys[target](move(time))
    for number, rounds in enumerate(net.rounds):
        time = tuple(parts[: 1 + rounds])
        for i in range(len(time)):
            later = (*time[:i], time[i] + 1, *time[i + 1 :])
            assert keys[number](time) < keys[number](later)
