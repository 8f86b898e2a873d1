"""Strongly connected components of a preorder, in a linear extension.

A relation generates a preorder (its reflexive and transitive closure). Elements that reach each other form
its classes, and the classes are partially ordered; they are listed so that no class reaches an earlier one.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def strongly_connected_components(
    nodes: Iterable[N], successors: Callable[[N], Iterable[N]]
) -> list[tuple[N, ...]]:
    """The strongly connected components of a finite relation, in topological order.

    Tarjan's algorithm with an explicit stack, so the depth of the graph is not limited.

        >>> edges = {"a": "b", "b": "cd", "c": "b", "d": ""}
        >>> [sorted(component) for component in strongly_connected_components("abcd", edges.__getitem__)]
        [['a'], ['b', 'c'], ['d']]
    """
    number: dict[N, int] = {}
    low: dict[N, int] = {}
    open_nodes: list[N] = []
    is_open: set[N] = set()
    path: list[tuple[N, Iterator[N]]] = []
    found: list[tuple[N, ...]] = []

    def descend(node: N) -> None:
        number[node] = low[node] = len(number)
        open_nodes.append(node)
        is_open.add(node)
        path.append((node, iter(successors(node))))

    def close(node: N) -> None:
        """Leave a node for good; if nothing open lies above it, it is the root of a component."""
        path.pop()
        if path:
            parent = path[-1][0]
            low[parent] = min(low[parent], low[node])
        if low[node] == number[node]:
            members: list[N] = []
            while not members or members[-1] != node:
                members.append(open_nodes.pop())
            is_open.difference_update(members)
            found.append(tuple(reversed(members)))

    for root in nodes:
        if root not in number:
            descend(root)
        while path:
            node, rest = path[-1]
            for successor in rest:
                if successor not in number:
                    descend(successor)
                    break
                if successor in is_open:
                    low[node] = min(low[node], number[successor])
            else:
                close(node)
    found.reverse()
    return found
