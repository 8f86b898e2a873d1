"""Strongly connected components, against reachability computed by brute force."""

from hypothesis import given
from hypothesis import strategies as st

from pointstamp.order.components import strongly_connected_components

graphs = st.integers(1, 7).flatmap(
    lambda size: st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1))).map(
        lambda edges: (size, edges)
    )
)


@given(graphs)
def test_components_are_the_mutually_reachable_and_none_reaches_an_earlier_one(
    graph: tuple[int, set[tuple[int, int]]],
) -> None:
    size, edges = graph
    reaches = {(node, node) for node in range(size)} | set(edges)
    for middle in range(size):
        reaches |= {(a, b) for a in range(size) for b in range(size) if {(a, middle), (middle, b)} <= reaches}

    found = strongly_connected_components(range(size), lambda node: [b for a, b in edges if a == node])

    assert sorted(node for component in found for node in component) == list(range(size))
    place = {node: position for position, component in enumerate(found) for node in component}
    for a in range(size):
        for b in range(size):
            assert (place[a] == place[b]) == ({(a, b), (b, a)} <= reaches)
            if (a, b) in reaches:
                assert place[a] <= place[b]


def test_a_chain_of_a_hundred_thousand_nodes_is_no_problem() -> None:
    size = 100_000
    found = strongly_connected_components(range(size), lambda node: [(node + 1) % size])
    assert len(found) == 1
